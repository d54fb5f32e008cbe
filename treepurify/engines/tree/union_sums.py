"""Sums of the tables of many trees on the union grid, where cells are many: by differences."""

from itertools import pairwise

import numpy as np

from treepurify.engines.tree.tree_problem import TreeTerms
from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array

__all__ = ["add_differences", "integrate"]

_LARGE = 4096


def add_differences(
    table: Array, subset: Subset, terms: TreeTerms, grid: Grid, total: Array
) -> None:
    """Add a term's table to a tensor on the union grid, as differences along numeric axes.

    A table of a few cells then costs a few additions, not one for each cell of the union
    grid; `integrate` sums the differences up once, after all trees.
    """
    places = []
    for axis, j in enumerate(subset):
        local, first = terms.local_cells[j], terms.first_cells[j]
        if grid.axes[j].is_categorical:
            table = np.take(table, local, axis=axis)
            first = np.arange(len(local))
        else:
            before = (slice(None),) * axis
            differences = table.copy()
            differences[*before, 1:] -= table[*before, :-1]
            table = differences
        shape = [1] * len(subset)
        shape[axis] = -1
        places.append(first.reshape(shape))
    total[tuple(places)] += table


def integrate(total: Array, subset: Subset, grid: Grid) -> None:
    """Turn differences along numeric axes into values, in place."""
    for position, j in enumerate(subset):
        if grid.axes[j].is_categorical:
            continue
        if total[0].size < _LARGE or position == len(subset) - 1:
            np.cumsum(total, axis=position, out=total)
            continue
        # Large slices are added faster than NumPy sums along an axis that is not the last.
        slices = np.moveaxis(total, position, 0)
        for before, after in pairwise(slices):
            np.add(before, after, out=after)
