"""Purify a pair table exactly: one factorisation of a Schur complement, and a bound of its error.

The cells of a pair that have mass together fall into blocks, which `label_blocks` finds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from treepurify.purification.slices import mass_slices
from treepurify.purification.solution import (
    ROUNDING,
    Refined,
    Solution,
    inverse_mass,
    largest_entry,
    move_out,
    refine_parts,
)
from treepurify.typing import Array, Cells, Indices, Integers

__all__ = [
    "LEAST_RECIPROCAL_CONDITION",
    "label_blocks",
    "longest_path",
    "pair_solver",
    "solve_pair",
]

# Rounding of the totals moves a part along a direction by 2e-16 / eigenvalue of its size, so
# below this eigenvalue more than 2% of it would be rounding: not identified.
_LEAST_EIGENVALUE = 1e-14
# The reciprocal condition is at most the least eigenvalue, but it is an estimate. Below this
# bound, far above what it can be wrong by, the eigenvalues themselves decide.
LEAST_RECIPROCAL_CONDITION = 1e-12
_WEAK = 1e-6
# Slices times cells: a table of 80 by 80.
_MOST_MEASURED = 1_000_000


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The margins of a pair, and the connected blocks of its support.

    Parameters
    ----------
    row_mass, column_mass : ndarray of float64
        Mass of each row and column.
    of_rows, of_columns : ndarray of int64
        Block of each row and column; -1 without mass.
    n_blocks : int
        Number of blocks.
    mass : ndarray of float64, shape (n_blocks,)
        Mass of each block.
    """

    row_mass: Array
    column_mass: Array
    of_rows: Integers
    of_columns: Integers
    n_blocks: int
    mass: Array


def solve_pair(values: Array, mass: Array, *, receives: bool = False) -> Solution:
    r"""Project a pair table off the functions of one feature, under any mass.

    With row mass ``r``, column mass ``c`` and mass ``W``, the parts ``a`` (of the rows) and
    ``b`` (of the columns) that leave the table solve ``r a + W b = (W T) 1`` and
    ``W' a + c b = (W T)' 1``. Eliminating ``a`` leaves the Schur complement
    ``S = diag(c) - W' diag(1/r) W``, the Laplacian of a graph on the columns, whose null
    space is spanned by the connected blocks of the support. It is deflated by those known
    vectors and factored once; refinement with residuals in twofold precision follows, and a
    bound of what it leaves.

    Where the support falls into several blocks, `a` and `b` are determined up to one
    constant per block; the solution of least norm in L2 of the margins splits each block's
    mean evenly. A row without mass moves its mean under the column margin, and likewise a
    column.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns, n_outputs)
        The table.
    mass : ndarray of shape (n_rows, n_columns)
        Mass of each cell, summing to one.
    receives : bool
        Whether the table holds what larger tensors moved into it, with its error: then how
        far that can grow is measured, where otherwise a bound for any mass will do.

    Returns
    -------
    Solution
    """
    return pair_solver(mass, receives=receives)(values)


def pair_solver(mass: Array, *, receives: bool = False) -> Callable[[Array], Solution]:
    """Return `solve_pair` for tables of one mass, whose equations are factored once."""
    if mass.shape[0] < mass.shape[1]:
        mirrored = pair_solver(mass.T, receives=receives)
        return lambda values: _mirrored(mirrored(values.transpose(1, 0, 2)))
    blocks = _find_blocks(mass)
    laplacian = _laplacian(mass, inverse_mass(blocks.row_mass))
    solve_columns, condition = _factor(laplacian, blocks)
    if solve_columns is None:
        return lambda values: solve_weakly_linked_pair(values, mass)
    system = _SchurSystem(blocks, laplacian, solve_columns, "direct")
    return lambda values: _solve(values, mass, system, condition if receives else 0.0)


