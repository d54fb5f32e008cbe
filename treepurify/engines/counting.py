"""Count the rows in a model's cells batch by batch."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import DEFAULT_BUDGET
from treepurify.effects.accumulate import ensemble_cuts, leaf_boxes
from treepurify.engines.inputs import row_weights
from treepurify.engines.layout import check_memory
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import encode_rows, make_grid
from treepurify.models.parse import parse_model
from treepurify.models.tables import AdditiveTables
from treepurify.purification.cascade import downward_closure
from treepurify.weights import CountedCells, Rows
from treepurify.weights.empirical import count_rows

__all__ = ["count_cells"]


def count_cells(
    model: Any,
    batches: Iterable[Any],
    *,
    sample_weights: Iterable[npt.ArrayLike] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
) -> CountedCells:
    """Count rows batch by batch, for data that do not fit in memory.

    Parameters
    ----------
    model : object, str or Path
        A tree ensemble, or what `parse_model` returned.
    batches : iterable of array_like or tables
        The rows.
    sample_weights : iterable of array_like, optional
        Weights of the rows of each batch.
    memory_budget : int
        Bytes that tables may take.

    Returns
    -------
    CountedCells
        A weighting for ``purify(model, weights=...)``. Axes have cells for missing values
        and unknown categories, since later batches may have them.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = tp.parse_model(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]))
    >>> counts = tp.count_cells(model, [X[:2], X[2:]])
    >>> float(tp.purify(model, weights=counts).intercept[0])
    0.25
    """
    parsed = parse_model(model)
    if isinstance(parsed, AdditiveTables):
        raise InvalidInputError("an EBM keeps the counts of its own bins: purify it without X")
    grid, _ = make_grid(
        None,
        parsed.features,
        ensemble_cuts(parsed),
        match_names=parsed.has_feature_names,
        missing_cells="always",
    )
    subsets = downward_closure(leaf_boxes(parsed, grid).subsets)
    check_memory([grid.subset_axes(subset) for subset in subsets], 1, memory_budget)
    total = CountedCells(grid, {subset: np.zeros(grid.shape(subset)) for subset in subsets})
    weights = iter(sample_weights) if sample_weights is not None else repeat(None)
    for number, batch in enumerate(batches, start=1):
        columns = parsed.columns(batch)
        try:
            own = row_weights(columns, Rows(batch, next(weights)), None)
        except StopIteration:
            raise InvalidInputError(
                f"sample_weights ended before batch {number}; give one array a batch"
            ) from None
        rows, _ = encode_rows(columns, grid.axes)
        counts = count_rows(grid, replace(rows, weights=own), subsets)
        total = total.merge(CountedCells(grid, counts))
    return total
