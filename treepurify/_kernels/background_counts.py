"""Interventional Shapley values of trees, from background rows counted by pattern at each leaf.

All rows and all background rows go down to every leaf, with the features of its path that each
fails. There each row meets the patterns of the background rows that fail nothing it fails itself,
instead of the background rows one by one: a leaf takes one step for each background row, and for
each row one for each subset of the features that it passes.
"""

import numpy as np

from treepurify._kernels.background_walk import add_leaf, is_left
from treepurify._kernels.compiling import kernel, part


@part
def _mark_failed(column, threshold, missing_left, table, category_left, own, above, below):
    """Write which features rows fail on their way to both children of a test of feature `own`."""
    mark, none = np.uint16(1 << own), np.uint16(0)
    for row in range(len(column)):
        goes_left = is_left(column[row], threshold, missing_left, table, category_left)
        below[0, row] = above[row] | (none if goes_left else mark)
        below[1, row] = above[row] | (mark if goes_left else none)


@part
def _list_disjoint(counts, passed, patterns, shares):
    """List the patterns with a share that fail only features that a row passes."""
    n, pattern = 0, passed
    while True:
        patterns[n], shares[n] = pattern, counts[pattern]
        n += shares[n] != 0.0
        if pattern == 0:
            return n
        pattern = (pattern - 1) & passed


@kernel
def count_background(
    root,
    height,
    rows,
    background,
    weights,
    is_wanted,
    feature,
    player,
    cut,
    left,
    right,
    missing_left,
    category_ptr,
    category_left,
    bit,
    n_bits,
    value,
    first_output,
    gains,
    losses,
    workspace,
    phi,
):
    """Add the Shapley values of the wanted leaves of a tree to ``phi``.

    Parameters are those of `walk_background`, with one weight of a background row for all rows,
    and with a `treepurify.shapley.few_rows.CountWorkspace`. Paths to wanted leaves have fewer
    features than ``gains`` has rows, and at most 16.
    """
    row_failed, failed, waiting = workspace.row_failed, workspace.failed, workspace.waiting
    counts, shares, patterns = workspace.counts, workspace.shares, workspace.patterns
    player_of_bit, sums = workspace.player_of_bit, workspace.sums
    node_of, depth_of, side_of = waiting[0], waiting[1], waiting[2]
    for row in range(rows.shape[1]):
        row_failed[0, 0, row] = 0
    for member in range(background.shape[1]):
        failed[0, 0, member] = 0
    node_of[0], depth_of[0], side_of[0] = root, 0, 0
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        node, depth, side = node_of[n_waiting], depth_of[n_waiting], side_of[n_waiting]
        if not is_wanted[node]:
            continue
        if left[node] >= 0:
            # Nodes below a sibling have written higher bits only.
            player_of_bit[bit[node]] = player[node]
            for of_rows, marks in ((rows, row_failed), (background, failed)):
                _mark_failed(
                    of_rows[feature[node]],
                    cut[node],
                    missing_left[node],
                    category_ptr[node],
                    category_left,
                    bit[node],
                    marks[depth, side],
                    marks[depth + 1],
                )
            for below in range(2):
                node_of[n_waiting] = right[node] if below else left[node]
                depth_of[n_waiting], side_of[n_waiting] = depth + 1, below
                n_waiting += 1
            continue
        width = n_bits[node]
        for member in range(background.shape[1]):
            counts[failed[depth, side, member]] += weights[0, member]
        for row in range(rows.shape[1]):
            own = np.int64(row_failed[depth, side, row])
            n = _list_disjoint(counts, (1 << width) - 1 - own, patterns, shares)
            if n == 0:
                continue
            add_leaf(patterns[:n], shares, np.uint64(own), gains, losses, width, sums)
            for k in range(width):
                for v in range(value.shape[1]):
                    phi[first_output + v, player_of_bit[k], row] += sums[k] * value[node, v]
        for pattern in range(1 << width):
            counts[pattern] = 0.0
