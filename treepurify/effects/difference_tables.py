"""Tables of several subsets in one array: filled with signed corners, then summed up."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from treepurify._kernels.accumulate import cumulate
from treepurify.threads import map_arrays
from treepurify.typing import Array, Integers

__all__ = ["DifferenceTables", "difference_tables", "table_sizes"]


@dataclass(frozen=True, eq=False)
class DifferenceTables:
    """Differences along every axis of some tables, one table after the other.

    Parameters
    ----------
    shapes : sequence of tuple of int
        Cells along the axes of each table.
    n_outputs : int
        Numbers in a cell.
    offsets : ndarray of int64, shape (n_tables + 1,)
        Start of each table in `values`.
    extents : ndarray of int64, shape (n_tables, 1 + largest number of axes)
        Cells along the axes and the number of outputs of each table; ones behind.
    values : ndarray of float64
        The differences, zero at first; kernels add to them.
    """

    shapes: Sequence[tuple[int, ...]]
    n_outputs: int
    offsets: Integers
    extents: Integers
    values: Array

    def summed(self) -> list[Array]:
        """Return each table, shape (cells..., n_outputs); the differences are replaced."""

        def sum_table(i: int, table: Array) -> Array:
            shape = self.shapes[i]
            cumulate(self.values, self.offsets[i], self.extents[i], len(shape), self.n_outputs)
            return table.reshape(*shape, self.n_outputs)

        places = enumerate(pairwise(self.offsets.tolist()))
        tables = {i: self.values[first:last] for i, (first, last) in places}
        return list(map_arrays(sum_table, tables).values())


def table_sizes(shapes: Sequence[tuple[int, ...]], n_outputs: int) -> list[int]:
    """Return how many numbers each table holds, which a caller checks against its budget."""
    return [prod(shape) * n_outputs for shape in shapes]


def difference_tables(shapes: Sequence[tuple[int, ...]], n_outputs: int) -> DifferenceTables:
    """Return tables of zeros."""
    offsets = np.concatenate([[0], np.cumsum(table_sizes(shapes, n_outputs))]).astype(np.int64)
    widest = max((len(shape) for shape in shapes), default=0)
    extents = [(*shape, n_outputs, *(1,) * (widest - len(shape))) for shape in shapes]
    sizes = np.array(extents, dtype=np.int64).reshape(len(shapes), widest + 1)
    return DifferenceTables(shapes, n_outputs, offsets, sizes, np.zeros(offsets[-1]))
