"""The functions that a tree is projected on: products of splits that are on one path.

A split sends some cells of a feature to the left. Under independent features, the components of a
tree are sums of products of such sets of cells, one of each feature, whose splits are on one path:
they are what a tree can say of few features. Products of other cells would be many times as many,
and fit the noise of the rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.split_products import (
    common_masses,
    list_products,
    mass_in_leaves,
    multiply_masses,
)
from treepurify.budget import check_budget
from treepurify.effects.conditional import Margins
from treepurify.effects.leaf_boxes import LeafBoxes, first_cells_right
from treepurify.grids.grid import Grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array, Indices, Integers, Mask

__all__ = [
    "FEWER_PRODUCTS",
    "SplitProducts",
    "Splits",
    "splits_of",
    "tree_products",
]

FEWER_PRODUCTS = (
    "Main effects alone, purify(model, X, order=1), need far less. For pairs, treat features as "
    'independent, purify(model, X, weights="independent"), or, if the model has few features, use '
    'coarse cells, purify(model, X, method="coarse").'
)

# Its number, listed and sorted, and the digits of it.
_BYTES_PER_PRODUCT = 96
_NO_SIDE = -1


class _Sides(NamedTuple):
    """Sets of cells of single features, by feature, as runs of cells.

    Parameters
    ----------
    feature : ndarray of int64, shape (n_sides,)
        The feature of each.
    tested : ndarray of int64
        The features that occur, increasing.
    place : ndarray of int64, shape (n_sides,)
        Position of each side's feature among them.
    run_ptr : ndarray of int64, shape (n_sides + 1,)
        The runs of each side.
    run_start, run_stop : ndarray of uint32
        First cell of each run, and the cell behind its last.
    """

    feature: Integers
    tested: Integers
    place: Integers
    run_ptr: Integers
    run_start: npt.NDArray[np.uint32]
    run_stop: npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Splits:
    """The splits of an ensemble on a grid.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    grid : Grid
        The grid.
    margins : Margins
        Where features have cells with mass.
    end : ndarray of int64, shape (n_nodes,)
        Cells before this one go left at a numeric split, the missing cell aside. Cells without
        mass make no difference: of several such ends it is the first. -1 where all or none go left.
    first_right : ndarray of int64, shape (n_nodes,)
        The first cell that goes right at a numeric split, with or without mass.
    """

    ensemble: TreeEnsemble
    grid: Grid
    margins: Margins
    end: Integers
    first_right: Integers

    def nodes(self, tree: int) -> slice:
        """Return the nodes of a tree, the root first."""
        return slice(int(self.ensemble.tree_ptr[tree]), int(self.ensemble.tree_ptr[tree + 1]))

    def children(self, tree: int) -> tuple[Integers, Integers]:
        """Return the left and right child of each node, by its place in the tree.

        Negative at leaves.
        """
        nodes, ensemble = self.nodes(tree), self.ensemble
        left, right = ensemble.left[nodes], ensemble.right[nodes]
        return left.astype(np.int64) - nodes.start, right.astype(np.int64) - nodes.start

    @cached_property
    def n_known(self) -> Integers:
        """Number of cells of each feature without that of missing values."""
        return np.array([axis.n_cells - int(axis.has_missing) for axis in self.grid.axes])

    @cached_property
    def has_missing(self) -> Mask:
        """Whether each feature has a missing cell with some of the mass, and not all of it."""
        found = np.zeros(self.grid.n_features, dtype=bool)
        for j, axis in enumerate(self.grid.axes):
            if axis.has_missing:
                known, everything = self.margins.of_feature(j)[-2:]
                found[j] = 0 < known < everything
        return found

    def runs_left(self, tree: int) -> tuple[Integers, Any, Any]:
        """Return the runs of cells that go left at each node of a tree; none at leaves."""
        nodes = self.nodes(tree)
        ends, starts, stops = self._numeric_runs
        own = ends[nodes.start : nodes.stop + 1]
        starts, stops, own = starts[own[0] : own[-1]], stops[own[0] : own[-1]], own - own[0]
        feature, categories = self.ensemble.feature[nodes], self.ensemble.category_ptr[nodes]
        is_categorical = (feature >= 0) & (categories >= 0)
        if not is_categorical.any():
            return own, starts, stops
        both = np.stack([starts, stops], axis=1)
        return _joined(
            [
                _runs(self.goes_left(node)) if is_set else both[first:last]
                for node, is_set, first, last in zip(
                    range(nodes.start, nodes.stop), is_categorical, own[:-1], own[1:], strict=True
                )
            ]
        )

    @cached_property
    def _numeric_runs(self) -> tuple[Integers, Any, Any]:
        """The runs of cells that go left at each numeric node of all trees, none at others."""
        ensemble = self.ensemble
        is_numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0)
        has_missing = np.array([axis.has_missing for axis in self.grid.axes])
        takes_missing = is_numeric & ensemble.missing_left & has_missing[ensemble.feature]
        n_known = self.n_known.astype(np.uint32)[ensemble.feature]
        starts = np.stack([np.zeros_like(n_known), n_known], axis=1)
        stops = np.stack([self.first_right.astype(np.uint32), n_known + 1], axis=1)
        kept = np.stack([is_numeric & (self.first_right > 0), takes_missing], axis=1)
        ends = np.append(0, np.cumsum(kept.sum(axis=1)))
        return ends, starts[kept], stops[kept]

    def goes_left(self, node: int) -> Mask:
        """Return which cells go left at a categorical node."""
        ensemble, axis = self.ensemble, self.grid.axes[self.ensemble.feature[node]]
        first = ensemble.category_ptr[node]
        known = ensemble.category_left[first : first + axis.n_cells - int(axis.has_missing)]
        missing = [ensemble.missing_left[node]] * int(axis.has_missing)
        return np.append(known, missing).astype(bool)


class SideDifferences(NamedTuple):
    """Differences of indicators of sides, less a number each, from one cell to the next.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n_sides + 1,)
        First difference of each side, and their number.
    cells : ndarray of int64, shape (n_differences,)
        Cells at which they are.
    steps : ndarray of float64, shape (n_differences,)
        Their sizes.
    """

    ptr: Integers
    cells: Integers
    steps: Array


@dataclass(frozen=True, eq=False)
class SplitProducts:
    """Products of the sides of a tree's splits, of at most `order` features.

    Parameters
    ----------
    sides : _Sides
        The sides that differ where there is mass.
    products : ndarray of int64, shape (n_products, order)
        Sides of each product, increasing, -1 beyond its last: first the one of no side, which is
        one everywhere, then by number of sides. With a product there is each part of it.
    keys : ndarray of int64, shape (n_products,)
        Numbers with the digits ``side + 1``, to the base ``n_sides + 1``; increasing.
    mass : ndarray of float64, shape (n_sides,)
        Probability of each side.
    """

    sides: _Sides
    products: Integers
    keys: Integers
    mass: Array

    @cached_property
    def features(self) -> Integers:
        """The features of each product, shape (n_products, order); -1 beyond its last."""
        padded = np.append(self.sides.feature, -1)
        return padded[self.products]

    @cached_property
    def parts(self) -> Integers:
        """Number of each product without each of its sides; -1 beyond the last side."""
        base = len(self.sides.feature) + 1
        size = (self.products >= 0).sum(axis=1)
        parts = np.full(self.products.shape, _NO_SIDE, dtype=np.int64)
        for k in range(self.products.shape[1]):
            has = size > k
            behind = base ** (size[has] - 1 - k)
            without = self.keys[has] // (behind * base) * behind + self.keys[has] % behind
            parts[has, k] = np.searchsorted(self.keys, without)
        return parts

    def differences(self, n_cells: Integers) -> SideDifferences:
        """Return the differences of each side less its mass; none behind the last of `n_cells`."""
        sides, every = self.sides, np.arange(len(self.mass))
        of_run = np.repeat(every, np.diff(sides.run_ptr))
        ends = sides.run_stop < n_cells[sides.feature[of_run]]
        side = np.concatenate([every, of_run, of_run[ends]])
        cells = np.concatenate([np.zeros_like(every), sides.run_start, sides.run_stop[ends]])
        steps = np.concatenate([-self.mass, np.ones(len(of_run)), -np.ones(np.count_nonzero(ends))])
        order = np.argsort(side, kind="stable")
        ptr = np.searchsorted(side[order], np.arange(len(every) + 1))
        return SideDifferences(ptr, cells[order], steps[order])

    def write_independent(self, margins: Margins, of_pairs: Array) -> None:
        """Write the mass of every two products where features are independent."""
        both = self._both_sides(margins)
        mass, given = both.diagonal().copy(), np.empty(len(both) + 1)
        multiply_masses(self.products, self.sides.feature, mass, both, given, of_pairs)

    def _both_sides(self, margins: Margins) -> Array:
        """Return the mass of every two sides of one feature together, 0 for other features."""
        sides = self.sides
        runs = sides.run_ptr, sides.run_start, sides.run_stop, sides.feature
        both = np.empty((len(sides.feature), len(sides.feature)))
        common_masses(*runs, *runs, margins, both)
        return both

    def in_leaves(self, boxes: LeafBoxes, leaves: Indices, margins: Margins) -> Array:
        """Return the mass of each product in each of some leaves, where features are independent.

        The leaves are neighbours. Shape (n_leaves, n_products).
        """
        sides = self.sides
        of_leaf = boxes.entry_ptr[leaves[0] : leaves[-1] + 2]
        entries = slice(of_leaf[0], of_leaf[-1])
        feature = boxes.entry_feature[entries].astype(np.int64)
        run_ptr = boxes.run_ptr[of_leaf[0] : of_leaf[-1] + 1]
        runs = run_ptr, boxes.run_start, boxes.run_stop, feature
        of_sides = sides.run_ptr, sides.run_start, sides.run_stop, sides.feature
        inside = np.empty((len(feature), len(sides.feature)))
        common_masses(*runs, *of_sides, margins, inside)
        of_entry = margins.of_runs(feature, *runs[:3])
        sums = np.empty((len(leaves), len(self.products)))
        mass_in_leaves(
            self.products,
            sides.feature,
            _side_masses(sides, margins),
            of_leaf - of_leaf[0],
            feature,
            of_entry,
            inside,
            sums,
        )
        sums[boxes.leaf_subset[leaves] < 0] = 0.0
        return sums


def tree_products(splits: Splits, tree: int, order: int, memory_budget: int) -> SplitProducts:
    """Return the products of at most `order` sides of a tree.

    Raises
    ------
    MemoryBudgetError
        If the products would take more bytes than `memory_budget`.
    """
    sides, of_node = _sides_of(splits, splits.nodes(tree))
    workspace = np.empty((len(of_node) + 1, 2), np.int64), np.empty(of_node.size, np.int64)
    given = *splits.children(tree), of_node, sides.feature, order, *workspace
    n_listed = list_products(*given, np.empty(0, dtype=np.int64))
    check_budget(
        _BYTES_PER_PRODUCT * n_listed,
        memory_budget,
        f"the list of {n_listed} combinations of splits of tree {tree}",
        FEWER_PRODUCTS,
    )
    keys = np.empty(n_listed, dtype=np.int64)
    list_products(*given, keys)
    keys = np.append(0, np.unique(keys))
    base = len(sides.feature) + 1
    digits = np.stack([keys // base**k % base for k in reversed(range(order))], axis=1) - 1
    # Sides first, and nothing behind them.
    size = (digits >= 0).sum(axis=1)
    shifted = np.arange(order) + (order - size)[:, None]
    padded = np.concatenate([digits, np.full((len(digits), order), _NO_SIDE)], axis=1)
    products = np.take_along_axis(padded, shifted, axis=1)
    return SplitProducts(sides, products, keys, _side_masses(sides, splits.margins))


def splits_of(ensemble: TreeEnsemble, grid: Grid, margins: Margins) -> Splits:
    """Return the splits of an ensemble on a grid; `margins` are those of the measure."""
    end = np.full(len(ensemble.feature), -1, dtype=np.int64)
    is_numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0)
    first_right = first_cells_right(ensemble, grid)
    feature, first = ensemble.feature[is_numeric], first_right[is_numeric]
    ends = end[is_numeric]
    for j in np.unique(feature).tolist():
        axis, mass = grid.axes[j], margins.of_feature(j)
        known = mass[: axis.n_cells + 1 - int(axis.has_missing)]
        # The first cell behind which no less lies: cells without mass add nothing.
        same = np.searchsorted(known, known)
        same[(known == 0) | (known == known[-1])] = _NO_SIDE
        ends[feature == j] = same[first[feature == j]]
    end[is_numeric] = ends
    return Splits(ensemble, grid, margins, end, first_right)


def _side_masses(sides: _Sides, margins: Margins) -> Array:
    """Return the probability of each side."""
    runs = sides.run_ptr, sides.run_start, sides.run_stop
    return margins.of_runs(sides.feature, *runs)


def _sides_of(splits: Splits, nodes: slice) -> tuple[_Sides, Integers]:
    """Return the sides of a tree, and those of each of its nodes, -1 where it has none.

    A numeric split has its cells on the left and, where values are missing, those that are.
    """
    ensemble = splits.ensemble
    feature, end = ensemble.feature[nodes].astype(np.int64), splits.end[nodes]
    is_categorical = ensemble.category_ptr[nodes] >= 0
    sets = _category_sets(splits, nodes) if is_categorical.any() else {}
    # Each feature has `base` numbers for its sides; the last is that of missing values.
    base = 2 + max(len(feature), *(axis.n_cells for axis in splits.grid.axes))
    keys = np.full((len(feature), 2), _NO_SIDE, dtype=np.int64)
    keys[end > 0, 0] = feature[end > 0] * base + end[end > 0]
    has_missing = (feature >= 0) & ~is_categorical & splits.has_missing[feature]
    keys[has_missing, 1] = (feature[has_missing] + 1) * base - 1
    numbers: dict[tuple[int, bytes], int] = {}
    masks = {}
    for node, mask in sets.items():
        j = int(feature[node])
        key = j * base + numbers.setdefault((j, mask.tobytes()), len(numbers))
        keys[node, 0] = key
        masks[key] = mask
    known, of_node = np.unique(keys, return_inverse=True)
    n_without = int(len(known) > 0 and known[0] == _NO_SIDE)
    known = known[n_without:]
    owner, number = known // base, known % base
    is_missing = number == base - 1
    n_known = splits.n_known[owner]
    start = np.where(is_missing, n_known, 0)
    stop = np.where(is_missing, n_known + 1, number)
    single = np.stack([start, stop], axis=1)
    runs = [
        _runs(masks[key]) if key in masks else own
        for key, own in zip(known.tolist(), single[:, None], strict=True)
    ]
    tested = np.unique(owner)
    sides = _Sides(owner, tested, np.searchsorted(tested, owner), *_joined(runs))
    return sides, of_node.reshape(keys.shape) - n_without


def _category_sets(splits: Splits, nodes: slice) -> dict[int, Mask]:
    """Return for each categorical node of a tree the categories that reach its left child.

    Those without mass are left out. Nodes that send all or none of them there have no set.
    """
    ensemble, first = splits.ensemble, nodes.start
    sets: dict[int, Mask] = {}
    waiting: list[tuple[int, dict[int, Mask]]] = [(first, {})]
    while waiting:
        node, reached = waiting.pop()
        j = int(ensemble.feature[node])
        if j < 0:
            continue
        left = right = reached
        if ensemble.category_ptr[node] >= 0:
            here = reached[j] if j in reached else np.diff(splits.margins.of_feature(j)) > 0
            goes_left = here & splits.goes_left(node)
            if goes_left.any() and not np.array_equal(goes_left, here):
                sets[node - first] = goes_left
            left, right = reached | {j: goes_left}, reached | {j: here & ~goes_left}
        waiting += [(int(ensemble.left[node]), left), (int(ensemble.right[node]), right)]
    return sets


def _runs(mask: Mask) -> Integers:
    """Return the runs of a set of cells, shape (n_runs, 2): first cell, and behind the last."""
    edges = np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
    return np.stack([np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)], axis=1)


def _joined(runs: list[Any]) -> tuple[Integers, Any, Any]:
    """Return lists of runs one after the other: where each begins, their starts and stops."""
    ptr = np.cumsum([0, *map(len, runs)])
    both = np.concatenate([np.zeros((0, 2), dtype=np.int64), *runs]).astype(np.uint32)
    return ptr, np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])
