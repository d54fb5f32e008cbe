"""From an ensemble and a grid to one effect tensor per subset of features."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.accumulate import add_box_corners
from treepurify.budget import check_budget
from treepurify.effects.difference_tables import difference_tables, table_sizes
from treepurify.effects.leaf_runs import leaf_runs
from treepurify.effects.table_effects import table_cuts
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.grids.grid import Cuts, Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.typing import Array, Indices, Integers

__all__ = ["LeafBoxes", "accumulate", "ensemble_cuts", "leaf_boxes", "model_cuts"]


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


def ensemble_cuts(ensemble: TreeEnsemble) -> Cuts:
    """Return the union of the cuts of each numeric feature, sorted; None for categorical ones."""
    # A cut at -inf splits missing values from all others: it needs no cell below it.
    numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0) & (ensemble.cut > -np.inf)
    feature = ensemble.feature[numeric]
    cut = ensemble.cut[numeric]
    order = np.lexsort((cut, feature))
    feature, cut = feature[order], cut[order]
    is_new = np.ones(len(cut), dtype=bool)
    is_new[1:] = (feature[1:] != feature[:-1]) | (cut[1:] != cut[:-1])
    feature, cut = feature[is_new], cut[is_new]
    bounds = np.searchsorted(feature, np.arange(ensemble.n_features + 1))
    return tuple(
        None if spec.is_categorical else cut[bounds[j] : bounds[j + 1]]
        for j, spec in enumerate(ensemble.features)
    )


def model_cuts(model: Model) -> Cuts:
    """Return the cuts of each feature: those of all trees, or of all tables."""
    return ensemble_cuts(model) if isinstance(model, TreeEnsemble) else table_cuts(model)


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


def accumulate(
    ensemble: TreeEnsemble, grid: Grid, boxes: LeafBoxes, memory_budget: int
) -> EffectTensors:
    """Sum the leaves of each subset into one tensor on the cells of `grid`.

    The value of a leaf goes to the 2^d corners of its box in a difference array, and one
    cumulative sum along each axis spreads it: the cost of a leaf does not depend on the
    number of cells.

    Raises
    ------
    MemoryBudgetError
        If the tensors would not fit.
    """
    n_outputs = ensemble.n_outputs
    shapes = [grid.shape(subset) for subset in boxes.subsets]
    _check_tensors(boxes.subsets, grid, table_sizes(shapes, n_outputs), memory_budget)
    tables = difference_tables(shapes, n_outputs)
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    orders = np.array([len(shape) for shape in shapes], dtype=np.int64)
    add_box_corners(
        leaves,
        boxes.entry_ptr,
        boxes.run_ptr,
        boxes.run_start,
        boxes.run_stop,
        boxes.leaf_subset[leaves],
        tables.offsets,
        tables.extents,
        orders,
        boxes.values,
        boxes.output,
        tables.values,
        *np.zeros((3, tables.extents.shape[1]), dtype=np.int64),
    )
    intercept = ensemble.base.copy()
    tensors = {}
    for subset, values in zip(boxes.subsets, tables.summed(), strict=True):
        if subset:
            tensors[subset] = EffectTensor(subset, grid.subset_axes(subset), values)
        else:
            intercept = intercept + values
    return EffectTensors(intercept, tensors)


def _check_tensors(
    subsets: tuple[Subset, ...], grid: Grid, sizes: list[int], memory_budget: int
) -> None:
    if not sizes:
        return
    largest = int(np.argmax(np.array(sizes, dtype=float)))
    names = " x ".join(grid.axes[j].name for j in subsets[largest])
    check_budget(
        8 * sum(sizes),
        memory_budget,
        f"the effect tensors of {len(subsets)} subsets of features on the union grid (the largest, "
        f"{names}, has {'x'.join(map(str, grid.shape(subsets[largest])))} cells)",
        "Raise memory_budget, or train with a smaller depth or fewer bins.",
    )
