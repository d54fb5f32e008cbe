"""Solve the normal equations of a few hundred products, with the solution of least norm."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from treepurify._kernels.lapack import factor_by_pivots, factor_in_place, substitute
from treepurify.engines.tree.orthonormal_products import OrthonormalProducts
from treepurify.typing import Array, Indices

__all__ = ["LeastNorm", "lapack_routines", "solve_least_norm"]

# Pivots of equations scaled to a unit diagonal. A larger one is surely determined; an equation
# whose pivot is below the other depends on those before. Rounding is near 1e-14.
_SURE_PIVOT, _LEAST_PIVOT = 1e-7, 1e-10
_LEAST_SHARE = 1e-12
_STEPS = 2
# So many right sides of the size of rounding estimate the error.
_PROBES = 3
# Where rows determine a smaller share of the products than this, it takes less time to solve among
# what they determine than to take off what they do not.
_FEW_DETERMINED = 0.55


@dataclass(frozen=True, eq=False)
class LeastNorm:
    """The solution of least norm.

    Parameters
    ----------
    coefficients : ndarray of float64, shape (n_products, n_outputs)
        Multiples of the products.
    undetermined : int
        Directions, products without rows aside, that the equations leave undetermined.
    error : float
        Estimated norm of its error.
    """

    coefficients: Array
    undetermined: int
    error: float


def solve_least_norm(
    matrix: Array,
    right: Array,
    norm: Array,
    orthonormal: Callable[[], OrthonormalProducts],
    memory: Array,
) -> LeastNorm:
    """Solve symmetric equations that may depend on each other.

    Of all solutions it is the one of least norm, the square root of ``x @ norm @ x``. Both the
    solution and its error are refined by residuals.

    Parameters
    ----------
    matrix : ndarray of float64, shape (n_products, n_products)
        Inner products on the measure, none negative; they are overwritten.
    right : ndarray of float64, shape (n_products, n_outputs)
        Right sides.
    norm : ndarray of float64, shape (n_products, n_products)
        Inner products where features are independent.
    orthonormal : callable
        Returns functions of the products that are orthonormal in the norm.
    memory : ndarray of float64
        Memory for a matrix of as many equations and one column more, which is overwritten.
    """
    mass = matrix.diagonal().copy()
    kept, empty = np.flatnonzero(mass > 0), np.flatnonzero(mass <= 0)
    scaling = 1 / np.sqrt(mass[kept])
    scaled = matrix if not len(empty) else matrix[np.ix_(kept, kept)]
    scaled *= scaling[:, None]
    scaled *= scaling
    sides = scaling[:, None] * right[kept]
    equations = _Equations(norm, kept, empty, scaling, *_factor(scaled, memory))
    if equations.rank < _FEW_DETERMINED * len(norm):
        step, undetermined = _among_determined(equations, orthonormal())
    else:
        step, undetermined = _without_undetermined(equations)

    def left_of(solution: Array) -> Array:
        return sides - scaled @ (solution[kept] / scaling[:, None])

    solution = np.zeros_like(right)
    for _ in range(1 + _STEPS):
        solution = step(solution, left_of(solution))
    magnitudes = scaled @ np.abs(solution[kept] / scaling[:, None])
    sides = _error_probes(left_of(solution), magnitudes)
    probes = step(np.zeros((len(norm), sides.shape[1])), sides)
    error = float(np.sqrt(max((probes * (norm @ probes)).sum(), 0.0)))
    return LeastNorm(solution, undetermined, error)


@dataclass(frozen=True, eq=False)
class _Equations:
    """Factored equations, scaled to a unit diagonal.

    Parameters
    ----------
    norm : ndarray of float64, shape (n_products, n_products)
        Inner products where features are independent.
    kept, empty : ndarray of int
        The products with and without rows; there are equations of the former.
    scaling : ndarray of float64
        What each of them is multiplied with.
    factor : ndarray of float64
        The triangular factor in its first `rank` rows.
    order : ndarray of int
        The equations in the order in which they were factored.
    rank : int
        How many do not depend on those before.
    """

    norm: Array
    kept: Indices
    empty: Indices
    scaling: Array
    factor: Array
    order: Indices
    rank: int


# Adds what solves right sides to a solution of others.
_Step = Callable[[Array, Array], Array]


def _without_undetermined(equations: _Equations) -> tuple[_Step, int]:
    """Return how to solve without the part along what is undetermined, and how many directions.

    For equations of which few depend on others.
    """
    norm, kept, empty, scaling = equations.norm, equations.kept, equations.empty, equations.scaling
    rank, places = equations.rank, equations.order[: equations.rank]
    without_rows = np.zeros((len(norm), len(empty)))
    without_rows[empty, np.arange(len(empty))] = 1.0
    dependent = np.zeros((len(norm), len(kept) - rank))
    dependent[kept] = scaling[:, None] * _dependent(equations.factor, equations.order, rank)
    absent = _Undetermined.nothing(norm).joined_by(without_rows)
    basis = absent.joined_by(dependent)

    def step(solution: Array, sides: Array) -> Array:
        solved = _solve(equations.factor[:rank, :rank], sides[places])
        added = np.zeros_like(solution)
        added[kept[places]] = scaling[places, None] * solved
        return basis.without(solution + added)

    return step, basis.rank - absent.rank


def _among_determined(equations: _Equations, orthonormal: OrthonormalProducts) -> tuple[_Step, int]:
    """Return how to solve among what is determined, and how many directions are not.

    What the equations determine are the rows of their factor, as functions: the solution is among
    them. For equations of which few do not depend on others.
    """
    from scipy.linalg import qr, solve_triangular

    norm, kept, empty, scaling = equations.norm, equations.kept, equations.empty, equations.scaling
    rank, places = equations.rank, equations.order[: equations.rank]
    upper = np.ascontiguousarray(equations.factor[:rank, :rank])
    of_products = np.zeros((len(norm), rank))
    rows = np.triu(equations.factor[:rank]).T
    of_products[kept[equations.order]] = rows / scaling[equations.order, None]
    basis, triangle = qr(
        orthonormal.values(of_products), mode="economic", overwrite_a=True, check_finite=False
    )

    def step(solution: Array, sides: Array) -> Array:
        wanted = solve_triangular(upper, sides[places], trans=1, check_finite=False)
        multiples = basis @ solve_triangular(triangle, wanted, trans=1, check_finite=False)
        return solution + orthonormal.multiples_of_products(multiples)

    return step, orthonormal.rank - rank - _rank(norm[np.ix_(empty, empty)])


def _rank(norm: Array) -> int:
    """Return how many directions have a norm."""
    scaling = 1 / np.sqrt(norm.diagonal())
    scaled, order = norm * scaling[:, None] * scaling, np.empty(len(norm), dtype=np.int32)
    least = _LEAST_SHARE * len(norm)
    return factor_by_pivots(lapack_routines(), scaled, least, order) if len(norm) else 0


def _factor(matrix: Array, memory: Array) -> tuple[Array, Indices, int]:
    """Return an upper triangular factor, the order of the equations, and how many are independent.

    The factor is in `memory`. Only where a pivot is small are they taken in the order of their
    pivots, which takes longer.
    """
    # Rows with a number between them, which parts of the factor have too: compiled once for both.
    n, routines = len(matrix), lapack_routines()
    factor = memory[: n * (n + 1)].reshape(n, n + 1)[:, :n]
    np.copyto(factor, matrix)
    is_positive = factor_in_place(routines, factor)
    if is_positive and np.all(factor.diagonal() ** 2 >= _SURE_PIVOT):
        return factor, np.arange(len(factor)), len(factor)
    np.copyto(factor, matrix)
    order = np.empty(len(matrix), dtype=np.int32)
    rank = factor_by_pivots(routines, factor, _LEAST_PIVOT, order)
    return factor, order.astype(np.intp) - 1, rank


def _solve(factor: Array, sides: Array) -> Array:
    solved = np.ascontiguousarray(sides.T)
    routines = lapack_routines()
    substitute(routines, factor, np.bool_(False), solved)
    substitute(routines, factor, np.bool_(True), solved)
    return solved.T


def _dependent(factor: Array, order: Indices, rank: int) -> Array:
    """Return the directions that a factored matrix leaves undetermined, as columns."""
    directions = np.zeros((len(order), len(order) - rank))
    if rank < len(order):
        across = np.ascontiguousarray(factor[:rank, rank:].T)
        square = factor[:rank, :rank]
        substitute(lapack_routines(), square, np.bool_(True), across)
        directions[order[:rank]] = -across.T
        directions[order[rank:]] = np.eye(len(order) - rank)
    return directions


@dataclass(frozen=True, eq=False)
class _Undetermined:
    """Directions that are orthonormal in a norm, and what this makes of them."""

    norm: Array
    basis: Array
    images: Array

    @classmethod
    def nothing(cls, norm: Array) -> "_Undetermined":
        """Return no direction."""
        return cls(norm, np.empty((len(norm), 0)), np.empty((len(norm), 0)))

    def joined_by(self, directions: Array) -> "_Undetermined":
        """Return what these and other directions span; what has no norm is left out.

        Products may cancel: a norm is compared with the norms of the products.
        """
        if not directions.shape[1]:
            return self
        sizes = np.sqrt(self.norm.diagonal() @ directions**2)
        directions = self.without(directions / np.where(sizes > 0, sizes, 1.0))
        images = self.norm @ directions
        eigenvalues, vectors = np.linalg.eigh(directions.T @ images)
        is_kept = eigenvalues > _LEAST_SHARE * len(eigenvalues)
        vectors = vectors[:, is_kept] / np.sqrt(eigenvalues[is_kept])
        return _Undetermined(
            self.norm,
            np.concatenate([self.basis, directions @ vectors], axis=1),
            np.concatenate([self.images, images @ vectors], axis=1),
        )

    @property
    def rank(self) -> int:
        """How many they are."""
        return int(self.basis.shape[1])

    def without(self, solution: Array) -> Array:
        """Return a solution without its part along them."""
        return solution - self.basis @ (self.images.T @ solution) if self.rank else solution


def _error_probes(residual: Array, magnitudes: Array) -> Array:
    """Return right sides as large as the residuals of a solution, shape (n, _PROBES).

    That is the residual and what rounds it; `magnitudes` is the image of the absolute values of
    the solution. Signs are random. Solved like the others, they show the error in each direction.
    """
    left = np.max(np.abs(residual) + np.finfo(float).eps * magnitudes, axis=1)
    signs = np.random.default_rng(0).normal(size=(len(left), _PROBES))
    return np.asarray(left[:, None] * signs)


@cache
def lapack_routines() -> tuple[int, ...]:
    """Return the addresses of the routines for matrices; see `_kernels.lapack`."""
    from numba.extending import get_cython_function_address

    lapack, blas = "scipy.linalg.cython_lapack", "scipy.linalg.cython_blas"
    places = (lapack, "dpotrf"), (blas, "dtrsm"), (blas, "dsyrk"), (lapack, "dpstrf")
    return tuple(get_cython_function_address(module, name) for module, name in places)
