"""Which effect sizes are real: variances of effects without the noise of few rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.auditing.audit import Audited, read_audited
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.engines.tree.purify import purify
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.models.parsed import Library
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.resampling import OnePart, ResampledSource, RowSplit
from treepurify.rows.row_weights import read_row_weights
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.tables import take_rows
from treepurify.typing import Array, Indices
from treepurify.value_stream import value_stream
from treepurify.weights import Weighting

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["unbiased_importance"]

_N_PARTS = 3
# Two parts whose effects are compared, and the third, on whose rows they are.
_TRIPLES = tuple((one, two, _N_PARTS - one - two) for one, two in combinations(range(_N_PARTS), 2))
_LEAST_ROWS = 6
# With this number of rows, the chance that one of three parts gets none is below 1e-9.
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
    """Estimate the variance of each effect without sampling noise, and the size of that noise.

    The rows are a sample, and their sampling noise adds to the variance of each effect. With few
    rows, the variance of an interaction can be mostly noise. To remove it, the rows are split into
    three parts. The model is purified under two of them, and the two versions of each effect are
    centred and multiplied on the third. The mean product estimates the squared norm of the expected
    effect under such a part of the rows, without the noise. It can be negative for effects that are
    absent. Each part serves once as the third, and several splits are averaged.

    Parameters
    ----------
    model : object, str or Path
        A trained model, a model file, or what `parse_model` returned. Several trainings are passed
        as a list or `Refits`, as in `purify`.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows, preferably rows that the model was not trained on. Rows in batches (see `purify`)
        are read at least four times for each split. Their parts are drawn for each row separately,
        from its file and position, so the parts have only approximately the same size.
    weights : str or Weighting
        The distribution of the features; see `purify`.
    order : int or None
        Largest number of features of an effect; see `purify`.
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
        Bytes that tables may take; more is refused before it is allocated. It applies to each
        purification.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    DataFrame
        `Decomposition.importance` for all rows, with two more columns in the same units (squared
        units of the margin). ``unbiased_variance`` is the corrected variance. ``sampling_variance``
        is the mean squared sampling error of an effect computed from all rows: half the mean
        squared difference between the effects of two parts, divided by three, assuming that errors
        are proportional to ``1 / sqrt(n_rows)``. It is a mean over samples of this size: one
        sample can be much further off where rows hardly determine an effect, as that of near
        copies. Do not quote an effect whose ``unbiased_variance`` is less than half of its
        ``variance``. Both are NaN for the remainder. For several
        models, ``training_variance`` is listed as well, to compare the variation due to training
        with that due to the rows.

    Raises
    ------
    InvalidInputError
        If there are fewer than six rows of positive weight (60 rows in batches), or an option
        cannot be used; see also `purify`.
    MemoryBudgetError
        If the tables would not fit.

    See Also
    --------
    Decomposition.importance : The table of all effects.
    with_sampling_error : The error of effects because the rows are a sample.
    refit : Several trainings of one model.

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
    audited = read_audited(model, X, feature_names, memory_budget)
    report = progress_report(progress)
    # Parts of the rows are not compared with the library once more.
    alone = audited.model.with_library(Library())

    def purified(rows: Any, weight_of_rows: Any, what: Any = alone) -> Decomposition:
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

    whole = purified(audited.rows, sample_weight, audited.first(model))
    stream = value_stream(whole, audited.rows, sample_weight)
    divisions = _divisions(audited, whole.origin.n_rows or 0, sample_weight, seed)
    product, difference = np.zeros((2, len(whole), whole.n_outputs))
    for step in range(repeats):
        report("purifying parts of the rows", step, repeats)
        split, rows_of_parts = next(divisions)
        # Workers need nothing of the rows of the measures.
        of_parts = tuple(replace(purified(*both), rows=None) for both in rows_of_parts)
        compared = _SplitSums(of_parts, tuple(whole.components), split)
        for sums in stream.reduce(compared, "comparing parts of the rows", report):
            product += sums.product / (_N_PARTS * repeats)
            difference += sums.difference / (_N_PARTS * repeats)
    table = whole.importance()
    names = [whole.term_name(subset) for subset in whole.components]
    for column, values in (
        ("unbiased_variance", product),
        ("sampling_variance", difference / (2 * _N_PARTS)),
    ):
        table[column] = _looked_up(table, names, values, whole.output_names)
    return table


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


