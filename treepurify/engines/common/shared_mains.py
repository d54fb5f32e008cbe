"""Concurvity: main effects that are confounded because two features determine each other."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from treepurify._kernels.support import count_blocks, gather_rows, pick_rows
from treepurify.components import Component, TensorComponent
from treepurify.errors import MemoryBudgetError
from treepurify.grid_rows import cells_of_columns, rows_on_grids
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.moments import MeasureRows
from treepurify.progress import progress_report
from treepurify.purification.unidentified import label_blocks
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import RowBatch
from treepurify.terms import term_name
from treepurify.threads import map_threads
from treepurify.typing import Array, Indices, Mask

__all__ = ["LOOKED_ROWS", "SharedMains", "SharedPair", "find_shared_mains", "shared_pairs"]

# Rows of a cell that are looked at first: joined at random, as few leave most pairs in one block.
_PICKED = 4
# Fewer pairs are counted one by one before a kernel for many would be compiled.
_SEVERAL_PAIRS = 16
LOOKED_ROWS = 1 << 14
"""Most rows in batches that are looked at first: a larger sample would cost more than counting."""
_PAIRS_A_PIECE = 1 << 13
# Entries of the table of picked rows, of two bytes each.
_MOST_ENTRIES = 1 << 26
_NOT_LOOKED = "Whether features determine each other on the rows was not checked:"


@dataclass(frozen=True, eq=False)
class SharedPair:
    """Two features whose main effects are confounded on the rows.

    Parameters
    ----------
    pair : tuple of int
        The features.
    blocks : tuple of two ndarrays of int, shapes (n_cells,)
        Block of each cell of both features; -1 without rows. A constant on each block can move
        from one main effect to the other without changing a row.
    directions : int
        One less than the number of blocks that have rows.
    """

    pair: Subset
    blocks: tuple[Indices, Indices]
    directions: int

    def variance(self, first: TensorComponent, second: TensorComponent) -> Array:
        """Return the variance of what both main effects say of the blocks, shape (n_outputs,)."""
        n_blocks = 1 + max(int(blocks.max()) for blocks in self.blocks)
        mass = np.zeros(n_blocks)
        np.add.at(mass, self.blocks[0], first.mass)
        total = np.zeros((n_blocks, first.values.shape[-1]))
        for blocks, main in zip(self.blocks, (first, second), strict=True):
            np.add.at(total, blocks, main.mass[:, None] * main.values)
        there = mass > 0
        return np.asarray((total[there] ** 2 / mass[there, None]).sum(axis=0) / mass.sum())


@dataclass(frozen=True, eq=False)
class SharedMains:
    """The pairs of main effects that are confounded on the rows (concurvity), largest first.

    Only pairs without a table: where there is one, its solve counts the directions.

    Parameters
    ----------
    pairs : tuple of SharedPair
        The pairs.
    variances : tuple of ndarray of float64, shape (n_outputs,)
        Variance of what each pair shares.
    note : str
        Why they were not searched for, if so.
    """

    pairs: tuple[SharedPair, ...] = ()
    variances: tuple[Array, ...] = ()
    note: str = ""

    @property
    def directions(self) -> int:
        """Number of functions that can move between two main effects, summed over the pairs."""
        return sum(pair.directions for pair in self.pairs)

    @property
    def size(self) -> float:
        """Largest standard deviation of what a pair shares."""
        return max((float(np.sqrt(v.max())) for v in self.variances), default=0.0)

    def terms(self, names: list[str]) -> tuple[str, ...]:
        """Return the name of each pair."""
        return tuple(term_name(names[j] for j in found.pair) for found in self.pairs)

    def facts(self, names: list[str]) -> dict[str, list[dict[str, Any]]]:
        """Return them as diagnostics have it."""
        if not self.pairs:
            return {}
        rows = zip(self.terms(names), self.pairs, self.variances, strict=True)
        return {
            "shared_mains": [
                {
                    "term": term,
                    "features": found.pair,
                    "directions": found.directions,
                    "variance": tuple(variance.tolist()),
                }
                for term, found, variance in rows
            ]
        }


def find_shared_mains(every: Mapping[Subset, Component], rows: MeasureRows | None) -> SharedMains:
    """Return the main effects that are confounded on the rows; without rows, none."""
    mains = {
        s[0]: c
        for s, c in every.items()
        if len(s) == 1 and isinstance(c, TensorComponent) and len(c.values) > 1
    }
    tables = {s for s in every if len(s) == 2 and mains.keys() >= set(s)}
    if len(tables) == len(mains) * (len(mains) - 1) // 2:
        return SharedMains()
    if rows is None:
        return SharedMains()
    try:
        on_grids = rows_on_grids(rows, mains.values(), LOOKED_ROWS)
    except MemoryBudgetError:
        return SharedMains(note=f"{_NOT_LOOKED} a sample of the rows would not fit into memory.")
    if on_grids is None:
        return SharedMains()
    sizes = {feature: len(main.values) for feature, main in mains.items()}
    pairs = shared_pairs(on_grids.by_order[min(on_grids.by_order)], sizes, tables)
    if pairs is None:
        return SharedMains(note=f"{_NOT_LOOKED} the features have too many intervals.")
    if isinstance(rows, RowStream) and on_grids.words:
        # More rows can only join blocks: pairs that a sample confounds are checked on all rows.
        pairs = _shared_on_all_rows(rows, mains, [pair.pair for pair in pairs])
    found = [(pair, pair.variance(*(mains[j] for j in pair.pair))) for pair in pairs]
    found.sort(key=lambda item: -float(item[1].max()))
    return SharedMains(tuple(pair for pair, _ in found), tuple(size for _, size in found))


def shared_pairs(
    rows: EncodedRows, sizes: Mapping[int, int], known: Collection[Subset]
) -> list[SharedPair] | None:
    """Return the pairs of features whose main effects are confounded on the rows.

    A function of the one feature that equals a function of the other on every row can be added to
    the one main effect and taken from the other. Such functions are constant on the blocks of
    cells of both features that rows connect. Functions that more than two features share are not
    looked for.

    Parameters
    ----------
    rows : EncodedRows
        The rows that are the measure.
    sizes : mapping of int to int
        Number of cells of each feature that has a main effect.
    known : collection of tuple of int
        Pairs that are left out.

    Returns
    -------
    list of SharedPair or None
        In the order of the pairs; None where there are too many cells to look.
    """
    used = np.array(sorted(sizes), dtype=np.intp)
    is_asked = np.triu(np.ones((len(used), len(used)), dtype=bool), 1)
    place = {feature: k for k, feature in enumerate(used.tolist())}
    for pair in known:
        is_asked[place[pair[0]], place[pair[1]]] = False
    places = np.argwhere(is_asked)
    cells = np.array([sizes[feature] for feature in used.tolist()], dtype=np.intp)
    if len(places) >= _SEVERAL_PAIRS:
        if len(used) * int(cells.sum()) * _PICKED > _MOST_ENTRIES:
            return None
        places = _apart_on_picked_rows(rows, used, cells, places)
    has_weight = slice(None) if rows.weights is None else rows.weights > 0
    shared = []
    for first, second in used[places].tolist():
        of_first, of_second = (rows.codes[j, has_weight] for j in (first, second))
        shape = sizes[first], sizes[second]
        if prod(shape) <= len(of_first):
            there = np.zeros(shape, dtype=bool)
            there[of_first, of_second] = True
            of_first, of_second = np.nonzero(there)
        found = _shared((first, second), of_first, of_second, shape)
        if found is not None:
            shared.append(found)
    return shared


def _shared_on_all_rows(
    rows: RowStream, mains: Mapping[int, TensorComponent], pairs: Sequence[Subset]
) -> list[SharedPair]:
    """Return the pairs that are still confounded on all rows in batches."""
    if not pairs:
        return []
    report = progress_report(rows.progress)
    axes = {feature: main.axes[0] for feature, main in mains.items()}
    found = rows.reduce(_Occupied(axes, pairs), "looking for shared main effects", report)
    shared = []
    for pair in pairs:
        of_first, of_second = np.nonzero(found[pair])
        apart = _shared(pair, of_first, of_second, found[pair].shape)
        if apart is not None:
            shared.append(apart)
    return shared


@dataclass(frozen=True, eq=False)
class _Occupied:
    """The statistic of the cells of pairs of features in which there is a row."""

    axes: Mapping[int, FeatureAxis]
    pairs: Sequence[Subset]

    def zero(self) -> dict[Subset, Mask]:
        """Return that there are no rows anywhere."""
        sizes = {feature: axis.n_cells for feature, axis in self.axes.items()}
        return {pair: np.zeros([sizes[j] for j in pair], dtype=bool) for pair in self.pairs}

    def add(self, state: dict[Subset, Mask], rows: RowBatch) -> dict[Subset, Mask]:
        """Return the cells with those of a batch."""
        columns, _ = rows.of_weight()
        codes = cells_of_columns(columns, self.axes)
        for pair, there in state.items():
            there[codes[pair[0]], codes[pair[1]]] = True
        return state

    def merge(self, state: dict[Subset, Mask], other: dict[Subset, Mask]) -> dict[Subset, Mask]:
        """Return the cells of the rows of both."""
        return {pair: there | other[pair] for pair, there in state.items()}


def _shared(
    pair: Subset, of_first: Indices, of_second: Indices, shape: tuple[int, ...]
) -> SharedPair | None:
    """Return a pair with the blocks of cells that rows connect; None for a single block."""
    *blocks, n_blocks = label_blocks(of_first, of_second, (shape[0], shape[1]))
    if n_blocks <= 1:
        return None
    return SharedPair(pair, (blocks[0], blocks[1]), n_blocks - 1)


def _apart_on_picked_rows(
    rows: EncodedRows, used: Indices, cells: Indices, places: Indices
) -> Indices:
    """Return the pairs with several blocks on some rows of each cell of both features.

    Parameters
    ----------
    rows : EncodedRows
        The rows.
    used : ndarray of int, shape (n_used,)
        The features.
    cells : ndarray of int, shape (n_used,)
        Number of cells of each.
    places : ndarray of int, shape (n_pairs, 2)
        Places of the features of each pair among those used.
    """
    weights = np.empty(0) if rows.weights is None else rows.weights
    first_cells = np.concatenate([[0], np.cumsum(cells)])
    picked = np.full((first_cells[-1], _PICKED), -1, dtype=np.intp)
    found = np.zeros(len(picked), dtype=np.intp)
    pick_rows(rows.codes, weights, used, first_cells, picked, found)
    starts = np.concatenate([[0], np.cumsum(found)])[first_cells]
    filled = np.add.reduceat(found > 0, first_cells[:-1], dtype=np.intp)
    of_all = picked[picked >= 0]
    codes = np.empty((len(used), len(of_all)), dtype=rows.codes.dtype)
    # One call for all features, during which the caller's other thread goes on.
    gather_rows(rows.codes, used, of_all, codes)

    def count(start: int) -> Indices:
        some = places[start : start + _PAIRS_A_PIECE]
        parent, blocks = np.empty(2 * cells.max(), dtype=np.intp), np.empty(len(some), np.intp)
        count_blocks(codes, starts, filled, cells, some, parent, blocks)
        return blocks

    blocks = np.concatenate(map_threads(count, range(0, len(places), _PAIRS_A_PIECE)))
    return places[blocks > 1]
