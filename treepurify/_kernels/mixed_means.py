"""Average an ensemble over rows of which each mixes a given row with a reference row."""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@part
def _partition(
    rows,
    order,
    start,
    stop,
    node,
    feature,
    cut,
    missing_left,
    category_ptr,
    category_left,
):
    """Move the rows of a range that go left at a node to its front; return where they end."""
    last = stop
    at = start
    while at < last:
        x = rows[order[at], feature[node]]
        if np.isnan(x):
            is_left = missing_left[node]
        elif category_ptr[node] >= 0:
            is_left = category_left[category_ptr[node] + int(x)]
        else:
            is_left = x < cut[node]
        if is_left:
            at += 1
        else:
            last -= 1
            order[at], order[last] = order[last], order[at]
    return at


@part
def _push(stack, at, node, a, b, c, d):
    stack[at, 0] = node
    stack[at, 1] = a
    stack[at, 2] = b
    stack[at, 3] = c
    stack[at, 4] = d


@kernel
def add_mixed_means(
    rows,
    references,
    is_own,
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
    total,
):
    """Add the mean over all references of every tree, features in `is_own` taken from the row.

    At a node that tests one of them the rows part, at another node the references. What
    reaches a leaf is every row of one set with every reference of the other, so that rows
    and references are walked down once each and never paired.
    """
    row_order = np.arange(rows.shape[0])
    reference_order = np.arange(references.shape[0])
    stack = np.zeros((value.shape[0] + 1, 5), dtype=np.int64)
    for tree in range(len(tree_ptr) - 1):
        depth = 1
        _push(stack, 0, tree_ptr[tree], 0, rows.shape[0], 0, references.shape[0])
        output = tree_output[tree]
        while depth > 0:
            depth -= 1
            node, a, b = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            c, d = stack[depth, 3], stack[depth, 4]
            if a == b or c == d:
                continue
            if feature[node] < 0:
                share = (d - c) / references.shape[0]
                for at in range(a, b):
                    row = row_order[at]
                    if output >= 0:
                        total[row, output] += share * value[node, 0]
                    else:
                        for k in range(total.shape[1]):
                            total[row, k] += share * value[node, k]
                continue
            own = is_own[feature[node]]
            middle = _partition(
                rows if own else references,
                row_order if own else reference_order,
                a if own else c,
                b if own else d,
                node,
                feature,
                cut,
                missing_left,
                category_ptr,
                category_left,
            )
            if own:
                _push(stack, depth, left[node], a, middle, c, d)
                _push(stack, depth + 1, right[node], middle, b, c, d)
            else:
                _push(stack, depth, left[node], a, b, c, middle)
                _push(stack, depth + 1, right[node], a, b, middle, d)
            depth += 2
