"""Bound the error of the parts that leave a pair table, under any mass."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treepurify.purification.refinement import ROUNDING, Refined
from treepurify.purification.solution import inverse_mass, largest_entry
from treepurify.typing import Array, Integers

__all__ = ["Blocks", "longest_path", "refined_error"]

# Slices times cells: a table of 80 by 80.
_MOST_MEASURED = 1_000_000


@dataclass(frozen=True, eq=False)
class Blocks:
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


def longest_path(shape: tuple[int, ...]) -> int:
    """Return how many times larger than the entries of a pair its parts can be, for any mass.

    With the sign of one side turned, the parts are potentials on a graph whose edges are the
    cells. By the matrix-tree theorem the least-squares solution is a mean over spanning
    trees of those that fit a tree exactly, where potentials differ by a sum of entries along
    a path. The least norm centres them.
    """
    return min(2 * min(shape), sum(shape) - 1)


def measure_growth(
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


def refined_error(
    refined: Refined,
    blocks: Blocks,
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
