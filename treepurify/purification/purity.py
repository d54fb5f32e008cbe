"""Measure how pure effects are: on the cells of their tables, or on rows where these are few."""

from collections.abc import Mapping
from itertools import combinations
from math import prod
from typing import NamedTuple, Protocol

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.purification.pair import inverse_mass, largest_entry
from treepurify.typing import Array, Integers

# Below this share of the scale, a norm is rounding.
_ROUNDING_NORM = 1e-9


class SubsetPair(NamedTuple):
    """A component and one on a subset of its features.

    Parameters
    ----------
    subset, inside : tuple of int
        The two subsets; `inside` is part of `subset`, () for the intercept.
    inner_product : float
        Expectation of the product, the largest in absolute value over the outputs.
    cosine : float
        The same over the norms of both; NaN where a norm is rounding.
    conditional_mean : float
        Largest mean of the component of `subset` given the features `inside`.
    """

    subset: Subset
    inside: Subset
    inner_product: float
    cosine: float
    conditional_mean: float


class Purity(NamedTuple):
    """The largest deviations from orthogonality over all components."""

    conditional_mean: float
    cosine: float


class CellTable(Protocol):
    """An effect on its cells; see `TensorComponent`."""

    @property
    def axes(self) -> tuple[FeatureAxis, ...]:
        """One axis per feature."""

    @property
    def values(self) -> Array:
        """Effect in each cell, shape (cells..., n_outputs)."""

    @property
    def mass(self) -> Array:
        """Mass of each cell."""


def measure_purity(tables: Mapping[Subset, CellTable], scale: float) -> Purity:
    """Return the largest deviations, relative to `scale`."""
    pairs = subset_pairs(tables, scale)
    mean = max((pair.conditional_mean for pair in pairs), default=0.0)
    angle = np.nanmax([0.0, *(abs(pair.cosine) for pair in pairs)])
    return Purity(mean / scale if scale > 0 else mean, float(angle))


def subset_pairs(tables: Mapping[Subset, CellTable], scale: float) -> list[SubsetPair]:
    """Return every component with every component on a subset of its features.

    Tables may be built when they are requested, and those of most features are requested once.

    Where the axes of the smaller subset are finer, the two are taken to be independent
    within a cell of the coarser axes; with the same axes nothing is assumed.
    """
    pairs, norms = list[SubsetPair](), dict[Subset, Array]()
    for subset in sorted(tables, key=len):
        table = tables[subset]
        effect, cell_mass, axes = table.values, table.mass, table.axes
        weighted = cell_mass[..., None] * effect
        norms[subset] = np.sqrt((weighted * effect).sum(axis=tuple(range(len(subset)))))
        masses = _partial_sums(cell_mass, len(subset))
        for kept, total in _partial_sums(weighted, len(subset)).items():
            means = total * inverse_mass(masses[kept])[..., None]
            inside = tuple(subset[k] for k in kept)
            product, angle = 0.0, np.nan
            if inside in tables:
                smaller = tables[inside]
                coarse = tuple(axes[k] for k in kept)
                other = smaller.mass[..., None] * smaller.values
                shared = means * _summed(other, smaller.axes, coarse)
                products = shared.sum(axis=tuple(range(len(inside))))
                product = float(products[np.argmax(np.abs(products))])
                angle = _cosine(products, norms[subset], norms[inside], scale)
            pairs.append(SubsetPair(subset, inside, product, angle, largest_entry(means)))
    return pairs


def _partial_sums(table: Array, order: int) -> dict[Subset, Array]:
    """Sum a table over every non-empty set of its first `order` axes, by the axes kept."""
    sums = {tuple(range(order)): table}
    for size in range(order - 1, -1, -1):
        for kept in combinations(range(order), size):
            dropped = next(k for k in range(order) if k not in kept)
            larger = tuple(sorted((*kept, dropped)))
            sums[kept] = np.asarray(sums[larger].sum(axis=larger.index(dropped)))
    del sums[tuple(range(order))]
    return dict(sorted(sums.items(), key=lambda item: (len(item[0]), item[0])))


def _cosine(products: Array, first: Array, second: Array, scale: float) -> float:
    """Return the largest cosine over the outputs; NaN where a norm is rounding."""
    smallest = _ROUNDING_NORM * scale
    real = (first > smallest) & (second > smallest)
    if not real.any():
        return float("nan")
    cosines = products[real] / (first[real] * second[real])
    return float(cosines[np.argmax(np.abs(cosines))])


def _summed(
    weighted: Array, fine: tuple[FeatureAxis, ...], coarse: tuple[FeatureAxis, ...]
) -> Array:
    """Sum mass times effect over the fine cells within each coarse cell."""
    for position, (new, old) in enumerate(zip(fine, coarse, strict=True)):
        if new is not old:
            shape = list(weighted.shape)
            shape[position] = old.n_cells
            total = np.zeros(shape)
            moved = np.moveaxis(weighted, position, 0)
            np.add.at(np.moveaxis(total, position, 0), new.cells_in(old), moved)
            weighted = total
    return np.asarray(weighted)


def purity_on_rows(
    effects: Mapping[Subset, Array], grid: Grid, rows: EncodedRows, scale: float
) -> Purity:
    """Return what `measure_purity` returns where the rows are the distribution.

    Parameters
    ----------
    effects : mapping of tuple of int to ndarray of float64, shape (n_rows, n_outputs)
        The effects on the rows.
    grid : Grid
        The cells.
    rows : EncodedRows
        The rows in them, some with weight.
    scale : float
        The largest effect.
    """
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    shares = weights / weights.sum()
    norms = {subset: np.sqrt(shares @ values**2) for subset, values in effects.items()}
    mean = angle = 0.0
    for subset, values in effects.items():
        weighted = shares[:, None] * values
        for size in range(len(subset)):
            for inside in combinations(subset, size):
                mean = max(mean, _largest_mean(weighted, shares, _cells(grid, rows, inside)))
                if inside in effects:
                    products = np.einsum("ik,ik->k", weighted, effects[inside])
                    between = _cosine(products, norms[subset], norms[inside], scale)
                    angle = max(angle, 0.0 if np.isnan(between) else abs(between))
    return Purity(mean / scale if scale > 0 else mean, angle)


def _cells(grid: Grid, rows: EncodedRows, subset: Subset) -> Integers:
    """Return a number for each row, the same for rows in one cell of some features."""
    shape = grid.shape(subset)
    if not subset:
        return np.zeros(rows.n_rows, dtype=np.int64)
    cells = np.ravel_multi_index([rows.codes[j].astype(np.intp) for j in subset], shape)
    if prod(shape) > rows.n_rows:
        cells = np.unique(cells, return_inverse=True)[1]
    return np.asarray(cells.ravel(), dtype=np.int64)


def _largest_mean(weighted: Array, shares: Array, cells: Integers) -> float:
    """Return the largest absolute mean of an effect over the rows of one cell."""
    mass = np.bincount(cells, shares)
    divisor = np.where(mass > 0, mass, 1.0)
    return max(largest_entry(np.bincount(cells, of_one) / divisor) for of_one in weighted.T)
