"""Join rows that no table of a tree tells apart: they are often far fewer than the rows."""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify._kernels.joint_rows import join_by_hash, join_by_table
from treepurify.typing import Array, Cells, Indices, Integers

__all__ = ["JoinedRows", "join_cells", "order_by_cells"]

# Their numbers are keys of 64 bits.
_MOST_JOINT_CELLS = 1 << 64
# A table of all joint cells takes half the time of a hash table, as long as it has at most so many
# for each row, beside a few in any case, and stays below 64 MB.
_CELLS_OF_A_ROW, _FEW_CELLS, _MOST_CELLS = 32, 1 << 16, 1 << 24
_ORDER_BITS, _BITS_OF_A_FEATURE = 32, 3


class JoinedRows(NamedTuple):
    """One row for each occupied joint cell of some features.

    Parameters
    ----------
    rows : ndarray of int64, shape (n_joined,)
        The first row in each.
    weights : ndarray of float64, shape (n_joined,)
        Sum of the weights of the rows in each.
    cell : ndarray of int32 or int64, shape (n_rows,)
        Position of the joint cell of each row.
    """

    rows: Indices
    weights: Array
    cell: Integers


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
    n_joint_cells, n_rows = prod(sizes), len(weights)
    if n_joint_cells > _MOST_JOINT_CELLS:
        return None
    in_table = n_joint_cells <= min(max(_FEW_CELLS, _CELLS_OF_A_ROW * n_rows), _MOST_CELLS)
    dtype = np.uint32 if n_joint_cells <= np.iinfo(np.int32).max else np.uint64
    steps = [prod(sizes[:i]) for i in range(len(sizes))]
    parts = [step * of.astype(dtype) for step, of in zip(steps, cells.values(), strict=True)]
    cell: Integers = np.empty(n_rows, np.int32 if n_rows <= np.iinfo(np.int32).max else np.int64)
    start = np.cumsum([0, *map(len, parts)])
    given = codes, np.array(list(cells)), np.concatenate(parts), start, weights
    if not in_table:
        rows, mass = join_by_hash(*given, cell)
        return JoinedRows(rows, mass, cell)
    position = np.full(n_joint_cells, -1, dtype=cell.dtype)
    most = min(n_joint_cells, n_rows)
    rows, mass = np.empty(most, dtype=np.int64), np.empty(most)
    n_joint = join_by_table(*given, position, rows, mass, cell)
    return JoinedRows(rows[:n_joint], mass[:n_joint], cell)


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
