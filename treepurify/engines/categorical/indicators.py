r"""The inverse-likelihood functions of one subset of features, written by indicators of cells.

The function of ``(A, z)`` is ``prod_{i in A} (1{x_i = z_i} - 1{x_i = last_i}) / p_A(x_A)``
(Ferrere et al. 2026, definition 3.1). Inner products of such functions are sums of few
joint probabilities of two cells. To need few of these, the most frequent level of each
feature is the reference: its indicator is one minus the others, so that a function of A
becomes a combination of indicators of cells of A and of its subsets, without references.
"""

import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import combine_rows
from treepurify.grids.grid import Subset
from treepurify.threads import map_threads
from treepurify.typing import Array, Indices, Integers

CellNumbers = dict[Subset, Integers]

_ROWS_A_PIECE = 16


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse rows: row i has the entries ``start[i]:start[i + 1]``."""

    start: Integers
    column: Integers
    factor: Array

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.start.nbytes + self.column.nbytes + self.factor.nbytes)

    def take(self, rows: Indices) -> "SparseRows":
        """Return the given rows."""
        sizes = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        entries = np.repeat(self.start[rows] - start[:-1], sizes) + np.arange(start[-1])
        return SparseRows(start, self.column[entries], self.factor[entries])

    def multiply(self, matrix: npt.NDArray[np.floating[Any]], product: Array) -> None:
        """Write the rows times a dense matrix to `product`, on a few threads."""

        def multiply(first: int) -> None:
            last = min(first + _ROWS_A_PIECE, self.n_rows)
            combine_rows(
                self.start[first : last + 1],
                self.column,
                self.factor,
                matrix,
                product[first:last],
            )

        map_threads(multiply, range(0, self.n_rows, _ROWS_A_PIECE))

    @staticmethod
    def of(matrix: Any, columns: Integers) -> "SparseRows":
        """Return the rows of a sparse matrix, with a number for each of its columns."""
        rows = matrix.tocsr()
        factor = np.ascontiguousarray(rows.data, dtype=np.float64)
        return SparseRows(rows.indptr.astype(np.int64), columns[rows.indices], factor)

    @staticmethod
    def stack(parts: "list[SparseRows]") -> "SparseRows":
        """Return the rows of all parts, one after the other."""
        sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.start) for part in parts)])
        return SparseRows(
            np.cumsum(sizes),
            np.concatenate([np.zeros(0, np.int64), *(part.column for part in parts)]),
            np.concatenate([np.zeros(0), *(part.factor for part in parts)]),
        )


def spread(coefficients: Array, n_axes: int) -> Array:
    """Give the last level of each of the first `n_axes` axes minus the sum of the others."""
    for axis in range(n_axes):
        last = -coefficients.sum(axis=axis, keepdims=True)
        coefficients = np.concatenate([coefficients, last], axis=axis)
    return coefficients


def cells_with_mass(mass: Array) -> Indices:
    """Return the number of each cell of a subset among those with mass; -1 without."""
    filled = mass.ravel() > 0
    return np.where(filled, np.cumsum(filled) - 1, -1)


def functions_in_cells(mass: Array, number: Indices, functions: Indices) -> Any:
    """Return functions of a subset by their values in the cells with mass.

    Parameters
    ----------
    mass : ndarray of shape (levels...)
        Mass of the cells of the subset.
    number : ndarray of int
        See `cells_with_mass`.
    functions : ndarray of int
        Which functions, in the order of z, the last feature fastest.

    Returns
    -------
    sparse array of shape (n_functions, n_cells)
        Up to ``2**k`` entries a row.
    """
    from scipy import sparse

    last = tuple(size - 1 for size in mass.shape)
    inverse = 1.0 / mass[mass > 0]
    every = tuple(range(mass.ndim))
    levels = np.unravel_index(functions, last)
    function, cell, sign = _corners(levels, last, every, mass.shape, number)
    entries = (sign * inverse[cell], (function, cell))
    return sparse.csr_array(entries, shape=(len(functions), len(inverse)))


def of_own_cells(
    shape: tuple[int, ...], number: Indices, reference: tuple[int, ...], cells: Indices
) -> Any:
    """Write the indicators of the cells with mass by those of cells without a reference level.

    Along an axis the indicator of the reference level is minus the sum of the others, apart from
    a function of fewer features, which is left out.

    Parameters
    ----------
    shape : tuple of int
        Levels of each feature of the subset.
    number : ndarray of int
        See `cells_with_mass`.
    reference : tuple of int
        Reference level of each feature.
    cells : ndarray of int
        The flat cells whose indicators are given.

    Returns
    -------
    sparse array of shape (n_cells_with_mass, n_given)
    """
    from scipy import sparse

    every = tuple(range(len(shape)))
    levels = np.unravel_index(cells, shape)
    given, cell, sign = _corners(levels, reference, every, shape, number)
    return sparse.csr_array((sign, (cell, given)), shape=(int(number.max()) + 1, len(cells)))


@dataclass(frozen=True, eq=False)
class CellIndicators:
    """The cells with mass of a subset by indicators without reference levels.

    Parameters
    ----------
    matrix : sparse array of shape (n_cells_with_mass, n_indicators)
        The factors.
    numbers : ndarray of int, shape (n_indicators,)
        The number of the cell of each indicator.
    """

    matrix: Any
    numbers: Integers


def of_parts(
    number: Indices, reference: tuple[int, ...], numbers: CellNumbers, subset: Subset
) -> CellIndicators:
    """Write the indicators of the cells with mass by those of the subset and of its parts.

    Parameters
    ----------
    number : ndarray of int
        See `cells_with_mass`.
    reference : tuple of int
        Reference level of each feature.
    numbers : dict
        For each subset of `subset`, itself included, the number of the indicator of each
        cell; -1 for cells with a reference level or without mass.
    subset : tuple of int
        The features.
    """
    from scipy import sparse

    shape = numbers[subset].shape
    rows, columns, signs, known, n_known = [], [], [], [], 0
    for size in range(len(subset) + 1):
        for axes in combinations(range(len(subset)), size):
            part = numbers[tuple(subset[axis] for axis in axes)]
            cells = np.nonzero(np.atleast_1d(part >= 0))
            count = len(cells[0])
            levels = [np.full(count, level) for level in reference]
            for axis, own in zip(axes, cells, strict=False):
                levels[axis] = own
            given, cell, sign = _corners(tuple(levels), reference, axes, shape, number)
            rows.append(cell)
            columns.append(n_known + given)
            signs.append(sign)
            known.append(part[part >= 0])
            n_known += count
    entries = (np.concatenate(signs), (np.concatenate(rows), np.concatenate(columns)))
    matrix = sparse.csr_array(entries, shape=(int(number.max()) + 1, n_known))
    return CellIndicators(matrix, np.concatenate(known))


def n_entries(shape: tuple[int, ...], reference: tuple[int, ...]) -> int:
    """Return how many entries the functions of a subset can have by indicators.

    Where the last level is the reference, each function has one for every level.
    """
    return math.prod(
        size * (size - 1) if level == size - 1 else 3 * size
        for size, level in zip(shape, reference, strict=True)
    )


def _corners(
    levels: tuple[Indices, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...],
    shape: tuple[int, ...],
    number: Indices,
) -> tuple[Indices, Indices, Array]:
    """Replace levels by the end of their axis, in every combination of some axes.

    Returns
    -------
    place : ndarray of int
        Which of the levels each entry is made from.
    cell : ndarray of int
        The number of the cell with mass that it is in; entries without one are left out.
    sign : ndarray
        Minus one for an odd number of replaced levels.
    """
    places, cells, signs = [], [], []
    for replaced in product((False, True), repeat=len(axes)):
        corner = list(levels)
        for axis, is_replaced in zip(axes, replaced, strict=True):
            if is_replaced:
                corner[axis] = np.full_like(levels[axis], ends[axis])
        cell = number[np.ravel_multi_index(tuple(corner), shape)]
        places.append(np.flatnonzero(cell >= 0))
        cells.append(cell[cell >= 0])
        signs.append(np.full(len(cells[-1]), (-1.0) ** sum(replaced)))
    return np.concatenate(places), np.concatenate(cells), np.concatenate(signs)
