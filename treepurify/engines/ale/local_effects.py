"""Local differences of a model, accumulated and centred (Apley and Zhu 2020).

They are taken between nodes; along one feature of a tree ensemble at the model's own cuts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.components import TensorComponent
from treepurify.engines.ale.axes import intervals_of_rows, node_weights
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.common.functions import ParsedFunction, RowFunction
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import encode_rows
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Mask

__all__ = ["Accumulated", "main_effect", "pair_effect", "tree_main_effect"]

# Masses, and the distances and places of the nearest cells, beside tables of each output.
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
    in_intervals = columns.take(rows)
    upper = f(_moved(in_intervals, [(axis, interval + 1)]))
    difference = upper - f(_moved(in_intervals, [(axis, interval)]))
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
    # The centred effect at a node is the sum of the steps before it, each less the share of the
    # rows beyond the step; a step after it counts with minus that share.
    beyond = (standing.sum() - standing.cumsum())[:-1, None]
    values = np.concatenate([np.zeros((1, f.n_outputs)), mean.cumsum(axis=0)])
    values -= (beyond * mean).sum(axis=0)
    error = np.zeros_like(values)
    error[1:] = ((1.0 - beyond) ** 2 * spread).cumsum(axis=0)
    error[:-1] += (beyond**2 * spread)[::-1].cumsum(axis=0)[::-1]
    return Accumulated(values, np.sqrt(error), int(np.sum(mass == 0)))


def pair_effect(
    f: RowFunction,
    columns: Columns,
    shares: Array,
    axes: tuple[AccumulationAxis, AccumulationAxis],
    memory_budget: int = DEFAULT_BUDGET,
) -> Accumulated:
    """Accumulate second differences over cells, and take the main effects of the result out.

    Cells without a row take the difference of the nearest cell with rows, as in the authors'
    ALEPlot: a convention, so such cells are counted.
    """
    first, second = axes
    shape = (first.n_intervals, second.n_intervals)
    check_budget(
        8 * (shape[0] + 1) * (shape[1] + 1) * (4 * f.n_outputs + _TABLES_OF_CELLS),
        memory_budget,
        f"the local effects of {f.features[first.feature].name!r} and "
        f"{f.features[second.feature].name!r} in {shape[0]} x {shape[1]} cells",
        "Join rare categories, pass fewer bins, or name the pairs you need as interactions.",
    )
    everything = np.arange(columns.n_rows)
    rows, left = intervals_of_rows(first, columns, everything)
    place = np.arange(len(rows))
    picked, right = intervals_of_rows(second, columns.take(rows), place)
    rows, left = rows[picked], left[picked]
    in_cells = columns.take(rows)
    difference = np.zeros((len(rows), f.n_outputs))
    for up, across in ((1, 1), (0, 1), (1, 0), (0, 0)):
        moved = _moved(in_cells, [(first, left + up), (second, right + across)])
        difference += (1.0 if up == across else -1.0) * f(moved)
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


def tree_main_effect(
    f: RowFunction, columns: Columns, shares: Array, axis: AccumulationAxis
) -> TensorComponent:
    """Accumulate the model's jumps at its cuts, each over the rows of its quantile bin.

    The difference of a tree ensemble across a bin is the sum of its jumps at the cuts within
    the bin, so at the quantiles the result is that of `main_effect`; in between it is the
    step function that belongs to the model. Rows with a missing value have effect zero.
    """
    if not isinstance(f, ParsedFunction) or not isinstance(f.model, TreeEnsemble):
        raise InvalidInputError("only tree ensembles have cuts")
    j = axis.feature
    if f.features[j].is_categorical:
        raise InvalidInputError(f"feature {f.features[j].name!r} is categorical")
    cuts = _cuts(f.model, j)
    blank = FeatureAxis(f.features[j].name, cuts, has_missing=f.features[j].has_missing)
    alone = Columns((f.features[j],), (columns.values[j],), columns.n_rows)
    encoded, (cells,) = encode_rows(alone, (blank,))
    points = np.concatenate([[-np.inf], cuts])
    # The cells that lie, at least in part, between the ends of each interval.
    lowest = np.searchsorted(cuts, axis.nodes[:-1], side="right")
    highest = np.searchsorted(cuts, axis.nodes[1:], side="right")
    rows, interval = intervals_of_rows(axis, columns, np.arange(columns.n_rows))
    in_intervals = columns.take(rows)
    jump = np.zeros((cells.n_cells, f.n_outputs))
    weight = shares[rows]
    mass = np.bincount(interval, weights=weight, minlength=axis.n_intervals)
    for step in range(int(np.max(highest - lowest, initial=0))):
        at = lowest[interval] + step
        crossing = np.flatnonzero((at < highest[interval]) & (weight > 0))
        if not len(crossing):
            continue
        crossed = in_intervals.take(crossing)
        cell = at[crossing]
        beyond, before = points[cell + 1], _inside(points, cell)
        difference = f(_replaced(crossed, {j: beyond})) - f(_replaced(crossed, {j: before}))
        share = weight[crossing] / mass[interval[crossing]]
        np.add.at(jump, cell + 1, share[:, None] * difference)
    values = jump.cumsum(axis=0)
    probability: Array = np.zeros(cells.n_cells)
    np.add.at(probability, encoded.codes[0], shares)
    known = np.arange(cells.n_cells) < cells.n_regular
    values[~known] = 0.0
    standing = probability * known
    values[known] -= standing @ values / max(float(standing.sum()), 1e-300)
    return TensorComponent((j,), (cells,), values, probability, f.inputs)


def _cuts(ensemble: TreeEnsemble, feature: int) -> Array:
    """Return the cuts of one feature, sorted; see `ensemble_cuts` for those of all."""
    cuts = ensemble.cut[(ensemble.feature == feature) & (ensemble.category_ptr < 0)]
    return np.unique(cuts[cuts > -np.inf])


def _inside(points: Array, cell: Indices) -> Array:
    """Return a value in each cell: its lower end, or just below the first cut."""
    below = np.nextafter(points[1], -np.inf)
    return np.where(cell == 0, below, points[cell])


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


def _moved(rows: Columns, places: list[tuple[AccumulationAxis, Indices]]) -> Columns:
    """Return the rows with features set to the given nodes."""
    return _replaced(rows, {axis.feature: axis.nodes[node] for axis, node in places})


def _replaced(rows: Columns, values: Mapping[int, npt.NDArray[Any]]) -> Columns:
    """Return the rows with other values of some features."""
    columns = tuple(values.get(j, column) for j, column in enumerate(rows.values))
    return Columns(rows.features, columns, rows.n_rows)


def _sums(group: Indices, values: Array, n_groups: int) -> Array:
    columns = [np.bincount(group, weights=column, minlength=n_groups) for column in values.T]
    return np.stack(columns, axis=1)


def _node_mass(
    axes: list[AccumulationAxis], columns: Columns, shares: Array, rows: Indices
) -> Array:
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
            beside = np.where(side >= 0, (second - second[side]) ** 2, np.inf)
            distance = down + beside
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
