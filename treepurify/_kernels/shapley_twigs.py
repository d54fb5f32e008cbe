"""Interventional Shapley values of trees, from counts of patterns of tests.

A leaf sees of a row which of the path's features pass all their tests: the row's pattern.
What the leaf adds to a row's Shapley values depends on this pattern and on how many background
rows have each pattern. Small subtrees, here called twigs, are handled at once: the state of a
row in a twig is its pattern on the path above, then the outcome of each test inside.
"""

import numpy as np

from treepurify._kernels.compiling import inlined, kernel, part


@kernel
def path_bits(feature, left, right, parent, bit, n_bits):
    """Number the distinct features along each path in the order of their first test.

    Parameters
    ----------
    feature, left, right : (n_nodes,)
        The trees.
    parent : (n_nodes,)
        -1; stays so at roots.
    bit : (n_nodes,)
        -1; becomes the number of the node's own feature, and stays so at leaves.
    n_bits : (n_nodes,)
        0; becomes the number of distinct features above the node.
    """
    for node in range(len(feature)):
        if feature[node] < 0:
            continue
        above = parent[node]
        while above >= 0:
            if feature[above] == feature[node]:
                bit[node] = bit[above]
            above = parent[above]
        below = n_bits[node]
        if bit[node] < 0:
            bit[node] = below
            below += 1
        for child in (left[node], right[node]):
            parent[child] = node
            n_bits[child] = below


@kernel
def find_twigs(left, right, n_bits, most_bits, tests, twig):
    """Write for each node the root of its twig, where `twig` has -1; it stays above all twigs.

    Twigs are the largest subtrees whose state takes at most `most_bits`; a leaf under a
    longer path is a twig of its own. `tests`, with zeros, becomes their number from each node on.
    """
    for node in range(len(left) - 1, -1, -1):
        if left[node] >= 0:
            tests[node] = 1 + tests[left[node]] + tests[right[node]]
    for node in range(len(left)):
        if twig[node] < 0 and (left[node] < 0 or n_bits[node] + tests[node] <= most_bits):
            twig[node] = node
        if twig[node] >= 0 and left[node] >= 0:
            twig[left[node]] = twig[node]
            twig[right[node]] = twig[node]


@part
def _outcomes(values, node, feature, cut, missing_left, category_ptr, category_left, goes_left):
    """Write whether each row goes left at a node."""
    column = values[feature[node]]
    table = category_ptr[node]
    if table >= 0:
        for row in range(len(goes_left)):
            x = column[row]
            goes_left[row] = missing_left[node] if np.isnan(x) else category_left[table + int(x)]
        return
    threshold = cut[node]
    if missing_left[node]:
        for row in range(len(goes_left)):
            # True for NaN as well.
            goes_left[row] = not (column[row] >= threshold)
    else:
        for row in range(len(goes_left)):
            goes_left[row] = column[row] < threshold


@kernel
def twig_states(
    first,
    last,
    values,
    feature,
    cut,
    left,
    right,
    missing_left,
    category_ptr,
    category_left,
    bit,
    n_bits,
    twig,
    buffer_row,
    test_ptr,
    test_node,
    goes_left,
    states,
):
    """Write the state of each row in each twig of the tree ``first:last``.

    ``states[buffer_row[node]]`` holds the states of the twig with root `node`; the rows of
    nodes above twigs are working memory. ``values`` has shape (n_features, n_rows).
    """
    n_rows = values.shape[1]
    of_type = states.dtype.type
    for node in range(first, last):
        own = buffer_row[node]
        if own < 0:
            continue
        here = states[own]
        if node == first:
            for row in range(n_rows):
                here[row] = of_type(~of_type(0))
        if twig[node] == node:
            width = n_bits[node]
            mask = of_type((1 << width) - 1)
            for row in range(n_rows):
                here[row] &= mask
            for k in range(test_ptr[node], test_ptr[node + 1]):
                _outcomes(
                    values,
                    test_node[k],
                    feature,
                    cut,
                    missing_left,
                    category_ptr,
                    category_left,
                    goes_left,
                )
                shift = of_type(width + k - test_ptr[node])
                for row in range(n_rows):
                    here[row] |= of_type(of_type(goes_left[row]) << shift)
            continue
        _outcomes(values, node, feature, cut, missing_left, category_ptr, category_left, goes_left)
        to_left = states[buffer_row[left[node]]]
        to_right = states[buffer_row[right[node]]]
        cleared = of_type(~of_type(1 << bit[node]))
        for row in range(n_rows):
            pattern = here[row]
            to_left[row] = pattern if goes_left[row] else pattern & cleared
            to_right[row] = pattern & cleared if goes_left[row] else pattern


