"""Pair tables that stand one after the other, as the diagonal blocks of one large table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treepurify._kernels.pair_equations import (
    invert_in_place,
    label_columns,
    set_laplacians,
)
from treepurify._kernels.pair_products import multiply_matrices, multiply_tables
from treepurify.grids.grid import Subset
from treepurify.purification.solution import inverse_mass
from treepurify.typing import Array, Indices, Integers, Mask

__all__ = ["Equations", "PairBatch", "set_up_equations", "some_at_a_time", "sums_at"]

# Numbers in the tables of a batch: few enough that the copies of them stay in a cache.
_NUMBERS_A_BATCH = 1 << 15


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some pair tables.

    The slices of a table are numbered after those of the tables before it: its columns, that is
    the slices along its rows, and then its rows.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_tables, 2)
        Rows and columns of each table. Equations want no more columns than rows.
    cell_mass : ndarray of float64, shape (n_cells,)
        Mass of the cells of all tables, row by row.
    values : ndarray of float64, shape (n_outputs, n_cells)
        Values in these cells.
    """

    sizes: Integers
    cell_mass: Array
    values: Array

    @classmethod
    def of(cls, values: Sequence[Array], mass: Sequence[Array]) -> "PairBatch":
        """Put tables of shape (n_rows, n_columns, n_outputs) and their mass behind each other."""
        n_outputs = values[0].shape[-1]
        of_cells = np.concatenate([table.reshape(-1, n_outputs) for table in values])
        return cls(
            np.array([table.shape for table in mass], dtype=np.int64),
            np.concatenate([table.ravel() for table in mass]),
            np.ascontiguousarray(of_cells.T),
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
    def sides(self) -> Integers:
        """First column and first row of each table, one after the other."""
        first = self.slice_starts[:-1]
        return np.stack([first, first + self.sizes[:, 1]], axis=1).ravel()

    @cached_property
    def side_of_slice(self) -> Indices:
        """Which of the `sides` each slice is on: columns are on even ones."""
        return np.repeat(np.arange(2 * len(self.sizes)), self.sizes[:, ::-1].ravel())

    @cached_property
    def table_of_slice(self) -> Indices:
        """Table of each slice."""
        return self.side_of_slice >> 1

    @cached_property
    def is_column(self) -> Mask:
        """Whether a slice is a column."""
        return np.asarray(self.side_of_slice & 1 == 0)

    @cached_property
    def mass(self) -> Array:
        """Mass of each slice."""
        return self.sums(self.cell_mass, np.ones(self.slice_starts[-1]))

    def sums(self, of_cells: Array, of_slices: Array) -> Array:
        """Return the sum over the cells of each slice, times the numbers of slices across."""
        products = np.empty_like(of_slices)
        multiply_tables(self.sizes, of_cells, of_slices, products)
        return products

    def largest(self, of_slices: Array) -> Array:
        """Return the largest absolute entry of each table, of numbers for slices."""
        numbers = np.abs(of_slices)
        if numbers.ndim == 2:
            numbers = numbers.max(axis=0)
        return np.asarray(np.maximum.reduceat(numbers, self.slice_starts[:-1]))


@dataclass(frozen=True, eq=False)
class Equations:
    """The normal equations of each table of a batch, reduced to its columns.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_tables, 2)
        Rows and columns of each table.
    block : ndarray of int64, shape (n_slices,)
        Connected block of each slice, numbered through all tables; -1 without mass.
    n_blocks : ndarray of int64, shape (n_tables,)
        Number of blocks of each table.
    block_mass : ndarray of float64, shape (all blocks,)
        Mass of each block.
    laplacian, inverse : ndarray of float64, shape (n_entries,)
        The Schur complement, and what solves it up to constants of the blocks.
    condition : ndarray of float64, shape (n_tables,)
        Reciprocal condition of the scaled and deflated equations; zero where they are singular.
    """

    sizes: Integers
    block: Integers
    n_blocks: Integers
    block_mass: Array
    laplacian: Array
    inverse: Array
    condition: Array

    def solve(self, right: Array) -> Array:
        """Return the parts of the columns for a right side; both have one number per slice."""
        parts, _ = _multiplied(self.sizes, self.inverse, 0.0, right)
        return parts

    def image(self, of_columns: Array) -> tuple[Array, Array]:
        """Return the Laplacian times numbers, from their differences, and sums of magnitudes."""
        return _multiplied(self.sizes, self.laplacian, 1.0, of_columns)

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
    sizes, mass, is_column = batch.sizes, batch.mass, batch.is_column
    per_mass = inverse_mass(mass)
    block, n_blocks = _label_blocks(batch, per_mass)
    of_columns = (block >= 0) & is_column
    block_mass = sums_at(block[of_columns], mass[of_columns], int(n_blocks.sum()))
    laplacian = np.zeros(int((sizes[:, 1] ** 2).sum()))
    set_laplacians(sizes, batch.cell_mass, per_mass, laplacian)
    widths = sizes[batch.table_of_slice[is_column], 1]
    first_entries = _starts(widths)[:-1]
    row, column = _columns_of_entries(batch, widths, first_entries)
    scaling = np.sqrt(per_mass)
    scaled = scaling[row] * scaling[column]
    share = np.sqrt(mass / np.where(block >= 0, block_mass[block], 1.0))
    matrices = share[row] * share[column]
    matrices *= block[row] == block[column]
    matrices += laplacian * scaled
    columns = np.flatnonzero(is_column)
    without = np.flatnonzero(block[columns] < 0)
    places = columns[without] - batch.slice_starts[batch.table_of_slice[columns[without]]]
    matrices[first_entries[without] + places] = 1.0
    norm = _column_norm(batch, matrices, first_entries)
    is_definite = np.empty(len(sizes), dtype=np.bool_)
    invert_in_place(sizes, matrices, np.empty(int(widths.max())), is_definite)
    if not is_definite.all():
        matrices[~is_definite[batch.table_of_slice[row]]] = 0.0
    product = norm * _column_norm(batch, matrices, first_entries)
    condition = np.divide(1.0, product, out=np.zeros_like(product), where=is_definite)
    matrices *= scaled
    return Equations(sizes, block, n_blocks, block_mass, laplacian, matrices, condition)


def sums_at(where: Integers, numbers: Array, size: int) -> Array:
    """Return the sum of the numbers at each place from zero to `size`."""
    return np.asarray(np.bincount(where, numbers, size), dtype=np.float64)


def _label_blocks(batch: PairBatch, per_mass: Array) -> tuple[Integers, Integers]:
    """Return the connected block of each slice, -1 without mass, and how many each table has."""
    sizes, has_mass = batch.sizes, batch.mass > 0
    filled = batch.is_column & has_mass
    within = np.arange(len(filled)) - batch.slice_starts[batch.table_of_slice]
    block = np.where(filled, within, -1)
    n_blocks = np.bincount(batch.table_of_slice[filled], minlength=len(sizes))
    label_columns(sizes, batch.cell_mass, block, n_blocks)
    block += _starts(n_blocks)[batch.table_of_slice]
    # The columns with mass in a row are all in its block, so the mean of their numbers is its own.
    of_rows = np.rint(batch.sums(batch.cell_mass, block.astype(np.float64)) * per_mass)
    block = np.where(batch.is_column, block, of_rows.astype(np.int64))
    return np.where(has_mass, block, -1), n_blocks


def _columns_of_entries(
    batch: PairBatch, widths: Integers, first_entries: Integers
) -> tuple[Indices, Indices]:
    """Return the columns that each entry of the square matrices belongs to."""
    columns = np.flatnonzero(batch.is_column)
    shift = batch.slice_starts[batch.table_of_slice[columns]] - first_entries
    return np.repeat(columns, widths), np.arange(widths.sum()) + np.repeat(shift, widths)


def _column_norm(batch: PairBatch, matrices: Array, first_entries: Integers) -> Array:
    """Return the largest sum of absolute entries along a row of each symmetric matrix."""
    of_slices = np.zeros(batch.slice_starts[-1])
    of_slices[batch.is_column] = np.add.reduceat(np.abs(matrices), first_entries)
    return batch.largest(of_slices)


def _multiplied(
    sizes: Integers, matrices: Array, share: float, of_slices: Array
) -> tuple[Array, Array]:
    products, magnitudes = np.zeros_like(of_slices), np.zeros_like(of_slices)
    multiply_matrices(sizes, matrices, share, of_slices, products, magnitudes)
    return products, magnitudes


def _starts(lengths: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)])
