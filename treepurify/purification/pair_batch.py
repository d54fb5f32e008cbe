"""Pair tables that stand one after the other, as the diagonal blocks of one large table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treepurify._kernels.pair_equations import (
    invert_laplacians,
    label_slices,
    set_laplacians,
    solve_parts,
)
from treepurify._kernels.pair_products import multiply_matrices, multiply_tables
from treepurify.grids.grid import Subset
from treepurify.purification.solution import inverse_mass
from treepurify.typing import Array, Indices, Integers, Mask

__all__ = ["SEVERAL_PAIRS", "PairBatch", "PairEquations", "set_up_equations", "some_at_a_time"]

# Fewer pairs are taken one by one before what takes many together would be compiled, and be some
# milliseconds slower.
SEVERAL_PAIRS = 16
# Numbers in the tables of a batch: enough that the calls for a batch are cheap next to its work,
# and no more than stay in a cache. Some batches are better than one, which has one thread.
_FEW_NUMBERS, _MOST_NUMBERS, _BATCHES = 1 << 15, 1 << 17, 4


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
    def widest(self) -> int:
        """Columns of the widest table."""
        return int(self.sizes[:, 1].max())

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
class PairEquations:
    """The normal equations of each table of a batch, reduced to its columns.

    Parameters
    ----------
    batch : PairBatch
        The tables.
    block : ndarray of int64, shape (n_slices,)
        Connected block of each slice, numbered through all tables; -1 without mass.
    n_blocks : ndarray of int64, shape (n_tables,)
        Number of blocks of each table.
    block_mass : ndarray of float64, shape (all blocks,)
        Mass of each block.
    heaviest : ndarray of int64, shape (all blocks,)
        Column of each block with the largest mass, the first of several.
    laplacian, inverse : ndarray of float64, shape (n_entries,)
        The Schur complement, and what solves it up to constants of the blocks.
    condition : ndarray of float64, shape (n_tables,)
        Reciprocal condition of the scaled and deflated equations; zero where they are singular.
    """

    batch: PairBatch
    block: Integers
    n_blocks: Integers
    block_mass: Array
    heaviest: Integers
    laplacian: Array
    inverse: Array
    condition: Array

    def parts(self, means: Array) -> Array:
        """Return the parts of least norm for the means of slices, to rounding of the solve."""
        parts, sizes = np.empty_like(means), self.batch.sizes
        workspace = np.empty(self.batch.widest), np.zeros_like(self.block_mass)
        equations = self.block, self.block_mass, self.inverse
        solve_parts(
            sizes, self.batch.cell_mass, self.batch.mass, *equations, means, *workspace, parts
        )
        return parts

    def solve(self, right: Array) -> Array:
        """Return the parts of the columns for a right side; both have one number per slice."""
        parts, _ = _multiplied(self.batch.sizes, self.inverse, 0.0, right)
        return parts

    def image(self, of_columns: Array) -> tuple[Array, Array]:
        """Return the Laplacian times numbers, from their differences, and sums of magnitudes."""
        return _multiplied(self.batch.sizes, self.laplacian, 1.0, of_columns)

    def block_sums(self, of_slices: Array) -> Array:
        """Return the sum over the slices with mass of each block."""
        there = self.block >= 0
        sums = np.bincount(self.block[there], of_slices[there], len(self.block_mass))
        return np.asarray(sums, dtype=np.float64)


def some_at_a_time(pairs: Sequence[Subset], sizes: Sequence[int]) -> Iterator[list[Subset]]:
    """Yield the pairs in order, in groups whose tables fit into one batch."""
    most = min(max(sum(sizes) // _BATCHES, _FEW_NUMBERS), _MOST_NUMBERS)
    batch: list[Subset] = []
    left = most
    for pair, size in zip(pairs, sizes, strict=True):
        if batch and size > left:
            yield batch
            batch, left = [], most
        batch.append(pair)
        left -= size
    if batch:
        yield batch


def set_up_equations(batch: PairBatch) -> PairEquations:
    """Return the equations of each table; see `solve_pair` for what they are."""
    sizes, mass = batch.sizes, batch.mass
    block, n_blocks = np.empty(len(mass), np.int64), np.empty(len(sizes), np.int64)
    block_mass, heaviest = np.zeros(len(mass)), np.empty(len(mass), np.int64)
    n_all = label_slices(sizes, batch.cell_mass, mass, block, n_blocks, block_mass, heaviest)
    laplacian = np.zeros(int((sizes[:, 1] ** 2).sum()))
    set_laplacians(sizes, batch.cell_mass, inverse_mass(mass), laplacian)
    workspace = np.empty((3, batch.widest))
    inverse, condition = np.empty_like(laplacian), np.empty(len(sizes))
    invert_laplacians(sizes, laplacian, mass, block, block_mass, workspace, inverse, condition)
    blocks = block, n_blocks, block_mass[:n_all], heaviest[:n_all]
    return PairEquations(batch, *blocks, laplacian, inverse, condition)


def _multiplied(
    sizes: Integers, matrices: Array, share: float, of_slices: Array
) -> tuple[Array, Array]:
    products, magnitudes = np.zeros_like(of_slices), np.zeros_like(of_slices)
    multiply_matrices(sizes, matrices, share, of_slices, products, magnitudes)
    return products, magnitudes


def _starts(lengths: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)])
