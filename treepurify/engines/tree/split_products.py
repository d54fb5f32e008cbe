"""The functions that a tree is projected on: products of splits that are on one path.

A split sends some cells of a feature to the left. Under independent features, the components of a
tree are sums of products of such sets of cells, one of each feature, whose splits are on one path:
they are what a tree can say of few features. Products of other cells would be many times as many,
and fit the noise of the rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.split_products import (
    add_products,
    centre,
    common_masses,
    list_products,
    mass_in_leaves,
    multiply_masses,
)
from treepurify.budget import check_budget
from treepurify.effects.accumulate import DifferenceTables, difference_tables
from treepurify.effects.conditional import Margins
from treepurify.effects.leaf_boxes import LeafBoxes, Runs, first_cells_right
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array, Indices, Integers, Mask

FEWER_PRODUCTS = (
    "Main effects alone, purify(model, X, order=1), need far less. For pairs, treat features as "
    'independent, purify(model, X, weights="independent"), or, if the model has few features, use '
    'coarse cells, purify(model, X, method="coarse").'
)

# Its number, listed and sorted, and the digits of it.
_BYTES_PER_PRODUCT = 96
_NO_SIDE = -1


class Sides(NamedTuple):
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

    @property
    def runs(self) -> Runs:
        """The sides as sets of cells."""
        return Runs(self.run_ptr, self.run_start, self.run_stop, self.feature)


class Splits(NamedTuple):
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
    missing_cells : ndarray of int64, shape (n_features,)
        The cell of missing values of each feature, -1 where there is none.
    parts_missing : ndarray of bool, shape (n_features,)
        Whether that cell has some of the mass, and not all of it.
    """

    ensemble: TreeEnsemble
    grid: Grid
    margins: Margins
    end: Integers
    first_right: Integers
    missing_cells: Integers
    parts_missing: Mask

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


class SplitProducts(NamedTuple):
    """Products of the sides of a tree's splits, of at most `order` features.

    Parameters
    ----------
    sides : Sides
        The sides that differ where there is mass.
    products : ndarray of int64, shape (n_products, order)
        Sides of each product, increasing, -1 beyond its last: first the one of no side, which is
        one everywhere, then by number of sides. With a product there is each part of it.
    parts : ndarray of int64, shape (n_products, order)
        Number of each product without each of its sides; -1 beyond the last side.
    features : ndarray of int64, shape (n_products, order)
        The features of each product; -1 beyond its last.
    mass : ndarray of float64, shape (n_sides,)
        Probability of each side.
    """

    sides: Sides
    products: Integers
    parts: Integers
    features: Integers
    mass: Array

    def centre(self, coefficients: Array) -> None:
        """Turn multiples of products into those of products of sides less their masses."""
        centre(self.products, self.parts, self.mass, coefficients)

    def write_independent(self, margins: Margins, of_pairs: Array) -> None:
        """Write the mass of every two products where features are independent."""
        both = np.empty((len(self.mass), len(self.mass)))
        common_masses(*self.sides.runs, *self.sides.runs, margins, both)
        mass, given = both.diagonal().copy(), np.empty(len(both) + 1)
        multiply_masses(self.products, self.sides.feature, mass, both, given, of_pairs)

    def in_leaves(self, boxes: LeafBoxes, leaves: Indices, margins: Margins) -> Array:
        """Return the mass of each product in each of some leaves, where features are independent.

        The leaves are neighbours. Shape (n_leaves, n_products).
        """
        first, last = boxes.entry_ptr[[leaves[0], leaves[-1] + 1]]
        runs = Runs(
            boxes.run_ptr[first : last + 1],
            boxes.run_start,
            boxes.run_stop,
            boxes.entry_feature[first:last].astype(np.int64),
        )
        inside = np.empty((last - first, len(self.mass)))
        common_masses(*runs, *self.sides.runs, margins, inside)
        entry_ptr = boxes.entry_ptr[leaves[0] : leaves[-1] + 2] - first
        entries = entry_ptr, runs.feature, margins.of_runs(runs), inside
        mass = margins.of_runs(self.sides.runs)
        sums = np.empty((len(leaves), len(self.products)))
        mass_in_leaves(self.products, self.sides.feature, mass, *entries, sums)
        sums[boxes.leaf_subset[leaves] < 0] = 0.0
        return sums

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


