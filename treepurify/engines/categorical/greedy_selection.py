"""Choose the first independent functions in canonical order: Algorithm 1, in blocks.

The paper tests each candidate by one Gram-Schmidt step (Ferrere et al. 2026, algorithm 1).
Two facts let matrix products do the work. The functions of A, together with those of its
subsets, span the indicators of the cells of A: so an orthonormal basis is built from
indicators, whose inner products are counts of rows and which are far better conditioned than
functions with a rare last level. And which functions of A are the first independent ones is
then a question about their coordinates in the few directions that the cells of A have added.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treepurify._kernels.categorical import eliminate_in_order, first_independent
from treepurify.budget import check_budget
from treepurify.engines.categorical.cells import ADVICE, JointMass, NumberedCells, start_numbering
from treepurify.engines.categorical.indicators import (
    CellNumbers,
    cells_with_mass,
    functions_in_cells,
    of_own_cells,
)
from treepurify.engines.categorical.observations import Observations
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.threads import one_blas_thread
from treepurify.typing import Array, Indices, Integers, Mask

_CELLS_A_BLOCK = 256
# Where candidates bring no new cells, a block would otherwise never be full.
_TABLE_CELLS_A_BLOCK = 1 << 16
_FUNCTIONS_A_BLOCK = 256
# Share of a function's norm.
_INDEPENDENT = 1e-9


@dataclass(frozen=True, eq=False)
class Chosen:
    """What was selected from one subset.

    Parameters
    ----------
    kept : ndarray of bool, shape (levels - 1, ...)
        The selected functions.
    first, last : int
        The directions of the orthonormal basis that the cells of the subset added.
    cells : ndarray of int
        The flat cells of the subset that these directions were made from.
    """

    kept: Mask
    first: int
    last: int
    cells: Indices


@dataclass(frozen=True, eq=False)
class IndicatorBasis:
    """The selected functions, and an orthonormal basis of the space that they span.

    Parameters
    ----------
    chosen : dict of tuple of int to Chosen
        By subset, in the order in which they were tried; the constant stands under the
        empty subset.
    panels : tuple of ndarray
        The Cholesky factor of the indicators, scaled to norm one, by blocks of rows.
    pivots : ndarray of int, shape (n_directions,)
        Number of the cell behind each direction.
    joint : JointMass
        Joint mass of every two cells.
    numbers : dict
        Number of each cell of each subset.
    mass : dict
        Mass of each cell of each subset.
    reference : dict of int to int
        Reference level of each feature.
    rank : int
        Number of selected functions.
    smallest_kept, largest_rejected : float
        Norm left after projection, of an indicator of norm one: the smallest that counted as
        independent and the largest that did not.
    exhausted : bool
        Whether every candidate was tried.
    """

    chosen: dict[Subset, Chosen]
    panels: tuple[Array, ...]
    pivots: Integers
    joint: JointMass
    numbers: CellNumbers
    mass: dict[Subset, Array]
    reference: dict[int, int]
    rank: int
    smallest_kept: float
    largest_rejected: float
    exhausted: bool

    @property
    def n_bytes(self) -> int:
        """Bytes of the factor, of the joint mass and of the tables over cells."""
        tables = sum(table.nbytes for table in (*self.numbers.values(), *self.mass.values()))
        panels = sum(panel.nbytes for panel in self.panels)
        return panels + tables + self.joint.n_bytes

    @property
    def tried(self) -> int:
        """Number of functions that were tried."""
        return sum(chosen.kept.size for chosen in self.chosen.values())

    @property
    def scales(self) -> Array:
        """What each indicator was multiplied by to have norm one."""
        counts = np.diagonal(self.joint.table)[self.pivots].astype(np.float64)
        return np.asarray(1.0 / np.sqrt(counts * self.joint.scale))


@dataclass(eq=False)
class _ChosenSoFar:
    """What the search has found so far."""

    known: NumberedCells
    tolerance: float
    panels: list[Array] = field(default_factory=lambda: [np.ones((1, 1))])
    pivots: list[Integers] = field(default_factory=lambda: [np.zeros(1, np.int64)])
    scales: list[Array] = field(default_factory=lambda: [np.ones(1)])
    n_directions: int = 1
    smallest_kept: float = 1.0
    largest_rejected: float = 0.0
    begun: dict[Subset, "_SubsetCells"] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Bytes of what the search keeps."""
        coordinates = (part for mine in self.begun.values() for part in mine.coordinates)
        return (
            sum(panel.nbytes for panel in self.panels)
            + sum(part.nbytes for part in coordinates)
            + self.known.n_bytes
        )


