"""Divide a function among pure components of least norm, where the rows leave a choice.

The first independent functions in canonical order may nearly depend on each other: on a few
hundred rows the pairs tried first take up all directions that are left, also those in which
they can hardly move. Their components are then huge and cancel. Here no function is preferred
to another of its size. A component is any function on the cells of its subset that is
orthogonal to functions of fewer features. As much as possible is explained by few features,
as in the canonical order; among components of one size those with the least sum of variances
are taken. They are one function of the rows, projected on each subset: if `P_u` projects on
the pure functions of u, they are `P_u l` with `sum_u P_u l` equal to what is to be explained.
Where the rows determine the components, these are the ones.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.categorical.greedy_selection import IndicatorBasis
from treepurify.engines.categorical.observations import Observations
from treepurify.engines.categorical.selected_functions import LowerFunctions, lower_functions
from treepurify.engines.categorical.solution import CategoricalFit
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.typing import Array

# Least square of the sine between a direction and what fewer features explain, relative to the
# norm of the operator: components amplify what is rounding in the function by at most 1e6.
_INDEPENDENT = 1e-12
# How far the dimensions of a term that the rows determine may be from a whole number.
_DETERMINED = 1e-6
_MOST_REFINEMENTS = 4
_PROBES = 4
_POINTS_A_BLOCK = 512
_LAPACK_BLOCK = 64
_ADVICE = "Pass a smaller order, fewer bins, or fewer rows."


@dataclass(frozen=True, eq=False)
class LeastNormFit:
    """Components of least norm, and what the rows determine of them.

    Parameters
    ----------
    fit : CategoricalFit
        The components and the residual.
    mass : dict
        Mass of each cell of each subset with a component.
    rank : int
        Dimension of what all components together explain, the constant included.
    n_functions : int
        The sum of the dimensions of the components alone, the constant included.
    determined : tuple of tuple of int
        The subsets whose component is the same in all decompositions of the fitted function.
    """

    fit: CategoricalFit
    mass: dict[Subset, Array]
    rank: int
    n_functions: int
    determined: tuple[Subset, ...]


@dataclass(frozen=True, eq=False)
class _PureFunctions:
    """The pure functions of a subset, as vectors over its cells with mass.

    Parameters
    ----------
    subset : tuple of int
        The features.
    mass : ndarray of shape (levels...)
        Mass of each cell.
    means : sparse array of shape (n_cells, n_points)
        Their indicators of norm one, at the roots of the mass of the points.
    lower : LowerFunctions
        The functions of fewer features.
    """

    subset: Subset
    mass: Array
    means: Any
    lower: LowerFunctions

    @property
    def dimension(self) -> int:
        """Number of independent pure functions."""
        return int(len(self.lower.root) - self._lower_span.shape[1])

    @property
    def _lower_span(self) -> Array:
        span = self.lower.span
        return np.zeros((len(self.lower.root), 0)) if span is None else span

    def project(self, vectors: Array | None) -> Array:
        """Project vectors over the points on the pure functions; the points' own for None."""
        rest = np.asarray(self.means.toarray() if vectors is None else self.means @ vectors)
        return self.lower.reduce(rest)

    def add_projection(self, span: Array | None, total: Array) -> None:
        """Add the projection on the pure functions, in coordinates of `span`, to `total`.

        It is the projection on all functions of the cells, which only joins points of one cell,
        less that on the functions of fewer features, of which there are few.
        """
        if span is None:
            points = self.means.T.tocsr()
            for start in range(0, len(total), _POINTS_A_BLOCK):
                block = slice(start, start + _POINTS_A_BLOCK)
                total[block] += (points[block] @ self.means).toarray()
            lower = points @ self._lower_span
        else:
            vectors = self.means @ span
            total += vectors.T @ vectors
            lower = vectors.T @ self._lower_span
        total -= lower @ lower.T

    def random_functions(self, count: int) -> tuple[Array, Array]:
        """Return random pure functions over the points, and the square of the norm of each."""
        drawn = np.random.default_rng(0).standard_normal((len(self.lower.root), count))
        functions = self.lower.reduce(drawn)
        return np.asarray(self.means.T @ functions), np.sum(functions**2, axis=0)

    def table(self, vectors: Array) -> Array:
        """Return vectors over the cells with mass as tables, shape (levels..., k)."""
        table = np.zeros((*self.mass.shape, vectors.shape[1]))
        table[self.lower.cells] = vectors / self.lower.root
        return table


