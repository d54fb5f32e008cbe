"""The cells that reach each leaf, as runs along the features that its path tests."""

from typing import Any

import numpy as np

from treepurify._kernels.leaf_boxes import (
    FEATURE,
    HIGH,
    LOW,
    N_PRESENT,
    PARENT,
    SIZE,
    START,
    TABLE,
    TAKES_MISSING,
    add_runs,
)
from treepurify.grids.grid import Grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Indices, Integers

__all__ = ["first_cells_right", "leaf_runs"]

# Entries and runs that are found at a time, beside those of one leaf.
_ROOM = 1 << 16


def leaf_runs(
    ensemble: TreeEnsemble, grid: Grid, leaves: Indices, keep_every_test: bool
) -> tuple[Any, ...]:
    """Return each leaf's box as runs of cells along the features that restrict it.

    With `keep_every_test`, features that restrict it in no cell are kept, and leaves that no cell
    reaches have their features too, some of them without a run.

    Returns
    -------
    entry_ptr : (n_leaves + 1,)
        The entries of leaf i are ``entry_ptr[i]:entry_ptr[i + 1]``, one per feature.
    entry_feature : (n_entries,)
        Features, increasing within a leaf.
    run_ptr : (n_entries + 1,)
        The runs of an entry.
    run_start, run_stop : (n_runs,)
        Half-open runs of cells.
    reachable : (n_leaves,)
        False where no cell reaches the leaf.
    """
    cells = _cells(grid)
    tables = ensemble.category_left if len(ensemble.category_left) else None
    given = (leaves, _edges(ensemble, grid, cells), tables, cells, keep_every_test)
    n_axes, n_cells = len(cells), int(cells[:, SIZE].sum())
    work = (
        np.zeros(n_cells, dtype=np.bool_),
        np.full((n_axes, 4), -1, dtype=np.int64),
        np.zeros(n_axes, dtype=np.int64),
    )
    reachable = np.ones(len(leaves), dtype=np.bool_)
    n_entries_of_leaf = np.zeros(len(leaves), dtype=np.int64)
    entry_feature = np.empty(n_axes + _ROOM, dtype=np.int32)
    n_runs_of_entry = np.empty(n_axes + _ROOM, dtype=np.int64)
    runs = np.empty((2, n_cells + _ROOM), dtype=np.int32)
    found: list[list[Any]] = []
    leaf = 0
    while leaf < len(leaves) or not found:
        leaf, n_entries, n_runs = add_runs(
            leaf,
            *given,
            *work,
            reachable,
            n_entries_of_leaf,
            entry_feature,
            n_runs_of_entry,
            runs,
        )
        some = (entry_feature[:n_entries], n_runs_of_entry[:n_entries], *runs[:, :n_runs])
        found.append([numbers.copy() for numbers in some])
    feature, n_runs_of, start, stop = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return _ends(n_entries_of_leaf), feature, _ends(n_runs_of), start, stop, reachable


def _ends(lengths: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)])


def _edges(ensemble: TreeEnsemble, grid: Grid, cells: Integers) -> Integers:
    """Return what each node lets through of the cells of the feature that its parent tests."""
    parent = ensemble.parents()
    below = np.flatnonzero(parent >= 0)
    above = parent[below]
    feature = ensemble.feature[above]
    is_left = ensemble.left[above] == below
    is_numeric = ensemble.category_ptr[above] < 0
    bound = first_cells_right(ensemble, grid)[above]
    edges = np.full((len(parent), 6), -1, dtype=np.int64)
    edges[below, PARENT], edges[below, FEATURE] = above, feature
    edges[below, LOW] = np.where(is_numeric, np.where(is_left, 0, bound), is_left)
    edges[below, HIGH] = np.where(is_left, bound, cells[feature, N_PRESENT])
    edges[below, TAKES_MISSING] = ensemble.missing_left[above] == is_left
    edges[below, TABLE] = ensemble.category_ptr[above]
    return edges


def _cells(grid: Grid) -> Integers:
    """Return where the cells of each feature start, how many there are, and how many present."""
    size = np.array([axis.n_cells for axis in grid.axes], dtype=np.int64)
    cells = np.empty((len(size), 3), dtype=np.int64)
    cells[:, START], cells[:, SIZE] = np.cumsum(size) - size, size
    cells[:, N_PRESENT] = size - np.array([axis.missing_cell is not None for axis in grid.axes])
    return cells


def first_cells_right(ensemble: TreeEnsemble, grid: Grid) -> Integers:
    """Return, for each numeric node, the first interval that goes right."""
    first = np.zeros(len(ensemble.feature), dtype=np.int64)
    numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0)
    order = np.argsort(ensemble.feature[numeric], kind="stable")
    nodes = np.flatnonzero(numeric)[order]
    bounds = np.searchsorted(ensemble.feature[nodes], np.arange(grid.n_features + 1))
    for j, axis in enumerate(grid.axes):
        tests = nodes[bounds[j] : bounds[j + 1]]
        if axis.cuts is not None and len(tests):
            first[tests] = np.searchsorted(axis.cuts, ensemble.cut[tests], side="right")
    return first
