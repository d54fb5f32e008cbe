"""The boxes of cells that the leaves of an ensemble cover, as runs along the features tested."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

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
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array, Indices, Integers

__all__ = ["LeafBoxes", "first_cells_right", "leaf_boxes", "leaf_runs"]

# Entries and runs that are found at a time, in addition to those of one leaf.
_SPARE_ENTRIES = 1 << 16
_Bits = npt.NDArray[np.uint64]


def _set_bits(words: _Bits, lines: Indices, features: npt.NDArray[np.integer[Any]]) -> None:
    """Set one bit for a feature in each of some lines of words."""
    word, bit = np.divmod(features.astype(np.uint64), np.uint64(64))
    np.bitwise_or.at(words, (lines, word.astype(np.intp)), np.uint64(1) << bit)


@dataclass(frozen=True, eq=False)
class LeafBoxes:
    """The boxes of cells that the leaves of an ensemble cover, grouped by subset.

    A leaf's subset holds the features that restrict it: a path may test a feature without
    excluding a cell. Decomposing by leaf path, not by tree, keeps orders low: the four
    leaves of a depth-2 tree over three features touch only pairs.

    Parameters
    ----------
    subsets : tuple of tuple of int
        The distinct subsets, ordered by size, then by feature.
    leaf_subset : ndarray of int64, shape (n_leaves,)
        Position of each leaf's subset; -1 where no cell reaches the leaf.
    entry_ptr, entry_feature, run_ptr, run_start, run_stop : ndarray
        Runs of cells along each restricted feature (see `leaf_runs`).
    values : ndarray of float64, shape (n_leaves, 1 or n_outputs)
        Leaf values.
    output : ndarray of int32, shape (n_leaves,)
        Output that the leaf feeds; -1 for one value per output.
    """

    subsets: tuple[Subset, ...]
    leaf_subset: Integers
    entry_ptr: Integers
    entry_feature: npt.NDArray[np.int32]
    run_ptr: Integers
    run_start: npt.NDArray[np.int32]
    run_stop: npt.NDArray[np.int32]
    values: Array
    output: npt.NDArray[np.int32]

    @property
    def features(self) -> Subset:
        """The features that restrict a leaf, increasing."""
        return tuple(sorted({j for subset in self.subsets for j in subset}))

    def leaves_with(self, features: Subset) -> Indices:
        """Return the reachable leaves whose path tests all of the features, in order."""
        ends, leaves, tested = self._leaves_of_features
        of_each = [
            leaves[ends[j] : ends[j + 1]] if j + 1 < len(ends) else leaves[:0] for j in features
        ]
        fewest = min(of_each, key=len)
        if not len(fewest):
            return fewest.astype(np.intp)
        wanted = np.zeros((1, tested.shape[1]), dtype=np.uint64)
        _set_bits(wanted, np.zeros(len(features), dtype=np.intp), np.array(features))
        is_kept = np.all(tested[fewest] & wanted == wanted, axis=1)
        return fewest[is_kept].astype(np.intp)

    def weighted_sum(self, weight: Array, n_outputs: int) -> Array:
        """Return the sum over leaves of a weight times the value, shape (n_outputs,)."""
        total = np.zeros(n_outputs)
        scalar = self.output >= 0
        np.add.at(total, self.output[scalar], weight[scalar] * self.values[scalar, 0])
        if not scalar.all():
            total += weight[~scalar] @ self.values[~scalar]
        return total

    @cached_property
    def _leaves_of_features(self) -> tuple[Indices, npt.NDArray[np.int32], _Bits]:
        """The reachable leaves that test each feature, one after the other, and their ends.

        And for each leaf one bit per feature, in words of 64: whether it tests it.
        """
        owner = np.repeat(np.arange(len(self.leaf_subset)), np.diff(self.entry_ptr))
        used = self.leaf_subset[owner] >= 0
        feature = self.entry_feature[used]
        order = np.argsort(feature, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(feature))])
        tested = np.zeros((len(self.leaf_subset), max(-(-(len(ends) - 1) // 64), 1)), np.uint64)
        _set_bits(tested, owner[used], feature)
        return ends, owner[used][order].astype(np.int32), tested


def leaf_boxes(ensemble: TreeEnsemble, grid: Grid, *, keep_every_test: bool = False) -> LeafBoxes:
    """Return the box of cells that each leaf covers on `grid`.

    With `keep_every_test`, a leaf's subset holds every feature that its path tests, and
    leaves that no cell reaches have one too: they count where not all features are given.
    """
    leaves = np.flatnonzero(ensemble.feature < 0)
    entry_ptr, entry_feature, run_ptr, run_start, run_stop, reachable = leaf_runs(
        ensemble, grid, leaves, keep_every_test
    )
    subsets, leaf_subset = _group(entry_ptr, entry_feature, grid.n_features)
    tree_of_leaf = np.searchsorted(ensemble.tree_ptr, leaves, side="right") - 1
    return LeafBoxes(
        subsets,
        leaf_subset if keep_every_test else np.where(reachable, leaf_subset, -1),
        entry_ptr,
        entry_feature,
        run_ptr,
        run_start,
        run_stop,
        ensemble.value[leaves],
        ensemble.tree_output[tree_of_leaf],
    )


def _group(
    entry_ptr: Integers, entry_feature: npt.NDArray[np.int32], n_features: int
) -> tuple[tuple[Subset, ...], Integers]:
    """Number the distinct subsets, by size and then by feature."""
    sizes = np.diff(entry_ptr)
    widest = int(sizes.max(initial=0))
    keys = np.zeros((len(sizes), widest + 1), dtype=np.int64)
    keys[:, 0] = sizes
    within = np.arange(len(entry_feature)) - np.repeat(entry_ptr[:-1], sizes)
    keys[np.repeat(np.arange(len(sizes)), sizes), within + 1] = entry_feature + 1
    base = n_features + 2
    packed: npt.NDArray[Any]
    if base ** (widest + 1) < 2**62:
        # One integer per leaf sorts the same way as its row of keys, and much faster.
        packed = keys @ np.array([base ** (widest - k) for k in range(widest + 1)])
        _, first, group = np.unique(packed, return_index=True, return_inverse=True)
    else:
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    subsets = tuple(tuple(entry_feature[entry_ptr[i] : entry_ptr[i + 1]].tolist()) for i in first)
    return subsets, np.asarray(group, dtype=np.int64).reshape(-1)


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
    entry_feature = np.empty(n_axes + _SPARE_ENTRIES, dtype=np.int32)
    n_runs_of_entry = np.empty(n_axes + _SPARE_ENTRIES, dtype=np.int64)
    runs = np.empty((2, n_cells + _SPARE_ENTRIES), dtype=np.int32)
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
