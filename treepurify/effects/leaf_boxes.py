"""The boxes of cells that the leaves of an ensemble cover, as runs along the features tested."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

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
from treepurify.typing import Array, Cells, Indices, Integers

# Entries and runs that are found at a time, in addition to those of one leaf.
_SPARE_ENTRIES = 1 << 16


class Runs(NamedTuple):
    """Sets of cells of one feature each, as half-open runs of cells.

    Set i has the runs ``ptr[i]:ptr[i + 1]``, from the cells `start` to those before `stop`, of the
    feature ``feature[i]``.
    """

    ptr: Integers
    start: Cells
    stop: Cells
    feature: Cells


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
        The entries of leaf i are ``entry_ptr[i]:entry_ptr[i + 1]``, one per restricted feature,
        in the order of these; an entry has the half-open runs ``run_ptr[entry]:run_ptr[entry + 1]``
        of cells.
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
    def runs(self) -> Runs:
        """The entries as sets of cells."""
        return Runs(self.run_ptr, self.run_start, self.run_stop, self.entry_feature)

    @property
    def features(self) -> Subset:
        """The features that restrict a leaf, increasing."""
        return tuple(sorted({j for subset in self.subsets for j in subset}))

    def leaves_with(self, features: Subset) -> Indices:
        """Return the reachable leaves whose path tests all of the features, in order."""
        wanted = set.intersection(*(self._subsets_with[j] for j in features))
        # The last stands for leaves that no cell reaches, -1.
        is_wanted = np.zeros(len(self.subsets) + 1, dtype=bool)
        is_wanted[list(wanted)] = True
        return np.flatnonzero(is_wanted[self.leaf_subset])

    def weighted_sum(self, weight: Array, n_outputs: int) -> Array:
        """Return the sum over leaves of a weight times the value, shape (n_outputs,)."""
        total = np.zeros(n_outputs)
        scalar = self.output >= 0
        np.add.at(total, self.output[scalar], weight[scalar] * self.values[scalar, 0])
        if not scalar.all():
            total += weight[~scalar] @ self.values[~scalar]
        return total

    @cached_property
    def _subsets_with(self) -> Mapping[int, set[int]]:
        """The positions of the subsets with each feature."""
        found: defaultdict[int, set[int]] = defaultdict(set)
        for position, subset in enumerate(self.subsets):
            for j in subset:
                found[j].add(position)
        return found


def leaf_boxes(ensemble: TreeEnsemble, grid: Grid, *, keep_every_test: bool = False) -> LeafBoxes:
    """Return the box of cells that each leaf covers on `grid`.

    With `keep_every_test`, a leaf's subset holds every feature that its path tests, and
    leaves that no cell reaches have one too: they count where not all features are given.
    """
    leaves = np.flatnonzero(ensemble.feature < 0)
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
    feature = np.empty(n_axes + _SPARE_ENTRIES, dtype=np.int32)
    n_runs_of_entry = np.empty(n_axes + _SPARE_ENTRIES, dtype=np.int64)
    runs = np.empty((2, n_cells + _SPARE_ENTRIES), dtype=np.int32)
    found: list[list[Any]] = []
    leaf = 0
    while leaf < len(leaves) or not found:
        filled = reachable, n_entries_of_leaf, feature, n_runs_of_entry, runs
        leaf, n_entries, n_runs = add_runs(leaf, *given, *work, *filled)
        some = (feature[:n_entries], n_runs_of_entry[:n_entries], *runs[:, :n_runs])
        found.append([numbers.copy() for numbers in some])
    entry_feature, run_counts, start, stop = map(np.concatenate, zip(*found, strict=True))
    entry_ptr = np.append(0, np.cumsum(n_entries_of_leaf))
    subsets, leaf_subset = _group(entry_ptr, entry_feature)
    tree_of_leaf = np.searchsorted(ensemble.tree_ptr, leaves, side="right") - 1
    return LeafBoxes(
        subsets,
        leaf_subset if keep_every_test else np.where(reachable, leaf_subset, -1),
        entry_ptr,
        entry_feature,
        np.append(0, np.cumsum(run_counts)),
        start,
        stop,
        ensemble.value[leaves],
        ensemble.tree_output[tree_of_leaf],
    )


def _group(
    entry_ptr: Integers, entry_feature: npt.NDArray[np.int32]
) -> tuple[tuple[Subset, ...], Integers]:
    """Number the distinct subsets, by size and then by feature."""
    sizes = np.diff(entry_ptr)
    base, widest = int(entry_feature.max(initial=0)) + 2, int(sizes.max(initial=0))
    # The size and the features as digits of one number, as many as fit.
    number, bound = sizes, widest + 1
    for k in range(widest):
        if bound * base >= 2**62:
            _, number = np.unique(number, return_inverse=True)
            bound = len(sizes)
        digit = np.zeros(len(sizes), dtype=np.int64)
        longer = sizes > k
        digit[longer] = entry_feature[entry_ptr[:-1][longer] + k] + 1
        number, bound = number * base + digit, bound * base
    _, first, group = np.unique(number, return_index=True, return_inverse=True)
    subsets = tuple(tuple(entry_feature[entry_ptr[i] : entry_ptr[i + 1]].tolist()) for i in first)
    return subsets, np.asarray(group, dtype=np.int64).reshape(-1)


def members_of(ptr: Integers, groups: Integers) -> tuple[Integers, Integers]:
    """Return the members of some groups, one group after the other, and the place of each group."""
    sizes = ptr[groups + 1] - ptr[groups]
    place = np.repeat(np.arange(len(groups)), sizes)
    return np.arange(len(place)) + (ptr[groups] - np.cumsum(sizes) + sizes)[place], place


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
