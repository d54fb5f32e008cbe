"""Symmetric equations of blocks on the diagonal that are coupled by a common border only.

Eliminating the blocks takes one product of the border with itself, which processors do
fast, and leaves equations of the width of the border to be factored. On trees of depth 6
with eight features that is two thirds of the multiplications of one factorisation of all.
Right sides of the size of rounding, `error_probes`, show how large the error of a solution may be.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from treepurify._kernels.arrowhead import factor, multiply, solve_lower, solve_upper
from treepurify._kernels.gapped_cholesky import factor_with_gaps, solve_many, solve_units
from treepurify.typing import Array, Indices, Integers

__all__ = [
    "N_PROBES",
    "Arrowhead",
    "ArrowheadFactor",
    "GappedFactor",
    "error_probes",
    "routines_of",
]

# Number of sides from which on a library solves them faster.
_MANY_SIDES = 16
# So many right sides of the size of rounding estimate the error.
N_PROBES = 3


@dataclass(frozen=True, eq=False)
class Arrowhead:
    """The matrix of the equations.

    Its entries may be counts; a matrix that is factored has them in single or double precision.

    Parameters
    ----------
    bounds : ndarray of int64, shape (n_blocks + 1,)
        First row of each block, and the end of the last.
    blocks : ndarray, shape (n_inside, most rows of a block)
        The rows of the blocks, from the first column of each; read from the diagonal on.
    border : ndarray, shape (n_inside, n_rest)
        What couples them with the other unknowns.
    rest : ndarray, shape (n_rest, n_rest)
        The upper triangle among these.
    """

    bounds: Integers
    blocks: Array
    border: Array
    rest: Array

    @classmethod
    def zeros(cls, bounds: Integers, size: int, dtype: npt.DTypeLike) -> "Arrowhead":
        """Return a matrix of zeros of `size` rows."""
        n_inside, widest = int(bounds[-1]), int(np.diff(bounds).max(initial=0))
        n_rest = size - n_inside
        shapes = (n_inside, widest), (n_inside, n_rest), (n_rest, n_rest)
        return cls(bounds, *(np.zeros(shape, dtype) for shape in shapes))

    def parts(self) -> tuple[Array, Array, Array]:
        """Return the blocks, the border and the corner."""
        return self.blocks, self.border, self.rest

    def spans(self) -> list[tuple[int, int]]:
        """Return the first and last rows of each block."""
        return list(pairwise(self.bounds.tolist()))

    def diagonal(self) -> Array:
        """Return the diagonal."""
        inside = [
            self.blocks[first:last, : last - first].diagonal() for first, last in self.spans()
        ]
        return np.concatenate([*inside, self.rest.diagonal()])

    def image(self, vectors: Array) -> Array:
        """Return the matrix times vectors, shape (n, n_vectors)."""
        image = np.zeros(vectors.shape[::-1])
        multiply(self.bounds, *self.parts(), np.ascontiguousarray(vectors.T), image)
        return image.T

    def factor(self, ridge: float) -> "ArrowheadFactor | None":
        """Factor the matrix with `ridge` added to its diagonal; None where it is not positive.

        The factor takes the place of the matrix.
        """
        is_positive = factor(routines_of(self.rest.dtype), self.bounds, *self.parts(), ridge)
        return ArrowheadFactor(self) if is_positive else None

    def factor_with_gaps(self, least: float) -> "GappedFactor":
        """Factor a matrix of which many equations may depend on others.

        They are those whose pivot is below `least`. The factor takes the place of the matrix.
        """
        pivots = np.empty(len(self.border) + len(self.rest))
        factor_with_gaps(routines_of(np.float64), self.bounds, *self.parts(), least, pivots)
        return GappedFactor(ArrowheadFactor(self), pivots, np.flatnonzero(pivots < least))


@dataclass(frozen=True, eq=False)
class ArrowheadFactor:
    """Its Cholesky factor R, an upper triangle of the same form."""

    parts: Arrowhead

    def diagonal(self) -> Array:
        """Return the diagonal of R."""
        return self.parts.diagonal()

    def solve(self, sides: Array) -> Array:
        """Return the solutions for right sides of shape (n, n_sides)."""
        if sides.shape[1] >= _MANY_SIDES and self.parts.rest.dtype == np.float64:
            return self._solved((partial(solve_many, routines_of(np.float64)),), sides)
        return self._solved((solve_lower, solve_upper), sides)

    def solve_upper(self, sides: Array) -> Array:
        """Return the solutions of the equations of R."""
        return self._solved((solve_upper,), sides)

    def _solved(self, kernels: tuple[Callable[..., None], ...], sides: Array) -> Array:
        solved = np.array(sides.T, order="C")
        for kernel in kernels:
            kernel(self.parts.bounds, *self.parts.parts(), solved)
        return solved.T


@dataclass(frozen=True, eq=False)
class GappedFactor:
    """A factor with gaps: solutions are zero there, and each gap is a direction left open.

    Parameters
    ----------
    factor : ArrowheadFactor
        The factor, with rows of the unit matrix at the gaps.
    pivots : ndarray of float64, shape (n,)
        The pivots of all equations, those of gaps not replaced.
    gaps : ndarray of int, shape (n_gaps,)
        Where they are.
    """

    factor: ArrowheadFactor
    pivots: Array
    gaps: Indices

    def directions(self) -> Array:
        """Return one direction per gap, as columns: 1 at its own gap, 0 at all others."""
        parts = self.factor.parts
        solved = np.zeros((len(self.gaps), len(self.pivots)))
        solve_units(routines_of(np.float64), parts.bounds, *parts.parts(), self.gaps, solved)
        return solved.T


def routines_of(dtype: npt.DTypeLike) -> tuple[int, ...]:
    """Return the addresses of the routines for matrices of a precision; see `_kernels.lapack`."""
    return _addresses("s" if dtype == np.float32 else "d")


def error_probes(residual: Array, magnitudes: Array) -> Array:
    """Return right sides as large as the residuals of a solution, shape (n, N_PROBES).

    That is the residual and what rounds it; `magnitudes` is the image of the absolute values of
    the solution. Signs are random. Solved like the others, they show the error in each direction.
    """
    left = np.max(np.abs(residual) + np.finfo(float).eps * magnitudes, axis=1)
    signs = np.random.default_rng(0).normal(size=(len(left), N_PROBES))
    return np.asarray(left[:, None] * signs)


@cache
def _addresses(letter: str) -> tuple[int, ...]:
    from numba.extending import get_cython_function_address

    lapack, blas = "scipy.linalg.cython_lapack", "scipy.linalg.cython_blas"
    places = (lapack, "potrf"), (blas, "trsm"), (blas, "syrk"), (blas, "gemm"), (lapack, "pstrf")
    return tuple(get_cython_function_address(module, letter + name) for module, name in places)
