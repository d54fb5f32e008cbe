"""Walk rows down the trees of an ensemble."""

import numpy as np

from treepurify._kernels.compiling import kernel

# So many rows go down a tree side by side: a processor works on several while it waits for one.
_LANES = 64


@kernel
def add_leaf_values(
    rows,
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
    is_single,
    reached,
    total,
):
    """Add every tree's leaf values to `total`, in tree order.

    `n_levels`, `tested` and `child` are those of a `Walk`: the levels of a tree that rows go down
    side by side and without branches, and each row alone from there on. Every sum is rounded to
    single precision if `is_single`. `reached` is workspace, one entry per row.
    """
    for tree in range(len(tree_ptr) - 1):
        for row in range(len(rows)):
            reached[row] = tree_ptr[tree]
        for start in range(0, len(rows), _LANES):
            # Slices, whose indices need no check for those that count from the end.
            block, nodes = rows[start : start + _LANES], reached[start : start + _LANES]
            for _ in range(n_levels[tree]):
                for row in range(len(block)):
                    node = nodes[row]
                    x = block[row, tested[node]]
                    is_left = (x < cut[node]) | (np.isnan(x) & missing_left[node])
                    nodes[row] = child[node, np.uint8(is_left)]
        output = tree_output[tree]
        first = output if output >= 0 else 0
        stop = output + 1 if output >= 0 else total.shape[1]
        for row in range(len(rows)):
            node = reached[row]
            while child[node, 0] != node:
                x = rows[row, tested[node]]
                if np.isnan(x):
                    is_left = missing_left[node]
                elif category_ptr[node] >= 0:
                    is_left = category_left[category_ptr[node] + np.int64(x)]
                else:
                    is_left = x < cut[node]
                node = child[node, 1] if is_left else child[node, 0]
            for k in range(first, stop):
                added = total[row, k] + value[node, k - first]
                total[row, k] = np.float64(np.float32(added)) if is_single else added
