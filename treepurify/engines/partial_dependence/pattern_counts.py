"""Counts of leaf patterns over rows that come in batches.

Which cells a model needs for missing and unseen values is known after the last batch only. So rows
are counted on a grid that has them everywhere, and the counts are carried to the grid that the rows
turned out to need. There a condition that only excludes cells which no row has is no condition
any more: no row broke it, and the counts of the patterns without it are those of the leaf.
"""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.engines.partial_dependence.pattern_shares import (
    PatternShares,
    add_pattern_counts,
    empty_shares,
    shares_of_counts,
)
from treepurify.grids.grid import EncodedRows, Grid
from treepurify.grids.observed_range import encode_batch
from treepurify.progress import no_report
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array, Indices, Integers

__all__ = ["PatternCounts", "PatternState", "counted_shares", "pattern_counts"]


@dataclass(eq=False)
class PatternState:
    """What `PatternCounts` knows so far.

    Parameters
    ----------
    counts : ndarray of float64
        Number, or summed weight, of the rows of each pattern; see `PatternShares`.
    total : float
        That of all rows.
    """

    counts: Array
    total: float


def pattern_counts(
    boxes: LeafBoxes, grid: Grid, used: tuple[int, ...], limit: int, memory_budget: int
) -> "PatternCounts":
    """Return the statistic for the leaves on a grid, with patterns of at most `limit` conditions.

    Raises
    ------
    MemoryBudgetError
        If the counts would not fit.
    """
    empty = replace(empty_shares(boxes, limit, memory_budget), share=np.zeros(0))
    return PatternCounts(empty, grid, used)


@dataclass(frozen=True, eq=False)
class PatternCounts:
    """The statistic of rows by which conditions of each leaf's path they break.

    Parameters
    ----------
    empty : PatternShares
        The leaves and the patterns that are counted, without a share.
    grid : Grid
        The cells, with those for missing and unseen values everywhere.
    used : tuple of int
        The features that are read.
    """

    empty: PatternShares
    grid: Grid
    used: tuple[int, ...]

    def zero(self) -> PatternState:
        """Return no counts."""
        return PatternState(np.zeros(self.empty.slot_ptr[-1]), 0.0)

    def add(self, state: PatternState, rows: RowBatch) -> PatternState:
        """Return the counts with those of a batch."""
        encoded, observed = encode_batch(rows, self.grid, self.used)
        codes: npt.NDArray[Any] = np.zeros(
            (self.grid.n_features, encoded.n_rows), dtype=encoded.codes.dtype
        )
        codes[list(self.used)] = encoded.codes
        counts = replace(self.empty, share=state.counts)
        add_pattern_counts(counts, self.grid, EncodedRows(codes, encoded.weights), no_report)
        return PatternState(state.counts, state.total + observed.total_weight)

    def merge(self, state: PatternState, other: PatternState) -> PatternState:
        """Return the counts of both."""
        np.add(state.counts, other.counts, out=state.counts)
        return PatternState(state.counts, state.total + other.total)


def counted_shares(
    counts: PatternCounts, state: PatternState, boxes: LeafBoxes, limit: int, memory_budget: int
) -> PatternShares:
    """Return the shares of all rows by subset, for the leaves on a grid without needless cells.

    Parameters
    ----------
    counts : PatternCounts
        The statistic.
    state : PatternState
        Its state after all rows.
    boxes : LeafBoxes
        The same leaves on a grid that has the cells of all rows.
    limit : int
        Largest number of features that are given together.
    memory_budget : int
        Bytes that the shares may take.

    Raises
    ------
    MemoryBudgetError
        If the shares would not fit.
    """
    narrow = empty_shares(boxes, limit, memory_budget)
    wide = counts.empty
    reached = np.flatnonzero(boxes.leaf_subset >= 0)
    lengths = np.diff(wide.boxes.entry_ptr)[reached]
    kept = _kept_conditions(wide.boxes, boxes, counts.grid.n_features)[reached]
    patterns, group = np.unique(np.column_stack([lengths, kept]), axis=0, return_inverse=True)
    group = group.reshape(-1)
    for number, (length, *flags) in enumerate(patterns.tolist()):
        leaves = reached[group == number]
        places = [k for k in range(length) if flags[k]]
        slots = _slots(length, places, narrow.limit, wide.choose)
        to = narrow.slot_ptr[leaves][:, None] + np.arange(len(slots))
        narrow.share[to] = state.counts[wide.slot_ptr[leaves][:, None] + slots]
    return shares_of_counts(narrow, state.total)


def _kept_conditions(wide: LeafBoxes, narrow: LeafBoxes, n_features: int) -> Integers:
    """Mark, for each leaf, the conditions of its path that are conditions on both grids."""
    lengths = np.diff(wide.entry_ptr)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(owner)) - wide.entry_ptr[owner]
    own = np.repeat(np.arange(len(lengths)), np.diff(narrow.entry_ptr))
    known = own * n_features + narrow.entry_feature
    kept = np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.int64)
    kept[owner, position] = np.isin(owner * n_features + wide.entry_feature, known)
    return kept


def _slots(length: int, places: list[int], limit: int, choose: Integers) -> Indices:
    """Return where the patterns of some conditions of a path stand among those of all of them.

    Patterns are numbered by size, then in colexicographic order, in both.
    """
    slots = []
    for size in range(min(limit, len(places)) + 1):
        first = int(choose[length, :size].sum())
        chosen = sorted(combinations(places, size), key=lambda pattern: pattern[::-1])
        for pattern in chosen:
            slots.append(first + sum(int(choose[v, t + 1]) for t, v in enumerate(pattern)))
    return np.array(slots, dtype=np.intp)
