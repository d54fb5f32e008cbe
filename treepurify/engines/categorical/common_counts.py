"""Mass of every two cells together: the numbers that all inner products are made of."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import count_common, hash_rows, pack_levels
from treepurify.budget import check_budget
from treepurify.engines.categorical.observations import Observations
from treepurify.threads import map_threads

__all__ = ["Bits", "CommonMass", "common_mass"]

Array = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint64]

_POINTS_A_BLOCK = 8192
# Counting a row by its bit costs about this much less than multiplying numbers.
_ROWS_FOR_ONE_POINT = 40
_LARGEST_EXACT_COUNT = 1 << 24
_COLUMNS_A_PIECE = 64


@dataclass(eq=False)
class CommonMass:
    """A growing table of the mass of cell i and cell j together.

    It grows while candidates are tried and belongs to one selection alone.

    Parameters
    ----------
    bits : ndarray of uint64, shape (capacity, n_words)
        For each cell, one bit a row (or a point) that lies in it.
    together : ndarray of float32 or float64, shape (capacity, capacity)
        Counts of rows, or mass of points.
    weights : ndarray of float64, shape (n_points,), optional
        Mass of the points behind the bits; None where bits are rows of equal weight.
    scale : float
        What turns entries of `together` into mass.
    memory_budget : int
        Bytes that the table and the bits may take.
    n_cells : int
        Number of cells so far.
    n_counted : int
        Number of cells whose mass together with all others is known.
    known : dict
        The number of a cell by a 64-bit hash of its rows.
    """

    bits: Bits
    together: npt.NDArray[np.float32] | Array
    weights: Array | None
    scale: float
    memory_budget: int
    n_cells: int = field(default=0)
    n_counted: int = field(default=0)
    known: dict[int, int] = field(default_factory=dict)

    def add(self, cells: Bits) -> npt.NDArray[np.int64]:
        """Return the number of each cell; cells that hold the same rows share one."""
        n_words = cells.shape[1]
        factors = np.arange(1, n_words + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        hashes = np.empty(len(cells), dtype=np.uint64)
        hash_rows(cells, factors, hashes)
        self._grow(self.n_cells + len(cells))
        numbers = np.empty(len(cells), dtype=np.int64)
        for i, key in enumerate(hashes.tolist()):
            number = self.known.setdefault(key, self.n_cells)
            if number != self.n_cells and not np.array_equal(self.bits[number], cells[i]):
                number = self.n_cells
            if number == self.n_cells:
                self.bits[number] = cells[i]
                self.n_cells += 1
            numbers[i] = number
        return numbers

    def count(self) -> None:
        """Find the mass of the cells added since the last call, together with all cells."""
        first, last = self.n_counted, self.n_cells
        if self.weights is None:
            self._count(first, last)
        else:
            self._multiply(first, last)
        self.n_counted = last

    def inner_products(self, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> Array:
        """Return the mass of cells `first` and `second` together, shape (first, second)."""
        counts = self.together[first[:, None], second]
        return counts.astype(np.float64) * self.scale

    def _grow(self, needed: int) -> None:
        capacity = len(self.together)
        if needed <= capacity:
            return
        larger = max(needed, capacity + capacity // 2, 256)
        n_bytes = larger * (larger * self.together.itemsize + 8 * self.bits.shape[1])
        check_budget(
            n_bytes,
            self.memory_budget,
            f"the mass of {larger} cells two by two",
            "Pass a smaller rank or order, or a larger memory_budget.",
        )
        together = np.zeros((larger, larger), dtype=self.together.dtype)
        together[:capacity, :capacity] = self.together
        bits = np.zeros((larger, self.bits.shape[1]), dtype=np.uint64)
        bits[:capacity] = self.bits
        self.together, self.bits = together, bits

    def _count(self, first: int, last: int) -> None:
        new = self.bits[first:last]

        def count(start: int) -> None:
            stop = min(start + _COLUMNS_A_PIECE, last)
            counts = np.empty((stop - start, last - first), dtype=self.together.dtype)
            count_common(self.bits[start:stop], new, counts)
            self.together[start:stop, first:last] = counts

        map_threads(count, range(0, last, _COLUMNS_A_PIECE))
        self.together[first:last, :first] = self.together[:first, first:last].T

    def _multiply(self, first: int, last: int) -> None:
        weights = self.weights if self.weights is not None else np.ones(0)
        total = np.zeros((last, last - first))
        for start in range(0, len(weights), _POINTS_A_BLOCK):
            stop = min(start + _POINTS_A_BLOCK, len(weights))
            words = self.bits[:last, start // 64 : -(-stop // 64)]
            inside = _unpacked(words, stop - start)
            weighted = inside[first:last] * weights[start:stop]
            total += inside @ weighted.T
        self.together[:last, first:last] = total
        self.together[first:last, :first] = total[:first].T


def _unpacked(bits: Bits, n_points: int) -> Array:
    as_bytes = np.ascontiguousarray(bits).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, count=n_points, bitorder="little").astype(np.float64)


def packed(codes: npt.NDArray[Any], n_levels: int) -> Bits:
    """Return for each level the rows that have it, as bits in whole words."""
    bits = np.zeros((n_levels, -(-len(codes) // 64)), dtype=np.uint64)
    pack_levels(codes, bits)
    return bits


def common_mass(
    observations: Observations, memory_budget: int
) -> tuple[CommonMass, dict[int, Bits]]:
    """Return an empty table, and the bits of each level of each feature.

    Rows of equal weight are counted by bits; otherwise distinct points are multiplied by
    their mass, which is less work where many rows share a point.

    Raises
    ------
    MemoryBudgetError
        If the bits would not fit.
    """
    n_rows, n_points = len(observations.point_of_row), observations.n_points
    count_rows = observations.equal_weights and n_rows <= _ROWS_FOR_ONE_POINT * n_points
    rows = observations.point_of_row if count_rows and n_rows > n_points else None
    n_bits = n_points if rows is None else n_rows
    n_levels = sum(n for n in observations.n_levels if n > 1)
    check_budget(
        8 * n_levels * -(-n_bits // 64),
        memory_budget,
        f"which of {n_bits} rows have each of {n_levels} levels",
        "Pass fewer bins, or join rare categories.",
    )
    levels = {
        j: packed(own if rows is None else np.take(own, rows), n)
        for j, (own, n) in enumerate(zip(observations.codes, observations.n_levels, strict=True))
        if n > 1
    }
    exact = count_rows and n_rows < _LARGEST_EXACT_COUNT
    together = np.zeros((0, 0), dtype=np.float32 if exact else np.float64)
    bits = np.zeros((0, -(-n_bits // 64)), dtype=np.uint64)
    weights = None if count_rows else observations.mass
    table = CommonMass(bits, together, weights, 1.0 / n_rows if count_rows else 1.0, memory_budget)
    table.add(packed(np.zeros(n_bits, dtype=np.uint8), 1))
    table.count()
    return table, levels
