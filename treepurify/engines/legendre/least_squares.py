"""Coefficients by least squares, and their split into orthogonal components."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

import numpy as np

from treepurify.engines.legendre.design import Basis, Moments, ScaledRows, design_blocks
from treepurify.engines.legendre.selection import Selected
from treepurify.typing import Array, Indices

__all__ = [
    "Coefficients",
    "Split",
    "Subset",
    "columns_of",
    "explained_variances",
    "least_squares",
    "rank_of",
    "refined",
    "remove_rest",
    "split_as_fitted",
    "split_orthogonally",
]

Subset = tuple[int, ...]
Split = dict[Subset, dict[Subset, Array]]
"""For each component the coefficients of the functions of its features and of their subsets."""

_RANK_SHARE = 1e-13
_EMPTY_SHARE = 1e-9
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
    penalty : list of float
        Size of the ridge, by output; empty without one.
    """

    values: Array
    condition: list[float]
    rank: list[int]
    open_directions: list[int]
    penalty: list[float] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Solver:
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


def _solver(gram: Array, columns: Indices, owner: Indices) -> _Solver:
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
        return _Solver(columns, columns, scale, among, 1.0)
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
    return _Solver(columns, order.astype(np.intp), scale, factor, condition, removed)


def _loose_directions(factor: Array, order: Indices, rank: int) -> Array:
    """Return the directions, as columns, that a factor of so many pivots leaves undetermined."""
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
    basis: Basis, rows: ScaledRows, values: Array, moments: Moments, selected: list[Selected]
) -> Coefficients:
    """Return the coefficients of the selected columns.

    The normal equations are solved by a factorisation with pivoting; then the residual is
    computed from the rows and its own normal equations are solved, which brings the answer
    to that of an orthogonal factorisation unless columns are nearly dependent (Björck 1987,
    corrected seminormal equations). Where columns depend on others, the solution of least norm
    is taken, whatever the order of the rows.
    """
    gradient_at = partial(_gradient, basis, rows, values, moments)
    return refined(basis, moments, selected, gradient_at)


def refined(
    basis: Basis,
    moments: Moments,
    selected: list[Selected],
    gradient_at: Callable[[Array], Array],
) -> Coefficients:
    """Return the coefficients of the selected columns from moments; see `least_squares`.

    Parameters
    ----------
    basis : Basis
        The columns.
    moments : Moments
        Moments of the columns and of the function.
    selected : list of Selected
        The columns of each output.
    gradient_at : callable
        From coefficients to the covariances of the columns in use with the residual, computed
        from the rows.
    """
    coefficients = np.zeros(moments.covariances.shape)
    solvers = [_solver(moments.gram, choice.columns, basis.owner) for choice in selected]
    for k, solver in enumerate(solvers):
        coefficients[solver.columns, k] = solver.solve(moments.covariances[solver.columns, k])
    gradient = gradient_at(coefficients)
    for k, solver in enumerate(solvers):
        coefficients[solver.columns, k] += solver.solve(gradient[solver.columns, k])
    return Coefficients(
        coefficients,
        [s.condition for s in solvers],
        [len(s.order) for s in solvers],
        [len(s.columns) - len(s.order) for s in solvers],
    )


def columns_of(basis: Basis, subsets: Sequence[Subset]) -> Indices:
    """Return the positions of the columns of some subsets."""
    every = np.arange(basis.n_columns)
    return np.concatenate([every[:0], *(every[basis.slices[subset]] for subset in subsets)])


def rank_of(gram: Array, columns: Indices) -> int:
    """Return how many of some columns are independent."""
    return len(_solver(gram, columns, np.zeros(len(gram), dtype=np.intp)).order)


def _gradient(
    basis: Basis, rows: ScaledRows, values: Array, moments: Moments, coefficients: Array
) -> Array:
    """Return the covariances of the columns in use with the residual, computed from the rows."""
    gradient = np.zeros_like(coefficients)
    used = [s for s, columns in basis.slices.items() if np.any(coefficients[columns])]
    if not used:
        return gradient
    at = columns_of(basis, used)
    chosen, means = coefficients[at], moments.means[at]
    total = np.zeros_like(chosen)
    for start, stop, block in design_blocks(basis, rows, used):
        np.subtract(block, means, out=block)
        rest = values[start:stop] - moments.value_means - block @ chosen
        total += block.T @ (rows.weights[start:stop, None] * rest)
    gradient[at] = total
    return gradient


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


