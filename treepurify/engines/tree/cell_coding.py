"""Number the unknowns of a projection on coarse cells so that its equations fall into blocks."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treepurify.engines.tree.coarse_problem import CoarseProblem
from treepurify.engines.tree.family_tables import TableLayout
from treepurify.typing import Array, Indices, Integers

__all__ = ["CellCoding", "SetArrays", "code_cells"]

# Below this number, blocks cost more in calls than they save in multiplications.
_FEW_UNKNOWNS = 128


class SetArrays(NamedTuple):
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
    arrays : SetArrays
        The numbering for kernels.
    """

    entries: Indices
    bounds: Integers
    arrays: SetArrays


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
) -> SetArrays:
    n = len(n_places)
    with_pivot, of_one = np.full((2, n), -1, dtype=np.int64)
    of_two = np.full((n, n), -1, dtype=np.int64)
    for positions, base in zip(layout.features.tolist(), first, strict=True):
        others = [f for f in positions if f not in (-1, pivot)]
        if len(others) == 2:
            of_two[*others] = base
        elif len(others) == 1:
            (with_pivot if pivot in positions and pivot >= 0 else of_one)[others] = base
    return SetArrays(pivot, place, layout.start, n_places, with_pivot, of_one, of_two)