def splits_of(ensemble: TreeEnsemble, grid: Grid, margins: Margins) -> Splits:
    """Return the splits of an ensemble on a grid; `margins` are those of the measure."""
    end = np.full(len(ensemble.feature), _NO_SIDE, dtype=np.int64)
    is_numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0)
    first_right = first_cells_right(ensemble, grid)
    missing_cells = np.full(grid.n_features, -1, dtype=np.int64)
    parts_missing = np.zeros(grid.n_features, dtype=bool)
    for j in ensemble.used_features:
        axis, mass = grid.axes[j], margins.of_feature(j)
        if axis.missing_cell is not None:
            missing_cells[j] = axis.missing_cell
            parts_missing[j] = 0 < mass[-2] < mass[-1]
        known = mass[: axis.n_cells + 1 - int(axis.has_missing)]
        # The first cell behind which no less lies: cells without mass add nothing.
        same = np.searchsorted(known, known)
        same[(known == 0) | (known == known[-1])] = _NO_SIDE
        tests = np.flatnonzero(is_numeric & (ensemble.feature == j))
        end[tests] = same[first_right[tests]]
    return Splits(ensemble, grid, margins, end, first_right, missing_cells, parts_missing)


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
    # Numbers with the digits ``side + 1``, of which longer products have more.
    keys = np.append(0, np.unique(keys))
    base, size = len(sides.feature) + 1, np.zeros(len(keys), dtype=np.int64)
    for k in range(order):
        size += keys >= base**k
    place = np.arange(order)
    is_side = place < size[:, None]
    behind = base ** np.where(is_side, size[:, None] - 1 - place, 0)
    above, below = np.divmod(keys[:, None], behind * base)
    products = np.where(is_side, below // behind - 1, _NO_SIDE)
    parts = np.where(is_side, np.searchsorted(keys, above * behind + below % behind), _NO_SIDE)
    features = np.append(sides.feature, -1)[products]
    return SplitProducts(sides, products, parts, features, splits.margins.of_runs(sides.runs))


def _sides_of(splits: Splits, nodes: slice) -> tuple[Sides, Integers]:
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
    has_missing = (feature >= 0) & ~is_categorical & splits.parts_missing[feature]
    keys[has_missing, 1] = (feature[has_missing] + 1) * base - 1
    numbers: dict[tuple[int, bytes], int] = {}
    masks = {}
    for node, mask in sets.items():
        j = int(feature[node])
        keys[node, 0] = j * base + numbers.setdefault((j, mask.tobytes()), len(numbers))
        masks[int(keys[node, 0])] = mask
    known, of_node = np.unique(keys, return_inverse=True)
    n_without = int(len(known) > 0 and known[0] == _NO_SIDE)
    known = known[n_without:]
    owner, number = known // base, known % base
    missing, is_missing = splits.missing_cells[owner], number == base - 1
    ends = np.where(is_missing, [missing, missing + 1], [np.zeros_like(number), number])
    runs = [
        _runs(masks[key]) if key in masks else one
        for key, one in zip(known.tolist(), ends.T[:, None], strict=True)
    ]
    ptr = np.cumsum([0, *map(len, runs)])
    start, stop = np.concatenate([np.zeros((0, 2), dtype=np.int64), *runs]).astype(np.uint32).T
    tested, place = np.unique(owner, return_inverse=True)
    sides = Sides(owner, tested, place, ptr, start.copy(), stop.copy())
    return sides, of_node.reshape(keys.shape) - n_without


def _category_sets(splits: Splits, nodes: slice) -> dict[int, Mask]:
    """Return for each categorical node of a tree the categories that reach its left child.

    Those without mass are left out. Nodes that send all or none of them there have no set.
    """
    ensemble, sets = splits.ensemble, dict[int, Mask]()
    waiting: list[tuple[int, dict[int, Mask]]] = [(nodes.start, {})]
    while waiting:
        node, reached = waiting.pop()
        j, table = int(ensemble.feature[node]), int(ensemble.category_ptr[node])
        if j < 0:
            continue
        left = right = reached
        if table >= 0:
            here = reached[j] if j in reached else np.diff(splits.margins.of_feature(j)) > 0
            n_known = len(here) - int(splits.missing_cells[j] >= 0)
            missing = [ensemble.missing_left[node]] * (len(here) - n_known)
            known = ensemble.category_left[table : table + n_known]
            goes_left = here & np.append(known, missing).astype(bool)
            if goes_left.any() and not np.array_equal(goes_left, here):
                sets[node - nodes.start] = goes_left
            left, right = reached | {j: goes_left}, reached | {j: here & ~goes_left}
        waiting += [(int(ensemble.left[node]), left), (int(ensemble.right[node]), right)]
    return sets


def _runs(mask: Mask) -> Integers:
    """Return the runs of a set of cells, shape (n_runs, 2): first cell, and behind the last."""
    edges = np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
    return np.stack([np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)], axis=1)


