"""Purify a pair table exactly: one elimination of its columns."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from treepurify._kernels.pairs import PairEquations, eliminate_columns, solve_pair_parts
from treepurify.purification.solution import (
    ROUNDING,
    Solution,
    inverse_mass,
    largest_entry,
    move_out,
)
from treepurify.typing import Array

__all__ = ["pair_solver", "solve_pair"]

# Rounding of the totals moves a part along a direction by 2e-16 / eigenvalue of its size, so
# below this eigenvalue more than 2% of it would be rounding: not identified.
_LEAST_EIGENVALUE = 1e-14
_COLUMNS_AT_ONCE = 64


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
    if mass.shape[0] < mass.shape[1]:
        mirrored = pair_solver(mass.T)
        return lambda values: _mirrored(mirrored(values.transpose(1, 0, 2)))
    equations, n_weak = _eliminate(np.ascontiguousarray(mass))
    n_columns = mass.shape[1]
    is_empty = equations.slice_mass == 0
    empty_columns, empty_rows = is_empty[:n_columns], is_empty[n_columns:]
    column_mass, row_mass = np.split(equations.slice_mass, [n_columns])

    def solve(values: Array) -> Solution:
        tables = np.ascontiguousarray(np.moveaxis(values, -1, 0))
        parts, errors = np.empty((len(tables), len(is_empty))), np.empty(len(tables))
        solve_pair_parts(equations, tables, np.empty((4, len(is_empty))), parts, errors)
        scale, size = largest_entry(values), largest_entry(parts)
        of_columns, of_rows = parts[:, :n_columns].T.copy(), parts[:, n_columns:].T.copy()
        if is_empty.any():
            rest = values[empty_rows] - of_columns, values[:, empty_columns] - of_rows[:, None]
            of_rows[empty_rows] = np.einsum("ijk,j->ik", rest[0], column_mass)
            of_columns[empty_columns] = np.einsum("ijk,i->jk", rest[1], row_mass)
        moved = of_columns, of_rows
        error = float(errors.max(initial=0.0)) + ROUNDING * size
        if n_weak:
            # Any part along a weak link would do: entries add up along a path through the table.
            error += 2 * n_columns * scale + size
        return Solution(
            pure=move_out(values, moved),
            moved=moved,
            unidentified=int(np.count_nonzero(equations.block_mass)) - 1,
            empty_slices=int(np.count_nonzero(is_empty)),
            error=error / scale if scale > 0 else 0.0,
            growth=max(1.0, size / scale) if scale > 0 else 1.0,
        )

    return solve


def _mirrored(solution: Solution) -> Solution:
    """Return the solution for the table with rows and columns exchanged."""
    return replace(solution, pure=solution.pure.transpose(1, 0, 2), moved=solution.moved[::-1])


def _eliminate(mass: Array) -> tuple[PairEquations, int]:
    """Return the equations of a pair, and how many of its blocks others hold weakly."""
    row_mass, column_mass = mass.sum(axis=1), mass.sum(axis=0)
    order = np.argsort(column_mass, kind="stable")
    ordered = mass[:, order]
    coupling = ordered.T @ (ordered * inverse_mass(row_mass)[:, None])
    n, passed, n_weak = len(order), column_mass[order], 0
    shares, pivots, leads = np.zeros((n, n)), np.empty(n), np.empty(n, np.int64)
    for start in range(0, n, _COLUMNS_AT_ONCE):
        stop = min(start + _COLUMNS_AT_ONCE, n)
        n_weak += eliminate_columns(
            coupling, start, stop, passed, _LEAST_EIGENVALUE, shares, pivots, leads
        )
        coupling[stop:, stop:] += shares[start:stop, stop:].T @ coupling[start:stop, stop:]
    while not np.array_equal(leads, leads[leads]):
        leads = leads[leads]
    ends, of_ordered = np.unique(leads, return_inverse=True)
    of_columns = np.empty_like(leads)
    of_columns[order] = of_ordered
    of_slices = np.concatenate([of_columns, of_columns[np.argmax(mass, axis=1)]])
    block_mass = np.asarray(np.bincount(of_columns, column_mass, len(ends)), dtype=np.float64)
    slice_mass = np.concatenate([column_mass, row_mass])
    return PairEquations(mass, slice_mass, order, shares, pivots, of_slices, block_mass), n_weak
