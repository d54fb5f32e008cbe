"""Mean squares of interaction effects over rows: what H-statistics are ratios of.

Those of tree ensembles and EBMs are exact, on all rows. Those of any other function are computed as
the definition says: it is called on every pair of rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.partial_dependence_terms import leave_one_out
from treepurify.budget import check_budget
from treepurify.components import evaluate_each
from treepurify.effects.conditional import feature_margins, occurring_subsets
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.engines.common.functions import CalledFunction, read_called, splice
from treepurify.engines.common.inputs import check_order_fits
from treepurify.engines.partial_dependence.background import (
    Background,
    cells_by_order,
    describe_background,
    outside_support,
    read_background,
)
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.engines.partial_dependence.pattern_shares import pattern_shares, term_table
from treepurify.engines.partial_dependence.tables import table_terms
from treepurify.engines.tree.independent_leaves import IndependentLeaves
from treepurify.grids.grid import Subset
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.purification.cascade import downward_closure
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import counted_rows, mean_square, row_shares
from treepurify.rows.samples import sample_rows
from treepurify.threads import map_threads
from treepurify.typing import Array
from treepurify.weights import Empirical, Weighting

_Moments = dict[Subset, tuple[Array, Array]]
_CALLED_ROWS_A_BLOCK = 128
# Effects below this part of the largest margin are rounding.
_ROUNDING = 1e-14
_PARSED_ROWS_A_BLOCK = 4096
# The margin, its interactions alone, and what a sum or a square of them takes.
_MORE_ARRAYS = 6


@dataclass(frozen=True, eq=False)
class HProblem:
    """A model, the rows that its interactions are measured on, and how; see `h_statistics`."""

    model: Any
    X: Any
    order: int
    feature_names: Sequence[str] | None
    sample_weight: npt.ArrayLike | None
    sample_size: int
    seed: int
    weighting: Weighting
    memory_budget: int
    report: ProgressReport


class HEffects(NamedTuple):
    """Interaction effects of a model, squared and averaged over rows.

    Parameters
    ----------
    moments : dict of tuple of int to (ndarray, ndarray), each of shape (n_outputs,)
        Numerator and denominator by subset.
    feature_names, output_names : tuple of str
        Names.
    measure : str
        What partial dependence is averaged over.
    diagnostics : dict
        How it is computed.
    """

    moments: _Moments
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    measure: str
    diagnostics: Mapping[str, Any]


def _moments_of_terms(
    terms: Mapping[Subset, Array],
    without: Mapping[int, Array],
    margin: Array,
    shares: Array,
    pairs: Iterable[Subset],
) -> _Moments:
    """Return numerators and denominators from the terms on the rows.

    Parameters
    ----------
    terms : mapping of tuple of int to ndarray, shape (n_rows, n_outputs)
        The terms, up to some number of features, that are not zero.
    without : mapping of int to ndarray, shape (n_rows, n_outputs)
        Sum of all terms of two or more features that contain the feature.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        The model.
    shares : ndarray of float64, shape (n_rows,)
        Weights that sum to one.
    pairs : iterable of tuple of int
        All pairs that are reported.
    """
    zero = np.zeros_like(margin)
    rounding = (_ROUNDING * np.max(np.abs(margin), axis=0, initial=0.0)) ** 2

    def square(values: Array) -> Array:
        mean = mean_square(values, shares)
        return np.where(mean > rounding, mean, 0.0)

    variance = square(margin)
    mains = sum((values for s, values in terms.items() if len(s) == 1), zero)
    moments: _Moments = {(): (square(margin - mains), variance)}
    for j, values in without.items():
        moments[(j,)] = (square(values), variance)
    for subset in [*pairs, *(s for s in terms if len(s) > 2)]:
        term = terms.get(subset, zero)
        sizes = range(1, len(subset) + 1)
        parts = (part for size in sizes for part in combinations(subset, size))
        joint = sum((terms[part] for part in parts if part in terms), zero)
        moments[subset] = (square(term), square(joint))
    return moments


def called_effects(problem: HProblem) -> HEffects:
    """Return the effects of a function on a sample of the rows."""
    box, columns = read_called(problem.model, problem.X, problem.feature_names)
    check_order_fits(problem.order, len(box.features))
    columns, weights = counted_rows(columns, problem.sample_weight)
    sample = sample_rows(columns.n_rows, weights, problem.sample_size, problem.seed)
    rows, shares = columns.take(sample.picked), sample.shares
    features = range(len(box.features))
    subsets = [s for size in range(1, problem.order + 1) for s in combinations(features, size)]
    complements = [tuple(k for k in features if k != j) for j in features]
    needed = sorted({*subsets, *complements}, key=lambda s: (len(s), s))
    check_budget(
        8 * rows.n_rows * box.n_outputs * len(needed),
        problem.memory_budget,
        f"{len(needed)} partial dependence functions on {rows.n_rows} rows",
        "Use a smaller sample_size or order.",
    )
    dependence: dict[Subset, Array] = {}
    for done, subset in enumerate(needed):
        problem.report("partial dependence", done, len(needed))
        dependence[subset] = _mean_values(box, rows, subset, shares)
    drawn_weights = None if weights is None else shares
    extrapolation = outside_support(
        rows,
        rows,
        tuple(features),
        problem.seed,
        weights=drawn_weights,
        point_weights=drawn_weights,
    )
    return HEffects(
        _moments_of_dependence(dependence, box(rows), shares, subsets, complements),
        tuple(spec.name for spec in box.features),
        box.output_names,
        f"interventional (partial dependence over {rows.n_rows} of {columns.n_rows} rows; "
        f"{extrapolation['share']:.0%} of the evaluated points are outside their joint support)",
        {
            "exact": rows.n_rows == columns.n_rows,
            "rows": rows.n_rows,
            "extrapolation": extrapolation,
        },
    )


def _mean_values(box: CalledFunction, rows: Columns, subset: Subset, shares: Array) -> Array:
    """Return the mean over the background rows of the function at every point."""
    blocks = []
    for start in range(0, rows.n_rows, _CALLED_ROWS_A_BLOCK):
        points = rows.take(np.arange(start, min(start + _CALLED_ROWS_A_BLOCK, rows.n_rows)))
        values = box(splice(points, rows, subset)).reshape(points.n_rows, rows.n_rows, -1)
        blocks.append(np.einsum("z,xzk->xk", shares, values))
    return np.concatenate(blocks)


def _moments_of_dependence(
    dependence: dict[Subset, Array],
    margin: Array,
    shares: Array,
    subsets: list[Subset],
    complements: list[Subset],
) -> _Moments:
    terms: dict[Subset, Array] = {}
    # Constants drop out of every mean square about the mean, so the empty part is left out.
    for subset in subsets:
        lower = (part for r in range(1, len(subset)) for part in combinations(subset, r))
        terms[subset] = dependence[subset] - sum(
            (terms[part] for part in lower), np.zeros_like(margin)
        )
    without = {
        j: margin - dependence[(j,)] - dependence[others] for j, others in enumerate(complements)
    }
    pairs = [subset for subset in subsets if len(subset) == 2]
    return _moments_of_terms(terms, without, margin, shares, pairs)


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
    terms = _terms_of_trees(problem, background, boxes, parsed.n_outputs)
    change = _changes(boxes, background, parsed.n_outputs)
    without = {
        # What averaging over j takes away, but for the main effect of j itself.
        j: -change[:, j] - terms.get((j,), np.zeros_like(margin))
        for j in range(parsed.n_features)
    }
    pairs = combinations(range(parsed.n_features), 2)
    moments = _moments_of_terms(terms, without, margin, background.shares, pairs)
    return _on_background(parsed, background, moments, boxes.features)


def _on_background(
    parsed: Model, background: Background, moments: _Moments, used: Subset
) -> HEffects:
    """Return the effects with what is known of the background."""
    extrapolation = background.extrapolation(used)
    n_rows = background.rows.n_rows
    measure = describe_background(n_rows, extrapolation)
    facts = {"exact": True, "rows": n_rows, "extrapolation": extrapolation}
    return HEffects(moments, parsed.feature_names, parsed.output_names, measure, facts)


def compared_with_library(effects: HEffects, problem: HProblem, parsed: Model) -> HEffects:
    """Say how well the parsed model reproduces the library's raw prediction."""
    check, measure = parsed.check, effects.measure
    if check is None:
        return effects
    facts = {**effects.diagnostics, "margin_error": check.error, "note": check.note}
    if check.note and not isinstance(problem.model, TreeEnsemble | AdditiveTables):
        measure = f"{measure}; {check.note.removesuffix('.')}"
    return effects._replace(measure=measure, diagnostics=facts)


