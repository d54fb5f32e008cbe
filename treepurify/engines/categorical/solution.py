"""Coefficients of the selected functions, the components they add up to, and their errors."""

from dataclasses import dataclass

import numpy as np

from treepurify.engines.categorical.greedy_selection import Basis, solve_triangle
from treepurify.engines.categorical.indicators import SparseRows
from treepurify.engines.categorical.observations import Observations
from treepurify.engines.categorical.selected_functions import SubsetFunctions, selected_functions
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.typing import Array

__all__ = ["Fit", "FitErrors", "measure_fit", "solve", "variance_inflation"]

_FUNCTIONS_A_BLOCK = 512
_MOST_REFINEMENTS = 4
_PROBES = 4


@dataclass(frozen=True, eq=False)
class Fit:
    """The projection of a function on the selected functions.

    Parameters
    ----------
    intercept : ndarray of shape (n_outputs,)
        Coefficient of the constant: the mean.
    effects : dict of tuple of int to ndarray of shape (levels..., n_outputs)
        The components.
    residual : ndarray of shape (n_points, n_outputs)
        What is left of the function's mean values at the points.
    error : float
        Largest inner product of the residual with the orthonormal basis, relative to the
        norm of the function: zero for an exact projection.
    replaced : int
        Selected functions that use cells without mass and were made orthogonal.
    amplification : float
        Estimate of the largest root of the sum of the components' variances that a function of
        norm one can have: how much rounding grows, and how far components can cancel.
    """

    intercept: Array
    effects: dict[Subset, Array]
    residual: Array
    error: float
    replaced: int
    amplification: float = 1.0


def solve(
    observations: Observations, basis: Basis, memory_budget: int, progress: ProgressReport
) -> Fit:
    """Project the function on the span of the selected functions.

    The normal equations of the paper (Ferrere et al. 2026, equation 16) are solved through
    the coordinates of the selected functions in an orthonormal basis of their span, which is
    block triangular: the condition number is not squared. The residual is projected again
    until nothing is left.
    """
    functions = _functions(basis, memory_budget)
    coordinates = _coordinates(basis, functions, progress)
    norm = float(np.sqrt(observations.mass @ (observations.values**2).sum(axis=1)))
    intercept = np.zeros(observations.n_outputs)
    effects = {
        subset: np.zeros((*of_subset.inverse.shape, observations.n_outputs))
        for subset, of_subset in functions.items()
    }
    residual = observations.values.copy()
    error = np.inf
    for _ in range(_MOST_REFINEMENTS):
        in_basis = _reachable(basis, coordinates, _project(observations, basis, residual))
        before, error = error, float(np.abs(in_basis).max()) / norm if norm > 0 else 0.0
        if error < 1e-15 or error > before / 2:
            break
        coefficients = _solve_blocks(basis, functions, coordinates, in_basis)
        intercept = intercept + coefficients[()][0]
        for subset, of_subset in functions.items():
            effects[subset] += of_subset.combine(coefficients[subset])
        residual = observations.values - intercept
        for subset, table in effects.items():
            observations.add(subset, -table, residual)
    replaced = sum(
        of_subset.rows.n_rows for of_subset in functions.values() if of_subset.tables is not None
    )
    amplification = _amplification(basis, functions, coordinates)
    return Fit(intercept, effects, residual, error, replaced, amplification)


def _functions(basis: Basis, memory_budget: int) -> dict[Subset, SubsetFunctions]:
    functions: dict[Subset, SubsetFunctions] = {}
    held = 0
    for subset, chosen in basis.chosen.items():
        if subset and chosen.kept.any():
            functions[subset] = selected_functions(
                basis.mass[subset],
                chosen.kept,
                tuple(basis.reference[j] for j in subset),
                basis.numbers,
                subset,
                memory_budget,
                held,
            )
            held += functions[subset].n_bytes
    return functions


def _amplification(
    basis: Basis, functions: dict[Subset, SubsetFunctions], coordinates: Array
) -> float:
    """Estimate the Frobenius norm of the map from a function to its components.

    For random coordinates of variance one its square is the mean sum of squares of the
    components. It bounds the largest singular value, and is at most the root of the rank above.
    """
    probes = np.random.default_rng(0).standard_normal((len(basis.pivots), _PROBES))
    coefficients = _solve_blocks(basis, functions, coordinates, probes)
    squares = np.zeros(_PROBES)
    for subset, of_subset in functions.items():
        tables = of_subset.combine(coefficients[subset])
        squares += np.tensordot(of_subset.mass, tables**2, axes=of_subset.mass.ndim)
    return float(np.sqrt(squares.mean()))


def _coordinates(
    basis: Basis, functions: dict[Subset, SubsetFunctions], progress: ProgressReport
) -> Array:
    """Coordinates of the constant and of the selected functions in the orthonormal basis."""
    constant = SparseRows(np.array([0, 1]), np.array([0]), np.ones(1))
    rows = SparseRows.stack([constant, *(of_subset.rows for of_subset in functions.values())])
    n_cells = basis.joint.n_cells
    joint_mass = basis.joint.table[:n_cells, :n_cells]
    scales = basis.scales * basis.joint.scale
    coordinates = np.empty((len(basis.pivots), rows.n_rows))
    for first in range(0, rows.n_rows, _FUNCTIONS_A_BLOCK):
        block = rows.take(np.arange(first, min(first + _FUNCTIONS_A_BLOCK, rows.n_rows)))
        products = np.empty((block.n_rows, n_cells))
        block.multiply(joint_mass, products)
        right = (products[:, basis.pivots] * scales).T
        coordinates[:, first : first + block.n_rows] = solve_triangle(basis.panels, right)
        progress("solving, function", first, rows.n_rows)
    return coordinates


