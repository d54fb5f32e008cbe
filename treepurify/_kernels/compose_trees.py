"""Rewrite trees on transformed columns as trees on raw columns.

A test is known by which cells of one raw column it sends left. Cells of numbers are intervals,
and a test lists the cells at which it changes sides; cells of categories have a table. On the way
down, only cells that the tests above let through are asked: what is decided there is no test any
more, and what changes sides several times becomes several cuts.
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part

# Where an output node has no parent or feature, and where the capacity did not suffice.
NO_NODE = -1
# The cut below all numbers: it parts missing values from all others.
BELOW_ALL = 0
# The columns of the output nodes. CELL is the first cell of numbers that goes right.
FEATURE, CELL, LEFT, RIGHT, MISSING_LEFT, TEST, ORIGIN, PARENT, SIDE = range(9)
N_FIELDS = 9


@kernel
def compose_trees(tree_ptr, left, right, node_test, tests, n_codes, n_cells, out_ptr, out):
    """Fill the output nodes and return their number, or `NO_NODE` where they do not fit.

    `tests` are the arrays of `NodeTests` but for the first, `n_codes` is -1 for numeric columns.
    """
    test_feature = tests[0]
    stack = np.empty((len(out) + 2, 3), dtype=np.int64)
    reached = np.empty(max(np.max(n_codes) + 2, 1), dtype=np.bool_)
    n_nodes = 0
    out_ptr[0] = 0
    for tree in range(len(tree_ptr) - 1):
        stack[0, 0] = tree_ptr[tree]
        stack[0, 1] = NO_NODE
        stack[0, 2] = 0
        height = 1
        while height > 0:
            height -= 1
            parent = stack[height, 1]
            side = stack[height, 2]
            if n_nodes == len(out):
                return NO_NODE
            node, cell, missing_goes_left, low_child, high_child = _next_test(
                stack[height, 0],
                left,
                right,
                node_test,
                tests,
                n_codes,
                n_cells,
                out,
                parent,
                side,
                reached,
            )
            test = node_test[node]
            out[n_nodes, FEATURE] = test_feature[test] if test >= 0 else NO_NODE
            out[n_nodes, CELL] = cell
            out[n_nodes, LEFT] = NO_NODE
            out[n_nodes, RIGHT] = NO_NODE
            out[n_nodes, MISSING_LEFT] = missing_goes_left
            out[n_nodes, TEST] = test
            out[n_nodes, ORIGIN] = node
            out[n_nodes, PARENT] = parent
            out[n_nodes, SIDE] = side
            if parent >= 0:
                out[parent, RIGHT if side else LEFT] = n_nodes
            if test >= 0:
                stack[height, 0] = high_child
                stack[height, 1] = n_nodes
                stack[height, 2] = 1
                stack[height + 1, 0] = low_child
                stack[height + 1, 1] = n_nodes
                stack[height + 1, 2] = 0
                height += 2
            n_nodes += 1
        out_ptr[tree + 1] = n_nodes
    return n_nodes


@part
def _next_test(node, left, right, node_test, tests, n_codes, n_cells, out, parent, side, reached):
    """Return the first node from `node` down that is not decided above, and what it becomes.

    That is its cell, whether missing values go left, and the nodes below it; of a leaf, none.
    """
    test_feature, missing_left, switch_ptr, first_left, switches, _, _ = tests
    while node_test[node] >= 0:
        test = node_test[node]
        feature = test_feature[test]
        if n_codes[feature] >= 0:
            any_left, any_right = _sides_of_labels(
                test, n_codes[feature], tests, out, parent, side, reached
            )
            if any_left and any_right:
                return node, BELOW_ALL, missing_left[test], left[node], right[node]
            node = left[node] if any_left else right[node]
            continue
        low, high, missing = _reached_numbers(feature, n_cells[feature], out, parent, side)
        if high <= low:
            node = left[node] if missing_left[test] else right[node]
            continue
        changes = switches[switch_ptr[test] : switch_ptr[test + 1]]
        begin, inside, is_left = _switches_between(low, high, changes, first_left[test])
        if inside > 1:
            return node, changes[begin + inside // 2], True, np.int64(node), np.int64(node)
        first_child = left[node] if is_left else right[node]
        other_child = right[node] if is_left else left[node]
        if inside == 1:
            goes_with_first = missing_left[test] == is_left
            return node, changes[begin], goes_with_first, first_child, other_child
        if missing and missing_left[test] != is_left:
            return node, BELOW_ALL, True, other_child, first_child
        node = first_child
    return node, BELOW_ALL, False, np.int64(node), np.int64(node)


@part
def _sides_of_labels(test, n_codes, tests, out, parent, side, reached):
    """Return whether any label that comes to a node goes left, and whether any goes right."""
    test_feature, missing_left, _, _, _, table_ptr, table = tests
    missing = n_codes + 1
    reached[: missing + 1] = True
    while parent >= 0:
        if out[parent, FEATURE] == test_feature[test]:
            above = out[parent, TEST]
            for code in range(missing):
                if table[table_ptr[above] + code] != (side == 0):
                    reached[code] = False
            if missing_left[above] != (side == 0):
                reached[missing] = False
        side = out[parent, SIDE]
        parent = out[parent, PARENT]
    any_left = reached[missing] and missing_left[test]
    any_right = reached[missing] and not missing_left[test]
    for code in range(missing):
        if reached[code]:
            if table[table_ptr[test] + code]:
                any_left = True
            else:
                any_right = True
    return any_left, any_right


@part
def _reached_numbers(feature, n_cells, out, parent, side):
    """Return the cells that come to a node, first and end, and whether missing values do."""
    low = 0
    high = n_cells
    missing = True
    while parent >= 0:
        if out[parent, FEATURE] == feature:
            if side == 0:
                high = min(high, out[parent, CELL])
                missing = missing and out[parent, MISSING_LEFT] == 1
            else:
                low = max(low, out[parent, CELL])
                missing = missing and out[parent, MISSING_LEFT] == 0
        side = out[parent, SIDE]
        parent = out[parent, PARENT]
    return low, high, missing


@part
def _switches_between(low, high, switches, is_left):
    """Return the first switch between two cells, their number, and the side of the first cell."""
    begin = 0
    while begin < len(switches) and switches[begin] <= low:
        is_left = not is_left
        begin += 1
    inside = 0
    while begin + inside < len(switches) and switches[begin + inside] < high:
        inside += 1
    return begin, inside, is_left
