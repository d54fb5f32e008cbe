"""Interaction effects of tree ensembles and EBMs on all rows, exactly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from treepurify._kernels.partial_dependence_terms import leave_one_out
from treepurify.budget import check_budget
from treepurify.components import evaluate_each
from treepurify.effects.conditional import entry_probabilities, feature_margins, occurring_subsets
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.engines.common.model_check import check_against_library
from treepurify.engines.partial_dependence.background import (
    Background,
    describe_background,
    read_background,
)
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.engines.partial_dependence.pattern_shares import pattern_shares, term_table
from treepurify.engines.partial_dependence.tables import table_terms
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.interactions.h_statistics_effects import (
    HEffects,
    HProblem,
    Moments,
    moments_of_terms,
)
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.purification.cascade import downward_closure
from treepurify.rows.row_weights import counted_rows, row_shares
from treepurify.threads import map_threads
from treepurify.typing import Array, Indices
from treepurify.weights import Empirical

__all__ = ["compared_with_library", "parsed_effects"]

_ROWS_A_BLOCK = 4096
# The margin, its interactions alone, and what a sum or a square of them takes.
_MORE_ARRAYS = 6


def parsed_effects(problem: HProblem, parsed: Model) -> HEffects:
    """Return the effects of a parsed model on the rows.

    Raises
    ------
    MemoryBudgetError
        If the values of the effects on the rows would not fit.
    """
    if isinstance(parsed, AdditiveTables):
        return _of_tables(problem, parsed)
    return _of_trees(problem, parsed)


def compared_with_library(effects: HEffects, problem: HProblem, parsed: Model) -> HEffects:
    """Say how well the parsed model reproduces the library's raw prediction.

    Raises
    ------
    ModelMismatchError
        If it does not.
    """
    check = check_against_library(problem.model, parsed, problem.X)
    if check is None:
        return effects
    facts = {"margin_error": check.error, "note": check.note}
    measure = effects.measure
    if check.note and not isinstance(problem.model, TreeEnsemble | AdditiveTables):
        measure = f"{measure}; {check.note.removesuffix('.')}"
    return replace(effects, measure=measure, diagnostics={**effects.diagnostics, **facts})


def _check_values(
    parsed: Model, n_rows: int, n_effects: int, order: int, memory_budget: int
) -> None:
    """Check the values on the rows of all effects, and of what each feature adds to others."""
    n_arrays = n_effects + 2 * parsed.n_features + _MORE_ARRAYS
    smaller = (
        ", or ask for a smaller order" if order > 2 and isinstance(parsed, TreeEnsemble) else ""
    )
    check_budget(
        8 * n_rows * parsed.n_outputs * n_arrays,
        memory_budget,
        f"the values of {n_effects} effects of up to {order} features on {n_rows} rows",
        f"Pass fewer rows{smaller}.",
    )


def _of_trees(problem: HProblem, parsed: TreeEnsemble) -> HEffects:
    """Return the effects of an ensemble."""
    background = read_background(parsed, problem.X, None, problem.sample_weight, "auto")
    boxes = leaf_boxes(parsed, background.grid)
    sizes = range(1, problem.order + 1)
    n_effects = sum(len(occurring_subsets(boxes, k, parsed.n_features)) for k in sizes)
    n_rows = background.rows.n_rows
    _check_values(parsed, n_rows, n_effects, problem.order, problem.memory_budget)
    margin = parsed.margin(background.columns, precision="float64")
    ensemble = _Ensemble(problem, parsed, background, boxes, margin)
    return _on_background(parsed, background, ensemble.moments, boxes.features)


def _on_background(
    parsed: Model,
    background: Background,
    moments: Callable[[Indices | None], Moments],
    used: Subset,
) -> HEffects:
    extrapolation = background.extrapolation(used)
    n_rows = background.rows.n_rows
    return HEffects(
        moments,
        n_rows,
        parsed.feature_names,
        parsed.output_names,
        describe_background(n_rows, extrapolation),
        {"exact": True, "rows": n_rows, "extrapolation": extrapolation},
    )


@dataclass(frozen=True, eq=False)
class _Ensemble:
    problem: HProblem
    parsed: TreeEnsemble
    background: Background
    boxes: LeafBoxes
    margin: Array

    def moments(self, drawn: Indices | None) -> Moments:
        """Return numerators and denominators on the rows, or on a resample of them."""
        rows, margin, shares = self.background.rows, self.margin, self.background.shares
        if drawn is not None:
            weights = None if rows.weights is None else rows.weights[drawn]
            rows = EncodedRows(np.ascontiguousarray(rows.codes[:, drawn]), weights)
            margin = margin[drawn]
            shares = row_shares(len(drawn), weights)
        terms = self._terms(rows)
        n_features = self.parsed.n_features
        change = _changes(self.boxes, self.background, rows, self.parsed.n_outputs)
        without = {
            # What averaging over j takes away, but for the main effect of j itself.
            j: -change[:, j] - terms.get((j,), np.zeros_like(margin))
            for j in range(n_features)
        }
        return moments_of_terms(terms, without, margin, shares, combinations(range(n_features), 2))

    def _terms(self, rows: EncodedRows) -> Mapping[Subset, Array]:
        grid, n_outputs = self.background.grid, self.parsed.n_outputs
        order, budget = self.problem.order, self.problem.memory_budget
        shares = pattern_shares(self.boxes, grid, rows, order, budget, self.problem.report)
        terms: dict[Subset, Array] = {}
        for size in (1, 2):
            for subset in occurring_subsets(self.boxes, size, grid.n_features):
                table = term_table(shares, grid, subset, n_outputs, budget)
                terms[subset] = table[tuple(rows.codes[j] for j in subset)]
        for size in range(3, order + 1):
            for subset in occurring_subsets(self.boxes, size, grid.n_features):
                term = PatternComponent(subset, grid, shares, rows, n_outputs)
                terms[subset] = term.on_background()
        return terms


def _changes(boxes: LeafBoxes, background: Background, rows: EncodedRows, n_outputs: int) -> Array:
    """Return ``PD_(without j) - f`` on every row, shape (n_rows, n_features, n_outputs)."""
    margins = feature_margins(boxes, Empirical(), background.grid, rows)
    probability = entry_probabilities(boxes, margins, background.grid)
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    change = np.zeros((rows.n_rows, background.grid.n_features, n_outputs))

    def add_block(start: int) -> None:
        block = slice(start, start + _ROWS_A_BLOCK)
        leave_one_out(
            leaves,
            boxes.entry_ptr,
            boxes.entry_feature,
            boxes.run_ptr,
            boxes.run_start,
            boxes.run_stop,
            probability,
            np.ascontiguousarray(rows.codes[:, block]),
            boxes.values,
            boxes.output,
            np.empty(len(change[block]), dtype=np.uint8),
            np.empty(len(change[block]), dtype=np.int16),
            change[block],
        )

    map_threads(add_block, range(0, rows.n_rows, _ROWS_A_BLOCK))
    return change


def _of_tables(problem: HProblem, parsed: AdditiveTables) -> HEffects:
    """Return the effects of an EBM, whose terms are all known.

    Resamples of the rows move the terms too; they are decomposed again.
    """
    columns, row_weights = counted_rows(parsed.columns(problem.X), problem.sample_weight)
    subsets = downward_closure(term.features for term in parsed.terms)
    most = max((len(subset) for subset in subsets), default=1)
    _check_values(parsed, columns.n_rows, len(subsets), most, problem.memory_budget)

    def moments(drawn: Indices | None) -> Moments:
        rows, weights = columns, row_weights
        if drawn is not None:
            rows = columns.take(drawn)
            weights = None if weights is None else weights[drawn]
        background = read_background(parsed, rows, None, weights, "auto")
        result = table_terms(
            parsed, background.grid, background.rows, problem.memory_budget, problem.report
        )
        ordered = [result.components[subset] for subset in subsets]
        terms = dict(zip(subsets, evaluate_each(ordered, rows), strict=True))
        zero = np.zeros((rows.n_rows, parsed.n_outputs))
        margin = result.intercept + sum(terms.values(), zero)
        without = {
            j: sum((v for s, v in terms.items() if j in s and len(s) > 1), zero)
            for j in range(parsed.n_features)
        }
        pairs = combinations(range(parsed.n_features), 2)
        return moments_of_terms(terms, without, margin, row_shares(rows.n_rows, weights), pairs)

    background = read_background(parsed, columns, None, row_weights, "auto")
    used = tuple(sorted({j for subset in subsets for j in subset}))
    return _on_background(parsed, background, moments, used)
