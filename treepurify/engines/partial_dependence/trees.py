"""Partial dependence of tree ensembles: exact over the whole background."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.components import Component, ModelInputs
from treepurify.decomposition import Decomposition
from treepurify.effects.accumulate import LeafBoxes, ensemble_cuts, leaf_boxes
from treepurify.effects.conditional import occurring_subsets
from treepurify.engines.common.finish import Evidence, Rest, Result, finish
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.inputs import Interactions, named_subsets
from treepurify.engines.common.model_check import ModelCheck, check_against_library
from treepurify.engines.partial_dependence.moments import (
    BackgroundCovariances,
    background_moments,
)
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.engines.partial_dependence.pattern_shares import PatternShares, pattern_shares
from treepurify.engines.partial_dependence.pattern_tensor import PatternTensor
from treepurify.engines.partial_dependence.support import certificate_note, outside_support
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Grid, MissingCells, Subset, encode_rows, make_grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import counted_rows
from treepurify.rows.table_reader import check_distribution, read_columns

__all__ = ["Background", "describe_background", "read_background", "trees_anova"]

Array = npt.NDArray[np.float64]

_TABLE_ORDER = 2


@dataclass(frozen=True, eq=False)
class Background:
    """The rows that partial dependence averages over, on the union grid.

    Parameters
    ----------
    grid : Grid
        The cells.
    rows : EncodedRows
        The background rows with their weights.
    columns : Columns
        The same rows as the model reads them.
    points : Columns
        The rows that are explained; `columns` itself where they are the background too.
    """

    grid: Grid
    rows: EncodedRows
    columns: Columns
    points: Columns

    @property
    def shares(self) -> Array:
        """Share of each background row, shape (n_rows,)."""
        return self.rows.shares

    def extrapolation(self, used: Subset) -> dict[str, Any]:
        """Return how many evaluated points lie where there are no data; see `outside_support`."""
        weights = self.rows.weights
        own = weights if self.points is self.columns else None
        return outside_support(self.points, self.columns, used, weights=weights, point_weights=own)


def trees_anova(
    model: Any,
    parsed: TreeEnsemble,
    X: Any,
    background: Any,
    *,
    order: int | None,
    interactions: Interactions | None,
    sample_weight: npt.ArrayLike | None,
    missing_cells: MissingCells,
    memory_budget: int,
    report: ProgressReport,
) -> Decomposition:
    """Return the terms of an ensemble; see `partial_dependence_anova`."""
    subsets = named_subsets(parsed.features, interactions, order)
    given = read_background(
        parsed, X, background, sample_weight, ensemble_cuts(parsed), missing_cells
    )
    check = check_against_library(model, parsed, X)
    boxes = leaf_boxes(parsed, given.grid)
    depth = max((len(subset) for subset in boxes.subsets), default=0)
    most = depth if order is None else min(order, depth)
    shares = pattern_shares(boxes, given.grid, given.rows, most, memory_budget, report)
    components: dict[Subset, Component] = {}
    for size in range(1, most + 1):
        report("terms of order", size, most)
        components |= {
            subset: _term(parsed, shares, given, subset, memory_budget)
            for subset in occurring_subsets(boxes, size, given.grid.n_features)
            if subsets is None or size == 1 or subset in subsets
        }
    intercept = parsed.base + _mean(boxes, shares, parsed.n_outputs)
    complete = most == depth and subsets is None
    return _finish(
        parsed, given, boxes, intercept, components, check, complete=complete, budget=memory_budget
    )


def read_background(
    parsed: Model,
    X: Any,
    background: Any,
    sample_weight: npt.ArrayLike | None,
    cuts: tuple[npt.NDArray[np.float64] | None, ...],
    missing_cells: MissingCells,
) -> Background:
    """Return the background on a grid with the cells that it and the rows of `X` need.

    Rows without weight are no part of it.
    """
    if missing_cells not in ("auto", "always"):
        raise InvalidInputError(f'missing_cells must be "auto" or "always", got {missing_cells!r}')
    names = parsed.has_feature_names
    points = read_columns(X, parsed.features, match_names=names)
    own = points
    if background is not None:
        own = read_columns(background, parsed.features, match_names=names)
    check_distribution(own, "the rows to average over", "background")
    counted, weights = counted_rows(own, sample_weight)
    grid, rows = make_grid(
        points, parsed.features, cuts, match_names=names, missing_cells=missing_cells
    )
    if counted is not points or rows is None:
        # Twice: the cells that the background needs can move those of the points.
        rows, axes = encode_rows(counted, grid.axes)
        grid = replace(grid, axes=axes)
    explained = counted if background is None else points
    return Background(grid, replace(rows, weights=weights), counted, explained)


def describe_background(n_rows: int, facts: dict[str, Any]) -> str:
    """Return the measure in words, with the caveat that a reader must see."""
    return (
        f"interventional (partial dependence over {n_rows} background rows, "
        f"{facts['share']:.0%} of its points outside their joint support)"
    )


def _term(
    parsed: TreeEnsemble, shares: PatternShares, given: Background, subset: Subset, budget: int
) -> Component:
    """Return one term: a table for one feature, a table on demand for two, else leaves."""
    term = PatternComponent(subset, given.grid, shares, given.rows, parsed.n_outputs)
    if len(subset) > _TABLE_ORDER:
        return term
    inputs = ModelInputs(parsed.features, parsed.has_feature_names)
    table = PatternTensor(term, inputs, budget)
    return table.stored() if len(subset) == 1 else table


def _mean(boxes: LeafBoxes, shares: PatternShares, n_outputs: int) -> Array:
    """Return the mean of the trees over the background: values times shares of whole boxes."""
    weight = np.where(boxes.leaf_subset >= 0, shares.share[shares.slot_ptr[:-1]], 0.0)
    mean = np.zeros(n_outputs)
    scalar = boxes.output >= 0
    np.add.at(mean, boxes.output[scalar], weight[scalar] * boxes.values[scalar, 0])
    if not scalar.all():
        mean += weight[~scalar] @ boxes.values[~scalar]
    return mean


def _find(
    parsed: TreeEnsemble, given: Background, boxes: LeafBoxes, budget: int, subset: Subset
) -> Component | None:
    """Return the term of a subset that was not kept apart, if it occurs."""
    if not subset or not any(set(subset) <= set(path) for path in boxes.subsets):
        return None

    def silent(what: str, done: int, total: int) -> None:
        del what, done, total

    shares = pattern_shares(boxes, given.grid, given.rows, len(subset), budget, silent)
    return _term(parsed, shares, given, subset, budget)


def _finish(
    parsed: TreeEnsemble,
    given: Background,
    boxes: LeafBoxes,
    intercept: Array,
    components: dict[Subset, Component],
    check: ModelCheck | None,
    *,
    complete: bool,
    budget: int,
) -> Decomposition:
    function = ParsedFunction(parsed)
    covariances: Mapping[Subset, Array] = BackgroundCovariances(
        parsed, given.columns, given.rows, intercept, components
    )
    rest, facts = None, {}
    if not complete:
        moments = background_moments(parsed, given.columns, given.rows, intercept, components)
        covariances = moments.covariances
        # The mean over the background, by boxes of leaves and by the model itself.
        facts["intercept_error"] = float(np.max(np.abs(moments.mean - intercept), initial=0.0))
        find = partial(_find, parsed, given, boxes, budget)
        rest = Rest(function, moments.rest_variance, find)
    used = tuple(sorted({j for subset in boxes.subsets for j in subset}))
    extrapolation = given.extrapolation(used)
    result = Result(
        intercept,
        components,
        Evidence(note=certificate_note(extrapolation)),
        rest,
        covariances,
        {
            "model": parsed.facts(),
            "exact": True,
            "background_rows": given.rows.n_rows,
            "extrapolation": extrapolation,
            **facts,
        },
    )
    return finish(
        function,
        result,
        engine="partial dependence",
        measure=describe_background(given.rows.n_rows, extrapolation),
        rows={1: given.rows, 2: given.rows},
        check=check,
    )
