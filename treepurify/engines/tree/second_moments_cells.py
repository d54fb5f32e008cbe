"""Second moments of an ensemble from its values in all cells of its features together."""

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from treepurify._kernels.accumulate import cumulate
from treepurify._kernels.joint_cells import add_joint_corners, split_mean
from treepurify.effects.accumulate import LeafBoxes
from treepurify.engines.tree.independent_leaves import (
    IndependentLeaves,
    OutputLeaves,
    SecondMoments,
    exact_moments,
)

__all__ = ["cell_bytes", "cell_steps", "moments_of_cells"]

Array = npt.NDArray[np.float64]


def cell_bytes(own: OutputLeaves, margins: Mapping[int, Array]) -> int:
    """Return the bytes of the table of all cells and of its half-folded copy."""
    return 16 * prod(_sizes(own, margins))


def cell_steps(own: OutputLeaves, margins: Mapping[int, Array]) -> int:
    """Return how many additions fill the table, sum it up and split its means off."""
    sizes = _sizes(own, margins)
    return 2 * len(sizes) * prod(sizes) + _corners(own)


def _features(own: OutputLeaves, margins: Mapping[int, Array]) -> list[int]:
    """Return the tested features with mass in more than one cell: others are constant."""
    return [j for j in own.features.tolist() if np.count_nonzero(margins[j]) > 1]


def _sizes(own: OutputLeaves, margins: Mapping[int, Array]) -> list[int]:
    return [int(np.count_nonzero(margins[j])) for j in _features(own, margins)]


def _corners(own: OutputLeaves) -> int:
    """Return the number of corners of all boxes, a large number where they are too many."""
    if not len(own.leaves):
        return 0
    sides = 2.0 * np.diff(own.run_ptr)[own.leaf_interval]
    return int(min(np.multiply.reduceat(sides, own.leaf_ptr[:-1]).sum(), 1e18))


def moments_of_cells(leaves: IndependentLeaves, own: OutputLeaves, pairs: Array) -> SecondMoments:
    """Return the second moments of one output, from its values in every cell with mass.

    Along each axis in turn a line of values becomes its mean and orthonormal coordinates
    about it. What then has coordinates along the axes of S and means along all others is the
    component of S, whose variance is the sum of its squares: a sum of positive numbers, in
    which nothing cancels. `pairs`, zeros of shape (n_features, n_features), becomes the
    variances of the components that contain two features.
    """
    features = _features(own, leaves.margins)
    mains = np.zeros(len(pairs))
    if not features:
        return exact_moments(np.zeros(leaves.depth), mains)
    squares = _coordinates(leaves.boxes, own, leaves.margins)
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
    return exact_moments(orders[1 : leaves.depth + 1], mains)


def _place(n_axes: int, *chosen: int) -> tuple[int, ...]:
    """Return the place with coordinates along the chosen axes."""
    return tuple(int(axis in chosen) for axis in range(n_axes))


def _coordinates(boxes: LeafBoxes, own: OutputLeaves, margins: Mapping[int, Array]) -> Array:
    """Return the coordinates of the output in all cells with mass, means first."""
    features = _features(own, margins)
    start, stop = _runs_with_mass(boxes, margins)
    shape = _sizes(own, margins)
    axis_of_feature = np.full(len(own.feature_ptr) - 1, -1)
    axis_of_feature[features] = np.arange(len(features))
    extents = np.array([*shape, 1])
    table = np.zeros(prod(shape))
    values = np.zeros((len(boxes.leaf_subset), 1))
    values[own.leaves, 0] = own.values
    add_joint_corners(
        own.leaves,
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
    cumulate(table, 0, extents, len(shape), 1)
    for axis, feature in enumerate(features):
        mass = margins[feature][margins[feature] > 0]
        split_mean(table, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), mass)
    return table.reshape(shape)


def _runs_with_mass(
    boxes: LeafBoxes, margins: Mapping[int, Array]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return starts and stops of all runs, counting cells with mass only."""
    start, stop = (np.zeros(len(boxes.run_start), dtype=np.int64) for _ in range(2))
    entry = np.repeat(np.arange(len(boxes.entry_feature)), np.diff(boxes.run_ptr))
    feature = boxes.entry_feature[entry]
    for j, margin in margins.items():
        own = feature == j
        before = np.concatenate([[0], np.cumsum(margin > 0)])
        start[own], stop[own] = before[boxes.run_start[own]], before[boxes.run_stop[own]]
    return start, stop
