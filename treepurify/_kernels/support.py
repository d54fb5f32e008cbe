"""The connected components of the cells of a pair table that have mass."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(cache=True, nogil=True)
def support_blocks(mass):
    """Label the connected blocks of rows and columns that share a cell with mass.

    Returns the block of each row and of each column, -1 for those without mass, and the
    number of blocks. Blocks are numbered by their first row.
    """
    n_rows, n_columns = mass.shape
    parent = np.arange(n_rows + n_columns)
    filled = np.zeros(n_rows + n_columns, dtype=np.bool_)
    for i in range(n_rows):
        for j in range(n_columns):
            if mass[i, j] > 0:
                filled[i] = True
                filled[n_rows + j] = True
                low = _root(parent, i)
                high = _root(parent, n_rows + j)
                if low != high:
                    parent[max(low, high)] = min(low, high)
    block = np.full(n_rows + n_columns, -1, dtype=np.int64)
    n_blocks = 0
    for node in range(n_rows + n_columns):
        if filled[node]:
            root = _root(parent, node)
            if root == node:
                block[node] = n_blocks
                n_blocks += 1
            else:
                block[node] = block[root]
    return block[:n_rows], block[n_rows:], n_blocks