def _mirrored(solution: Solution) -> Solution:
    """Return the solution for the table with rows and columns exchanged."""
    return replace(solution, pure=solution.pure.transpose(1, 0, 2), moved=solution.moved[::-1])


def solve_weakly_linked_pair(values: Array, mass: Array) -> Solution:
    """Purify a pair table whose connected blocks are joined by almost no mass.

    The eigenvectors of the scaled normal equations of the columns with eigenvalues below
    1e-14 are directions that the mass does not identify in double precision. They are left
    out, like the constants of separate blocks, and counted. The error is then that of
    leaving them out: at most what any mass can move, and what was moved.
    """
    blocks = _find_blocks(mass)
    row_mass, column_mass = blocks.row_mass, blocks.column_mass
    inverse_rows = inverse_mass(row_mass)
    laplacian = _laplacian(mass, inverse_rows)
    eigenvalues, basis = _eigenvectors(laplacian, column_mass)
    null = eigenvalues < _LEAST_EIGENVALUE
    inverse = np.where(null, 0.0, 1 / np.where(null, 1.0, eigenvalues))

    def solve_columns(right: Array) -> Array:
        return np.asarray(basis @ (inverse[:, None] * (basis.T @ right)))

    system = _SchurSystem(blocks, laplacian, solve_columns, "direct, eigenvectors")
    if int(null.sum()) == blocks.n_blocks:
        return _solve(values, mass, system)
    weighted = mass[:, :, None] * values
    of_rows, of_columns = _sweep(system, mass, weighted.sum(axis=1), weighted.sum(axis=0))
    # Least norm: no part along a null direction (n_rows, n_columns) of the joint system.
    null_columns = basis[:, null]
    null_rows = -inverse_rows[:, None] * (mass @ null_columns)
    along = null_rows.T @ (row_mass[:, None] * of_rows)
    along += null_columns.T @ (column_mass[:, None] * of_columns)
    of_rows -= null_rows @ along / 2
    of_columns -= null_columns @ along / 2
    size = max(largest_entry(part) for part in (of_rows, of_columns))
    largest = largest_entry(values)
    error = longest_path(mass.shape) * largest + size
    return _solution(values, system, of_rows, of_columns, int(null.sum()) - 1, error)


