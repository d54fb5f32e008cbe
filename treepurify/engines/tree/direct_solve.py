"""Solve the projection on coarse cells by a factorisation, with the solution of least norm."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from treepurify.engines.tree.arrowhead import N_PROBES, ArrowheadFactor, error_probes
from treepurify.engines.tree.coarse_problem import CoarseFit, CoarseProblem
from treepurify.engines.tree.gapped_solve import (
    error_of,
    rounding_of,
    slowest,
    solve_with_gaps,
    start_vector,
)
from treepurify.engines.tree.least_extension import LeastExtension, extend_least
from treepurify.engines.tree.normal_equations import Equations, code_cells, normal_equations
from treepurify.typing import Array, Indices

__all__ = ["solve_directly"]

# A direction is undetermined where its mean square on the rows is below this share of its mean
# square where features are independent. On real data the two sides are far apart: rounding is
# near 1e-14, and what rows determine at all lies above 1e-7.
_RANK_TOLERANCE = 1e-10
# Let singular equations be factored; refinement and the choice of the solution of least norm
# undo what they change. The first is enough unless rounding of thousands of equations is larger.
_RIDGES = (1e-12, 1e-10, 1e-8)
# What rounding may take from the norm of directions, for each of them.
_NORM_RIDGE = 1e-15
# Pivots and eigenvalues of equations scaled to a unit diagonal. Those of undetermined directions
# come out near the ridge; the candidates are then judged by the rank tolerance.
_WEAK = 1e-7

# Below this number of unknowns, a factor in single precision saves less than its steps cost; with
# fewer rows to an unknown, dozens of directions are undetermined.
_MANY_UNKNOWNS, _ROWS_TO_AN_UNKNOWN = 400, 4
# Rounding in single precision is near 1e-7, in pivots and along directions that are undetermined;
# ordinary pivots lie above 1e-2 and eigenvalues above 1e-3. What lies between is left to double
# precision, and so are many undetermined directions, whose steps would cost more.
_SINGLE_RIDGE, _SURE_PIVOT, _SURE_EIGENVALUE = 3e-7, 1e-3, 1e-4
_MOST_WEAK = 16
# A step leaves some 1e-4 of an error.
_MOST_STEPS = 8


def solve_directly(problem: CoarseProblem) -> CoarseFit:
    """Return the projection of least norm, solved to rounding.

    The unknowns are the cells, without one cell of reference for each feature, of every
    set of features in the family of the terms. Cells without mass leave the equations. The
    rest is factored, and where rows leave directions undetermined the least norm picks the
    solution, with the cells without mass. Where it is not sure what is undetermined, a basis of
    what may be comes from inverse iteration, and its eigenvalues decide.

    Raises
    ------
    LinAlgError
        If rounding leaves the equations without a factorisation.
    """
    coding = code_cells(problem)
    equations = normal_equations(problem, coding)
    sides = equations.scaling[:, None] * equations.right
    n_sets = len(problem.terms.family)
    is_ordinary = len(sides) >= _MANY_UNKNOWNS
    is_ordinary = is_ordinary and len(problem.cells) >= _ROWS_TO_AN_UNKNOWN * len(sides)
    solved = _solve_refined(equations, sides, n_sets) if is_ordinary else None
    extension = extend_least(problem, coding, equations)
    if solved is None:
        gapped = solve_with_gaps(equations, extension, sides, n_sets)
        if gapped is not None:
            tables = gapped.tables.T
            return CoarseFit(problem.terms.family_tables(tables), gapped.undetermined, gapped.error)
        factor = next(filter(None, map(equations.factor, _RIDGES)), None)
        if factor is None:
            raise np.linalg.LinAlgError("the normal equations are not positive definite")
        solved = _solve_factored(equations, factor, sides)
    tables, undetermined, error = _least_norm(problem, extension, solved)
    return CoarseFit(problem.terms.family_tables(tables), undetermined, error)


@dataclass(frozen=True, eq=False)
class _Solved:
    """A solution, and what is left to decide along directions that may be undetermined.

    `null` is a basis of these, orthogonal to the solution; `curvature` is the equations' matrix
    along them and `pull` their right side. The last columns of both are those of the probes of the
    error.
    """

    solution: Array
    null: Array
    curvature: Array
    pull: Array


def _solve_refined(equations: Equations, right: Array, n_sets: int) -> _Solved | None:
    """Solve with a factor in single precision, refined in double; None where that is not enough.

    It takes half the time of a factor in double precision. Residuals are those of the exact matrix,
    and steps go on until they are rounding in double precision, for the solution and for each
    direction that is undetermined.
    """
    n_outputs, size = right.shape[1], len(right)
    factor = equations.factor(_SINGLE_RIDGE, np.float32)
    if factor is None:
        return None
    weak = np.flatnonzero(factor.diagonal() ** 2 < _SURE_PIVOT)
    if len(weak) > _MOST_WEAK:
        return None
    null = _orthonormal(factor.solve_upper(_units(size, weak)))
    others = _without(factor.solve(np.column_stack([right, start_vector(size)])), null)
    for _ in range(_MOST_STEPS):
        solution, slow = others[:, :n_outputs], others[:, n_outputs:]
        images = equations.image(np.column_stack([solution, null]))
        left = np.column_stack([right, np.zeros_like(null)]) - images
        rounding = rounding_of(np.column_stack([solution, null]), n_sets)
        if np.all(np.linalg.norm(left, axis=0) <= rounding):
            least = 1.0 / float(np.linalg.norm(slow))
            if least < _SURE_EIGENVALUE:
                return None
            return _solved(equations, factor, right, solution, null, images)
        sides = left[:, :n_outputs], slow / np.linalg.norm(slow), left[:, n_outputs:]
        solved = factor.solve(np.column_stack(sides))
        null = _orthonormal(null + solved[:, n_outputs + 1 :])
        others = np.column_stack([solution, np.zeros(size)]) + solved[:, : n_outputs + 1]
        others = _without(others, null)
    return None


def _solve_factored(equations: Equations, factor: ArrowheadFactor, right: Array) -> _Solved:
    """Solve equations of unit diagonal, which may be singular, with the factor with the ridge.

    Inverse iteration gives a basis of the directions that may be undetermined.
    """
    size = len(right)
    weak = np.flatnonzero(factor.diagonal() ** 2 < _WEAK)
    # Half an inverse iteration; the whole one that follows makes them exact.
    null = _orthonormal(factor.solve(_orthonormal(factor.solve_upper(_units(size, weak)))))
    # A direction that hardly holds the last of its unknowns has no weak pivot.
    slow, least = slowest(factor, partial(_without, basis=null), size)
    while least < _WEAK:
        null = np.column_stack([null, _orthonormal(_without(slow, null))])
        slow, least = slowest(factor, partial(_without, basis=null), size)
    # What is flat but determined, and still in them, would go where they go.
    null = _orthonormal(factor.solve(null))
    solution = np.zeros_like(right)
    for _ in range(2):
        left = right - equations.image(solution)
        solution = _without(solution + factor.solve(left), null)
    images = equations.image(np.column_stack([solution, null]))
    return _solved(equations, factor, right, solution, null, images)


def _solved(
    equations: Equations,
    factor: ArrowheadFactor,
    right: Array,
    solution: Array,
    null: Array,
    images: Array,
) -> _Solved:
    """Return a solution with probes of its error; `images` are those of it and the directions."""
    n_outputs = right.shape[1]
    residual = right - images[:, :n_outputs]
    magnitudes = equations.image(np.abs(solution))
    probes = error_probes(_without(residual, null), magnitudes)
    along = _without(factor.solve(probes), null)
    pull = null.T @ np.column_stack([residual, probes])
    return _Solved(np.column_stack([solution, along]), null, null.T @ images[:, n_outputs:], pull)


def _units(size: int, places: Indices) -> Array:
    """Return the unit vectors of some places."""
    units = np.zeros((size, len(places)))
    units[places, np.arange(len(places))] = 1.0
    return units


def _orthonormal(vectors: Array) -> Array:
    """Return an orthonormal basis of what vectors span; most often there are none."""
    return np.linalg.qr(vectors)[0] if vectors.shape[1] else vectors


def _without(vectors: Array, basis: Array) -> Array:
    """Return the part of vectors that is orthogonal to a basis."""
    return vectors - basis @ (basis.T @ vectors) if basis.shape[1] else vectors


def _least_norm(
    problem: CoarseProblem, extension: LeastExtension, solved: _Solved
) -> tuple[Array, int, float]:
    """Return the tables of least norm, in one array, how many directions are free, and the error.

    The norm is the mean square where features are independent. Given the cells with mass, those
    without minimise it; what remains is a small problem along the undetermined directions. It
    is posed in the functional ANOVA of the solution and the directions, whose components are
    orthogonal.
    """
    n_solved = solved.solution.shape[1]
    vectors = np.ascontiguousarray(np.column_stack([solved.solution, solved.null]).T)
    tables, undetermined = extension.tables(vectors).T, 0
    if solved.null.shape[1]:
        from scipy.linalg import eigh

        norm = tables.T @ (problem.masses[:, None] * tables)
        # Where weights are very different, directions can be all but the same in the norm.
        own = norm[n_solved:, n_solved:]
        own[np.diag_indices_from(own)] *= 1 + _NORM_RIDGE * len(own)
        # The eigenvectors are orthonormal in the norm.
        eigenvalues, directions = eigh(solved.curvature, own)
        is_free = eigenvalues < _RANK_TOLERANCE
        fixed, along = directions[:, ~is_free], directions[:, is_free]
        shares = fixed @ ((fixed.T @ solved.pull) / eigenvalues[~is_free, None])
        against = norm[n_solved:, :n_solved] + own @ shares
        shares -= along @ (along.T @ against)
        tables = tables[:, :n_solved] + tables[:, n_solved:] @ shares
        undetermined = int(is_free.sum())
    return tables[:, :-N_PROBES], undetermined, error_of(problem, tables[:, -N_PROBES:].T)
