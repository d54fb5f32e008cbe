"""Second moments of one output: from joint cells, from pairs of leaves, or from sampled rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify._kernels.cumulate import cumulate
from treepurify._kernels.joint_cells import add_joint_corners, split_mean
from treepurify._kernels.leaf_pairs import MOST_BITS, leaf_pair_moments
from treepurify._kernels.sampled_moments import effects_on_rows
from treepurify.budget import check_budget
from treepurify.effects.conditional import subset_keys
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.engines.tree.independent_leaves import IndependentLeaves, OutputLeaves
from treepurify.threads import available_threads, iterate_threads, map_threads
from treepurify.typing import Array, Indices, Integers

__all__ = [
    "SecondMoments",
    "cell_bytes",
    "cell_steps",
    "moments_of_cells",
    "moments_of_pairs",
    "moments_of_rows",
    "pair_work",
]

_LEAVES_IN_A_PIECE = 64
_ROWS_IN_A_BLOCK = 256


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Variances of one output by order, and of all components with a feature.

    Parameters
    ----------
    orders, order_errors : ndarray of float64, shape (depth,)
        Variance of the components of 1, 2, ... features, and standard errors.
    mains, main_errors : ndarray of float64, shape (n_features,)
        Variance of the components that contain the feature, and standard errors.
    variance_error : float
        Standard error of the sum of `orders`.
    """

    orders: Array
    order_errors: Array
    mains: Array
    main_errors: Array
    variance_error: float


def _exact_moments(orders: Array, mains: Array) -> SecondMoments:
    """Return second moments without errors."""
    return SecondMoments(orders, np.zeros_like(orders), mains, np.zeros_like(mains), 0.0)


def cell_bytes(output: OutputLeaves, margins: Mapping[int, Array]) -> int:
    """Return the bytes of the table of all joint cells and of its half-folded copy."""
    return 16 * prod(_sizes(output, margins))


def cell_steps(output: OutputLeaves, margins: Mapping[int, Array]) -> int:
    """Return how many additions fill the table, cumulate it and split off its means."""
    sizes = _sizes(output, margins)
    return 2 * len(sizes) * prod(sizes) + _corners(output)


def _features(output: OutputLeaves, margins: Mapping[int, Array]) -> list[int]:
    """Return the tested features with mass in more than one cell: others are constant."""
    return [j for j in output.features.tolist() if np.count_nonzero(margins[j]) > 1]


def _sizes(output: OutputLeaves, margins: Mapping[int, Array]) -> list[int]:
    return [int(np.count_nonzero(margins[j])) for j in _features(output, margins)]


def _corners(output: OutputLeaves) -> int:
    """Return the number of corners of all boxes, a large number where they are too many."""
    if not len(output.leaves):
        return 0
    sides = 2.0 * np.diff(output.run_ptr)[output.leaf_interval]
    return int(min(np.multiply.reduceat(sides, output.leaf_ptr[:-1]).sum(), 1e18))


def moments_of_cells(
    leaves: IndependentLeaves, output: OutputLeaves, pairs: Array
) -> SecondMoments:
    """Return the second moments of one output, from its values in every cell with mass.

    Along each axis in turn a line of values becomes its mean and orthonormal coordinates
    about it. What then has coordinates along the axes of S and means along all others is the
    component of S, whose variance is the sum of its squares: a sum of positive numbers, in
    which nothing cancels. `pairs`, zeros of shape (n_features, n_features), becomes the
    variances of the components that contain two features.
    """
    features = _features(output, leaves.margins)
    mains = np.zeros(len(pairs))
    if not features:
        return _exact_moments(np.zeros(leaves.depth), mains)
    squares = _coordinates(leaves.boxes, output, leaves.margins)
    np.square(squares, out=squares)
    for axis in np.argsort(squares.shape)[::-1]:
        squares = np.add.reduceat(squares, [0, 1], axis=axis)
    containing = np.ascontiguousarray(squares)
    size = np.indices(containing.shape, sparse=True)
    orders = np.zeros(leaves.depth + 1 + len(features))
    np.add.at(orders, np.ravel(sum(size)), containing.ravel())
    for axis in range(containing.ndim):
        np.moveaxis(containing, axis, 0)[0] += np.moveaxis(containing, axis, 0)[1]
    for i, first in enumerate(features):
        mains[first] = containing[_place(len(features), i)]
        for j, second in enumerate(features[:i]):
            total = containing[_place(len(features), i, j)]
            pairs[first, second] = pairs[second, first] = total
    return _exact_moments(orders[1 : leaves.depth + 1], mains)


def _place(n_axes: int, *chosen: int) -> tuple[int, ...]:
    """Return the index of the coordinates along the chosen axes."""
    return tuple(int(axis in chosen) for axis in range(n_axes))