@kernel
def count_states(state, weights, counts):
    """Add the weight of each row at its state."""
    for row in range(len(state)):
        counts[state[row]] += weights[row]


@inlined
def _sum_supersets(counts, width, sums):
    """Write, by size of the pattern, the counts of all patterns that contain each one."""
    size = 1 << width
    for pattern in range(size):
        rank = 0
        for k in range(width):
            rank += pattern >> k & 1
        sums[rank, pattern] = counts[pattern]
    for rank in range(width + 1):
        for k in range(width):
            step = 1 << k
            for start in range(0, size, 2 * step):
                for pattern in range(start, start + step):
                    sums[rank, pattern] += sums[rank, pattern + step]


@inlined
def _write_leaf_table(counts, width, gains, losses, sums, alone, shared, loss, table):
    """Write the Shapley values of a leaf of value one, shape (width, 2**width).

    Row and background enter the leaf together only if each feature is passed by one of
    them. Summing over the background rows that pass the features Q the row fails, by how
    many features they pass, leaves one weighted sum for the features in Q, and for those
    outside the same sum less the background rows that pass the feature as well.
    """
    size = 1 << width
    _sum_supersets(counts, width, sums)
    for failed in range(size):
        alone[failed] = shared[failed] = loss[failed] = 0.0
        q = 0
        for k in range(width):
            q += failed >> k & 1
        for rank in range(q, width + 1):
            alone[failed] += gains[width - rank, q] * sums[rank, failed]
            loss[failed] += losses[width - rank, q] * sums[rank, failed]
            if q > 0 and rank < width:
                shared[failed] += gains[width - rank, q - 1] * sums[rank, failed]
    for pattern in range(size):
        failed = size - 1 - pattern
        for k in range(width):
            if pattern >> k & 1:
                table[k, pattern] = alone[failed] - shared[failed | 1 << k]
            else:
                table[k, pattern] = loss[failed]


@kernel
def twig_tables(
    root,
    leaves,
    counts,
    player,
    left,
    parent,
    bit,
    n_bits,
    test_number,
    n_tests,
    value,
    slot_of_player,
    workspace,
    tables,
):
    """Add the tables of a twig's leaves to ``tables`` of shape (n_values, n_slots, n_states).

    Parameters
    ----------
    root, leaves : int and (n_leaves,)
        The twig.
    counts : (n_states,)
        The weight of the background in each state.
    player, left, parent, bit, n_bits, test_number : (n_nodes,)
        See `treepurify.shapley.twigs.Twigs`.
    n_tests : int
        Tests inside the twig.
    value : (n_nodes, n_values)
        Values of the leaves.
    slot_of_player : (n_players,)
        Where the values of each player are.
    workspace : treepurify.shapley.twigs.TwigWorkspace
        Workspace, which would take long to compile here, and the weights of leaves.
    tables : (n_values, n_slots, n_states)
        Added to.
    """
    n_states = 1 << (n_bits[root] + n_tests)
    width_above = n_bits[root]
    gains, losses = workspace.gains, workspace.losses
    pattern, slot, own = workspace.pattern, workspace.slot, workspace.own
    alone, shared, loss = workspace.alone, workspace.shared, workspace.loss
    for leaf in leaves:
        width = n_bits[leaf]
        # New features start as passed; each failed test inside the twig clears its bit.
        start = (1 << width) - (1 << width_above)
        for state in range(n_states):
            pattern[state] = start | state & (1 << width_above) - 1
        node = leaf
        while parent[node] >= 0:
            above = parent[node]
            slot[bit[above]] = slot_of_player[player[above]]
            if test_number[above] >= 0:
                place = width_above + test_number[above]
                goes_left = 1 if left[above] == node else 0
                cleared = ~(1 << bit[above])
                for state in range(n_states):
                    if (state >> place & 1) != goes_left:
                        pattern[state] &= cleared
            node = above
        for k in range(1 << width):
            own[k] = 0.0
        for state in range(n_states):
            own[pattern[state]] += counts[state]
        # Here, where the compiler knows that they are different memory.
        sums, table = np.zeros((width + 1, 1 << width)), np.zeros((width, 1 << width))
        _write_leaf_table(own, width, gains, losses, sums, alone, shared, loss, table)
        for k in range(width):
            for v in range(value.shape[1]):
                factor = value[leaf, v]
                if factor != 0.0:
                    target = tables[v, slot[k]]
                    for state in range(n_states):
                        target[state] += factor * table[k, pattern[state]]


@kernel
def add_tables(state, table, phi):
    """Add to ``phi[row]`` the table's entry at the row's state."""
    for row in range(len(state)):
        phi[row] += table[state[row]]
