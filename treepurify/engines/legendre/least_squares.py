"""Coefficients by least squares, and the rank and reach of columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treepurify.engines.legendre.design import LegendreBasis, ScaledRows, design_blocks
from treepurify.engines.legendre.moments import Moments
from treepurify.typing import Array, Indices

_RANK_SHARE = 1e-13
_DIRECTION_SHARE = 1e-10


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Least squares coefficients.

    Parameters
    ----------
    values : ndarray of float64, shape (n_columns, n_outputs)
        Zero for columns that were not selected.
    condition : list of float
        Condition number of the selected columns at unit length, by output: an estimate in
        the 1-norm.
    rank : list of int
        Number of independent ones among them.
    open_directions : list of int
        Number of dependent ones.
    """

    values: Array
    condition: list[float]
    rank: list[int]
    open_directions: list[int]


@dataclass(frozen=True, eq=False)
class Solver:
    """A pivoted Cholesky factor of some columns at unit length.

    `loose` are directions along which coefficients may move and their sum stays the same on all
    rows, and the inner products with them, of which the solution has none.
    """

    columns: Indices
    order: Indices
    scale: Array
    factor: Array
    condition: float
    loose: tuple[tuple[Array, Array], ...] = ()

    def solve(self, right: Array) -> Array:
        """Return the coefficients of all columns, of least norm where some depend on others."""
        from scipy.linalg import cho_solve

        coefficients = np.zeros_like(right)
        scale = self.scale.reshape(-1, *[1] * (right.ndim - 1))
        if len(self.order):
            coefficients[self.order] = cho_solve((self.factor, False), (scale * right)[self.order])
        for directions, images in self.loose:
            coefficients -= directions @ (images.T @ coefficients)
        return np.asarray(scale * coefficients)


def factored(gram: Array, columns: Indices, owner: Indices) -> Solver:
    """Factor some columns; of solutions that are equal on the rows, the least is taken.

    Its norm sums the variances of the functions of each subset, whose columns have one `owner`:
    so purification moves what two effects can share. What then is left open, functions that
    vanish on the rows, has the least coefficients.
    """
    from scipy.linalg.lapack import dpocon, dpstrf

    among = gram[np.ix_(columns, columns)]
    variance = np.diag(among)
    scale = 1.0 / np.sqrt(np.where(variance > 0, variance, 1.0))
    if len(columns) == 0:
        return Solver(columns, columns, scale, among, 1.0)
    scaled = np.asfortranarray(among * scale[:, None] * scale)
    factor, pivots, rank, _ = dpstrf(scaled, lower=0, tol=_RANK_SHARE)
    order = pivots[:rank] - 1
    loose = _loose_directions(factor, pivots - 1, rank)
    factor = factor[:rank, :rank]
    norm = float(np.abs(scaled[np.ix_(order, order)]).sum(axis=0).max(initial=0.0))
    share, _ = dpocon(factor, norm, uplo="U")
    condition = float(1.0 / np.sqrt(share)) if share > 0 else float("inf")
    is_own = owner[columns][:, None] == owner[columns]
    removed = _without_norm(loose, np.where(is_own, scaled, 0.0))
    return Solver(columns, order.astype(np.intp), scale, factor, condition, removed)


def _loose_directions(factor: Array, order: Indices, rank: int) -> Array:
    """Return, as columns, the directions that a factor of this rank leaves undetermined."""
    from scipy.linalg import solve_triangular

    directions = np.zeros((len(order), len(order) - rank))
    if rank < len(order):
        across = solve_triangular(factor[:rank, :rank], factor[:rank, rank:], check_finite=False)
        directions[order[:rank]] = -across
        directions[order[rank:]] = np.eye(len(order) - rank)
    return directions


def _without_norm(directions: Array, norm: Array) -> tuple[tuple[Array, Array], ...]:
    """Return directions that are orthonormal in a norm with their images, then those of none."""
    if not directions.shape[1]:
        return ()
    directions = directions / np.sqrt(np.sum(directions**2, axis=0))
    images = norm @ directions
    lengths, vectors = np.linalg.eigh(directions.T @ images)
    has_length = lengths > _DIRECTION_SHARE
    root = np.sqrt(lengths[has_length])
    sized = directions @ vectors[:, has_length] / root, images @ vectors[:, has_length] / root
    vanishing = np.linalg.qr(directions @ vectors[:, ~has_length])[0]
    return sized, (vanishing, vanishing)


def least_squares(
    basis: LegendreBasis,
    rows: ScaledRows,
    values: Array,
    moments: Moments,
    selected: Sequence[Indices],
) -> Coefficients:
    """Return the coefficients of the selected columns.

    The normal equations are solved by a factorisation with pivoting; then the residual is
    computed from the rows and its own normal equations are solved, which brings the answer
    to that of an orthogonal factorisation unless columns are nearly dependent (Björck 1987,
    corrected seminormal equations). Where columns depend on others, the solution of least norm
    is taken, whatever the order of the rows.
    """
    coefficients = np.zeros(moments.covariances.shape)
    solvers = [factored(moments.gram, columns, basis.owner) for columns in selected]
    for k, solver in enumerate(solvers):
        coefficients[solver.columns, k] = solver.solve(moments.covariances[solver.columns, k])
    gradient = _residual_covariances(basis, rows, values, moments, coefficients)
    for k, solver in enumerate(solvers):
        coefficients[solver.columns, k] += solver.solve(gradient[solver.columns, k])
    return Coefficients(
        coefficients,
        [s.condition for s in solvers],
        [len(s.order) for s in solvers],
        [len(s.columns) - len(s.order) for s in solvers],
    )


def rank_of(gram: Array, columns: Indices) -> int:
    """Return how many of some columns are independent."""
    return len(factored(gram, columns, np.zeros(len(gram), dtype=np.intp)).order)


def _residual_covariances(
    basis: LegendreBasis, rows: ScaledRows, values: Array, moments: Moments, coefficients: Array
) -> Array:
    """Return the covariances of the columns in use with the residual, from the rows."""
    used = [s for s, columns in basis.slices.items() if np.any(coefficients[columns])]
    at = basis.columns_of(used)
    chosen, means = coefficients[at], moments.means[at]
    found = np.zeros_like(coefficients)
    total = np.zeros_like(chosen)
    for start, stop, block in design_blocks(basis, rows, used):
        np.subtract(block, means, out=block)
        residual = values[start:stop] - moments.value_means - block @ chosen
        total += block.T @ (rows.weights[start:stop, None] * residual)
    found[at] = total
    return found


def explained_variances(gram: Array, covariances: Array) -> Array:
    """Return the variance of each output that columns explain, without directions of rounding.

    Parameters
    ----------
    gram : ndarray of float64, shape (n_columns, n_columns)
        Covariances of the columns.
    covariances : ndarray of float64, shape (n_columns, n_outputs)
        With the function.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    shares, directions = np.linalg.eigh(gram * scale[:, None] * scale)
    kept = shares > _DIRECTION_SHARE * shares[-1]
    inside = directions[:, kept].T @ (scale[:, None] * covariances)
    return np.asarray((inside**2 / shares[kept, None]).sum(axis=0))
