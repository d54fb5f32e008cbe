"""Second differences of trees along all pairs of features, from one walk of each row."""

import numpy as np

from treepurify._kernels.compiling import inlined, kernel
from treepurify._kernels.parting import (
    ABOVE,
    ALL_VALUES,
    BELOW,
    OWN,
    ROWS_A_BLOCK,
    find_partings,
    go_left,
)


@inlined
def _list_steps(row, n_changes, changed, before, admitted, cells, steps):
    """List the steps of a row's features across which it enters or leaves a leaf.

    Each is a line of `steps`: the feature, the cell and whether it enters (1) or leaves (-1).
    """
    n_steps = 0
    for change in range(n_changes):
        if before[change] != ALL_VALUES:
            continue
        feature = changed[change]
        bits = admitted[feature]
        below, own, above = bits & BELOW, (bits & OWN) // OWN, (bits & ABOVE) // ABOVE
        first, second = cells[row, feature, 0], cells[row, feature, 1]
        if first == second:
            own = below
        if own != below:
            steps[n_steps, 0], steps[n_steps, 1] = feature, first
            steps[n_steps, 2] = own - below
            n_steps += 1
        if above != own:
            steps[n_steps, 0], steps[n_steps, 1] = feature, second
            steps[n_steps, 2] = above - own
            n_steps += 1
    return n_steps


@inlined
def _add_steps(
    n_steps, steps, admitted, n_failed, table_of, width, amount, output, node, value, totals
):
    """Add a leaf to the cells of the pairs among its steps that alone keep the row from it."""
    for i in range(n_steps):
        one = steps[i, 0]
        failed = 0 if admitted[one] & OWN else 1
        for k in range(i + 1, n_steps):
            other = steps[k, 0]
            if other == one or failed + (0 if admitted[other] & OWN else 1) != n_failed:
                continue
            first, second = (i, k) if one < other else (k, i)
            table = table_of[steps[first, 0], steps[second, 0]]
            if table < 0:
                continue
            at = table + steps[first, 1] * width[steps[second, 0]] + steps[second, 1]
            signed = amount * (steps[i, 2] * steps[k, 2])
            if output >= 0:
                totals[at, output] += signed * value[node, 0]
            else:
                for to in range(totals.shape[1]):
                    totals[at, to] += signed * value[node, to]


@inlined
def _walk_down(
    row,
    node,
    weight,
    output,
    points,
    cells,
    table_of,
    width,
    tested,
    child,
    cut,
    missing_left,
    category_ptr,
    category_left,
    value,
    waiting,
    changed,
    before,
    steps,
    admitted,
    totals,
):
    """Add the differences of one row from the leaves below the first node that parts its values."""
    n_waiting = n_changes = n_failed = 0
    while True:
        while child[node, 0] != node:
            j = tested[node]
            bits = admitted[j]
            to_left = bits & go_left(
                points[row, j, 0],
                points[row, j, 1],
                points[row, j, 2],
                cut[node],
                missing_left[node],
                category_ptr[node],
                category_left,
            )
            if to_left in (bits, 0):
                node = child[node, 1] if to_left else child[node, 0]
                continue
            # The side of the own value is gone down first; the other needs one more
            # feature that keeps the row from it.
            to_right = bits - to_left
            if bits & OWN == 0 or n_failed < 2:
                waiting[n_waiting, 0] = child[node, 0 if to_left & OWN else 1]
                waiting[n_waiting, 1] = n_changes
                waiting[n_waiting, 2] = j
                waiting[n_waiting, 3] = to_right if to_left & OWN else to_left
                n_waiting += 1
            changed[n_changes], before[n_changes] = j, bits
            n_changes += 1
            admitted[j] = to_left if to_left & OWN else to_right
            node = child[node, 1 if to_left & OWN else 0]
        if n_changes > 1:
            n_steps = _list_steps(row, n_changes, changed, before, admitted, cells, steps)
            _add_steps(
                n_steps,
                steps,
                admitted,
                n_failed,
                table_of,
                width,
                weight,
                output,
                node,
                value,
                totals,
            )
        n_kept = waiting[n_waiting - 1, 1] if n_waiting else 0
        while n_changes > n_kept:
            n_changes -= 1
            j = changed[n_changes]
            n_failed -= (before[n_changes] & OWN) // OWN - (admitted[j] & OWN) // OWN
            admitted[j] = before[n_changes]
        if n_waiting == 0:
            return
        n_waiting -= 1
        node, j = waiting[n_waiting, 0], waiting[n_waiting, 2]
        changed[n_changes], before[n_changes] = j, admitted[j]
        n_changes += 1
        n_failed += (admitted[j] & OWN) // OWN - (waiting[n_waiting, 3] & OWN) // OWN
        admitted[j] = waiting[n_waiting, 3]


@kernel
def add_pair_steps(
    points,
    cells,
    weights,
    table_of,
    width,
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
    totals,
):
    """Add each row's weighted second differences along all wanted pairs of features.

    ``points[row, feature]`` holds a value below, the row's own, and one above, between which the
    feature moves in two steps; ``cells[row, feature]`` holds the cells along the feature that the
    steps belong to. They are one step where these are the same.

    A leaf takes part in the difference along a pair where all other features admit the row, and
    the leaf is entered or left on a step of both: a row goes down where two features at most keep
    it from a leaf. The table of a pair j < k, of ``width[k]`` columns, begins at
    ``totals[table_of[j, k]]``; an entry below zero is a pair that is not wanted.
    """
    n_features = points.shape[1]
    waiting = np.empty((len(cut), 4), dtype=np.int64)
    changed = np.empty(2 * n_features, dtype=np.int64)
    before = np.empty(2 * n_features, dtype=np.int64)
    steps = np.empty((2 * n_features, 3), dtype=np.int64)
    admitted = np.empty(n_features, dtype=np.int64)
    for j in range(n_features):
        admitted[j] = ALL_VALUES
    reached = np.empty(ROWS_A_BLOCK, dtype=np.uint32)
    for start in range(0, len(points), ROWS_A_BLOCK):
        block = points[start : start + ROWS_A_BLOCK]
        for tree in range(len(tree_ptr) - 1):
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
                _walk_down(
                    row,
                    node,
                    weights[row],
                    tree_output[tree],
                    points,
                    cells,
                    table_of,
                    width,
                    tested,
                    child,
                    cut,
                    missing_left,
                    category_ptr,
                    category_left,
                    value,
                    waiting,
                    changed,
                    before,
                    steps,
                    admitted,
                    totals,
                )