def label_blocks(
    first: Cells, second: Cells, shape: tuple[int, ...]
) -> tuple[Indices, Indices, int]:
    """Label the connected blocks of a table's rows and columns.

    Without a kernel, which the tables of shallow trees would not need otherwise.

    Parameters
    ----------
    first, second : ndarray of int, shape (n_cells,)
        Row and column of each cell that has rows or mass; cells may be repeated.
    shape : tuple of two ints
        Number of rows and columns.

    Returns
    -------
    of_rows, of_columns : ndarray of int
        Block of each row and column, from 0 on in the order of their first rows; -1 where no
        cell has mass.
    n_blocks : int
    """
    one, other = first.astype(np.intp), shape[0] + second.astype(np.intp)
    nodes = np.arange(sum(shape))
    has_mass = np.zeros(len(nodes), dtype=bool)
    has_mass[one] = has_mass[other] = True
    # Each node leads to a smaller one of its block or to itself.
    leads_to = nodes.copy()
    while len(one):
        np.minimum.at(leads_to, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(leads_to, further := leads_to[leads_to]):
            leads_to = further
        one, other = leads_to[one], leads_to[other]
        is_apart = one != other
        one, other = one[is_apart], other[is_apart]
    block = np.full(len(nodes), -1, dtype=np.intp)
    starts, block[has_mass] = np.unique(leads_to[has_mass], return_inverse=True)
    return block[: shape[0]], block[shape[0] :], len(starts)


def longest_path(shape: tuple[int, ...]) -> int:
    """Return how many times larger than the entries of a pair its parts can be, for any mass.

    With the sign of one side turned, the parts are potentials on a graph whose edges are the
    cells. By the matrix-tree theorem the least-squares solution is a mean over spanning
    trees of those that fit a tree exactly, where potentials differ by a sum of entries along
    a path. The least norm centres them.
    """
    return min(2 * min(shape), sum(shape) - 1)


@dataclass(frozen=True, eq=False)
class _SchurSystem:
    """The normal equations of a pair, with a solve of its Schur complement."""

    blocks: _Blocks
    laplacian: Array
    solve_columns: Callable[[Array], Array]
    method: str


def _solve(
    values: Array, mass: Array, system: _SchurSystem, reciprocal_condition: float = 0.0
) -> Solution:
    blocks = system.blocks
    slices = mass_slices(values, mass)

    def solve(means: Array) -> Array:
        columns, rows = slices.layout.split(means)
        totals = blocks.row_mass[:, None] * rows, blocks.column_mass[:, None] * columns
        of_rows, of_columns = _least_norm(blocks, *_sweep(system, mass, *totals))
        return slices.layout.join([of_columns, of_rows], means.shape[1])

    refined = refine_parts(slices, solve)
    of_columns, of_rows = slices.layout.split(refined.parts)
    error = _refined_error(refined, blocks, system.laplacian, mass, system.solve_columns)
    if error is None:
        largest = largest_entry(values)
        size = largest_entry(refined.parts)
        error = longest_path(mass.shape) * largest + size
    solution = _solution(values, system, of_rows, of_columns, blocks.n_blocks - 1, error)
    if reciprocal_condition == 0:
        return solution
    measured = _measure_growth(mass, slices.mass, solve, reciprocal_condition)
    return replace(solution, growth=min(measured, solution.growth))


def _solution(
    values: Array,
    system: _SchurSystem,
    of_rows: Array,
    of_columns: Array,
    unidentified: int,
    error: float,
) -> Solution:
    row_mass, column_mass = system.blocks.row_mass, system.blocks.column_mass
    moved = _fill_empty(values, of_rows, of_columns, row_mass, column_mass)
    scale = largest_entry(values)
    return Solution(
        pure=move_out(values, moved),
        moved=moved,
        unidentified=unidentified,
        empty_slices=int(np.sum(row_mass == 0) + np.sum(column_mass == 0)),
        error=error / scale if scale > 0 else 0.0,
        method=system.method,
        growth=float(longest_path((len(row_mass), len(column_mass)))),
        is_bound=True,
    )


def _find_blocks(mass: Array) -> _Blocks:
    row_mass, column_mass = mass.sum(axis=1), mass.sum(axis=0)
    rows, columns = np.nonzero(mass)
    row_block, column_block, n_blocks = label_blocks(rows, columns, mass.shape)
    filled = column_block >= 0
    masses = np.bincount(column_block[filled], column_mass[filled], n_blocks)
    block_mass = np.asarray(masses, dtype=np.float64)
    return _Blocks(row_mass, column_mass, row_block, column_block, n_blocks, block_mass)


def _eigenvectors(laplacian: Array, column_mass: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors of the columns' equations, scaled by their mass.

    ``eigh`` is wrong by rounding of the largest eigenvalue. The small ones are found again
    from ``x' S y = sum of S_jk (x_j - x_k) (y_k - y_j)`` over pairs of columns, where nothing
    cancels: they are right to about eight digits at 1e-14, whatever the order of the sums.
    """
    filled, scaling = column_mass > 0, np.sqrt(inverse_mass(column_mass))
    scaled = laplacian * scaling[:, None] * scaling
    eigenvalues, vectors = np.linalg.eigh(scaled[filled][:, filled])
    basis = np.zeros((len(laplacian), int(filled.sum())))
    basis[filled] = vectors
    basis *= scaling[:, None]
    weak = eigenvalues < _WEAK
    slow = basis[:, weak]
    small = np.zeros((slow.shape[1], slow.shape[1]))
    for column in range(len(laplacian)):
        difference = slow[:column] - slow[column]
        small -= difference.T @ (laplacian[:column, column, None] * difference)
    eigenvalues[weak], turn = np.linalg.eigh(small)
    basis[:, weak] = slow @ turn
    return eigenvalues, basis


def _laplacian(mass: Array, inverse_rows: Array) -> Array:
    """Return the Schur complement of the columns' normal equations."""
    half = mass * np.sqrt(inverse_rows)[:, None]
    coupling = half.T @ half
    # A Laplacian's diagonal is minus the sum of its other entries. Taking it from there, not
    # from diag(c) - ..., keeps weak links between blocks to full relative precision.
    np.fill_diagonal(coupling, 0.0)
    laplacian = -coupling
    np.fill_diagonal(laplacian, coupling.sum(axis=1))
    return laplacian


def _fill_empty(
    values: Array, of_rows: Array, of_columns: Array, row_mass: Array, column_mass: Array
) -> tuple[Array, Array]:
    """Give rows and columns without mass their mean under the margin of the other feature."""
    empty_rows, empty_columns = row_mass == 0, column_mass == 0
    filled_rows, filled_columns = of_rows, of_columns
    if empty_rows.any():
        rest = values[empty_rows] - of_columns
        filled_rows = of_rows.copy()
        filled_rows[empty_rows] = np.einsum("ijk,j->ik", rest, column_mass)
    if empty_columns.any():
        rest = values[:, empty_columns] - of_rows[:, None]
        filled_columns = of_columns.copy()
        filled_columns[empty_columns] = np.einsum("ijk,i->jk", rest, row_mass)
    return filled_columns, filled_rows


def _factor(laplacian: Array, blocks: _Blocks) -> tuple[Callable[[Array], Array] | None, float]:
    """Factor the deflated Schur complement; None where it is close to singular.

    The number is its reciprocal condition, as estimated.
    """
    from scipy.linalg import lapack

    column_mass = blocks.column_mass
    scaling = np.sqrt(inverse_mass(column_mass))
    schur = laplacian * scaling[:, None] * scaling
    # The constants of each block, all of them at once: no column is in two.
    of_columns = blocks.of_columns
    null = np.sqrt(column_mass * inverse_mass(blocks.mass)[of_columns])
    schur += np.multiply.outer(null, null) * np.equal.outer(of_columns, of_columns)
    schur[column_mass == 0, column_mass == 0] = 1.0
    norm = float(np.abs(schur).sum(axis=0).max())
    cholesky, failed = lapack.dpotrf(schur, lower=1)
    reciprocal_condition = 0.0
    if not failed:
        reciprocal_condition, _ = lapack.dpocon(cholesky, norm, uplo="L")
    if reciprocal_condition < LEAST_RECIPROCAL_CONDITION:
        return None, 0.0

    def solve_columns(right: Array) -> Array:
        solved, _ = lapack.dpotrs(cholesky, scaling[:, None] * right, lower=1)
        return np.asarray(scaling[:, None] * solved)

    return solve_columns, float(reciprocal_condition)


def _sweep(
    system: _SchurSystem, mass: Array, row_total: Array, column_total: Array
) -> tuple[Array, Array]:
    """Return the parts of rows and columns with these totals, up to constants of the blocks."""
    inverse_rows = inverse_mass(system.blocks.row_mass)[:, None]
    right = column_total - mass.T @ (inverse_rows * row_total)
    of_columns = system.solve_columns(right)
    return inverse_rows * (row_total - mass @ of_columns), of_columns


def _least_norm(blocks: _Blocks, of_rows: Array, of_columns: Array) -> tuple[Array, Array]:
    """Split the mean of each block evenly between rows and columns."""
    of_rows, of_columns = of_rows.copy(), of_columns.copy()
    for block, block_mass in enumerate(blocks.mass):
        rows, columns = blocks.of_rows == block, blocks.of_columns == block
        row_mean = blocks.row_mass[rows] @ of_rows[rows] / block_mass
        column_mean = blocks.column_mass[columns] @ of_columns[columns] / block_mass
        shift = (column_mean - row_mean) / 2
        of_rows[rows] += shift
        of_columns[columns] -= shift
    return of_rows, of_columns


def _measure_growth(
    mass: Array,
    slice_mass: Array,
    solve: Callable[[Array], Array],
    reciprocal_condition: float,
) -> float:
    """Return the largest parts that a pair with entries of at most one can have.

    They are the largest sum over the cells of what one cell does to one part, with a bound
    of its rounding.

    Parameters
    ----------
    mass : ndarray of shape (n_rows, n_columns)
        Mass of each cell.
    slice_mass : ndarray of shape (n_columns + n_rows,)
        Mass of the columns and rows.
    solve : callable
        From the conditional means in columns and rows to the parts there.
    reciprocal_condition : float
        Of the equations, as estimated: up to ten times too large.

    Returns
    -------
    float
        The growth; infinite for tables that are too large to measure it.
    """
    n_slices, n_columns = len(slice_mass), mass.shape[1]
    if n_slices * mass.size > _MOST_MEASURED:
        return float("inf")
    inverse = inverse_mass(slice_mass)
    of_columns, of_rows = mass * inverse[:n_columns], mass * inverse[n_columns:, None]
    answers = solve(np.eye(n_slices))[slice_mass > 0]
    largest = max(
        float(np.abs(answer[:n_columns] * of_columns + answer[n_columns:, None] * of_rows).sum())
        for answer in answers
    )
    least = 0.1 * reciprocal_condition
    lightest = float(np.sqrt(slice_mass[slice_mass > 0].min()))
    return largest + 4 * float(n_slices**1.5) * ROUNDING / least**2 / lightest


def _refined_error(
    refined: Refined,
    blocks: _Blocks,
    laplacian: Array,
    mass: Array,
    solve_columns: Callable[[Array], Array],
) -> float | None:
    """Return a bound of the largest error of the parts; None where none can be proved.

    The error of the columns' parts solves the equations of the Laplacian with what the
    refined parts leave on the right. Without one column of each block, a Laplacian is an
    M-matrix, whose inverse has no negative entries: so ``S x >= h`` bounds by `x` whatever
    right sides within `h` can cause. `x` is found approximately, the inequality is checked.
    """
    of_columns, of_rows = refined.means[: len(mass.T)], refined.means[len(mass.T) :]
    right = blocks.column_mass * of_columns + mass.T @ of_rows
    grounds = [
        int(np.argmax(np.where(blocks.of_columns == block, blocks.column_mass, -1.0)))
        for block in range(blocks.n_blocks)
    ]
    in_block = blocks.of_columns >= 0
    target = right.copy()
    sums = np.bincount(blocks.of_columns[in_block], right[in_block], blocks.n_blocks)
    target[grounds] -= sums
    majorant = solve_columns(target[:, None])[:, 0]
    majorant[in_block] -= majorant[grounds][blocks.of_columns[in_block]]
    differences = np.subtract.outer(majorant, majorant)
    image = -np.einsum("jk,jk->j", laplacian, differences)
    # Rounding of the Laplacian's own entries, which cancel nowhere, and of this sum.
    slack = (4 * sum(mass.shape) + 16) * ROUNDING
    image -= slack * np.einsum("jk,jk->j", np.abs(laplacian), np.abs(differences))
    checked = in_block.copy()
    checked[grounds] = False
    if not np.all(image[checked] >= 0.5 * right[checked]):
        return None
    spread = 2 * float(np.max(majorant[in_block], initial=0.0))
    spread += float(np.max(of_rows, initial=0.0))
    size = largest_entry(refined.parts)
    # Once for the errors and once for their mean, which the least norm takes out; then the
    # rounding of that mean and of the parts themselves.
    return 2 * spread + (sum(mass.shape) + 8) * ROUNDING * size
