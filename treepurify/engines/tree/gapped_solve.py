"""Solve the equations of coarse cells where rows leave hundreds of directions undetermined.

Equations that depend on others are left out of the factor, as gaps. Their unknowns are zero in its
solutions, and each gap is one direction that rows leave undetermined. So these come from one
triangular solve, and inner products decide which combination has the least norm. What the factor
rounds, steps of single vectors repair: an orthonormal basis of the directions, by inverse
iteration, would take two to three times as long.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treepurify.engines.tree.arrowhead import N_PROBES, ArrowheadFactor, error_probes
from treepurify.engines.tree.coarse_problem import CoarseProblem
from treepurify.engines.tree.least_extension import LeastExtension
from treepurify.engines.tree.normal_equations import Equations
from treepurify.typing import Array

__all__ = [
    "GappedSolution",
    "error_of",
    "rounding_of",
    "slowest",
    "solve_with_gaps",
    "start_vector",
]

# Pivots of equations scaled to a unit diagonal. On real data, those of equations that depend on
# others come out below 1e-10 and the rest above 1e-5; where all directions together may lie above
# the former, more careful ways must judge them.
_LEAST_PIVOT = 1e-7
_SURELY_UNDETERMINED = 1e-7
# A step leaves some 1e-4 of an error; what rounding leaves is found after three, unless inner
# products are themselves rounding.
_MOST_STEPS = 6
_SMALL_CHANGE, _LARGE_CHANGE = 1e-13, 1e-8
# Residuals of rounding reach a few times what is expected.
_MOST_ROUNDINGS = 100.0


@dataclass(frozen=True, eq=False)
class GappedSolution:
    """The solution of least norm.

    Parameters
    ----------
    tables : ndarray of float64, shape (n_outputs, entries of the family)
        Its tables.
    undetermined : int
        How many directions rows leave undetermined.
    error : float
        Estimated norm of its error.
    """

    tables: Array
    undetermined: int
    error: float


def solve_with_gaps(
    equations: Equations, extension: LeastExtension, right: Array, n_sets: int
) -> GappedSolution | None:
    """Solve equations of unit diagonal; None where it is not sure which depend on others.

    Parameters
    ----------
    equations : Equations
        The equations.
    extension : LeastExtension
        The norm of what solves them.
    right : ndarray of float64, shape (n, n_outputs)
        Their right sides.
    n_sets : int
        How many sets of features they have, for what is rounding.
    """
    opened = _open(equations, extension)
    if opened is None:
        return None
    factor, norm = opened
    solution, change = factor.solve(right), np.inf
    for _ in range(_MOST_STEPS):
        before, solution = change, solution + factor.solve(right - equations.image(solution))
        along, change = _undetermined_part(equations, factor, extension, norm, solution)
        solution = solution - along
        if change <= _SMALL_CHANGE or change > before / 2:
            break
    residual = right - equations.image(solution)
    most = _MOST_ROUNDINGS * rounding_of(solution, n_sets)
    if change > _LARGE_CHANGE or np.any(np.linalg.norm(residual, axis=0) > most):
        return None
    probe = factor.solve(error_probes(residual, equations.image(np.abs(solution))))
    along, _ = _undetermined_part(equations, factor, extension, norm, probe)
    both = extension.tables(np.ascontiguousarray(np.column_stack([solution, probe - along]).T))
    tables, probed = both[:-N_PROBES], both[-N_PROBES:]
    error = error_of(extension.problem, probed) + change * error_of(extension.problem, tables)
    return GappedSolution(tables, len(norm.directions), error)


def _open(
    equations: Equations, extension: LeastExtension
) -> "tuple[ArrowheadFactor, _Projector] | None":
    """Return the factor and what it leaves open; None where that may be determined after all."""
    gapped = equations.factor_with_gaps(_LEAST_PIVOT)
    directions = np.ascontiguousarray(gapped.directions().T)
    try:
        norm = _Projector.of(directions, extension.norms(directions))
    except np.linalg.LinAlgError:
        return None
    largest = norm.largest_share(np.abs(gapped.pivots[gapped.gaps]))
    return (gapped.factor, norm) if largest <= _SURELY_UNDETERMINED else None


@dataclass(frozen=True, eq=False)
class _Projector:
    """Projections on directions, orthogonal in some inner product."""

    directions: Array
    scaling: Array
    factor: Array

    @classmethod
    def of(cls, directions: Array, products: Array) -> "_Projector":
        """Return those of directions with these inner products, scaled to a unit diagonal."""
        scaling = 1 / np.sqrt(products.diagonal())
        factor = np.linalg.cholesky(products * scaling[:, None] * scaling)
        return cls(directions, scaling, np.asarray(factor))

    def shares(self, products: Array) -> Array:
        """Return the shares of the directions in vectors with these products with them."""
        from scipy.linalg import cho_solve

        scaled = cho_solve((self.factor, True), self.scaling[:, None] * products)
        return np.asarray(self.scaling[:, None] * scaled)

    def largest_share(self, curvatures: Array) -> float:
        """Bound the largest curvature in the inner product, from those along the directions.

        A matrix that is not negative is at most its trace, and an inverse at most its entries'
        root of the sum of squares.
        """
        from scipy.linalg.lapack import dtrtri

        if not len(self.directions):
            return 0.0
        inverse, _ = dtrtri(self.factor, lower=1)
        return float((curvatures * self.scaling**2).sum() * np.linalg.norm(inverse.T @ inverse))


def _undetermined_part(
    equations: Equations,
    factor: ArrowheadFactor,
    extension: LeastExtension,
    norm: _Projector,
    solution: Array,
) -> tuple[Array, float]:
    """Return the part of a solution along the directions in the norm, and its relative size.

    Directions hold what the factor rounds; solving for the images of two vectors removes it from
    their inner products with the solution, and from the part.
    """
    if not len(norm.directions):
        return np.zeros_like(solution), 0.0
    slopes = extension.slopes(extension.tables(np.ascontiguousarray(solution.T))).T
    clean = slopes - equations.image(factor.solve(slopes))
    products = norm.directions @ clean
    shares = norm.shares(products)
    part = norm.directions.T @ shares
    size = float(np.sqrt(np.max((shares * products).sum(axis=0), initial=0.0)))
    length = float(np.sqrt(np.max((solution * slopes).sum(axis=0), initial=0.0)))
    return part - factor.solve(equations.image(part)), size / (length or 1.0)


def slowest(
    factor: ArrowheadFactor, remove: Callable[[Array], Array], size: int
) -> tuple[Array, float]:
    """Return the direction of the least eigenvalue of what is determined, and the eigenvalue.

    They come from two inverse iterations; the first has shape (n, 1) and length one.
    """
    slow, length = remove(start_vector(size)[:, None]), 0.0
    for _ in range(2):
        slow = remove(factor.solve(slow / np.linalg.norm(slow)))
        length = float(np.linalg.norm(slow))
    return slow / length, 1.0 / length


def start_vector(size: int) -> Array:
    """Return a vector for inverse iteration, which is not orthogonal to a direction by chance."""
    start = 1 + np.arange(size) / size
    start[1::2] *= -1
    return start


def rounding_of(solution: Array, n_sets: int) -> Array:
    """Return the norm of the rounding of each output's residual.

    Blocks of one set of features are diagonal, so the norm of the matrix is at most their number.
    """
    return np.asarray(np.finfo(float).eps * n_sets * np.linalg.norm(solution, axis=0))


def error_of(problem: CoarseProblem, probes: Array) -> float:
    """Return the norm where features are independent of the tables of probes, one a row."""
    return float(np.sqrt((problem.masses * probes**2).sum()))
