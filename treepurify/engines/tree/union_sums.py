"""Sums of products of many trees on the union grid, where cells are many: by differences.

A product then costs a few additions, not one for each cell; differences are summed up once, after
all trees.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treepurify._kernels.split_products import add_products, sum_differences
from treepurify.engines.tree.split_products import SplitProducts
from treepurify.grids.grid import Grid, Subset
from treepurify.threads import available_threads, map_threads
from treepurify.typing import Array, Indices, Integers

__all__ = ["UnionSums", "cells_of_sets", "number_sets", "sets_of_numbers"]

# Pieces of all tables for each thread, so that none waits long for another.
_PIECES = 4


@dataclass(frozen=True, eq=False)
class UnionSums:
    """Tables of differences on the union grid.

    Parameters
    ----------
    grid : Grid
        The grid.
    sets : ndarray of int64, shape (n_sets,)
        Numbers of the sets of features, increasing; see `number_sets`.
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
        sizes = _sizes(self.grid)[features]
        behind = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1] // sizes
        place = np.searchsorted(self.sets, number_sets(self.grid, features))
        add_products(
            products.products[1:],
            products.sides,
            products.mass,
            np.ascontiguousarray(coefficients[1:]),
            self.start[place],
            self.n_outputs * behind,
            _sizes(self.grid),
            outputs,
            self.flat,
        )

    def integrate(self) -> dict[Subset, Array]:
        """Turn differences into values, in place, and return the table of each set of features."""
        features = _features_of(self.grid, self.sets)
        sizes = _sizes(self.grid)[features]
        ends = np.linspace(0, len(self.flat), _PIECES * available_threads() + 1)
        bounds = np.searchsorted(self.start[:-1], ends).tolist()

        def sum_piece(piece: tuple[int, int]) -> None:
            some = slice(*piece)
            sum_differences(self.flat, self.start[:-1][some], sizes[some], self.n_outputs)

        map_threads(sum_piece, pairwise(bounds))
        places = zip(
            sets_of_numbers(self.grid, self.sets), pairwise(self.start.tolist()), strict=True
        )
        return {
            subset: self.flat[first:last].reshape(*self.grid.shape(subset), self.n_outputs)
            for subset, (first, last) in places
        }


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
    return [tuple(j for j in row if j >= 0) for row in _features_of(grid, numbers).tolist()]


def cells_of_sets(grid: Grid, numbers: Integers) -> Integers:
    """Return the number of cells of each numbered set of features."""
    return np.asarray(_sizes(grid)[_features_of(grid, numbers)].prod(axis=1))


def _features_of(grid: Grid, numbers: Integers) -> Integers:
    """Return the features of numbered sets, one row a set; -1 stands before the first."""
    digits, left = [], numbers
    while np.any(left):
        left, last = np.divmod(left, grid.n_features + 1)
        digits.append(last - 1)
    return np.stack(digits[::-1], axis=1) if digits else np.zeros((len(numbers), 0), np.int64)


def _sizes(grid: Grid) -> Integers:
    """Return the number of cells of each feature, and 1 for what is none, the feature -1."""
    return np.array([*(axis.n_cells for axis in grid.axes), 1], dtype=np.int64)
