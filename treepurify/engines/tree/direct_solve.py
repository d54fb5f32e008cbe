"""Project one tree by factoring its normal equations, with the solution of least norm."""

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from treepurify._kernels.tree_gram import add_rows, scale_equations
from treepurify.engines.tree.arrowhead import Arrowhead, ArrowheadFactor
from treepurify.engines.tree.cell_coding import CellCoding, code_cells
from treepurify.engines.tree.tree_problem import TreeFit, TreeProblem, independent_anova
from treepurify.typing import Array, Indices

__all__ = ["count_unknowns", "solve_directly"]

# A direction is undetermined where its mean square on the rows is below this share of its mean
# square where features are independent. On real data the two sides are far apart: rounding is
# near 1e-14, and what rows determine at all lies above 1e-7.
RANK_TOLERANCE = 1e-10
# Let singular equations be factored; refinement and the choice of the solution of least norm
# undo what they change. The first is enough unless rounding of thousands of equations is larger.
_RIDGES = (1e-12, 1e-10, 1e-8)
# Pivots of equations scaled to a unit diagonal. Those of undetermined directions come out
# near the ridge; the candidates are then judged by the rank tolerance.
_WEAK_PIVOT = 1e-7

# Counts are small integers, so that what a row writes to stays near the processor.
_MOST_COUNT = np.iinfo(np.int32).max


def solve_directly(problem: TreeProblem) -> TreeFit:
    """Return the projection of least norm, solved to rounding.

    The unknowns are the cells, without one cell of reference for each feature, of every
    set of features in the family of the terms. Cells without mass leave the equations. The
    rest is factored; where rows leave directions undetermined, their basis comes from inverse
    iteration, and the least norm picks the solution, with the cells without mass.

    Raises
    ------
    LinAlgError
        If rounding leaves the equations without a factorisation.
    """
    coding = code_cells(problem)
    equations = _normal_equations(problem, coding)
    factor = next(filter(None, map(equations.factor, _RIDGES)), None)
    if factor is None:
        raise np.linalg.LinAlgError("the normal equations are not positive definite")
    sides = equations.scaling[:, None] * equations.right
    solved = _solve_factored(equations, factor, sides, len(problem.terms.family))
    tables, undetermined = _least_norm(problem, coding, equations, solved)
    return TreeFit(problem.terms.family_tables(tables), undetermined, solved.error)


def count_unknowns(problem: TreeProblem) -> tuple[int, float]:
    """Return the number of unknowns, and how many of them are one on a row on average."""
    features = problem.terms.features
    sizes = {j: float(np.sum(m > 0)) - 1 for j, m in zip(features, problem.margins, strict=True)}
    beside = {j: 1 - float(m.max()) for j, m in zip(features, problem.margins, strict=True)}
    family = problem.terms.family
    unknowns = sum(prod(sizes[j] for j in subset) for subset in family)
    return int(unknowns), sum(prod(beside[j] for j in subset) for subset in family)


@dataclass(frozen=True, eq=False)
class _Equations:
    """Normal equations of the unknowns with mass, scaled to a unit diagonal.

    `kept` and `empty` are the unknowns with and without mass, `scaling` what each of the
    former is multiplied with. `right` is not scaled. Neither is `sums`, the matrix of all
    unknowns, which is to be multiplied by `unit`.
    """

    kept: Indices
    empty: Indices
    scaling: Array
    sums: Arrowhead
    unit: float
    right: Array

    def image(self, vectors: Array) -> Array:
        """Return the scaled matrix times vectors."""
        factors = np.sqrt(self.unit) * self.scaling[:, None]
        unscaled = np.zeros((len(self.kept) + len(self.empty), vectors.shape[1]))
        unscaled[self.kept] = factors * vectors
        return np.asarray(factors * self.sums.image(unscaled)[self.kept])

    def factor(self, ridge: float) -> ArrowheadFactor | None:
        """Factor the scaled matrix with `ridge` added to its diagonal, if it is positive."""
        bounds = np.searchsorted(self.kept, self.sums.bounds)
        scaled = Arrowhead.zeros(bounds, len(self.kept), np.float64)
        factors = np.sqrt(self.unit) * self.scaling
        parts = *self.sums.parts(), *scaled.parts()
        scale_equations(self.kept, self.sums.bounds, bounds, factors, *parts)
        return scaled.factor(ridge)


