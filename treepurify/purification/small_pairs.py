"""Purify many pair tables at a time, by the equations of `solve_pair`.

A call of NumPy takes longer than its work on a small table. So one call works on all of them,
which stand one after the other as the diagonal blocks of one large table, and what goes through
their cells is compiled, so that threads can work side by side.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np

from treepurify._kernels.pair_equations import (
    invert_laplacians,
    label_slices,
    set_laplacians,
    solve_parts,
)
from treepurify._kernels.pair_products import (
    largest_with_mass,
    multiply_matrices,
    multiply_tables,
    sum_slices_twofold,
    take_parts,
)
from treepurify.grids.grid import Subset
from treepurify.purification.pair import LEAST_RECIPROCAL_CONDITION, longest_path, solve_pair
from treepurify.purification.solution import (
    LIFT,
    MOST_STEPS,
    ROUNDING,
    Solution,
    add_step,
    inverse_mass,
)
from treepurify.typing import Array, Indices, Integers, Mask

__all__ = [
    "SEVERAL_PAIRS",
    "PairBatch",
    "SolvedPair",
    "is_small_pair",
    "solve_pairs",
    "solve_small_pairs",
    "some_at_a_time",
]

# Plain loops over matrices beat the library's routines up to about this shorter side.
_SHORT_SIDE = 256
_MOST_CELLS = 1 << 16
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
class _PairEquations:
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


class SolvedPair(NamedTuple):
    """A pair table that was purified, and what was measured on the way.

    Parameters
    ----------
    solution : Solution
        As `solve_pair` returns it, to rounding.
    before, after : float
        Largest entries of the table and of its pure part.
    additivity : float
        Largest difference between the table and the sum of its pure part and what was moved.
    """

    solution: Solution
    before: float
    after: float
    additivity: float


def is_small_pair(shape: tuple[int, ...]) -> bool:
    """Return whether a table is purified faster together with others than alone."""
    is_short = len(shape) == 2 and min(shape) <= _SHORT_SIDE
    return is_short and shape[0] * shape[1] <= _MOST_CELLS


def solve_pairs(values: Sequence[Array], mass: Sequence[Array]) -> Iterator[Array]:
    """Yield the pure parts of small pair tables; see `solve_small_pairs`.

    What a solve of many cannot do, and few tables, are solved one by one.
    """
    many = len(mass) >= SEVERAL_PAIRS
    together = solve_small_pairs(values, mass) if many else repeat(None, len(mass))
    for table, own, solved in zip(values, mass, together, strict=True):
        yield solve_pair(table, own).pure if solved is None else solved.solution.pure


def solve_small_pairs(
    values: Sequence[Array], mass: Sequence[Array]
) -> Iterator[SolvedPair | None]:
    """Purify pair tables, each under its own mass, and bound the errors; see `solve_pair`.

    Parameters
    ----------
    values : sequence of ndarray of shape (n_rows, n_columns, n_outputs)
        The tables, all with the same outputs.
    mass : sequence of ndarray of shape (n_rows, n_columns)
        Mass of the cells of each, summing to one.

    Yields
    ------
    SolvedPair or None
        None for a table whose equations are close to singular, or whose error has no bound this
        way: `solve_pair` knows what to do with it.
    """
    batch = _batch(values, mass)
    equations = _set_up_equations(batch)
    high, means = _refine(batch, equations)
    errors = _bound_errors(batch, equations, high, means)
    errors[equations.condition < LEAST_RECIPROCAL_CONDITION] = np.nan
    parts, pure = _fill_empty(batch, high), np.empty_like(batch.values)
    largest = np.zeros((len(mass), 3))
    for of_values, of_parts, of_pure in zip(batch.values, parts, pure, strict=True):
        take_parts(batch.sizes, of_values, of_parts, of_pure, largest)
    of_cells, of_slices = np.ascontiguousarray(pure.T), np.ascontiguousarray(parts.T)
    n_empty = np.bincount(batch.table_of_slice, batch.mass == 0).astype(np.int64)
    cell, start = 0, 0
    for table, error, blocks, empty, (before, after, additivity) in zip(
        mass,
        errors.tolist(),
        equations.n_blocks.tolist(),
        n_empty.tolist(),
        largest.tolist(),
        strict=True,
    ):
        n_rows, n_columns = max(table.shape), min(table.shape)
        last_cell, middle = cell + table.size, start + n_columns
        last = middle + n_rows
        if np.isnan(error):
            yield None
        else:
            moved = (of_slices[start:middle], of_slices[middle:last])
            pure = of_cells[cell:last_cell].reshape(n_rows, n_columns, -1)
            is_turned = table.shape[0] < table.shape[1]
            solution = Solution(
                pure=pure.transpose(1, 0, 2) if is_turned else pure,
                moved=moved[::-1] if is_turned else moved,
                unidentified=blocks - 1,
                empty_slices=empty,
                error=error / before if before > 0 else error,
                method="direct",
                growth=float(longest_path(table.shape)),
                is_bound=True,
            )
            yield SolvedPair(solution, before, after, additivity)
        cell, start = last_cell, last


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


def _batch(values: Sequence[Array], mass: Sequence[Array]) -> PairBatch:
    """Put the tables behind each other, with the longer side as rows."""
    turned = [table.shape[0] < table.shape[1] for table in mass]
    of_mass = [m.T if turn else m for m, turn in zip(mass, turned, strict=True)]
    of_values = [
        v.transpose(1, 0, 2) if turn else v for v, turn in zip(values, turned, strict=True)
    ]
    return PairBatch.of(of_values, of_mass)


def _refine(batch: PairBatch, equations: _PairEquations) -> tuple[Array, Array]:
    """Return the parts of all slices, and the means that they leave; see `refine_parts`.

    Each table stops on its own.
    """
    high = np.zeros((len(batch.values), len(batch.mass)))
    low = np.zeros_like(high)
    workspace = np.empty((2, batch.widest))
    weight = LIFT * batch.cell_mass
    lifted = LIFT * np.where(batch.mass > 0, batch.mass, 1.0)
    ones = np.ones(len(batch.mass))
    # Enough for a first step, whose own error is larger.
    means = np.stack([batch.sums(weight * values, ones) for values in batch.values]) / lifted
    before = np.full(len(batch.sizes), np.inf)
    goes_on = np.ones(len(batch.sizes), dtype=bool)
    for _ in range(MOST_STEPS):
        step = np.stack([equations.parts(of_output) for of_output in means])
        size = batch.largest(step)
        goes_on &= size < 0.5 * before
        if not goes_on.any():
            break
        step *= goes_on[batch.table_of_slice]
        high, low = add_step(high, low, step)
        total, rest = np.empty_like(high), np.empty_like(high)
        for given in zip(batch.values, high, low, total, rest, strict=True):
            sum_slices_twofold(batch.sizes, weight, *given, workspace)
        means = (total + rest) / lifted
        shrinks = np.where(before < np.inf, np.minimum(size / before, 1.0), 1.0)
        goes_on &= size * shrinks > 0.1 * ROUNDING * batch.largest(high)
        before = np.where(goes_on, size, before)
        if not goes_on.any():
            break
    return high, means


def _bound_errors(batch: PairBatch, equations: _PairEquations, high: Array, means: Array) -> Array:
    """Bound the largest error of the parts of each table; NaN where none can be proved.

    See `refined_error`; a table with several blocks has a column of each left out.
    """
    size = batch.largest(high)
    bound = _bound_means(batch, means, size)
    columns = batch.is_column & (equations.block >= 0)
    right = np.where(columns, batch.mass * bound + batch.sums(batch.cell_mass, bound), 0.0)
    grounds = equations.heaviest
    target = right.copy()
    target[grounds] -= equations.block_sums(right)
    majorant = equations.solve(target)
    majorant = np.where(columns, majorant - majorant[grounds][equations.block], 0.0)
    image, magnitude = equations.image(majorant)
    lengths = batch.sizes.sum(axis=1)
    image -= (4 * lengths[batch.table_of_slice] + 16) * ROUNDING * magnitude
    holds = image >= 0.5 * right
    holds[grounds] = True
    is_proved = np.logical_and.reduceat(holds | ~columns, batch.slice_starts[:-1])
    spread = 2 * np.maximum.reduceat(np.maximum(majorant, 0.0), batch.slice_starts[:-1])
    spread += batch.largest(np.where(batch.is_column, 0.0, bound))
    return np.where(is_proved, 2 * spread + (lengths + 8) * ROUNDING * size, np.nan)


def _bound_means(batch: PairBatch, means: Array, size: Array) -> Array:
    """Bound the conditional means, of which `means` are right to double precision."""
    entries = np.zeros(len(batch.sizes))
    for values in batch.values:
        largest_with_mass(batch.sizes, batch.cell_mass, values, entries)
    entries += 2 * size
    floor = 8 * batch.sizes[:, 0] * ROUNDING**2 * entries
    largest = np.max(np.abs(means), axis=0)
    bound = (1 + 4 * ROUNDING) * largest + floor[batch.table_of_slice]
    return np.where(batch.mass > 0, bound, 0.0)


def _fill_empty(batch: PairBatch, parts: Array) -> Array:
    """Give slices without mass the mean of their table under the margin of the other feature."""
    is_empty = batch.mass == 0
    if not is_empty.any():
        return parts
    filled = parts.copy()
    across = batch.side_of_slice ^ 1
    for values, found, own in zip(batch.values, parts, filled, strict=True):
        # The parts of a side, in the mean.
        means = np.add.reduceat(found * batch.mass, batch.sides)
        own[is_empty] = (batch.sums(values, batch.mass) - means[across])[is_empty]
    return filled


def _set_up_equations(batch: PairBatch) -> _PairEquations:
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
    return _PairEquations(batch, *blocks, laplacian, inverse, condition)


def _multiplied(
    sizes: Integers, matrices: Array, share: float, of_slices: Array
) -> tuple[Array, Array]:
    products, magnitudes = np.zeros_like(of_slices), np.zeros_like(of_slices)
    multiply_matrices(sizes, matrices, share, of_slices, products, magnitudes)
    return products, magnitudes


def _starts(lengths: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)])