def _coordinates(boxes: LeafBoxes, output: OutputLeaves, margins: Mapping[int, Array]) -> Array:
    """Return the coordinates of the output in all cells with mass, means first."""
    features = _features(output, margins)
    start, stop = _runs_with_mass(boxes, margins)
    shape = _sizes(output, margins)
    axis_of_feature = np.full(len(output.feature_ptr) - 1, -1)
    axis_of_feature[features] = np.arange(len(features))
    extents = np.array([*shape, 1])
    table = np.zeros(prod(shape))
    values = np.zeros((len(boxes.leaf_subset), 1))
    values[output.leaves, 0] = output.values
    add_joint_corners(
        output.leaves,
        boxes.entry_ptr,
        boxes.entry_feature,
        axis_of_feature,
        boxes.run_ptr,
        start,
        stop,
        extents,
        values,
        table,
    )
    cumulate(table, np.array([0, len(table)]), extents[None], np.array([len(shape)]), 1)
    for axis, feature in enumerate(features):
        mass = margins[feature][margins[feature] > 0]
        split_mean(table, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), mass)
    return table.reshape(shape)


def _runs_with_mass(boxes: LeafBoxes, margins: Mapping[int, Array]) -> tuple[Integers, Integers]:
    """Return starts and stops of all runs, counting cells with mass only."""
    start, stop = (np.zeros(len(boxes.run_start), dtype=np.int64) for _ in range(2))
    entry = np.repeat(np.arange(len(boxes.entry_feature)), np.diff(boxes.run_ptr))
    feature = boxes.entry_feature[entry]
    for j, margin in margins.items():
        of_feature = feature == j
        before = np.concatenate([[0], np.cumsum(margin > 0)])
        start[of_feature] = before[boxes.run_start[of_feature]]
        stop[of_feature] = before[boxes.run_stop[of_feature]]
    return start, stop


@dataclass(frozen=True, eq=False)
class _Part:
    """What some leaves add: by order, at pairs of features (flat), and by feature."""

    orders: Array
    places: Indices
    pairs: Array
    mains: Array


def pair_work(output: OutputLeaves) -> int:
    """Return the work of all pairs, in pairs of leaves with paths of six features.

    A pair takes time with the square of the features of one leaf, and pairs without a common
    feature are passed over.
    """
    width = np.diff(output.leaf_ptr).astype(np.float64)
    together = np.diff(output.feature_ptr).astype(np.float64) ** 2
    share = min(together.sum() / max(len(width), 1) ** 2, 1.0)
    return int(share * len(width) * np.sum(width * (width + 4.0)) / 60.0)


