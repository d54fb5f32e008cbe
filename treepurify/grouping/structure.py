"""Group the features of a tree ensemble by the interactions that it truly holds."""

from collections.abc import Callable

import numpy as np

from treepurify._kernels.mixed_differences import mixed_corners
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.errors import UnsupportedModelError
from treepurify.grids.grid import Grid, Subset, make_grid
from treepurify.grouping.strengths import connected_groups
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Integers

__all__ = ["group_by_structure"]

_MOST_FEATURES = 62


def group_by_structure(
    ensemble: TreeEnsemble,
    columns: Columns | None,
    tolerance: float | None,
    progress: Callable[[str, int, int], None],
) -> tuple[Subset, ...]:
    r"""Return the finest groups between which the ensemble is additive.

    Features i and j belong together if a component with both is not zero, under any product
    measure with mass in every cell: which one does not matter. All mass at one cell, the
    anchor, makes components cheap: that of S is the ensemble with all other features at the
    anchor, and it is zero iff all its mixed differences along S are. These are sums of leaf
    values over the corners of boxes, so the answer is exact up to the rounding of such sums,
    however small the region of the interaction is.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    columns : Columns, optional
        Rows; cells for missing and unseen values are looked at where they have some.
    tolerance : float, optional
        Largest mixed difference, on the margin scale, that counts as zero. By default a
        sum of k leaf values is zero up to ``gamma_k`` times the sum of their absolute values.
    progress : callable
        Called with a word, the number of features of the subsets done and their most.

    Returns
    -------
    tuple of tuple of int
        The groups.

    Raises
    ------
    UnsupportedModelError
        If a path tests more than 62 features.
    """
    grid, _ = make_grid(
        columns,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
    )
    boxes = leaf_boxes(ensemble, grid)
    depth = max((len(subset) for subset in boxes.subsets), default=0)
    if depth > _MOST_FEATURES:
        raise UnsupportedModelError(
            f'method="structure" needs paths that test at most {_MOST_FEATURES} features; one of '
            f'this model tests {depth}: use method="index"'
        )
    groups: tuple[Subset, ...] = tuple((j,) for j in range(ensemble.n_features))
    for size in range(2, depth + 1):
        progress("searching for interactions: size", size, depth)
        label = np.empty(ensemble.n_features, dtype=np.int64)
        for number, group in enumerate(groups):
            label[list(group)] = number
        edges = _interacting(ensemble, boxes, grid, size, label, tolerance)
        chains = [(group[0], j) for group in groups for j in group[1:]]
        groups = connected_groups(ensemble.n_features, [*chains, *edges])
    return groups


def _interacting(
    ensemble: TreeEnsemble,
    boxes: LeafBoxes,
    grid: Grid,
    size: int,
    label: Integers,
    tolerance: float | None,
) -> list[tuple[int, int]]:
    """Return pairs of features that a component of `size` features joins."""
    n_cells = np.array([axis.n_cells for axis in grid.axes], dtype=np.int64)
    first_key, second_key, sign_of, leaf_of, choice = mixed_corners(
        np.flatnonzero(boxes.leaf_subset >= 0),
        size,
        boxes.entry_ptr,
        boxes.entry_feature,
        boxes.run_ptr,
        boxes.run_start,
        boxes.run_stop,
        n_cells,
        n_cells // 2,
        label,
    )
    if not len(first_key):
        return []
    order = np.lexsort((second_key, first_key))
    one, two = first_key[order], second_key[order]
    is_new = np.append(True, (one[1:] != one[:-1]) | (two[1:] != two[:-1]))
    starts = np.flatnonzero(is_new)
    count = np.diff(np.append(starts, len(order)))
    leaf, sign = leaf_of[order], sign_of[order].astype(np.float64)
    is_nonzero = np.zeros(len(starts), dtype=bool)
    for k in range(ensemble.n_outputs):
        values = sign * _values(boxes, leaf, k)
        sums = np.abs(np.add.reduceat(values, starts))
        if tolerance is None:
            terms = count * 2.0**-53
            allowed = terms / (1 - terms) * np.add.reduceat(np.abs(values), starts)
        else:
            allowed = np.full(len(starts), tolerance)
        is_nonzero |= sums > allowed
    edges = set()
    for position in order[starts[is_nonzero]]:
        leaf_number = int(leaf_of[position])
        entries = boxes.entry_feature[
            boxes.entry_ptr[leaf_number] : boxes.entry_ptr[leaf_number + 1]
        ]
        chosen = [int(j) for k, j in enumerate(entries) if int(choice[position]) >> k & 1]
        edges |= {(chosen[0], j) for j in chosen[1:]}
    return sorted(edges)


def _values(boxes: LeafBoxes, leaf: Integers, output: int) -> Array:
    leaf_output = boxes.output[leaf]
    column = np.where(leaf_output < 0, output, 0)
    values = boxes.values[leaf, np.minimum(column, boxes.values.shape[1] - 1)]
    return np.where((leaf_output < 0) | (leaf_output == output), values, 0.0)
