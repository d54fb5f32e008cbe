"""Values of one tree on rows, or on joint cells of its own."""

import numpy as np

from treepurify._kernels.traverse import add_leaf_values, reach_leaves_on_cells
from treepurify.engines.tree.tree_problem import TreeTerms
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array, Cells, Indices, Mask

__all__ = ["cell_scores", "tree_scores"]


def tree_scores(ensemble: TreeEnsemble, tree: int, matrix: Array) -> Array:
    """Return the leaf value of each row, one column per output that the tree feeds."""
    scores = np.zeros((len(matrix), _n_outputs(ensemble, tree)))
    n_levels, tested, child = ensemble.walk
    add_leaf_values(
        matrix,
        ensemble.tree_ptr[tree : tree + 2],
        n_levels[tree : tree + 1],
        tested,
        child,
        ensemble.cut,
        ensemble.missing_left,
        ensemble.category_ptr,
        ensemble.category_left,
        ensemble.value,
        np.minimum(ensemble.tree_output[tree : tree + 1], 0),
        False,
        np.empty(len(matrix), dtype=np.uint32),
        scores,
    )
    return scores


def cell_scores(
    ensemble: TreeEnsemble, tree: int, grid: Grid, terms: TreeTerms, cells: Cells
) -> Array | None:
    """Return the leaf value of each joint cell; see `tree_scores`.

    A tree tests the cells of its terms only, unless a split leaves all rows on one side: for such
    a tree it is None. Cells are a few bytes per row side by side, where the values of a row in
    each joint cell are far apart.
    """
    nodes = slice(int(ensemble.tree_ptr[tree]), int(ensemble.tree_ptr[tree + 1]))
    first, feature = nodes.start, ensemble.feature[nodes]
    is_leaf = feature < 0
    if not set(feature[~is_leaf].tolist()) <= set(terms.features):
        return None
    left = np.zeros((len(feature), max(terms.shape(terms.features))), dtype=np.uint8)
    for j in terms.features:
        of_feature = np.flatnonzero(feature == j)
        goes_left = _left_cells(ensemble, first + of_feature, grid.axes[j], terms.local_cells[j])
        left[of_feature, : goes_left.shape[1]] = goes_left
    # A leaf is its own child.
    own = np.arange(len(feature))
    children = [np.where(is_leaf, own, c[nodes] - first) for c in (ensemble.right, ensemble.left)]
    position = np.searchsorted(terms.features, np.maximum(feature, terms.features[0]))
    reached = np.zeros(len(cells), dtype=np.uint32)
    child = np.stack(children, axis=1).astype(np.uint32)
    reach_leaves_on_cells(cells, left, position, child, is_leaf, reached)
    return np.asarray(ensemble.value[nodes, : _n_outputs(ensemble, tree)][reached])


def _n_outputs(ensemble: TreeEnsemble, tree: int) -> int:
    """Return how many outputs a tree feeds."""
    return 1 if ensemble.tree_output[tree] >= 0 else ensemble.n_outputs


def _left_cells(
    ensemble: TreeEnsemble, nodes: Indices, axis: FeatureAxis, local_cells: Indices
) -> Mask:
    """Return which of a tree's cells go left at each of some nodes, one row per node."""
    n_missing = int(axis.has_missing)
    # A cell of the grid in each of the tree's, of which that of missing values is the last.
    some_cell = np.unique(local_cells, return_index=True)[1]
    known = some_cell[: len(some_cell) - n_missing]
    if axis.cuts is None:
        goes_left = ensemble.category_left[ensemble.category_ptr[nodes][:, None] + known]
    else:
        # A cell begins at the cut on its left, and lies on one side of each cut of the tree.
        begins = np.concatenate([[-np.inf], axis.cuts])[known]
        goes_left = begins < ensemble.cut[nodes][:, None]
    missing = np.repeat(ensemble.missing_left[nodes][:, None], n_missing, axis=1)
    return np.concatenate([goes_left, missing], axis=1)
