"""What is asked of `purify`; a model laid out on its cells with a route, and that route, run."""

from dataclasses import dataclass
from typing import Any

from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import (
    Layout,
    Problem,
    Resolution,
    Wanted,
    lay_out,
)
from treepurify.engines.tree.closed_form import purify_by_closed_form
from treepurify.engines.tree.coarse_projection import (
    CoarseProjection,
    lay_out_coarse,
    purify_on_coarse_cells,
)
from treepurify.engines.tree.projection import purify_by_projection
from treepurify.engines.tree.routes import (
    Method,
    Route,
    TreeProjection,
    choose_coarse,
    choose_route,
)
from treepurify.engines.tree.union_grid import purify_on_union_grid
from treepurify.grids.grid import MissingCells
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.remainder import Function
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.spread import Spread
from treepurify.weights import Weighting

__all__ = ["Outcome", "Plan", "Request", "plan", "purify_model", "run", "run_route"]


@dataclass(frozen=True, eq=False)
class Request:
    """What a caller asks of `purify`, read and checked, but for the model and what is kept apart.

    The fields are the arguments of `purify`; `columns` and `row_weights` are the rows that stand
    for the measure.
    """

    columns: Columns | None
    row_weights: RowWeights
    weighting: Weighting
    order: int | None
    method: Method
    resolution: Resolution
    missing_cells: MissingCells
    memory_budget: int
    report: ProgressReport


@dataclass(frozen=True, eq=False)
class Plan:
    """A model on its cells, and the route by which it is purified."""

    model: Model
    layout: Layout
    route: Route
    coarse: CoarseProjection | None

    def facts(self) -> dict[str, Any]:
        """Return what the diagnostics say of it."""
        return {
            "model": self.model.facts(),
            "method": self.route,
            "resolution": self.layout.resolution,
        }


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a request.

    Parameters
    ----------
    result : Result
        The components.
    layout : Layout
        Their cells.
    facts : dict
        What the diagnostics say.
    spread : Spread, optional
        The components of several trainings.
    """

    result: Result
    layout: Layout
    facts: dict[str, Any]
    spread: Spread | None = None


def purify_model(model: Model, request: Request, wanted: Wanted) -> Outcome:
    """Purify one model by the route that fits it; see `plan` and `run`."""
    planned = plan(model, request)
    return Outcome(run(planned, request, wanted), planned.layout, planned.facts())


def plan(model: Model, request: Request) -> Plan:
    """Return the cells and the route of a model.

    Raises
    ------
    InvalidInputError
        If the method does not fit the measure or the model.
    MemoryBudgetError
        If the model does not fit the budget.
    """
    asked = request
    n_rows = 0 if asked.columns is None else asked.columns.n_rows
    coarse = choose_coarse(asked.method, model, n_rows, asked.weighting, asked.order)
    rows = (asked.columns, asked.row_weights, asked.weighting)
    if coarse is not None:
        layout = lay_out_coarse(model, *rows, asked.missing_cells, coarse)
        return Plan(model, layout, "coarse", coarse)
    layout = lay_out(model, *rows, asked.resolution, asked.missing_cells, asked.memory_budget)
    route = choose_route(
        asked.method, layout, asked.weighting, asked.order, model, asked.memory_budget
    )
    return Plan(model, layout, route, None)


def run(planned: Plan, request: Request, wanted: Wanted, guide: Function | None = None) -> Result:
    """Return the components of a model by the planned route.

    Parameters
    ----------
    planned : Plan
        The model and its route.
    request : Request
        What was asked for; the plan was made of it.
    wanted : Wanted
        Which effects are kept apart.
    guide : Function, optional
        Decides in place of the model how coarse cells join categories.
    """
    asked = request
    problem = Problem(
        planned.model,
        planned.layout,
        asked.columns,
        asked.weighting,
        wanted,
        asked.memory_budget,
        asked.report,
        guide,
    )
    return run_route(problem, planned.route, asked.method, planned.coarse)


def run_route(
    problem: Problem, route: Route, method: Method, coarse: CoarseProjection | None
) -> Result:
    """Return the components of a problem by a route; `method` may have its settings."""
    if route == "closed-form":
        return purify_by_closed_form(problem)
    if coarse is not None:
        return purify_on_coarse_cells(problem, coarse)
    if route == "projection":
        projection = method if isinstance(method, TreeProjection) else TreeProjection()
        return purify_by_projection(problem, projection.tolerance)
    return purify_on_union_grid(problem, "mass-moving" if route == "mass-moving" else "exact")