def moments_of_pairs(
    leaves: IndependentLeaves, output: OutputLeaves, n_strips: int, pairs: Array
) -> SecondMoments:
    """Return the second moments of one output, from every pair of its leaves.

    Parameters
    ----------
    leaves : IndependentLeaves
        The leaves of all outputs.
    output : OutputLeaves
        Those of one output.
    n_strips : int
        Tables of pairs that may be filled at a time.
    pairs : ndarray of float64, shape (n_features, n_features)
        Zeros; becomes the variances of the components that contain two features.
    """
    depth, pieces = leaves.depth, range(0, len(output.leaves), _LEAVES_IN_A_PIECE)

    def parts(strip: range) -> list[_Part]:
        table = np.zeros_like(pairs)
        return [_part(output, depth, first, table) for first in strip]

    by_strip = map_threads(parts, [pieces[i::n_strips] for i in range(n_strips)])
    orders, mains = np.zeros(depth + 1), np.zeros(len(pairs))
    # In the order of the leaves: sums do not depend on the number of threads.
    for i in range(len(pieces)):
        part = by_strip[i % n_strips][i // n_strips]
        orders += part.orders
        mains += part.mains
        pairs.ravel()[part.places] += part.pairs
    pairs += pairs.T
    return _exact_moments(orders[1:], mains)


class _Workspace(NamedTuple):
    """Workspace of `leaf_pair_moments`, which would take long to compile there.

    Parameters
    ----------
    of_intervals : ndarray of float64, shape (n_intervals + 1,)
        The ratio of each interval to one of a leaf, zero for a feature that is not tested.
    key, place : ndarray of int64, shape (n_leaves,)
        Which features of a leaf each other one tests, and its place in the order of these keys.
    weight : ndarray of float64, shape (n_leaves,)
        Amplitudes in this order.
    interval : ndarray of uint32, shape (depth, n_leaves)
        Intervals of the features in this order.
    ends : ndarray of int64
        Where the leaves of each key end.
    common, rows : ndarray of int64, shape (depth,)
        The features of a key, and their places among the features of the leaf.
    orders : ndarray of float64, shape (depth + 1,)
        Sums by order.
    """

    of_intervals: Array
    key: Indices
    place: Indices
    weight: Array
    interval: Integers
    ends: Indices
    common: Indices
    rows: Indices
    orders: Array


def _workspace(output: OutputLeaves, n_leaves: int, depth: int) -> _Workspace:
    return _Workspace(
        of_intervals=np.zeros(len(output.interval_probability) + 1),
        key=np.empty(n_leaves, dtype=np.intp),
        place=np.empty(n_leaves, dtype=np.intp),
        weight=np.empty(n_leaves),
        interval=np.empty((depth, n_leaves), dtype=np.uint32),
        ends=np.empty(2 << MOST_BITS, dtype=np.intp),
        common=np.empty(depth, dtype=np.intp),
        rows=np.empty(depth, dtype=np.intp),
        orders=np.empty(depth + 1),
    )


def _part(output: OutputLeaves, depth: int, first: int, table: Array) -> _Part:
    """Return what a piece of the leaves adds, from the `first` one on.

    `table` is workspace for pairs, zero before and after.
    """
    orders, mains = np.zeros(depth + 1), np.zeros(len(table))
    last = min(first + _LEAVES_IN_A_PIECE, len(output.leaves))
    leaf_pair_moments(
        first,
        last,
        output.amplitude,
        output.leaf_ptr,
        output.leaf_feature,
        output.leaf_interval,
        output.feature_ptr,
        output.feature_leaf,
        output.feature_interval,
        output.interval_ptr,
        output.interval_leaf,
        output.interval_probability,
        output.run_ptr,
        output.low,
        output.high,
        _workspace(output, last, depth),
        orders,
        table,
        mains,
    )
    flat = table.ravel()
    places = np.flatnonzero(flat)
    part = _Part(orders, places, flat[places], mains)
    flat[places] = 0.0
    return part


def moments_of_rows(
    depth: int,
    output: OutputLeaves,
    positions: Array,
    pairs: Array,
    pair_errors: Array,
    memory_budget: int,
) -> SecondMoments:
    """Return unbiased estimates of the second moments of one output, with standard errors.

    On each row the sum of the components of every order, the sum of those with a feature and
    the sum of those with a pair are exact, because the other features are averaged over in
    closed form. Only the mean of their squares is estimated, so that no estimate is negative
    and small numbers have small errors.

    Parameters
    ----------
    depth : int
        Most features on a path.
    output : OutputLeaves
        The leaves of the output.
    positions : ndarray of float64, shape (n_features, n_rows)
        The rows, each value as the cumulative probability of its feature: uniform numbers.
    pairs, pair_errors : ndarray of float64, shape (n_features, n_features)
        Zeros; become the estimates for pairs and their errors.
    memory_budget : int
        Bytes that the effects on rows may take.

    Raises
    ------
    MemoryBudgetError
        If the values on one row for each thread would not fit.
    """
    n_features, n_rows = positions.shape
    every = np.arange(len(output.leaves))
    keys, slots = np.unique(
        subset_keys(output.leaf_ptr, output.leaf_feature, every, 2, n_features + 1),
        return_inverse=True,
    )
    n_numbers = depth + 1 + n_features + len(keys)
    # The effects and their squares on each row, and the sums that wait to be added.
    row_bytes, sum_bytes = 16 * n_numbers, 128 * n_numbers
    free_bytes = memory_budget // available_threads() - sum_bytes
    check_budget(
        (row_bytes + sum_bytes) * available_threads(),
        memory_budget,
        f"the interaction indices of {len(keys)} pairs of features on sampled rows",
        "Name the interactions that you need.",
    )
    block = max(min(free_bytes // row_bytes, _ROWS_IN_A_BLOCK), 1)
    width = np.diff(output.leaf_ptr)
    slot_ptr = np.concatenate([[0], np.cumsum(width * (width - 1) // 2)]).astype(np.int64)

    def sums(first: int) -> tuple[Array, Array]:
        part = np.ascontiguousarray(positions[:, first : first + block])
        effects = np.zeros((n_numbers, part.shape[1]))
        effects_on_rows(
            part,
            output.values,
            output.leaf_ptr,
            output.leaf_feature,
            output.leaf_interval,
            output.interval_probability,
            output.run_ptr,
            output.low,
            output.high,
            slot_ptr,
            slots,
            *np.split(effects, [depth + 1, depth + 1 + n_features]),
        )
        np.square(effects, out=effects)
        # The first is the mean, which is known: its place is taken by the variance.
        effects[0] = effects[1 : depth + 1].sum(axis=0)
        return effects.sum(axis=1), np.square(effects, out=effects).sum(axis=1)

    total, squared = np.zeros(n_numbers), np.zeros(n_numbers)
    for one, two in iterate_threads(sums, range(0, n_rows, block)):
        total += one
        squared += two
    mean = total / n_rows
    error = np.sqrt(np.maximum(squared / n_rows - mean**2, 0.0) / (n_rows - 1))
    first, second = keys // (n_features + 1), keys % (n_features + 1)
    for table, numbers in ((pairs, mean), (pair_errors, error)):
        table[first, second] = table[second, first] = numbers[depth + 1 + n_features :]
    by_order, by_feature = slice(1, depth + 1), slice(depth + 1, depth + 1 + n_features)
    return SecondMoments(
        mean[by_order], error[by_order], mean[by_feature], error[by_feature], float(error[0])
    )
