"""Partial dependence of leaf boxes: shares of background rows by subset of a path's features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import comb

import numpy as np
import numpy.typing as npt

from treepurify._kernels.partial_dependence import (
    add_smaller_patterns,
    count_patterns,
    rows_below,
)
from treepurify._kernels.partial_dependence_terms import add_term_corners
from treepurify.budget import check_budget
from treepurify.effects.accumulate import difference_tables, table_sizes
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.progress import ProgressReport
from treepurify.threads import map_threads
from treepurify.typing import Array, Indices, Integers

_LEAVES_A_PIECE = 256
_MOST_ROWS_A_BLOCK = 1 << 15
_LEAST_ROWS_A_BLOCK = 1 << 10
_MARKS_BYTES = 1 << 25
# Counts beyond this are not worth spelling out in a message.
_MOST_SHARES = 1 << 200


@dataclass(frozen=True, eq=False)
class PatternShares:
    """What the background says about each leaf's box.

    Parameters
    ----------
    boxes : LeafBoxes
        The leaves on the union grid.
    limit : int
        Largest number of features that are given together.
    share : ndarray of float64
        Share of the background rows that keep every condition of the leaf's path outside a
        subset of its features, for every subset of at most `limit`, in the order of
        `treepurify._kernels.partial_dependence.pattern_slot`. With the covers of the nodes as
        background, the product of the shares that the tests of each feature let by.
    """

    boxes: LeafBoxes
    limit: int
    share: Array

    @property
    def depth(self) -> int:
        """Largest number of features that restrict a leaf."""
        return max((len(subset) for subset in self.boxes.subsets), default=0)

    @cached_property
    def choose(self) -> Integers:
        """Binomial coefficients, shape (depth + 2, limit + 2)."""
        rows = [[comb(n, k) for k in range(self.limit + 2)] for n in range(self.depth + 2)]
        return np.array(rows, np.int64)

    @cached_property
    def slot_ptr(self) -> Integers:
        """First entry of each leaf in `share`, shape (n_leaves + 1,)."""
        # A leaf that no cell reaches may have more entries, and its shares are not read.
        lengths = np.minimum(np.diff(self.boxes.entry_ptr), self.depth + 1)
        per_leaf = self.choose[lengths, : self.limit + 1].sum(axis=1)
        return np.concatenate([[0], np.cumsum(per_leaf)]).astype(np.int64)


def pattern_shares(
    boxes: LeafBoxes,
    grid: Grid,
    rows: EncodedRows,
    limit: int,
    memory_budget: int,
    report: ProgressReport,
) -> PatternShares:
    """Count the background rows of each leaf by which conditions of its path they break.

    Partial dependence given the features T is, for one leaf, its value times the indicator of
    its box along T times the share of rows inside the box along all other features of the
    path. Rows are held as bit sets, one per boundary between cells, so a condition is a word
    operation for 64 rows; counts are sums over rows, so they are taken block by block.

    Raises
    ------
    MemoryBudgetError
        If the shares would not fit.
    """
    counts = empty_shares(boxes, limit, memory_budget)
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    used = np.zeros(grid.n_features, dtype=bool)
    used[boxes.entry_feature] = True
    n_cells = np.where(used, [axis.n_cells for axis in grid.axes], 1).astype(np.int64)
    cell_ptr = np.concatenate([[0], np.cumsum(np.where(used, n_cells + 1, 0))]).astype(np.int64)
    fitting = 64 * (_MARKS_BYTES // (8 * max(int(cell_ptr[-1]), 1)))
    block = min(max(fitting, _LEAST_ROWS_A_BLOCK), _MOST_ROWS_A_BLOCK)
    pieces = [leaves[i : i + _LEAVES_A_PIECE] for i in range(0, len(leaves), _LEAVES_A_PIECE)]
    for start in range(0, rows.n_rows, block):
        report("counting background rows", start, rows.n_rows)
        n_rows = min(block, rows.n_rows - start)
        below = np.empty((int(cell_ptr[-1]), -(-n_rows // 64)), dtype=np.uint64)
        rows_below(rows.codes, start, n_rows, cell_ptr, n_cells, below)
        weights = np.zeros(0) if rows.weights is None else rows.weights[start : start + n_rows]
        count = partial(
            count_patterns,
            entry_ptr=boxes.entry_ptr,
            entry_feature=boxes.entry_feature,
            run_ptr=boxes.run_ptr,
            run_start=boxes.run_start,
            run_stop=boxes.run_stop,
            cell_ptr=cell_ptr,
            below=below,
            n_rows=n_rows,
            weights=weights,
            limit=counts.limit,
            choose=counts.choose,
            slot_ptr=counts.slot_ptr,
            counts=counts.share,
        )
        map_threads(count, pieces)
    add_smaller_patterns(
        leaves, boxes.entry_ptr, counts.limit, counts.choose, counts.slot_ptr, counts.share
    )
    total = float(rows.n_rows) if rows.weights is None else float(rows.weights.sum())
    return replace(counts, share=counts.share / total)


def empty_shares(boxes: LeafBoxes, limit: int, memory_budget: int) -> PatternShares:
    """Return shares of zero for the subsets of at most `limit` features.

    Raises
    ------
    MemoryBudgetError
        If it would not fit.
    """
    empty = PatternShares(boxes, limit, np.zeros(0))
    empty = replace(empty, limit=min(limit, empty.depth))
    _check_shares(np.diff(boxes.entry_ptr), empty.limit, memory_budget)
    return replace(empty, share=np.zeros(empty.slot_ptr[-1]))


def _check_shares(lengths: Integers, limit: int, memory_budget: int) -> None:
    """Refuse more shares than fit, counted in whole numbers of any size."""
    total = 0
    of_length, n_leaves = np.unique(lengths, return_counts=True)
    # The longest paths first: their count alone may have more digits than are worth adding up.
    for length, count in zip(of_length[::-1].tolist(), n_leaves[::-1].tolist(), strict=True):
        n_subsets = 1 << length
        if limit < length:
            n_subsets = sum(comb(length, size) for size in range(limit + 1))
        total += count * n_subsets
        check_budget(
            8 * min(total, _MOST_SHARES),
            memory_budget,
            f"the shares of background rows in {len(lengths)} leaves, for subsets of up to "
            f"{limit} features,",
            "Pass a smaller order.",
        )


def term_table(
    shares: PatternShares,
    grid: Grid,
    subset: Subset,
    n_outputs: int,
    memory_budget: int,
    levels: Sequence[Indices] | None = None,
) -> Array:
    """Return one term as a table over the cells of the union grid, or over some of them.

    The term of S is the Moebius inverse of partial dependence,
    ``f_S = sum over T in S of (-1)^|S - T| PD_T``.

    Parameters
    ----------
    shares : PatternShares
        The leaves and what the background says about them.
    grid : Grid
        The union grid.
    subset : tuple of int
        The features.
    n_outputs : int
        Number of outputs.
    memory_budget : int
        Bytes that the table may take.
    levels : sequence of ndarray of int, optional
        The cells along each feature that the table has, increasing; all by default.

    Raises
    ------
    MemoryBudgetError
        If the table would not fit.
    """
    shape = grid.shape(subset) if levels is None else tuple(map(len, levels))
    check_budget(
        8 * sum(table_sizes([shape], n_outputs)),
        memory_budget,
        f"the table of an effect of {len(subset)} features",
        "Evaluate the effect on rows instead.",
    )
    tables = difference_tables([shape], n_outputs)
    boxes = shares.boxes
    starts, stops = boxes.run_start, boxes.run_stop
    if levels is not None:
        starts, stops = _runs_of_levels(boxes, grid, subset, levels)
    add_term_corners(
        boxes.leaves_with(subset),
        np.array(subset, dtype=np.int64),
        boxes.entry_ptr,
        boxes.entry_feature,
        boxes.run_ptr,
        starts,
        stops,
        shares.choose,
        shares.slot_ptr,
        shares.share,
        tables.extents[0],
        boxes.values,
        boxes.output,
        tables.values,
    )
    return tables.summed()[0]


def _runs_of_levels(
    boxes: LeafBoxes, grid: Grid, subset: Subset, levels: Sequence[Indices]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the first and last level of the runs of leaves along some features."""
    starts, stops = boxes.run_start.copy(), boxes.run_stop.copy()
    feature = np.repeat(boxes.entry_feature, np.diff(boxes.run_ptr))
    for j, own in zip(subset, levels, strict=True):
        number = np.searchsorted(own, np.arange(grid.axes[j].n_cells + 1)).astype(np.int32)
        runs = np.flatnonzero(feature == j)
        starts[runs], stops[runs] = number[starts[runs]], number[stops[runs]]
    return starts, stops
