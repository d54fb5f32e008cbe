"""Tables of several subsets in one array: filled with signed corners, then summed up."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from treepurify._kernels.cumulate import cumulate
from treepurify.threads import available_threads, even_length, map_threads
from treepurify.typing import Array, Integers

__all__ = ["DifferenceTables", "difference_tables", "table_sizes"]

# Most numbers that one thread sums up at a time.
_NUMBERS_OF_A_PIECE = 1 << 16


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
        orders = np.array([len(shape) for shape in self.shapes], dtype=np.int64)

        def sum_tables(some: slice) -> None:
            offsets = self.offsets[some.start : some.stop + 1]
            cumulate(self.values, offsets, self.extents[some], orders[some], self.n_outputs)

        map_threads(sum_tables, self._pieces())
        return [
            self.values[first:last].reshape(*shape, self.n_outputs)
            for shape, (first, last) in zip(
                self.shapes, pairwise(self.offsets.tolist()), strict=True
            )
        ]

    def _pieces(self) -> list[slice]:
        """Return slices of the tables with about as many numbers each."""
        length = even_length(len(self.values), _NUMBERS_OF_A_PIECE, available_threads())
        ends = np.searchsorted(self.offsets, np.arange(length, len(self.values), length))
        different = np.unique(np.append(ends, len(self.shapes))).tolist()
        return [slice(first, last) for first, last in pairwise([0, *different])]


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
