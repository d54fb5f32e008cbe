"""The jumps of trees along single features, from the leaves that a row can reach by each."""

import numpy as np

from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.parting import ROWS_A_BLOCK, find_partings


@part
def _pass_cuts(
    point,
    moved,
    root,
    lowest,
    highest,
    place,
    tested,
    child,
    cut,
    missing_left,
    category_ptr,
    category_left,
    value,
    output,
    weight,
    jumps,
    difference,
    waiting,
    upto,
):
    """Add the jumps below a node while one feature passes the cuts from `lowest` to `highest`."""
    # The cells that the row passes, `low` to the one before `upto`, lie left to right.
    waiting[0], upto[0] = root, highest
    n_waiting, low, before = 1, lowest, -1
    while n_waiting > 0:
        n_waiting -= 1
        node, high = waiting[n_waiting], upto[n_waiting]
        while child[node, 0] != node:
            j = tested[node]
            if j == moved:
                if place[node] < low:
                    node = child[node, 0]
                    continue
                if place[node] < high:
                    waiting[n_waiting], upto[n_waiting] = child[node, 0], high
                    n_waiting += 1
                    high = place[node]
                node = child[node, 1]
                continue
            x = point[j, 1]
            if np.isnan(x):
                is_left = missing_left[node]
            elif category_ptr[node] >= 0:
                is_left = category_left[category_ptr[node] + np.int64(x)]
            else:
                is_left = x < cut[node]
            node = child[node, 1] if is_left else child[node, 0]
        if before >= 0:
            cell = low - 1 - lowest
            if output >= 0:
                step = value[node, 0] - value[before, 0]
                jumps[cell, output] += weight * step
                difference[output] += step
            else:
                for k in range(jumps.shape[1]):
                    step = value[node, k] - value[before, k]
                    jumps[cell, k] += weight * step
                    difference[k] += step
        before, low = node, high + 1


@kernel
def add_jumps(
    points,
    weights,
    interval,
    lowest,
    highest,
    first,
    column,
    place,
    tree_ptr,
    n_levels,
    tested,
    child,
    cut,
    missing_left,
    category_ptr,
    category_left,
    value,
    tree_output,
    jumps,
    differences,
):
    """Add each row's weighted jumps, while one feature after the other passes a range of cuts.

    ``points[row, feature]`` holds the value below, the row's own, and that above, between which the
    feature moves; see `find_partings`. Moved features are numeric. A row passes the cuts of its
    interval ``i = interval[row, column[feature]]``: those from ``lowest[i]`` to ``highest[i] - 1``,
    whose jumps stand from ``jumps[first[i]]`` on. ``place[node]`` is the position of a node's cut
    among all cuts of its feature. The sum of the jumps of a row, without its weight, is added to
    ``differences[row, column[feature]]``.

    A feature has jumps only where a cut on the row's own way parts its values. Which way a row
    goes is written out twice: a call with many arrays takes longer than a level.
    """
    waiting = np.empty(len(cut), dtype=np.int64)
    upto = np.empty(len(cut), dtype=np.int64)
    moved = np.empty(points.shape[1], dtype=np.int64)
    begin = np.empty(points.shape[1], dtype=np.int64)
    reached = np.empty(ROWS_A_BLOCK, dtype=np.uint32)
    for start in range(0, len(points), ROWS_A_BLOCK):
        block = points[start : start + ROWS_A_BLOCK]
        for tree in range(len(tree_ptr) - 1):
            output = tree_output[tree]
            find_partings(
                block,
                tree_ptr[tree],
                n_levels[tree],
                tested,
                child,
                cut,
                missing_left,
                category_ptr,
                category_left,
                reached,
            )
            for in_block in range(len(block)):
                row, node = start + in_block, reached[in_block]
                if child[node, 0] == node:
                    continue
                n_moved = 0
                while child[node, 0] != node:
                    j = tested[node]
                    below, x, above = points[row, j, 0], points[row, j, 1], points[row, j, 2]
                    if below < cut[node] and above >= cut[node] and category_ptr[node] < 0:
                        k = 0
                        while k < n_moved and moved[k] != j:
                            k += 1
                        if k == n_moved:
                            moved[k], begin[k] = j, node
                            n_moved += 1
                    if np.isnan(x):
                        is_left = missing_left[node]
                    elif category_ptr[node] >= 0:
                        is_left = category_left[category_ptr[node] + np.int64(x)]
                    else:
                        is_left = x < cut[node]
                    node = child[node, 1] if is_left else child[node, 0]
                for k in range(n_moved):
                    to = column[moved[k]]
                    at = interval[row, to]
                    _pass_cuts(
                        points[row],
                        moved[k],
                        begin[k],
                        lowest[at],
                        highest[at],
                        place,
                        tested,
                        child,
                        cut,
                        missing_left,
                        category_ptr,
                        category_left,
                        value,
                        output,
                        weights[row],
                        jumps[first[at] :],
                        differences[row, to],
                        waiting,
                        upto,
                    )
