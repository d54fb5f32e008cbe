"""What terms are averaged over, laid out on the grid of a model: rows of a table, or rows counted.

Partial dependence of a leaf needs the number of rows by which conditions of its path they break,
and a table its rows by cell: both are sums over rows. The rows of a table are kept in their cells,
and counted for one table when it is read; rows in batches are counted in one pass.

Which cells a model needs for missing and unseen values is known after the last batch only. So rows
are counted on a grid that has them everywhere, and the counts are carried to the grid that the rows
turned out to need. There a condition that only excludes cells which no row has is no condition
any more: no row broke it, and the counts of the patterns without it are those of the leaf.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from treepurify.effects.accumulate import model_cuts
from treepurify.effects.conditional import occurring_subsets
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.effects.table_effects import table_cuts
from treepurify.engines.common.problem import KeptTerms, check_memory
from treepurify.engines.partial_dependence.background import (
    MOST_ROWS,
    Background,
    OnGrids,
    cells_by_order,
    outside_support,
)
from treepurify.engines.partial_dependence.pattern_shares import (
    PatternShares,
    add_pattern_counts,
    empty_shares,
    pattern_shares,
    shares_of_counts,
)
from treepurify.grids.grid import Cuts, EncodedRows, Grid, MissingCells, Subset, make_grid
from treepurify.grids.observed_range import encode_batch
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport, no_report
from treepurify.purification.cascade import downward_closure
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import CombinedStatistic, RowStream, rows_in_memory
from treepurify.rows.row_weights import RowWeights
from treepurify.rows.source_reader import RowBatch, Statistic
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import StreamSample, sampled_columns
from treepurify.typing import Array, Indices, Integers
from treepurify.weights.cell_counts import CellCounts, CountedRows, RowsOnGrid, counted_rows

__all__ = ["TABLE_ORDER", "AveragedRows", "CountedBackground", "RowsInCells", "count_background"]

TABLE_ORDER = 2
"""Largest number of features of a table; larger terms are evaluated from the leaves."""
_PASSES = (
    "two passes over the rows, one to count them and one to measure the remainder and the effects "
    "that are not tables"
)
# The part of the memory budget that the sample for the joint support may take.
_SAMPLE_PART = 4


@dataclass(eq=False)
class _PatternState:
    """What `_PatternCounts` knows so far.

    Parameters
    ----------
    counts : ndarray of float64
        Number, or summed weight, of the rows of each pattern; see `PatternShares`.
    total : float
        That of all rows.
    """

    counts: Array
    total: float


@dataclass(frozen=True, eq=False)
class _PatternCounts:
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

    def zero(self) -> _PatternState:
        """Return no counts."""
        return _PatternState(np.zeros(self.empty.slot_ptr[-1]), 0.0)

    def add(self, state: _PatternState, rows: RowBatch) -> _PatternState:
        """Return the counts with those of a batch."""
        encoded, observed = encode_batch(rows, self.grid, self.used)
        codes: npt.NDArray[Any] = np.zeros(
            (self.grid.n_features, encoded.n_rows), dtype=encoded.codes.dtype
        )
        codes[list(self.used)] = encoded.codes
        counts = replace(self.empty, share=state.counts)
        add_pattern_counts(counts, self.grid, EncodedRows(codes, encoded.weights), no_report)
        return _PatternState(state.counts, state.total + observed.total_weight)

    def merge(self, state: _PatternState, other: _PatternState) -> _PatternState:
        """Return the counts of both."""
        np.add(state.counts, other.counts, out=state.counts)
        return _PatternState(state.counts, state.total + other.total)


class AveragedRows(Protocol):
    """Rows that terms are averaged over, on a grid that has all cells that they need."""

    @property
    def rows(self) -> RowStream:
        """The rows."""

    @property
    def grid(self) -> Grid:
        """The cells."""

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""

    def on_grid(self, subset: Subset | None = None) -> RowsOnGrid:
        """Return the rows on the grid, as the table of a subset, or all tables, need them."""

    def by_order(self, model: AdditiveTables) -> OnGrids:
        """Return the rows on the grid of the tables of each order; see `cells_by_order`."""

    def shares(self, boxes: LeafBoxes, limit: int, report: ProgressReport) -> PatternShares:
        """Return the shares of rows of each leaf, where at most `limit` features are given."""

    def for_term(self, subset: Subset) -> "AveragedRows":
        """Return the same rows such that the term of a subset can be found."""

    def extrapolation(self, used: Subset) -> dict[str, Any]:
        """Return how many evaluated points lie where there are no data; see `outside_support`."""


@dataclass(frozen=True, eq=False)
class RowsInCells:
    """Rows of a table, each in its cells.

    Parameters
    ----------
    background : Background
        The rows.
    memory_budget : int
        Bytes that shares may take.
    """

    background: Background
    memory_budget: int

    @cached_property
    def rows(self) -> RowStream:
        """The rows."""
        return rows_in_memory(self.background.columns, self.background.rows.weights)

    @property
    def grid(self) -> Grid:
        """The cells."""
        return self.background.grid

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return self.background.rows.n_rows

    def on_grid(self, subset: Subset | None = None) -> RowsOnGrid:
        """Return the rows in their cells."""
        del subset
        return self.background.rows

    def by_order(self, model: AdditiveTables) -> OnGrids:
        """Return the rows in the cells of the tables of each order."""
        return cells_by_order(model, self.background)

    def shares(self, boxes: LeafBoxes, limit: int, report: ProgressReport) -> PatternShares:
        """Return the shares of rows of each leaf; see `AveragedRows`."""
        rows = self.background.rows
        return pattern_shares(boxes, self.grid, rows, limit, self.memory_budget, report)

    def for_term(self, subset: Subset) -> AveragedRows:
        """Return these rows: nothing was counted for some terms only."""
        del subset
        return self

    def extrapolation(self, used: Subset) -> dict[str, Any]:
        """Return how many evaluated points lie where there are no data."""
        return self.background.extrapolation(used)


@dataclass(frozen=True, eq=False)
class _Question:
    """The model, and what its background is counted for."""

    parsed: Model
    missing_cells: MissingCells
    by_cover: bool
    memory_budget: int
    report: ProgressReport


@dataclass(frozen=True, eq=False)
class CountedBackground:
    """Rows in batches, counted in cells and by patterns, and a sample for the joint support.

    Parameters
    ----------
    rows : RowStream
        The rows.
    counts : mapping of int to CountedRows
        Their numbers in the cells of tables, by the order of these where a model has tables.
    patterns : tuple of (_PatternCounts, _PatternState), optional
        Their numbers by the conditions of leaves that they break; None for covers.
    sample : Columns, optional
        Some of them; None for covers.
    sample_weights : ndarray of float64, shape (n_sampled,), optional
        What these count.
    n_rows : int
        Number of rows of positive weight.
    question : _Question
        What they were counted for.
    """

    rows: RowStream
    counts: Mapping[int, CountedRows]
    patterns: tuple[_PatternCounts, _PatternState] | None
    sample: Columns | None
    sample_weights: RowWeights
    n_rows: int
    question: _Question

    @property
    def grid(self) -> Grid:
        """The cells."""
        return self.counts[1].grid

    def on_grid(self, subset: Subset | None = None) -> RowsOnGrid:
        """Return the counts of one table, or of all."""
        counted = self.counts[1]
        if subset is None:
            return counted
        known = counted.tables
        return replace(counted, tables={subset: known[subset]} if subset in known else {})

    def by_order(self, model: AdditiveTables) -> OnGrids:
        """Return the counts in the cells of the tables of each order."""
        del model
        return {size: (counted.grid, counted) for size, counted in self.counts.items()}

    def shares(self, boxes: LeafBoxes, limit: int, report: ProgressReport) -> PatternShares:
        """Return the shares of rows of each leaf; see `AveragedRows`."""
        del report
        if self.patterns is None:
            raise TypeError("rows were not counted by the conditions that they break")
        return _counted_shares(*self.patterns, boxes, limit, self.question.memory_budget)

    def for_term(self, subset: Subset) -> AveragedRows:
        """Return the rows counted for one term; reads them again."""
        asked = self.question
        return count_background(
            self.rows,
            asked.parsed,
            KeptTerms(len(subset), {subset}),
            asked.missing_cells,
            asked.memory_budget,
            asked.report,
            by_cover=asked.by_cover,
        )

    def extrapolation(self, used: Subset) -> dict[str, Any]:
        """Return how many evaluated points lie where there are no data, by the sample."""
        if self.sample is None:
            raise TypeError("no rows were drawn")
        weights = self.sample_weights
        return outside_support(
            self.sample, self.sample, used, weights=weights, point_weights=weights
        )


def count_background(
    rows: RowStream,
    parsed: Model,
    kept_terms: KeptTerms,
    missing_cells: MissingCells,
    memory_budget: int,
    report: ProgressReport,
    *,
    by_cover: bool,
) -> CountedBackground:
    """Return rows in batches counted for the wanted terms of a model, after one pass.

    Parameters
    ----------
    rows : RowStream
        The rows.
    parsed : TreeEnsemble or AdditiveTables
        The model.
    kept_terms : KeptTerms
        The terms that become components.
    missing_cells, memory_budget
        See `partial_dependence_anova`.
    report : callable
        Progress.
    by_cover : bool
        Whether terms are averaged over covers of nodes, and rows only weigh cells.

    Raises
    ------
    InvalidInputError
        If rows cannot be read, or not be read again where terms need it.
    MemoryBudgetError
        If counts would not fit.
    """
    wide = _wide_grid(parsed, model_cuts(parsed))
    tables: dict[int, tuple[Grid, list[Subset]]] = {}
    used = rows.reader.used
    patterns, sample = None, None
    if isinstance(parsed, TreeEnsemble):
        boxes = leaf_boxes(parsed, wide, keep_every_test=by_cover)
        depth = max((len(subset) for subset in boxes.subsets), default=0)
        order = depth if kept_terms.order is None else min(kept_terms.order, depth)
        largest = min(order, TABLE_ORDER)
        if depth > largest or kept_terms.interactions is not None:
            check_repeats(rows.source, _PASSES)
        subsets = [
            subset
            for size in range(1, largest + 1)
            for subset in occurring_subsets(boxes, size, parsed.n_features)
            if kept_terms.keeps(subset)
        ]
        if not by_cover:
            patterns = _pattern_counts(boxes, wide, used, order, memory_budget)
        tables[1] = wide, subsets
    else:
        subsets = list(downward_closure(term.features for term in parsed.terms))
        for size in range(1, max(map(len, subsets), default=1) + 1):
            own = wide if size == 1 else _wide_grid(parsed, table_cuts(parsed, size))
            tables[size] = own, [subset for subset in subsets if len(subset) <= size]
    axes = [grid.subset_axes(subset) for grid, of_grid in tables.values() for subset in of_grid]
    check_memory(axes, parsed.n_outputs, memory_budget)
    cells = {size: CellCounts(grid, of_grid, used) for size, (grid, of_grid) in tables.items()}
    if not by_cover:
        fitting = int(memory_budget) // (_SAMPLE_PART * 24 * (len(used) + 4))
        sample = StreamSample(max(min(MOST_ROWS, fitting), 1), used)
        sample.check(memory_budget)
    others = [statistic for statistic in (patterns, sample) if statistic is not None]
    statistics: list[Statistic[Any]] = [*cells.values(), *others]
    states = rows.reduce(CombinedStatistic(tuple(statistics)), "counting rows", report)
    keep_special = missing_cells == "always"
    counts = {
        size: counted_rows(statistic, state, keep_special=keep_special)
        for (size, statistic), state in zip(cells.items(), states, strict=False)
    }
    some, weights, n_rows = None, None, counts[1].n_counted
    if sample is not None:
        some, weights = sampled_columns(sample, states[-1], parsed.features)
        n_rows = states[-1].n_rows
    return CountedBackground(
        rows,
        counts,
        None if patterns is None else (patterns, states[len(cells)]),
        some,
        weights,
        n_rows,
        _Question(parsed, missing_cells, by_cover, memory_budget, report),
    )


def _wide_grid(model: Model, cuts: Cuts) -> Grid:
    """Return a grid with cells for missing and unseen values everywhere: rows may have them."""
    grid, _ = make_grid(
        None, model.features, cuts, match_names=model.has_feature_names, missing_cells="always"
    )
    return grid


def _pattern_counts(
    boxes: LeafBoxes, grid: Grid, used: tuple[int, ...], limit: int, memory_budget: int
) -> "_PatternCounts":
    """Return the statistic for the leaves on a grid, with patterns of at most `limit` conditions.

    Raises
    ------
    MemoryBudgetError
        If the counts would not fit.
    """
    empty = replace(empty_shares(boxes, limit, memory_budget), share=np.zeros(0))
    return _PatternCounts(empty, grid, used)


def _counted_shares(
    counts: _PatternCounts, state: _PatternState, boxes: LeafBoxes, limit: int, memory_budget: int
) -> PatternShares:
    """Return the shares of all rows by subset, for the leaves on a grid without needless cells.

    Parameters
    ----------
    counts : _PatternCounts
        The statistic.
    state : _PatternState
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
