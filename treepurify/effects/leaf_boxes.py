"""The boxes of cells that the leaves of an ensemble cover."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.effects.leaf_runs import leaf_runs
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array, Indices, Integers

__all__ = ["LeafBoxes", "leaf_boxes"]


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
        ends, leaves = self._leaves_of_features
        of_each = [
            leaves[ends[j] : ends[j + 1]] if j + 1 < len(ends) else leaves[:0] for j in features
        ]
        of_all, *others = sorted(of_each, key=len)
        holds = np.zeros(len(self.leaf_subset), dtype=bool)
        for other in others:
            holds[:] = False
            holds[other] = True
            of_all = of_all[holds[of_all]]
        return of_all.astype(np.intp)

    def weighted_sum(self, weight: Array, n_outputs: int) -> Array:
        """Return the sum over leaves of a weight times the value, shape (n_outputs,)."""
        total = np.zeros(n_outputs)
        scalar = self.output >= 0
        np.add.at(total, self.output[scalar], weight[scalar] * self.values[scalar, 0])
        if not scalar.all():
            total += weight[~scalar] @ self.values[~scalar]
        return total

    @cached_property
    def _leaves_of_features(self) -> tuple[Indices, npt.NDArray[np.int32]]:
        """The reachable leaves that test each feature, one after the other, and their ends."""
        owner = np.repeat(np.arange(len(self.leaf_subset)), np.diff(self.entry_ptr))
        used = self.leaf_subset[owner] >= 0
        feature = self.entry_feature[used]
        order = np.argsort(feature, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(feature))])
        return ends, owner[used][order].astype(np.int32)


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
