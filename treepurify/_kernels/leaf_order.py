"""Put rows in the order of the leaves that they reach, and add the values of these."""

from treepurify._kernels.compiling import kernel, part


@kernel
def sort_by_leaf(
    codes,
    feature,
    left,
    right,
    first_right,
    missing_left,
    category_ptr,
    category_left,
    missing_cell,
    other,
    waiting,
    order,
    leaves,
    leaf_ptr,
    leaf,
):
    """Sort `order`, some rows, by the leaves of one tree from left to right.

    Node i tests ``feature[i]``, -1 at a leaf; the root is node 0. Cells before ``first_right[i]``
    go to ``left[i]``, or those of ``category_left`` from ``category_ptr[i]`` on; ``missing_cell``
    is -1 for features without one. ``leaves`` become the leaves in this order and ``leaf_ptr`` the
    first row of each, and the end; ``leaf`` becomes the place of each row's leaf. Rows of a leaf
    keep their order. `other`, as long as `order`, and `waiting`, of shape (n_nodes + 1, 3), are
    workspace: allocated here, they would take long to compile.
    """
    # Nodes that wait, each with its first and last row.
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, 0, len(order)
    n_waiting, n_leaves = 1, 0
    while n_waiting > 0:
        n_waiting -= 1
        node, first = waiting[n_waiting, 0], waiting[n_waiting, 1]
        last = waiting[n_waiting, 2]
        if feature[node] < 0:
            leaves[n_leaves], leaf_ptr[n_leaves] = node, first
            for i in range(first, last):
                leaf[order[i]] = n_leaves
            n_leaves += 1
            continue
        missing, column = missing_cell[feature[node]], codes[feature[node]]
        rows = order[first:last]
        if category_ptr[node] < 0:
            also_left = missing if missing_left[node] else -1
            n_left = _divide(column, first_right[node], also_left, rows, other)
        else:
            is_left = category_left[category_ptr[node] :]
            n_left = _divide_categories(column, is_left, missing, missing_left[node], rows, other)
        middle = first + n_left
        for i in range(last - middle):
            order[middle + i] = other[i]
        waiting[n_waiting, 0], waiting[n_waiting, 1] = right[node], middle
        waiting[n_waiting, 2] = last
        waiting[n_waiting + 1, 0], waiting[n_waiting + 1, 1] = left[node], first
        waiting[n_waiting + 1, 2] = middle
        n_waiting += 2
    leaf_ptr[n_leaves] = len(order)


@part
def _divide(column, first_right, also_left, rows, other):
    """Move the rows that go left to the front and put the rest in `other`; return how many.

    Rows are written to both in any case: a branch would often be guessed wrong.
    """
    n_left, n_right = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        is_left = (column[row] < first_right) | (column[row] == also_left)
        rows[n_left] = row
        other[n_right] = row
        n_left += is_left
        n_right += not is_left
    return n_left


@part
def _divide_categories(column, is_left, missing_cell, missing_left, rows, other):
    """Do the same where ``is_left`` says it of each category."""
    n_left, n_right = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        goes_left = missing_left if column[row] == missing_cell else is_left[column[row]]
        rows[n_left] = row
        other[n_right] = row
        n_left += goes_left
        n_right += not goes_left
    return n_left


@kernel
def add_leaf_values_of_rows(leaf, values, columns, total):
    """Add to some columns of `total` the values of the leaf that each row reaches."""
    for k in range(len(columns)):
        column = columns[k]
        for row in range(len(leaf)):
            total[row, column] += values[leaf[row], k]
