"""The selected functions of a subset, made orthogonal to all functions of fewer features.

On full support the inverse-likelihood functions are orthogonal to every function of fewer of
their features, as the paper says (Ferrere et al. 2026, theorem 3.2). Where a cell of A has no
mass, a function that would use it is not: on the support {(0,0), (0,1), (1,0)} of the paper's
own example the mean of the pair function is -1, not 0. Such functions are replaced by their
residual after projection on the functions of fewer features, which changes neither the
selection nor the space, since these come earlier.
"""

from dataclasses import dataclass

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.categorical.indicators import (
    CellNumbers,
    SparseRows,
    indicator_rows,
    spread,
    subset_functions,
)
from treepurify.purification.general import solve_general
from treepurify.purification.pair import solve_pair
from treepurify.purification.solution import inverse_mass
from treepurify.typing import Array, Indices, Mask

__all__ = ["LowerFunctions", "SubsetFunctions", "lower_functions", "selected_functions"]

Subset = tuple[int, ...]

_DENSE_ENTRIES = 1 << 20
_INDEPENDENT = 1e-7
# The functions cell by cell, their projection and the steps of writing them by indicators.
_TABLES_MEANWHILE = 6


@dataclass(frozen=True, eq=False)
class LowerFunctions:
    """Functions of fewer features of a subset, orthonormal on its cells with mass.

    Parameters
    ----------
    cells : tuple of ndarray of int
        The cells with mass.
    root : ndarray of shape (n_cells, 1)
        Root of their mass.
    span : ndarray of shape (n_cells, n_functions)
        The functions times that root.
    """

    cells: tuple[Indices, ...]
    root: Array
    span: Array


@dataclass(frozen=True, eq=False)
class SubsetFunctions:
    """The selected functions of one subset.

    Parameters
    ----------
    rows : SparseRows
        The functions as combinations of indicators of cells.
    kept : ndarray of bool, shape (levels - 1, ...)
        Which functions they are.
    inverse : ndarray of shape (levels...)
        One over the mass of each cell; zero for cells without mass.
    tables : ndarray of shape (levels..., n_functions), optional
        The functions cell by cell, where some had to be made orthogonal.
    mass : ndarray of shape (levels...)
        Mass of each cell.
    lower : LowerFunctions, optional
        What they were made orthogonal to.
    """

    rows: SparseRows
    kept: Mask
    inverse: Array
    tables: Array | None
    mass: Array
    lower: LowerFunctions | None

    @property
    def n_bytes(self) -> int:
        """Bytes of everything that is held for the subset alone."""
        rows = 8 * len(self.rows.start) + 16 * len(self.rows.column)
        tables = 0 if self.tables is None else self.tables.nbytes
        lower = 0 if self.lower is None else self.lower.span.nbytes
        return rows + tables + lower + self.inverse.nbytes

    def combine(self, coefficients: Array) -> Array:
        """Return ``sum_z c_z phi_z`` for coefficients of shape (n_functions, n_outputs)."""
        if self.tables is not None:
            # Large coefficients may cancel: what they leave is made orthogonal once more.
            return _orthogonal(self.tables @ coefficients, self.mass, self.lower)
        full = np.zeros((*self.kept.shape, coefficients.shape[1]))
        full[self.kept] = coefficients
        return spread(full, self.kept.ndim) * self.inverse[..., None]


def selected_functions(
    mass: Array,
    kept: Mask,
    reference: tuple[int, ...],
    numbers: CellNumbers,
    subset: Subset,
    memory_budget: int,
    held: int = 0,
) -> SubsetFunctions:
    """Return the selected functions of a subset; see `subset_functions` for the arguments.

    `held` are bytes that other subsets have of the budget.
    """
    filled = mass > 0
    inverse = inverse_mass(mass)
    tables, lower = None, None
    if not filled.all() and np.any(kept & ~_whole(filled)):
        # Where the basis is large, the iterative solvers of purification do its work.
        count = int(kept.sum())
        check_budget(
            held + _TABLES_MEANWHILE * 8 * count * mass.size,
            memory_budget,
            f"{count} functions of features {subset} in {mass.size} cells each",
            "Pass a smaller rank or order, or fewer bins.",
        )
        if int(filled.sum()) * _n_slices(mass) <= _DENSE_ENTRIES:
            lower = lower_functions(mass, memory_budget)
        tables = _orthogonal(_tables(kept, inverse), mass, lower)
        rows = indicator_rows(tables, reference, numbers, subset)
    else:
        rows = subset_functions(mass, reference, numbers, subset, memory_budget, held)
        rows = rows.take(np.flatnonzero(kept))
    return SubsetFunctions(rows, kept, inverse, tables, mass, lower)


def _whole(filled: Mask) -> Mask:
    """Whether all cells that a function uses have mass."""
    for axis in range(filled.ndim):
        last = np.take(filled, [-1], axis=axis)
        filled = np.delete(filled, -1, axis=axis) & last
    return filled


def _tables(kept: Mask, inverse: Array) -> Array:
    count = int(kept.sum())
    ones = np.zeros((*kept.shape, count))
    ones[(*np.nonzero(kept), np.arange(count))] = 1.0
    return np.asarray(spread(ones, kept.ndim) * inverse[..., None])


def lower_functions(mass: Array, memory_budget: int) -> LowerFunctions:
    """Return an orthonormal basis of the functions of fewer features on the cells with mass.

    Raises
    ------
    MemoryBudgetError
        If the indicators that it is made from would not fit.
    """
    cells = np.nonzero(mass > 0)
    root = np.sqrt(mass[cells])[:, None]
    if mass.ndim == 1:
        return LowerFunctions(cells, root, root / np.linalg.norm(root))
    check_budget(
        16 * len(root) * _n_slices(mass),
        memory_budget,
        f"the functions of fewer features of a term with {len(root)} cells",
        "Pass a smaller order, or fewer bins.",
    )
    design = np.hstack([_slices(cells, mass.shape, axis) for axis in range(mass.ndim)])
    norms = np.sqrt(mass[cells] @ design)
    system = root * design[:, norms > 0] / norms[norms > 0]
    left, singular, _ = np.linalg.svd(system, full_matrices=False)
    return LowerFunctions(cells, root, left[:, singular > _INDEPENDENT * singular[0]])


def _n_slices(mass: Array) -> int:
    return sum(mass.size // size for size in mass.shape)


def _orthogonal(tables: Array, mass: Array, lower: LowerFunctions | None) -> Array:
    """Project tables off the functions of fewer features, on the cells with mass."""
    if lower is None:
        solve = solve_pair if mass.ndim == 2 else solve_general
        return np.asarray(np.where((mass > 0)[..., None], solve(tables, mass).pure, 0.0))
    rest = lower.root * tables[lower.cells]
    for _ in range(2):
        rest -= lower.span @ (lower.span.T @ rest)
    pure = np.zeros_like(tables)
    pure[lower.cells] = rest / lower.root
    return pure


def _slices(cells: tuple[Indices, ...], shape: tuple[int, ...], axis: int) -> Array:
    """Indicators of the slices along one axis, shape (cells, slices)."""
    others = [i for i in range(len(shape)) if i != axis]
    sizes = tuple(shape[i] for i in others)
    number = np.ravel_multi_index(tuple(cells[i] for i in others), sizes)
    indicator = np.zeros((len(number), int(np.prod(sizes))))
    indicator[np.arange(len(number)), number] = 1.0
    return indicator
