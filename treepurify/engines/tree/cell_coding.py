"""Number the unknowns of one tree's projection so that its equations fall into blocks."""

from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify.engines.tree.tree_problem import TreeProblem
from treepurify.typing import Array, Indices, Integers

__all__ = ["CellCoding", "SetArrays", "code_cells"]

# Below this number, blocks cost more in calls than they save in multiplications.
_FEW_UNKNOWNS = 128


class SetArrays(NamedTuple):
    """The numbering as kernels read it.

    Sets that hold the pivot are told by their other features: the first of two entries is about
    them, the second about the sets without the pivot. Numbers count from the first unknown of
    the block, or of the sets without the pivot, and are -1 for what is no set.

    Parameters
    ----------
    n_sets : int
        How many sets there are.
    pivot : int
        Position of the pivot; -1 for none.
    place : ndarray of int64
        Position of each cell of each feature among those with unknowns, -1 for the others.
    start : ndarray of int64, shape (n_features + 1,)
        First entry of each feature in `place`.
    n_places : ndarray of int64, shape (n_features,)
        How many cells with unknowns each feature has.
    of_one : ndarray of int64, shape (2, n_features)
        First number of the sets of each feature.
    of_two : ndarray of int64, shape (2, n_features, n_features)
        That of the sets of each two.
    threes : ndarray of int64, shape (n_threes, 3)
        The sets of three without the pivot.
    of_three : ndarray of int64, shape (n_threes,)
        Their first numbers.
    """

    n_sets: int
    pivot: int
    place: Integers
    start: Integers
    n_places: Integers
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
    entries : ndarray of int, shape (size,)
        Where each unknown is in the tables of the family (see `TreeTerms.layout`).
    bounds : ndarray of int64, shape (n_blocks + 1,)
        First unknown of each block; the last is the first without the pivot.
    arrays : SetArrays
        The numbering for kernels.
    """

    entries: Indices
    bounds: Integers
    arrays: SetArrays

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return len(self.entries)


def code_cells(problem: TreeProblem) -> CellCoding:
    """Number the unknowns of a problem."""
    coded = tuple(_coded_cells(margin) for margin in problem.margins)
    sizes, lengths = [len(cells) for cells in coded], [len(m) for m in problem.margins]
    terms = problem.terms
    held = [tuple(terms.position[j] for j in subset) for subset in terms.family]
    pivot, width = _choose_pivot(held, sizes)
    bounds = width * np.arange(sizes[pivot] + 1 if width else 1)
    parts, bases, n_listed = [int(pivot not in positions) for positions in held], [], [0, 0]
    unknowns, entries = [], []
    for positions, part, first in zip(held, parts, terms.layout.base.tolist(), strict=False):
        bases.append(n_listed[part])
        along, n = _strides(positions, sizes, pivot, width)
        places = [step * np.arange(sizes[f]) for step, f in along]
        unknowns.append(_sums(places, bases[-1] + part * int(bounds[-1])))
        n_listed[part] += n
        along, _ = _strides(positions, lengths)
        entries.append(_sums([step * coded[f] for step, f in along], first))
    entry_of = np.empty(int(bounds[-1]) + n_listed[1], dtype=np.intp)
    entry_of[np.concatenate(unknowns, axis=None)] = np.concatenate(entries, axis=None)
    return CellCoding(entry_of, bounds, _set_arrays(held, bases, pivot, coded, lengths))


def _set_arrays(
    held: list[tuple[int, ...]],
    bases: list[int],
    pivot: int,
    coded: tuple[Indices, ...],
    lengths: list[int],
) -> SetArrays:
    n = len(coded)
    of_one = np.full((2, n), -1, dtype=np.int64)
    of_two = np.full((2, n, n), -1, dtype=np.int64)
    threes, of_three = [], []
    for positions, base in zip(held, bases, strict=True):
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
        len(held),
        pivot,
        np.concatenate([_places(*pair) for pair in zip(coded, lengths, strict=True)]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([len(cells) for cells in coded], dtype=np.int64),
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
