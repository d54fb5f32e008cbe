"""Coarse cells for models whose own cells are too many: of main effects, and coarser for pairs."""

from collections.abc import Iterable, Sequence

import numpy as np

from treepurify._kernels.leaf_boxes import mark_pairs
from treepurify.grids.axis import FeatureAxis, group_neighbours
from treepurify.grids.grid import Cuts, EncodedRows, Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import heaviest, mean_square
from treepurify.typing import Array, Indices

__all__ = ["coarse_cuts", "join_cells", "merge_cells", "most_cells_of_pairs", "pairs_on_paths"]


def coarse_cuts(cuts: Cuts, columns: Columns, shares: Array, n_cells: int) -> Cuts:
    """Return at most ``n_cells - 1`` of the cuts of each numeric feature.

    The rows between two of them weigh about the same.

    Parameters
    ----------
    cuts : tuple of (ndarray or None)
        Sorted cuts of each numeric feature, None for categorical ones.
    columns : Columns
        The rows.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    n_cells : int
        Most cells of a feature, missing values aside.
    """
    chosen = []
    for own, values in zip(cuts, columns.values, strict=True):
        if own is None or len(own) < n_cells:
            chosen.append(own)
            continue
        known = ~np.isnan(values)
        cells = np.searchsorted(own, values[known], side="right")
        mass = np.bincount(cells, weights=shares[known], minlength=len(own) + 1)
        group = group_neighbours(mass, n_cells)
        chosen.append(own[np.diff(group) > 0])
    return tuple(chosen)


def join_cells(
    grid: Grid, rows: EncodedRows, features: Iterable[int], margin: Array, n_cells: int
) -> dict[int, Indices]:
    """Return the coarse cell of each cell of some features; see `merge_cells`.

    Categories are joined in the order of the mean of the output that varies most.
    """
    shares = rows.shares
    leading = margin[:, heaviest(mean_square(margin, shares))]
    joined = {}
    for j in features:
        axis = grid.axes[j]
        mass, sums = (
            np.bincount(rows.codes[j], weights, axis.n_cells).astype(np.float64)
            for weights in (shares, shares * leading)
        )
        means = np.divide(sums, mass, out=np.full(len(mass), -np.inf), where=mass > 0)
        joined[j] = merge_cells(axis, mass, means, n_cells)
    return joined


def merge_cells(axis: FeatureAxis, mass: Array, means: Array, n_cells: int) -> Indices:
    """Return the coarse cell of each cell of an axis, at most `n_cells`, special ones aside.

    Numbers keep their order; categories are ordered by the mean margin of their rows.

    Parameters
    ----------
    axis : FeatureAxis
        The axis.
    mass, means : ndarray of float64, shape (axis.n_cells,)
        Mass of each cell, and the mean margin of its rows.
    n_cells : int
        Most coarse cells.
    """
    n = axis.n_regular
    order = np.argsort(means[:n], kind="stable") if axis.is_categorical else np.arange(n)
    coarse = np.empty(axis.n_cells, dtype=np.intp)
    alone = np.arange(n)
    coarse[order] = alone if n <= n_cells else group_neighbours(mass[order], n_cells)
    coarse[n:] = coarse[:n].max(initial=-1) + 1 + np.arange(axis.n_cells - n)
    return coarse


def most_cells_of_pairs(
    sizes: Sequence[int], pairs: Sequence[Subset], most: int, least: int
) -> int:
    """Return the largest number of coarse cells with which pairs have at most `most` unknowns.

    Parameters
    ----------
    sizes : sequence of int
        Cells of each feature.
    pairs : sequence of tuple of int
        The pairs.
    most : int
        Most unknowns of all pairs together.
    least : int
        What is returned even if the unknowns are more.
    """
    ends = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    cells = np.array(sizes)
    k = least
    while k < cells.max(initial=0):
        free = np.minimum(cells, k + 1) - 1
        if (free[ends[:, 0]] * free[ends[:, 1]]).sum() > most:
            break
        k += 1
    return k


def pairs_on_paths(ensemble: TreeEnsemble) -> list[Subset]:
    """Return the pairs of features that occur together on a path of a tree."""
    used = np.array(ensemble.used_features, dtype=np.intp)
    position = np.full(ensemble.n_features + 1, -1)
    position[used] = np.arange(len(used))
    together = np.zeros((len(used), len(used)), dtype=np.bool_)
    mark_pairs(
        ensemble.tree_ptr, position[ensemble.feature], ensemble.left, ensemble.right, together
    )
    first, second = np.nonzero(np.triu(together | together.T, 1))
    return list(zip(used[first].tolist(), used[second].tolist(), strict=True))