@dataclass(frozen=True, eq=False)
class _Level:
    """What terms of one size explain beyond smaller ones.

    Parameters
    ----------
    terms : tuple of _PureFunctions
        The terms.
    directions : ndarray of shape (size, rank)
        Orthonormal directions that they add.
    root : _Root
        Root of the sum of the projections on the terms, in these directions.
    """

    terms: tuple[_PureFunctions, ...]
    directions: Array
    root: "_Root"

    def invert(self, coordinates: Array) -> Array:
        """Apply the inverse of the sum of projections to coordinates in the directions."""
        return self.root.solve(self.root.solve(coordinates), transposed=True)


@dataclass(frozen=True, eq=False)
class _Root:
    """A triangular R with ``R R'`` a matrix on some of its directions.

    Parameters
    ----------
    triangle : ndarray of shape (rank, rank)
        R.
    is_lower : bool
        Whether it is lower triangular.
    """

    triangle: Array
    is_lower: bool

    def solve(self, vectors: Array, *, transposed: bool = False) -> Array:
        """Apply the inverse of R, or of its transpose."""
        from scipy.linalg import solve_triangular

        return np.asarray(
            solve_triangular(
                self.triangle,
                vectors,
                trans="T" if transposed else "N",
                lower=self.is_lower,
                check_finite=False,
            )
        )


@dataclass(frozen=True, eq=False)
class _Unexplained:
    """The directions that are orthogonal to all that is explained, by Householder's reflections.

    Parameters
    ----------
    n_explained : int
        Number of directions that are explained.
    reflections, scales : ndarray
        The factors of LAPACK's QR decomposition of these.
    """

    n_explained: int
    reflections: Array
    scales: Array

    @staticmethod
    def of(explained: Array) -> "_Unexplained":
        """Return the directions that are orthogonal to orthonormal columns."""
        from scipy.linalg.lapack import dgeqrf

        reflections, scales, _, _ = dgeqrf(explained)
        return _Unexplained(explained.shape[1], reflections, scales)

    def restrict(self, matrix: Array) -> Array:
        """Return a symmetric matrix in these directions."""
        half = self._reflect("T", matrix)[self.n_explained :]
        return self._reflect("T", half.T)[self.n_explained :]

    def expand(self, coordinates: Array) -> Array:
        """Return vectors from their coordinates in these directions."""
        padded = np.zeros((len(self.reflections), coordinates.shape[1]), order="F")
        padded[self.n_explained :] = coordinates
        return self._reflect("N", padded)

    def _reflect(self, side: str, vectors: Array) -> Array:
        from scipy.linalg.lapack import dormqr

        if not vectors.size:
            return vectors
        workspace = _LAPACK_BLOCK * vectors.shape[1]
        return np.asarray(dormqr("L", side, self.reflections, self.scales, vectors, workspace)[0])


def operations(observations: Observations, subsets: Iterable[Subset], n_directions: int) -> float:
    """Return about how many multiplications the fit takes."""
    n_cells = sum(
        min(math.prod(observations.shape(subset)), observations.n_points) for subset in subsets
    )
    return (n_cells + n_directions) * n_directions**2


