"""Solve the normal equations of a few hundred products, with the solution of least norm."""

from dataclasses import dataclass

import numpy as np

from treepurify._kernels.lapack import factor_by_pivots, factor_in_place, substitute
from treepurify.engines.tree.arrowhead import error_probes, routines_of
from treepurify.typing import Array, Indices

__all__ = ["LeastNorm", "solve_least_norm"]

# Pivots of equations scaled to a unit diagonal. A larger one is surely determined; an equation
# whose pivot is below the other depends on those before. Rounding is near 1e-14.
_SURE_PIVOT, _LEAST_PIVOT = 1e-7, 1e-10
_LEAST_SHARE = 1e-12
_STEPS = 2


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


def solve_least_norm(matrix: Array, right: Array, norm: Array) -> LeastNorm:
    """Solve symmetric equations that may depend on each other.

    Of all solutions it is the one of least norm, the square root of ``x @ norm @ x``. Both the
    solution and its error are refined by residuals.

    Parameters
    ----------
    matrix : ndarray of float64, shape (n_products, n_products)
        Inner products on the measure.
    right : ndarray of float64, shape (n_products, n_outputs)
        Right sides.
    norm : ndarray of float64, shape (n_products, n_products)
        Inner products where features are independent.
    """
    mass = matrix.diagonal()
    kept, empty = np.flatnonzero(mass > 0), np.flatnonzero(mass <= 0)
    scaling = 1 / np.sqrt(mass[kept])
    scaled = matrix if not len(empty) else matrix[np.ix_(kept, kept)]
    scaled = scaled * scaling[:, None] * scaling
    sides = scaling[:, None] * right[kept]
    factor, order, rank = _factor(scaled)
    without_rows = np.zeros((len(norm), len(empty)))
    without_rows[empty, np.arange(len(empty))] = 1.0
    dependent = np.zeros((len(norm), len(kept) - rank))
    dependent[kept] = scaling[:, None] * _dependent(factor, order, rank)
    absent = _Undetermined.nothing(norm).joined_by(without_rows)
    basis = absent.joined_by(dependent)
    places = order[:rank]

    def solve(sides: Array) -> Array:
        solution = np.zeros((len(norm), sides.shape[1]))
        solution[kept[places]] = scaling[places, None] * _solve(factor[:rank, :rank], sides[places])
        return solution

    def left_of(solution: Array) -> Array:
        return sides - scaled @ (solution[kept] / scaling[:, None])

    solution = basis.without(solve(sides))
    for _ in range(_STEPS):
        solution = basis.without(solution + solve(left_of(solution)))
    magnitudes = np.abs(scaled) @ np.abs(solution[kept] / scaling[:, None])
    probes = basis.without(solve(error_probes(left_of(solution), magnitudes)))
    error = float(np.sqrt(max((probes * (norm @ probes)).sum(), 0.0)))
    return LeastNorm(solution, basis.rank - absent.rank, error)


def _factor(matrix: Array) -> tuple[Array, Indices, int]:
    """Return an upper triangular factor, the order of the equations, and how many are independent.

    Only where a pivot is small are they taken in the order of their pivots, which takes longer.
    """
    factor, routines = matrix.copy(), routines_of(np.float64)
    is_positive = factor_in_place(routines, factor)
    if is_positive and np.all(factor.diagonal() ** 2 >= _SURE_PIVOT):
        return factor, np.arange(len(factor)), len(factor)
    factor, order = matrix.copy(), np.empty(len(matrix), dtype=np.int32)
    rank = factor_by_pivots(routines, factor, _LEAST_PIVOT, order)
    return factor, order.astype(np.intp) - 1, rank


def _solve(factor: Array, sides: Array) -> Array:
    solved = np.ascontiguousarray(sides.T)
    routines = routines_of(np.float64)
    substitute(routines, factor, np.bool_(False), solved)
    substitute(routines, factor, np.bool_(True), solved)
    return solved.T


def _dependent(factor: Array, order: Indices, rank: int) -> Array:
    """Return the directions that a factored matrix leaves undetermined, as columns."""
    directions = np.zeros((len(order), len(order) - rank))
    if rank < len(order):
        across = np.ascontiguousarray(factor[:rank, rank:].T)
        square = np.ascontiguousarray(factor[:rank, :rank])
        substitute(routines_of(np.float64), square, np.bool_(True), across)
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
