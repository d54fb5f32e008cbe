"""Blocks into which the cells of two features fall that some row has together."""

import numpy as np
from numba import njit

from treepurify._kernels.support import find_root


@njit(cache=True, nogil=True)
def pick_rows(codes, weights, picked, found):
    """Fill in the first rows of positive weight in each cell of one feature.

    `picked` has shape (n_cells, most), `found` begins as zeros of shape (n_cells,). Without
    weights, pass none.
    """
    most = picked.shape[1]
    for row in range(len(codes)):
        cell = codes[row]
        if found[cell] < most and (len(weights) == 0 or weights[row] > 0):
            picked[cell, found[cell]] = row
            found[cell] += 1


@njit(cache=True, nogil=True)
def join_rows(first, second, n_first, parent, left):
    """Join the cells that each row has; returns how many of `left` blocks remain.

    `parent` has the cells of the first feature, then those of the second. It ends with one block.
    """
    for row in range(len(first)):
        if left == 1:
            break
        one = find_root(parent, first[row])
        other = find_root(parent, n_first + second[row])
        if one != other:
            parent[max(one, other)] = min(one, other)
            left -= 1
    return left


@njit(cache=True, nogil=True)
def count_blocks(codes, starts, filled, sizes, pairs, blocks):
    """Count the blocks of cells of each pair of features, seen on some rows of both.

    `codes` has one row per feature and one column per picked row; those picked for feature `j`
    are ``starts[j]:starts[j + 1]``. `filled` counts the cells with rows, `sizes` all cells.
    """
    numbers = np.arange(2 * sizes.max())
    parent = numbers.copy()
    for k in range(len(pairs)):
        i, j = pairs[k]
        parent[: sizes[i] + sizes[j]] = numbers[: sizes[i] + sizes[j]]
        left = filled[i] + filled[j]
        for feature in (i, j):
            some = slice(starts[feature], starts[feature + 1])
            left = join_rows(codes[i, some], codes[j, some], sizes[i], parent, left)
        blocks[k] = left
