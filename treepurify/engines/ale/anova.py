"""Accumulated local effects of the first and second order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import Component
from treepurify.decomposition import Decomposition
from treepurify.engines.ale.axes import Nodes, accumulation_axes, chosen_nodes
from treepurify.engines.ale.components import AccumulatedComponent, AccumulationAxis
from treepurify.engines.ale.local_effects import (
    Accumulated,
    accumulate_main,
    accumulate_pair,
    check_pair,
)
from treepurify.engines.ale.pair_sums import pair_sums
from treepurify.engines.common.explained import MeasuredParts, explain_rows
from treepurify.engines.common.finish import Result, finish
from treepurify.engines.common.functions import (
    RowFunction,
    read_function,
    rows_for_model,
)
from treepurify.engines.common.inputs import (
    Interactions,
    named_subsets,
    with_note,
)
from treepurify.grids.grid import Subset
from treepurify.origin import called
from treepurify.progress import ProgressReport, progress_report
from treepurify.remainder import Difference
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import rows_in_memory
from treepurify.rows.row_weights import counted_rows, within_range
from treepurify.terms import term_name
from treepurify.typing import Array


def ale_anova(
    model: Any,
    X: Any,
    *,
    order: int = 2,
    bins: int = 20,
    nodes: Nodes | None = None,
    sample_weight: npt.ArrayLike | str | None = None,
    interactions: Interactions | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    r"""Decompose a model by accumulated local effects (Apley and Zhu 2020).

    The main effect of a feature accumulates, from quantile to quantile, the mean difference
    of the model across the bin, over the rows in that bin. Unlike partial dependence, it
    evaluates the model only near the data. Unlike the functional ANOVA, it shows what
    happens when one feature changes while the others keep their values. Effects of
    pairs accumulate second differences and contain no main effects.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows. For rows in batches, as in `purify`, a weighted sample of at most 100 000
        is used; ``diagnostics["stream"]`` says so.
    order : {1, 2}
        1 for main effects only, 2 for main effects and pairs.
    bins : int
        Number of bins of a numeric feature, between quantiles and of equal weight; fewer if values
        repeat.
    nodes : mapping of str or int to array_like, optional
        Nodes of some numeric features, in increasing order, in place of quantiles. The smallest
        and largest values of the rows are added if they lie outside. An interval without rows has
        slope zero.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. Rows of weight zero change nothing. For rows
        in batches, the name of the column of weights.
    interactions : sequence of tuple of (str or int), optional
        The pairs that are computed; all by default.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        Effects are linear between quantiles. Main effects have ``standard_error`` and ``band()``,
        for which each row counts as one observation, whatever its weight. Categories are ordered
        by the similarity of their rows. The remainder is the part of the model that the effects do
        not explain. Features that a parsed model does not use have no effect. On the margin scale
        for parsed models, else on the scale of the function.

    Raises
    ------
    InvalidInputError
        If the rows, the function's values or an option cannot be used.
    MemoryBudgetError
        If the tables would take too much memory.

    See Also
    --------
    partial_dependence_anova : Partial dependence of any order, for any function.
    hooker_anova : Any function, fitted by tables on points.
    feature_profile : Observed and predicted means along one feature.

    Examples
    --------
    Along ``x0 = x1`` a product moves like ``x0**2 / 2`` with one feature:

    >>> import numpy as np, treepurify as tp
    >>> x = np.linspace(0, 1, 101)
    >>> d = tp.ale_anova(lambda X: X[:, 0] * X[:, 1], np.stack([x, x], axis=1), bins=50)
    >>> ends = d["x0"].evaluate(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> round(float(ends[1] - ends[0]), 2)
    0.5
    """
    call = called(ale_anova, locals())
    check_whole("order", order, 1, 2)
    check_whole("bins", bins, 1)
    report = progress_report(progress)
    sample = rows_for_model(model, X, feature_names, sample_weight, memory_budget, report)
    f, columns = read_function(model, sample.table, feature_names)
    columns, weights = counted_rows(columns, sample.weights)
    axes = accumulation_axes(
        columns, weights, f.used_features, bins, chosen_nodes(f.features, nodes), memory_budget
    )
    pairs = _wanted_pairs(f, axes, order, interactions)
    for j, k in pairs:
        check_pair(f, (axes[j], axes[k]), memory_budget)
    counts = np.ones(columns.n_rows) if weights is None else within_range(weights)
    components, empty = _components(f, columns, counts, axes, pairs, report)
    # Sums rather than a matrix product: for one output the threads of a BLAS only wait.
    intercept = (counts[:, None] * f(columns)).sum(axis=0) / counts.sum()
    rows = rows_in_memory(columns, weights)
    measured = explain_rows(rows, f, intercept, components, report)
    result = Result(
        intercept,
        {subset: _measured(component, measured) for subset, component in components.items()},
        rest=Difference(f, measured.explained.rest_variance),
        covariances=measured.explained.covariances,
        n_rows=columns.n_rows,
        diagnostics={
            "bins": bins,
            "cells_without_rows": empty,
            "missing_values_without_effect": {
                spec.name: n_missing
                for spec, values in zip(f.features, columns.values, strict=True)
                if (n_missing := int(np.isnan(values).sum()))
            },
        },
    )
    measure = f"accumulated local effects ({columns.n_rows} rows, up to {bins} quantile bins)"
    return with_note(finish(f, result, engine="ALE", measure=measure, call=call), sample)


def _wanted_pairs(
    f: RowFunction,
    axes: Mapping[int, AccumulationAxis],
    order: int,
    interactions: Interactions | None,
) -> tuple[Subset, ...]:
    """Return the requested pairs of features with nodes."""
    wanted = named_subsets(f.features, interactions, order)
    if wanted is None:
        return tuple(combinations(sorted(axes), 2)) if order > 1 else ()
    return tuple(sorted(pair for pair in wanted if axes.keys() >= set(pair)))


def _components(
    f: RowFunction,
    columns: Columns,
    weights: Array,
    axes: Mapping[int, AccumulationAxis],
    pairs: Sequence[Subset],
    report: ProgressReport,
) -> tuple[dict[Subset, AccumulatedComponent], dict[str, int]]:
    """Return the effects, not yet measured, and the number of cells without rows of pairs."""
    effects: dict[Subset, Accumulated] = {}
    for done, (j, axis) in enumerate(axes.items()):
        report("local effects of features", done, len(axes))
        effects[j,] = accumulate_main(f, columns, weights, axis)
    for (j, k), sums in pair_sums(f, columns, weights, axes, pairs, report).items():
        effects[j, k] = accumulate_pair(f, sums, (axes[j], axes[k]), float(weights.sum()))
    unknown = np.full(f.n_outputs, np.nan)
    components = {
        subset: AccumulatedComponent(
            tuple(axes[j] for j in subset),
            effect.values,
            effect.standard_error,
            f.features,
            f.inputs.match_names,
            unknown,
            unknown,
            effect.between,
        )
        for subset, effect in effects.items()
    }
    empty = {
        term_name(f.features[j].name for j in pair): effects[pair].empty
        for pair in pairs
        if effects[pair].empty
    }
    return components, empty


def _measured(component: AccumulatedComponent, measured: MeasuredParts) -> Component:
    """Return an effect with its size on the rows."""
    subset = component.features
    return replace(
        component,
        variance=measured.variances[subset],
        mean_absolute=measured.absolutes[subset],
    )
