"""Partial dependence of tree ensembles: exact over the whole background, or over covers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod

import numpy as np

from treepurify._kernels.cover import path_ratios, products_outside, weights_below
from treepurify.components import Component, ModelInputs, TensorComponent
from treepurify.effects.conditional import occurring_subsets
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.engines.common.explained import MeasuredParts, explain_rows
from treepurify.engines.common.finish import Result
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.problem import KeptTerms
from treepurify.engines.partial_dependence.background import Background
from treepurify.engines.partial_dependence.pattern_component import PatternComponent, PatternTensor
from treepurify.engines.partial_dependence.pattern_shares import (
    PatternShares,
    empty_shares,
    pattern_shares,
)
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport, no_report
from treepurify.remainder import Difference
from treepurify.rows.reduction import RowStream, rows_in_memory
from treepurify.typing import Array

TABLE_ORDER = 2
"""Largest number of features of a table; larger terms are evaluated from the leaves."""


@dataclass(frozen=True, eq=False)
class _Averages:
    """The leaves of an ensemble, and what they are averaged over where features are not given.

    Parameters
    ----------
    boxes : LeafBoxes
        The leaves on the union grid.
    shares : callable
        From the most features that are given together, and progress, to the shares of all
        leaves. It can be pickled.
    over_rows : bool
        Whether they are averaged over the background rows.
    """

    boxes: LeafBoxes
    shares: Callable[[int, ProgressReport], PatternShares]
    over_rows: bool


def tree_terms(
    ensemble: TreeEnsemble,
    background: Background,
    kept_terms: KeptTerms,
    memory_budget: int,
    report: ProgressReport,
    *,
    by_cover: bool,
) -> Result:
    """Return the wanted terms of an ensemble; see `partial_dependence_anova`."""
    averages = _averages(ensemble, background, memory_budget, by_cover=by_cover)
    depth = max((len(subset) for subset in averages.boxes.subsets), default=0)
    most = depth if kept_terms.order is None else min(kept_terms.order, depth)
    shares = averages.shares(most, report)
    make = partial(_term, ensemble, background, shares, memory_budget)
    intercept, components = _kept_terms(ensemble, shares, make, kept_terms, most, report)
    is_whole = most == depth and kept_terms.interactions is None
    if is_whole and all(isinstance(term, TensorComponent) for term in components.values()):
        return Result(intercept, components)
    rows = rows_in_memory(background.columns, background.rows.weights)
    function = ParsedFunction(ensemble)
    if is_whole:
        covariances = _MeasuredLater(rows, function, intercept, components)
        return Result(intercept, components, covariances=covariances)
    measured = explain_rows(rows, function, intercept, components, report)
    paths = tuple(averages.boxes.subsets)
    find = partial(_find, ensemble, background, paths, memory_budget, by_cover)
    rest = Difference(function, measured.explained.rest_variance, find)
    facts = {}
    if averages.over_rows:
        # The mean over the background, by boxes of leaves and by the model itself.
        error = float(np.max(np.abs(measured.mean - intercept), initial=0.0))
        facts["intercept_error"] = error
    known = {subset: _measured(term, measured) for subset, term in components.items()}
    return Result(
        intercept,
        known,
        rest=rest,
        covariances=measured.explained.covariances,
        diagnostics=facts,
    )


def _averages(
    ensemble: TreeEnsemble, background: Background, memory_budget: int, *, by_cover: bool
) -> _Averages:
    """Return the leaves, averaged over the rows of a background or over covers."""
    if by_cover:
        return _averages_over_cover(ensemble, background.grid, memory_budget)
    boxes = leaf_boxes(ensemble, background.grid)
    shares = partial(_row_shares, boxes, background, memory_budget)
    return _Averages(boxes, shares, over_rows=True)


def _row_shares(
    boxes: LeafBoxes, background: Background, memory_budget: int, limit: int, report: ProgressReport
) -> PatternShares:
    return pattern_shares(boxes, background.grid, background.rows, limit, memory_budget, report)


def _measured(term: Component, measured: MeasuredParts) -> Component:
    """Return a term with its size on the rows, where there is no table to compute it from."""
    if not isinstance(term, PatternComponent):
        return term
    sizes = measured.variances[term.features], measured.absolutes[term.features]
    return replace(term, measured=sizes)


def _kept_terms(
    ensemble: TreeEnsemble,
    shares: PatternShares,
    make: Callable[[Subset], Component],
    kept_terms: KeptTerms,
    most: int,
    report: ProgressReport,
) -> tuple[Array, dict[Subset, Component]]:
    """Return the intercept and the terms that become components.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model.
    shares : PatternShares
        What the background says about its leaves.
    make : callable
        Returns the term of a subset.
    kept_terms : KeptTerms
        The terms that become components.
    most : int
        Most features of one.
    report : callable
        Progress.
    """
    boxes = shares.boxes
    components: dict[Subset, Component] = {}
    for size in range(1, most + 1):
        report("effects of order", size, most)
        occurring = occurring_subsets(boxes, size, ensemble.n_features)
        components |= {subset: make(subset) for subset in occurring if kept_terms.keeps(subset)}
    # The mean over the background: values of leaves times the shares of their whole boxes.
    weight = np.where(boxes.leaf_subset >= 0, shares.share[shares.slot_ptr[:-1]], 0.0)
    return ensemble.base + boxes.weighted_sum(weight, ensemble.n_outputs), components


def _term(
    ensemble: TreeEnsemble,
    background: Background,
    shares: PatternShares,
    memory_budget: int,
    subset: Subset,
) -> Component:
    grid, n_outputs = background.grid, ensemble.n_outputs
    term = PatternComponent(subset, grid, shares, background.rows, n_outputs)
    return _tabulated(term, ensemble, memory_budget)


def _tabulated(term: PatternComponent, ensemble: TreeEnsemble, memory_budget: int) -> Component:
    """Return one term: a table for one feature, a table on demand for two, else leaves.

    A table of two features that would not fit is none either.
    """
    n_bytes = 8 * prod(term.grid.shape(term.features)) * ensemble.n_outputs
    if len(term.features) > TABLE_ORDER or (len(term.features) > 1 and n_bytes > memory_budget):
        return term
    inputs = ModelInputs(ensemble.features, ensemble.has_feature_names)
    table = PatternTensor(term, inputs, memory_budget)
    return table.stored() if len(term.features) == 1 else table


def _find(
    ensemble: TreeEnsemble,
    background: Background,
    paths: tuple[Subset, ...],
    memory_budget: int,
    by_cover: bool,
    subset: Subset,
) -> Component | None:
    """Return the term of a subset that is no component, if it occurs."""
    if not subset or not any(set(subset) <= set(path) for path in paths):
        return None
    averages = _averages(ensemble, background, memory_budget, by_cover=by_cover)
    shares = averages.shares(len(subset), no_report)
    return _term(ensemble, background, shares, memory_budget, subset)


@dataclass(frozen=True, eq=False)
class _MeasuredLater(Mapping[Subset, Array]):
    """The covariances of a complete decomposition, computed on first use.

    Terms of three and more features are evaluated on every background row for them, which
    takes as long as evaluating the decomposition does.

    Parameters
    ----------
    rows : RowStream
        The background rows.
    function : ParsedFunction
        The model.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    components : mapping of tuple of int to Component
        Its terms.
    """

    rows: RowStream
    function: ParsedFunction
    intercept: Array
    components: Mapping[Subset, Component]

    @cached_property
    def _covariances(self) -> Mapping[Subset, Array]:
        measured = explain_rows(
            self.rows, self.function, self.intercept, self.components, no_report
        )
        return measured.explained.covariances

    def __getitem__(self, subset: Subset) -> Array:
        """Return the covariance of one term with the model, shape (n_outputs,)."""
        if subset not in self.components:
            raise KeyError(subset)
        return self._covariances[subset]

    def __contains__(self, subset: object) -> bool:
        """Whether there is one, which does not compute it."""
        return subset in self.components

    def __iter__(self) -> Iterator[Subset]:
        """Iterate over the subsets."""
        return iter(self.components)

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self.components)


def _averages_over_cover(ensemble: TreeEnsemble, grid: Grid, memory_budget: int) -> _Averages:
    """Return averages over the training rows that came to each node.

    At a test of a feature that is not given, a row goes both ways in proportion to the training
    rows that did (Lundberg et al. 2020, algorithm 1). For one leaf this is a product over the
    features of its path, so every feature that the path tests has to be kept.

    Raises
    ------
    InvalidInputError
        If the model does not say how many training rows came to its leaves.
    """
    cover = _checked_cover(ensemble)
    boxes = leaf_boxes(ensemble, grid, keep_every_test=True)
    ratio = np.empty(len(boxes.entry_feature))
    path_ratios(
        np.flatnonzero(ensemble.feature < 0),
        ensemble.parents(),
        ensemble.feature,
        ensemble.left,
        ensemble.right,
        weights_below(ensemble.left, ensemble.right, cover),
        boxes.entry_ptr,
        boxes.entry_feature,
        ratio,
    )
    return _Averages(boxes, partial(_cover_shares, boxes, ratio, memory_budget), over_rows=False)


def _cover_shares(
    boxes: LeafBoxes, ratio: Array, memory_budget: int, limit: int, report: ProgressReport
) -> PatternShares:
    report("computing weights of paths", 0, 0)
    shares = empty_shares(boxes, limit, memory_budget)
    leaves = np.arange(len(boxes.leaf_subset))
    products_outside(
        leaves,
        boxes.entry_ptr,
        ratio,
        shares.limit,
        shares.choose,
        shares.slot_ptr,
        shares.share,
    )
    return shares


def _checked_cover(ensemble: TreeEnsemble) -> Array:
    cover = ensemble.cover
    if cover is None:
        raise InvalidInputError(
            f"this {ensemble.source.kind} model does not record how many training rows reached "
            'each leaf, which background="cover" needs. For a pipeline, pass '
            'parse_model(pipeline, columns="transformed") and transformed rows; or average over '
            "rows: background=X."
        )
    if not np.all(np.isfinite(cover)) or np.any(cover < 0):
        raise InvalidInputError(
            "some leaves of the model have a training weight that is negative or not finite, as "
            'custom objectives can produce: background="cover" needs shares. Average over rows: '
            "background=X."
        )
    return cover
