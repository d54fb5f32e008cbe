"""Project one tree by conjugate gradients, where its normal equations are too large."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.family_tables import anova
from treepurify._kernels.project_tree import gather, rows_image, term_entries
from treepurify.engines.tree.tree_problem import (
    TreeFit,
    TreeProblem,
    TreeTerms,
    independent_anova,
)
from treepurify.purification.conjugate_gradients import smallest_ritz_value
from treepurify.typing import Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Independent", "row_entries", "solve_by_steps"]

_MOST_STEPS = 1000
# The estimate of the least eigenvalue reaches the true one in the last steps only.
_CAUTION = 10.0
# It is estimated after so many steps, and again whenever these are a tenth more.
_STEPS_BEFORE_CHECK = 8


def solve_by_steps(problem: TreeProblem, tolerance: float) -> TreeFit:
    """Return the projection of least norm, to a tolerance.

    The preconditioner is the inverse of the normal equations where features keep their margins
    and are independent: divide by the product of the margins and take the functional ANOVA.
    Under it, steps from zero have the same limit as a direct solve, the solution of least norm.
    They stop where the residual over the least eigenvalue met, an estimate of the error of the
    tables, is below `tolerance` times the standard deviation of the tree.
    """
    terms = problem.terms
    entries = row_entries(terms, problem.cells)
    goal = tolerance * problem.spread()
    flat = np.zeros((int(terms.base[-1]), problem.target.shape[1]))
    steps, error, converged = 0, 0.0, True
    for output in range(flat.shape[1]):
        residual = gather(
            entries, np.ascontiguousarray(problem.target[:, output]), problem.weights, len(flat)
        )
        if problem.share > 0:
            residual += problem.uniform_products[:, output]
        run = _conjugate_gradients(problem, entries, residual, goal)
        flat[:, output] = run.solution
        steps += run.steps
        error = max(error, run.error)
        converged = converged and run.error <= goal
    tables = terms.spread(flat)
    independent_anova(problem, tables)
    return TreeFit(terms.family_tables(tables), 0, error, steps, converged)


@dataclass(frozen=True, eq=False)
class _Run:
    solution: Array
    steps: int
    error: float


def _conjugate_gradients(
    problem: TreeProblem, entries: npt.NDArray[Any], residual: Array, goal: float
) -> _Run:
    independent = Independent.of(problem)
    solution = np.zeros_like(residual)
    preconditioned = independent.solution(residual)
    direction = preconditioned
    energy = first = float((residual * preconditioned).sum())
    lengths: list[float] = []
    turns: list[float] = []
    least, next_check = 1.0, _STEPS_BEFORE_CHECK
    while energy > 0 and len(lengths) < _MOST_STEPS and _CAUTION * np.sqrt(energy) / least > goal:
        image = rows_image(entries, direction, problem.weights)
        if problem.share > 0:
            image += problem.share * _product_image(problem, direction)
        curvature = float((direction * image).sum())
        # A direction flatter than rounding holds nothing but rounding.
        if curvature <= np.finfo(float).eps * energy or energy <= 1e-30 * first:
            break
        length = energy / curvature
        solution += length * direction
        residual = residual - length * image
        preconditioned = independent.solution(residual)
        renewed = float((residual * preconditioned).sum())
        lengths.append(length)
        turns.append(renewed / energy)
        direction = preconditioned + turns[-1] * direction
        energy = renewed
        if len(lengths) >= next_check:
            next_check += max(_STEPS_BEFORE_CHECK, next_check // 10)
            least = min(least, smallest_ritz_value(lengths, turns))
    return _Run(solution, len(lengths), _CAUTION * float(np.sqrt(max(energy, 0.0))) / least)


def row_entries(terms: TreeTerms, cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the entry of each term's table that each row falls into."""
    layout = terms.layout
    sets = [terms.family.index(subset) for subset in terms.subsets]
    sizes = layout.sizes[sets]
    strides = sizes[:, ::-1].cumprod(axis=1)[:, ::-1] // sizes
    dtype = np.uint16 if terms.base[-1] <= 1 << 16 else np.uint32
    entries = np.empty((len(cells), len(terms.subsets)), dtype=dtype)
    term_entries(cells, layout.features[sets], strides, terms.base, entries)
    return entries


@dataclass(frozen=True, eq=False)
class Independent:
    """The normal equations where features keep their margins and are independent."""

    problem: TreeProblem
    fold: "csr_array"
    spread: "csr_array"
    per_mass: Array
    margins: Array

    @classmethod
    def of(cls, problem: TreeProblem) -> "Independent":
        """Return those of a tree."""
        fold, mass = problem.terms.folding, problem.masses
        per_mass = 1.0 / np.where(mass > 0, mass, 1.0)
        return cls(problem, fold, fold.T.tocsr(), per_mass, np.concatenate(problem.margins))

    def solution(self, products: Array) -> Array:
        """Solve them, given inner products with the cells of the terms."""
        tables = (self.fold @ products) * self.per_mass
        anova(self.problem.terms.layout, self.margins, tables[None], False)
        return np.asarray(self.spread @ tables)


def _product_image(problem: TreeProblem, flat: Array) -> Array:
    """Return the inner products of a sum of tables with all cells under the uniform measure."""
    terms = problem.terms
    tables = np.ascontiguousarray(terms.spread(flat[:, None]).T)
    anova(terms.layout, np.concatenate(problem.uniform), tables, True)
    cells = problem.uniform_cells
    return np.asarray(cells.mass * cells.sums(tables)[0])