@dataclass(frozen=True, eq=False)
class _NewCells:
    """Some of the new cells of a subset."""

    subset: Subset
    numbers: Integers
    cells: Indices
    is_last: bool


@dataclass(eq=False)
class _SubsetCells:
    """Directions and coordinates of the new cells of one subset, as its pieces come in.

    `positions` are the flat cells, and `cells` those that directions were made from.
    """

    first: int
    cells: list[Indices] = field(default_factory=list)
    positions: list[Indices] = field(default_factory=list)
    coordinates: list[Array] = field(default_factory=list)


def select_in_order(
    observations: Observations,
    subsets: Iterable[Subset],
    rank: int,
    tolerance: float,
    memory_budget: int,
    progress: ProgressReport,
) -> IndicatorBasis:
    """Return the first `rank` independent functions.

    Parameters
    ----------
    observations : Observations
        The support and its mass.
    subsets : iterable of tuple of int
        Candidates in order; every subset after all of its own subsets.
    rank : int
        Most functions to select, the constant included.
    tolerance : float
        The indicator of a cell counts as dependent if less than this share of its norm is
        left after projection on what came before.
    memory_budget : int
        Bytes that tables may take.
    progress : callable
        Called with a word, the rank so far and the rank wanted.
    """
    search = _ChosenSoFar(start_numbering(observations, memory_budget), tolerance)
    chosen: dict[Subset, Chosen] = {}
    chosen[()] = Chosen(np.ones((), dtype=bool), 0, 1, np.zeros(1, np.intp))
    untried = iter(subsets)
    blocks = _blocks(observations, untried, search.known)
    n_selected = 1
    # Once the rank is reached no block may be requested: it would make the tables of candidates
    # that are not needed.
    # Panels are small, and threads of BLAS would mostly wait for each other.
    with one_blas_thread():
        while n_selected < rank and (block := next(blocks, None)) is not None:
            _check_memory(search, memory_budget)
            _add_directions(search, block)
            for piece in block:
                if piece.is_last and n_selected < rank:
                    chosen[piece.subset] = _choose(
                        search, piece.subset, rank - n_selected, memory_budget
                    )
                    del search.begun[piece.subset]
                    n_selected += int(chosen[piece.subset].kept.sum())
            progress("selecting functions: rank", n_selected, rank)
    # A block may hold candidates beyond the rank: they were numbered, not tried.
    all_tried = len(chosen) == 1 + len(search.known.mass)
    exhausted = all_tried and next(untried, None) is None
    return _finished(search, chosen, n_selected, exhausted)


def _finished(
    search: _ChosenSoFar, chosen: dict[Subset, Chosen], rank: int, exhausted: bool
) -> IndicatorBasis:
    """Leave out the directions that cells beyond the last chosen subset have added."""
    n_directions = max(each.last for each in chosen.values())
    panels = []
    for panel in search.panels:
        start = panel.shape[1] - len(panel)
        if start < n_directions:
            stop = min(n_directions, panel.shape[1])
            panels.append(np.ascontiguousarray(panel[: stop - start, :stop]))
    return IndicatorBasis(
        chosen,
        tuple(panels),
        np.concatenate(search.pivots)[:n_directions],
        search.known.joint,
        search.known.numbers,
        search.known.mass,
        search.known.reference,
        rank,
        search.smallest_kept,
        search.largest_rejected,
        exhausted,
    )


def _check_memory(search: _ChosenSoFar, memory_budget: int) -> None:
    # What there is, the coordinates of the functions that the solve will need, and a block.
    size = search.n_directions
    check_budget(
        search.n_bytes + 8 * size**2 + 32 * size * _CELLS_A_BLOCK,
        memory_budget,
        f"the basis of {size} functions",
        ADVICE,
    )