def fit_of_least_norm(
    observations: Observations,
    subsets: Iterable[Subset],
    basis: IndicatorBasis,
    memory_budget: int,
    progress: ProgressReport,
) -> LeastNormFit:
    """Decompose the function on all pure functions of the given subsets.

    Parameters
    ----------
    observations : Observations
        The support, its mass and the values.
    subsets : iterable of tuple of int
        The terms, by size.
    basis : IndicatorBasis
        The first independent functions of these subsets, which span the same.
    memory_budget : int
        Bytes that tables may take.
    progress : callable
        Called with a word, and how far the work is.

    Raises
    ------
    MemoryBudgetError
        If the tables would not fit.
    """
    root = np.sqrt(observations.mass)[:, None]
    span = _span(observations, basis, root, memory_budget)
    terms = tuple(_terms(observations, subsets, span, memory_budget, progress))
    levels, projections = _levels(terms, root if span is None else span.T @ root, span, progress)
    fit = _solve(observations, levels, root, span)
    rank = 1 + sum(len(level.root.triangle) for level in levels)
    n_functions = 1 + sum(term.dimension for term in terms)
    determined = tuple(term.subset for term in terms)
    if n_functions > rank:
        determined = _determined(terms, projections, rank, span)
    mass = {term.subset: term.mass for term in terms}
    return LeastNormFit(fit, mass, rank, n_functions, determined)


def _span(
    observations: Observations, basis: IndicatorBasis, root: Array, memory_budget: int
) -> Array | None:
    """Return an orthonormal basis of what the terms span; None for all functions of the rows."""
    n_points, rank = observations.n_points, len(basis.pivots)
    all_points = 2 * rank >= n_points
    size = n_points if all_points else rank
    n_sizes = max((len(subset) for subset in basis.chosen), default=1)
    check_budget(
        8 * size**2 * (n_sizes + 6) + (0 if all_points else 24 * n_points * rank),
        memory_budget,
        f"a system of {size} directions",
        _ADVICE,
    )
    if all_points:
        return None
    columns = [np.ones((n_points, 1))]
    for subset, selected in basis.chosen.items():
        if subset:
            columns.append(observations.flat_cells(subset)[:, None] == selected.cells)
    design = root * np.hstack(columns)
    return np.linalg.qr(design / np.sqrt((design**2).sum(axis=0)))[0]


