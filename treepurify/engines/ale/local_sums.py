"""What accumulated local effects learn from rows: sums over those in each interval or cell.

Sums of batches merge, so that rows in memory are the case of one batch.
"""

from collections.abc import Mapping
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
from treepurify.engines.common.functions import ParsedFunction, RowFunction
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset, encode_rows
from treepurify.models.ensemble import TreeEnsemble
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
    "part_along",
    "sums_of_groups",
]

_ROWS_A_BLOCK = 8192


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
    along = part_along(f, (axis.feature,))
    rows, interval = intervals_of_rows(axis, columns, np.arange(columns.n_rows))
    in_intervals = columns.take(rows, along.used_features)
    upper = along(moved_rows(in_intervals, [(axis, interval + 1)]))
    difference = upper - along(moved_rows(in_intervals, [(axis, interval)]))
    return _sums_of_differences(axis, columns, weights, rows, interval, difference)


def _sums_of_differences(
    axis: AccumulationAxis,
    columns: Columns,
    weights: Array,
    rows: Indices,
    interval: Indices,
    difference: Array,
) -> MainSums:
    """Return the sums of differences that are known for rows and the intervals they lie in."""
    weight, n = weights[rows], axis.n_intervals
    mass = sums_of_groups(interval, weight[:, None], n)[:, 0]
    mean = sums_of_groups(interval, weight[:, None] * difference, n)
    mean /= np.where(mass > 0, mass, 1.0)[:, None]
    deviation = difference - mean[interval]
    places = places_of_values(axis, columns.values[axis.feature])
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
        weight_between(axis, at_places, columns.features[axis.feature].n_codes),
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
    ensemble: TreeEnsemble, columns: Columns, weights: Array, places: JumpPlaces
) -> tuple[JumpSums, MainSums]:
    """Return the jumps of a tree ensemble at the cuts of one feature, on some rows.

    The difference of an ensemble across an interval is the sum of its jumps at the cuts within,
    so the differences across the intervals of the nodes come with them.
    A row has them where one leaf that it can reach by this feature gives way to the next: far
    fewer places than there are cuts in all trees.
    """
    axis, cells, j = places.axis, places.cells, places.axis.feature
    ensemble = ensemble.part_along((j,))
    alone = Columns((ensemble.features[j],), (columns.values[j],), columns.n_rows)
    encoded, (reached,) = encode_rows(alone, (replace(cells, has_missing=False),))
    rows, interval = intervals_of_rows(axis, columns, np.arange(columns.n_rows))
    weight = weights[rows]
    starts, jumps = places.starts, np.zeros((int(places.starts[-1]), ensemble.n_outputs))
    differences = np.zeros((len(rows), ensemble.n_outputs))
    # A cut at minus infinity is passed by no row.
    place = np.searchsorted(np.asarray(cells.cuts), ensemble.cut, side="right") - 1
    used = ensemble.used_features
    small, tested = ensemble.of_features(used), columns.of_features(used)
    for start in range(0, len(rows), _ROWS_A_BLOCK):
        block = slice(start, start + _ROWS_A_BLOCK)
        add_jumps(
            tested.take(rows[block]).matrix(),
            weight[block],
            places.lowest[interval[block]],
            places.highest[interval[block]],
            starts[interval[block]],
            used.index(j),
            place,
            ensemble.tree_ptr,
            small.feature,
            ensemble.cut,
            ensemble.left,
            ensemble.right,
            ensemble.missing_left,
            ensemble.category_ptr,
            ensemble.category_left,
            ensemble.value,
            ensemble.tree_output,
            jumps,
            differences[block],
        )
    in_cells: Array = np.zeros(cells.n_cells)
    np.add.at(in_cells, encoded.codes[0], weights)
    at_nodes = _sums_of_differences(axis, columns, weights, rows, interval, differences)
    sums = JumpSums(
        at_nodes.mass,
        jumps,
        in_cells,
        reached.bounds or (np.inf, -np.inf),
        reached.has_missing,
    )
    return sums, at_nodes


def cuts_of(ensemble: TreeEnsemble, feature: int) -> Array:
    """Return the cuts of one feature, sorted; see `ensemble_cuts` for those of all."""
    cuts = ensemble.cut[(ensemble.feature == feature) & (ensemble.category_ptr < 0)]
    return np.unique(cuts[cuts > -np.inf])


def part_along(f: RowFunction, features: Subset) -> RowFunction:
    """Return a function with the same mixed differences along features, of less work if known."""
    return replace(f, model=f.model.part_along(features)) if isinstance(f, ParsedFunction) else f


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
