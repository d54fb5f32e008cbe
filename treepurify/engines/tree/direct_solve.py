"""Project one tree by factoring its normal equations, with the solution of least norm."""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from treepurify._kernels.tree_gram import (
    add_gram,
    add_product_gram,
    scale_equations,
    unknown_cells,
)
from treepurify.engines.tree.tree_problem import TreeFit, TreeProblem, along_axes, independent_anova
from treepurify.grids.grid import Subset
from treepurify.lapack import factor_in_place, solve_factored

__all__ = ["count_unknowns", "solve_directly"]

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# A direction is undetermined where its mean square on the rows is below this share of its mean
# square where features are independent. On real data the two sides are far apart: rounding is
# near 1e-14, and what rows determine at all lies above 1e-7.
RANK_TOLERANCE = 1e-10
# Keep the factorisation of singular equations going; refinement and the choice of the
# solution of least norm take out what they change. The first is enough but where rounding of
# thousands of equations is larger.
_RIDGES = (1e-12, 1e-10, 1e-8)
# Pivots of equations scaled to a unit diagonal. Those of undetermined directions come out
# near the ridge; the candidates are then judged by the rank tolerance.
_WEAK_PIVOT = 1e-7


def solve_directly(problem: TreeProblem) -> TreeFit:
    """Return the projection of least norm, solved to rounding.

    The unknowns are the cells, without one cell of reference for each feature, of every
    set of features in the family of the terms. Cells without mass leave the equations. The
    rest is factored; where rows leave directions undetermined, their basis comes from inverse
    iteration, and the least norm picks the solution, with the cells without mass.
    """
    coding = _code_cells(problem)
    gram, right = _normal_equations(problem, coding)
    mass = gram.diagonal()
    kept, empty = np.flatnonzero(mass > 0), np.flatnonzero(mass == 0)
    scaling = 1 / np.sqrt(mass[kept])
    scaled = np.empty((len(kept), len(kept)))
    factor = np.empty_like(scaled)
    for ridge in _RIDGES:
        scale_equations(gram, kept, scaling, ridge, scaled, factor)
        if factor_in_place(factor):
            break
    sides = scaling[:, None] * right[kept]
    solved = _solve_factored_equations(scaled, factor, sides, len(problem.terms.family))
    unscaled = replace(
        solved,
        solution=scaling[:, None] * solved.solution,
        null=scaling[:, None] * solved.null,
    )
    values = np.zeros((coding.n_unknowns, right.shape[1]))
    values[kept], values[empty], undetermined = _least_norm(problem, coding, kept, empty, unscaled)
    return TreeFit(_tables(problem, coding, values), undetermined, solved.error)


def count_unknowns(problem: TreeProblem) -> tuple[int, float]:
    """Return the number of unknowns, and the mean number that is one on a row."""
    features = problem.terms.features
    sizes = {j: float(np.sum(m > 0)) - 1 for j, m in zip(features, problem.margins, strict=True)}
    beside = {j: 1 - float(m.max()) for j, m in zip(features, problem.margins, strict=True)}
    family = problem.terms.family
    unknowns = sum(prod(sizes[j] for j in subset) for subset in family)
    return int(unknowns), sum(prod(beside[j] for j in subset) for subset in family)


@dataclass(frozen=True, eq=False)
class _Coding:
    """The numbering of the unknowns.

    `numbered` holds the cells of each feature that have unknowns, ``place`` their positions,
    -1 elsewhere. ``base[i]`` is the first unknown of set i of the family.
    """

    numbered: tuple[npt.NDArray[np.intp], ...]
    place: Integers
    start: Integers
    base: Integers
    features: Integers
    strides: Integers
    cells: Integers

    @property
    def n_unknowns(self) -> int:
        return int(self.base[-1])

    def product_mass(self, margins: tuple[Array, ...]) -> Array:
        """Return the probability of each unknown's cells where features are independent."""
        mass = np.ones(self.n_unknowns)
        flat = np.concatenate(margins)
        owner = np.repeat(np.arange(len(self.features)), np.diff(self.base))
        for slot in range(self.features.shape[1]):
            feature = self.features[owner, slot]
            has = feature >= 0
            mass[has] *= flat[self.start[feature[has]] + self.cells[has, slot]]
        return mass

    def product_gram(
        self,
        margins: tuple[Array, ...],
        rows: npt.NDArray[np.intp],
        columns: npt.NDArray[np.intp] | None = None,
        share: float = 1.0,
    ) -> Array:
        """Return `share` times the inner products of unknowns where features are independent.

        Without `columns`, the upper triangle of those of `rows` with each other.
        """
        others = rows if columns is None else columns
        mass = self.product_mass(margins)
        gram = np.zeros((len(rows), len(others)))
        add_product_gram(
            columns is None,
            rows,
            np.searchsorted(rows, self.base),
            share * mass[rows],
            others,
            np.searchsorted(others, self.base),
            mass[others],
            self.features,
            self.cells,
            np.concatenate(margins),
            self.start,
            gram,
        )
        return gram


