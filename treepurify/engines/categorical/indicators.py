r"""The inverse-likelihood functions of one subset of features, written by indicators of cells.

The function of ``(A, z)`` is ``prod_{i in A} (1{x_i = z_i} - 1{x_i = last_i}) / p_A(x_A)``
(Ferrere et al. 2026, definition 3.1). Inner products of such functions are sums of few
joint probabilities of two cells. To need few of these, the most frequent level of each
feature is the reference: its indicator is one minus the others, so that a function of A
becomes a combination of indicators of cells of A and of its subsets, without references.
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import combine_rows
from treepurify.budget import check_budget
from treepurify.grids.grid import Subset
from treepurify.purification.solution import inverse_mass
from treepurify.threads import map_threads
from treepurify.typing import Array, Indices, Integers

__all__ = ["CellNumbers", "SparseRows", "indicator_rows", "spread", "subset_functions"]

CellNumbers = dict[Subset, Integers]

_DENSE_ENTRIES = 1 << 16
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


def subset_functions(
    mass: Array,
    reference: tuple[int, ...],
    numbers: CellNumbers,
    subset: Subset,
    memory_budget: int,
    held: int = 0,
) -> SparseRows:
    """Return the functions of a subset as combinations of indicators, one row per function.

    Parameters
    ----------
    mass : ndarray of shape (levels...)
        Mass of the cells of the subset.
    reference : tuple of int
        Reference level of each feature of the subset.
    numbers : dict
        For each subset of `subset`, itself included, the number of the indicator of each
        cell; -1 for cells with a reference level or without mass.
    subset : tuple of int
        The features.
    memory_budget : int
        Bytes that the rows may take, with what is held already.
    held : int
        Bytes that other subsets have of the budget.

    Returns
    -------
    SparseRows
        Functions in the order of z, the last feature fastest.
    """
    shape = mass.shape
    inverse = inverse_mass(mass).ravel()
    column_of = _numbers_of_cells(shape, reference, numbers, subset)
    n_functions = int(np.prod([size - 1 for size in shape]))
    check_budget(
        held + 24 * n_functions * 4 ** len(shape),
        memory_budget,
        f"the {n_functions} functions of features {subset}",
        "Pass a smaller order, or fewer bins.",
    )
    if n_functions * mass.size <= _DENSE_ENTRIES:
        signs, expansion = _dense_factors(shape, reference)
        table = (signs * inverse) @ expansion
        row, cell = np.nonzero(table)
        factor = table[row, cell]
    else:
        from scipy import sparse

        signs, expansion = _sparse_factors(shape, reference)
        product = (signs @ sparse.diags_array(inverse) @ expansion).tocoo()
        turn = np.lexsort((product.col, product.row))
        row, cell, factor = product.row[turn], product.col[turn], product.data[turn]
    column = column_of[cell]
    kept = (column >= 0) & (factor != 0)
    row, column, factor = row[kept], column[kept], factor[kept]
    start = np.searchsorted(row, np.arange(n_functions + 1))
    return SparseRows(start.astype(np.int64), column, np.ascontiguousarray(factor))


def indicator_rows(
    tables: Array, reference: tuple[int, ...], numbers: CellNumbers, subset: Subset
) -> SparseRows:
    """Write functions given cell by cell as combinations of indicators, one row per function.

    Parameters
    ----------
    tables : ndarray of shape (levels..., n_functions)
        The functions.
    reference, numbers, subset
        See `subset_functions`.
    """
    for axis, level in enumerate(reference):
        base = np.take(tables, [level], axis=axis)
        tables = tables - base
        place: list[slice | int] = [slice(None)] * tables.ndim
        place[axis] = level
        tables[tuple(place)] = np.take(base, 0, axis=axis)
    shape = tables.shape[:-1]
    column_of = _numbers_of_cells(shape, reference, numbers, subset)
    flat = tables.reshape(-1, tables.shape[-1]).T
    row, cell = np.nonzero((flat != 0) & (column_of >= 0))
    start = np.searchsorted(row, np.arange(len(flat) + 1))
    return SparseRows(start.astype(np.int64), column_of[cell], flat[row, cell])


def _numbers_of_cells(
    shape: tuple[int, ...], reference: tuple[int, ...], numbers: CellNumbers, subset: Subset
) -> Integers:
    """Return the number of the indicator that stands for each cell, references left out."""
    number_of = np.full(shape, -1, dtype=np.int64)
    for size in range(len(subset) + 1):
        for kept in combinations(range(len(subset)), size):
            place = tuple(
                slice(None) if axis in kept else reference[axis] for axis in range(len(subset))
            )
            part_numbers = numbers[tuple(subset[axis] for axis in kept)]
            # References of the kept axes belong to smaller subsets, which came before.
            number_of[place] = np.where(part_numbers >= 0, part_numbers, number_of[place])
    return number_of.ravel()


def _axis_factors(n_levels: int, reference: int) -> tuple[Array, Array]:
    """Signs of the functions over the levels, and the levels over indicators.

    In the second, the column of the reference level stands for the constant.
    """
    signs = np.hstack([np.eye(n_levels - 1), -np.ones((n_levels - 1, 1))])
    expansion = np.eye(n_levels)
    expansion[reference] = -1.0
    expansion[reference, reference] = 1.0
    return signs, expansion


@cache
def _dense_factors(shape: tuple[int, ...], reference: tuple[int, ...]) -> tuple[Array, Array]:
    signs: Array = np.ones((1, 1))
    expansion: Array = np.ones((1, 1))
    for size, level in zip(shape, reference, strict=True):
        own_signs, own_expansion = _axis_factors(size, level)
        signs = np.asarray(np.kron(signs, own_signs), dtype=np.float64)
        expansion = np.asarray(np.kron(expansion, own_expansion), dtype=np.float64)
    return signs, expansion


def _sparse_factors(shape: tuple[int, ...], reference: tuple[int, ...]) -> tuple[Any, Any]:
    from scipy import sparse

    signs, expansion = sparse.csr_array(np.ones((1, 1))), sparse.csr_array(np.ones((1, 1)))
    for size, level in zip(shape, reference, strict=True):
        own_signs, own_expansion = _axis_factors(size, level)
        signs = sparse.kron(signs, sparse.csr_array(own_signs), format="csr")
        expansion = sparse.kron(expansion, sparse.csr_array(own_expansion), format="csr")
    return signs, expansion