def _normal_equations(problem: TreeProblem, coding: CellCoding) -> _Equations:
    """Sum the normal equations over the rows, and add those of the uniform share.

    Each row writes to the matrix directly, which holds counts where rows weigh the same or are
    several that do, so that what is written stays near the processor. Tables of joint cells of four
    features, of which several inner products can be read, were slower on 30 features and no faster
    on eight; sorted rows wait for each other, since neighbours write to the same place.
    """
    right = np.zeros((len(coding.entries), problem.target.shape[1]))
    counts = _counts(problem)
    unit = 1.0 if counts is None else problem.unit
    weights = problem.weights if counts is None else counts
    sums = Arrowhead.zeros(coding.bounds, len(coding.entries), weights.dtype)
    add_rows(
        problem.cells,
        weights,
        problem.weights,
        problem.target,
        coding.arrays,
        coding.bounds,
        *sums.parts(),
        right,
    )
    if problem.share > 0:
        _add_uniform_part(problem, coding, sums, right)
    mass = unit * sums.diagonal()
    kept, empty = np.flatnonzero(mass > 0), np.flatnonzero(mass == 0)
    return _Equations(kept, empty, 1 / np.sqrt(mass[kept]), sums, unit, right[kept])


def _counts(problem: TreeProblem) -> npt.NDArray[np.int32] | None:
    """Return the weights in units, where integers hold their sum."""
    if problem.share > 0 or problem.unit == 0:
        return None
    counts = np.rint(problem.weights / problem.unit)
    return counts.astype(np.int32) if counts.sum() <= _MOST_COUNT else None


def _add_uniform_part(
    problem: TreeProblem, coding: CellCoding, sums: Arrowhead, right: Array
) -> None:
    """Add what the uniform share of the measure contributes."""
    terms = problem.terms
    right += terms.fold(problem.uniform_products)[coding.entries]
    unknowns = np.arange(len(coding.entries))
    inside, outside = unknowns[: len(sums.border)], unknowns[len(sums.border) :]
    uniform = terms.layout.indicators(coding.entries, problem.uniform)
    for first, last in sums.spans():
        uniform.add_products(inside[first:last], None, sums.blocks[first:last], problem.share)
    uniform.add_products(inside, outside, sums.border, problem.share)
    uniform.add_products(outside, None, sums.rest, problem.share)


@dataclass(frozen=True, eq=False)
class _Solved:
    """A solution, and what is left to decide along directions that may be undetermined.

    `null` is a basis of these, orthogonal to the solution; `curvature` is the equations' matrix
    along them and `pull` their right side.
    """

    solution: Array
    null: Array
    curvature: Array
    pull: Array
    error: float


