"""Project one tree where fewer joint cells have rows than there are unknowns: by the rows.

Of all sums of tables that fit equally well, the one of least norm is a combination of one function
for each row, with the inner products that reproduce values at the rows (a kernel, as in Wahba
1990, section 1.3). So there are as many equations as rows.
"""

from itertools import groupby

import numpy as np

from treepurify._kernels.project_tree import gather
from treepurify.engines.tree.direct_solve import RANK_TOLERANCE
from treepurify.engines.tree.iterative_solve import Independent, row_entries
from treepurify.engines.tree.tree_problem import TreeFit, TreeProblem, independent_anova
from treepurify.typing import Array

__all__ = ["row_work", "solve_by_rows"]

# Eigenvalues round to a few parts of the largest; beside the rank tolerance that is to be small.
_MOST_ROUNDING = 0.1


def solve_by_rows(problem: TreeProblem) -> TreeFit | None:
    """Return the projection of least norm; None where rounding hides what rows determine.

    With K the kernel of the rows and W their weights, the values of the projection at the rows are
    those of the eigenvectors of ``sqrt(W) K sqrt(W)`` whose eigenvalues are not zero; these are the
    eigenvalues of the normal equations in the norm.

    Parameters
    ----------
    problem : TreeProblem
        Without a uniform share.
    """
    root = np.sqrt(problem.weights)[:, None]
    matrix = root * _kernel(problem) * root.T
    eigenvalues, vectors = np.linalg.eigh(matrix)
    # Rows of little mass in cells of little mass have kernels that dwarf all others.
    rounding = np.finfo(float).eps * max(float(eigenvalues[-1]), 0.0)
    if rounding > _MOST_ROUNDING * RANK_TOLERANCE:
        return None
    is_met = eigenvalues >= RANK_TOLERANCE
    eigenvalues, vectors = eigenvalues[is_met], vectors[:, is_met]
    values = root * problem.target
    target = vectors.T @ values
    weighted = vectors @ (target / eigenvalues[:, None])
    left = target - vectors.T @ (matrix @ weighted)
    # The rounding of an eigenvector lets in what belongs to the others.
    left = np.abs(left) + rounding * np.linalg.norm(values, axis=0) / eigenvalues[:, None]
    error = np.sqrt(((left**2) / eigenvalues[:, None]).sum(axis=0))
    terms, independent = problem.terms, Independent.of(problem)
    entries, ones = row_entries(terms, problem.cells), np.ones(len(problem.cells))
    size = int(terms.base[-1])
    flat = [
        independent.solution(gather(entries, np.ascontiguousarray(column), ones, size))
        for column in (root * weighted).T
    ]
    tables = terms.spread(np.column_stack(flat))
    independent_anova(problem, tables)
    rank = int(is_met.sum())
    undetermined = _cells_with_mass(problem) - rank
    return TreeFit(terms.family_tables(tables), undetermined, float(error.max()))


def row_work(problem: TreeProblem) -> float:
    """Return how many nanoseconds of one core it takes, as measured."""
    n_rows = len(problem.cells)
    return n_rows**3 / 4 + 3 * len(problem.terms.family) * n_rows**2


def _kernel(problem: TreeProblem) -> Array:
    """Return the inner products of the rows' functions, shape (n_rows, n_rows).

    For one feature it is one over the mass of the cell where two rows share it, less one; for a set
    of features the product; and the sum over all sets.
    """
    positions = [tuple(problem.terms.position[j] for j in s) for s in problem.terms.family]
    of_one = []
    for cell, margin in zip(problem.cells.T, problem.margins, strict=True):
        per_mass = np.divide(1.0, margin, out=np.zeros_like(margin), where=margin > 0)
        of_one.append(np.where(cell[:, None] == cell, per_mass[cell], 0.0) - 1.0)
    return _sum_of_products(positions, of_one)


def _sum_of_products(sets: list[tuple[int, ...]], of_one: list[Array]) -> Array:
    """Return the sum of the products over sets of features."""
    total = np.full_like(of_one[0], float(() in sets))
    for first, longer in groupby(sorted(s for s in sets if s), key=lambda positions: positions[0]):
        total += of_one[first] * _sum_of_products([s[1:] for s in longer], of_one)
    return total


def _cells_with_mass(problem: TreeProblem) -> int:
    """Return how many cells have mass, those of reference of each feature left out."""
    terms, heaviest = problem.terms, [int(np.argmax(m)) for m in problem.margins]
    # Rows of weight zero fill no cell, as they fill none of the normal equations.
    weighed = problem.cells[problem.weights > 0]
    count = 0
    for subset in terms.family:
        positions = [terms.position[j] for j in subset]
        cells = weighed[:, positions]
        beside = np.all(cells != np.array([heaviest[p] for p in positions], dtype=int), axis=1)
        shape = terms.shape(subset)
        flat = np.ravel_multi_index(tuple(cells[beside].T), shape) if subset else np.zeros(1, int)
        count += len(np.unique(flat))
    return count
