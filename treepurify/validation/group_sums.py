"""Sums of the parts of a decomposition over groups of rows, as they are and drawn again.

A difference of mean margins is the sum over parts of the differences of their means, whatever the
two groups of rows are: two groups of one data set, or two data sets. Everything about both is
computed from these sums, which are exact and add up over batches.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.evidence.held_out import ObservedRows
from treepurify.evidence.resampling import Intervals, intervals_of_draws
from treepurify.rows.columns import Columns
from treepurify.rows.resampling import Resampling
from treepurify.rows.source_reader import CategoryLevels, joined_levels
from treepurify.typing import Array, Indices

__all__ = ["Draws", "GroupSums", "PartSums", "RowNumbers", "side_by_side"]

# Values of rows and parts that stay in the cache while they are drawn again.
_VALUES_AT_ONCE = 1 << 18
_LEAST_ROWS, _MOST_ROWS = 1 << 8, 1 << 12

RowNumbers = Callable[[Array, tuple[npt.NDArray[Any], ...]], Array]
"""From the margins of some rows and what was observed there to further numbers (n_rows, n)."""
GroupCodes = Callable[[tuple[npt.NDArray[Any], ...], int], Indices]
"""From what was observed on some rows, and their number, to their groups; -1 for none."""


@dataclass(frozen=True, eq=False)
class PartSums:
    """Weighted sums over the rows of each group, first of all rows, then of each draw.

    Parameters
    ----------
    n_rows : ndarray of intp, shape (n_groups,)
        Rows of positive weight.
    weight : ndarray of float64, shape (1 + n_bootstrap, n_groups)
        Sums of weights.
    parts : ndarray of float64, shape (1 + n_bootstrap, n_groups, n_parts, n_outputs)
        Sums of the components, and of the remainder where there is one.
    margin, square : ndarray of float64, shape (1 + n_bootstrap, n_groups, n_outputs)
        Sums of the margin less the intercept, and of its square.
    numbers : ndarray of float64, shape (1 + n_bootstrap, n_groups, n)
        Sums of further numbers of each row.
    trainings : ndarray of float64, shape (n_groups, n_effects, n_models, n_outputs)
        Sums of the effects of each training, of all rows; no effects without a spread.
    levels : mapping
        See `RowBatch`.
    """

    n_rows: Indices
    weight: Array
    parts: Array
    margin: Array
    square: Array
    numbers: Array
    trainings: Array
    levels: CategoryLevels

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
        """Means of the effects of each training, (n_groups, n_effects, n_models, n_outputs)."""
        return self.trainings / self._weight[0, :, None, None, None]

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

    def resamplings(self, data_set: int = 0) -> tuple[Resampling, ...]:
        """Return the draws of one of several data sets, which are drawn independently."""
        first = data_set * self.n_bootstrap
        return tuple(Resampling(self.seed, first + i) for i in range(self.n_bootstrap))

    def intervals(self, values: Array) -> Intervals:
        """Return the intervals of numbers (1 + n_bootstrap, ...), first of all rows."""
        shape = values.shape[1:]
        flat = values.reshape(len(values), -1)
        found = intervals_of_draws(flat[0], flat[1:], self.coverage)
        low, high, error = (
            end.reshape(shape) for end in (found.low, found.high, found.standard_error)
        )
        return Intervals(values[0], low, high, error, found.undefined)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """The statistic of `PartSums`, of `ObservedRows`.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    n_groups : int
        Number of groups.
    codes : callable
        Returns the group of each row.
    numbers : callable, optional
        Returns further numbers of each row, from its margin and what was observed.
    n_numbers : int
        How many.
    draws : tuple of Resampling
        How rows are drawn again. The times of a row are a Poisson number that belongs to the
        position of the row, so that neither batches nor workers change them.
    """

    d: Decomposition
    n_groups: int
    codes: GroupCodes
    numbers: RowNumbers | None = None
    n_numbers: int = 0
    draws: tuple[Resampling, ...] = ()

    def drawn(self, draws: Draws, memory_budget: int, data_set: int = 0) -> "GroupSums":
        """Return the statistic with the draws of a data set, where all sums fit the budget.

        It is without the rows of the measure, which workers do not need.

        Raises
        ------
        MemoryBudgetError
            If they do not.
        """
        n_sums = self.n_groups * (1 + draws.n_bootstrap)
        check_budget(
            # The sums so far and those of a batch, and the values of some rows.
            8 * self.n_columns * (2 * n_sums + 3 * _MOST_ROWS),
            memory_budget,
            f"the sums of {self.n_parts} effects over {draws.n_bootstrap} draws of the rows",
            "Use a smaller n_bootstrap.",
        )
        return replace(self, d=replace(self.d, rows=None), draws=draws.resamplings(data_set))

    @property
    def n_parts(self) -> int:
        """Number of components, and the remainder where there is one."""
        return len(self.d) + (self.d.remainder is not None)

    @property
    def n_columns(self) -> int:
        """Number of sums of each group and draw."""
        return 1 + (self.n_parts + 2) * self.d.n_outputs + self.n_numbers

    def zero(self) -> PartSums:
        """Return the sums over no rows."""
        return self._split(
            np.zeros(self.n_groups, dtype=np.intp),
            np.zeros((1 + len(self.draws), self.n_groups, self.n_columns)),
            np.zeros((self.n_groups, *self._training_shape)),
            {},
        )

    def add(self, state: PartSums, rows: ObservedRows) -> PartSums:
        """Return the sums with those over a batch."""
        batch = rows.rows
        codes, weights = self.codes(rows.observed, len(rows)), batch.counts
        sums = np.zeros((1 + len(self.draws), self.n_groups, self.n_columns))
        trainings = np.zeros((self.n_groups, *self._training_shape))
        size = int(np.clip(_VALUES_AT_ONCE // self.n_columns, _LEAST_ROWS, _MOST_ROWS))
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            columns = batch.columns.part(start, start + size)
            values = self._values(columns, tuple(one[some] for one in rows.observed))
            times = np.ones((1 + len(self.draws), columns.n_rows))
            for drawn, draw in zip(times[1:], self.draws, strict=True):
                drawn[:] = draw.times(batch.part, batch.first_row + start, columns.n_rows)
            times *= weights[some]
            for group in range(self.n_groups):
                own = np.flatnonzero(codes[some] == group)
                sums[:, group] += times[:, own] @ values[own]
            self._add_trainings(trainings, columns, codes[some], weights[some])
            rows.report("measuring differences", start, len(rows))
        counted = codes[weights > 0]
        n_rows = np.bincount(counted[counted >= 0], minlength=self.n_groups).astype(np.intp)
        return self.merge(state, self._split(n_rows, sums, trainings, batch.levels))

    def merge(self, state: PartSums, other: PartSums) -> PartSums:
        """Return the sums over the rows of both."""
        return PartSums(
            state.n_rows + other.n_rows,
            state.weight + other.weight,
            state.parts + other.parts,
            state.margin + other.margin,
            state.square + other.square,
            state.numbers + other.numbers,
            state.trainings + other.trainings,
            joined_levels(state.levels, other.levels, self.d.feature_names),
        )

    def _values(self, columns: Columns, observed: tuple[npt.NDArray[Any], ...]) -> Array:
        """Return the numbers of each row that are summed, shape (n_rows, n_columns)."""
        parts = list(self.d.evaluate_parts(columns))
        margin = np.sum(parts, axis=0) if parts else np.zeros((columns.n_rows, self.d.n_outputs))
        blocks = [np.ones((columns.n_rows, 1)), *parts, margin, margin**2]
        if self.numbers is not None:
            blocks.append(self.numbers(margin + self.d.intercept, observed))
        return np.concatenate(blocks, axis=1)

    @property
    def _training_shape(self) -> tuple[int, int, int]:
        spread = self.d.spread
        if spread is None:
            return (0, 0, self.d.n_outputs)
        return (len(spread.stacked), spread.n_models, self.d.n_outputs)

    def _add_trainings(self, sums: Array, columns: Columns, codes: Indices, weights: Array) -> None:
        if self.d.spread is None:
            return
        effects = evaluate_each(tuple(self.d.spread.stacked.values()), columns)
        of_group = (codes == np.arange(self.n_groups)[:, None]) * weights
        for place, values in enumerate(effects):
            sums[:, place] += (of_group @ values).reshape(-1, *self._training_shape[1:])

    def _split(
        self, n_rows: Indices, sums: Array, trainings: Array, levels: CategoryLevels
    ) -> PartSums:
        """Return sums of all columns by what they are of."""
        n_outputs = self.d.n_outputs
        ends = 1 + np.cumsum([self.n_parts * n_outputs, n_outputs, n_outputs])
        weight, parts, margin, square, numbers = np.split(sums, [1, *ends], axis=2)
        by_part = parts.reshape(*parts.shape[:2], self.n_parts, n_outputs)
        return PartSums(n_rows, weight[..., 0], by_part, margin, square, numbers, trainings, levels)


def side_by_side(first: PartSums, second: PartSums) -> PartSums:
    """Return the sums of two data sets as those of two groups."""

    def joined(name: str, axis: int) -> Any:
        return np.concatenate([getattr(first, name), getattr(second, name)], axis=axis)

    sums = ("weight", "parts", "margin", "square", "numbers")
    return replace(
        first,
        n_rows=joined("n_rows", 0),
        trainings=joined("trainings", 0),
        **{name: joined(name, 1) for name in sums},
    )
