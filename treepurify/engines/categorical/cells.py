"""The cells of subsets of features by number, and the joint mass of every two of them.

Joint masses are the numbers that all inner products are made of.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import count_common, hash_rows, pack_levels
from treepurify.budget import check_budget
from treepurify.engines.categorical.indicators import CellNumbers
from treepurify.engines.categorical.observations import Observations
from treepurify.grids.grid import Subset
from treepurify.rows.row_weights import heaviest
from treepurify.threads import map_threads
from treepurify.typing import Array, Indices, Integers

Bits = npt.NDArray[np.uint64]
Places = tuple[Indices, ...]

# Its mass and its number; and while it is numbered, a sum, a mark and where it stands.
_BYTES_HELD_A_CELL = 16
_BYTES_MEANWHILE_A_CELL = 24
_POINTS_A_BLOCK = 4096
_CELLS_A_PRODUCT = 128
# Counting a row by its bit is about this many times cheaper than multiplying numbers.
_ROWS_FOR_ONE_POINT = 40
_LARGEST_EXACT_COUNT = 1 << 24
_COLUMNS_A_PIECE = 64
ADVICE = "Pass a smaller rank or order, or fewer bins."


@dataclass(eq=False)
class JointMass:
    """A growing table of the joint mass of cell i and cell j.

    It grows while candidates are tried and belongs to one selection alone.

    Parameters
    ----------
    bits : ndarray of uint64, shape (capacity, n_words)
        For each cell, one bit per row (or per point): whether it lies in the cell.
    table : ndarray of float32 or float64, shape (capacity, capacity)
        Counts of rows, or mass of points.
    weights : ndarray of float64, shape (n_points,), optional
        Mass of the points behind the bits; None where bits are rows of equal weight.
    scale : float
        What turns entries of `table` into mass.
    memory_budget : int
        Bytes that the table and the bits may take.
    n_cells : int
        Number of cells so far.
    n_counted : int
        Number of cells whose joint mass with all others is known.
    known : dict
        The number of a cell by a 64-bit hash of its rows.
    """

    bits: Bits
    table: npt.NDArray[np.float32] | Array
    weights: Array | None
    scale: float
    memory_budget: int
    n_cells: int = field(default=0)
    n_counted: int = field(default=0)
    known: dict[int, int] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Bytes of the table and of the bits."""
        return int(self.table.nbytes + self.bits.nbytes)

    def add(self, cells: Bits) -> Integers:
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
        """Find the joint mass of the cells added since the last call with all cells."""
        first, last = self.n_counted, self.n_cells
        if self.weights is None:
            self._count(first, last)
        else:
            self._multiply(first, last)
        self.n_counted = last

    def inner_products(self, first: Integers, second: Integers) -> Array:
        """Return the joint mass of cells `first` and `second`, shape (first, second)."""
        counts = self.table[first[:, None], second]
        return counts.astype(np.float64) * self.scale

    def _grow(self, needed: int) -> None:
        capacity = len(self.table)
        if needed <= capacity:
            return
        larger = max(needed, capacity + capacity // 2, 256)
        if self._bytes_of(larger) > self.memory_budget:
            larger = needed
        check_budget(
            self._bytes_of(larger),
            self.memory_budget,
            f"the joint distribution of all pairs of {larger} combinations of levels",
            ADVICE,
        )
        table = np.zeros((larger, larger), dtype=self.table.dtype)
        table[:capacity, :capacity] = self.table
        bits = np.zeros((larger, self.bits.shape[1]), dtype=np.uint64)
        bits[:capacity] = self.bits
        self.table, self.bits = table, bits

    def _bytes_of(self, capacity: int) -> int:
        """Bytes of a table that is larger, and of the one that is copied to it."""
        larger: int = capacity * (capacity * self.table.itemsize + 8 * self.bits.shape[1])
        return larger + self.n_bytes

    def _count(self, first: int, last: int) -> None:
        new = self.bits[first:last]

        def count(start: int) -> None:
            stop = min(start + _COLUMNS_A_PIECE, last)
            counts = np.empty((stop - start, last - first), dtype=self.table.dtype)
            count_common(self.bits[start:stop], new, counts)
            self.table[start:stop, first:last] = counts

        map_threads(count, range(0, last, _COLUMNS_A_PIECE))
        self.table[first:last, :first] = self.table[:first, first:last].T

    def _multiply(self, first: int, last: int) -> None:
        weights = self.weights if self.weights is not None else np.ones(0)
        self.table[:last, first:last] = 0.0
        blocks = [range(start, last, _CELLS_A_PRODUCT) for start in (0, first)]
        for start in range(0, len(weights), _POINTS_A_BLOCK):
            stop = min(start + _POINTS_A_BLOCK, len(weights))
            words = self.bits[:last, start // 64 : -(-stop // 64)]
            for new in blocks[1]:
                to = min(new + _CELLS_A_PRODUCT, last)
                weighted = _unpacked(words[new:to], stop - start) * weights[start:stop]
                for cell in blocks[0]:
                    inside = _unpacked(words[cell : cell + _CELLS_A_PRODUCT], stop - start)
                    self.table[cell : cell + len(inside), new:to] += inside @ weighted.T
        self.table[first:last, :first] = self.table[:first, first:last].T


def _unpacked(bits: Bits, n_points: int) -> Array:
    as_bytes = np.ascontiguousarray(bits).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, count=n_points, bitorder="little").astype(np.float64)


def _packed(codes: npt.NDArray[Any], n_levels: int) -> Bits:
    """Return for each level the rows that have it, as bits in whole words."""
    bits = np.zeros((n_levels, -(-len(codes) // 64)), dtype=np.uint64)
    pack_levels(codes, bits)
    return bits


def _joint_mass(
    observations: Observations, memory_budget: int
) -> tuple[JointMass, dict[int, Bits]]:
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
        f"marking which of {n_bits} rows have each of {n_levels} levels",
        "Pass fewer bins, or join rare categories.",
    )
    levels = {
        j: _packed(codes if rows is None else np.take(codes, rows), n)
        for j, (codes, n) in enumerate(zip(observations.codes, observations.n_levels, strict=True))
        if n > 1
    }
    exact = count_rows and n_rows < _LARGEST_EXACT_COUNT
    table = np.zeros((0, 0), dtype=np.float32 if exact else np.float64)
    bits = np.zeros((0, -(-n_bits // 64)), dtype=np.uint64)
    weights = None if count_rows else observations.mass
    scale = 1.0 / n_rows if count_rows else 1.0
    joint = JointMass(bits, table, weights, scale, memory_budget)
    joint.add(_packed(np.zeros(n_bits, dtype=np.uint8), 1))
    joint.count()
    return joint, levels


@dataclass(eq=False)
class NumberedCells:
    """Cells of the subsets seen so far; it grows and belongs to one selection alone.

    Parameters
    ----------
    joint : JointMass
        Joint mass of every two cells.
    levels : dict of int to ndarray of uint64
        The bits of each level of each feature with more than one.
    reference : dict of int to int
        Most frequent level of each of them: its cells are one minus the others and have no
        number.
    numbers : dict
        Number of each cell of each subset; -1 for those with a reference level or no mass.
    mass : dict
        Mass of each cell of each subset.
    n_table_cells : int
        Number of cells in all these tables.
    """

    joint: JointMass
    levels: dict[int, Bits]
    reference: dict[int, int]
    numbers: CellNumbers = field(default_factory=lambda: {(): np.zeros((), dtype=np.int64)})
    mass: dict[Subset, Array] = field(default_factory=dict)
    n_table_cells: int = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of the tables and of the joint mass."""
        return self.joint.n_bytes + _BYTES_HELD_A_CELL * self.n_table_cells

    def references(self, subset: Subset) -> tuple[int, ...]:
        """Return the reference level of each feature of a subset."""
        return tuple(self.reference[j] for j in subset)

    def add(self, observations: Observations, subset: Subset) -> tuple[Places, Integers]:
        """Number the cells of a subset.

        Returns
        -------
        cells : tuple of ndarray of int
            The levels of each cell with mass and without a reference level.
        numbers : ndarray of int
            The number of each; cells that hold the same rows share one.

        Raises
        ------
        MemoryBudgetError
            If the tables of all subsets so far would not fit.
        """
        self._check_memory(observations.shape(subset))
        mass = self.mass[subset] = observations.margin(subset)
        cells = _cells_apart(mass, self.references(subset))
        check_budget(
            self.n_bytes + 24 * len(cells[0]) * self.joint.bits.shape[1],
            self.joint.memory_budget,
            f"the rows of each of the {len(cells[0])} combinations of levels of features {subset}",
            ADVICE,
        )
        bits = self.levels[subset[0]][cells[0]]
        for j, levels in zip(subset[1:], cells[1:], strict=True):
            bits = bits & self.levels[j][levels]
        numbers = self.joint.add(bits)
        table = np.full(mass.shape, -1, dtype=np.int64)
        table[cells] = numbers
        self.numbers[subset] = table
        self.n_table_cells += table.size
        return cells, numbers

    def _check_memory(self, shape: tuple[int, ...]) -> None:
        new = math.prod(shape)
        check_budget(
            self.n_bytes + (_BYTES_HELD_A_CELL + _BYTES_MEANWHILE_A_CELL) * new,
            self.joint.memory_budget,
            f"the tables of {len(self.mass) + 1} effects (the last has {new} values)",
            ADVICE,
        )


def start_numbering(observations: Observations, memory_budget: int) -> NumberedCells:
    """Return the table with the constant alone."""
    joint, levels = _joint_mass(observations, memory_budget)
    reference = {j: heaviest(observations.level_mass[j]) for j in levels}
    return NumberedCells(joint, levels, reference)


def _cells_apart(mass: Array, reference: tuple[int, ...]) -> Places:
    """Return the cells with mass in which no feature has its reference level."""
    apart = mass > 0
    for axis, level in enumerate(reference):
        place: list[slice | int] = [slice(None)] * mass.ndim
        place[axis] = level
        apart[tuple(place)] = False
    return np.nonzero(apart)