def _divisions(
    audited: Audited, n_rows: int, sample_weight: Any, seed: int
) -> Iterator[tuple["_RowParts", list[tuple[Any, Any]]]]:
    """Yield one division of the rows after the other, and the rows and weights of its parts.

    Those of a table have the same size. In batches the part of a row belongs to its place.
    """
    source = audited.source
    if source is not None:
        if n_rows < _LEAST_STREAMED_ROWS:
            raise InvalidInputError(
                f"this needs at least {_LEAST_STREAMED_ROWS} rows if they come in batches, since "
                f"random parts of fewer rows may be empty; got {n_rows}: pass them as a table"
            )
        for number in count():
            split = RowSplit(seed, number, _N_PARTS)
            own = [ResampledSource(source, OnePart(split, which)) for which in range(_N_PARTS)]
            yield split, [(rows, sample_weight) for rows in own]
    weights = read_row_weights(sample_weight, n_rows)
    counted = np.arange(n_rows) if weights is None else np.flatnonzero(weights > 0)
    if len(counted) < _LEAST_ROWS:
        raise InvalidInputError(
            f"this compares the effects of {_N_PARTS} parts of the rows and needs {_LEAST_ROWS} "
            f"rows of positive weight; X has {len(counted)}"
        )
    rng = np.random.default_rng(seed)
    while True:
        picked = [counted[part] for part in np.array_split(rng.permutation(len(counted)), _N_PARTS)]
        # Rows without weight are in no part.
        labels = np.full(n_rows, _N_PARTS, dtype=np.intp)
        for which, rows_of_part in enumerate(picked):
            labels[rows_of_part] = which
        yield (
            _DrawnParts(labels),
            [
                (take_rows(audited.rows, rows), None if weights is None else weights[rows])
                for rows in picked
            ],
        )


class _RowParts(Protocol):
    """Which part each row belongs to; see `RowSplit`."""

    def parts(self, part: int, first_row: int, n_rows: int) -> Indices:
        """Return the part that each of some rows of a file or partition belongs to."""


@dataclass(frozen=True, eq=False)
class _DrawnParts:
    """The part of each row of a table."""

    labels: Indices

    def parts(self, part: int, first_row: int, n_rows: int) -> Indices:
        """Return the part of each of some rows."""
        del part
        return self.labels[first_row : first_row + n_rows]


@dataclass(frozen=True, eq=False)
class _PartSums:
    """Sums over the rows of one part, of the effects that two others give.

    Parameters
    ----------
    weight : float
        Sum of the weights.
    sums : ndarray of float64, shape (5, n_effects, n_outputs)
        Of the effects of both, of their product, their difference and its square.
    """

    weight: float
    sums: Array

    @property
    def product(self) -> Array:
        """Mean product of the centred effects, shape (n_effects, n_outputs)."""
        one, two, product, _, _ = self.sums / self.weight
        return np.asarray(product - one * two)

    @property
    def difference(self) -> Array:
        """Mean squared difference of the centred effects, shape (n_effects, n_outputs)."""
        _, _, _, difference, square = self.sums / self.weight
        return np.asarray(square - difference**2)


def _part_sums(
    pair: tuple[Decomposition, Decomposition],
    subsets: Sequence[Subset],
    columns: Columns,
    weights: Array,
) -> _PartSums:
    """Return the sums of two decompositions over some rows.

    Parameters
    ----------
    pair : tuple of Decomposition
        The decompositions.
    subsets : sequence of tuple of int
        The effects.
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_rows,)
        Their weights.
    """
    sums = np.zeros((5, len(subsets), pair[0].n_outputs))
    both = (evaluate_each([d.components[s] for s in subsets], columns) for d in pair)
    for i, (one, two) in enumerate(zip(*both, strict=True)):
        for k, values in enumerate((one, two, one * two, one - two, (one - two) ** 2)):
            sums[k, i] = weights @ values
    return _PartSums(float(weights.sum()), sums)


@dataclass(frozen=True, eq=False)
class _SplitSums:
    """The statistic of the sums for each of `_TRIPLES`."""

    of_parts: tuple[Decomposition, ...]
    subsets: tuple[Subset, ...]
    split: _RowParts

    def zero(self) -> list[_PartSums]:
        """Return the sums over no rows."""
        nothing = np.zeros((5, len(self.subsets), self.of_parts[0].n_outputs))
        return [_PartSums(0.0, nothing)] * len(_TRIPLES)

    def add(self, state: list[_PartSums], rows: RowBatch) -> list[_PartSums]:
        """Return the sums with those over a batch."""
        of_rows = self.split.parts(rows.part, rows.first_row, len(rows))
        weights = rows.counts
        own = []
        for one, two, third in _TRIPLES:
            inside = np.flatnonzero(of_rows == third)
            columns, pair = rows.columns.take(inside), (self.of_parts[one], self.of_parts[two])
            own.append(_part_sums(pair, self.subsets, columns, weights[inside]))
        return self.merge(state, own)

    def merge(self, state: list[_PartSums], other: list[_PartSums]) -> list[_PartSums]:
        """Return the sums over the rows of both."""
        pairs = zip(state, other, strict=True)
        return [_PartSums(a.weight + b.weight, a.sums + b.sums) for a, b in pairs]
