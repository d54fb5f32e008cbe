"""Marginal densities of a few features, estimated from rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.engines.legendre.scaling import Axis, GappedAxis, LevelAxis, legendre_table
from treepurify.rows.row_weights import row_quantiles
from treepurify.saving import savable
from treepurify.typing import Array
from treepurify.weights.distributions import outer_product

Subset = tuple[int, ...]
DensityName = Literal["none", "legendre", "kernel"]

_POINTS_BY_ORDER = {1: 257, 2: 65, 3: 33}
_BANDWIDTH = 0.5
_CORRECTIONS = 2
# Rows where the estimate is almost zero must not dominate its correction.
_FLOOR_SHARE = 0.1


@savable("Legendre series of a density")
@dataclass(frozen=True, eq=False)
class SeriesDensity:
    """A truncated series of Legendre polynomials and indicators of levels.

    Parameters
    ----------
    subset : tuple of int
        The features.
    coefficients : ndarray of float64
        One axis per feature: degrees 0, 1, ... of a continuous one, levels of another.
    floor : float
        Smaller values are raised to it.
    """

    subset: Subset
    coefficients: Array
    floor: float

    def raw(
        self,
        axes: Mapping[int, Axis],
        coordinates: Mapping[int, Array],
        known: dict[Any, Any] | None = None,
    ) -> Array:
        """Return the series before clipping, shape (n_rows,).

        `known` holds what other densities computed on the same rows, and is added to.
        """
        tables = []
        for j, size in zip(self.subset, self.coefficients.shape, strict=True):
            make = partial(_density_table, axes[j], coordinates[j], size - 1)
            tables.append(_known(known, ("series", j, size), make))
        return contract(tables, self.coefficients[..., None])[:, 0]


@savable("density on a grid")
@dataclass(frozen=True, eq=False)
class GridDensity:
    """A density that is linear between the points of an even grid, and given at each level.

    Parameters
    ----------
    subset : tuple of int
        The features.
    table : ndarray of float64
        One axis per feature: points of the grid on [-1, 1], or levels.
    floor : float
        Smaller values are raised to it.
    """

    subset: Subset
    table: Array
    floor: float

    def raw(
        self,
        axes: Mapping[int, Axis],
        coordinates: Mapping[int, Array],
        known: dict[Any, Any] | None = None,
    ) -> Array:
        """Return the density before clipping, shape (n_rows,).

        `known` holds what other densities computed on the same rows, and is added to.
        """
        corners = []
        for j, size in zip(self.subset, self.table.shape, strict=True):
            make = partial(_corners, axes[j], coordinates[j], size)
            corners.append(_known(known, ("grid", j, size), make))
        total = np.zeros(len(coordinates[self.subset[0]]))
        for choice in product(*corners):
            at = tuple(index for index, _ in choice)
            total += self.table[at] * np.prod([weight for _, weight in choice], axis=0)
        return total


Density = SeriesDensity | GridDensity


def _known(known: dict[Any, Any] | None, key: Any, make: Callable[[], Any]) -> Any:
    """Return what is known under a key, made and kept where it is not."""
    if known is None:
        return make()
    if key not in known:
        known[key] = make()
    return known[key]


def contract(tables: Sequence[Array], coefficients: Array) -> Array:
    """Return ``sum_m c_m prod_j tables[j][:, m_j]``, shape (n_rows, n_outputs).

    Parameters
    ----------
    tables : sequence of ndarray of shape (n_rows, n_functions_j)
        Values of each feature's functions.
    coefficients : ndarray of shape (n_functions_1, ..., n_outputs)
        One axis per feature, the outputs last.
    """
    first = tables[0]
    total = (first @ coefficients.reshape(first.shape[1], -1)).reshape(
        len(first), *coefficients.shape[1:]
    )
    for table in tables[1:]:
        total = np.einsum("na,na...->n...", table, total)
    return total


def constant_densities(
    axes: Mapping[int, Axis], subsets: Sequence[Subset]
) -> dict[Subset, SeriesDensity]:
    """Return densities that are one everywhere."""
    ones = {j: _ones(axes[j]) for j in {j for subset in subsets for j in subset}}
    return {s: SeriesDensity(s, outer_product([ones[j] for j in s]), 0.0) for s in subsets}


def _ones(axis: Axis) -> Array:
    if isinstance(axis, LevelAxis):
        return np.ones(len(axis.levels))
    return np.array([np.sqrt(2.0)])


def is_one(density: Density, axes: Mapping[int, Axis]) -> bool:
    """Whether a density is one of `constant_densities`."""
    if not isinstance(density, SeriesDensity) or density.floor != 0.0:
        return False
    ones = constant_densities(axes, [density.subset])[density.subset]
    return np.array_equal(density.coefficients, ones.coefficients)


def series_densities(
    axes: Mapping[int, Axis],
    coordinates: Mapping[int, Array],
    weights: Array,
    subsets: Sequence[Subset],
    degree: int,
    clip: float,
) -> dict[Subset, Density]:
    """Return the Legendre series of each subset's density (Ferrere et al., equations 79, 80).

    Where all features of a subset have levels this is the mass of each combination.
    """
    used = sorted({j for subset in subsets for j in subset})
    tables = {j: _density_table(axes[j], coordinates[j], degree) for j in used}
    weighted = {j: weights[:, None] * table for j, table in tables.items()}
    densities: dict[Subset, Density] = {}
    for subset in subsets:
        moments = weighted[subset[0]]
        for j in subset[1:-1]:
            moments = np.einsum("na,nb->nab", moments, tables[j]).reshape(len(weights), -1)
        shape = tuple(tables[j].shape[1] for j in subset)
        if len(subset) == 1:
            coefficients = moments.sum(axis=0)
        else:
            coefficients = (moments.T @ tables[subset[-1]]).reshape(shape)
        densities[subset] = SeriesDensity(subset, coefficients, _floor(axes, subset, clip, weights))
    return densities


def grid_density(
    axes: Mapping[int, Axis],
    coordinates: Mapping[int, Array],
    weights: Array,
    subset: Subset,
    clip: float,
) -> GridDensity:
    """Return a Gaussian kernel estimate of one density, reflected at the ends of [-1, 1].

    Rows are spread linearly over a grid, which is smoothed by damping its cosine series
    (Botev, Grotowski and Kroese 2010, section 5.1), with half the bandwidth of Scott's rule in
    each direction. What orthogonality asks of a density is that rows weighted by its inverse
    be spread evenly: so the estimate is multiplied, twice, by the smoothed density of the rows
    weighted so (Jones, Linton and Nielsen 1995). Levels are not smoothed.
    """
    smooth = [i for i, j in enumerate(subset) if not isinstance(axes[j], LevelAxis)]
    n_points = _POINTS_BY_ORDER[max(len(smooth), 1)]
    shape = tuple(_n_points(axes[j], n_points) for j in subset)
    floor = _floor(axes, subset, clip, weights)
    table = _spread_rows(axes, coordinates, weights, subset, shape)
    if smooth:
        damping, cells = np.ones([1] * len(shape)), np.ones([1] * len(shape))
        rate = _BANDWIDTH * float(weights @ weights) ** (1.0 / (len(smooth) + 4))
        for i in smooth:
            # The first and the last point of the grid stand for half an interval.
            share = np.full(n_points, 2.0 / (n_points - 1))
            share[[0, -1]] *= 0.5
            cells = cells * _along(share, i, len(shape))
            width = rate * _spread(coordinates[subset[i]], weights)
            factors = np.exp(-0.5 * (0.5 * np.pi * width * np.arange(n_points)) ** 2)
            damping = damping * _along(factors, i, len(shape))
        table = table / cells
        least = _FLOOR_SHARE * floor
        estimate = np.maximum(_smoothed(table, damping, smooth), least)
        for _ in range(_CORRECTIONS):
            evenness = _smoothed(table / estimate, damping, smooth)
            estimate = np.maximum(estimate * evenness, least)
        table = estimate / np.sum(estimate * cells)
    return GridDensity(subset, table, floor)


def _spread_rows(
    axes: Mapping[int, Axis],
    coordinates: Mapping[int, Array],
    weights: Array,
    subset: Subset,
    shape: tuple[int, ...],
) -> Array:
    """Return the weight of the rows near each point of a grid; it sums to one."""
    table = np.zeros(shape)
    corners = [
        _corners(axes[j], coordinates[j], size) for j, size in zip(subset, shape, strict=True)
    ]
    for choice in product(*corners):
        flat = np.ravel_multi_index(tuple(index for index, _ in choice), shape)
        mass = weights * np.prod([weight for _, weight in choice], axis=0)
        table += np.bincount(flat, mass, minlength=table.size).reshape(shape)
    return table


def _smoothed(table: Array, damping: Array, axes: list[int]) -> Array:
    from scipy.fft import dctn, idctn

    return np.asarray(idctn(dctn(table, type=1, axes=axes) * damping, type=1, axes=axes))


def _floor(axes: Mapping[int, Axis], subset: Subset, clip: float, weights: Array) -> float:
    """Return the clip; for levels alone half of the smallest mass that a row can have."""
    if all(isinstance(axes[j], LevelAxis) for j in subset):
        return 0.5 * float(weights[weights > 0].min())
    return clip


def _along(values: Array, axis: int, n_axes: int) -> Array:
    return values.reshape([-1 if i == axis else 1 for i in range(n_axes)])


def _density_table(axis: Axis, coordinates: Array, degree: int) -> Array:
    if isinstance(axis, LevelAxis):
        return axis.indicators(coordinates)
    if isinstance(axis, GappedAxis):
        # Missing values come with densities of one only, which are a constant there, too.
        return legendre_table(np.nan_to_num(coordinates), degree)
    return legendre_table(coordinates, degree)


def _n_points(axis: Axis, n_points: int) -> int:
    return len(axis.levels) if isinstance(axis, LevelAxis) else n_points


def _corners(axis: Axis, coordinates: Array, size: int) -> list[tuple[npt.NDArray[Any], Array]]:
    """Return the points of the grid next to each row, and their weights."""
    if isinstance(axis, LevelAxis):
        return [(coordinates.astype(np.intp), np.ones(len(coordinates)))]
    place = (coordinates + 1.0) * (0.5 * (size - 1))
    lower = np.clip(place.astype(np.intp), 0, size - 2)
    part = place - lower
    return [(lower, 1.0 - part), (lower + 1, part)]


def _spread(coordinates: Array, weights: Array) -> float:
    """Return a scale that neither outliers nor a sharp peak alone decide."""
    lower, upper = row_quantiles(coordinates, weights, np.array([0.25, 0.75]))
    mean = weights @ coordinates
    deviation = float(np.sqrt(weights @ (coordinates - mean) ** 2))
    quartiles = float(upper - lower) / 1.34
    return min(deviation, quartiles) if quartiles > 0 else deviation
