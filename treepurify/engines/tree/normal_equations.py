"""Normal equations of a projection on coarse cells: how they are summed, scaled and factored.

The unknowns are numbered so that the equations fall into blocks.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.gram_right_side import add_right_side
from treepurify._kernels.gram_rows import add_rows, scale_equations
from treepurify._kernels.gram_tables import add_tables, rank_cells
from treepurify.engines.tree.arrowhead import Arrowhead, ArrowheadFactor, GappedFactor
from treepurify.engines.tree.coarse_problem import CoarseProblem, TableLayout
from treepurify.typing import Array, Cells, Indices, Integers, Mask

__all__ = [
    "CellCoding",
    "Equations",
    "Unknowns",
    "code_cells",
    "count_unknowns",
    "normal_equations",
]

# A feature is rare where fewer rows than this share are outside its cell of reference.
_RARE = 0.5
# Below this number, blocks cost more in calls than they save in multiplications.
_FEW_UNKNOWNS = 128


class _SetArrays(NamedTuple):
    """The numbering as kernels read it.

    Numbers count from the first unknown of the block, or of the sets without the pivot, and are -1
    for what is no set.

    Parameters
    ----------
    pivot : int
        Position of the pivot; -1 for none.
    place : ndarray of int64
        Position of each cell of each feature among those with unknowns, -1 for the others.
    start : ndarray of int64, shape (n_features + 1,)
        First entry of each feature in `place`.
    n_places : ndarray of int64, shape (n_features,)
        How many cells with unknowns each feature has.
    with_pivot : ndarray of int64, shape (n_features,)
        First number of the set of the pivot and each other feature.
    of_one : ndarray of int64, shape (n_features,)
        That of the set of each feature other than the pivot.
    of_two : ndarray of int64, shape (n_features, n_features)
        That of the set of each two others.
    """

    pivot: int
    place: Integers
    start: Integers
    n_places: Integers
    with_pivot: Integers
    of_one: Integers
    of_two: Integers


@dataclass(frozen=True, eq=False)
class CellCoding:
    """The unknowns: cells of every set of up to two features, without cells of reference.

    The heaviest cell of each feature, its reference, has no unknowns, so that no two sums of
    indicators are the same function on all cells. Sets that hold the pivot, the feature with
    the most unknowns, come first; their unknowns are numbered by the cell of the pivot, one
    block per cell. Unknowns of different blocks are never one on the same row.

    Parameters
    ----------
    entries : ndarray of int, shape (size,)
        Where each unknown is in the tables of the family (see `CoarseTerms.layout`).
    bounds : ndarray of int64, shape (n_blocks + 1,)
        First unknown of each block; the last is the first without the pivot.
    arrays : _SetArrays
        The numbering for kernels.
    """

    entries: Indices
    bounds: Integers
    arrays: _SetArrays


class RankedSets(NamedTuple):
    """Sets of up to two features, which are ranked by how many rows are in cells with unknowns.

    A set is two ranks in increasing order, and the number of features stands for none. Numbers of
    unknowns count from the first of the block, or of the sets without the pivot.

    Parameters
    ----------
    pivot : int
        Rank of the pivot; -1 for none.
    n_rare : int
        How many features are rare; they come first.
    block_size : int
        Unknowns in each block.
    n_outside : int
        Unknowns without the pivot.
    sizes : ndarray of int64, shape (n_features,)
        How many cells with unknowns each feature has.
    first : ndarray of int64, shape (n_features + 1, n_features + 1)
        First number of each set, -1 for what is no set.
    step : ndarray of int64, shape (n_features + 1, n_features + 1, 2)
        By how much numbers grow with the cell of each of the set's features; the pivot's cell
        leads to another block.
    is_inside : ndarray of bool, shape (n_features + 1, n_features + 1)
        Whether the set holds the pivot.
    """

    pivot: int
    n_rare: int
    block_size: int
    n_outside: int
    sizes: Integers
    first: Integers
    step: Integers
    is_inside: Mask


def rank_sets(coding: CellCoding, margins: tuple[Array, ...]) -> tuple[RankedSets, Indices]:
    """Return the sets of a coding by ranks of features, and the feature of each rank.

    Parameters
    ----------
    coding : CellCoding
        The unknowns.
    margins : tuple of ndarray
        Mass of the cells of each feature.
    """
    arrays, n = coding.arrays, len(margins)
    active = np.array([1.0 - float(margin.max() / margin.sum()) for margin in margins])
    ranked = np.argsort(active, kind="stable")
    rank = np.argsort(ranked)
    first = np.full((n + 1, n + 1), -1, dtype=np.int64)
    step = np.zeros((n + 1, n + 1, 2), dtype=np.int64)
    is_inside = np.zeros((n + 1, n + 1), dtype=np.bool_)
    first[n, n] = 0

    def add(base: int, held: dict[int, int], inside: bool) -> None:
        """Add the set of some ranks, each with its step."""
        low, high = sorted([*held, n, n][:2])
        first[low, high], is_inside[low, high] = base, inside
        step[low, high] = held.get(low, 0), held.get(high, 0)

    pivot = int(rank[arrays.pivot]) if arrays.pivot >= 0 else -1
    if pivot >= 0:
        add(0, {pivot: 0}, True)
    for f in np.flatnonzero(arrays.with_pivot >= 0).tolist():
        add(int(arrays.with_pivot[f]), {pivot: 0, int(rank[f]): 1}, True)
    for f in np.flatnonzero(arrays.of_one >= 0).tolist():
        add(int(arrays.of_one[f]), {int(rank[f]): 1}, False)
    for f, g in np.argwhere(arrays.of_two >= 0).tolist():
        steps = {int(rank[f]): int(arrays.n_places[g]), int(rank[g]): 1}
        add(int(arrays.of_two[f, g]), steps, False)
    n_inside = int(coding.bounds[-1])
    block_size = int(coding.bounds[1]) if n_inside else 0
    n_rare, n_outside = int(np.sum(active < _RARE)), len(coding.entries) - n_inside
    sizes = arrays.n_places[ranked]
    return (
        RankedSets(pivot, n_rare, block_size, n_outside, sizes, first, step, is_inside),
        ranked,
    )


def rank_rows(cells: Cells, coding: CellCoding, sets: RankedSets, ranked: Indices) -> Cells:
    """Return the place of each row among the cells with unknowns, shape (n_features, n_rows)."""
    dtype = np.uint16 if sets.sizes.max() < np.iinfo(np.uint16).max else np.uint32
    codes = np.empty((len(ranked), len(cells)), dtype=dtype)
    rank_cells(cells, ranked, coding.arrays.place, coding.arrays.start, sets.sizes, codes)
    return codes


def largest_table(sets: RankedSets) -> int:
    """Return the number of cells of the largest table of joint cells."""
    n_cells = sets.sizes + 1
    n = len(n_cells)
    pairs = np.argwhere(sets.first[:n, :n] >= 0)
    held = n_cells[pairs].prod(axis=1)
    largest: int = prod(sorted(n_cells.tolist())[-2:])
    if len(pairs):
        is_in = np.zeros((len(pairs), n), dtype=np.int64)
        is_in[np.arange(len(pairs))[:, None], pairs] = 1
        is_apart = is_in @ is_in.T == 0
        with_one = held * np.where(is_in > 0, 1, n_cells).max(axis=1)
        of_four = np.outer(held, held) * is_apart
        largest = max(largest, int(with_one.max()), int(of_four.max()))
    return largest


# Most cells of a table of the target over three features, which stays in the cache.
_MOST_TARGET_CELLS = 8192


class Unknowns(NamedTuple):
    """How many unknowns there are, and how much of them a row meets on average.

    Parameters
    ----------
    number : int
        Cells of all sets of features, without cells of reference.
    on_a_row : float
        How many of them are one on a row.
    features_on_a_row : float
        How many features have a row in a cell with unknowns.
    """

    number: int
    on_a_row: float
    features_on_a_row: float


def count_unknowns(problem: CoarseProblem) -> Unknowns:
    """Return the number of unknowns, as if features were independent where rows are concerned."""
    layout, margins = problem.terms.layout, np.concatenate(problem.margins)
    first = layout.start[:-1]
    # Behind the last feature of a set stands one that changes nothing.
    sizes = np.append(np.add.reduceat(margins > 0, first, dtype=np.float64) - 1, 1.0)
    active_mass = np.append(1 - np.maximum.reduceat(margins, first), 1.0)
    number, active = (x[layout.features].prod(axis=1).sum() for x in (sizes, active_mass))
    return Unknowns(int(number), float(active), float(active_mass[:-1].sum()))


@dataclass(frozen=True, eq=False)
class Equations:
    """Normal equations of the unknowns with mass, scaled to a unit diagonal.

    `kept` and `empty` are the unknowns with and without mass, `scaling` what each of the
    former is multiplied with. `right` is not scaled. Neither is `sums`, the matrix of all
    unknowns, which is to be multiplied by `unit`.
    """

    kept: Indices
    empty: Indices
    scaling: Array
    sums: Arrowhead
    unit: float
    right: Array

    def image(self, vectors: Array) -> Array:
        """Return the scaled matrix times vectors."""
        factors = np.sqrt(self.unit) * self.scaling[:, None]
        unscaled = np.zeros((len(self.kept) + len(self.empty), vectors.shape[1]))
        unscaled[self.kept] = factors * vectors
        return np.asarray(factors * self.sums.image(unscaled)[self.kept])

    def factor(
        self, ridge: float, dtype: type[np.floating[Any]] = np.float64
    ) -> ArrowheadFactor | None:
        """Factor the scaled matrix with `ridge` added to its diagonal, if it is positive."""
        return self._scaled(dtype).factor(ridge)

    def factor_with_gaps(self, least: float) -> GappedFactor:
        """Factor the scaled matrix without the equations whose pivot is below `least`."""
        return self._scaled(np.float64).factor_with_gaps(least)

    def _scaled(self, dtype: type[np.floating[Any]]) -> Arrowhead:
        bounds = np.searchsorted(self.kept, self.sums.bounds)
        scaled = Arrowhead.zeros(bounds, len(self.kept), dtype)
        factors = np.sqrt(self.unit) * self.scaling
        parts = *self.sums.parts(), *scaled.parts()
        scale_equations(self.kept, self.sums.bounds, bounds, factors, *parts)
        return scaled


def normal_equations(problem: CoarseProblem, coding: CellCoding) -> Equations:
    """Sum the normal equations over the rows."""
    right = np.zeros((len(coding.entries), problem.target.shape[1]))
    unit, weights = _weights_in_units(problem.weights)
    sums = Arrowhead.zeros(coding.bounds, len(coding.entries), weights.dtype)
    if _are_tables_cheaper(problem):
        _add_by_tables(problem, coding, weights, sums, right)
    else:
        _add_row_by_row(problem, coding, weights, sums, right)
    mass = unit * sums.diagonal()
    kept, empty = np.flatnonzero(mass > 0), np.flatnonzero(mass == 0)
    return Equations(kept, empty, 1 / np.sqrt(mass[kept]), sums, unit, right[kept])


def code_cells(problem: CoarseProblem) -> CellCoding:
    """Number the unknowns of a problem."""
    layout = problem.terms.layout
    place = np.concatenate([_places(margin) for margin in problem.margins])
    n_places = np.maximum.reduceat(place, layout.start[:-1]) + 1
    owner, cells = layout.cells(np.arange(layout.base[-1]))
    # Behind the last feature of a set is the end of the places, which requires nothing.
    places = np.append(place, 0)[layout.start[layout.features[owner]] + cells]
    entries = np.flatnonzero(np.all(places >= 0, axis=1))
    unknowns = np.bincount(owner[entries], minlength=len(layout.features))
    pivot = _choose_pivot(layout.features, unknowns, len(n_places))
    is_pivot = (layout.features == pivot) & (pivot >= 0)
    n_blocks = int(n_places[pivot]) if pivot >= 0 else 0
    # Entries stand in the order of sets and cells, which a stable order keeps in each block.
    block = np.full(len(entries), n_blocks)
    of_pivot, slots = np.nonzero(is_pivot[owner[entries]])
    block[of_pivot] = places[entries[of_pivot], slots]
    holds = is_pivot.any(axis=1)
    listed = np.where(holds, unknowns // max(n_blocks, 1), unknowns)
    bounds = int(listed[holds].sum()) * np.arange(n_blocks + 1)
    first = np.where(holds, np.cumsum(listed * holds), np.cumsum(listed * ~holds)) - listed
    arrays = _set_arrays(layout, pivot, first.tolist(), place, n_places)
    return CellCoding(entries[np.argsort(block, kind="stable")], bounds, arrays)


def _weights_in_units(weights: Array) -> tuple[float, npt.NDArray[np.generic]]:
    """Return a unit and the weights in it; where all rows weigh the same, these are counts.

    Counts are small integers, so that what a row writes to stays near the processor.
    """
    if np.ptp(weights) == 0:
        return float(weights[0]), np.ones(len(weights), dtype=np.int32)
    return 1.0, weights


def _are_tables_cheaper(problem: CoarseProblem) -> bool:
    """Return whether tables of joint cells give the equations sooner than one row at a time.

    Rows add to each pair of unknowns that are one on them, and there are as many tables as pairs of
    sets. The work is in nanoseconds of one core, as measured.
    """
    unknowns, n_rows = count_unknowns(problem), len(problem.cells)
    n_sets = len(problem.terms.subsets)
    on_a_row = 3.1 * unknowns.features_on_a_row**2 + 0.18 * unknowns.on_a_row**2
    by_rows = n_rows * (28.0 + on_a_row)
    by_tables = 750.0 * n_sets**2 + 2.5 * n_rows * n_sets + 0.18 * unknowns.number**2
    return by_tables < by_rows


def _add_by_tables(
    problem: CoarseProblem,
    coding: CellCoding,
    weights: npt.NDArray[np.generic],
    sums: Arrowhead,
    right: Array,
) -> None:
    """Add the rows by way of tables of joint cells of up to four features."""
    sets, ranked = rank_sets(coding, problem.margins)
    codes = rank_rows(problem.cells, coding, sets, ranked)
    add_tables(codes, weights, sets, largest_table(sets), *sums.parts())
    target = problem.weights[:, None] * problem.target
    add_right_side(codes, target, sets, _MOST_TARGET_CELLS, right)


def _add_row_by_row(
    problem: CoarseProblem,
    coding: CellCoding,
    weights: npt.NDArray[np.generic],
    sums: Arrowhead,
    right: Array,
) -> None:
    """Add each row to the matrix directly."""
    add_rows(
        problem.cells,
        weights,
        problem.weights,
        problem.target,
        coding.arrays,
        coding.bounds,
        *sums.parts(),
        right,
    )


def _places(margin: Array) -> Integers:
    """Return the position of each cell among those with unknowns, -1 for the others."""
    has_unknowns = margin > 0
    has_unknowns[np.argmax(margin)] = False
    return np.where(has_unknowns, np.cumsum(has_unknowns) - 1, -1)


def _choose_pivot(features: Integers, unknowns: Integers, n_features: int) -> int:
    """Return the feature with the most unknowns, or -1 where there are few."""
    if unknowns.sum() < _FEW_UNKNOWNS:
        return -1
    # The last counts what stands behind the last feature of a set.
    load = np.zeros(n_features + 1, dtype=np.int64)
    np.add.at(load, features, unknowns[:, None])
    return int(np.argmax(load[:-1]))


def _set_arrays(
    layout: TableLayout, pivot: int, first: list[int], place: Integers, n_places: Integers
) -> _SetArrays:
    n = len(n_places)
    with_pivot, of_one = np.full((2, n), -1, dtype=np.int64)
    of_two = np.full((n, n), -1, dtype=np.int64)
    for positions, base in zip(layout.features.tolist(), first, strict=True):
        others = [f for f in positions if f not in (-1, pivot)]
        if len(others) == 2:
            of_two[*others] = base
        elif len(others) == 1:
            (with_pivot if pivot in positions and pivot >= 0 else of_one)[others] = base
    return _SetArrays(pivot, place, layout.start, n_places, with_pivot, of_one, of_two)
