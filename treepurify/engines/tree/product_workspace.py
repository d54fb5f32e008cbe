"""Workspace of the kernels that sum over the rows of a tree."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.product_sums import BITS, LANES
from treepurify.engines.tree.split_products import SplitProducts
from treepurify.typing import Cells, Integers

__all__ = ["ProductWorkspace", "product_workspace"]


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
    n_words: int, cell_type: np.dtype[Any], products: SplitProducts, number: type[np.number[Any]]
) -> ProductWorkspace:
    """Return a workspace for chunks of `n_words` words, with sums of type `number`."""
    n_products, order = products.products.shape
    n_rows, n_sides = n_words * BITS, len(products.sides.feature)
    # Beside the products there is the place of what is zero everywhere.
    width = (n_products // LANES + 1) * LANES
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
        sums=np.zeros((width, width), dtype=number),
        of_places=np.zeros(width, dtype=number),
    )
