"""The margin of rows, read off the sums of leaves: for very many shallow trees."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.effects.accumulate import accumulate, table_sizes
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.grids.grid import Grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array

__all__ = ["margin_in_cells"]

# About so many numbers are in the tables that are made at a time; one table may have more.
_NUMBERS_AT_ONCE = 1 << 23


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
    sizes = table_sizes([grid.shape(subset) for subset in boxes.subsets], n_outputs)
    group_of = np.cumsum(np.array(sizes, dtype=np.float64)) // _NUMBERS_AT_ONCE
    for group in np.unique(group_of):
        chosen = np.flatnonzero(group_of == group)
        # Leaves of other subsets count as out of reach, as those with -1 do.
        number = np.full(len(boxes.subsets) + 1, -1)
        number[chosen] = np.arange(len(chosen))
        subsets = tuple(boxes.subsets[position] for position in chosen)
        some = replace(boxes, subsets=subsets, leaf_subset=number[boxes.leaf_subset])
        part = accumulate(ensemble, grid, some, memory_budget)
        total += part.intercept - ensemble.base
        for subset, tensor in part.tensors.items():
            along = [cells[j].astype(np.intp) for j in subset]
            flat = np.ravel_multi_index(along, grid.shape(subset))
            total += tensor.values.reshape(-1, n_outputs).take(flat, axis=0)
    return total
