"""How much of the rows of a tree each product of splits, and every two of them, hold."""

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
from treepurify.engines.tree.split_products import SplitProducts, Splits
from treepurify.typing import Array, Cells, Integers

__all__ = ["ProductSums", "RowGroups", "row_groups", "sum_products"]

Rows = npt.NDArray[np.uint32]

# Rows of one weight are counted 64 at a time, which takes a tenth of the time of adding weights.
_MOST_WEIGHTS = 8
_ROWS_MIRRORED = 64


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

    rows: Rows
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


def _workspace(
    n_words: int, codes: Cells, products: SplitProducts, number: type[np.number[Any]]
) -> ProductWorkspace:
    """Return a workspace for chunks of `n_words` words, with sums of type `number`."""
    n_products, order = products.products.shape
    n_rows, n_sides = n_words * BITS, len(products.mass)
    # Places of products, and that of what is zero everywhere.
    width = (n_products // LANES + 1) * LANES
    words, is_inside = np.zeros((n_words, width), dtype=np.uint64), np.empty(n_rows, dtype=np.uint8)
    return ProductWorkspace(
        rows=np.empty(n_rows, dtype=np.uint32),
        leaf_of_word=np.empty(n_words, dtype=np.int64),
        words=words,
        flat_words=words.reshape(-1),
        same=np.empty(n_products, dtype=np.uint64),
        factors=np.empty((order, width), dtype=np.uint64),
        cells=np.empty((len(products.sides.tested), n_rows), dtype=codes.dtype),
        of_sides=np.empty((n_words, n_sides + 1), dtype=np.uint64),
        holds=np.empty(n_sides, dtype=np.uint8),
        is_inside=is_inside,
        inside_words=is_inside.view(np.uint64),
        place=np.zeros(2, dtype=np.int64),
        sums=np.empty((width, width), dtype=number),
        of_places=np.zeros(width, dtype=number),
    )


class RowGroups(NamedTuple):
    """Rows by their weight.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row.
    groups : list of (float, ndarray of uint32)
        Groups of rows of the same weight, zero among them.
    others : ndarray of uint32
        All rows, where these have too many weights for groups.
    """

    weights: Array
    groups: list[tuple[float, Rows]]
    others: Rows


def row_groups(weights: Array) -> RowGroups:
    """Group rows by weight, or not at all where there are many weights."""
    everything = np.arange(len(weights), dtype=np.uint32)
    different, group = np.unique(weights, return_inverse=True)
    if len(different) > _MOST_WEIGHTS:
        return RowGroups(weights, [], everything)
    groups = [(float(w), everything[group == i]) for i, w in enumerate(different)]
    return RowGroups(weights, groups, everything[:0])


class ProductSums(NamedTuple):
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
    leaf: Rows
    of_leaves: Array
    of_pairs: Array


def sum_products(
    codes: Cells, rows: RowGroups, splits: Splits, tree: int, products: SplitProducts
) -> ProductSums:
    """Sum over all rows; `codes` are their cells along each feature."""
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
    leaves, leaf_ptr = np.empty(n_leaves, dtype=np.int64), np.empty(n_leaves + 1, dtype=np.int64)
    waiting = np.empty((n_nodes + 1, 3), dtype=np.int64)
    of_leaves, of_pairs = np.zeros((n_leaves, n_products)), np.zeros((n_products, n_products))
    what = products.sides, products.products, products.parts
    unit = min((weight for weight, _ in rows.groups if weight > 0), default=1.0)

    def by_leaf(some: Rows) -> tuple[Rows, Integers]:
        order = some.copy()
        found = order, leaves, leaf_ptr, leaf
        sort_by_leaf(codes, *of_tree, np.empty_like(order), waiting, *found)
        return order, leaf_ptr

    for weight, group in rows.groups:
        order = by_leaf(group)
        if weight > 0:
            workspace = _workspace(MOST_WORDS, codes, products, np.int64)
            times = weight / unit
            count_products(codes, *order, *what, workspace, times, of_leaves, of_pairs)
    if rows.groups:
        # Once and here, so that sums of rows of one weight are counts until then.
        of_leaves *= unit
        of_pairs *= unit
    if len(rows.others):
        workspace = _workspace(MOST_WEIGHED, codes, products, np.float64)
        roots = np.empty((MOST_WEIGHED * BITS, workspace.words.shape[1]))
        given = gram_routine(), codes, *by_leaf(rows.others), *what
        weigh_products(*given, workspace, roots, rows.weights, of_leaves, of_pairs)
    _mirror(of_pairs)
    return ProductSums(leaves + splits.ensemble.tree_ptr[tree], leaf, of_leaves, of_pairs)


def _mirror(matrix: Array) -> None:
    """Copy what stands above the diagonal to below it, where there are zeros."""
    for top in range(0, len(matrix), _ROWS_MIRRORED):
        rows = slice(top, top + _ROWS_MIRRORED)
        matrix[rows, :top] = matrix[:top, rows].T
        matrix[rows, rows] += np.triu(matrix[rows, rows], 1).T