def _code_cells(problem: TreeProblem) -> _Coding:
    """Number the unknowns; the heaviest cell of each feature is its reference."""
    numbered, places = [], []
    for margin in problem.margins:
        has_unknown = margin > 0
        has_unknown[np.argmax(margin)] = False
        places.append(np.where(has_unknown, np.cumsum(has_unknown) - 1, -1))
        numbered.append(np.flatnonzero(has_unknown))
    position = {j: i for i, j in enumerate(problem.terms.features)}
    family = problem.terms.family
    slots = max(len(subset) for subset in family)
    features = np.full((len(family), slots), -1, dtype=np.int64)
    strides = np.zeros((len(family), slots), dtype=np.int64)
    base = [0]
    for i, subset in enumerate(family):
        size = 1
        for slot in reversed(range(len(subset))):
            features[i, slot] = position[subset[slot]]
            strides[i, slot] = size
            size *= len(numbered[features[i, slot]])
        base.append(base[-1] + size)
    cells = np.zeros((base[-1], slots), dtype=np.int64)
    first = np.concatenate([[0], np.cumsum([len(own) for own in numbered])])
    bounds = np.array(base, dtype=np.int64)
    unknown_cells(bounds, features, strides, np.concatenate(numbered), first, cells)
    return _Coding(
        tuple(numbered),
        np.concatenate(places).astype(np.int64),
        np.concatenate([[0], np.cumsum([len(m) for m in problem.margins])]).astype(np.int64),
        bounds,
        features,
        strides,
        cells,
    )


def _normal_equations(problem: TreeProblem, coding: _Coding) -> tuple[Array, Array]:
    """Return the upper triangle of the normal equations of all unknowns, and their right sides.

    Rows write to the matrix directly. Going through them once for each cell of each feature, so
    that what is written stays in the cache, took 1.4 times as long; tables of joint cells of four
    features, of which several inner products can be read, as long.
    """
    gram = np.zeros((coding.n_unknowns, coding.n_unknowns))
    right = np.zeros((coding.n_unknowns, problem.target.shape[1]))
    add_gram(
        problem.cells,
        coding.place,
        coding.start,
        problem.weights,
        problem.target,
        coding.base,
        coding.features,
        coding.strides,
        np.empty(len(problem.margins), dtype=np.int64),
        np.empty(len(coding.features), dtype=np.int64),
        gram,
        right,
    )
    if problem.share > 0:
        everything = np.arange(coding.n_unknowns)
        gram += coding.product_gram(problem.uniform, everything, share=problem.share)
        right += _uniform_right_side(problem, coding)
    return gram, right


def _uniform_right_side(problem: TreeProblem, coding: _Coding) -> Array:
    tables = dict(problem.terms.tables(problem.uniform_products))
    found = np.empty((coding.n_unknowns, problem.target.shape[1]))
    position = {j: i for i, j in enumerate(problem.terms.features)}
    for i, subset in enumerate(problem.terms.family):
        term, rest = problem.terms.holders[subset]
        products = tables[problem.terms.subsets[term]].sum(axis=rest)
        own = products[np.ix_(*(coding.numbered[position[j]] for j in subset))]
        own_unknowns = slice(coding.base[i], coding.base[i + 1])
        found[own_unknowns] = own.reshape(found[own_unknowns].shape)
    return found


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