def _solve_factored(
    equations: _Equations, factor: ArrowheadFactor, right: Array, n_sets: int
) -> _Solved:
    """Solve equations of unit diagonal, which may be singular, with the factor with the ridge.

    Further right sides give a basis of the directions that may be undetermined, and the
    least eigenvalue of the others, both by inverse iteration: the residual over that eigenvalue
    bounds the error.
    """
    n_outputs, size = right.shape[1], len(right)
    weak = np.flatnonzero(factor.diagonal() ** 2 < _WEAK_PIVOT)

    def split(solved: Array) -> tuple[Array, Array, Array]:
        basis = np.linalg.qr(solved[:, n_outputs + 1 :])[0]
        others = solved[:, : n_outputs + 1]
        others -= basis @ (basis.T @ others)
        return others[:, :n_outputs], others[:, n_outputs:], basis

    start = 1 + np.arange(size) / size
    start[1::2] *= -1
    units = np.zeros((size, len(weak)))
    units[weak, np.arange(len(weak))] = 1.0
    # Half an inverse iteration; the whole one that follows makes them exact.
    rough = factor.solve_upper(units)
    solved = factor.solve(np.column_stack([right, start]))
    solution, slow, null = split(np.column_stack([solved, rough]))
    sides = [right - equations.image(solution), slow / np.linalg.norm(slow), null]
    correction, slow, null = split(factor.solve(np.column_stack(sides)))
    solution = solution + correction
    solution -= null @ (null.T @ solution)
    least = 1.0 / float(np.linalg.norm(slow))
    images = equations.image(np.column_stack([solution, null]))
    residual = right - images[:, :n_outputs]
    pull = null.T @ residual
    residual -= null @ pull
    # Blocks of one set of features are diagonal, so the norm is at most their number.
    rounding = np.finfo(float).eps * n_sets * np.linalg.norm(solution, axis=0)
    error = float(np.max(np.linalg.norm(residual, axis=0) + rounding, initial=0.0)) / least
    return _Solved(solution, null, null.T @ images[:, n_outputs:], pull, error)


def _least_norm(
    problem: TreeProblem, coding: CellCoding, equations: _Equations, solved: _Solved
) -> tuple[Array, int]:
    """Return the tables of least norm, in one array, and how many directions are free.

    The norm is the mean square where features are independent. Given the cells with mass, those
    without minimise it; what remains is a small problem along the undetermined directions. It
    is posed in the functional ANOVA of the solution and the directions, whose components are
    orthogonal.
    """
    n_outputs = solved.solution.shape[1]
    vectors = equations.scaling[:, None] * np.column_stack([solved.solution, solved.null])
    tables = _extended_anova(problem, coding, equations, vectors)
    if not solved.null.shape[1]:
        return tables, 0
    from scipy.linalg import eigh

    norm = tables.T @ (problem.masses[:, None] * tables)
    # The eigenvectors are orthonormal in the norm.
    eigenvalues, directions = eigh(solved.curvature, norm[n_outputs:, n_outputs:])
    is_free = eigenvalues < RANK_TOLERANCE
    fixed, along = directions[:, ~is_free], directions[:, is_free]
    shares = fixed @ ((fixed.T @ solved.pull) / eigenvalues[~is_free, None])
    against = norm[n_outputs:, :n_outputs] + norm[n_outputs:, n_outputs:] @ shares
    shares -= along @ (along.T @ against)
    return tables[:, :n_outputs] + tables[:, n_outputs:] @ shares, int(is_free.sum())


def _extended_anova(
    problem: TreeProblem, coding: CellCoding, equations: _Equations, vectors: Array
) -> Array:
    """Return the functional ANOVA of vectors, with the values of empty cells of least norm."""
    layout = problem.terms.layout
    tables = np.zeros((int(layout.base[-1]), vectors.shape[1]))
    tables[coding.entries[equations.kept]] = vectors
    independent_anova(problem, tables)
    empty = layout.indicators(coding.entries[equations.empty], problem.margins)
    n_empty = len(empty.mass)
    if n_empty == 0:
        return tables
    scaling = 1 / np.sqrt(empty.mass)
    norm = Arrowhead.zeros(np.zeros(1, dtype=np.int64), n_empty, np.float64)
    empty.add_products(np.arange(n_empty), None, norm.rest)
    norm.rest[:] *= scaling[:, None] * scaling
    factor = norm.factor(0.0)
    if factor is None:
        raise np.linalg.LinAlgError("the norm of empty cells is not positive definite")
    sides = factor.solve((scaling * empty.mass)[:, None] * empty.sums(tables))
    correction = np.zeros_like(tables)
    correction[coding.entries[equations.empty]] = scaling[:, None] * sides
    independent_anova(problem, correction)
    return np.asarray(tables - correction)
