"""Number the unknowns of one tree's projection so that its equations fall into blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify._kernels.tree_gram import add_product_gram
from treepurify.engines.tree.tree_problem import TreeProblem, along_axes
from treepurify.grids.grid import Subset
from treepurify.typing import Array, Indices, Integers
from treepurify.weights.weighting import outer_product

__all__ = ["CellCoding", "SetArrays", "code_cells"]

# Below this number, blocks cost more in calls than they save in multiplications.
_FEW_UNKNOWNS = 128

# Called with the unknowns of the rows of a matrix and of its columns, and the matrix. Without
# columns they are those of the rows, and only the upper triangle is added to.
ProductAdder = Callable[[Indices, Indices | None, Array], None]


class SetArrays(NamedTuple):
    """The numbering as kernels read it.

    Sets that hold the pivot are told by their other features: the first of two entries is about
    them, the second about the sets without the pivot. Numbers count from the first unknown of
    the block, or of the sets without the pivot, and are -1 for what is no set.

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
    features : ndarray of int64, shape (n_sets, most features of a set)
        Positions of the features of each set, -1 behind the last.
    of_one : ndarray of int64, shape (2, n_features)
        First number of the sets of each feature.
    of_two : ndarray of int64, shape (2, n_features, n_features)
        That of the sets of each two.
    threes : ndarray of int64, shape (n_threes, 3)
        The sets of three without the pivot.
    of_three : ndarray of int64, shape (n_threes,)
        Their first numbers.
    """

    pivot: int
    place: Integers
    start: Integers
    n_places: Integers
    features: Integers
    of_one: Integers
    of_two: Integers
    threes: Integers
    of_three: Integers


@dataclass(frozen=True, eq=False)
class CellCoding:
    """The unknowns: cells of every set of features of a tree, without cells of reference.

    The heaviest cell of each feature, its reference, has no unknowns, so that no two sums of
    indicators are the same function on all cells. Sets that hold the pivot, the feature with
    the most unknowns, come first; their unknowns are numbered by the cell of the pivot, one
    block per cell. Unknowns of different blocks are never one on the same row.

    Parameters
    ----------
    sets : tuple of tuple of int
        The sets of features.
    coded : tuple of ndarray of int
        The cells of each feature that have unknowns.
    numbers : tuple of ndarray of int, shape (coded cells...)
        The unknowns of each set.
    entries : ndarray of int, shape (size,)
        Where each is in the tables of all sets, one after the other.
    bounds : ndarray of int64, shape (n_blocks + 1,)
        First unknown of each block; the last is the first without the pivot.
    size : int
        Number of unknowns.
    arrays : SetArrays
        The same for kernels.
    """

    sets: tuple[Subset, ...]
    coded: tuple[Indices, ...]
    numbers: tuple[Indices, ...]
    entries: Indices
    bounds: Integers
    size: int
    arrays: SetArrays

    def set_features(self, index: int) -> list[int]:
        """Return the positions of the features of a set."""
        return [int(f) for f in self.arrays.features[index] if f >= 0]

    def cells_of(self, index: int) -> tuple[Indices, ...]:
        """Return the index of the cells of a set that have unknowns in its table of all cells."""
        return np.ix_(*(self.coded[f] for f in self.set_features(index)))

    def product_mass(self, margins: tuple[Array, ...]) -> Array:
        """Return the probability of each unknown's cells where features are independent."""
        mass = np.empty(self.size)
        for index, numbers in enumerate(self.numbers):
            mass[numbers] = outer_product(
                [margins[f][self.coded[f]] for f in self.set_features(index)]
            )
        return mass

    def product_adder(self, margins: tuple[Array, ...], share: float) -> ProductAdder:
        """Return a function that adds inner products of unknowns where features are independent.

        It adds `share` times the inner products to a matrix; see `ProductAdder`.
        """
        owner = np.empty(self.size, dtype=np.int64)
        cells = np.zeros((self.size, self.arrays.features.shape[1]), dtype=np.int64)
        for index, numbers in enumerate(self.numbers):
            owner[numbers] = index
            for slot, f in enumerate(self.set_features(index)):
                shape = [1] * numbers.ndim
                shape[slot] = -1
                cells[numbers, slot] = self.coded[f].reshape(shape)
        mass, margin = self.product_mass(margins), np.concatenate(margins)

        def add(rows: Indices, columns: Indices | None, gram: Array) -> None:
            others = rows if columns is None else columns
            is_upper = columns is None
            add_product_gram(
                share, self.arrays, owner, cells, rows, others, mass, margin, is_upper, gram
            )

        return add

    def tables(self, problem: TreeProblem, values: Array) -> dict[Subset, Array]:
        """Return tables of all cells; those without mass hold the mean of the others."""
        shapes = [problem.terms.shape(subset) for subset in self.sets]
        ends = np.cumsum([prod(shape) for shape in shapes])
        flat = np.zeros((ends[-1], values.shape[1]))
        flat[self.entries] = values
        tables = {
            subset: part.reshape(*shape, -1)
            for subset, shape, part in zip(
                self.sets, shapes, np.split(flat, ends[:-1]), strict=True
            )
        }
        if any(np.any(margin == 0) for margin in problem.margins):
            for subset, table in tables.items():
                _fill_empty_cells(table, problem.margins_of(subset))
        return tables