def _terms_of_trees(
    problem: HProblem, background: Background, boxes: LeafBoxes, n_outputs: int
) -> dict[Subset, Array]:
    """Return the terms of up to `order` features on the background rows."""
    grid, rows = background.grid, background.rows
    order, budget = problem.order, problem.memory_budget
    shares = pattern_shares(boxes, grid, rows, order, budget, problem.report)
    terms: dict[Subset, Array] = {}
    for size in (1, 2):
        for subset in occurring_subsets(boxes, size, grid.n_features):
            table = term_table(shares, grid, subset, n_outputs, budget)
            terms[subset] = table[tuple(rows.codes[j] for j in subset)]
    for size in range(3, order + 1):
        for subset in occurring_subsets(boxes, size, grid.n_features):
            term = PatternComponent(subset, grid, shares, rows, n_outputs)
            terms[subset] = term.on_background()
    return terms


def _changes(boxes: LeafBoxes, background: Background, n_outputs: int) -> Array:
    """Return ``PD_(without j) - f`` on every row, shape (n_rows, n_features, n_outputs)."""
    rows = background.rows
    margins = feature_margins(boxes, Empirical(), background.grid, rows)
    probability = IndependentLeaves(boxes, background.grid, margins, n_outputs).probability
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    change = np.zeros((rows.n_rows, background.grid.n_features, n_outputs))

    def add_block(start: int) -> None:
        block = slice(start, start + _PARSED_ROWS_A_BLOCK)
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

    map_threads(add_block, range(0, rows.n_rows, _PARSED_ROWS_A_BLOCK))
    return change


