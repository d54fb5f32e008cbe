"""The connected components of the cells of pair tables that have mass."""

from treepurify._kernels.compiling import kernel, part


@part
def find_root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@kernel
def label_blocks(first, second, parent, block):
    """Label the connected blocks of slices that share a cell with mass.

    ``first[c]`` and ``second[c]`` are the two slices of a cell with mass. `parent` begins as the
    numbers of all slices from 0. `block`, which begins as -1, becomes the block of each slice that
    has mass, from 1 in the order of their first slices. Returns their number.
    """
    for c in range(len(first)):
        one = find_root(parent, first[c])
        other = find_root(parent, second[c])
        if one < other:
            parent[other] = one
        elif other < one:
            parent[one] = other
        block[first[c]] = block[second[c]] = 0
    n_blocks = 0
    for node in range(len(block)):
        if block[node] == 0:
            root = find_root(parent, node)
            if root == node:
                n_blocks += 1
                block[node] = n_blocks
            else:
                block[node] = block[root]
    return n_blocks
