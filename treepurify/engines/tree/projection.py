"""The projection as a route: trees projected, their sum purified, the rest as remainder."""

import numpy as np
import numpy.typing as npt

from treepurify.components import values_on_rows
from treepurify.engines.common.finish import (
    Evidence,
    Rest,
    Result,
    largest_effect,
    measure_explained,
    table_components,
)
from treepurify.engines.common.layout import check_memory
from treepurify.engines.common.problem import Problem
from treepurify.engines.tree.projected_trees import ProjectionInputs, project_trees, row_matrix
from treepurify.errors import InvalidInputError
from treepurify.purification.cascade import downward_closure, purify_effects

__all__ = ["purify_by_projection"]

Array = npt.NDArray[np.float64]

_MOST_ORDER = 3


def purify_by_projection(problem: Problem, tolerance: float) -> Result:
    """Return the components of low order of a deep ensemble under dependent features.

    See `project_trees`. The remainder is the model minus the components; on the rows,
    ``diagnostics["projection"]["r_squared"]`` is the share of the model's variance that the
    components explain.
    """
    share = 1.0 - (problem.weighting.share_of_rows or 0.0)
    order = _checked_order(problem.wanted.order, 2 if share > 0 else _MOST_ORDER)
    if problem.rows is None or problem.columns is None:
        raise InvalidInputError("the projection route needs rows: pass X")
    matrix = row_matrix(problem.columns, problem.memory_budget)
    projection = project_trees(
        ProjectionInputs(
            ensemble=problem.ensemble,
            boxes=problem.boxes,
            grid=problem.grid,
            rows=problem.rows,
            matrix=matrix,
            weights=(1.0 - share) * problem.row_shares(),
            margins=_margins_beside_rows(problem) if share > 0 else {},
            share=share,
            order=order,
            tolerance=tolerance,
        ),
        problem.memory_budget,
        problem.report,
    )
    subsets = downward_closure(projection.effects.tensors)
    axes = {subset: problem.grid.subset_axes(subset) for subset in subsets}
    check_memory(axes.values(), problem.model.n_outputs, problem.memory_budget)
    problem.report("weighing cells", 0, 0)
    mass = problem.weighting.tables(problem.grid, problem.rows, subsets)
    purified = purify_effects(
        projection.effects, mass, axes, method="exact", progress=problem.report
    )
    inputs = problem.function.inputs
    tables = table_components(purified, mass, axes, inputs)
    problem.report("evaluating the rows", 0, 0)
    on_grid = dict.fromkeys(range(1, problem.depth + 1), problem.rows)
    parts = (
        (subset, values_on_rows(table, on_grid))
        for subset, table in tables.items()
        if problem.wanted.keeps(subset)
    )
    explained = measure_explained(
        projection.margin, problem.row_shares(), purified.intercept, parts
    )
    scale = largest_effect(purified.intercept, projection.effects.tensors.values())
    error = projection.error.tolist()
    facts = {
        "trees": problem.ensemble.n_trees,
        "solved_directly": projection.n_direct,
        "steps": projection.steps,
        "undetermined": projection.undetermined,
        "converged": projection.converged,
        "error": error,
        "tolerance": tolerance,
        "r_squared": explained.share.tolist(),
    }
    return Result(
        purified.intercept,
        tables,
        Evidence(
            scale,
            purified,
            fitted_share=explained.share,
            fit_error=max(error) / (scale or 1.0),
            fit_unidentified=projection.undetermined,
            converged=projection.converged,
        ),
        Rest(problem.function, explained.rest_variance),
        explained.covariances if share == 0 else None,
        {"projection": facts},
    )


def _checked_order(order: int | None, most: int) -> int:
    if order is not None and order <= most:
        return order
    asked = "all that occur (order=None)" if order is None else f"{order}"
    raise InvalidInputError(
        f"features depend on each other, so the trees are projected on components of up to {most} "
        f"features, not {asked}: ask for order=2, and what lies above is the remainder; or for "
        'weights="independent", or method="exact" where its tables fit, which keep every order'
    )


def _margins_beside_rows(problem: Problem) -> dict[int, Array]:
    used = sorted({j for subset in problem.boxes.subsets for j in subset})
    weighting = problem.weighting.beside_rows
    tables = weighting.tables(problem.grid, problem.rows, [(j,) for j in used])
    return {j: tables[(j,)] for j in used}
