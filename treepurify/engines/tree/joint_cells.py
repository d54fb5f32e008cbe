"""Join rows that no table of a tree tells apart: they are often far fewer than the rows."""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify._kernels.joint_rows import join_rows
from treepurify.typing import Array, Cells, Indices

__all__ = ["JoinedRows", "join_cells", "order_by_cells"]

# Their numbers are keys of 64 bits.
_MOST_JOINT_CELLS = 1 << 64
_ORDER_BITS, _BITS_OF_A_FEATURE = 32, 3


class JoinedRows(NamedTuple):
    """One row for each occupied joint cell of some features.

    Parameters
    ----------
    rows : ndarray of int64, shape (n_joined,)
        The first row in each.
    weights : ndarray of float64, shape (n_joined,)
        Sum of the weights of the rows in each.
    cell : ndarray of int64, shape (n_rows,)
        Position of the joint cell of each row.
    """

    rows: Indices
    weights: Array
    cell: Indices


def join_cells(codes: Cells, cells: Mapping[int, Indices], weights: Array) -> JoinedRows | None:
    """Join the rows in the same cells of some features; None where the cells are too many.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_rows)
        Cells of the rows.
    cells : mapping of int to ndarray of int
        The features, and for each the coarser cell that each of its cells is in.
    weights : ndarray of float64, shape (n_rows,)
        Weights of the rows.
    """
    sizes = [int(coarse.max()) + 1 for coarse in cells.values()]
    if prod(sizes) > _MOST_JOINT_CELLS:
        return None
    steps = [prod(sizes[:i]) for i in range(len(sizes))]
    parts = [step * of.astype(np.uint64) for step, of in zip(steps, cells.values(), strict=True)]
    cell = np.empty(len(weights), dtype=np.int64)
    rows, mass = join_rows(
        codes,
        np.array(list(cells)),
        np.concatenate(parts),
        np.cumsum([0, *map(len, parts)]),
        weights,
        cell,
    )
    return JoinedRows(rows, mass, cell)


def order_by_cells(codes: Cells, features: Indices) -> Indices:
    """Return an order of rows in which neighbours are near each other along many features.

    What they read and write is then near too, and stays near the processor. It is the order of
    Morton (1966) on halves, quarters and eighths of the rows along each feature.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_rows)
        Cells of the rows.
    features : ndarray of int
        Features; of more than 32 the first are taken.
    """
    n_rows, ordered = codes.shape[1], features[:_ORDER_BITS]
    n_bits = min(_BITS_OF_A_FEATURE, _ORDER_BITS // max(len(ordered), 1))
    parts = []
    for j in ordered:
        counts = np.bincount(codes[j])
        middle = np.cumsum(counts) - counts / 2
        parts.append((middle * (1 << n_bits) / max(n_rows, 1)).astype(np.uint32))
    key = np.zeros(n_rows, dtype=np.uint32)
    for bit in reversed(range(n_bits)):
        for j, part in zip(ordered, parts, strict=True):
            key = 2 * key + (part >> bit & 1)[codes[j]]
    return np.argsort(key, kind="stable")
