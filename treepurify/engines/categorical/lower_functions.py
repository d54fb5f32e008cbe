"""The functions of fewer features of one subset, to make others orthogonal to them.

A cell that is alone in one of its slices is zero in every function that is orthogonal to those of
fewer features, so that it can be left out, and others may then be alone in turn. What remains
of the cells of continuous features is little.
"""

from dataclasses import dataclass

import numpy as np

from treepurify.budget import check_budget
from treepurify.purification.general import solve_general
from treepurify.purification.pair import solve_pair
from treepurify.typing import Array, Indices

__all__ = ["LowerFunctions", "lower_functions"]

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
        used, places = zip(
            *(np.unique(levels, return_inverse=True) for levels in self.cells), strict=True
        )
        shape = tuple(len(levels) for levels in used)
        mass, tables = np.zeros(shape), np.zeros((*shape, vectors.shape[1]))
        mass[places] = self.root[:, 0] ** 2 / np.sum(self.root**2)
        tables[places] = vectors / self.root
        solve = solve_pair if mass.ndim == 2 else solve_general
        for _ in range(2):
            pure = solve(tables, mass).pure[places]
            tables[places] = pure
        return np.asarray(pure * self.root)


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
        f"the functions of fewer features of a term with {len(root)} cells",
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
