"""What accumulated local effects learn from rows: sums over those in each interval or cell.

Sums of batches merge, so that rows in memory are the case of one batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.jumps import add_jumps
from treepurify.engines.ale.axes import (
    intervals_of_rows,
    places_of_values,
    weight_at_nodes,
    weight_at_places,
    weight_between,
)
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.common.functions import RowFunction
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import encode_rows
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Integers

__all__ = [
    "JumpPlaces",
    "JumpSums",
    "MainSums",
    "cuts_of",
    "jump_places",
    "jump_sums",
    "main_sums",
    "moved_rows",
    "sums_of_groups",
]

_ROWS_A_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class MainSums:
    """Differences of a function across the intervals of one feature.

    Parameters
    ----------
    mass, count, squares : ndarray of float64, shape (n_intervals,)
        Weight and number of the rows in each interval, and the sum of their squared weights.
    mean : ndarray of float64, shape (n_intervals, n_outputs)
        Weighted mean of the differences.
    first, second : ndarray of float64, shape (n_intervals, n_outputs)
        Sums of the deviations from that mean and of their squares, weighted by squared weights.
    standing : ndarray of float64, shape (n_nodes,)
        Weight of the rows that each node stands for.
    between : ndarray of float64, shape (n_intervals or n_codes,)
        Weight of the rows between the nodes; see `mass_between`.
    """

    mass: Array
    count: Array
    squares: Array
    mean: Array
    first: Array
    second: Array
    standing: Array
    between: Array

    def merge(self, other: "MainSums") -> "MainSums":
        """Return the sums over the rows of both.

        Deviations are moved to the common mean, as Chan, Golub and LeVeque (1983) do: sums of
        squares about zero would lose the digits of a small spread.
        """
        mass = self.mass + other.mass
        share = (other.mass / np.where(mass > 0, mass, 1.0))[:, None]
        mean = self.mean + share * (other.mean - self.mean)
        one, two = self._about(mean), other._about(mean)
        return MainSums(
            mass,
            self.count + other.count,
            self.squares + other.squares,
            mean,
            one[0] + two[0],
            one[1] + two[1],
            self.standing + other.standing,
            self.between + other.between,
        )

    def _about(self, mean: Array) -> tuple[Array, Array]:
        """Return the sums of deviations, and of their squares, about another mean."""
        step = self.mean - mean
        weight = self.squares[:, None]
        second = self.second + 2 * step * self.first + step**2 * weight
        return self.first + step * weight, second


def main_sums(f: RowFunction, columns: Columns, weights: Array, axis: AccumulationAxis) -> MainSums:
    """Return the differences of a function across the intervals of one feature, on some rows.

    Within an interval only rows that lie there are moved, and only to its two ends: the
    function is asked near the data, also where features depend on each other.
    """
    along = f.part_along((axis.feature,))
    rows, interval = intervals_of_rows(axis, columns, np.arange(columns.n_rows))
    in_intervals = columns.take(rows, along.used_features)
    upper = along(moved_rows(in_intervals, [(axis, interval + 1)]))
    difference = upper - along(moved_rows(in_intervals, [(axis, interval)]))
    places = places_of_values(axis, columns.values[axis.feature])
    n_codes = columns.features[axis.feature].n_codes
    return _sums_of_differences(axis, places, n_codes, weights, rows, interval, difference)


def _sums_of_differences(
    axis: AccumulationAxis,
    places: Indices,
    n_codes: int,
    weights: Array,
    rows: Indices,
    interval: Indices,
    difference: Array,
) -> MainSums:
    """Return the sums of differences that are known for rows and the intervals they lie in.

    `places` are those of all rows, see `places_of_values`, and `n_codes` is of a category.
    """
    weight, n = weights[rows], axis.n_intervals
    mass = sums_of_groups(interval, weight[:, None], n)[:, 0]
    mean = sums_of_groups(interval, weight[:, None] * difference, n)
    mean /= np.where(mass > 0, mass, 1.0)[:, None]
    deviation = difference - mean[interval]
    at_places = weight_at_places([axis], [places], weights)
    square = weight[:, None] ** 2
    return MainSums(
        mass,
        np.bincount(interval[weight > 0], minlength=n).astype(np.float64),
        sums_of_groups(interval, square, n)[:, 0],
        mean,
        sums_of_groups(interval, square * deviation, n),
        sums_of_groups(interval, square * deviation**2, n),
        weight_at_nodes(axis, at_places),
        weight_between(axis, at_places, n_codes),
    )


@dataclass(frozen=True, eq=False)
class JumpPlaces:
    """Where the cuts of one feature of a tree ensemble lie among the intervals of its nodes.

    Parameters
    ----------
    axis : AccumulationAxis
        The nodes.
    cells : FeatureAxis
        The cells between the cuts, and one for missing values.
    lowest, highest : ndarray of int64, shape (n_intervals,)
        The cuts within each interval are ``lowest:highest``.
    """

    axis: AccumulationAxis
    cells: FeatureAxis
    lowest: Integers
    highest: Integers

    @property
    def starts(self) -> Integers:
        """Where the cuts of each interval begin when they stand one after the other."""
        return np.concatenate([[0], np.cumsum(self.highest - self.lowest)])

    @property
    def cell_before(self) -> Integers:
        """The cell before each of these cuts."""
        starts = self.starts
        step = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
        return np.asarray(np.repeat(self.lowest, np.diff(starts)) + step)


def jump_places(f: RowFunction, axis: AccumulationAxis, cuts: Array) -> JumpPlaces:
    """Return where the sorted cuts of a numeric feature lie among the intervals of its nodes."""
    cells = FeatureAxis(f.features[axis.feature].name, cuts, has_missing=True)
    lowest = np.searchsorted(cuts, axis.nodes[:-1], side="right")
    highest = np.searchsorted(cuts, axis.nodes[1:], side="right")
    return JumpPlaces(axis, cells, lowest, highest)


@dataclass(frozen=True, eq=False)
class JumpSums:
    """Jumps of a tree ensemble at the cuts of one feature.

    Parameters
    ----------
    mass : ndarray of float64, shape (n_intervals,)
        Weight of the rows in each interval.
    jumps : ndarray of float64, shape (n_cuts in intervals, n_outputs)
        Weighted sum of the jumps of these rows at each cut of the interval.
    in_cells : ndarray of float64, shape (n_cells,)
        Weight of the rows in each cell, that of missing values last.
    bounds : tuple of float
        Smallest and largest number; infinity and minus infinity without one.
    has_missing : bool
        Whether a value is missing.
    """

    mass: Array
    jumps: Array
    in_cells: Array
    bounds: tuple[float, float]
    has_missing: bool

    def merge(self, other: "JumpSums") -> "JumpSums":
        """Return the sums over the rows of both."""
        return JumpSums(
            self.mass + other.mass,
            self.jumps + other.jumps,
            self.in_cells + other.in_cells,
            (min(self.bounds[0], other.bounds[0]), max(self.bounds[1], other.bounds[1])),
            self.has_missing or other.has_missing,
        )


def jump_sums(
    ensemble: TreeEnsemble,
    columns: Columns,
    weights: Array,
    places: Mapping[int, JumpPlaces],
    report: ProgressReport,
) -> tuple[dict[int, JumpSums], dict[int, MainSums]]:
    """Return the jumps of a tree ensemble at the cuts of features, on some rows.

    The difference of an ensemble across an interval is the sum of its jumps at the cuts within,
    so the differences across the intervals of the nodes come with them.
    A row goes down each tree once, and once more from each feature that has a cut of the row's
    interval on that way: far fewer places than there are cuts in all trees.
    """
    intervals = _all_intervals(ensemble, places)
    used = ensemble.used_features
    tested = columns.of_features(used)
    column = np.array([intervals.column.get(j, -1) for j in used])
    jumps = np.zeros((int(intervals.starts[-1]), ensemble.n_outputs))
    at_nodes: dict[int, MainSums] = {}
    for start in range(0, columns.n_rows, _ROWS_A_BLOCK):
        report("local effects of features", start, columns.n_rows)
        block = columns.part(start, start + _ROWS_A_BLOCK)
        weight = weights[start : start + _ROWS_A_BLOCK]
        lying = [places_of_values(own.axis, block.values[j]) for j, own in places.items()]
        differences = np.zeros((block.n_rows, len(places), ensemble.n_outputs))
        add_jumps(
            _ends(tested.matrix(start, start + _ROWS_A_BLOCK), column, places, lying),
            weight,
            intervals.numbers(lying),
            intervals.lowest,
            intervals.highest,
            intervals.starts,
            column,
            intervals.place,
            ensemble.tree_ptr,
            *ensemble.walk,
            ensemble.cut,
            ensemble.missing_left,
            ensemble.category_ptr,
            ensemble.category_left,
            ensemble.value,
            ensemble.tree_output,
            jumps,
            differences,
        )
        for k, (j, own) in enumerate(places.items()):
            rows = np.flatnonzero(lying[k] >= 0)
            of_block = _sums_of_differences(
                own.axis, lying[k], 0, weight, rows, lying[k][rows], differences[rows, k]
            )
            at_nodes[j] = at_nodes[j].merge(of_block) if j in at_nodes else of_block
    sums = {}
    for j, own in places.items():
        stop = intervals.first_cut[j] + int(own.starts[-1])
        of_feature = jumps[intervals.first_cut[j] : stop]
        sums[j] = _jumps_and_cells(own, columns, weights, at_nodes[j].mass, of_feature)
    return sums, at_nodes


def _ends(
    own: Array, column: Integers, places: Mapping[int, JumpPlaces], lying: Sequence[Indices]
) -> Array:
    """Return the ends of the interval of each row with its own value between them, by feature."""
    points = np.repeat(own[:, :, None], 3, axis=2)
    by_column = [*places.values()]
    for i, k in enumerate(column):
        if k >= 0:
            rows = np.flatnonzero(lying[k] >= 0)
            nodes, interval = by_column[k].axis.nodes, lying[k][rows]
            points[rows, i, 0], points[rows, i, 2] = nodes[interval], nodes[interval + 1]
    return points


def _jumps_and_cells(
    places: JumpPlaces, columns: Columns, weights: Array, mass: Array, jumps: Array
) -> JumpSums:
    """Return the jumps along a feature with what its rows are in the cells between its cuts."""
    j, cells = places.axis.feature, places.cells
    alone = Columns((columns.features[j],), (columns.values[j],), columns.n_rows)
    encoded, (reached,) = encode_rows(alone, (replace(cells, has_missing=False),))
    in_cells: Array = np.zeros(cells.n_cells)
    np.add.at(in_cells, encoded.codes[0], weights)
    return JumpSums(mass, jumps, in_cells, reached.bounds or (np.inf, -np.inf), reached.has_missing)


@dataclass(frozen=True, eq=False)
class _AllIntervals:
    """The intervals of several features, numbered one feature after the other.

    Parameters
    ----------
    column : dict of int to int
        The number of each feature among them.
    first_interval : ndarray of int64, shape (n_features,)
        Number of the first interval of each feature.
    first_cut : dict of int to int
        Where the cuts of each feature begin when those of all intervals stand one after the other.
    lowest, highest : ndarray of int64, shape (n_intervals,)
        The cuts within each interval, see `JumpPlaces`.
    starts : ndarray of int64, shape (n_intervals + 1,)
        Where the cuts of each interval begin among those of all.
    place : ndarray of int64, shape (n_nodes,)
        Place of the cut of each node of the ensemble among the cuts of its feature; -1 for minus
        infinity, which no row passes.
    """

    column: dict[int, int]
    first_interval: Integers
    first_cut: dict[int, int]
    lowest: Integers
    highest: Integers
    starts: Integers
    place: Integers

    def numbers(self, lying: Sequence[Integers]) -> Integers:
        """Return the number of the interval of each row and feature; -1 for none."""
        own = np.stack(lying, axis=1)
        return np.where(own >= 0, own + self.first_interval, -1)


def _all_intervals(ensemble: TreeEnsemble, places: Mapping[int, JumpPlaces]) -> _AllIntervals:
    """Number the intervals of several features."""
    lowest = np.concatenate([own.lowest for own in places.values()])
    highest = np.concatenate([own.highest for own in places.values()])
    sizes = [len(own.lowest) for own in places.values()]
    first_interval = np.cumsum([0, *sizes])[:-1]
    starts = np.concatenate([[0], np.cumsum(highest - lowest)])
    place = np.full(len(ensemble.feature), -1)
    for j, own in places.items():
        nodes = ensemble.feature == j
        place[nodes] = np.searchsorted(np.asarray(own.cells.cuts), ensemble.cut[nodes], "right") - 1
    return _AllIntervals(
        {j: k for k, j in enumerate(places)},
        first_interval,
        dict(zip(places, starts[first_interval].tolist(), strict=True)),
        lowest,
        highest,
        starts,
        place,
    )


def cuts_of(ensemble: TreeEnsemble, feature: int) -> Array:
    """Return the cuts of one feature, sorted; see `ensemble_cuts` for those of all."""
    cuts = ensemble.cut[(ensemble.feature == feature) & (ensemble.category_ptr < 0)]
    return np.unique(cuts[cuts > -np.inf])


def moved_rows(rows: Columns, places: list[tuple[AccumulationAxis, Indices]]) -> Columns:
    """Return the rows with features set to the given nodes."""
    return _replaced(rows, {axis.feature: axis.nodes[node] for axis, node in places})


def _replaced(rows: Columns, values: Mapping[int, npt.NDArray[Any]]) -> Columns:
    """Return the rows with other values of some features."""
    columns = tuple(values.get(j, column) for j, column in enumerate(rows.values))
    return Columns(rows.features, columns, rows.n_rows)


def sums_of_groups(group: Indices, values: Array, n_groups: int) -> Array:
    """Return the sums of the values in each group, shape (n_groups, n_outputs)."""
    columns = [np.bincount(group, weights=column, minlength=n_groups) for column in values.T]
    return np.stack(columns, axis=1).astype(np.float64)
