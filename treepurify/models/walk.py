"""The nodes of an ensemble in the form in which rows walk down its trees side by side."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.typing import Integers, Mask

__all__ = ["Walk", "walk"]


class Walk(NamedTuple):
    """How rows go from node to node without branches.

    Parameters
    ----------
    n_levels : ndarray of int64, shape (n_trees,)
        So many levels of a tree are worth going down with all rows, whether or not a row has come
        to a leaf: few rows go on below twice the depth of a balanced tree. Zero for a tree that
        tests categories.
    tested : ndarray of uint32, shape (n_nodes,)
        Feature that a node tests; any at leaves.
    child : ndarray of uint32, shape (n_nodes, 2)
        The right child and then the left one. A leaf is its own child.
    """

    n_levels: Integers
    tested: npt.NDArray[np.uint32]
    child: npt.NDArray[np.uint32]


def walk(
    tree_ptr: Integers,
    feature: npt.NDArray[np.int32],
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    has_categories: Mask,
) -> Walk:
    """Return this form of the nodes, of which some may test categories; see `TreeEnsemble`."""
    is_inner = feature >= 0
    n_nodes = np.diff(tree_ptr)
    tree = np.repeat(np.arange(len(n_nodes)), n_nodes)
    # A tree of n leaves has n - 1 other nodes.
    most = 2 * np.ceil(np.log2((n_nodes + 1) // 2)).astype(np.int64)
    most[tree[has_categories]] = 0
    n_levels = np.zeros(len(n_nodes), dtype=np.int64)
    nodes, depth = tree_ptr[:-1], 0
    while len(nodes := nodes[is_inner[nodes] & (most[tree[nodes]] > depth)]):
        depth += 1
        n_levels[tree[nodes]] = depth
        nodes = np.concatenate([left[nodes], right[nodes]])
    child = np.repeat(np.arange(len(feature), dtype=np.uint32)[:, None], 2, axis=1)
    child[is_inner, 0], child[is_inner, 1] = right[is_inner], left[is_inner]
    return Walk(n_levels, np.maximum(feature, 0).astype(np.uint32), child)
