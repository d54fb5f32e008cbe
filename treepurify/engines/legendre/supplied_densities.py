"""Densities that are known rather than estimated, and the Gaussian copula, on grids."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import comb
from typing import Any

import numpy as np

from treepurify.arguments import brief
from treepurify.budget import check_budget
from treepurify.engines.legendre.densities import GridDensity, Subset, grid_density
from treepurify.engines.legendre.scaling import Axis, ContinuousAxis, LevelAxis
from treepurify.errors import InvalidInputError
from treepurify.typing import Array

__all__ = [
    "Marginal",
    "as_marginal",
    "check_grids",
    "copula_densities",
    "density_words",
    "supplied_densities",
]

Marginal = Callable[[Array, Subset], Array]
"""The density of some features, by position, at points of shape (n_points, n_features)."""

_POINTS_BY_ORDER = {1: 513, 2: 129, 3: 41}
_EXPECTED = (
    "density must be a name; a function of points (n_points, k) and the positions of their k "
    "features, which returns the joint density; or an object with logpdf (or a fitted mixture) "
    "whose margins are known (a frozen multivariate_normal or multivariate_t, gaussian_kde, "
    "GaussianMixture)"
)
# Of the spread of a feature: over which the slope of a scaling is taken.
_STEP = 1e-3
_LARGEST_SHARE = 1 - 1e-9


def density_words(density: Any) -> str:
    """Return how a density is named in diagnostics."""
    if isinstance(density, str):
        return density
    return f"given ({getattr(density, '__name__', type(density).__name__)})"


def as_marginal(density: Any, n_features: int) -> Marginal:
    """Return what gives the density of some features.

    Raises
    ------
    InvalidInputError
        If margins of `density` are not known, or it is of another number of features.
    """
    if hasattr(density, "means_") and hasattr(density, "covariances_"):
        means = np.asarray(density.means_, dtype=float)
        spreads = _mixture_covariances(density, *means.shape)
        return _mixture(np.asarray(density.weights_, dtype=float), means, spreads, n_features)
    if hasattr(density, "logpdf"):
        if hasattr(density, "marginal") and hasattr(density, "dataset"):
            _check_size(len(density.dataset), n_features)
            return lambda points, features: density.marginal(features).pdf(points.T)
        if hasattr(density, "df") and hasattr(density, "shape") and hasattr(density, "loc"):
            return _multivariate_t(density, n_features)
        if hasattr(density, "mean") and hasattr(density, "cov"):
            means = np.atleast_2d(np.asarray(density.mean, dtype=float))
            spreads = np.asarray(density.cov, dtype=float).reshape(1, *[means.shape[1]] * 2)
            return _mixture(np.ones(1), means, spreads, n_features)
    if callable(density) and not hasattr(density, "logpdf"):
        known: Marginal = density
        return known
    raise InvalidInputError(f"{_EXPECTED}; got {brief(density)}")


def _check_size(size: int, n_features: int) -> None:
    if size != n_features:
        raise InvalidInputError(
            f"the density has {size} features, but the rows have {n_features}: pass the density "
            "of all features, in the order of the table"
        )


def _mixture_covariances(density: Any, n_parts: int, n_features: int) -> Array:
    """Return the covariances of a mixture of scikit-learn, shape (n_parts, k, k)."""
    spreads = np.asarray(density.covariances_, dtype=float)
    kind = getattr(density, "covariance_type", "full")
    if kind == "tied":
        return np.broadcast_to(spreads, (n_parts, n_features, n_features))
    if kind == "full":
        return spreads
    return np.stack([np.eye(n_features) * np.atleast_1d(of_part) for of_part in spreads])


def _mixture(shares: Array, means: Array, spreads: Array, n_features: int) -> Marginal:
    from scipy.stats import multivariate_normal

    _check_size(means.shape[1], n_features)

    def marginal(points: Array, features: Subset) -> Array:
        kept = list(features)
        parts = [
            share * multivariate_normal.pdf(points, mean[kept], spread[np.ix_(kept, kept)])
            for share, mean, spread in zip(shares, means, spreads, strict=True)
        ]
        return np.asarray(np.sum(np.reshape(parts, (len(shares), -1)), axis=0))

    return marginal


def _multivariate_t(density: Any, n_features: int) -> Marginal:
    from scipy.stats import multivariate_t

    centre, shape = np.atleast_1d(density.loc), np.atleast_2d(density.shape)
    _check_size(len(centre), n_features)

    def marginal(points: Array, features: Subset) -> Array:
        kept = list(features)
        known = multivariate_t(centre[kept], shape[np.ix_(kept, kept)], df=density.df)
        return np.reshape(known.pdf(points), -1)

    return marginal


def check_grids(n_features: int, order: int, memory_budget: int) -> None:
    """Refuse grids of the densities of all subsets that would not fit."""
    sizes = range(1, order + 1)
    points = sum(comb(n_features, size) * _POINTS_BY_ORDER[size] ** size for size in sizes)
    check_budget(
        8 * (points + (2 + 2 * order) * _POINTS_BY_ORDER[order] ** order),
        memory_budget,
        f"densities of up to {order} of {n_features} features at {points} points",
        'Lower the order, or pass density="none".',
    )


def supplied_densities(
    marginal: Marginal,
    axes: Mapping[int, Axis],
    coordinates: Mapping[int, Array],
    subsets: Sequence[Subset],
    clip: float,
) -> dict[Subset, GridDensity]:
    """Return known densities in the coordinates of the axes, linear between points of a grid.

    Raises
    ------
    InvalidInputError
        If a feature has levels, or the density returns something else than finite numbers that
        are not negative.
    """
    densities = {}
    for subset in subsets:
        n_points = _POINTS_BY_ORDER[len(subset)]
        values, slopes = [], []
        for j in subset:
            axis = axes[j]
            if not isinstance(axis, ContinuousAxis):
                raise InvalidInputError(
                    f"feature {axis.name!r} has levels, but the given density is for numbers: "
                    f'pass scaling={{{axis.name!r}: "rank"}}, or density="kernel"'
                )
            value, slope = _values_at(axis, coordinates[j], n_points)
            values.append(value)
            slopes.append(slope)
        points = np.array(list(product(*values)))
        change = np.prod(np.array(list(product(*slopes))), axis=1)
        found = np.asarray(marginal(points, subset), dtype=float)
        if found.shape != (len(points),) or not np.all(np.isfinite(found)) or np.any(found < 0):
            raise InvalidInputError(
                f"the density must return {len(points)} finite numbers that are not negative, one "
                f"for each point, got {brief(found)}"
            )
        table = (found * change).reshape([n_points] * len(subset))
        densities[subset] = GridDensity(subset, table, clip)
    return densities


def _values_at(axis: ContinuousAxis, coordinates: Array, n_points: int) -> tuple[Array, Array]:
    """Return the values at the points of an even grid of coordinates, and the slope there.

    Beyond the coordinates of the rows both stay as they are at the last row.
    """
    grid = np.linspace(-1.0, 1.0, n_points).clip(coordinates.min(), coordinates.max())
    if axis.scaling == "minmax":
        return axis.centre + axis.spread * grid, np.full(n_points, axis.spread)
    if axis.scaling == "tanh":
        inside = grid.clip(-_LARGEST_SHARE, _LARGEST_SHARE)
        return axis.centre + axis.spread * np.arctanh(inside), axis.spread / (1.0 - inside**2)
    low, high = axis.knots[0], axis.knots[-1]
    below, above = np.full(n_points, low), np.full(n_points, high)
    # By bisection, to the last bit: the scaling increases.
    for _ in range(64):
        middle = 0.5 * below + 0.5 * above
        is_below = axis.coordinates(middle) < grid
        below, above = np.where(is_below, middle, below), np.where(is_below, above, middle)
    step = _STEP * (high - low)
    ends = np.clip(below - step, low, high), np.clip(below + step, low, high)
    rise = axis.coordinates(ends[1]) - axis.coordinates(ends[0])
    return below, (ends[1] - ends[0]) / np.maximum(rise, np.finfo(float).tiny)


def copula_densities(
    axes: Mapping[int, Axis],
    coordinates: Mapping[int, Array],
    weights: Array,
    subsets: Sequence[Subset],
    clip: float,
) -> dict[Subset, GridDensity]:
    """Return the densities of a Gaussian copula with kernel estimates as margins.

    Subsets with a feature of levels have kernel estimates themselves.
    """
    used = sorted({j for subset in subsets for j in subset if isinstance(axes[j], ContinuousAxis)})
    margins = {
        (j, n_points): _margin(axes, coordinates, weights, j, clip, n_points)
        for j in used
        for n_points in {_POINTS_BY_ORDER[len(s)] for s in subsets if j in s}
    }
    finest = {j: max(size for other, size in margins if other == j) for j in used}
    scores = {
        j: np.interp(coordinates[j], np.linspace(-1, 1, finest[j]), margins[j, finest[j]][1])
        for j in used
    }
    densities = {}
    for subset in subsets:
        if any(isinstance(axes[j], LevelAxis) for j in subset):
            densities[subset] = grid_density(axes, coordinates, weights, subset, clip)
            continue
        n_points = _POINTS_BY_ORDER[len(subset)]
        table = np.ones((1,) * len(subset))
        for i, j in enumerate(subset):
            shape = [-1 if k == i else 1 for k in range(len(subset))]
            table = table * margins[j, n_points][0].reshape(shape)
        if len(subset) > 1:
            among = np.cov([scores[j] for j in subset], aweights=weights, ddof=0)
            deviations = np.sqrt(np.diag(among))
            at = np.array(list(product(*(margins[j, n_points][1] for j in subset))))
            table = table * _copula(at, among / np.outer(deviations, deviations), table.shape)
        densities[subset] = GridDensity(subset, table, clip)
    return densities


def _margin(
    axes: Mapping[int, Axis],
    coordinates: Mapping[int, Array],
    weights: Array,
    feature: int,
    clip: float,
    n_points: int,
) -> tuple[Array, Array]:
    """Return the density and the normal score of a feature at the points of an even grid."""
    from scipy.special import ndtri

    known = grid_density(axes, coordinates, weights, (feature,), clip)
    grid = np.linspace(-1.0, 1.0, n_points)
    table = known.raw(axes, {feature: grid})
    steps = 0.5 * (table[1:] + table[:-1]) * (grid[1] - grid[0])
    reached = np.concatenate([[0.0], np.cumsum(steps)])
    least = 0.5 * float(weights[weights > 0].min())
    shares = np.clip(reached / reached[-1], least, 1.0 - least)
    return table / reached[-1], ndtri(shares)


def _copula(scores: Array, correlation: Array, shape: tuple[int, ...]) -> Array:
    """Return the density of the Gaussian copula at normal scores."""
    inverse = np.linalg.inv(correlation) - np.eye(len(correlation))
    exponent = -0.5 * np.einsum("ni,ij,nj->n", scores, inverse, scores)
    density = np.exp(exponent) / np.sqrt(np.linalg.det(correlation))
    return np.asarray(density.reshape(shape))
