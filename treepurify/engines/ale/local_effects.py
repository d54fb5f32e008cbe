"""Local differences of a model between nodes, accumulated and centred (Apley and Zhu 2020)."""

from dataclasses import dataclass

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.ale.axes import (
    intervals_of_rows,
    places_of_values,
    weight_at_nodes,
    weight_at_places,
    weight_between,
    weight_in_intervals,
)
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.ale.pair_sums import PairSums, moved_rows, sums_of_groups
from treepurify.engines.common.functions import RowFunction, part_along
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Mask

# Masses, and distances and places of the nearest cells, in addition to tables of each output.
_TABLES_OF_CELLS = 8


@dataclass(frozen=True, eq=False)
class Accumulated:
    """Effects at nodes.

    Parameters
    ----------
    values : ndarray of float64, shape (n_nodes..., n_outputs)
        Centred effects.
    standard_error : ndarray of float64, shape (n_nodes..., n_outputs)
        Their standard errors; NaN for pairs.
    empty : int
        Intervals, or cells of a pair, without a row.
    between : ndarray of float64
        Share of the rows between the nodes; see `mass_between`.
    """

    values: Array
    standard_error: Array
    empty: int
    between: Array


def accumulate_main(
    f: RowFunction, columns: Columns, weights: Array, axis: AccumulationAxis
) -> Accumulated:
    """Accumulate the mean differences across the intervals of one feature, and centre them.

    Within an interval only rows that lie there are moved, and only to its two ends: the
    function is asked near the data, also where features depend on each other.
    """
    along = part_along(f, (axis.feature,))
    rows, interval = intervals_of_rows(axis, columns, np.arange(columns.n_rows))
    in_intervals = columns.take(rows, along.used_features)
    upper = along(moved_rows(in_intervals, [(axis, interval + 1)]))
    difference = upper - along(moved_rows(in_intervals, [(axis, interval)]))
    weight, n = weights[rows], axis.n_intervals
    mass = sums_of_groups(interval, weight[:, None], n)[:, 0]
    safe = np.where(mass > 0, mass, 1.0)[:, None]
    mean = sums_of_groups(interval, weight[:, None] * difference, n) / safe
    deviation = difference - mean[interval]
    spread = sums_of_groups(interval, weight[:, None] ** 2 * deviation**2, n) / safe**2
    count = np.bincount(interval, minlength=n).astype(np.float64)
    spread *= (count / np.maximum(count - 1, 1))[:, None]
    places = places_of_values(axis, columns.values[axis.feature])
    at_places = weight_at_places([axis], [places], weights)
    standing = _whole(weight_at_nodes(axis, at_places))
    # The centred effect at a node is the sum of the steps before it, each less the share of the
    # rows beyond the step; a step after it counts with minus that share.
    beyond = (standing.sum() - standing.cumsum())[:-1, None]
    values = np.concatenate([np.zeros((1, mean.shape[1])), mean.cumsum(axis=0)])
    values -= (beyond * mean).sum(axis=0)
    error = np.zeros_like(values)
    error[1:] = ((1.0 - beyond) ** 2 * spread).cumsum(axis=0)
    error[:-1] += (beyond**2 * spread)[::-1].cumsum(axis=0)[::-1]
    # Rounding can leave less than nothing of a spread that is none.
    error = np.sqrt(np.maximum(error, 0.0))
    between = weight_between(axis, at_places, columns.features[axis.feature].n_codes)
    return Accumulated(values, error, int(np.sum(mass == 0)), between / weights.sum())


def check_pair(
    f: RowFunction, axes: tuple[AccumulationAxis, AccumulationAxis], memory_budget: int
) -> None:
    """Raise `MemoryBudgetError` if the tables of a pair would not fit."""
    first, second = axes
    shape = (first.n_intervals, second.n_intervals)
    check_budget(
        8 * (shape[0] + 1) * (shape[1] + 1) * (4 * f.n_outputs + _TABLES_OF_CELLS),
        memory_budget,
        f"the local effects of {f.features[first.feature].name!r} and "
        f"{f.features[second.feature].name!r} in {shape[0]} x {shape[1]} intervals",
        "Join rare categories, pass fewer bins, or name the pairs you need as interactions.",
    )


