"""Sums of the parts of a decomposition over groups of rows, as they are and drawn again.

A difference of mean margins is the sum over parts of the differences of their means, whatever the
two groups of rows are: two groups of one data set, or two data sets. Everything about both is
computed from these sums.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treepurify.budget import check_budget
from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.evidence.resampling import Intervals, intervals_of_draws
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.resampling import times_drawn
from treepurify.rows.row_weights import RowWeights, within_range
from treepurify.typing import Array, Indices

__all__ = ["Draws", "PartSums", "group_sums", "side_by_side"]

# Values of rows and parts that stay in the cache while they are drawn again.
_VALUES_AT_ONCE = 1 << 18
_LEAST_ROWS, _MOST_ROWS = 1 << 8, 1 << 12


class PartSums(NamedTuple):
    """Weighted sums over the rows of each group, first of all rows, then of each draw.

    Parameters
    ----------
    n_rows : ndarray of intp, shape (1, n_groups)
        Rows of positive weight.
    weight : ndarray of float64, shape (1 + n_bootstrap, n_groups)
        Sums of weights.
    parts : ndarray of float64, shape (1 + n_bootstrap, n_groups, n_parts, n_outputs)
        Sums of the components, and of the remainder where there is one.
    margin, square : ndarray of float64, shape (1 + n_bootstrap, n_groups, n_outputs)
        Sums of the margin less the intercept, and of its square.
    numbers : ndarray of float64, shape (1 + n_bootstrap, n_groups, n)
        Sums of further numbers of each row.
    trainings : ndarray of float64, shape (n_models, n_groups, n_effects, n_outputs)
        Sums of the effects of each training, of all rows; no effects without a spread.
    """

    n_rows: Indices
    weight: Array
    parts: Array
    margin: Array
    square: Array
    numbers: Array
    trainings: Array

    @property
    def means(self) -> Array:
        """Means of the parts, shape (1 + n_bootstrap, n_groups, n_parts, n_outputs)."""
        return self.parts / self._weight[..., None, None]

    @property
    def margin_means(self) -> Array:
        """Mean margins less the intercept, shape (1 + n_bootstrap, n_groups, n_outputs)."""
        return self.margin / self._weight[..., None]

    @property
    def margin_variances(self) -> Array:
        """Variances of the margin, shape (1 + n_bootstrap, n_groups, n_outputs)."""
        return np.maximum(self.square / self._weight[..., None] - self.margin_means**2, 0.0)

    @property
    def number_means(self) -> Array:
        """Means of the further numbers, shape (1 + n_bootstrap, n_groups, n)."""
        return self.numbers / self._weight[..., None]

    @property
    def training_means(self) -> Array:
        """Means of the effects of each training, (n_models, n_groups, n_effects, n_outputs)."""
        return self.trainings / self._weight[0, :, None, None]

    @property
    def _weight(self) -> Array:
        # A draw in which a group has no rows has no means.
        return np.where(self.weight > 0, self.weight, np.nan)


@dataclass(frozen=True, eq=False)
class Draws:
    """How rows are drawn again for intervals.

    Parameters
    ----------
    n_bootstrap, seed : int
        Number of draws, and their seed.
    coverage : float
        Nominal coverage of the intervals, percentiles of the draws.
    """

    n_bootstrap: int
    seed: int
    coverage: float

    def intervals(self, values: Array) -> Intervals:
        """Return the intervals of numbers (1 + n_bootstrap, ...), first of all rows."""
        shape = values.shape[1:]
        flat = values.reshape(len(values), -1)
        found = intervals_of_draws(flat[0], flat[1:], self.coverage)
        low, high, error = (
            end.reshape(shape) for end in (found.low, found.high, found.standard_error)
        )
        return Intervals(values[0], low, high, error, found.undefined)


def group_sums(
    d: Decomposition,
    columns: Columns,
    weights: RowWeights,
    codes: Indices,
    numbers: Array | None,
    draws: Draws,
    memory_budget: int,
    report: ProgressReport,
    *,
    n_groups: int = 1,
    data_set: int = 0,
) -> PartSums:
    """Return the sums over groups of rows.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights.
    codes : ndarray of intp, shape (n_rows,)
        The group of each row; -1 for none.
    numbers : ndarray of float64, shape (n_rows, n), optional
        Further numbers of each row.
    draws : Draws
        How often rows are drawn again: each a Poisson number of times.
    memory_budget : int
        Bytes that the sums may take.
    report : callable
        Progress.
    n_groups : int
        Number of groups.
    data_set : int
        Which of several data sets this is: they are drawn independently.

    Raises
    ------
    MemoryBudgetError
        If the sums would not fit.
    """
    n_rows, n_outputs = columns.n_rows, d.n_outputs
    first, n_draws = data_set * draws.n_bootstrap, 1 + draws.n_bootstrap
    n_parts = len(d) + (d.remainder is not None)
    numbers = np.empty((n_rows, 0)) if numbers is None else numbers
    widths = [1, n_parts * n_outputs, n_outputs, n_outputs, numbers.shape[1]]
    check_budget(
        8 * sum(widths) * (n_groups * n_draws + 3 * _MOST_ROWS),
        memory_budget,
        f"the sums of {n_parts} effects over {draws.n_bootstrap} draws of the rows",
        "Use a smaller n_bootstrap.",
    )
    counts = np.ones(n_rows) if weights is None else within_range(weights)
    stacked = () if d.spread is None else tuple(d.spread.stacked.values())
    n_models = 0 if d.spread is None else d.spread.n_models
    sums = np.zeros((n_draws, n_groups, sum(widths)))
    trainings = np.zeros((n_models, n_groups, len(stacked), n_outputs))
    size = int(np.clip(_VALUES_AT_ONCE // sum(widths), _LEAST_ROWS, _MOST_ROWS))
    for start in range(0, n_rows, size):
        report("measuring differences", start, n_rows)
        some = slice(start, start + size)
        block = columns.part(start, start + size)
        parts = list(d.evaluate_parts(block))
        margin = np.sum(parts, axis=0) if parts else np.zeros((block.n_rows, n_outputs))
        one = np.ones((block.n_rows, 1))
        values = np.concatenate([one, *parts, margin, margin**2, numbers[some]], axis=1)
        times = np.tile(counts[some], (n_draws, 1))
        for number in range(draws.n_bootstrap):
            times[1 + number] *= times_drawn(draws.seed, first + number, start, block.n_rows)
        for group in range(n_groups):
            own = np.flatnonzero(codes[some] == group)
            sums[:, group] += times[:, own] @ values[own]
        of_group = (codes[some] == np.arange(n_groups)[:, None]) * counts[some]
        for place, effect in enumerate(evaluate_each(stacked, block)):
            of_models = (of_group @ effect).reshape(n_groups, n_models, n_outputs)
            trainings[:, :, place] += of_models.swapaxes(0, 1)
    weight, by_part, total, square, further = np.split(sums, np.cumsum(widths)[:-1], axis=2)
    counted = codes[(counts > 0) & (codes >= 0)]
    return PartSums(
        np.bincount(counted, minlength=n_groups)[None],
        weight[..., 0],
        by_part.reshape(*by_part.shape[:2], n_parts, n_outputs),
        total,
        square,
        further,
        trainings,
    )


def side_by_side(first: PartSums, second: PartSums) -> PartSums:
    """Return the sums of two data sets as those of two groups."""
    return PartSums(*(np.concatenate(pair, axis=1) for pair in zip(first, second, strict=True)))