def _project(observations: Observations, basis: Basis, values: Array) -> Array:
    """Inner products of values at the points with the orthonormal basis."""
    weighted = observations.mass[:, None] * values
    used = [subset for subset, chosen in basis.chosen.items() if subset and len(chosen.cells)]
    products = [weighted.sum(axis=0)[None, :]]
    for subset, sums in zip(used, observations.sums_each(used, weighted), strict=True):
        products.append(sums.reshape(-1, sums.shape[-1])[basis.chosen[subset].cells])
    return solve_triangle(basis.panels, np.concatenate(products) * basis.scales[:, None])


def _reachable(basis: Basis, coordinates: Array, in_basis: Array) -> Array:
    """Leave out what the last subset's functions cannot express where the rank cut it short."""
    final = next(reversed(basis.chosen.values()))
    count = int(final.kept.sum())
    if count == final.last - final.first:
        return in_basis
    directions = np.linalg.qr(coordinates[final.first : final.last, len(coordinates[0]) - count :])[
        0
    ]
    reachable = in_basis.copy()
    reachable[final.first : final.last] = directions @ (
        directions.T @ in_basis[final.first : final.last]
    )
    return reachable


def _solve_blocks(
    basis: Basis, functions: dict[Subset, SubsetFunctions], coordinates: Array, in_basis: Array
) -> dict[Subset, Array]:
    """Back-substitution by subsets: the functions of each have few coordinates of their own."""
    rest = in_basis.copy()
    coefficients: dict[Subset, Array] = {}
    last = coordinates.shape[1]
    for subset in [*reversed(functions), ()]:
        chosen = basis.chosen[subset]
        first = last - int(chosen.kept.sum())
        block = coordinates[chosen.first : chosen.last, first:last]
        norms = np.sqrt(np.einsum("ij,ij->j", block, block))
        if block.shape[0] == block.shape[1]:
            scaled = np.linalg.solve(block / norms, rest[chosen.first : chosen.last])
        else:
            scaled = np.linalg.lstsq(block / norms, rest[chosen.first : chosen.last], rcond=None)[0]
        coefficients[subset] = scaled / norms[:, None]
        rest[: chosen.first] -= coordinates[: chosen.first, first:last] @ coefficients[subset]
        last = first
    return coefficients


@dataclass(frozen=True, eq=False)
class FitErrors:
    """Errors of the reproduced function and covariances of its parts.

    Parameters
    ----------
    r_squared, mean_squared_error, relative_error : ndarray of float64, shape (n_outputs,)
        ``1 - MSE / Var f``, the mean square of the residual, and the latter over the mean
        square of the function, as the paper's tables 6 and 7 have it.
    covariances : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each component with the function; of the residual under ``()``.
    """

    r_squared: Array
    mean_squared_error: Array
    relative_error: Array
    covariances: dict[Subset, Array]

    def table(self, output_names: tuple[str, ...]) -> dict[str, dict[str, float]]:
        """Return the errors by output."""
        return {
            name: {
                "r_squared": float(self.r_squared[k]),
                "mean_squared_error": float(self.mean_squared_error[k]),
                "relative_error": float(self.relative_error[k]),
            }
            for k, name in enumerate(output_names)
        }


def variance_inflation(observations: Observations, fit: Fit, mass: dict[Subset, Array]) -> float:
    """Return the sum of the components' variances over the variance of the function.

    One under independence; far above one where components cancel each other. The largest
    over the outputs.
    """
    centred = observations.values - observations.mass @ observations.values
    variance = observations.mass @ centred**2
    total = np.zeros(observations.n_outputs)
    for subset, table in fit.effects.items():
        total += np.tensordot(mass[subset], table**2, axes=len(subset))
    return float(np.max(total / np.where(variance > 0, variance, np.inf)))


def measure_fit(observations: Observations, fit: Fit) -> FitErrors:
    """Return errors and covariances over the rows, variance within bins included."""
    mass, values = observations.mass, observations.values
    centred = values - mass @ values
    variance = mass @ centred**2 + observations.within
    square = mass @ values**2 + observations.within
    error = mass @ fit.residual**2 + observations.within
    weighted = mass[:, None] * centred

    covariances = {
        subset: np.asarray((sums * fit.effects[subset]).reshape(-1, sums.shape[-1]).sum(axis=0))
        for subset, sums in zip(
            fit.effects, observations.sums_each(fit.effects, weighted), strict=True
        )
    }
    covariances[()] = (weighted * fit.residual).sum(axis=0) + observations.within
    return FitErrors(
        np.asarray(1.0 - error / np.where(variance > 0, variance, 1.0)),
        np.asarray(error),
        np.asarray(error / np.where(square > 0, square, 1.0)),
        covariances,
    )
