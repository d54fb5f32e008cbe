"""Partial dependence over a background that comes in batches.

Partial dependence of a leaf needs the number of rows by which conditions of its path they break,
and a table its rows by cell: both are sums over rows, counted in one pass. What no table tells, the
spread of terms of more features and of what is left, is measured on all rows in a second one.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from treepurify.components import Component
from treepurify.decomposition import Decomposition
from treepurify.effects.accumulate import model_cuts
from treepurify.effects.conditional import occurring_subsets
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.engines.common.finish import Evidence, Rest, Result
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.model_check import check_head
from treepurify.engines.common.problem import Wanted, check_memory
from treepurify.engines.common.streamed_rows import MeasuredParts, explain_stream
from treepurify.engines.partial_dependence.about import about_cover, about_rows, finish_terms
from treepurify.engines.partial_dependence.averages import averages_over_cover
from treepurify.engines.partial_dependence.background import MOST_ROWS, outside_support
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.engines.partial_dependence.pattern_counts import (
    PatternCounts,
    PatternState,
    counted_shares,
    pattern_counts,
)
from treepurify.engines.partial_dependence.pattern_shares import PatternShares
from treepurify.engines.partial_dependence.tables import table_terms
from treepurify.engines.partial_dependence.trees import TABLE_ORDER, kept_terms, tabulated
from treepurify.grids.grid import Grid, MissingCells, Subset, make_grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.purification.cascade import downward_closure
from treepurify.rows.reduction import RowStream, Several
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import StreamSample, sampled_columns
from treepurify.weights.cell_counts import CellCounts, CountedRows, counted_rows

__all__ = ["StreamTask", "anova_of_stream"]

_PASSES = (
    "two passes over the rows, one to count them and one to measure terms that are no tables and "
    "what is left"
)
# The part of the memory budget that the sample for the joint support may take.
_SAMPLE_PART = 4


@dataclass(frozen=True, eq=False)
class StreamTask:
    """What `partial_dependence_anova` was asked for, for rows that come in batches.

    Parameters
    ----------
    model : object
        What the caller passed.
    parsed : TreeEnsemble or AdditiveTables
        The parsed model.
    stream : RowStream
        The rows.
    wanted : Wanted
        Which terms are kept apart.
    by_cover : bool
        Whether the covers of the nodes are the background.
    missing_cells, memory_budget
        See `partial_dependence_anova`.
    report : callable
        Progress.
    """

    model: Any
    parsed: Model
    stream: RowStream
    wanted: Wanted
    by_cover: bool
    missing_cells: MissingCells
    memory_budget: int
    report: ProgressReport


@dataclass(frozen=True, eq=False)
class _Counted:
    """What one pass learned: rows in cells, by patterns, and a sample for the joint support."""

    rows: CountedRows
    patterns: tuple[PatternCounts, PatternState] | None
    sample: tuple[StreamSample, Any] | None


def anova_of_stream(task: StreamTask) -> Decomposition:
    """Return the decomposition of a model by partial dependence over all rows of a stream.

    Raises
    ------
    InvalidInputError
        If rows cannot be read, or more passes are needed than the source allows.
    MemoryBudgetError
        If counts or tables would not fit.
    """
    parsed, stream = task.parsed, task.stream
    check = check_head(task.model, parsed, stream)
    if isinstance(parsed, TreeEnsemble):
        result, counted = _tree_terms(task, parsed)
    else:
        subsets = downward_closure(term.features for term in parsed.terms)
        counted = _count(task, _wide_grid(parsed), list(subsets), None)
        result = table_terms(
            parsed, counted.rows.grid, counted.rows, task.memory_budget, task.report
        )
    passes = 2 if result.covariances is not None else 1
    read = {"source": stream.source.describe(), "passes": passes, "sampled_rows": 0}
    if counted.sample is None:
        about = about_cover(counted.rows.n_rows)
    else:
        statistic, state = counted.sample
        some, weights = sampled_columns(statistic, state, parsed.features)
        used = tuple(sorted(subset[0] for subset in result.components if len(subset) == 1))
        outside = outside_support(some, some, used, weights=weights, point_weights=weights)
        about = about_rows(state.n_rows, outside)
        read |= {
            "sampled_rows": some.n_rows,
            "sample": "the share of points outside the joint support",
            "all_rows": "terms, masses, variances, covariances",
        }
    return finish_terms(
        parsed,
        task.wanted,
        replace(result, diagnostics={"stream": read} | result.diagnostics),
        check,
        about,
        stream=stream if stream.source.can_repeat and result.covariances is None else None,
    )


def _wide_grid(parsed: Model) -> Grid:
    """Return the grid with cells for missing and unknown values everywhere: rows may have them."""
    grid, _ = make_grid(
        None,
        parsed.features,
        model_cuts(parsed),
        match_names=parsed.has_feature_names,
        missing_cells="always",
    )
    return grid


def _tree_terms(task: StreamTask, ensemble: TreeEnsemble) -> tuple[Result, _Counted]:
    """Return the terms of trees, after one pass or two."""
    wide = _wide_grid(ensemble)
    boxes = leaf_boxes(ensemble, wide, keep_every_test=task.by_cover)
    depth = _depth(boxes)
    order = depth if task.wanted.order is None else min(task.wanted.order, depth)
    if depth > min(order, TABLE_ORDER) or task.wanted.interactions is not None:
        check_repeats(task.stream.source, _PASSES)
    subsets = [
        subset
        for size in range(1, min(order, TABLE_ORDER) + 1)
        for subset in occurring_subsets(boxes, size, ensemble.n_features)
        if task.wanted.keeps(subset)
    ]
    counted = _count(task, wide, subsets, None if task.by_cover else boxes)
    grid, shares = counted.rows.grid, _shares(task, ensemble, counted, order)
    most = min(order, _depth(shares.boxes))

    def make(subset: Subset) -> Component:
        known = {subset: counted.rows.tables[subset]} if len(subset) <= TABLE_ORDER else {}
        rows = CountedRows(grid, known, counted.rows.n_rows)
        term = PatternComponent(subset, grid, shares, rows, ensemble.n_outputs)
        return tabulated(term, ensemble, task.memory_budget)

    intercept, components = kept_terms(ensemble, shares, make, task.wanted, most, task.report)
    is_whole = most == _depth(shares.boxes) and task.wanted.interactions is None
    if is_whole and most <= TABLE_ORDER:
        return Result(intercept, components, Evidence()), counted
    function = ParsedFunction(ensemble)
    measured = explain_stream(task.stream, function, intercept, components, task.report)
    covariances = dict(measured.explained.covariances)
    rest = None
    if is_whole:
        del covariances[()]
    else:
        find = partial(_find, task, tuple(shares.boxes.subsets))
        rest = Rest(function, measured.explained.rest_variance, find)
    facts = {}
    if not task.by_cover:
        error = float(np.max(np.abs(measured.mean - intercept), initial=0.0))
        facts["intercept_error"] = error
    known = {subset: _measured(term, measured) for subset, term in components.items()}
    return Result(intercept, known, Evidence(), rest, covariances, facts), counted


def _count(
    task: StreamTask, wide: Grid, subsets: list[Subset], boxes: LeafBoxes | None
) -> _Counted:
    """Return all rows counted in the cells of tables and by the patterns of leaves, in one pass."""
    check_memory(
        [wide.subset_axes(subset) for subset in subsets], task.parsed.n_outputs, task.memory_budget
    )
    reader = task.stream.reader
    cells = CellCounts(wide, subsets, reader.used, reader.is_weighted)
    statistics: list[Any] = [cells]
    order = task.wanted.order
    patterns = None
    if boxes is not None:
        limit = _depth(boxes) if order is None else order
        patterns = pattern_counts(boxes, wide, reader.used, limit, task.memory_budget)
        statistics.append(patterns)
    sample = None
    if not task.by_cover:
        bytes_a_row = 24 * (len(reader.used) + 4)
        fitting = int(task.memory_budget) // (_SAMPLE_PART * bytes_a_row)
        sample = StreamSample(max(min(MOST_ROWS, fitting), 1), reader.used)
        sample.check(task.memory_budget)
        statistics.append(sample)
    states = task.stream.reduce(Several(tuple(statistics)), "counting rows", task.report)
    rows = counted_rows(cells, states[0], keep_special=task.missing_cells == "always")
    return _Counted(
        rows,
        None if patterns is None else (patterns, states[1]),
        None if sample is None else (sample, states[-1]),
    )


def _shares(
    task: StreamTask, ensemble: TreeEnsemble, counted: _Counted, order: int
) -> PatternShares:
    """Return the shares of leaves on the grid that the rows need."""
    grid = counted.rows.grid
    if counted.patterns is None:
        averages = averages_over_cover(ensemble, grid, task.memory_budget)
        return averages.shares(order, task.report)
    boxes = leaf_boxes(ensemble, grid)
    return counted_shares(*counted.patterns, boxes, order, task.memory_budget)


def _depth(boxes: LeafBoxes) -> int:
    return max((len(subset) for subset in boxes.subsets), default=0)


def _measured(term: Component, measured: MeasuredParts) -> Component:
    """Return a term with its variance, where there is no table to compute it from."""
    if not isinstance(term, PatternComponent):
        return term
    spread = measured.variances[term.features], measured.absolutes[term.features]
    return replace(term, measured=spread)


def _find(task: StreamTask, paths: tuple[Subset, ...], subset: Subset) -> Component | None:
    """Return the term of a subset that was not kept apart, if it occurs; reads the rows again."""
    if not subset or not any(set(subset) <= set(path) for path in paths):
        return None
    ensemble = task.parsed
    if not isinstance(ensemble, TreeEnsemble):
        raise TypeError("the terms of an additive model are kept, all of them")
    result, _ = _tree_terms(replace(task, wanted=Wanted(len(subset), {subset})), ensemble)
    return result.components[subset]
