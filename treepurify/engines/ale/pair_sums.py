"""What accumulated local effects of pairs learn from rows: second differences in cells.

Those of all pairs of a tree ensemble come from one walk of each row, as the rows that are moved
along two features only reach leaves from which these features alone keep them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treepurify._kernels.pair_steps import add_pair_steps
from treepurify.engines.ale.axes import intervals_of_rows, places_of_values, weight_at_places
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.common.functions import ParsedFunction, RowFunction, part_along
from treepurify.grids.grid import Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Integers

_ROWS_A_BLOCK = 512

Axes = Mapping[int, AccumulationAxis]


@dataclass(frozen=True, eq=False)
class PairSums:
    """Second differences of a function over the cells of two features.

    Parameters
    ----------
    weight : ndarray of float64, shape (n_places, n_places)
        Weight of the rows in the intervals of numeric features, at the nodes of categorical ones.
    total : ndarray of float64, shape (n_intervals, n_intervals, n_outputs)
        Weighted sum of their second differences in each cell of intervals.
    """

    weight: Array
    total: Array


def pair_sums(
    f: RowFunction,
    columns: Columns,
    weights: Array,
    axes: Axes,
    pairs: Sequence[Subset],
    report: ProgressReport,
) -> dict[Subset, PairSums]:
    """Return the second differences of a function over the cells of each pair, on some rows.

    Parameters
    ----------
    f : RowFunction
        The function.
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_rows,)
        Their weights.
    axes : mapping of int to AccumulationAxis
        The nodes of each feature.
    pairs : sequence of tuple of int
        The pairs, features increasing.
    report : callable
        Progress.
    """
    paired = {j for pair in pairs for j in pair}
    placed = {j: places_of_values(axes[j], columns.values[j]) for j in paired}
    if isinstance(f, ParsedFunction) and isinstance(f.model, TreeEnsemble):
        totals = _totals_of_trees(f.model, columns, weights, axes, pairs, placed, report)
    else:
        totals = {}
        for done, pair in enumerate(pairs):
            report("local effects of pairs", done, len(pairs))
            totals[pair] = _totals(f, columns, weights, [axes[j] for j in pair])
    return {
        (j, k): PairSums(
            weight_at_places([axes[j], axes[k]], [placed[j], placed[k]], weights), totals[j, k]
        )
        for j, k in pairs
    }


def _totals(
    f: RowFunction, columns: Columns, weights: Array, axes: Sequence[AccumulationAxis]
) -> Array:
    """Return the weighted second differences in each cell of two features, from calls."""
    first, second = axes
    shape = (first.n_intervals, second.n_intervals)
    along = part_along(f, (first.feature, second.feature))
    if not along.used_features:
        return np.zeros((*shape, f.n_outputs))
    rows, left = intervals_of_rows(first, columns, np.arange(columns.n_rows))
    picked, right = intervals_of_rows(
        second, columns.take(rows, (second.feature,)), np.arange(len(rows))
    )
    rows, left = rows[picked], left[picked]
    in_cells = columns.take(rows, along.used_features)
    difference = np.zeros((len(rows), f.n_outputs))
    for up, across in ((1, 1), (0, 1), (1, 0), (0, 0)):
        moved = moved_rows(in_cells, [(first, left + up), (second, right + across)])
        difference += (1.0 if up == across else -1.0) * along(moved)
    cell = left * shape[1] + right
    total = sums_of_groups(cell, weights[rows][:, None] * difference, shape[0] * shape[1])
    return total.reshape(*shape, -1)


def _totals_of_trees(
    ensemble: TreeEnsemble,
    columns: Columns,
    weights: Array,
    axes: Axes,
    pairs: Sequence[Subset],
    placed: Mapping[int, Indices],
    report: ProgressReport,
) -> dict[Subset, Array]:
    """Return the weighted second differences of trees in each cell of all pairs."""
    used = ensemble.used_features
    place = {j: i for i, j in enumerate(used)}
    n_cells = [axes[j].n_intervals * axes[k].n_intervals for j, k in pairs]
    starts = np.concatenate([[0], np.cumsum(n_cells, dtype=np.int64)])
    table_of = np.full((len(used), len(used)), -1)
    for (j, k), start in zip(pairs, starts.tolist(), strict=False):
        table_of[place[j], place[k]] = start
    moving = {place[j]: axes[j] for pair in pairs for j in pair}
    width = np.array([moving[i].n_intervals if i in moving else 0 for i in range(len(used))])
    totals = np.zeros((int(starts[-1]), ensemble.n_outputs))
    tested = columns.of_features(used)
    for start in range(0, columns.n_rows if pairs else 0, _ROWS_A_BLOCK):
        report("local effects of pairs", start, columns.n_rows)
        block = slice(start, start + _ROWS_A_BLOCK)
        add_pair_steps(
            *steps_of_rows(tested.matrix(start, start + _ROWS_A_BLOCK), moving, start, placed),
            weights[block],
            table_of,
            width,
            ensemble.tree_ptr,
            *ensemble.walk,
            ensemble.cut,
            ensemble.missing_left,
            ensemble.category_ptr,
            ensemble.category_left,
            ensemble.value,
            ensemble.tree_output,
            totals,
        )
    return {
        (j, k): totals[start:stop].reshape(axes[j].n_intervals, axes[k].n_intervals, -1)
        for (j, k), start, stop in zip(pairs, starts[:-1], starts[1:], strict=True)
    }


def steps_of_rows(
    own: Array, axes: Axes, start: int, placed: Mapping[int, Indices]
) -> tuple[Array, Integers]:
    """Return values below, own and above, and the intervals of both steps, by row and column.

    The rows are those from `start` on, whose places along each feature are in `placed`.

    A numeric value moves over its interval in one step, a category to each of its neighbours. What
    has no place, or no neighbour on one side, stays there.
    """
    points = np.repeat(own[:, :, None], 3, axis=2)
    cells = np.zeros((*own.shape, 2), dtype=np.int64)
    for i, axis in axes.items():
        place = placed[axis.feature][start : start + len(own)]
        known = np.flatnonzero(place >= 0)
        lower = upper = place[known]
        if axis.is_categorical:
            lower = np.maximum(lower - 1, 0)
            upper = np.minimum(upper, axis.n_intervals - 1)
        cells[known, i, 0], cells[known, i, 1] = lower, upper
        points[known, i, 0], points[known, i, 2] = axis.nodes[lower], axis.nodes[upper + 1]
    return points, cells


def moved_rows(rows: Columns, places: Sequence[tuple[AccumulationAxis, Indices]]) -> Columns:
    """Return the rows with features set to the given nodes."""
    moved = {axis.feature: axis.nodes[node] for axis, node in places}
    values = tuple(moved.get(j, column) for j, column in enumerate(rows.values))
    return Columns(rows.features, values, rows.n_rows)


def sums_of_groups(group: Indices, values: Array, n_groups: int) -> Array:
    """Return the sums of the values in each group, shape (n_groups, n_outputs)."""
    columns = [np.bincount(group, weights=column, minlength=n_groups) for column in values.T]
    return np.stack(columns, axis=1).astype(np.float64)
