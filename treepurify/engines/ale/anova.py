"""Accumulated local effects of the first and second order."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import Component, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.engines.ale.axes import Nodes, accumulation_axis, chosen_axes
from treepurify.engines.ale.components import AccumulatedComponent, AccumulationAxis, interpolate
from treepurify.engines.ale.local_effects import (
    Accumulated,
    main_effect,
    pair_effect,
    tree_main_effect,
)
from treepurify.engines.common.finish import Rest, Result, finish, measure_explained
from treepurify.engines.common.functions import (
    ParsedFunction,
    RowFunction,
    read_function,
)
from treepurify.engines.common.inputs import Interactions, check_interactions, named_subsets
from treepurify.grids.drawing import mass_between
from treepurify.grids.grid import Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import counted_rows, row_shares
from treepurify.typing import Array

__all__ = ["ale_anova"]


def ale_anova(
    model: Any,
    X: Any,
    *,
    order: int = 2,
    bins: int = 20,
    nodes: Nodes | None = None,
    sample_weight: npt.ArrayLike | None = None,
    interactions: Interactions | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    r"""Decompose a model by accumulated local effects (Apley and Zhu 2020).

    The main effect of a feature accumulates, from quantile to quantile, the mean difference
    of the model across the bin over the rows that lie in it. Unlike partial dependence it
    only asks the model near the data; unlike the functional ANOVA its effects answer what
    happens when one feature moves while the others stay, given their values there. Effects of
    pairs accumulate second differences and are free of the main effects.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    order : {1, 2}
        Whether pairs are included.
    bins : int
        Number of quantile bins of a numeric feature, of equal weight; fewer where values
        repeat.
    nodes : mapping of str or int to array_like, optional
        Nodes of chosen numeric features, increasing, in place of quantiles; the ends of the rows
        are added where they lie beyond. An interval without rows has no slope.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, finite and not negative. Rows of weight zero change nothing.
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
        Components are linear between quantiles, with ``standard_error`` and ``band()`` for
        main effects (each row is one observation there, whatever its weight). A main effect
        of a tree ensemble is a table on the model's own cuts: it
        has the model's jumps where they are, and the same differences between quantiles; its
        standard errors at the quantiles are in ``diagnostics["standard_error"]``.
        Categories are ordered by similarity of their rows. What the components do not
        explain is the remainder.

    Raises
    ------
    InvalidInputError
        If the rows, the function's values or an option cannot be used.
    MemoryBudgetError
        If the tables would not fit.

    Examples
    --------
    Along ``x0 = x1`` a product moves like ``x0**2 / 2`` with one feature:

    >>> import numpy as np
    >>> x = np.linspace(0, 1, 101)
    >>> d = ale_anova(lambda X: X[:, 0] * X[:, 1], np.stack([x, x], axis=1), bins=50)
    >>> ends = d["x0"].evaluate(np.array([[0.0, 0.0], [1.0, 0.0]])).ravel()
    >>> round(float(ends[1] - ends[0]), 2)
    0.5
    """
    check_whole("order", order, 1, 2)
    check_whole("bins", bins, 1)
    check_interactions(interactions)
    report = progress_report(progress)
    f, columns = read_function(model, X, feature_names)
    columns, weights = counted_rows(columns, sample_weight)
    shares = row_shares(columns.n_rows, weights)
    chosen = chosen_axes(columns, nodes)
    axis_of_each = [
        chosen.get(j) or accumulation_axis(columns, weights, j, bins, memory_budget)
        for j in range(len(f.features))
    ]
    axes = {axis.feature: axis for axis in axis_of_each if axis is not None}
    pairs = _pairs(f, axes, order, interactions)
    components: dict[Subset, Component] = {}
    empty: dict[str, int] = {}
    errors: dict[str, dict[str, list[Any]]] = {}
    for done, axis in enumerate(axes.values()):
        report("local effects of features", done, len(axes))
        subset = (axis.feature,)
        is_tree = isinstance(f, ParsedFunction) and isinstance(f.model, TreeEnsemble)
        if is_tree and not axis.is_categorical:
            components[subset] = tree_main_effect(f, columns, shares, axis)
            error = main_effect(f, columns, shares, axis).standard_error
            at_nodes = {"nodes": axis.nodes.tolist(), "errors": error.tolist()}
            errors[f.features[axis.feature].name] = at_nodes
            continue
        effect = main_effect(f, columns, shares, axis)
        components[subset] = _component(f, (axis,), effect, columns, shares)
    for done, (j, k) in enumerate(pairs):
        report("local effects of pairs", done, len(pairs))
        pair_axes = (axes[j], axes[k])
        effect = pair_effect(f, columns, shares, pair_axes, memory_budget)
        components[j, k] = _component(f, pair_axes, effect, columns, shares)
        if effect.empty:
            empty[f"{f.features[j].name} & {f.features[k].name}"] = effect.empty
    return _finish(f, columns, shares, components, bins, empty, errors)


def _pairs(
    f: RowFunction,
    axes: dict[int, AccumulationAxis],
    order: int,
    interactions: Interactions | None,
) -> list[Subset]:
    wanted = named_subsets(f.features, interactions, order)
    if wanted is None:
        return list(combinations(sorted(axes), 2)) if order > 1 else []
    return sorted(pair for pair in wanted if axes.keys() >= set(pair))


def _component(
    f: RowFunction,
    axes: tuple[AccumulationAxis, ...],
    effect: Accumulated,
    columns: Columns,
    shares: Array,
) -> AccumulatedComponent:
    mass = mass_between(
        columns, [axis.feature for axis in axes], [axis.positions for axis in axes], shares
    )
    values = interpolate(effect.values, axes, columns)
    return AccumulatedComponent(
        axes,
        effect.values,
        effect.standard_error,
        f.features,
        f.inputs.match_names,
        shares @ (values - shares @ values) ** 2,
        shares @ np.abs(values),
        mass,
    )


def _finish(
    f: RowFunction,
    columns: Columns,
    shares: Array,
    components: dict[Subset, Component],
    bins: int,
    empty: dict[str, int],
    errors: dict[str, dict[str, list[Any]]],
) -> Decomposition:
    margin = f(columns)
    intercept = shares @ margin
    parts = ((subset, component.evaluate(columns)) for subset, component in components.items())
    explained = measure_explained(margin, shares, intercept, parts)
    missing = {
        spec.name: int(np.isnan(values).sum())
        for spec, values in zip(f.features, columns.values, strict=True)
        if np.isnan(values).any()
    }
    exact = [c.features for c in components.values() if isinstance(c, TensorComponent)]
    result = Result(
        intercept,
        components,
        rest=Rest(f, explained.rest_variance),
        covariances=explained.covariances,
        diagnostics={
            "rows": columns.n_rows,
            "bins": bins,
            "cells_without_rows": empty,
            "missing_values_without_effect": missing,
            "tables_on_the_model's_cuts": [f.features[j].name for (j,) in exact],
            "standard_error": errors,
        },
    )
    measure = f"accumulated local effects ({columns.n_rows} rows, up to {bins} quantile bins)"
    return finish(f, result, engine="ALE", measure=measure)