def _blocks(
    observations: Observations,
    subsets: Iterable[Subset],
    known: NumberedCells,
) -> Iterator[list[_NewCells]]:
    """Yield the new cells of the candidates in blocks, their joint mass counted."""
    block: list[_NewCells] = []
    size, table_cells = 0, 0
    for subset in subsets:
        n_cells = known.joint.n_cells
        cells, numbers = known.add(observations, subset)
        table_cells += known.mass[subset].size
        new = np.flatnonzero(numbers >= n_cells)
        flat = np.ravel_multi_index(tuple(axis[new] for axis in cells), known.mass[subset].shape)
        for first in range(0, max(len(new), 1), _CELLS_A_BLOCK):
            last = min(first + _CELLS_A_BLOCK, len(new))
            block.append(
                _NewCells(subset, numbers[new[first:last]], flat[first:last], last == len(new))
            )
            size += last - first
            if size >= _CELLS_A_BLOCK or table_cells >= _TABLE_CELLS_A_BLOCK:
                known.joint.count()
                yield block
                block, size, table_cells = [], 0, 0
    if block:
        known.joint.count()
        yield block


def _add_directions(search: _ChosenSoFar, block: list[_NewCells]) -> None:
    """Extend the orthonormal basis by the independent cells of a block."""
    new = np.concatenate([piece.numbers for piece in block])
    pivots = np.concatenate(search.pivots)
    among = search.known.joint.inner_products(new, new)
    scale = 1.0 / np.sqrt(np.diagonal(among))
    before = search.known.joint.inner_products(pivots, new)
    before *= np.concatenate(search.scales)[:, None]
    before *= scale
    moved = solve_triangle(search.panels, before)
    residual = among * scale * scale[:, None] - moved.T @ moved
    kept, left = np.zeros(len(new), dtype=bool), np.zeros(len(new))
    eliminate_in_order(residual, search.tolerance**2, kept, left)
    coordinates = np.tril(residual)[:, kept]
    position, direction = 0, search.n_directions
    for piece in block:
        here = slice(position, position + len(piece.numbers))
        mine = search.begun.setdefault(piece.subset, _SubsetCells(direction))
        count = int(kept[here].sum())
        inside = slice(direction - search.n_directions, direction - search.n_directions + count)
        # Of the directions before this block only those of the subset's earlier pieces matter.
        earlier = moved[mine.first : search.n_directions, here].T
        within = coordinates[here, max(mine.first - search.n_directions, 0) : inside.stop]
        mine.coordinates.append(np.hstack([earlier, within]) / scale[here][:, None])
        mine.cells.append(piece.cells[kept[here]])
        mine.positions.append(piece.cells)
        position, direction = here.stop, direction + count
    search.n_directions = direction
    if kept.any():
        search.panels.append(np.hstack([moved[:, kept].T, coordinates[kept]]))
        search.pivots.append(new[kept])
        search.scales.append(scale[kept])
        search.smallest_kept = min(search.smallest_kept, float(np.sqrt(left[kept].min())))
    if not kept.all():
        largest = float(np.sqrt(max(left[~kept].max(), 0.0)))
        search.largest_rejected = max(search.largest_rejected, largest)


def solve_triangle(panels: Sequence[Array], right: Array) -> Array:
    """Solve ``L x = right`` for a lower triangular L that grows by blocks of rows.

    Parameters
    ----------
    panels : sequence of ndarray
        L by blocks of rows: panel b has shape ``(size_b, start_b + size_b)``.
    right : ndarray of shape (n, k)
        Right-hand sides.
    """
    from scipy.linalg import solve_triangular

    solution = np.array(right, dtype=np.float64, order="C")
    for panel in panels:
        size = len(panel)
        start = panel.shape[1] - size
        rows = slice(start, start + size)
        solution[rows] -= panel[:, :start] @ solution[:start]
        solution[rows] = solve_triangular(
            panel[:, start:], solution[rows], lower=True, check_finite=False
        )
    return solution


def _choose(
    search: _ChosenSoFar, subset: Subset, most_functions: int, memory_budget: int
) -> Chosen:
    """Choose the first functions of a subset that are independent of all before them."""
    subset_cells = search.begun[subset]
    mass, reference = search.known.mass[subset], search.known.references(subset)
    shape = tuple(n - 1 for n in mass.shape)
    n_functions = math.prod(shape)
    n_new = subset_cells.coordinates[-1].shape[1]
    cells = np.concatenate(subset_cells.cells)
    kept = np.zeros(n_functions, dtype=bool)
    if n_new == n_functions <= most_functions:
        kept[:] = True
    elif n_new > 0:
        positions = np.concatenate(subset_cells.positions)
        check_budget(
            search.n_bytes
            + 8 * len(positions) * n_new
            + _bytes_of_first_functions(mass, len(positions), n_new),
            memory_budget,
            f"{n_functions} functions of features {subset} with {n_new} coordinates each",
            ADVICE,
        )
        coordinates = _together(subset_cells.coordinates, len(positions), n_new)
        kept = _first_functions(mass, reference, positions, coordinates, min(n_new, most_functions))
    return Chosen(kept.reshape(shape), subset_cells.first, subset_cells.first + n_new, cells)


