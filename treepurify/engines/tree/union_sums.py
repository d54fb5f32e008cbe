"""Sums of products of many trees on the union grid, where cells are many: by differences.

A product then costs a few additions, not one for each cell; differences are summed up once, after
all trees.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treepurify._kernels.split_products import add_products
from treepurify.engines.tree.split_products import SplitProducts
from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array, Indices, Integers

__all__ = ["UnionSums", "cells_of_sets", "integrate", "number_sets", "set_of_number"]

_LARGE = 4096


@dataclass(frozen=True, eq=False)
class UnionSums:
    """Tables of differences on the union grid.

    Parameters
    ----------
    grid : Grid
        The grid.
    sets : ndarray of int64, shape (n_sets,)
        Numbers of the sets of features; see `number_sets`.
    start : ndarray of int64, shape (n_sets + 1,)
        First entry of each table, and the end.
    flat : ndarray of float64
        All tables, each of shape (cells..., n_outputs).
    n_outputs : int
        How many outputs there are.
    """

    grid: Grid
    sets: Integers
    start: Integers
    flat: Array
    n_outputs: int

    @classmethod
    def zeros(cls, grid: Grid, sets: Integers, n_outputs: int) -> "UnionSums":
        """Return tables of zeros."""
        sizes = n_outputs * cells_of_sets(grid, sets)
        start = np.concatenate([[0], np.cumsum(sizes)])
        return cls(grid, sets, start, np.zeros(start[-1]), n_outputs)

    def add(self, products: SplitProducts, coefficients: Array, outputs: Indices) -> None:
        """Add multiples of products of sides less their masses, all but the first product.

        `coefficients` has one column for each of `outputs`.
        """
        features = products.features[1:]
        sizes = _sizes_behind(self.grid)[features]
        behind = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1] // sizes
        place = np.searchsorted(self.sets, number_sets(self.grid, features))
        add_products(
            products.products[1:],
            products.sides,
            products.mass,
            np.ascontiguousarray(coefficients[1:]),
            self.start[place],
            self.n_outputs * behind,
            _sizes_behind(self.grid),
            outputs,
            self.flat,
        )

    def by_set(self) -> dict[Subset, Array]:
        """Return views of the tables."""
        views = {}
        for number, (first, last) in zip(
            self.sets.tolist(), pairwise(self.start.tolist()), strict=True
        ):
            subset = set_of_number(self.grid, number)
            views[subset] = self.flat[first:last].reshape(*self.grid.shape(subset), self.n_outputs)
        return views


def number_sets(grid: Grid, features: Integers) -> Integers:
    """Return a number for each set of features, by size, then by feature.

    Shape (n_sets, n) to (n_sets,); behind the last feature of a set stands -1.
    """
    numbers = np.zeros(len(features), dtype=np.int64)
    for column in features.T:
        longer = numbers * (grid.n_features + 1) + column + 1
        numbers = np.where(column >= 0, longer, numbers)
    return numbers


def set_of_number(grid: Grid, number: int) -> Subset:
    """Return the features of a numbered set."""
    features = []
    while number:
        number, last = divmod(number, grid.n_features + 1)
        features.append(last - 1)
    return tuple(reversed(features))


def cells_of_sets(grid: Grid, sets: Integers) -> Integers:
    """Return the number of cells of each numbered set of features."""
    sizes, cells, left = _sizes_behind(grid), np.ones(len(sets), dtype=np.int64), sets
    while np.any(left):
        left, last = np.divmod(left, grid.n_features + 1)
        cells *= sizes[last - 1]
    return cells


def _sizes_behind(grid: Grid) -> Integers:
    """Return the number of cells of each feature, and 1 for what stands behind the last."""
    return np.array([*(axis.n_cells for axis in grid.axes), 1], dtype=np.int64)


def integrate(total: Array) -> None:
    """Turn differences along all axes but the last into values, in place."""
    for axis in range(total.ndim - 1):
        if total[0].size < _LARGE or axis == total.ndim - 2:
            np.cumsum(total, axis=axis, out=total)
            continue
        # Large slices are added faster than NumPy sums along an axis that is not the last.
        for before, after in pairwise(np.moveaxis(total, axis, 0)):
            np.add(before, after, out=after)
