"""The observed combinations of levels, with their mass and the function's values there."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import (
    add_table,
    append_digit,
    mark_levels,
    number_cells,
    renumber_levels,
    sum_in_cells,
)
from treepurify.grids.grid import Subset, code_type
from treepurify.threads import map_threads
from treepurify.typing import Array, Indices, Integers

_LARGEST_NUMBER = 1 << 64
_SUBSETS_A_PIECE = 32


@dataclass(frozen=True, eq=False)
class Observations:
    """The support of the empirical distribution.

    Levels of a feature that no row has are left out: the others are renumbered.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_points)
        Level of each observed point, one column per distinct combination.
    mass : ndarray of float64, shape (n_points,)
        Share of the rows, or of their weights; sums to one.
    values : ndarray of float64, shape (n_points, n_outputs)
        Mean of the function over the rows of a point.
    within : ndarray of float64, shape (n_outputs,)
        Mean variance of the function within points: not zero only where numeric columns
        were binned.
    point_of_row : ndarray of int, shape (n_rows,)
        The point of each row.
    cell_of_level : tuple of ndarray of int
        For each feature, the cell of its axis that each level stands for.
    equal_weights : bool
        Whether every row counts the same.
    """

    codes: npt.NDArray[Any]
    mass: Array
    values: Array
    within: Array
    point_of_row: Indices
    cell_of_level: tuple[Indices, ...]
    equal_weights: bool

    @property
    def n_points(self) -> int:
        """Number of distinct combinations."""
        return len(self.mass)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the function."""
        return int(self.values.shape[1])

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Number of observed levels of each feature."""
        return tuple(len(cells) for cells in self.cell_of_level)

    @property
    def n_combinations(self) -> float:
        """Number of combinations of levels, observed or not; infinite beyond all floats."""
        return prod(map(float, self.n_levels))

    def shape(self, subset: Subset) -> tuple[int, ...]:
        """Return the number of observed levels of each feature of `subset`."""
        return tuple(len(self.cell_of_level[j]) for j in subset)

    def sums(self, subset: Subset, values: Array) -> Array:
        """Sum values of shape (n_points, k) over the points in each cell of `subset`."""
        shape = self.shape(subset)
        table = np.zeros((int(np.prod(shape)), values.shape[1]))
        sum_in_cells(self.flat_cells(subset), values, table)
        return table.reshape(*shape, -1)

    def sums_each(self, subsets: Iterable[Subset], values: Array) -> list[Array]:
        """Return the `sums` of each subset, on a few threads."""
        wanted = list(subsets)

        def piece(first: int) -> list[Array]:
            return [
                self.sums(subset, values) for subset in wanted[first : first + _SUBSETS_A_PIECE]
            ]

        parts = map_threads(piece, range(0, len(wanted), _SUBSETS_A_PIECE))
        return [table for part in parts for table in part]

    def add(self, subset: Subset, table: Array, total: Array) -> None:
        """Add a table over the cells of `subset` to `total`, shape (n_points, k), in place."""
        flat = np.ascontiguousarray(table).reshape(-1, total.shape[1])
        add_table(self.flat_cells(subset), flat, total)

    def flat_cells(self, subset: Subset) -> npt.NDArray[Any]:
        """Return the number of the cell of `subset` that each point lies in, in C order."""
        if len(subset) == 1:
            return np.asarray(self.codes[subset[0]])
        cells = np.empty(self.n_points, dtype=np.int64)
        number_cells(self.codes, np.array(subset), _strides(self.shape(subset)), cells)
        return cells

    @cached_property
    def level_mass(self) -> tuple[Array, ...]:
        """Mass of each level of each feature."""
        mass = self.mass[:, None]
        alone = [(j,) for j in range(len(self.codes))]
        return tuple(table[..., 0] for table in self.sums_each(alone, mass))

    def margin(self, subset: Subset) -> Array:
        """Return the mass of each cell of `subset`."""
        if len(subset) == 1:
            return self.level_mass[subset[0]]
        return self.sums(subset, self.mass[:, None])[..., 0]


def _strides(shape: tuple[int, ...]) -> Integers:
    return np.cumprod((1, *shape[:0:-1]), dtype=np.int64)[::-1].copy()


def observe(
    codes: npt.NDArray[Any], values: Array, row_weights: Array | None, n_cells: tuple[int, ...]
) -> Observations:
    """Return the distinct rows with their mass and mean values.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_rows)
        Cell of each row along each axis.
    values : ndarray of float64, shape (n_rows, n_outputs)
        Values of the function.
    row_weights : ndarray of float64, shape (n_rows,), optional
        Weight of each row; rows of weight zero are left out.
    n_cells : tuple of int
        Number of cells of each axis.
    """
    weighted = row_weights is not None
    weights = row_weights if row_weights is not None else np.ones(codes.shape[1])
    seen = weights > 0
    if not seen.all():
        codes, values, weights = codes[:, seen], values[seen], weights[seen]
    cells = []
    renumbered = np.empty(codes.shape, dtype=code_type(max(n_cells, default=1)))
    for column, size, numbers in zip(codes, n_cells, renumbered, strict=True):
        used = np.zeros(size, dtype=bool)
        mark_levels(column, used)
        cells.append(np.flatnonzero(used))
        renumber_levels(column, np.cumsum(used) - 1, numbers)
    first, point = _distinct(renumbered, tuple(len(used) for used in cells))
    points = np.empty((len(cells), len(first)), dtype=renumbered.dtype)
    for numbers, of_points in zip(renumbered, points, strict=True):
        np.take(numbers, first, out=of_points, mode="clip")
    mass = np.bincount(point, weights=weights)
    means = np.stack(
        [np.bincount(point, weights=weights * column) / mass for column in values.T], axis=1
    )
    within = np.average((values - means[point]) ** 2, axis=0, weights=weights)
    return Observations(
        points,
        mass / mass.sum(),
        means,
        np.asarray(within),
        point,
        tuple(cells),
        equal_weights=not weighted or bool(np.all(weights == weights[0])),
    )


def _distinct(codes: npt.NDArray[Any], n_levels: tuple[int, ...]) -> tuple[Indices, Indices]:
    """Return the first row of each distinct combination and the combination of each row."""
    # Levels are the digits of whole numbers in mixed radix, as many per number as 64 bits hold.
    numbers = [np.zeros(codes.shape[1], dtype=np.uint64)]
    largest = 1
    for column, size in zip(codes, n_levels, strict=True):
        if size < 2:
            continue
        if largest * size > _LARGEST_NUMBER:
            numbers.append(np.zeros(codes.shape[1], dtype=np.uint64))
            largest = 1
        append_digit(column, size, numbers[-1])
        largest *= size
    keys: npt.NDArray[Any] = numbers[0]
    if len(numbers) > 1:
        # Byte strings compare as one value, which sorts several times faster than rows.
        keys = np.stack(numbers, axis=1).view(np.dtype((np.void, 8 * len(numbers)))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