class ProductTables(NamedTuple):
    """Tables of differences on the grid of all trees, to which their products are added.

    A product costs a few additions, not one for each cell: differences are summed up once, after
    all trees.

    Parameters
    ----------
    subsets : list of tuple of int
        The features of each table.
    numbers : ndarray of int64, shape (n_tables,)
        Their numbers, increasing; see `_number_sets`.
    n_cells : ndarray of int64, shape (n_features + 1,)
        Number of cells of each feature, and 1 for what is none, the feature -1.
    tables : DifferenceTables
        The tables.
    """

    subsets: list[Subset]
    numbers: Integers
    n_cells: Integers
    tables: DifferenceTables

    def add(self, products: SplitProducts, coefficients: Array, outputs: Indices) -> None:
        """Add multiples of products of sides less their masses, all but the first product.

        `coefficients` has one column for each of `outputs`.
        """
        features = products.features[1:]
        sizes = self.n_cells[features]
        behind = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1] // sizes
        place = np.searchsorted(self.numbers, _number_sets(features, len(self.n_cells)))
        what = products.products[1:], products.differences(self.n_cells), coefficients[1:].copy()
        where = self.tables.offsets[place], self.tables.n_outputs * behind, outputs
        workspace = np.empty(features.shape[1], dtype=np.int64)
        add_products(*what, *where, workspace, self.tables.values)

    def summed(self) -> dict[Subset, Array]:
        """Turn differences into values, in place, and return the table of each set of features."""
        return dict(zip(self.subsets, self.tables.summed(), strict=True))


def product_tables(grid: Grid, subsets: Sequence[Subset], n_outputs: int) -> ProductTables:
    """Return tables of zeros for sets of features, which are ordered by size, then by feature."""
    widest = max(map(len, subsets), default=0)
    padded = [(*subset, *[-1] * (widest - len(subset))) for subset in subsets]
    n_cells = np.array([*(axis.n_cells for axis in grid.axes), 1], dtype=np.int64)
    features = np.array(padded, dtype=np.int64).reshape(len(subsets), widest)
    tables = difference_tables([grid.shape(subset) for subset in subsets], n_outputs)
    return ProductTables(list(subsets), _number_sets(features, len(n_cells)), n_cells, tables)


def sets_of(products: SplitProducts, n_features: int) -> set[Subset]:
    """Return the sets of features that products have."""
    features = products.features[1:]
    _, first = np.unique(_number_sets(features, n_features + 1), return_index=True)
    return {tuple(j for j in row if j >= 0) for row in features[first].tolist()}


def _number_sets(features: Integers, base: int) -> Integers:
    """Return a number for each set of features, by size, then by feature; -1 stands behind it."""
    place = np.arange(features.shape[1])[::-1]
    n_behind = (features < 0).sum(axis=1)
    return np.asarray((features + 1) @ base**place // base**n_behind, dtype=np.int64)