def _fill_empty_cells(table: Array, margins: list[Array]) -> None:
    for axis, margin in enumerate(margins):
        if np.any(margin == 0):
            without = (slice(None),) * axis + (margin == 0,)
            table[without] = along_axes(table, margins, axis)


def code_cells(problem: TreeProblem) -> CellCoding:
    """Number the unknowns of a problem."""
    coded = tuple(_coded_cells(margin) for margin in problem.margins)
    sizes, lengths = [len(cells) for cells in coded], [len(m) for m in problem.margins]
    family = [tuple(problem.terms.position[j] for j in subset) for subset in problem.terms.family]
    pivot, width = _choose_pivot(family, sizes)
    order = sorted(range(len(family)), key=lambda index: pivot not in family[index])
    held = [family[index] for index in order]
    bounds = width * np.arange(sizes[pivot] + 1 if width else 1)
    numbers, entries, bases = [], [], []
    n_listed, n_entries = [0, 0], 0
    for positions in held:
        part = int(pivot not in positions)
        bases.append(n_listed[part])
        along, n = _strides(positions, sizes, pivot, width)
        places = [step * np.arange(sizes[f]) for step, f in along]
        numbers.append(_sums(places, bases[-1] + part * int(bounds[-1])))
        n_listed[part] += n
        along, n = _strides(positions, lengths)
        entries.append(_sums([step * coded[f] for step, f in along], n_entries))
        n_entries += n
    size = int(bounds[-1]) + n_listed[1]
    entry_of = np.empty(size, dtype=np.intp)
    for unknowns, cells in zip(numbers, entries, strict=True):
        entry_of[unknowns] = cells
    sets = tuple(problem.terms.family[index] for index in order)
    arrays = _set_arrays(held, bases, pivot, coded, lengths)
    return CellCoding(sets, coded, tuple(numbers), entry_of, bounds, size, arrays)


def _set_arrays(
    held: list[tuple[int, ...]],
    bases: list[int],
    pivot: int,
    coded: tuple[Indices, ...],
    lengths: list[int],
) -> SetArrays:
    n = len(coded)
    features = np.full((len(held), max(len(positions) for positions in held)), -1, dtype=np.int64)
    of_one = np.full((2, n), -1, dtype=np.int64)
    of_two = np.full((2, n, n), -1, dtype=np.int64)
    threes, of_three = [], []
    for index, (positions, base) in enumerate(zip(held, bases, strict=True)):
        features[index, : len(positions)] = positions
        part = int(pivot not in positions)
        others = tuple(f for f in positions if f != pivot)
        if len(others) == 1:
            of_one[part, others[0]] = base
        elif len(others) == 2:
            of_two[part, others[0], others[1]] = base
        elif len(others) == 3:
            threes.append(others)
            of_three.append(base)
    return SetArrays(
        pivot,
        np.concatenate([_places(*pair) for pair in zip(coded, lengths, strict=True)]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([len(cells) for cells in coded], dtype=np.int64),
        features,
        of_one,
        of_two,
        np.array(threes, dtype=np.int64).reshape(-1, 3),
        np.array(of_three, dtype=np.int64),
    )


def _sums(parts: list[Indices], first: int) -> Indices:
    """Return `first` plus an element of each part, for all choices of elements."""
    return np.asarray(reduce(np.add.outer, parts, np.array(first)))


def _coded_cells(margin: Array) -> Indices:
    has_unknowns = margin > 0
    has_unknowns[np.argmax(margin)] = False
    return np.flatnonzero(has_unknowns)


def _places(coded: Indices, n_cells: int) -> Integers:
    places = np.full(n_cells, -1, dtype=np.int64)
    places[coded] = np.arange(len(coded))
    return places


def _choose_pivot(held: list[tuple[int, ...]], sizes: list[int]) -> tuple[int, int]:
    """Return the feature with the most unknowns, -1 for none, and the unknowns of a block."""
    unknowns = [prod(sizes[f] for f in positions) for positions in held]
    if sum(unknowns) < _FEW_UNKNOWNS:
        return -1, 0
    load = np.zeros(len(sizes), dtype=np.int64)
    for n, positions in zip(unknowns, held, strict=True):
        load[list(positions)] += n
    pivot = int(np.argmax(load))
    return pivot, int(load[pivot]) // sizes[pivot]


def _strides(
    positions: tuple[int, ...], sizes: list[int], pivot: int = -1, width: int = 0
) -> tuple[list[tuple[int, int]], int]:
    """Return the stride along each feature in C order, and how many numbers there are.

    The pivot has the stride of a block, and is not counted.
    """
    strides, step = [], 1
    for f in reversed(positions):
        strides.append((width if f == pivot else step, f))
        step *= 1 if f == pivot else sizes[f]
    return strides[::-1], step