def _solve_factored_equations(gram: Array, factor: Array, right: Array, n_subsets: int) -> _Solved:
    """Solve equations of unit diagonal, given by their upper triangle; they may be singular.

    `factor` is that of the equations with the ridge.

    Right sides that run along give a basis of the directions that may be undetermined, and the
    least eigenvalue of the others, both by inverse iteration: the residual over that eigenvalue
    bounds the error.
    """
    from scipy.linalg import blas

    n_outputs = right.shape[1]
    weak = np.flatnonzero(factor.diagonal() ** 2 < _WEAK_PIVOT)

    def solve(sides: Array) -> tuple[Array, Array, Array]:
        solved = solve_factored(factor, sides)
        basis = np.linalg.qr(solved[:, n_outputs + 1 :])[0]
        rest = solved[:, : n_outputs + 1]
        rest -= basis @ (basis.T @ rest)
        return rest[:, :n_outputs], rest[:, n_outputs:], basis

    def image(vectors: Array) -> Array:
        return np.asarray(blas.dsymm(1.0, gram.T, vectors, lower=1))

    size = len(gram)
    start = 1 + np.arange(size) / size
    start[1::2] *= -1
    units = np.zeros((size, len(weak)))
    units[weak, np.arange(len(weak))] = 1.0
    solution, slow, null = solve(np.column_stack([right, start, units]))
    sides = [right - image(solution), slow / np.linalg.norm(slow), null]
    correction, slow, null = solve(np.column_stack(sides))
    solution = solution + correction
    solution -= null @ (null.T @ solution)
    least = 1.0 / float(np.linalg.norm(slow))
    images = image(np.column_stack([solution, null]))
    rest = right - images[:, :n_outputs]
    pull = null.T @ rest
    rest -= null @ pull
    # Blocks of one set of features are diagonal, so the norm is at most their number.
    rounding = np.finfo(float).eps * n_subsets * np.linalg.norm(solution, axis=0)
    error = float(np.max(np.linalg.norm(rest, axis=0) + rounding, initial=0.0)) / least
    return _Solved(solution, null, null.T @ images[:, n_outputs:], pull, error)


def _least_norm(
    problem: TreeProblem,
    coding: _Coding,
    kept: npt.NDArray[np.intp],
    empty: npt.NDArray[np.intp],
    solved: _Solved,
) -> tuple[Array, Array, int]:
    """Return the values of least norm in kept and empty cells, and how many directions are free.

    The norm is the mean square where features are independent. Given the kept cells, the empty
    ones minimise it; what remains is a small problem along the undetermined directions.
    """
    from scipy.linalg import blas, cho_factor, cho_solve, eigh

    coupling = coding.product_gram(problem.margins, empty, kept)
    scaling = 1 / np.sqrt(coding.product_mass(problem.margins)[empty])
    inner = coding.product_gram(problem.margins, empty) * scaling[:, None] * scaling
    factor = cho_factor(inner, overwrite_a=True) if len(empty) else None

    def extend(vectors: Array) -> Array:
        if factor is None:
            return np.zeros((0, vectors.shape[1]))
        sides = scaling[:, None] * (coupling @ vectors)
        return np.asarray(-scaling[:, None] * cho_solve(factor, sides))

    solution, null, free = solved.solution, solved.null, 0
    if null.shape[1]:
        within = coding.product_gram(problem.margins, kept)
        norm = blas.dsymm(1.0, within.T, null, lower=1) + coupling.T @ extend(null)
        inner_null = null.T @ norm
        # The eigenvectors are orthonormal in the norm.
        eigenvalues, vectors = eigh(solved.curvature, (inner_null + inner_null.T) / 2)
        is_free = eigenvalues < RANK_TOLERANCE
        fixed, free = vectors[:, ~is_free], int(is_free.sum())
        moved = fixed @ ((fixed.T @ solved.pull) / eigenvalues[~is_free, None])
        solution = solution + null @ moved
        along = vectors[:, is_free]
        solution = solution - null @ (along @ (along.T @ (norm.T @ solution)))
    return solution, extend(solution), free


def _tables(problem: TreeProblem, coding: _Coding, values: Array) -> dict[Subset, Array]:
    """Return the tables of all sets of features; cells without mass hold the mean of the others."""
    position = {j: i for i, j in enumerate(problem.terms.features)}
    found = {}
    for i, subset in enumerate(problem.terms.family):
        table = np.zeros((*problem.terms.shape(subset), values.shape[1]))
        own = [coding.numbered[position[j]] for j in subset]
        part = values[coding.base[i] : coding.base[i + 1]]
        table[np.ix_(*own)] = part.reshape(*(len(cells) for cells in own), values.shape[1])
        margins = problem.own_margins(subset)
        for axis, margin in enumerate(margins):
            if np.any(margin == 0):
                without = (slice(None),) * axis + (margin == 0,)
                table[without] = along_axes(table, margins, axis)
        found[subset] = table
    return independent_anova(problem, found)
