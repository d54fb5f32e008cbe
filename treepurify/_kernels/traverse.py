"""Walk rows down the trees of an ensemble."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
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
    total,
):
    """Add every tree's leaf values to `total`, in tree order and in the type of `total`."""
    for row in range(rows.shape[0]):
        for tree in range(len(tree_ptr) - 1):
            node = tree_ptr[tree]
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
            output = tree_output[tree]
            if output >= 0:
                total[row, output] += value[node, 0]
            else:
                for k in range(total.shape[1]):
                    total[row, k] += value[node, k]
