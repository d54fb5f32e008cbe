"""Blocks into which the cells of two features fall that have rows together."""

from treepurify._kernels.compiling import part


@part
def find_root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node
