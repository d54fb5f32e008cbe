"""Pair tables that stand one after the other, as the diagonal blocks of one large table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from treepurify._kernels.small_pairs import invert_in_place, subtract_couplings
from treepurify._kernels.support import label_blocks
from treepurify.grids.grid import Subset
from treepurify.purification.solution import inverse_mass
from treepurify.typing import Array, Indices, Integers, Mask

__all__ = ["Equations", "PairBatch", "set_up_equations", "some_at_a_time", "sums_at"]

# Numbers in the tables of a batch: few enough that the copies of them stay in a cache.
_NUMBERS_A_BATCH = 1 << 17


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some pair tables, which are `CellsWithMass` all together.

    The slices of a table are numbered after those of the tables before it: its columns, that is
    the slices along its rows, and then its rows.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_tables, 2)
        Rows and columns of each table. Equations want no more columns than rows.
    cell_mass : ndarray of float64, shape (n_cells,)
        Mass of the cells of all tables, row by row.
    cell_values : ndarray of float64, shape (n_cells, n_outputs)
        Values in these cells.
    """

    sizes: Integers
    cell_mass: Array
    cell_values: Array

    @classmethod
    def of(cls, values: Sequence[Array], mass: Sequence[Array]) -> "PairBatch":
        """Put tables of shape (n_rows, n_columns, n_outputs) and their mass behind each other."""
        return cls(
            np.array([table.shape for table in mass], dtype=np.int64),
            np.concatenate([table.ravel() for table in mass]),
            np.concatenate([table.reshape(-1, table.shape[-1]) for table in values]),
        )

    @cached_property
    def cell_starts(self) -> Integers:
        """First cell of each table, and the number of cells."""
        return _starts(self.sizes.prod(axis=1))

    @cached_property
    def slice_starts(self) -> Integers:
        """First slice of each table, and the number of slices."""
        return _starts(self.sizes.sum(axis=1))

    @cached_property
    def table_of_slice(self) -> Integers:
        """Table of each slice."""
        return np.repeat(np.arange(len(self.sizes)), np.diff(self.slice_starts))

    @cached_property
    def is_column(self) -> Mask:
        """Whether a slice is a column."""
        within = np.arange(self.slice_starts[-1]) - self.slice_starts[self.table_of_slice]
        return np.asarray(within < self.sizes[self.table_of_slice, 1])

    @cached_property
    def column_and_row(self) -> Integers:
        """Column and row of each cell, shape (2, n_cells)."""
        rows, columns = self.beside_columns(~self.is_column)
        return np.stack([columns, rows])

    def beside_columns(self, chosen: Mask) -> tuple[Integers, Integers]:
        """Return each chosen slice beside every column of its table, one after the other."""
        slices = np.flatnonzero(chosen)
        table = self.table_of_slice[slices]
        widths = self.sizes[table, 1]
        shift = self.slice_starts[table] - _starts(widths)[:-1]
        columns = np.arange(widths.sum()) + np.repeat(shift, widths)
        return np.repeat(slices, widths), columns

    @cached_property
    def filled(self) -> Indices:
        """The cells with mass."""
        return np.flatnonzero(self.cell_mass)

    @cached_property
    def filled_slices(self) -> Integers:
        """Column and row of each cell with mass."""
        # One row at a time: of both at once, NumPy would lay the cells out side by side.
        return np.stack([of_cells[self.filled] for of_cells in self.column_and_row])

    @cached_property
    def slice_of(self) -> npt.NDArray[np.signedinteger]:
        """The same as `MassSlices` has them, for which kernels are compiled."""
        return self.filled_slices.astype(np.int32)

    @cached_property
    def weight(self) -> Array:
        """Mass of each cell with mass."""
        return self.cell_mass[self.filled]

    @cached_property
    def values(self) -> Array:
        """Values in the cells with mass, shape (n_outputs, n_filled)."""
        return np.ascontiguousarray(self.cell_values[self.filled].T)

    @cached_property
    def mass(self) -> Array:
        """Mass of each slice."""
        return self.slice_totals(self.cell_mass[:, None])[:, 0]

    def slice_totals(self, of_cells: Array) -> Array:
        """Return the sum over the cells of each slice, of numbers (n_cells, any)."""
        columns, rows = self.column_and_row
        totals = np.empty((self.slice_starts[-1], of_cells.shape[1]))
        for sums, numbers in zip(totals.T, of_cells.T, strict=True):
            sums[:] = sums_at(columns, numbers, len(sums)) + sums_at(rows, numbers, len(sums))
        return totals

    def sums(self, of_cells: Array, axis: int) -> Array:
        """Return the sum over the cells with mass of each column (axis 0) or row (axis 1)."""
        return sums_at(self.filled_slices[axis], of_cells, self.slice_starts[-1])

    def largest(self, of_slices: Array) -> Array:
        """Return the largest absolute entry of each table, of numbers for slices."""
        return _largest(of_slices, self.slice_starts)

    def largest_of_cells(self, of_cells: Array) -> Array:
        """Return the largest absolute entry of each table, of numbers for cells."""
        return _largest(of_cells, self.cell_starts)


