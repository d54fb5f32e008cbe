"""Walk rows down the trees of an ensemble."""

import numpy as np

from treepurify._kernels.compiling import kernel, part

# So many rows go down a tree side by side: a processor works on several while it waits for one.
_LANES = 64


@kernel
def add_leaf_values(
    rows,
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
    is_single,
    total,
):
    """Add every tree's leaf values to `total`, in tree order.

    Every sum is rounded to single precision if `is_single`.
    """
    n_rows = len(rows)
    most_nodes = 1
    for tree in range(len(tree_ptr) - 1):
        n_nodes = tree_ptr[tree + 1] - tree_ptr[tree]
        most_nodes = n_nodes if n_nodes > most_nodes else most_nodes
    tested = np.empty(most_nodes, dtype=np.uint32)
    child = np.empty((most_nodes, 2), dtype=np.uint32)
    height = np.empty(most_nodes, dtype=np.int32)
    reached = np.empty(n_rows, dtype=np.uint32)
    for tree in range(len(tree_ptr) - 1):
        root, end = tree_ptr[tree], tree_ptr[tree + 1]
        reached[:] = 0
        if n_rows >= _LANES:
            n_levels = _levels_side_by_side(
                feature, left, right, category_ptr, root, end, tested, child, height
            )
            if n_levels > 0:
                _descend(
                    rows, n_levels, tested, child, cut[root:end], missing_left[root:end], reached
                )
        output = tree_output[tree]
        for row in range(n_rows):
            node = root + np.int64(reached[row])
            while feature[node] >= 0:
                x = rows[row, feature[node]]
                # In place: as a call of its own the same walk takes three times as long.
                if np.isnan(x):
                    is_left = missing_left[node]
                elif category_ptr[node] >= 0:
                    is_left = category_left[category_ptr[node] + int(x)]
                else:
                    is_left = x < cut[node]
                node = left[node] if is_left else right[node]
            if output >= 0:
                total[row, output] = _sum(total[row, output], value[node, 0], is_single)
            else:
                for k in range(total.shape[1]):
                    total[row, k] = _sum(total[row, k], value[node, k], is_single)


@part
def _sum(first, second, is_single):
    total = first + second
    return np.float64(np.float32(total)) if is_single else total


@part
def _levels_side_by_side(feature, left, right, category_ptr, root, end, tested, child, height):
    """Write one tree in a form without branches, and return how many levels to go down in it.

    Nodes count from the root; ``child[node]`` is the right child, then the left one, and a leaf
    is its own child. Few rows go on below twice the depth of a balanced tree, and none goes
    down a tree with categories.
    """
    n_nodes = end - root
    for node in range(n_nodes - 1, -1, -1):
        at = root + node
        if feature[at] < 0:
            tested[node] = 0
            child[node, 0] = child[node, 1] = node
            height[node] = 0
        elif category_ptr[at] >= 0:
            return 0
        else:
            low, high = left[at] - root, right[at] - root
            tested[node] = feature[at]
            child[node, 0], child[node, 1] = high, low
            taller = low if height[low] > height[high] else high
            height[node] = 1 + height[taller]
    balanced = 0
    while (1 << balanced) < (n_nodes + 1) // 2:
        balanced += 1
    return height[0] if height[0] < 2 * balanced else 2 * balanced


@part
def _descend(rows, n_levels, tested, child, cut, missing_left, reached):
    """Replace the node that each row has reached by the one so many levels below."""
    for start in range(0, len(rows), _LANES):
        block = rows[start : start + _LANES]
        nodes = reached[start : start + _LANES]
        for _ in range(n_levels):
            for row in range(len(block)):
                node = nodes[row]
                x = block[row, tested[node]]
                is_left = (x < cut[node]) | (np.isnan(x) & missing_left[node])
                nodes[row] = child[node, np.uint8(is_left)]


@kernel
def reach_leaves_on_cells(cells, goes_left, position, child, is_leaf, reached):
    """Replace the root, 0, by the leaf that each row reaches, from its cells.

    ``goes_left[node, cell]`` is one where a cell of the node's feature, the one at
    ``position[node]``, goes to ``child[node, 1]``. A leaf is its own child.
    """
    for start in range(0, len(cells), _LANES):
        block, nodes = cells[start : start + _LANES], reached[start : start + _LANES]
        n_left = len(block)
        while n_left > 0:
            n_left = 0
            for row in range(len(block)):
                node = nodes[row]
                node = child[node, goes_left[node, block[row, position[node]]]]
                nodes[row] = node
                n_left += not is_leaf[node]
