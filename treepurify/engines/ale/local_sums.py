"""What accumulated local effects learn from rows: sums over those in each interval or cell.

Sums of batches merge, so that rows in memory are the case of one batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.engines.ale.axes import (
    intervals_of_rows,
    places_of_values,
    weight_at_nodes,
    weight_at_places,
    weight_between,
)
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.common.functions import RowFunction
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices

__all__ = [
    "MainSums",
    "main_sums",
    "moved_rows",
    "sums_of_groups",
]


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