def _of_tables(problem: HProblem, parsed: AdditiveTables) -> HEffects:
    """Return the effects of an EBM, whose terms are all known."""
    columns, weights = counted_rows(parsed.columns(problem.X), problem.sample_weight)
    subsets = downward_closure(term.features for term in parsed.terms)
    most = max((len(subset) for subset in subsets), default=1)
    _check_values(parsed, columns.n_rows, len(subsets), most, problem.memory_budget)
    background = read_background(parsed, columns, None, weights, "auto")
    on_grids = cells_by_order(parsed, background)
    result = table_terms(parsed, on_grids, problem.memory_budget, problem.report)
    ordered = [result.components[subset] for subset in subsets]
    terms = dict(zip(subsets, evaluate_each(ordered, columns), strict=True))
    zero = np.zeros((columns.n_rows, parsed.n_outputs))
    margin = result.intercept + sum(terms.values(), zero)
    without = {
        j: sum((v for s, v in terms.items() if j in s and len(s) > 1), zero)
        for j in range(parsed.n_features)
    }
    pairs = combinations(range(parsed.n_features), 2)
    shares = row_shares(columns.n_rows, weights)
    moments = _moments_of_terms(terms, without, margin, shares, pairs)
    used = tuple(sorted({j for subset in subsets for j in subset}))
    return _on_background(parsed, background, moments, used)
