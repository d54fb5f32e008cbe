"""The end of every projection: purify what was fitted, and measure what it leaves."""

from typing import Any

from treepurify.components import values_on_rows
from treepurify.effects.tensor import EffectTensors
from treepurify.engines.common.finish import (
    Evidence,
    Rest,
    Result,
    largest_effect,
    measure_explained,
    table_components,
)
from treepurify.engines.common.problem import Problem
from treepurify.grids.grid import EncodedRows
from treepurify.purification.cascade import purify_effects
from treepurify.typing import Array

__all__ = ["fitted_result"]


def fitted_result(
    problem: Problem,
    rows: EncodedRows,
    effects: EffectTensors,
    margin: Array,
    facts: dict[str, Any],
) -> Result:
    """Return the components of fitted tables, with the rest of the model as remainder.

    Parameters
    ----------
    problem : Problem
        The model on the grid of the tables.
    rows : EncodedRows
        The rows on that grid.
    effects : EffectTensors
        What was fitted; not yet pure.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Margin of the rows.
    facts : dict
        What the diagnostics say of the fit, its error among them. The share of the variance that
        the components explain on the rows is added.
    """
    subsets = list(effects.tensors)
    axes = {subset: problem.grid.subset_axes(subset) for subset in subsets}
    problem.report("weighing cells", 0, 0)
    mass = problem.weighting.tables(problem.grid, rows, subsets)
    purified = purify_effects(effects, mass, axes, method="exact", progress=problem.report)
    tables = table_components(purified, mass, axes, problem.function.inputs)
    problem.report("evaluating the rows", 0, 0)
    on_grid = dict.fromkeys(range(1, max(map(len, subsets), default=0) + 1), rows)
    parts = (
        (subset, values_on_rows(table, on_grid))
        for subset, table in tables.items()
        if problem.wanted.keeps(subset)
    )
    explained = measure_explained(margin, rows.shares, purified.intercept, parts)
    scale = largest_effect(purified.intercept, effects.tensors.values())
    return Result(
        purified.intercept,
        tables,
        Evidence(
            scale,
            purified,
            fitted_share=explained.share,
            fit_error=max(facts["error"]) / (scale or 1.0),
            fit_unidentified=facts["undetermined"],
            converged=facts["converged"],
        ),
        Rest(problem.function, explained.rest_variance),
        explained.covariances if problem.weighting.share_of_rows == 1.0 else None,
        {"projection": facts | {"r_squared": explained.share.tolist()}},
    )
