"""The margin of rows, read off the sums of leaves: for very many shallow trees."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.effects.accumulate import accumulate
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array

__all__ = ["margin_in_cells"]

# Bytes of the tables that are made at a time; a larger one is made by itself.
_BYTES_AT_ONCE = 1 << 26


def margin_in_cells(
    ensemble: TreeEnsemble,
    grid: Grid,
    boxes: LeafBoxes,
    cells: npt.NDArray[Any],
    memory_budget: int,
) -> Array:
    """Return the margin of rows whose cells are known, shape (n_rows, n_outputs).

    Leaves are summed to a table for each set of features on a path, and every row takes one
    entry of each: the cost does not depend on the number of trees. Sums are those of the trees
    up to their order.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    grid : Grid
        The grid of all their cuts.
    boxes : LeafBoxes
        The leaves on it.
    cells : ndarray of int, shape (n_features, n_rows)
        Cell of each row along each axis.
    memory_budget : int
        Bytes that the tables of one step may take.

    Raises
    ------
    MemoryBudgetError
        If a single table would not fit.
    """
    n_outputs = ensemble.n_outputs
    total = np.tile(ensemble.base, (cells.shape[1], 1))
    for group in _groups(grid, boxes, n_outputs):
        part = accumulate(ensemble, grid, _only(boxes, group), memory_budget)
        total += part.intercept - ensemble.base
        for subset, tensor in part.tensors.items():
            along = [cells[j].astype(np.intp) for j in subset]
            flat = np.ravel_multi_index(along, grid.shape(subset))
            total += tensor.values.reshape(-1, n_outputs).take(flat, axis=0)
    return total


def _groups(grid: Grid, boxes: LeafBoxes, n_outputs: int) -> Iterator[list[int]]:
    """Yield positions of subsets whose tables are made together."""
    group: list[int] = []
    n_bytes = 0
    for position, subset in enumerate(boxes.subsets):
        size = 8 * prod(grid.shape(subset)) * n_outputs
        if group and n_bytes + size > _BYTES_AT_ONCE:
            yield group
            group, n_bytes = [], 0
        group.append(position)
        n_bytes += size
    if group:
        yield group


def _only(boxes: LeafBoxes, group: list[int]) -> LeafBoxes:
    """Return the boxes of the leaves on some subsets; the others count as out of reach."""
    number = np.full(len(boxes.subsets) + 1, -1, dtype=boxes.leaf_subset.dtype)
    number[group] = np.arange(len(group))
    subsets: tuple[Subset, ...] = tuple(boxes.subsets[position] for position in group)
    # The last entry stands for leaves that are out of reach already, -1.
    return replace(boxes, subsets=subsets, leaf_subset=number[boxes.leaf_subset])