def _together(parts: list[Array], n_cells: int, n_directions: int) -> Array:
    """Stack coordinates of pieces, of which the earlier ones have fewer directions."""
    coordinates = np.zeros((n_cells, n_directions))
    start = 0
    for part in parts:
        coordinates[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return coordinates


def _bytes_of_first_functions(mass: Array, n_cells: int, n_directions: int) -> int:
    """Return the bytes that `_first_functions` takes, its result included."""
    filled = np.count_nonzero(mass)
    coordinates = 8 * n_directions * (3 * filled + 3 * _FUNCTIONS_A_BLOCK)
    entries = 24 * 2**mass.ndim * (n_cells + _FUNCTIONS_A_BLOCK)
    return int(coordinates + entries + 25 * mass.size)


def _first_functions(
    mass: Array, reference: tuple[int, ...], cells: Indices, coordinates: Array, wanted: int
) -> Mask:
    """Choose the first functions of a subset that do not depend on those before them.

    The cells of the subset have added directions to the space, and only coordinates in these
    matter: functions of fewer features have none. A function is nonzero at up to `2**k` cells, so
    that functions are written out a block at a time. Found directions are rotated out of the
    coordinates of the cells, which leaves fewer coordinates for the functions that follow.

    Parameters
    ----------
    mass : ndarray of shape (levels...)
        Mass of the cells of the subset.
    reference : tuple of int
        Reference level of each feature, whose indicator is one minus the others.
    cells : ndarray of int, shape (n_cells,)
        The flat cells without a reference level that have coordinates.
    coordinates : ndarray of shape (n_cells, n_directions)
        Their coordinates in the directions that the subset added.
    wanted : int
        Most functions to choose.

    Returns
    -------
    ndarray of bool, shape (n_functions,)
        The chosen functions, in the order of z, the last feature fastest.
    """
    number = cells_with_mass(mass)
    of_cells = of_own_cells(mass.shape, number, reference, cells) @ coordinates
    norms = np.concatenate(
        [np.linalg.norm(block @ of_cells, axis=1) for _, block in _functions(mass, number)]
    )
    # Functions that are rounding compared with the others are functions of what came before.
    norms[norms <= _INDEPENDENT * norms.max(initial=0.0)] = np.inf
    kept = np.zeros(len(norms), dtype=bool)
    for start, block in _functions(mass, number):
        rows = (block @ of_cells) / norms[start : start + block.shape[0], None]
        left = np.flatnonzero(np.linalg.norm(rows, axis=1) > _INDEPENDENT)
        if not len(left):
            continue
        directions = np.zeros((min(wanted - int(kept.sum()), len(left)), rows.shape[1]))
        chosen = np.zeros(len(left), dtype=bool)
        first_independent(rows[left], len(directions), _INDEPENDENT, directions, chosen)
        kept[start + left[chosen]] = True
        if kept.sum() == wanted:
            break
        of_cells = _without(of_cells, directions[: chosen.sum()])
    return kept


def _functions(mass: Array, number: Indices) -> Iterator[tuple[int, Any]]:
    """Yield the functions in blocks, with the place of the first of each block."""
    n_functions = math.prod(size - 1 for size in mass.shape)
    for start in range(0, n_functions, _FUNCTIONS_A_BLOCK):
        block = np.arange(start, min(start + _FUNCTIONS_A_BLOCK, n_functions))
        yield start, functions_in_cells(mass, number, block)


def _without(coordinates: Array, directions: Array) -> Array:
    """Return coordinates in the directions orthogonal to those given.

    Reflections keep the remaining directions exactly orthogonal, however small they are.
    """
    from scipy.linalg.lapack import dgeqrf, dormqr

    reflectors, scales, _, _ = dgeqrf(directions.T)
    workspace = 64 * len(coordinates)
    turned, _, _ = dormqr("L", "T", reflectors, scales, coordinates.T, workspace, overwrite_c=1)
    return np.ascontiguousarray(turned[len(directions) :].T)