def accumulate_pair(
    f: RowFunction,
    sums: PairSums,
    axes: tuple[AccumulationAxis, AccumulationAxis],
    total_weight: float,
) -> Accumulated:
    """Accumulate second differences over cells, and take the main effects of the result out.

    Cells without a row take the difference of the nearest cell with rows, as in the authors'
    ALEPlot: a convention, so such cells are counted.
    """
    first, second = axes
    # Along one feature after the other.
    at_first, in_first = (
        weight_at_nodes(first, sums.weight),
        weight_in_intervals(first, sums.weight),
    )
    mass = weight_in_intervals(second, in_first.T).T
    along = weight_at_nodes(second, in_first.T).T, weight_in_intervals(second, at_first.T)
    standing = weight_at_nodes(second, at_first.T).T
    n_codes = [f.features[axis.feature].n_codes for axis in axes]
    between = weight_between(first, sums.weight, n_codes[0])
    between = weight_between(second, between.T, n_codes[1]).T
    mean = sums.total / np.where(mass > 0, mass, 1.0)[..., None]
    mean = _filled(mean, mass, axes)
    total = np.zeros((mass.shape[0] + 1, mass.shape[1] + 1, mean.shape[-1]))
    total[1:, 1:] = mean.cumsum(axis=0).cumsum(axis=1)
    for position in (0, 1):
        effect = _own_main_effect(total, along[position], position)
        total = total - np.expand_dims(effect, 1 - position)
    total = total - np.einsum("ab,abk->k", _whole(standing), total)
    empty = int(np.sum(mass == 0))
    return Accumulated(total, np.full_like(total, np.nan), empty, between / total_weight)


def _own_main_effect(total: Array, along: Array, position: int) -> Array:
    """Return the accumulated main effect that the accumulated pair itself has."""
    oriented = total if position == 0 else total.transpose(1, 0, 2)
    mass = along.sum(axis=1, keepdims=True)
    weight = along / np.where(mass > 0, mass, 1.0)
    steps = np.einsum("ib,ibk->ik", weight, np.diff(oriented, axis=0))
    effect = np.zeros((oriented.shape[0], total.shape[-1]))
    effect[1:] = steps.cumsum(axis=0)
    return effect


def _whole(mass: Array) -> Array:
    """Return mass as shares of its sum."""
    whole = mass.sum()
    return mass / whole if whole > 0 else mass


def _filled(mean: Array, mass: Array, axes: tuple[AccumulationAxis, AccumulationAxis]) -> Array:
    """Give cells without a row the difference of the nearest cell that has some.

    Of cells that are equally near, the first along the first axis counts, then the first along
    the second.
    """
    known = mass > 0
    if known.all() or not known.any():
        return mean
    first, second = (_centres(axis) for axis in axes)
    shortest = np.full(mass.shape, np.inf)
    nearest = np.zeros((2, *mass.shape), dtype=np.intp)
    for line in np.flatnonzero(known.any(axis=1)):
        down = (first[:, None] - first[line]) ** 2
        # Within a line no cell lies nearer than its neighbours on both sides.
        for side in _neighbours(known[line]):
            distance = down + np.where(side >= 0, (second - second[side]) ** 2, np.inf)
            nearer = distance < shortest
            shortest[nearer] = distance[nearer]
            nearest[0][nearer] = line
            nearest[1][nearer] = np.broadcast_to(side, mass.shape)[nearer]
    return np.where(known[..., None], mean, mean[tuple(nearest)])


def _neighbours(known: Mask) -> tuple[Indices, Indices]:
    """Return the last known place up to each one, and the first from it on; -1 for none."""
    places = np.arange(len(known))
    before = np.maximum.accumulate(np.where(known, places, -1))
    after = np.minimum.accumulate(np.where(known, places, len(known))[::-1])[::-1]
    return before, np.where(after < len(known), after, -1)


def _centres(axis: AccumulationAxis) -> Array:
    nodes = np.arange(len(axis.nodes)) if axis.is_categorical else axis.nodes
    return np.asarray((nodes[1:] + nodes[:-1]) / (2.0 * (nodes[-1] - nodes[0])))
