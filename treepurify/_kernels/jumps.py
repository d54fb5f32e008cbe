"""The jumps of trees along one feature, from the leaves that a row can reach by it."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def add_jumps(
    rows,
    weights,
    lowest,
    highest,
    first,
    moved,
    place,
    tree_ptr,
    feature,
    cut,
    left,
    right,
    missing_left,
    category_ptr,
    category_left,
    value,
    tree_output,
    jumps,
    differences,
):
    """Add each row's weighted jumps, while its feature `moved` passes a range of cuts.

    A row passes the cuts from ``lowest[row]`` to ``highest[row] - 1``, whose jumps stand from
    ``jumps[first[row]]`` on; ``place[node]`` is the position of a node's cut among all cuts of
    the feature. The sum of its jumps, without its weight, is added to ``differences[row]``.
    """
    waiting = np.empty(len(feature), dtype=np.int64)
    upto = np.empty(len(feature), dtype=np.int64)
    for tree in range(len(tree_ptr) - 1):
        output = tree_output[tree]
        for row in range(len(rows)):
            # The cells that the row passes, `low` to the one before `upto`, lie left to right.
            waiting[0], upto[0] = tree_ptr[tree], highest[row]
            n_waiting, low, before = 1, lowest[row], -1
            while n_waiting > 0:
                n_waiting -= 1
                node, high = waiting[n_waiting], upto[n_waiting]
                while feature[node] >= 0:
                    if feature[node] == moved:
                        if place[node] < low:
                            node = right[node]
                            continue
                        if place[node] < high:
                            waiting[n_waiting], upto[n_waiting] = right[node], high
                            n_waiting += 1
                            high = place[node]
                        node = left[node]
                        continue
                    x = rows[row, feature[node]]
                    if np.isnan(x):
                        is_left = missing_left[node]
                    elif category_ptr[node] >= 0:
                        is_left = category_left[category_ptr[node] + int(x)]
                    else:
                        is_left = x < cut[node]
                    node = left[node] if is_left else right[node]
                if before >= 0:
                    at = first[row] + low - 1 - lowest[row]
                    if output >= 0:
                        step = value[node, 0] - value[before, 0]
                        jumps[at, output] += weights[row] * step
                        differences[row, output] += step
                    else:
                        for k in range(jumps.shape[1]):
                            step = value[node, k] - value[before, k]
                            jumps[at, k] += weights[row] * step
                            differences[row, k] += step
                before, low = node, high + 1
