"""Count the rows in a model's cells batch by batch."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.engines.common.problem import closed_subsets, lay_out
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import encode_rows
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.parse import parse_model
from treepurify.rows.row_weights import read_row_weights, read_weights
from treepurify.weights import CountedCells, Uniform
from treepurify.weights.cell_counts import count_rows

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
        A trained model, a model file, or what `parse_model` returned.
    batches : iterable of array_like or tables
        The rows.
    sample_weights : iterable of array_like, optional
        Weights of the rows of each batch. Rows of weight zero change nothing.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.

    Returns
    -------
    CountedCells
        A weighting for ``purify(model, weights=...)``. Axes have cells for missing values
        and unknown categories, since later batches may have them.

    Raises
    ------
    InvalidInputError
        If the model is not an ensemble, or rows or weights cannot be used.
    MemoryBudgetError
        If the tables would not fit.

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
    check_memory_budget(memory_budget)
    if not isinstance(batches, Iterable) or isinstance(batches, str | bytes):
        raise InvalidInputError(
            f"batches must be a list or an iterator of tables, such as [X]; got {brief(batches)}"
        )
    parsed = parse_model(model)
    if isinstance(parsed, AdditiveTables):
        raise InvalidInputError("an EBM keeps the counts of its own bins: purify it without X")
    layout = lay_out(parsed, None, None, Uniform(), "union", "always", memory_budget)
    grid = layout.union_grid
    subsets = closed_subsets(layout.leaf_boxes.subsets, grid, 1, memory_budget)
    total = CountedCells(grid, {subset: np.zeros(grid.shape(subset)) for subset in subsets})
    weights = repeat(None) if sample_weights is None else _iterate(sample_weights)
    for number, batch in enumerate(batches, start=1):
        columns = parsed.columns(batch)
        try:
            batch_weights = next(weights)
        except StopIteration:
            raise InvalidInputError(
                f"sample_weights ended before batch {number}; give one array per batch"
            ) from None
        if batch_weights is not None:
            batch_weights = read_weights(batch_weights)
            if batch_weights.shape == (columns.n_rows,) and not batch_weights.any():
                # A single batch may have no weight; only all batches together must have some.
                continue
        weights_of_rows = read_row_weights(batch_weights, columns.n_rows)
        rows, _ = encode_rows(columns, grid.axes)
        counts = count_rows(grid, replace(rows, weights=weights_of_rows), subsets)
        total = total.merge(CountedCells(grid, counts))
    return total


def _iterate(sample_weights: Any) -> Iterator[Any]:
    if not isinstance(sample_weights, Iterable) or isinstance(sample_weights, str | bytes):
        raise InvalidInputError(
            "sample_weights must be a list or an iterator with one array for each batch, got "
            f"{brief(sample_weights)}"
        )
    return iter(sample_weights)
