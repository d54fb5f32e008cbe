"""The selected functions of a subset, made orthogonal to all functions of fewer features.

On full support the inverse-likelihood functions are orthogonal to every function of fewer of
their features, as the paper says (Ferrere et al. 2026, theorem 3.2). Where a cell of A has no
mass, a function that would use it is not: on the support {(0,0), (0,1), (1,0)} of the paper's
own example the mean of the pair function is -1, not 0. Such functions are replaced by their
residual after projection on the functions of fewer features, which changes neither the
selection nor the space, since these come earlier.

A cell that is alone in one of its slices is zero in every function that is orthogonal to those of
fewer features, so that it can be left out, and others may then be alone in turn. What remains
of the cells of continuous features is little.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
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
from treepurify.purification.general import solve_general
from treepurify.purification.pair import Solution, inverse_mass, pair_solver
from treepurify.typing import Array, Indices, Mask

Subset = tuple[int, ...]
_DENSE_ENTRIES = 1 << 20
_ENTRIES_A_BLOCK = 1 << 18
_BYTES_OF_A_SOLVE = 80
_INDEPENDENT = 1e-7
# Cells of a long chain are left out one by one; those that are left do no harm.
_MOST_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class LowerFunctions:
    """Functions of fewer features of a subset, on the cells where others can be orthogonal.

    Parameters
    ----------
    cells : tuple of ndarray of int
        The cells in which a function that is orthogonal to all of these need not be zero.
    root : ndarray of shape (n_cells, 1)
        Root of the mass of these cells.
    span : ndarray of shape (n_cells, n_functions), optional
        The functions, orthonormal, times that root. None where it would be large: then the
        iterative solvers of purification do its work.
    """

    cells: tuple[Indices, ...]
    root: Array
    span: Array | None

    @property
    def n_bytes(self) -> int:
        """Bytes of the cells and of the basis."""
        basis = 0 if self.span is None else self.span.nbytes
        return int(8 * (1 + len(self.cells)) * len(self.root) + basis)

    @property
    def table_size(self) -> int:
        """Number of cells of the table that is solved by iteration; 0 where none is."""
        if self.span is not None:
            return 0
        return int(np.prod([len(np.unique(levels)) for levels in self.cells]))

    def reduce(self, vectors: Array) -> Array:
        """Project vectors of shape (n_cells, k) off these functions."""
        if self.span is None:
            return self._iterate(vectors)
        # What large vectors leave is made orthogonal once more.
        for _ in range(2):
            vectors = vectors - self.span @ (self.span.T @ vectors)
        return vectors

    def _iterate(self, vectors: Array) -> Array:
        places, shape, solve = self._table
        tables = np.zeros((*shape, vectors.shape[1]))
        tables[places] = vectors / self.root
        for _ in range(2):
            pure = solve(tables).pure[places]
            tables[places] = pure
        return np.asarray(pure * self.root)

    @cached_property
    def _table(self) -> tuple[tuple[Indices, ...], tuple[int, ...], Callable[[Array], Solution]]:
        """The cells in a table of the levels that they have, its shape, and how it is solved."""
        used, places = zip(
            *(np.unique(levels, return_inverse=True) for levels in self.cells), strict=True
        )
        shape = tuple(len(levels) for levels in used)
        mass = np.zeros(shape)
        mass[places] = self.root[:, 0] ** 2 / np.sum(self.root**2)
        if len(shape) == 2:
            return places, shape, pair_solver(mass)
        return places, shape, lambda tables: solve_general(tables, mass)


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
        f"{count} functions of {len(shape)} features on {n_filled} combinations of levels each",
        "Pass a smaller rank or order, or fewer bins.",
    )


def lower_functions(
    mass: Array, memory_budget: int, most_entries: int | None = None
) -> LowerFunctions:
    """Return the functions of fewer features, as an orthonormal basis where that is small.

    Parameters
    ----------
    mass : ndarray of shape (levels...)
        Mass of each cell of the subset.
    memory_budget : int
        Bytes that the basis may take, with what it is made from.
    most_entries : int, optional
        Entries of the system beyond which there is no basis. There always is one by default.

    Raises
    ------
    MemoryBudgetError
        If the basis would not fit.
    """
    cells = np.nonzero(mass > 0)
    if mass.ndim == 1:
        root = np.sqrt(mass[cells])[:, None]
        return LowerFunctions(cells, root, root / np.linalg.norm(root))
    cells, slices = _never_alone(cells, mass.shape)
    root = np.sqrt(mass[cells])[:, None]
    n_slices = sum(int(own.max(initial=-1)) + 1 for own in slices)
    if most_entries is not None and len(root) * n_slices > most_entries:
        return LowerFunctions(cells, root, None)
    check_budget(
        32 * len(root) * n_slices,
        memory_budget,
        f"the smaller effects inside an effect of {len(root)} combinations of levels",
        "Pass a smaller order, or fewer bins.",
    )
    if not len(root):
        return LowerFunctions(cells, root, np.zeros((0, 0)))
    system, first = np.zeros((len(root), n_slices)), 0
    for own in slices:
        norms = np.sqrt(np.bincount(own, weights=mass[cells]))
        system[np.arange(len(own)), first + own] = root[:, 0] / norms[own]
        first += len(norms)
    left, singular, _ = np.linalg.svd(system, full_matrices=False)
    return LowerFunctions(cells, root, left[:, singular > _INDEPENDENT * singular[0]])


def _whole(filled: Mask) -> Mask:
    """Whether all cells that a function uses have mass."""
    for axis in range(filled.ndim):
        last = np.take(filled, [-1], axis=axis)
        filled = np.delete(filled, -1, axis=axis) & last
    return filled


def _never_alone(
    cells: tuple[Indices, ...], shape: tuple[int, ...]
) -> tuple[tuple[Indices, ...], list[Indices]]:
    """Leave out cells that are alone in a slice, and number the slices of the others by axis."""
    axes = range(len(shape))
    for _ in range(_MOST_ROUNDS):
        slices, together = [], np.ones(len(cells[0]), dtype=bool)
        for axis in axes:
            others = [j for j in axes if j != axis]
            flat = np.ravel_multi_index(
                tuple(cells[j] for j in others), tuple(shape[j] for j in others)
            )
            _, own, counts = np.unique(flat, return_inverse=True, return_counts=True)
            slices.append(own)
            together &= counts[own] > 1
        if together.all():
            break
        cells = tuple(levels[together] for levels in cells)
    return cells, slices
