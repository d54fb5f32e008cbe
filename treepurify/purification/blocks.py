"""Blocks into which the cells of two features fall that have rows, or mass, together."""

import numpy as np

from treepurify.typing import Cells, Indices

__all__ = ["label_blocks"]


def label_blocks(
    first: Cells, second: Cells, shape: tuple[int, ...]
) -> tuple[Indices, Indices, int]:
    """Label the connected blocks of a table's rows and columns.

    Without a kernel, which the tables of shallow trees would not need otherwise.

    Parameters
    ----------
    first, second : ndarray of int, shape (n_cells,)
        Row and column of each cell that has rows or mass; cells may be repeated.
    shape : tuple of two ints
        Number of rows and columns.

    Returns
    -------
    of_rows, of_columns : ndarray of int
        Block of each row and column, from 0 on in the order of their first rows; -1 where no
        cell has mass.
    n_blocks : int
    """
    one, other = first.astype(np.intp), shape[0] + second.astype(np.intp)
    nodes = np.arange(sum(shape))
    has_mass = np.zeros(len(nodes), dtype=bool)
    has_mass[one] = has_mass[other] = True
    # Each node leads to a smaller one of its block or to itself.
    leads_to = nodes.copy()
    while len(one):
        np.minimum.at(leads_to, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(leads_to, further := leads_to[leads_to]):
            leads_to = further
        one, other = leads_to[one], leads_to[other]
        is_apart = one != other
        one, other = one[is_apart], other[is_apart]
    block = np.full(len(nodes), -1, dtype=np.intp)
    starts, block[has_mass] = np.unique(leads_to[has_mass], return_inverse=True)
    return block[: shape[0]], block[shape[0] :], len(starts)
