"""Purify many pair tables at a time, by the equations of `solve_pair`.

A call of NumPy takes longer than its work on a small table. So one call works on all of them,
and what goes through their cells is compiled, so that threads can work side by side.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from treepurify._kernels.pair_products import (
    largest_with_mass,
    sum_slices_twofold,
    take_parts,
)
from treepurify.purification.pair import LEAST_RECIPROCAL_CONDITION
from treepurify.purification.pair_batch import PairBatch, PairEquations, set_up_equations
from treepurify.purification.pair_error import longest_path
from treepurify.purification.refinement import LIFT, MOST_STEPS, ROUNDING, add_step
from treepurify.purification.solution import Solution
from treepurify.typing import Array

__all__ = ["SolvedPair", "is_small_pair", "solve_small_pairs"]

# Plain loops over matrices beat the library's routines up to about this shorter side.
_SHORT_SIDE = 256
_MOST_CELLS = 1 << 16


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


def _batch(values: Sequence[Array], mass: Sequence[Array]) -> PairBatch:
    """Put the tables behind each other, with the longer side as rows."""
    turned = [table.shape[0] < table.shape[1] for table in mass]
    of_mass = [m.T if turn else m for m, turn in zip(mass, turned, strict=True)]
    of_values = [
        v.transpose(1, 0, 2) if turn else v for v, turn in zip(values, turned, strict=True)
    ]
    return PairBatch.of(of_values, of_mass)


def _refine(batch: PairBatch, equations: PairEquations) -> tuple[Array, Array]:
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


def _bound_errors(batch: PairBatch, equations: PairEquations, high: Array, means: Array) -> Array:
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
