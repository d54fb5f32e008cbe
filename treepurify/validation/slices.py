"""Slices of one or two features where rows lose more than others: how they are found.

A side of a slice is a range of intervals of one feature, or a category, or its missing or unseen
values. Slices are found one after the other, each among the rows that no earlier one has: the
covering of Friedman and Fisher (1999), over all slices instead of by peeling.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from treepurify.budget import check_budget
from treepurify.comparing.regions import cells_in_words
from treepurify.components import locate_cells
from treepurify.evidence.cell_groups import LocatedRows, group_cells
from treepurify.grids.axis import FeatureAxis
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Mask

__all__ = ["Side", "Slice", "find_slices"]

# Of one feature, and of two together: more groups make slices finer, and the search longer.
_MOST_GROUPS = {1: 64, 2: 12}


@dataclass(frozen=True, eq=False)
class Side:
    """Neighbouring cells of one feature, or a single one.

    Parameters
    ----------
    feature : int
        Position of the feature.
    axis : FeatureAxis
        The cells of its main effect.
    start, stop : int
        The first cell, and the one after the last.
    """

    feature: int
    axis: FeatureAxis
    start: int
    stop: int

    def words(self) -> str:
        """Return which values the feature has there."""
        return cells_in_words(self.axis, range(self.start, self.stop))

    def has(self, cells: Indices) -> Mask:
        """Return which of some rows lie there, from their cells along the axis."""
        return np.asarray((cells >= self.start) & (cells < self.stop))


@dataclass(frozen=True, eq=False)
class Slice:
    """The rows on one or two sides.

    Parameters
    ----------
    sides : tuple of Side
        One per feature.
    """

    sides: tuple[Side, ...]

    def words(self) -> str:
        """Return what its rows have in common."""
        return " & ".join(side.words() for side in self.sides)

    def has(self, located: Mapping[int, LocatedRows]) -> Mask:
        """Return which rows belong to it, shape (n_rows,)."""
        return self._meet(located[side.feature].cells for side in self.sides)

    def rows_in(self, columns: Columns) -> Mask:
        """Return which rows of a table belong to it, shape (n_rows,)."""
        return self._meet(locate_cells(columns, side.feature, side.axis) for side in self.sides)

    def _meet(self, cells: Iterable[Indices]) -> Mask:
        inside = [side.has(of_rows) for side, of_rows in zip(self.sides, cells, strict=True)]
        return np.asarray(np.logical_and.reduce(inside))


def find_slices(
    located: Mapping[int, LocatedRows],
    losses: Array,
    shares: Array,
    order: int,
    n_slices: int,
    min_share: float,
    memory_budget: int,
    report: ProgressReport,
) -> list[Slice]:
    """Return the slices whose rows lose most, the clearest first.

    Parameters
    ----------
    located : mapping from int to LocatedRows
        The rows in the cells of each feature.
    losses : ndarray of float64, shape (n_rows,)
        Loss of each row.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row; they sum to one.
    order : int
        Most features of a slice: 1 or 2.
    n_slices : int
        Most slices.
    min_share : float
        Least share of the rows in a slice, those of earlier slices left out; the largest is half
        of the rows that earlier slices leave.
    memory_budget : int
        Bytes that the sums over all slices of two features may take.
    report : callable
        Progress.

    Returns
    -------
    list of Slice
        Fewer where no more slices of this size lose more than all rows.
    """
    sides = {size: _all_sides(located, shares, min_share, size) for size in range(1, order + 1)}
    for size, of_size in sides.items():
        largest = sorted(max(len(each.sides), each.n_groups) for each in of_size.values())
        check_budget(
            4 * 8 * int(np.prod(largest[-size:])),
            memory_budget,
            f"the slices of {size} features",
            "Use a larger min_share, or order=1.",
        )
    looks = [
        (size, subset) for size, of_size in sides.items() for subset in combinations(of_size, size)
    ]
    excess, left = losses - shares @ losses, shares.copy()
    found: list[Slice] = []
    for number in range(n_slices):
        best: dict[int, _Best] = {size: _Best() for size in sides}
        for done, (size, subset) in enumerate(looks):
            report("searching slices", number * len(looks) + done, n_slices * len(looks))
            best[size].look([sides[size][j] for j in subset], left * excess, left, min_share)
        clearest = _clearest(best, left, excess)
        if clearest is None:
            break
        found.append(clearest)
        left[clearest.has(located)] = 0.0
    return found


@dataclass(frozen=True, eq=False)
class _FeatureSides:
    """All sides of one feature that have enough rows.

    Parameters
    ----------
    sides : tuple of Side
        The sides.
    start, stop : ndarray of int, shape (n_sides,)
        The first group of cells of each, and the one after its last.
    groups : ndarray of int, shape (n_rows,)
        The group of each row. Of categories and special cells those with too few rows are one
        group, the last, which belongs to no side.
    n_groups : int
        Number of groups.
    """

    sides: tuple[Side, ...]
    start: Indices
    stop: Indices
    groups: Indices
    n_groups: int


def _all_sides(
    located: Mapping[int, LocatedRows], shares: Array, min_share: float, size: int
) -> dict[int, _FeatureSides]:
    """Return the sides of each feature: no ranges of all regular cells, and none of few rows."""
    most = min(max(round(min_share ** (-1 / size)), 2), _MOST_GROUPS[size])
    return {j: _sides(j, rows, shares, min_share, most) for j, rows in located.items()}


def _sides(
    feature: int, rows: LocatedRows, shares: Array, min_share: float, most: int
) -> _FeatureSides:
    axis, mass = rows.axis, rows.mass(shares)
    group = group_cells(axis, mass, most)
    n_all = int(group[-1]) + 1
    n_ranged = 0 if axis.is_categorical else n_all - (axis.n_cells - axis.n_regular)
    total = np.concatenate([[0.0], np.bincount(group, mass, n_all).cumsum()])
    single = n_ranged + np.flatnonzero(np.diff(total[n_ranged:]) >= min_share)
    first, last = np.triu_indices(n_ranged)
    enough = (last - first + 1 < n_ranged) & (total[last + 1] - total[first] >= min_share)
    # Groups of neighbouring cells are numbered in the order of the cells.
    start, stop = np.append(first[enough], single), np.append(last[enough], single) + 1
    cells = zip(*(np.searchsorted(group, ends).tolist() for ends in (start, stop)), strict=True)
    number = np.append(np.arange(n_ranged), np.full(n_all - n_ranged, n_ranged + len(single)))
    number[single] = n_ranged + np.arange(len(single))
    return _FeatureSides(
        tuple(Side(feature, axis, *ends) for ends in cells),
        number[start],
        number[stop - 1] + 1,
        number[group][rows.cells],
        n_ranged + len(single) + 1,
    )


@dataclass(eq=False)
class _Best:
    """The clearest of the slices of one order so far, and how many were looked at."""

    score: float = 0.0
    sides: tuple[Side, ...] = ()
    n_looks: int = 0

    def look(
        self, sides: list[_FeatureSides], excess: Array, left: Array, min_share: float
    ) -> None:
        """Look at all slices of one or two features.

        A slice is the clearer the more its excess differs from zero in units of its standard
        error, were the losses of all rows equally spread (Kulldorff, Huang and Konty 2009).
        """
        weight, above = (_sums(sides, of_rows) for of_rows in (left, excess))
        self.n_looks += weight.size
        total = left.sum()
        enough = (weight >= min_share) & (weight <= total / 2)
        if not enough.any():
            return
        spread = np.sqrt(np.where(enough, weight * (total - weight), 1.0))
        score = np.where(enough, above / spread, 0.0)
        place = int(score.argmax())
        if score.flat[place] > self.score:
            self.score = float(score.flat[place])
            places = np.unravel_index(place, score.shape)
            self.sides = tuple(one.sides[where] for one, where in zip(sides, places, strict=True))


def _sums(sides: list[_FeatureSides], of_rows: Array) -> Array:
    """Return sums over the rows of all slices, shape (n_sides of each feature...)."""
    shape = tuple(one.n_groups for one in sides)
    groups = np.ravel_multi_index([one.groups for one in sides], shape)
    table = np.bincount(groups, of_rows, int(np.prod(shape))).reshape(shape)
    for axis, one in enumerate(sides):
        first = np.zeros((*table.shape[:axis], 1, *table.shape[axis + 1 :]))
        total = np.concatenate([first, table.cumsum(axis=axis)], axis=axis)
        table = total.take(one.stop, axis=axis) - total.take(one.start, axis=axis)
    return np.asarray(table)


def _clearest(best: Mapping[int, _Best], left: Array, excess: Array) -> Slice | None:
    """Return the clearest slice of all orders.

    Of n slices without any weakness the clearest is about the root of 2 log n standard errors
    above zero. So much is subtracted (Dümbgen and Spokoiny 2001), or the many pairs of features
    would always hide the few features.
    """
    total = left.sum()
    if not total > 0:
        return None
    variance = left @ excess**2 / total - (left @ excess / total) ** 2
    error = np.sqrt(max(variance, 0.0) * (left @ left)) / total
    several = {
        size: one.score - error * np.sqrt(2.0 * np.log(one.n_looks))
        for size, one in best.items()
        if one.sides
    }
    return Slice(best[max(several, key=several.__getitem__)].sides) if several else None
