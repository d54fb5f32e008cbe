"""Sums of products of splits: over the rows of a tree, and of many trees on the union grid.

`ProductSums` says how much of the rows of a tree each product, and every two of them, hold.
`UnionSums` adds up products where cells are many, by differences: a product then costs a few
additions, not one for each cell, and differences are summed up once, after all trees.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.gram import gram_routine
from treepurify._kernels.leaf_order import sort_by_leaf
from treepurify._kernels.product_sums import (
    BITS,
    LANES,
    MOST_WEIGHED,
    MOST_WORDS,
    count_products,
    weigh_products,
)
from treepurify._kernels.split_products import add_products
from treepurify.effects.accumulate import DifferenceTables, difference_tables
from treepurify.engines.tree.split_products import SplitProducts, Splits
from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array, Cells, Indices, Integers

__all__ = [
    "ProductSums",
    "RowGroups",
    "SquareMemory",
    "UnionSums",
    "cells_of_sets",
    "number_sets",
    "row_groups",
    "sets_of_numbers",
    "square_memory",
    "sum_products",
]


class SquareMemory(NamedTuple):
    """Memory for matrices with a row and a column for each product of a tree.

    Trees use it in turn: what is new to the process takes longer to reach than most of what is
    computed in it.

    Parameters
    ----------
    pairs, second : ndarray of float64, shape (size,)
        Each is enough for one matrix.
    """

    pairs: Array
    second: Array


def square_memory(n_products: int) -> SquareMemory:
    """Return memory for trees of at most `n_products` products."""
    return SquareMemory(*(np.empty(_width(n_products) ** 2) for _ in SquareMemory._fields))


def square_of(memory: Array, size: int) -> Array:
    """Return the matrix of some rows and columns that begins where memory begins."""
    return memory[: size * size].reshape(size, size)


def _width(n_products: int) -> int:
    """Return how many places there are: those of products, and that of what is zero everywhere."""
    return (n_products // LANES + 1) * LANES


class ProductWorkspace(NamedTuple):
    """What a chunk of rows is read into, at most `n_words` times 64 of them.

    A place is a product that differs from all others on the chunk.

    Parameters
    ----------
    rows : ndarray of uint32, shape (n_rows,)
        The rows.
    leaf_of_word : ndarray of int64, shape (n_words,)
        The leaf of the rows of each word.
    words : ndarray of uint64, shape (n_words, width)
        Whether each row is in the product of each place, as bits.
    flat_words : ndarray of uint64, shape (n_words * width,)
        The same, a view.
    same : ndarray of uint64, shape (n_products,)
        The place of each product.
    factors : ndarray of uint64, shape (order, width)
        The sides of each place.
    cells : ndarray of unsigned int, shape (n_tested, n_rows)
        Cells of the rows along the features that the tree tests.
    of_sides : ndarray of uint64, shape (n_words, n_sides + 1)
        Which rows of each word there are, and which of them are on each side, as bits.
    holds : ndarray of uint8, shape (n_sides,)
        What each side holds.
    is_inside : ndarray of uint8, shape (n_rows,)
        Whether a side holds each row.
    inside_words : ndarray of uint64, shape (n_rows / 8,)
        The same, a view.
    place : ndarray of int64, shape (2,)
        The leaf of the next row, and how many of its rows were read.
    sums : ndarray of int64 or float64, shape (width, width)
        Sums in every two places.
    of_places : ndarray of int64 or float64, shape (width,)
        Sums in each place.
    """

    rows: npt.NDArray[np.uint32]
    leaf_of_word: Integers
    words: npt.NDArray[np.uint64]
    flat_words: npt.NDArray[np.uint64]
    same: npt.NDArray[np.uint64]
    factors: npt.NDArray[np.uint64]
    cells: Cells
    of_sides: npt.NDArray[np.uint64]
    holds: npt.NDArray[np.uint8]
    is_inside: npt.NDArray[np.uint8]
    inside_words: npt.NDArray[np.uint64]
    place: Integers
    sums: npt.NDArray[Any]
    of_places: npt.NDArray[Any]


def product_workspace(
    n_words: int,
    cell_type: np.dtype[Any],
    products: SplitProducts,
    number: type[np.number[Any]],
    memory: Array,
) -> ProductWorkspace:
    """Return a workspace for chunks of `n_words` words, with sums of type `number` in `memory`."""
    n_products, order = products.products.shape
    n_rows, n_sides = n_words * BITS, len(products.sides.feature)
    width = _width(n_products)
    words, is_inside = np.zeros((n_words, width), dtype=np.uint64), np.empty(n_rows, dtype=np.uint8)
    return ProductWorkspace(
        rows=np.empty(n_rows, dtype=np.uint32),
        leaf_of_word=np.empty(n_words, dtype=np.int64),
        words=words,
        flat_words=words.reshape(-1),
        same=np.empty(n_products, dtype=np.uint64),
        factors=np.empty((order, width), dtype=np.uint64),
        cells=np.empty((len(products.sides.tested), n_rows), dtype=cell_type),
        of_sides=np.empty((n_words, n_sides + 1), dtype=np.uint64),
        holds=np.empty(n_sides, dtype=np.uint8),
        is_inside=is_inside,
        inside_words=is_inside.view(np.uint64),
        place=np.zeros(2, dtype=np.int64),
        sums=square_of(memory, width).view(number),
        of_places=np.zeros(width, dtype=number),
    )


# Rows of one weight are counted 64 at a time, which takes a tenth of the time of adding weights.
_MOST_WEIGHTS = 8
_ROWS_MIRRORED = 64


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Rows by their weight.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row.
    groups : tuple of (float, ndarray of uint32)
        Groups of rows of the same weight, zero among them; together all rows, unless there are
        `others`.
    others : ndarray of uint32
        Rows of too many weights for groups.
    """

    weights: Array
    groups: tuple[tuple[float, npt.NDArray[np.uint32]], ...]
    others: npt.NDArray[np.uint32]


