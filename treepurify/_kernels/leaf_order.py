"""Find the leaf that each row reaches, and add the values of these."""

from treepurify._kernels.compiling import kernel


@kernel
def find_leaves(
    codes,
    feature,
    left,
    right,
    first_right,
    missing_left,
    category_ptr,
    category_left,
    missing_cell,
    leaf,
):
    """Write the leaf of one tree that each row reaches; the root is node 0.

    Node i tests ``feature[i]``, -1 at a leaf. Cells before ``first_right[i]`` go to ``left[i]``, or
    those of ``category_left`` from ``category_ptr[i]`` on; ``missing_cell`` is -1 for features
    without one.
    """
    for row in range(len(leaf)):
        node = 0
        while feature[node] >= 0:
            cell = codes[feature[node], row]
            if cell == missing_cell[feature[node]]:
                is_left = missing_left[node]
            elif category_ptr[node] >= 0:
                is_left = category_left[category_ptr[node] + cell]
            else:
                is_left = cell < first_right[node]
            node = left[node] if is_left else right[node]
        leaf[row] = node


@kernel
def add_leaf_values_of_rows(leaf, values, columns, total):
    """Add to some columns of `total` the values of the leaf that each row reaches."""
    for k in range(len(columns)):
        column = columns[k]
        for row in range(len(leaf)):
            total[row, column] += values[leaf[row], k]
