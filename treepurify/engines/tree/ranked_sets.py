"""The unknowns of a projection on coarse cells, as the kernels of joint tables read them."""

from math import prod
from typing import NamedTuple

import numpy as np

from treepurify._kernels.gram_tables import rank_cells
from treepurify.engines.tree.cell_coding import CellCoding
from treepurify.typing import Array, Cells, Indices, Integers, Mask

__all__ = ["RankedSets", "largest_table", "rank_rows", "rank_sets"]

# A feature is rare where fewer rows than this share are outside its cell of reference.
_RARE = 0.5


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