def row_groups(weights: Array) -> RowGroups:
    """Group rows by weight, or not at all where there are many weights."""
    everything = np.arange(len(weights), dtype=np.uint32)
    different, group = np.unique(weights, return_inverse=True)
    if len(different) > _MOST_WEIGHTS:
        return RowGroups(weights, (), everything)
    groups = [(float(weight), everything[group == i]) for i, weight in enumerate(different)]
    return RowGroups(weights, tuple(groups), everything[:0])


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Sums over the rows of a tree.

    Parameters
    ----------
    leaves : ndarray of int64, shape (n_leaves,)
        The leaves of the tree as nodes of the ensemble, from left to right.
    leaf : ndarray of uint32, shape (n_rows,)
        Position among them of the leaf that each row reaches.
    of_leaves : ndarray of float64, shape (n_leaves, n_products)
        Weight of the rows of each leaf in each product.
    of_pairs : ndarray of float64, shape (n_products, n_products)
        Weight of the rows in every two products.
    """

    leaves: Integers
    leaf: npt.NDArray[np.uint32]
    of_leaves: Array
    of_pairs: Array


def sum_products(
    codes: Cells,
    rows: RowGroups,
    splits: Splits,
    tree: int,
    products: SplitProducts,
    memory: SquareMemory,
) -> ProductSums:
    """Sum over all rows; `codes` are their cells along each feature.

    Sums of pairs are in ``memory.pairs``, and ``memory.second`` is written to.
    """
    nodes, ensemble = splits.nodes(tree), splits.ensemble
    of_tree = (
        ensemble.feature[nodes],
        *splits.children(tree),
        splits.first_right[nodes],
        ensemble.missing_left[nodes],
        ensemble.category_ptr[nodes],
        ensemble.category_left,
        splits.missing_cells,
    )
    n_nodes, n_products = len(of_tree[0]), len(products.products)
    n_leaves, leaf = (n_nodes + 1) // 2, np.empty(len(rows.weights), dtype=np.uint32)
    of_leaves, of_pairs = np.zeros((n_leaves, n_products)), square_of(memory.pairs, n_products)
    of_pairs[:] = 0.0
    what = products.sides, products.products, products.parts
    leaves, leaf_ptr = np.empty(n_leaves, dtype=np.int64), np.empty(n_leaves + 1, dtype=np.int64)
    waiting = np.empty((n_nodes + 1, 3), dtype=np.int64)

    def by_leaf(some: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint32], Integers]:
        order = some.copy()
        found = order, leaves, leaf_ptr, leaf
        sort_by_leaf(codes, *of_tree, np.empty_like(order), waiting, *found)
        return order, leaf_ptr

    counted = [(weight, group) for weight, group in rows.groups if weight > 0]
    for weight, group in rows.groups:
        order = by_leaf(group)
        if weight == 0:
            continue
        workspace = product_workspace(MOST_WORDS, codes.dtype, products, np.int64, memory.second)
        times = weight / counted[0][0]
        count_products(codes, *order, *what, workspace, times, of_leaves, of_pairs)
    if counted:
        # Once and here, so that sums of rows of one weight are counts until then.
        of_leaves *= counted[0][0]
        of_pairs *= counted[0][0]
    if len(rows.others):
        workspace = product_workspace(
            MOST_WEIGHED, codes.dtype, products, np.float64, memory.second
        )
        weigh_products(
            gram_routine(),
            codes,
            *by_leaf(rows.others),
            *what,
            workspace,
            np.empty((MOST_WEIGHED * BITS, workspace.words.shape[1])),
            rows.weights,
            of_leaves,
            of_pairs,
        )
    _mirror(of_pairs)
    return ProductSums(leaves + splits.ensemble.tree_ptr[tree], leaf, of_leaves, of_pairs)


def _mirror(matrix: Array) -> None:
    """Copy what stands above the diagonal to below it, where there are zeros."""
    for top in range(0, len(matrix), _ROWS_MIRRORED):
        rows = slice(top, top + _ROWS_MIRRORED)
        matrix[rows, :top] = matrix[:top, rows].T
        matrix[rows, rows] += np.triu(matrix[rows, rows], 1).T


@dataclass(frozen=True, eq=False)
class UnionSums:
    """Tables of differences on the union grid.

    Parameters
    ----------
    grid : Grid
        The grid.
    sets : ndarray of int64, shape (n_sets,)
        Numbers of the sets of features, increasing; see `number_sets`.
    subsets : list of tuple of int
        These sets.
    tables : DifferenceTables
        The table of each.
    """

    grid: Grid
    sets: Integers
    subsets: list[Subset]
    tables: DifferenceTables

    @classmethod
    def zeros(
        cls, grid: Grid, sets: Integers, subsets: list[Subset], n_outputs: int
    ) -> "UnionSums":
        """Return tables of zeros."""
        shapes = [grid.shape(subset) for subset in subsets]
        return cls(grid, sets, subsets, difference_tables(shapes, n_outputs))

    @cached_property
    def _n_cells(self) -> Integers:
        return _sizes(self.grid)

    def add(self, products: SplitProducts, coefficients: Array, outputs: Indices) -> None:
        """Add multiples of products of sides less their masses, all but the first product.

        `coefficients` has one column for each of `outputs`.
        """
        features, n_cells = products.features[1:], self._n_cells
        sizes = n_cells[features]
        behind = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1] // sizes
        place = np.searchsorted(self.sets, number_sets(self.grid, features))
        add_products(
            products.products[1:],
            products.differences(n_cells),
            np.ascontiguousarray(coefficients[1:]),
            self.tables.offsets[place],
            self.tables.n_outputs * behind,
            outputs,
            np.empty(features.shape[1], dtype=np.int64),
            self.tables.values,
        )

    def integrate(self) -> dict[Subset, Array]:
        """Turn differences into values, in place, and return the table of each set of features."""
        return dict(zip(self.subsets, self.tables.summed(), strict=True))


def number_sets(grid: Grid, features: Integers) -> Integers:
    """Return a number for each set of features, by size, then by feature.

    Shape (n_sets, n) to (n_sets,); behind the last feature of a set stands -1.
    """
    numbers = np.zeros(len(features), dtype=np.int64)
    for column in features.T:
        longer = numbers * (grid.n_features + 1) + column + 1
        numbers = np.where(column >= 0, longer, numbers)
    return numbers


def sets_of_numbers(grid: Grid, numbers: Integers) -> list[Subset]:
    """Return the numbered sets of features."""
    features = _features_of(grid, numbers)
    n_before = (features < 0).sum(axis=1)
    subsets: list[Subset] = []
    for first in range(features.shape[1] - 1, -1, -1):
        subsets += zip(*features[n_before == first, first:].T.tolist(), strict=True)
    return subsets


def cells_of_sets(grid: Grid, numbers: Integers) -> Integers:
    """Return the number of cells of each numbered set of features."""
    return np.asarray(_sizes(grid)[_features_of(grid, numbers)].prod(axis=1))


def _features_of(grid: Grid, numbers: Integers) -> Integers:
    """Return the features of numbered sets, one row per set; -1 stands before the first."""
    digits, left = [], numbers
    while np.any(left):
        left, last = np.divmod(left, grid.n_features + 1)
        digits.append(last - 1)
    return np.stack(digits[::-1], axis=1) if digits else np.zeros((len(numbers), 0), np.int64)


def _sizes(grid: Grid) -> Integers:
    """Return the number of cells of each feature, and 1 for what is none, the feature -1."""
    return np.array([*(axis.n_cells for axis in grid.axes), 1], dtype=np.int64)
