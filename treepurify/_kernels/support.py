"""Blocks into which the cells of two features fall that have rows together."""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@part
def find_root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@kernel
def pick_rows(codes, weights, features, starts, picked, found):
    """Fill in the first rows of positive weight in each cell of some features.

    The cells of ``features[k]`` are ``starts[k]:starts[k + 1]`` of `picked`, of shape
    (n_cells, most), and of `found`, which begins as zeros. Without weights, pass none.
    """
    most = picked.shape[1]
    for k in range(len(features)):
        cells = codes[features[k]]
        n_open = starts[k + 1] - starts[k]
        for row in range(len(cells)):
            if n_open == 0:
                break
            cell = starts[k] + np.int64(cells[row])
            if found[cell] < most and (len(weights) == 0 or weights[row] > 0):
                picked[cell, found[cell]] = row
                found[cell] += 1
                n_open -= found[cell] == most


@kernel
def gather_rows(codes, features, rows, gathered):
    """Set ``gathered[k]`` to the cells of some rows along ``features[k]``."""
    for k in range(len(features)):
        cells = codes[features[k]]
        for i in range(len(rows)):
            gathered[k, i] = cells[rows[i]]


@kernel
def count_blocks(codes, starts, filled, sizes, pairs, parent, blocks):
    """Count the blocks of cells of each pair of features, seen on some rows of both.

    `codes` has one row per feature and one column per picked row; those picked for feature `j`
    are ``starts[j]:starts[j + 1]``. `filled` counts the cells with rows, `sizes` all cells.
    `parent` is workspace, as long as the largest pair has cells.
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
