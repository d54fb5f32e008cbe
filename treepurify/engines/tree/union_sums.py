"""Sums of products of many trees on the union grid, where cells are many: by differences.

A product then costs a few additions, not one for each cell; differences are summed up once, after
all trees.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treepurify._kernels.split_products import add_products
from treepurify.effects.difference_tables import DifferenceTables, difference_tables
from treepurify.engines.tree.split_products import SplitProducts
from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array, Indices, Integers

__all__ = ["UnionSums", "cells_of_sets", "number_sets", "sets_of_numbers"]


@dataclass(frozen=True, eq=False)
class UnionSums:
    """Tables of differences on the union grid.

    Parameters
    ----------
    grid : Grid
        The grid.
    sets : ndarray of int64, shape (n_sets,)
        Numbers of the sets of features, increasing; see `number_sets`.
    subsets : list of tuple of int
        These sets.
    tables : DifferenceTables
        The table of each.
    """

    grid: Grid
    sets: Integers
    subsets: list[Subset]
    tables: DifferenceTables

    @classmethod
    def zeros(
        cls, grid: Grid, sets: Integers, subsets: list[Subset], n_outputs: int
    ) -> "UnionSums":
        """Return tables of zeros."""
        shapes = [grid.shape(subset) for subset in subsets]
        return cls(grid, sets, subsets, difference_tables(shapes, n_outputs))

    @cached_property
    def _n_cells(self) -> Integers:
        return _sizes(self.grid)

    def add(self, products: SplitProducts, coefficients: Array, outputs: Indices) -> None:
        """Add multiples of products of sides less their masses, all but the first product.

        `coefficients` has one column for each of `outputs`.
        """
        features, n_cells = products.features[1:], self._n_cells
        sizes = n_cells[features]
        behind = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1] // sizes
        place = np.searchsorted(self.sets, number_sets(self.grid, features))
        add_products(
            products.products[1:],
            products.sides,
            products.mass,
            np.ascontiguousarray(coefficients[1:]),
            self.tables.offsets[place],
            self.tables.n_outputs * behind,
            n_cells,
            outputs,
            self.tables.values,
        )

    def integrate(self) -> dict[Subset, Array]:
        """Turn differences into values, in place, and return the table of each set of features."""
        return dict(zip(self.subsets, self.tables.summed(), strict=True))


def number_sets(grid: Grid, features: Integers) -> Integers:
    """Return a number for each set of features, by size, then by feature.

    Shape (n_sets, n) to (n_sets,); behind the last feature of a set stands -1.
    """
    numbers = np.zeros(len(features), dtype=np.int64)
    for column in features.T:
        longer = numbers * (grid.n_features + 1) + column + 1
        numbers = np.where(column >= 0, longer, numbers)
    return numbers


def sets_of_numbers(grid: Grid, numbers: Integers) -> list[Subset]:
    """Return the numbered sets of features."""
    features = _features_of(grid, numbers)
    n_before = (features < 0).sum(axis=1)
    subsets: list[Subset] = []
    for first in range(features.shape[1] - 1, -1, -1):
        subsets += zip(*features[n_before == first, first:].T.tolist(), strict=True)
    return subsets


def cells_of_sets(grid: Grid, numbers: Integers) -> Integers:
    """Return the number of cells of each numbered set of features."""
    return np.asarray(_sizes(grid)[_features_of(grid, numbers)].prod(axis=1))


def _features_of(grid: Grid, numbers: Integers) -> Integers:
    """Return the features of numbered sets, one row per set; -1 stands before the first."""
    digits, left = [], numbers
    while np.any(left):
        left, last = np.divmod(left, grid.n_features + 1)
        digits.append(last - 1)
    return np.stack(digits[::-1], axis=1) if digits else np.zeros((len(numbers), 0), np.int64)


def _sizes(grid: Grid) -> Integers:
    """Return the number of cells of each feature, and 1 for what is none, the feature -1."""
    return np.array([*(axis.n_cells for axis in grid.axes), 1], dtype=np.int64)
