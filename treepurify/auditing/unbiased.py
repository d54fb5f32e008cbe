"""Which effect sizes are real: variances of effects without the noise of few rows."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.auditing.audit import check_streamed_model
from treepurify.auditing.split_products import (
    N_PARTS,
    TRIPLES,
    PartSums,
    part_sums,
    sums_of_split,
)
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.engines.tree.purify import purify
from treepurify.engines.tree.refits import read_refits
from treepurify.errors import InvalidInputError
from treepurify.models.parse import parse_model
from treepurify.progress import ProgressReport, progress_report
from treepurify.rows.batches import Source
from treepurify.rows.resampling import OnePart, ResampledSource, Split
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.sources import as_source
from treepurify.rows.tables import check_table, take_rows
from treepurify.typing import Array, Indices
from treepurify.value_stream import value_stream
from treepurify.weights import Weighting

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["unbiased_importance"]

_LEAST_ROWS = 6
# The chance that one of three parts gets none of so many rows is below 1e-9.
_LEAST_STREAMED_ROWS = 60


def unbiased_importance(
    model: Any,
    X: Any,
    *,
    weights: str | Weighting = "empirical",
    order: int | None = 2,
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    repeats: int = 5,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> "pd.DataFrame":
    """Return how much each component matters, with the noise of few rows taken out.

    The variance of a component is that of the effect and of the noise that the rows, as a sample,
    leave in it; with few rows that of an interaction can be mostly noise. So the rows are split
    into three parts. The model is purified under two of them, and the mean
    product of the two components over the third, centred there, is free of that noise: the
    squared norm of what such a part of the rows gives in the mean. It can be negative where
    there is nothing. Parts take turns, and several splits are averaged.

    Parameters
    ----------
    model : object, str or Path
        A trained model, a model file, or what `parse_model` returned. Two or more of these in a
        list, or as `Refits`, as `purify` takes them.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows; where there are any, those that the model was not trained on. Rows in batches,
        as `purify` takes them, are read four times or more for each split. The part that one of
        them belongs to is drawn for it alone, from its file and position, so that parts are only
        nearly of the same size.
    weights : str or Weighting
        The distribution of the features; see `purify`.
    order : int or None
        Largest number of features of a component that is kept apart; see `purify`.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. For rows in batches, the name of the column
        of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    repeats : int
        Number of splits.
    seed : int
        Seed of the splits.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated. It holds for each
        purification.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    DataFrame
        `Decomposition.importance` under all rows, with two more columns, in its units.
        ``unbiased_variance`` is the corrected variance. ``sampling_variance`` is the mean
        square by which a component from all rows is off because they are a sample: half the
        mean squared difference of the components of two parts, over three, as if errors fell
        with the root of the number of rows. Both are NaN for the remainder. Of several models,
        ``training_variance`` stands beside it: how far the training, and how far the rows.

    Raises
    ------
    InvalidInputError
        If there are fewer than six rows of positive weight (60 rows in batches), or an option
        cannot be used; see also `purify`.
    MemoryBudgetError
        If the tables would not fit.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = X[:, 0] + rng.normal(size=500)
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, y)
    >>> table = tp.unbiased_importance(model, X, repeats=2)
    >>> [name for name in table if name.endswith("_variance")]
    ['unbiased_variance', 'sampling_variance']
    """
    check_whole("repeats", repeats, 1)
    check_whole("seed", seed, 0)
    source = as_source(X)
    if source is None:
        check_table(X)
        refits = read_refits(model, X, feature_names, memory_budget)
        parsed = parse_model(model, X=X) if refits is None else refits.centre
    else:
        X, parsed = source, parse_model(check_streamed_model(model, source))
    report = progress_report(progress)

    def purified(rows: Any, weight_of_rows: Any, what: Any = parsed) -> Decomposition:
        return purify(
            what,
            rows,
            weights=weights,
            order=order,
            sample_weight=weight_of_rows,
            feature_names=feature_names,
            # A part of the rows may have no missing value where another has one.
            missing_cells="always",
            memory_budget=memory_budget,
            progress=False,
        )

    whole = purified(X, sample_weight, model)
    if source is None:
        splits = _splits_of_table(purified, whole, X, sample_weight, seed)
    else:
        splits = _splits_of_stream(purified, whole, source, sample_weight, seed, report)
    product, difference = np.zeros((2, len(whole), whole.n_outputs))
    for step in range(repeats):
        report("purifying parts of the rows", step, repeats)
        for sums in next(splits):
            product += sums.product / (N_PARTS * repeats)
            difference += sums.difference / (N_PARTS * repeats)
    table = whole.importance()
    names = [whole.term_name(subset) for subset in whole.components]
    for column, values in (
        ("unbiased_variance", product),
        ("sampling_variance", difference / (2 * N_PARTS)),
    ):
        table[column] = _looked_up(table, names, values, whole.output_names)
    return table


def _splits_of_table(
    purified: Callable[..., Decomposition],
    whole: Decomposition,
    X: Any,
    sample_weight: npt.ArrayLike | None,
    seed: int,
) -> Iterator[list[PartSums]]:
    """Yield the sums of one split after the other, into parts of the same size."""
    n_rows = whole.diagnostics["rows"]
    row_weights = read_row_weights(sample_weight, n_rows)
    counted = np.arange(n_rows) if row_weights is None else np.flatnonzero(row_weights > 0)
    if len(counted) < _LEAST_ROWS:
        raise InvalidInputError(
            f"effects of {N_PARTS} parts of the rows are compared, which takes {_LEAST_ROWS} rows "
            f"of positive weight; X has {len(counted)}"
        )
    rng = np.random.default_rng(seed)
    subsets = tuple(whole.components)
    while True:
        parts: list[Indices] = np.array_split(rng.permutation(counted), N_PARTS)
        own = [None if row_weights is None else row_weights[part] for part in parts]
        tables = [take_rows(X, part) for part in parts]
        of_parts = [purified(*both) for both in zip(tables, own, strict=True)]
        yield [
            part_sums(
                (of_parts[one], of_parts[two]),
                subsets,
                of_parts[one].inputs.columns(tables[third]),
                row_shares(len(parts[third]), own[third]),
            )
            for one, two, third in TRIPLES
        ]


def _splits_of_stream(
    purified: Callable[..., Decomposition],
    whole: Decomposition,
    source: Source,
    weight: Any,
    seed: int,
    report: ProgressReport,
) -> Iterator[list[PartSums]]:
    """Yield the sums of one split after the other; the part of a row belongs to its place."""
    n_rows = whole.diagnostics["rows"]
    if n_rows < _LEAST_STREAMED_ROWS:
        raise InvalidInputError(
            f"rows in batches are split one by one, and of fewer than {_LEAST_STREAMED_ROWS} a "
            f"part may get none; there are {n_rows}: pass them as a table"
        )
    stream = value_stream(whole, source, weight)
    for number in count():
        split = Split(seed, number, N_PARTS)
        of_parts = [
            purified(ResampledSource(source, OnePart(split, which)), weight)
            for which in range(N_PARTS)
        ]
        yield sums_of_split(of_parts, tuple(whole.components), stream, split, report)


def _looked_up(
    table: "pd.DataFrame", names: list[str], values: Array, outputs: Sequence[str]
) -> list[float]:
    """Return the value of each line of the table: of its term and its output."""
    of_term = dict(zip(names, values, strict=True))
    of_output = {output: k for k, output in enumerate(outputs)}
    places = (
        [of_output[name] for name in table["output"]] if "output" in table else [0] * len(table)
    )
    return [
        float(of_term[term][k]) if term in of_term else np.nan
        for term, k in zip(table["term"], places, strict=True)
    ]
