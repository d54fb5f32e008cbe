"""Local differences between nodes, accumulated and centred (Apley and Zhu 2020)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.columns import Columns
from treepurify.effects.accumulated import AccumulationAxis
from treepurify.engines.ale_axes import intervals_of_rows, node_weights
from treepurify.engines.black_box import RowFunction

__all__ = ["Accumulated", "main_effect", "pair_effect"]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


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
    """

    values: Array
    standard_error: Array
    empty: int


def main_effect(
    f: RowFunction, columns: Columns, shares: Array, axis: AccumulationAxis
) -> Accumulated:
    """Accumulate the mean difference of the function across each interval.

    Within an interval only rows that lie there are moved, and only to its two ends: the
    function is asked near the data, also where features depend on each other.
    """
    everything = np.arange(columns.n_rows)
    rows, interval = intervals_of_rows(axis, columns, everything)
    own = columns.take(rows)
    upper = f(_moved(own, [(axis, interval + 1)]))
    difference = upper - f(_moved(own, [(axis, interval)]))
    weight = shares[rows]
    mass = np.bincount(interval, weights=weight, minlength=axis.n_intervals)
    mean = _sums(interval, weight[:, None] * difference, axis.n_intervals)
    mean /= np.where(mass > 0, mass, 1.0)[:, None]
    deviation = (weight[:, None] * (difference - mean[interval])) ** 2
    count = np.bincount(interval[weight > 0], minlength=axis.n_intervals)
    spread = _sums(interval, deviation, axis.n_intervals)
    spread /= np.where(mass > 0, mass, 1.0)[:, None] ** 2
    spread *= (count / np.maximum(count - 1, 1))[:, None]
    standing = _node_mass([axis], columns, shares, everything)
    # Row k of the matrix turns means of intervals into the centred effect at node k.
    steps = np.tril(np.ones((len(axis.nodes), axis.n_intervals)), -1)
    accumulate = steps - standing @ steps
    error = np.sqrt(accumulate**2 @ spread)
    return Accumulated(accumulate @ mean, error, int(np.sum(mass == 0)))


def pair_effect(
    f: RowFunction,
    columns: Columns,
    shares: Array,
    axes: tuple[AccumulationAxis, AccumulationAxis],
) -> Accumulated:
    """Accumulate second differences over cells, and take the main effects of the result out.

    Cells without a row take the difference of the nearest cell with rows, as in the authors'
    ALEPlot: a convention, so such cells are counted.
    """
    first, second = axes
    everything = np.arange(columns.n_rows)
    rows, left = intervals_of_rows(first, columns, everything)
    place = np.arange(len(rows))
    picked, right = intervals_of_rows(second, columns.take(rows), place)
    rows, left = rows[picked], left[picked]
    own = columns.take(rows)
    difference = np.zeros((len(rows), f.n_outputs))
    for up, across in ((1, 1), (0, 1), (1, 0), (0, 0)):
        moved = _moved(own, [(first, left + up), (second, right + across)])
        difference += (1.0 if up == across else -1.0) * f(moved)
    shape = (first.n_intervals, second.n_intervals)
    cell = left * shape[1] + right
    weight = shares[rows]
    mass: Array = np.zeros(shape[0] * shape[1])
    np.add.at(mass, cell, weight)
    mean = _sums(cell, weight[:, None] * difference, len(mass))
    mean /= np.where(mass > 0, mass, 1.0)[:, None]
    mean = _filled(mean.reshape(*shape, -1), mass.reshape(shape), axes)
    total = np.zeros((shape[0] + 1, shape[1] + 1, f.n_outputs))
    total[1:, 1:] = mean.cumsum(axis=0).cumsum(axis=1)
    for axis, other, position in ((first, second, 0), (second, first, 1)):
        effect = _own_main_effect(total, axis, other, position, columns, shares)
        total = total - np.expand_dims(effect, 1 - position)
    standing = _node_mass([first, second], columns, shares, everything)
    total = total - np.einsum("ab,abk->k", standing, total)
    return Accumulated(total, np.full_like(total, np.nan), int(np.sum(mass == 0)))


def _own_main_effect(
    total: Array,
    axis: AccumulationAxis,
    other: AccumulationAxis,
    position: int,
    columns: Columns,
    shares: Array,
) -> Array:
    """Return the accumulated main effect that the accumulated pair itself has."""
    oriented = total if position == 0 else total.transpose(1, 0, 2)
    rows, interval = intervals_of_rows(axis, columns, np.arange(columns.n_rows))
    weight = np.zeros((axis.n_intervals, len(other.nodes)))
    for node, share in node_weights(other, columns, rows):
        np.add.at(weight, (interval, node), shares[rows] * share)
    mass = weight.sum(axis=1, keepdims=True)
    weight /= np.where(mass > 0, mass, 1.0)
    steps = np.einsum("ib,ibk->ik", weight, np.diff(oriented, axis=0))
    effect = np.zeros((len(axis.nodes), total.shape[-1]))
    effect[1:] = steps.cumsum(axis=0)
    return effect


def _moved(rows: Columns, places: list[tuple[AccumulationAxis, Rows]]) -> Columns:
    """Return the rows with features set to the given nodes."""
    values = list(rows.values)
    for axis, node in places:
        values[axis.feature] = axis.nodes[node]
    return Columns(rows.features, tuple(values), rows.n_rows)


def _sums(group: Rows, values: Array, n_groups: int) -> Array:
    columns = [np.bincount(group, weights=column, minlength=n_groups) for column in values.T]
    return np.stack(columns, axis=1)


def _node_mass(axes: list[AccumulationAxis], columns: Columns, shares: Array, rows: Rows) -> Array:
    """Return the share of the rows that each node stands for; they sum to one."""
    mass = np.zeros([len(axis.nodes) for axis in axes])
    places = [node_weights(axis, columns, rows) for axis in axes]
    if len(axes) == 1:
        for node, share in places[0]:
            np.add.at(mass, node, shares * share)
    else:
        for node, share in places[0]:
            for other, part in places[1]:
                np.add.at(mass, (node, other), shares * share * part)
    whole = mass.sum()
    return mass / whole if whole > 0 else mass


def _filled(mean: Array, mass: Array, axes: tuple[AccumulationAxis, AccumulationAxis]) -> Array:
    """Give cells without a row the difference of the nearest cell that has some."""
    empty = np.argwhere(mass == 0)
    if not len(empty) or len(empty) == mass.size:
        return mean
    filled = np.argwhere(mass > 0)
    centres = [_centres(axis) for axis in axes]
    here = np.stack([centres[k][empty[:, k]] for k in range(2)], axis=1)
    there = np.stack([centres[k][filled[:, k]] for k in range(2)], axis=1)
    distance = ((here[:, None] - there[None]) ** 2).sum(axis=2)
    nearest = filled[distance.argmin(axis=1)]
    result = mean.copy()
    result[tuple(empty.T)] = mean[tuple(nearest.T)]
    return result


def _centres(axis: AccumulationAxis) -> Array:
    nodes = np.arange(len(axis.nodes)) if axis.is_categorical else axis.nodes
    return np.asarray((nodes[1:] + nodes[:-1]) / (2.0 * (nodes[-1] - nodes[0])))
