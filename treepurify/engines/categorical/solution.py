"""Coefficients of the selected functions, the components they add up to, and their errors."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.categorical.cells import ADVICE
from treepurify.engines.categorical.greedy_selection import IndicatorBasis, solve_triangle
from treepurify.engines.categorical.indicators import cells_with_mass, of_parts
from treepurify.engines.categorical.observations import Observations
from treepurify.engines.categorical.selected_functions import SubsetFunctions, selected_functions
from treepurify.grids.grid import Subset, mean_over_cells
from treepurify.progress import ProgressReport
from treepurify.typing import Array

_FUNCTIONS_A_BLOCK = 256
_ENTRIES_A_BLOCK = 1 << 18
_MOST_REFINEMENTS = 4
_PROBES = 4


@dataclass(frozen=True, eq=False)
class CategoricalFit:
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
    observations: Observations, basis: IndicatorBasis, memory_budget: int, progress: ProgressReport
) -> CategoricalFit:
    """Project the function on the span of the selected functions.

    The normal equations of the paper (Ferrere et al. 2026, equation 16) are solved through
    the coordinates of the selected functions in an orthonormal basis of their span, which is
    block triangular: the condition number is not squared. The residual is projected again
    until nothing is left.
    """
    functions = _functions(basis, memory_budget)
    _check_memory(observations, basis, functions, memory_budget)
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
        of_subset.n_functions for of_subset in functions.values() if of_subset.lower is not None
    )
    amplification = _amplification(basis, functions, coordinates)
    return CategoricalFit(intercept, effects, residual, error, replaced, amplification)


def _functions(basis: IndicatorBasis, memory_budget: int) -> dict[Subset, SubsetFunctions]:
    return {
        subset: selected_functions(basis.mass[subset], chosen.kept, memory_budget)
        for subset, chosen in basis.chosen.items()
        if subset and chosen.kept.any()
    }


def _check_memory(
    observations: Observations,
    basis: IndicatorBasis,
    functions: dict[Subset, SubsetFunctions],
    memory_budget: int,
) -> None:
    n_outputs = observations.n_outputs
    n_directions = len(basis.pivots)
    kept = sum(of.n_bytes + 8 * n_outputs * of.mass.size for of in functions.values())
    meanwhile = max((of.bytes_of_products(n_outputs) for of in functions.values()), default=0)
    check_budget(
        basis.n_bytes + 8 * n_directions * (basis.rank + 3 * _FUNCTIONS_A_BLOCK) + kept + meanwhile,
        memory_budget,
        f"the solution and the effects for {basis.rank} basis functions",
        ADVICE,
    )


def _amplification(
    basis: IndicatorBasis, functions: dict[Subset, SubsetFunctions], coordinates: Array
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
        squares += mean_over_cells(of_subset.mass, tables**2)
    return float(np.sqrt(squares.mean()))


def _coordinates(
    basis: IndicatorBasis, functions: dict[Subset, SubsetFunctions], progress: ProgressReport
) -> Array:
    """Coordinates of the constant and of the selected functions in the orthonormal basis."""
    n_directions = len(basis.pivots)
    coordinates = np.empty((n_directions, basis.rank))
    scales = basis.scales[:, None]
    coordinates[:, 0] = basis.joint.inner_products(basis.pivots, np.zeros(1, np.int64))[:, 0]
    first = 1
    for subset, of_subset in functions.items():
        last = first + of_subset.n_functions
        for pivots, products in _with_pivots(basis, subset, of_subset):
            coordinates[pivots, first:last] = products.T
        progress("solving: function", last, basis.rank)
        first = last
    for first in range(0, basis.rank, _FUNCTIONS_A_BLOCK):
        block = slice(first, first + _FUNCTIONS_A_BLOCK)
        coordinates[:, block] = solve_triangle(basis.panels, coordinates[:, block] * scales)
    return coordinates


def _with_pivots(
    basis: IndicatorBasis, subset: Subset, of_subset: SubsetFunctions
) -> Iterator[tuple[slice, Array]]:
    """Yield inner products of a subset's functions with the indicators of pivots, in blocks."""
    number = cells_with_mass(of_subset.mass)
    reference = tuple(basis.reference[j] for j in subset)
    indicators = of_parts(number, reference, basis.numbers, subset)
    products = of_subset.transposed()
    step = max(1, _ENTRIES_A_BLOCK // max(indicators.matrix.shape))
    for start in range(0, len(basis.pivots), step):
        block = slice(start, min(start + step, len(basis.pivots)))
        joint = basis.joint.inner_products(indicators.numbers, basis.pivots[block])
        yield block, products(indicators.matrix @ joint)


def _project(observations: Observations, basis: IndicatorBasis, values: Array) -> Array:
    """Inner products of values at the points with the orthonormal basis."""
    weighted = observations.mass[:, None] * values
    used = [subset for subset, chosen in basis.chosen.items() if subset and len(chosen.cells)]
    products = [weighted.sum(axis=0)[None, :]]
    for subset, sums in zip(used, observations.sums_each(used, weighted), strict=True):
        products.append(sums.reshape(-1, sums.shape[-1])[basis.chosen[subset].cells])
    return solve_triangle(basis.panels, np.concatenate(products) * basis.scales[:, None])


def _reachable(basis: IndicatorBasis, coordinates: Array, in_basis: Array) -> Array:
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
    basis: IndicatorBasis,
    functions: dict[Subset, SubsetFunctions],
    coordinates: Array,
    in_basis: Array,
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


def variance_inflation(
    observations: Observations, fit: CategoricalFit, mass: dict[Subset, Array]
) -> float:
    """Return the sum of the components' variances over the variance of the function.

    One under independence; far above one where components cancel each other. The largest
    over the outputs.
    """
    centred = observations.values - observations.mass @ observations.values
    variance = observations.mass @ centred**2
    total = np.zeros(observations.n_outputs)
    for subset, table in fit.effects.items():
        total += mean_over_cells(mass[subset], table**2)
    return float(np.max(total / np.where(variance > 0, variance, np.inf)))


def measure_fit(observations: Observations, fit: CategoricalFit) -> FitErrors:
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