@dataclass(frozen=True, eq=False)
class Equations:
    """The normal equations of each table of a batch, reduced to its columns.

    Parameters
    ----------
    block : ndarray of int64, shape (n_slices,)
        Connected block of each slice, numbered through all tables; -1 without mass.
    n_blocks : ndarray of int64, shape (n_tables,)
        Number of blocks of each table.
    block_mass : ndarray of float64, shape (all blocks,)
        Mass of each block.
    row, column : ndarray of int64, shape (n_entries,)
        Where the entries of the matrices of all tables stand; both are columns of a table.
    laplacian, inverse : ndarray of float64, shape (n_entries,)
        The Schur complement, and what solves it up to constants of the blocks.
    condition : ndarray of float64, shape (n_tables,)
        Reciprocal condition of the scaled and deflated equations; zero where they are singular.
    """

    block: Integers
    n_blocks: Integers
    block_mass: Array
    row: Integers
    column: Integers
    laplacian: Array
    inverse: Array
    condition: Array

    def solve(self, right: Array) -> Array:
        """Return the parts of the columns for a right side; both have one number per slice."""
        return sums_at(self.row, self.inverse * right[self.column], len(right))

    def block_sums(self, of_slices: Array) -> Array:
        """Return the sum over the slices with mass of each block."""
        there = self.block >= 0
        return sums_at(self.block[there], of_slices[there], len(self.block_mass))


def some_at_a_time(pairs: Sequence[Subset], sizes: Sequence[int]) -> Iterator[list[Subset]]:
    """Yield the pairs, in order, as many at a time as a batch holds of the numbers in each."""
    batch: list[Subset] = []
    room = _NUMBERS_A_BATCH
    for pair, size in zip(pairs, sizes, strict=True):
        if batch and size > room:
            yield batch
            batch, room = [], _NUMBERS_A_BATCH
        batch.append(pair)
        room -= size
    if batch:
        yield batch


def set_up_equations(batch: PairBatch) -> Equations:
    """Return the equations of each table; see `solve_pair` for what they are."""
    block = np.full(len(batch.mass), -1, dtype=np.int64)
    label_blocks(batch.filled_slices[0], batch.filled_slices[1], np.arange(len(block)), block)
    block = np.maximum(block - 1, -1)
    of_columns = (block >= 0) & batch.is_column
    n_all_blocks = int(block.max()) + 1
    block_mass = sums_at(block[of_columns], batch.mass[of_columns], n_all_blocks)
    row, column = batch.beside_columns(batch.is_column)
    laplacian = _laplacian(batch, row, column)
    scaling = np.sqrt(inverse_mass(batch.mass))
    matrices = laplacian * scaling[row] * scaling[column]
    share = np.sqrt(batch.mass / np.where(block >= 0, block_mass[block], 1.0))
    matrices += np.where(block[row] == block[column], share[row] * share[column], 0.0)
    matrices[(row == column) & (block[row] < 0)] = 1.0
    norm = _column_norm(batch, matrices, row)
    is_definite = np.empty(len(batch.sizes), dtype=np.bool_)
    invert_in_place(np.ascontiguousarray(batch.sizes[:, 1]), matrices, is_definite)
    matrices[~is_definite[batch.table_of_slice[row]]] = 0.0
    product = norm * _column_norm(batch, matrices, row)
    condition = np.divide(1.0, product, out=np.zeros_like(product), where=is_definite)
    last = np.maximum.reduceat(block, batch.slice_starts[:-1])
    n_blocks = np.diff(last, prepend=-1)
    inverse = matrices * scaling[row] * scaling[column]
    return Equations(block, n_blocks, block_mass, row, column, laplacian, inverse, condition)


def sums_at(where: Integers, numbers: Array, size: int) -> Array:
    """Return the sum of the numbers at each place from zero to `size`."""
    return np.asarray(np.bincount(where, numbers, size), dtype=np.float64)


def _laplacian(batch: PairBatch, row: Integers, column: Integers) -> Array:
    """Return the Schur complements, with the diagonal from the other entries."""
    below = np.zeros(len(row))
    subtract_couplings(batch.sizes, batch.cell_mass, batch.mass[~batch.is_column], below)
    table = batch.table_of_slice[row]
    n_columns, first = batch.sizes[table, 1], batch.slice_starts[table]
    mirrored = _starts(batch.sizes[:, 1] ** 2)[table] + (column - first) * n_columns + row - first
    laplacian = below + below[mirrored]
    on_diagonal = row == column
    laplacian[on_diagonal] = -sums_at(row, laplacian, len(batch.mass))[row[on_diagonal]]
    return np.asarray(laplacian)


def _column_norm(batch: PairBatch, matrices: Array, row: Integers) -> Array:
    """Return the largest sum of absolute entries along a row of each symmetric matrix."""
    return batch.largest(sums_at(row, np.abs(matrices), len(batch.mass)))


def _starts(lengths: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)])


def _largest(numbers: Array, starts: Integers) -> Array:
    if numbers.ndim == 2:
        numbers = np.abs(numbers).max(axis=1)
    return np.asarray(np.maximum.reduceat(np.abs(numbers), starts[:-1]))
