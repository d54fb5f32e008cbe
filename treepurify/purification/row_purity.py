"""Measure how pure effects are on rows, where these have few of the cells of their tables."""

from collections.abc import Mapping
from itertools import combinations
from math import prod

import numpy as np

from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.purification.purity import Purity, cosine
from treepurify.purification.solution import largest_entry
from treepurify.typing import Array, Integers

__all__ = ["purity_on_rows"]


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
    mean = product = angle = 0.0
    for subset, values in effects.items():
        weighted = shares[:, None] * values
        for size in range(len(subset)):
            for inside in combinations(subset, size):
                mean = max(mean, _largest_mean(weighted, shares, _cells(grid, rows, inside)))
                if inside in effects:
                    products = np.einsum("ik,ik->k", weighted, effects[inside])
                    product = max(product, largest_entry(products))
                    between = cosine(products, norms[subset], norms[inside], scale)
                    angle = max(angle, 0.0 if np.isnan(between) else abs(between))
    divisor = scale if scale > 0 else 1.0
    return Purity(mean / divisor, product / divisor / divisor, angle)


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