def _terms(
    observations: Observations,
    subsets: Iterable[Subset],
    span: Array | None,
    memory_budget: int,
    progress: ProgressReport,
) -> Iterator[_PureFunctions]:
    """Yield the terms that have pure functions."""
    from scipy import sparse

    n_points, n_bytes = observations.n_points, 0 if span is None else span.nbytes
    for position, subset in enumerate(subsets):
        # The mass, the number of each cell, and what is summed and looked up to find them.
        n_cells = math.prod(observations.shape(subset))
        check_budget(
            n_bytes + 32 * n_cells, memory_budget, f"an effect of {n_cells} values", _ADVICE
        )
        mass = observations.margin(subset)
        lower = lower_functions(mass, memory_budget // 32)
        n_bytes += 20 * n_points + lower.n_bytes + mass.nbytes * (1 + observations.n_outputs)
        check_budget(n_bytes, memory_budget, f"at least {position + 1} effects", _ADVICE)
        number = np.full(mass.size, -1)
        number[np.ravel_multi_index(lower.cells, mass.shape)] = np.arange(len(lower.root))
        cell = number[observations.flat_cells(subset)]
        inside = np.flatnonzero(cell >= 0)
        cell = cell[inside]
        shares = np.sqrt(observations.mass[inside]) / lower.root[cell, 0]
        means = sparse.csr_array((shares, (cell, inside)), shape=(len(lower.root), n_points))
        term = _PureFunctions(subset, mass, means, lower)
        if term.dimension:
            yield term
        progress("preparing effects", position, 0)


def _levels(
    terms: tuple[_PureFunctions, ...], constant: Array, span: Array | None, progress: ProgressReport
) -> tuple[list[_Level], Array]:
    """Find what the terms of each size add to those of fewer features.

    Returns
    -------
    levels : list of _Level
        By size.
    together : ndarray
        The sum of the projections on the constant and on all terms.
    """
    explained = constant / np.linalg.norm(constant)
    together = explained @ explained.T
    levels = []
    for size in sorted({len(term.subset) for term in terms}):
        of_size = tuple(term for term in terms if len(term.subset) == size)
        total = np.zeros_like(together)
        for position, term in enumerate(of_size):
            term.add_projection(span, total)
            progress(f"adding terms of {size} features", position, len(of_size))
        together += total
        free = _Unexplained.of(explained)
        total = free.restrict(total)
        largest = float(np.abs(total).sum(axis=0).max(initial=0.0))
        directions, root = _root(total, _INDEPENDENT * largest)
        levels.append(_Level(of_size, free.expand(directions), root))
        explained = np.hstack([explained, levels[-1].directions])
    return levels, together


def _root(matrix: Array, least: float, most: int | None = None) -> tuple[Array, _Root]:
    """Return orthonormal directions in which a matrix is not zero, and its root in these.

    They are as few as leave no diagonal of a Cholesky decomposition with pivots above `least`,
    and at most `most`.
    """
    from scipy.linalg import qr
    from scipy.linalg.lapack import dpstrf

    if not len(matrix):
        return matrix, _Root(matrix, is_lower=True)
    factor, pivots, rank, _ = dpstrf(matrix, lower=1, tol=least)
    rank = rank if most is None else min(rank, most)
    triangle = np.tril(factor)[:, :rank]
    directions = np.zeros((len(matrix), rank))
    is_lower = rank == len(matrix)
    if is_lower:
        directions[pivots - 1, np.arange(rank)] = 1.0
    elif rank:
        directions[pivots - 1], triangle = qr(triangle, mode="economic", check_finite=False)
    return directions, _Root(triangle[:rank], is_lower)


def _solve(
    observations: Observations, levels: list[_Level], root: Array, span: Array | None
) -> CategoricalFit:
    """Explain the function from the largest terms down.

    The residual is explained again until nothing is left.
    """
    norm = float(np.sqrt(observations.mass @ (observations.values**2).sum(axis=1)))
    n_outputs = observations.n_outputs
    effects = {
        term.subset: np.zeros((*term.mass.shape, n_outputs))
        for level in levels
        for term in level.terms
    }
    intercept = np.zeros(n_outputs)
    residual, error = observations.values, np.inf
    for _ in range(_MOST_REFINEMENTS):
        mean = observations.mass @ residual
        left = _coordinates(root * residual, span)
        parts = [np.abs(level.directions.T @ left).max(initial=0.0) for level in levels]
        largest = max(float(np.abs(mean).max()), *map(float, parts), 0.0)
        before, error = error, largest / norm if norm > 0 else 0.0
        if error < 1e-15 or error > before / 2:
            break
        intercept = intercept + mean
        rest = left - _coordinates(root * mean, span)
        for level in reversed(levels):
            dual = level.directions @ level.invert(level.directions.T @ rest)
            dual = dual if span is None else span @ dual
            for term in level.terms:
                component = term.project(dual)
                effects[term.subset] += term.table(component)
                rest = rest - _coordinates(term.means.T @ component, span)
        residual = observations.values - intercept
        for subset, table in effects.items():
            observations.add(subset, -table, residual)
    return CategoricalFit(intercept, effects, residual, error, 0)


def _coordinates(vectors: Array, span: Array | None) -> Array:
    return vectors if span is None else np.asarray(span.T @ vectors)


def _determined(
    terms: tuple[_PureFunctions, ...], projections: Array, rank: int, span: Array | None
) -> tuple[Subset, ...]:
    """Return the terms no part of which can be moved to others without changing the sum.

    The components of least norm of a function f are ``P_u K^+ f`` with K the sum of all
    projections. Where f is a pure function of u alone, they give it back to u only as far as
    other terms cannot take it: the trace of ``P_u K^+ P_u`` is the number of directions of u
    that are determined.
    """
    directions, root = _root(projections, 0.0, rank)
    determined = []
    for term in terms:
        functions, squares = term.random_functions(_PROBES)
        half = root.solve(directions.T @ _coordinates(functions, span))
        # No direction is more than determined: one of these that is not settles it.
        if np.any(np.sum(half**2, axis=0) < (1.0 - _DETERMINED) * squares):
            continue
        half = root.solve((term.project(span) @ directions).T)
        if np.sum(half**2) > term.dimension - _DETERMINED:
            determined.append(term.subset)
    return tuple(determined)
