"""Purify a pair table exactly, by one elimination of its columns; and what every solve returns."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from treepurify._kernels.pairs import eliminate_columns
from treepurify.typing import Array, Indices

ROUNDING = float(np.finfo(np.float64).eps)
# Rounding of the totals moves a part along a direction by 2e-16 / eigenvalue of its size, so
# below this eigenvalue more than 2% of it would be rounding: not identified.
_LEAST_EIGENVALUE = 1e-14
_COLUMNS_AT_ONCE = 64
# Each gains the digits that the elimination gets right: nearly all, but for weak links.
_STEPS = 3
# An error can be larger than the steps that refine a solution, where rounding of the totals does
# not show: up to 18 times in 240 tables of two clusters with weak links, mostly below this.
_ERROR_PER_STEP = 4


@dataclass(frozen=True, eq=False)
class Solution:
    """One purified tensor and what left it.

    Parameters
    ----------
    pure : ndarray of float64, shape (cells..., n_outputs)
        The tensor without the parts in `moved`.
    moved : tuple of ndarray of float64
        ``moved[i]`` no longer depends on axis ``i`` and goes to the tensor without that
        feature; shape (cells without axis i..., n_outputs).
    unidentified : int or None
        Number of directions in which the moved parts are not determined by the cells with
        mass; None where it was not counted.
    empty_slices : int
        Slices without mass; what is moved out of them is a convention.
    error : float
        Error of the moved parts in slices with mass, relative to the largest entry of the tensor,
        as estimated from the steps that refine them.
    method : str
        Algorithm that ran.
    iterations : int
        Sweeps or conjugate-gradient steps; 0 for a direct solve.
    converged : bool
        Whether the stopping tolerance was met.
    growth : float
        How many times larger than a change of the tensor a change of the moved parts can be.
    history : tuple of float
        Unpurified mass before each step of the mass-moving algorithm, and at its end.
    """

    pure: Array
    moved: tuple[Array, ...]
    unidentified: int | None = 0
    empty_slices: int = 0
    error: float = 0.0
    method: str = "direct"
    iterations: int = 0
    converged: bool = True
    growth: float = 1.0
    history: tuple[float, ...] = ()


def largest_entry(values: Array) -> float:
    """Return the largest absolute entry of an array; zero for an empty one."""
    # Not by way of np.abs, which would write a second array first.
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def inverse_mass(mass: Array) -> Array:
    """Return one over each mass; zero where there is none."""
    return np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)


def move_out(values: Array, moved: tuple[Array, ...]) -> Array:
    """Return the tensor without its moved parts."""
    rest = values.copy()
    for axis, part in enumerate(moved):
        # As `np.expand_dims` does, which takes longer than the work on a small table.
        rest -= part[(slice(None),) * axis + (None,)]
    return rest


def solve_pair(values: Array, mass: Array) -> Solution:
    r"""Project a pair table off the functions of one feature, under any mass.

    With row mass ``r``, column mass ``c`` and mass ``W``, the parts ``a`` (of the rows) and
    ``b`` (of the columns) that leave the table solve ``r a + W b = (W T) 1`` and
    ``W' a + c b = (W T)' 1``. Eliminating ``a`` leaves the Schur complement
    ``S = diag(c) - W' diag(1/r) W``, the Laplacian of a graph on the columns, whose null
    space is spanned by the connected blocks of the support. Its columns are eliminated without a
    subtraction, light ones first, so that weak links between blocks keep all their digits.

    Where the support falls into several blocks, or these are linked by less mass than rounding,
    `a` and `b` are determined up to one constant per block; the solution of least norm in L2 of
    the margins splits each block's mean evenly. A row without mass moves its mean under the
    column margin, and likewise a column.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns, n_outputs)
        The table.
    mass : ndarray of shape (n_rows, n_columns)
        Mass of each cell, summing to one.

    Returns
    -------
    Solution
    """
    return pair_solver(mass)(values)


def pair_solver(mass: Array) -> Callable[[Array], Solution]:
    """Return `solve_pair` for tables of one mass, whose columns are eliminated once."""
    from scipy.linalg.lapack import dtrtrs

    if mass.shape[0] < mass.shape[1]:
        mirrored = pair_solver(mass.T)
        return lambda values: _mirrored(mirrored(values.transpose(1, 0, 2)))
    row_mass, column_mass = mass.sum(axis=1)[:, None], mass.sum(axis=0)[:, None]
    per_row, per_column = inverse_mass(row_mass), inverse_mass(column_mass)
    order, shares, pivots, block, n_weak = _eliminate(mass, column_mass[:, 0], per_row)
    unit = np.asfortranarray(-shares)
    # The block of a row is that of its heaviest column.
    block_of_row, every_block = block[np.argmax(mass, axis=1)], np.unique(block)[:, None]
    in_block, row_in_block = block == every_block, block_of_row == every_block
    mass_of_block = in_block @ column_mass
    per_block = inverse_mass(mass_of_block)
    empty_rows, empty_columns = row_mass[:, 0] == 0, column_mass[:, 0] == 0

    def step(row_means: Array, column_means: Array) -> tuple[Array, Array]:
        """Return the parts of least norm with these means in the slices, to rounding."""
        right = (column_mass * column_means - mass.T @ row_means)[order]
        right, _ = dtrtrs(unit, right, trans=1, unitdiag=1)
        right, _ = dtrtrs(unit, right / pivots, unitdiag=1)
        of_columns = np.empty_like(right)
        of_columns[order] = right
        of_rows = row_means - per_row * (mass @ of_columns)
        # The mean of each block is split evenly between its rows and columns.
        means = in_block @ (column_mass * of_columns) - row_in_block @ (row_mass * of_rows)
        means *= 0.5 * per_block
        of_columns -= means[block]
        of_rows += means[block_of_row]
        of_columns[empty_columns] = of_rows[empty_rows] = 0.0
        return of_rows, of_columns

    def solve(values: Array) -> Solution:
        row_means = per_row * np.einsum("ij,ijk->ik", mass, values)
        column_means = per_column * np.einsum("ij,ijk->jk", mass, values)
        of_rows, of_columns = np.zeros_like(row_means), np.zeros_like(column_means)
        refined = 0.0
        for turn in range(_STEPS):
            left_of_rows = row_means - of_rows - per_row * (mass @ of_columns)
            left_of_columns = column_means - of_columns - per_column * (mass.T @ of_rows)
            left_of_rows[empty_rows] = left_of_columns[empty_columns] = 0.0
            more = step(left_of_rows, left_of_columns)
            of_rows += more[0]
            of_columns += more[1]
            refined = max(refined, *map(largest_entry, more)) if turn else 0.0
        scale = largest_entry(values)
        size = max(largest_entry(of_rows), largest_entry(of_columns))
        if empty_rows.any() or empty_columns.any():
            rest = values[empty_rows] - of_columns, values[:, empty_columns] - of_rows[:, None]
            of_rows[empty_rows] = np.einsum("ijk,j->ik", rest[0], column_mass[:, 0])
            of_columns[empty_columns] = np.einsum("ijk,i->jk", rest[1], row_mass[:, 0])
        moved = of_columns, of_rows
        error = _ERROR_PER_STEP * refined + ROUNDING * size
        if n_weak:
            # Any part along a weak link would do: entries add up along a path through the table.
            error += 2 * len(order) * scale + size
        return Solution(
            pure=move_out(values, moved),
            moved=moved,
            unidentified=int(np.count_nonzero(mass_of_block)) - 1,
            empty_slices=int(np.count_nonzero(empty_rows) + np.count_nonzero(empty_columns)),
            error=error / scale if scale > 0 else 0.0,
            growth=max(1.0, size / scale) if scale > 0 else 1.0,
        )

    return solve


def _mirrored(solution: Solution) -> Solution:
    """Return the solution for the table with rows and columns exchanged."""
    return replace(solution, pure=solution.pure.transpose(1, 0, 2), moved=solution.moved[::-1])


def _eliminate(
    mass: Array, column_mass: Array, per_row: Array
) -> tuple[Indices, Array, Array, Indices, int]:
    """Return the order of the columns, their shares and pivots in it, and the block of each.

    The last number is that of blocks that others hold weakly.
    """
    order = np.argsort(column_mass, kind="stable")
    ordered = mass[:, order]
    coupling = ordered.T @ (ordered * per_row)
    n, passed, n_weak = len(order), column_mass[order], 0
    shares, pivots, leads = np.zeros((n, n)), np.empty(n), np.empty(n, np.int64)
    for start in range(0, n, _COLUMNS_AT_ONCE):
        stop = min(start + _COLUMNS_AT_ONCE, n)
        n_weak += eliminate_columns(
            coupling, start, stop, passed, _LEAST_EIGENVALUE, shares, pivots, leads
        )
        coupling[stop:, stop:] += shares[start:stop, stop:].T @ coupling[start:stop, stop:]
    ends = np.flatnonzero(np.isinf(pivots))
    for _ in range(n.bit_length()):
        leads = leads[leads]
    block = np.empty_like(leads)
    block[order] = np.searchsorted(ends, leads)
    return order, shares, pivots[:, None], block, n_weak
