"""The connected components of the cells of a pair table that have mass."""

from treepurify._kernels.compiling import kernel, part


@part
def find_root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@kernel
def label_blocks(mass, parent, block):
    """Label the connected blocks of rows and columns that share a cell with mass.

    `parent` begins as the numbers from 0, rows before columns. `block`, which begins as -1, becomes
    the block of each row and column that has mass, from 1 in the order of their first rows.
    Returns their number.
    """
    n_rows, n_columns = mass.shape
    for i in range(n_rows):
        for j in range(n_columns):
            if mass[i, j] > 0:
                first = find_root(parent, i)
                second = find_root(parent, n_rows + j)
                if first < second:
                    parent[second] = first
                elif second < first:
                    parent[first] = second
                block[i] = block[n_rows + j] = 0
    n_blocks = 0
    for node in range(n_rows + n_columns):
        if block[node] == 0:
            root = find_root(parent, node)
            if root == node:
                n_blocks += 1
                block[node] = n_blocks
            else:
                block[node] = block[root]
    return n_blocks
