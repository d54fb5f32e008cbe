"""The selected functions of a subset, made orthogonal to all functions of fewer features.

On full support the inverse-likelihood functions are orthogonal to every function of fewer of
their features, as the paper says (Ferrere et al. 2026, theorem 3.2). Where a cell of A has no
mass, a function that would use it is not: on the support {(0,0), (0,1), (1,0)} of the paper's
own example the mean of the pair function is -1, not 0. Such functions are replaced by their
residual after projection on the functions of fewer features, which changes neither the
selection nor the space, since these come earlier.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.categorical.indicators import (
    CellNumbers,
    SparseRows,
    cells_with_mass,
    functions_in_cells,
    n_entries,
    of_parts,
    spread,
)
from treepurify.engines.categorical.lower_functions import LowerFunctions, lower_functions
from treepurify.purification.solution import inverse_mass
from treepurify.typing import Array, Mask

__all__ = ["SubsetFunctions", "check_rows", "selected_functions"]

Subset = tuple[int, ...]

_DENSE_ENTRIES = 1 << 20
_ENTRIES_A_BLOCK = 1 << 18
_BYTES_OF_A_SOLVE = 80


@dataclass(frozen=True, eq=False)
class SubsetFunctions:
    """The selected functions of one subset.

    Parameters
    ----------
    kept : ndarray of bool, shape (levels - 1, ...)
        Which functions they are.
    mass : ndarray of shape (levels...)
        Mass of each cell.
    inverse : ndarray of shape (levels...)
        One over the mass of each cell; zero for cells without mass.
    lower : LowerFunctions, optional
        What they are made orthogonal to, where some use cells without mass.
    """

    kept: Mask
    mass: Array
    inverse: Array
    lower: LowerFunctions | None

    @property
    def n_functions(self) -> int:
        """Number of selected functions."""
        return int(np.count_nonzero(self.kept))

    @property
    def n_bytes(self) -> int:
        """Bytes of everything that is held for the subset alone."""
        return int(self.inverse.nbytes) + (0 if self.lower is None else self.lower.n_bytes)

    def bytes_of_products(self, n_outputs: int) -> int:
        """Return the bytes that `combine` and `transposed` take."""
        n_filled, n_functions = int(np.count_nonzero(self.mass)), self.n_functions
        entries = 64 * 2**self.mass.ndim * (n_functions + n_filled)
        if self.lower is not None and self.lower.span is None:
            entries += 8 * len(self.lower.root) * n_functions
            entries += _BYTES_OF_A_SOLVE * max(self.lower.table_size, _ENTRIES_A_BLOCK)
        return int(entries + 40 * self.mass.size * n_outputs)

    def combine(self, coefficients: Array) -> Array:
        """Return ``sum_z c_z phi_z`` for coefficients of shape (n_functions, n_outputs)."""
        full = np.zeros((*self.kept.shape, coefficients.shape[1]))
        full[self.kept] = coefficients
        tables = spread(full, self.kept.ndim) * self.inverse[..., None]
        if self.lower is None:
            return tables
        lower, pure = self.lower, np.zeros_like(tables)
        pure[lower.cells] = lower.reduce(lower.root * tables[lower.cells]) / lower.root
        return pure

    def transposed(self) -> Callable[[Array], Array]:
        """Return the map to inner products of functions with vectors.

        It takes the sums of the vectors, weighted by mass, over the cells with mass, shape
        (n_cells, k), and returns shape (n_functions, k).
        """
        lower, number = self.lower, cells_with_mass(self.mass)
        functions = functions_in_cells(self.mass, number, np.flatnonzero(self.kept))
        if lower is None:
            return lambda sums: functions @ sums
        inside = number[np.ravel_multi_index(lower.cells, self.mass.shape)]
        if lower.span is None:
            # There are fewer functions than vectors.
            values = self._reduced(functions[:, inside], lower)
            return lambda sums: values @ sums[inside]
        functions = functions[:, inside]
        return lambda sums: functions @ (lower.root * lower.reduce(sums[inside] / lower.root))

    def rows(self, reference: tuple[int, ...], numbers: CellNumbers, subset: Subset) -> SparseRows:
        """Return the functions as combinations of indicators; see `of_parts`."""
        from scipy import sparse

        lower, number = self.lower, cells_with_mass(self.mass)
        functions = functions_in_cells(self.mass, number, np.flatnonzero(self.kept))
        indicators = of_parts(number, reference, numbers, subset)
        matrix = indicators.matrix
        if lower is not None:
            inside = number[np.ravel_multi_index(lower.cells, self.mass.shape)]
            functions = sparse.csr_array(self._reduced(functions[:, inside], lower))
            matrix = matrix[inside]
        return SparseRows.of(functions @ matrix, indicators.numbers)

    def _reduced(self, functions: Any, lower: LowerFunctions) -> Array:
        """Make functions, given in some cells, orthogonal in blocks."""
        values = np.empty(functions.shape)
        step = max(1, _ENTRIES_A_BLOCK // max(lower.table_size, 1))
        for start in range(0, len(values), step):
            vectors = lower.root * functions[start : start + step].toarray().T
            values[start : start + step] = (lower.reduce(vectors) / lower.root).T
        return values


def selected_functions(mass: Array, kept: Mask, memory_budget: int) -> SubsetFunctions:
    """Return the selected functions of a subset.

    Parameters
    ----------
    mass : ndarray of shape (levels...)
        Mass of each cell.
    kept : ndarray of bool, shape (levels - 1, ...)
        Which functions are selected.
    memory_budget : int
        Bytes that tables may take.
    """
    filled = mass > 0
    lower = None
    if not filled.all() and np.any(kept & ~_whole(filled)):
        lower = lower_functions(mass, memory_budget, _DENSE_ENTRIES)
    return SubsetFunctions(kept, mass, inverse_mass(mass), lower)


def check_rows(
    functions: SubsetFunctions, reference: tuple[int, ...], memory_budget: int, held: int
) -> None:
    """Refuse functions as combinations of indicators that would not fit."""
    count, shape = functions.n_functions, functions.mass.shape
    n_filled = int(np.count_nonzero(functions.mass))
    entries = n_entries(shape, reference) if functions.lower is None else 2 * count * n_filled
    check_budget(
        held + 40 * entries + functions.bytes_of_products(0),
        memory_budget,
        f"{count} functions of {len(shape)} features in {n_filled} cells each",
        "Pass a smaller rank or order, or fewer bins.",
    )


def _whole(filled: Mask) -> Mask:
    """Whether all cells that a function uses have mass."""
    for axis in range(filled.ndim):
        last = np.take(filled, [-1], axis=axis)
        filled = np.delete(filled, -1, axis=axis) & last
    return filled
