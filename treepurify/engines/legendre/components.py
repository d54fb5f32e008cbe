"""Components that are sums of Legendre functions over densities."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.components import ModelInputs, OnRows
from treepurify.engines.legendre.densities import Density, contract, is_one
from treepurify.engines.legendre.scaling import Axis, LevelAxis
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import cells_between
from treepurify.grids.grid import Subset
from treepurify.rows.columns import Columns
from treepurify.saving import savable
from treepurify.terms import effect_title
from treepurify.typing import Array

_ROWS_AT_A_TIME = 8192
# 64 MB of values that components share.
_MOST_KEPT = 1 << 23


@savable("Legendre term")
@dataclass(frozen=True, eq=False)
class LegendreTerm:
    """A sum of products of functions of each feature, over one density.

    Parameters
    ----------
    density : Density
        The density of the features.
    coefficients : ndarray of float64
        One axis per feature, the outputs last.
    """

    density: Density
    coefficients: Array


@savable("Legendre component")
@dataclass(frozen=True, eq=False, repr=False)
class LegendreComponent(OnRows):
    """A component that is smooth in the features, evaluated in their original units.

    Parameters
    ----------
    features : tuple of int
        Positions of the features it depends on, increasing.
    axes : mapping of int to Axis
        How each of these features is scaled.
    degree : int
        Largest degree of the polynomials.
    terms : tuple of LegendreTerm
        What it is the sum of: the functions of its features and, where it was made
        orthogonal, functions of fewer of them.
    shift : ndarray of float64, shape (n_outputs,)
        Is subtracted, so that the mean is zero.
    inputs : ModelInputs
        How the columns of a table are read.
    variance : ndarray of float64, shape (n_outputs,)
        Variance over the rows of the decomposition.
    mean_absolute : ndarray of float64, shape (n_outputs,)
        Mean absolute value over these rows.
    nodes : tuple of (ndarray of float64 or None)
        Quantiles of the rows along each feature; None for one with levels.
    mass : ndarray of float64, shape (n_intervals or n_levels, ...)
        Share of the rows between the nodes, or with each level.
    """

    features: Subset
    axes: Mapping[int, Axis]
    degree: int
    terms: tuple[LegendreTerm, ...]
    shift: Array
    inputs: ModelInputs
    variance: Array
    mean_absolute: Array
    nodes: tuple[Array | None, ...]
    mass: Array

    def __repr__(self) -> str:
        """Return the features and the size, not the coefficients."""
        title = effect_title(self.axes[j].name for j in self.features)
        deviation = ", ".join(f"{value:.4g}" for value in np.sqrt(self.variance))
        return f"{title}: a polynomial, standard deviation {deviation}"

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs).

        Beyond the range of the rows of the decomposition a feature counts as at its end,
        but for ``scaling="tanh"``.

        Raises
        ------
        InvalidInputError
            If a value is missing or infinite, or a level is unknown.
        """
        return self.evaluate_with(self.inputs.columns(X, self.axes), {})

    def evaluate_with(self, columns: Columns, averages: dict[Any, Array]) -> Array:
        """Return the values on rows; features are scaled once for all components of the same axes.

        Parameters
        ----------
        columns : Columns
            The rows.
        averages : dict
            What other components computed on the same rows; is added to.
        """
        coordinates = {}
        for j, axis in self.axes.items():
            key = "coordinates", j, id(axis)
            if key not in averages:
                averages[key] = axis.coordinates(columns.values[j])
            coordinates[j] = averages[key]
        return self.at_coordinates(coordinates, averages)

    def at_coordinates(self, coordinates: Mapping[int, Array], shared: dict[Any, Array]) -> Array:
        """Return the values at scaled rows; `shared` has what others computed on the same rows."""
        of_features = {j: coordinates[j] for j in self.axes}
        total = evaluate_terms(self.terms, self.axes, self.degree, of_features, shared)
        return np.asarray(total - self.shift)

    def drawing_cells(self) -> tuple[tuple[FeatureAxis, ...], Array]:
        """Return fine axes over the range of the rows or of the levels, and their cells' mass."""
        specs = [self.inputs.features[j] for j in self.features]
        cells, mass = cells_between(specs, self.nodes, self.mass)
        scaled = [self.axes[j] for j in self.features]
        named = zip(cells, scaled, specs, strict=True)
        axes = [
            axis.cells(spec) if isinstance(axis, LevelAxis) else cell for cell, axis, spec in named
        ]
        return tuple(axes), mass


def evaluate_terms(
    terms: tuple[LegendreTerm, ...],
    axes: Mapping[int, Axis],
    degree: int,
    coordinates: Mapping[int, Array],
    known: dict[Any, Array],
) -> Array:
    """Return the sum of terms at scaled rows, shape (n_rows, n_outputs).

    `known` has functions that were evaluated on the same rows; others are added while they are few.
    """
    n_rows = len(next(iter(coordinates.values())))
    total = np.zeros((n_rows, terms[0].coefficients.shape[-1]))
    kept = {j: _kept_functions(j, axes[j], degree, coordinates[j], known) for j in coordinates}
    divided = [not is_one(term.density, axes) for term in terms]
    for start in range(0, n_rows, _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        block = {j: values[part] for j, values in coordinates.items()}
        of_block: dict[Any, Any] = {}
        functions = {
            j: axes[j].functions(block[j], degree) if table is None else table[part]
            for j, table in kept.items()
        }
        for term, is_divided in zip(terms, divided, strict=True):
            values = contract([functions[j] for j in term.density.subset], term.coefficients)
            if is_divided:
                raw = term.density.raw(axes, block, of_block)
                values = values / np.maximum(raw, term.density.floor)[:, None]
            total[part] += values
    return total


def _kept_functions(
    j: int, axis: Axis, degree: int, coordinates: Array, known: dict[Any, Array]
) -> Array | None:
    """Return the functions of a feature from what is known, and keep them there if they are few."""
    key = "functions", j, id(axis), degree
    if key not in known:
        size = len(coordinates) * axis.n_functions(degree)
        if size + sum(table.size for table in known.values()) > _MOST_KEPT:
            return None
        known[key] = axis.functions(coordinates, degree)
    return known[key]
