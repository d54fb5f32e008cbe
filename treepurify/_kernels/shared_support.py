"""Blocks into which the cells of two features fall that some row has together."""

import numpy as np

from treepurify._kernels.compiling import kernel
from treepurify._kernels.support import find_root


@kernel
def pick_rows(codes, weights, picked, found):
    """Fill in the first rows of positive weight in each cell of one feature.

    `picked` has shape (n_cells, most), `found` begins as zeros of shape (n_cells,). Without
    weights, pass none.
    """
    n_cells, most = picked.shape
    n_full = 0
    for row in range(len(codes)):
        if n_full == n_cells:
            break
        cell = codes[row]
        if found[cell] < most and (len(weights) == 0 or weights[row] > 0):
            picked[cell, found[cell]] = row
            found[cell] += 1
            n_full += found[cell] == most


@kernel
def count_blocks(codes, starts, filled, sizes, pairs, parent, blocks):
    """Count the blocks of cells of each pair of features, seen on some rows of both.

    `codes` has one row per feature and one column per picked row; those picked for feature `j`
    are ``starts[j]:starts[j + 1]``. `filled` counts the cells with rows, `sizes` all cells.
    `parent` is room for the cells of the largest pair. Afterwards it joins those of the last pair:
    the cells of the first feature, then those of the second.
    """
    for k in range(len(pairs)):
        i, j = pairs[k, 0], pairs[k, 1]
        # One by one: a slice compiles for longer.
        for cell in range(sizes[i] + sizes[j]):
            parent[cell] = cell
        left = filled[i] + filled[j]
        for side in range(2):
            feature = pairs[k, side]
            for row in range(starts[feature], starts[feature + 1]):
                if left == 1:
                    break
                # As wide as each other, so that the search is compiled once.
                one = find_root(parent, np.int64(codes[i, row]))
                other = find_root(parent, sizes[i] + np.int64(codes[j, row]))
                if one < other:
                    parent[other] = one
                    left -= 1
                elif other < one:
                    parent[one] = other
                    left -= 1
        blocks[k] = left
