"""Accumulated local effects of the first and second order."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import Component
from treepurify.decomposition import Decomposition
from treepurify.engines.ale.axes import Nodes, accumulation_axis, chosen_axes, chosen_nodes
from treepurify.engines.ale.components import AccumulatedComponent, AccumulationAxis, interpolate
from treepurify.engines.ale.finished import finish_effects, wanted_pairs
from treepurify.engines.ale.local_effects import (
    Accumulated,
    main_effect,
    pair_effect,
    tree_main_effect,
)
from treepurify.engines.ale.streamed import StreamTask, ale_of_stream
from treepurify.engines.common.explained import measure_explained
from treepurify.engines.common.functions import (
    ParsedFunction,
    RowFunction,
    is_parsed,
    read_function,
)
from treepurify.engines.common.inputs import Interactions, check_interactions, read_function_stream
from treepurify.engines.common.sampled_source import (
    SAMPLED_ROWS,
    decompose_sample,
    sample_source,
)
from treepurify.grids.grid import Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import counted_rows, row_shares
from treepurify.rows.sources import as_source
from treepurify.typing import Array

__all__ = ["ale_anova"]


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
    of the model across the bin over the rows that lie in it. Unlike partial dependence it
    only asks the model near the data; unlike the functional ANOVA its effects answer what
    happens when one feature moves while the others stay, given their values there. Effects of
    pairs accumulate second differences and are free of the main effects.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows. Rows in batches, as `purify` takes them, are read three times and more for a
        model that can be parsed, and effects are those of the same rows in memory. All columns
        of the model are read, since categories are ordered by all of them. Of a function, a
        sample of at most 100 000 rows is used; ``diagnostics["stream"]`` says so.
    order : {1, 2}
        Whether pairs are included.
    bins : int
        Number of quantile bins of a numeric feature, of equal weight; fewer where values
        repeat.
    nodes : mapping of str or int to array_like, optional
        Nodes of chosen numeric features, increasing, in place of quantiles; the ends of the rows
        are added where they lie beyond. An interval without rows has no slope.
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
        Components are linear between quantiles, with ``standard_error`` and ``band()`` for
        main effects (each row is one observation there, whatever its weight). A main effect
        of a tree ensemble is a table on the model's own cuts: it
        has the model's jumps where they are, and the same differences between quantiles; its
        standard errors at the quantiles are in ``diagnostics["standard_error"]``.
        Categories are ordered by similarity of their rows. What the components do not
        explain is the remainder. Features that a parsed model does not use have no component.

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
    source = as_source(X)
    if source is not None and not is_parsed(model, feature_names):
        sample = sample_source(
            model, source, feature_names, sample_weight, SAMPLED_ROWS, 0, memory_budget, report
        )
        engine = partial(
            ale_anova,
            model,
            order=order,
            bins=bins,
            nodes=nodes,
            interactions=interactions,
            feature_names=feature_names,
            memory_budget=memory_budget,
            progress=progress,
        )
        return decompose_sample(engine, sample)
    if source is not None:
        parsed, stream = read_function_stream(
            model, source, feature_names, sample_weight, progress=progress
        )
        given = chosen_nodes(parsed.features, nodes)
        rest = (order, bins, given, interactions, memory_budget, report)
        return ale_of_stream(StreamTask(model, parsed, stream, *rest))
    f, columns = read_function(model, X, feature_names)
    columns, weights = counted_rows(columns, sample_weight)
    shares = row_shares(columns.n_rows, weights)
    chosen = chosen_axes(columns, nodes)
    # What the model does not use has no effect.
    axis_of_each = [
        chosen.get(j) or accumulation_axis(columns, weights, j, bins, memory_budget)
        for j in f.used_features
    ]
    axes = {axis.feature: axis for axis in axis_of_each if axis is not None}
    pairs = wanted_pairs(f, axes, order, interactions)
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


def _component(
    f: RowFunction,
    axes: tuple[AccumulationAxis, ...],
    effect: Accumulated,
    columns: Columns,
    shares: Array,
) -> AccumulatedComponent:
    values = interpolate(effect.values, axes, columns)
    return AccumulatedComponent(
        axes,
        effect.values,
        effect.standard_error,
        f.features,
        f.inputs.match_names,
        shares @ (values - shares @ values) ** 2,
        shares @ np.abs(values),
        effect.between,
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
    n_rows, facts = columns.n_rows, {"standard_error": errors}
    return finish_effects(f, intercept, components, explained, n_rows, bins, empty, missing, facts)
