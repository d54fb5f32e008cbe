"""Purify many small pair tables at a time, by the equations of `solve_pair`.

A call of NumPy takes longer than its work on a small table. So one call works on all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from treepurify.purification.pair import LEAST_RECIPROCAL_CONDITION
from treepurify.purification.pair_batch import Equations, PairBatch, set_up_equations, sums_at
from treepurify.purification.pair_error import longest_path
from treepurify.purification.refinement import (
    MOST_STEPS,
    ROUNDING,
    add_step,
    means_left,
    rounded_means,
)
from treepurify.purification.solution import Solution, inverse_mass
from treepurify.typing import Array

__all__ = ["SolvedPair", "is_small_pair", "solve_small_pairs"]

# Plain loops over matrices beat the library's routines up to about this shorter side.
_SHORT_SIDE = 32
_MOST_CELLS = 1 << 16


@dataclass(frozen=True, eq=False)
class SolvedPair:
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
    """Return whether a table is purified faster beside others than alone."""
    is_short = len(shape) == 2 and min(shape) <= _SHORT_SIDE
    return is_short and shape[0] * shape[1] <= _MOST_CELLS


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
    equations = set_up_equations(batch)
    high, means = _refine(batch, equations)
    errors = _bound_errors(batch, equations, high, means)
    errors[equations.condition < LEAST_RECIPROCAL_CONDITION] = np.nan
    parts = _fill_empty(batch, high)
    of_columns, of_rows = parts[batch.column_and_row[0]], parts[batch.column_and_row[1]]
    pure = batch.cell_values - of_columns
    pure -= of_rows
    total = pure - batch.cell_values
    total += of_columns
    total += of_rows
    before = batch.largest_of_cells(batch.cell_values)
    scaled = np.divide(errors, before, out=errors.copy(), where=before > 0)
    n_empty = np.bincount(batch.table_of_slice, batch.mass == 0).astype(np.int64)
    figures = zip(
        scaled.tolist(),
        equations.n_blocks.tolist(),
        n_empty.tolist(),
        before.tolist(),
        batch.largest_of_cells(pure).tolist(),
        batch.largest_of_cells(total).tolist(),
        strict=True,
    )
    cells, slices = batch.cell_starts.tolist(), batch.slice_starts.tolist()
    for t, (error, n_blocks, empty, largest, after, additivity) in enumerate(figures):
        if np.isnan(error):
            yield None
            continue
        shape = mass[t].shape
        middle = slices[t] + min(shape)
        moved = (parts[slices[t] : middle], parts[middle : slices[t + 1]])
        table = pure[cells[t] : cells[t + 1]].reshape(max(shape), min(shape), -1)
        is_turned = shape[0] < shape[1]
        solution = Solution(
            pure=table.transpose(1, 0, 2) if is_turned else table,
            moved=moved[::-1] if is_turned else moved,
            unidentified=n_blocks - 1,
            empty_slices=empty,
            error=error,
            method="direct",
            growth=float(longest_path(shape)),
            is_bound=True,
        )
        yield SolvedPair(solution, largest, after, additivity)


def _batch(values: Sequence[Array], mass: Sequence[Array]) -> PairBatch:
    """Put the tables behind each other, with the longer side as rows."""
    turned = [table.shape[0] < table.shape[1] for table in mass]
    of_mass = [m.T if turn else m for m, turn in zip(mass, turned, strict=True)]
    of_values = [
        v.transpose(1, 0, 2) if turn else v for v, turn in zip(values, turned, strict=True)
    ]
    return PairBatch.of(of_values, of_mass)


def _refine(batch: PairBatch, equations: Equations) -> tuple[Array, Array]:
    """Return the parts of all slices, and the means that they leave; see `refine_parts`.

    Each table stops on its own.
    """
    n_outputs, starts = len(batch.values), batch.slice_starts
    high = np.zeros((len(batch.mass), n_outputs))
    low = np.zeros_like(high)
    means = rounded_means(batch)
    before = np.full(len(batch.sizes), np.inf)
    goes_on = np.ones(len(batch.sizes), dtype=bool)
    for _ in range(MOST_STEPS):
        step = _step(batch, equations, means)
        size = batch.largest(step)
        goes_on &= size < 0.5 * before
        if not goes_on.any():
            break
        step[~np.repeat(goes_on, np.diff(starts))] = 0.0
        high, low = add_step(high, low, step)
        means = means_left(batch, high, low)
        shrinks = np.where(before < np.inf, np.minimum(size / before, 1.0), 1.0)
        goes_on &= size * shrinks > 0.1 * ROUNDING * batch.largest(high)
        before = np.where(goes_on, size, before)
        if not goes_on.any():
            break
    return high, means


def _step(batch: PairBatch, equations: Equations, means: Array) -> Array:
    """Return the parts of least norm for the means of slices, to rounding of the solve."""
    inverse = inverse_mass(batch.mass)
    side = np.where(batch.is_column, -0.5, 0.5) * (equations.block >= 0)
    column, row = batch.filled_slices
    step = np.empty_like(means)
    for k in range(means.shape[1]):
        right = batch.mass * means[:, k]
        right -= batch.sums(batch.weight * means[row, k], 0)
        parts = equations.solve(right)
        of_rows = means[:, k] - inverse * batch.sums(batch.weight * parts[column], 1)
        parts = np.where(batch.is_column, parts, of_rows)
        # The mean of each block is split evenly between its rows and columns.
        excess = equations.block_sums(np.where(batch.is_column, parts, -parts) * batch.mass)
        step[:, k] = parts + side * (excess / equations.block_mass)[equations.block]
    return step


def _bound_errors(batch: PairBatch, equations: Equations, high: Array, means: Array) -> Array:
    """Bound the largest error of the parts of each table; NaN where none can be proved.

    See `refined_error`; a table with several blocks has a column of each left out.
    """
    size = batch.largest(high)
    bound = _bound_means(batch, means, size)
    columns = batch.is_column & (equations.block >= 0)
    right = np.where(columns, batch.mass * bound, 0.0)
    right += batch.sums(batch.weight * bound[batch.filled_slices[1]], 0)
    grounds = _heaviest_columns(batch, equations)
    target = right.copy()
    target[grounds] -= equations.block_sums(right)
    majorant = equations.solve(target)
    majorant = np.where(columns, majorant - majorant[grounds][equations.block], 0.0)
    products = equations.laplacian * (majorant[equations.row] - majorant[equations.column])
    lengths = batch.sizes.sum(axis=1)
    slack = (4 * lengths[batch.table_of_slice] + 16) * ROUNDING
    image = -sums_at(equations.row, products, len(bound))
    image -= slack * sums_at(equations.row, np.abs(products), len(bound))
    holds = image >= 0.5 * right
    holds[grounds] = True
    is_proved = np.logical_and.reduceat(holds | ~columns, batch.slice_starts[:-1])
    spread = 2 * np.maximum.reduceat(np.maximum(majorant, 0.0), batch.slice_starts[:-1])
    spread += batch.largest(np.where(batch.is_column, 0.0, bound))
    return np.where(is_proved, 2 * spread + (lengths + 8) * ROUNDING * size, np.nan)


def _bound_means(batch: PairBatch, means: Array, size: Array) -> Array:
    """Bound the conditional means, of which `means` are right to double precision."""
    filled = np.where(batch.cell_mass[:, None] > 0, batch.cell_values, 0.0)
    entries = batch.largest_of_cells(filled) + 2 * size
    floor = 8 * batch.sizes[:, 0] * ROUNDING**2 * entries
    largest = np.max(np.abs(means), axis=1)
    bound = (1 + 4 * ROUNDING) * largest + floor[batch.table_of_slice]
    return np.where(batch.mass > 0, bound, 0.0)


def _heaviest_columns(batch: PairBatch, equations: Equations) -> Array:
    """Return the column of each block with the largest mass, the first of several."""
    columns = np.flatnonzero(batch.is_column & (equations.block >= 0))
    order = np.lexsort((-batch.mass[columns], equations.block[columns]))
    sorted_block = equations.block[columns[order]]
    first = np.flatnonzero(np.diff(sorted_block, prepend=-1))
    return np.asarray(columns[order[first]])


def _fill_empty(batch: PairBatch, parts: Array) -> Array:
    """Give slices without mass the mean of their table under the margin of the other feature."""
    empty = batch.mass == 0
    if not empty.any():
        return parts
    filled = parts.copy()
    for axis in range(2):
        own, other = batch.column_and_row[axis], batch.column_and_row[1 - axis]
        chosen = np.flatnonzero(empty[own])
        own, other = own[chosen], other[chosen]
        for k in range(parts.shape[1]):
            rest = (batch.cell_values[chosen, k] - parts[other, k]) * batch.mass[other]
            means = sums_at(own, rest, len(empty))
            filled[own, k] = means[own]
    return filled