def split_as_fitted(basis: Basis, coefficients: Array) -> Split:
    """Return each subset's own functions: orthogonal as far as the densities are right."""
    return {
        subset: {subset: coefficients[columns]}
        for subset, columns in basis.slices.items()
        if np.any(coefficients[columns])
    }


def split_orthogonally(basis: Basis, moments: Moments, coefficients: Array) -> Split:
    """Return components that are orthogonal to all functions of fewer of their features.

    From the largest subsets down, the part of a component that lies in the sum of the fitted
    spaces of its features' proper subsets (all their columns, selected or not) is taken out
    and given to them. The sum of all components does not change, so neither does the fit;
    what is orthogonal afterwards is orthogonal in L2 of the rows, whatever the densities. Where
    the rows let what is taken out be of one subset or of another, the functions of least norm
    are taken.
    """
    remaining = coefficients.copy()
    split: Split = {}
    for subset in sorted(basis.slices, key=len, reverse=True):
        coefficients_of_subset = remaining[basis.slices[subset]]
        if not np.any(coefficients_of_subset):
            continue
        split[subset] = {subset: coefficients_of_subset.copy()}
        lower = [
            part
            for size in range(1, len(subset))
            for part in combinations(subset, size)
            if part in basis.slices
        ]
        if not lower:
            continue
        columns = columns_of(basis, lower)
        solver = _solver(moments.gram, columns, basis.owner)
        right = moments.gram[columns, basis.slices[subset]] @ coefficients_of_subset
        moved = solver.solve(right)
        moved += solver.solve(right - moments.gram[np.ix_(columns, columns)] @ moved)
        start = 0
        for part in lower:
            stop = start + basis.slices[part].stop - basis.slices[part].start
            split[subset][part] = -moved[start:stop]
            remaining[basis.slices[part]] += moved[start:stop]
            start = stop
    return {subset: split[subset] for subset in sorted(split, key=lambda s: (len(s), s))}


def remove_rest(
    split: Split, parts: dict[Subset, Array], shifts: dict[Subset, Array], weights: Array
) -> tuple[Split, dict[Subset, Array], dict[Subset, Array]]:
    """Return a split without the inner products that rounding left, measured on the rows.

    Where columns are nearly dependent, for example polynomials of a feature that one outlier
    presses together, solving normal equations leaves some. A component's share along those
    of fewer of its features is moved into them: they get longer but keep their direction, so
    that what is orthogonal to them stays so.

    Parameters
    ----------
    split : dict
        The coefficients of each component.
    parts : dict of tuple of int to ndarray of float64, shape (n_rows, n_outputs)
        The centred values of each component on the rows.
    shifts : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        What was subtracted to centre them.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row.
    """
    split = {subset: dict(functions) for subset, functions in split.items()}
    parts, shifts = dict(parts), dict(shifts)
    for subset in sorted(split, key=len):
        proper = (c for size in range(1, len(subset)) for c in combinations(subset, size))
        inside = [part for part in proper if part in split]
        if not inside:
            continue
        shares = _shares_along(parts[subset], [parts[part] for part in inside], weights)
        for part, share in zip(inside, shares, strict=True):
            functions = split[subset]
            for function, coefficients in split[part].items():
                functions[function] = functions.get(function, 0.0) - share * coefficients
            parts[subset] = parts[subset] - share * parts[part]
            shifts[subset] = shifts[subset] - share * shifts[part]
        for part, share in zip(inside, shares, strict=True):
            split[part] = {key: (1.0 + share) * value for key, value in split[part].items()}
            parts[part] = (1.0 + share) * parts[part]
            shifts[part] = (1.0 + share) * shifts[part]
    return split, parts, shifts


def _shares_along(part: Array, inside: list[Array], weights: Array) -> Array:
    """Return the least squares coefficients on a few functions, shape (len(inside), n_outputs)."""
    root = np.sqrt(weights)
    shares = np.zeros((len(inside), part.shape[1]))
    for k in range(part.shape[1]):
        functions = np.stack([root * other[:, k] for other in inside], axis=1)
        lengths = np.sqrt(np.sum(functions**2, axis=0))
        used = lengths > _EMPTY_SHARE * max(float(lengths.max(initial=0.0)), np.finfo(float).tiny)
        if np.any(used):
            unit = functions[:, used] / lengths[used]
            solution = np.linalg.lstsq(unit, root * part[:, k], rcond=None)[0]
            shares[used, k] = solution / lengths[used]
    return shares
