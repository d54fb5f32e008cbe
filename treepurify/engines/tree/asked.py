"""What is asked of `purify`; a model laid out on its cells with a route, and that route, run.

The exact route is here too: the tensors of a model, summed on the union grid of all cuts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from treepurify.effects.accumulate import accumulate
from treepurify.engines.common.all_rows import count_in_cells
from treepurify.engines.common.finish import Evidence, Result, table_components
from treepurify.engines.common.problem import (
    KeptTerms,
    Layout,
    Problem,
    Resolution,
    closed_subsets,
    lay_out,
)
from treepurify.engines.common.shared_mains import LOOKED_ROWS
from treepurify.engines.tree.closed_form import purify_by_closed_form
from treepurify.engines.tree.coarse_projection import (
    CoarseProjection,
    fit_on_coarse_cells,
    lay_out_coarse,
)
from treepurify.engines.tree.nearest_sum import (
    FitChoice,
    FittedTables,
    SourceRows,
    fitted_result,
    given_rows,
    low_orders,
    purify_jointly,
)
from treepurify.engines.tree.projection import project, project_with_mean
from treepurify.engines.tree.routes import (
    Method,
    Route,
    TreeProjection,
    choose_coarse,
    choose_route,
    may_fit_jointly,
)
from treepurify.errors import MemoryBudgetError
from treepurify.grid_rows import GRID_SEED
from treepurify.grids.grid import MissingCells, Subset
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.purification.cascade import SolveMethod, downward_closure, purify_effects
from treepurify.remainder import Function
from treepurify.rows.reduction import CopiedRows, RowStream, rows_in_memory
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import StreamSample, sample_stream
from treepurify.weights import Weighting
from treepurify.weights.cell_counts import CountedRows

__all__ = ["Asked", "Plan", "plan", "purify_model", "run", "run_with_mean"]

_PAIR = 2
_PASSES = (
    "three passes over the rows, one to draw a sample, one to count all rows and one to measure "
    "the explained share of the variance"
)


@dataclass(frozen=True, eq=False)
class Asked:
    """What a caller asks of `purify`, read and checked, except the model and the kept terms.

    The fields are the arguments of `purify`; `rows` are those that stand for the measure, and
    `copied` those that were given, where the former are copies of them. `trusts_rows` says that
    the caller has named the measure: then effects are those under these rows, not those that
    predict others best.
    """

    rows: RowStream | None
    weighting: Weighting
    order: int | None
    method: Method
    resolution: Resolution
    missing_cells: MissingCells
    memory_budget: int
    report: ProgressReport
    copied: CopiedRows | None = None
    trusts_rows: bool = True

    @property
    def table(self) -> RowBatch | None:
        """The rows, where they are in memory."""
        return None if self.rows is None else self.rows.whole


@dataclass(frozen=True, eq=False)
class Plan:
    """A model on its cells, and the route by which it is purified.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    layout : Layout
        Its cells.
    route : str
        The route.
    coarse : CoarseProjection, optional
        The settings of the route on coarse cells.
    rows : RowStream, optional
        The rows that represent the distribution.
    fitted : RowBatch, optional
        Those that a route reads one by one: all of them, or a sample.
    reading : mapping of str to object
        What the diagnostics say of how rows in batches were read.
    given : SourceRows, optional
        Which of the given rows the fitted ones are, where effects of a low order are fitted.
    """

    model: Model
    layout: Layout
    route: Route
    coarse: CoarseProjection | None = None
    rows: RowStream | None = None
    fitted: RowBatch | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    given: SourceRows | None = None
    n_rows: int | None = None

    @property
    def sampled_from(self) -> RowStream | None:
        """All rows, where those that are read one by one are a sample."""
        is_sample = self.rows is not None and self.fitted is not None and not self.rows.is_table
        return self.rows if is_sample else None

    def facts(self) -> dict[str, Any]:
        """Return what the diagnostics say of it."""
        return {
            "resolution": self.layout.resolution,
            **self.reading,
        }


def purify_model(model: Model, asked: Asked, kept_terms: KeptTerms) -> tuple[Plan, Result]:
    """Purify one model by the route that fits it; see `plan` and `run`."""
    planned = plan(model, asked)
    result = run(planned, asked, kept_terms)
    facts = planned.facts() | result.diagnostics
    n_rows = planned.n_rows if result.n_rows is None else result.n_rows
    return planned, replace(result, diagnostics=facts, n_rows=n_rows, method=planned.route)


def plan(model: Model, asked: Asked) -> Plan:
    """Return the cells and the route of a model.

    Where tables of cells are all that a route reads of rows in batches, these are counted in one
    pass, and the result is that of the same rows in memory. Where it reads the rows themselves, it
    gets a sample of them.

    Raises
    ------
    InvalidInputError
        If the method does not fit the measure or the model, rows cannot be read, or more passes
        are needed than the source allows.
    MemoryBudgetError
        If the model does not fit the budget.
    """
    n_rows = 0 if asked.rows is None else asked.rows.expected_rows
    coarse = choose_coarse(asked.method, model, n_rows, asked.weighting, asked.order)
    given = _given(model, asked)
    effective = n_rows if given is None else given.effective
    layout: Layout | None = None
    route: Route = "coarse"
    if coarse is None or may_fit_jointly(asked.method, model, asked.order, effective):
        layout = _laid_out(model, asked)
        wanted = asked.method, layout, asked.weighting, asked.order, model, asked.memory_budget
        route = choose_route(*wanted, effective)
        if coarse is not None and route != "joint":
            layout, route = None, "coarse"
        elif route == "joint":
            coarse = None
    if asked.rows is None or asked.rows.is_table:
        return replace(_planned(model, asked, layout, route, coarse), given=given)
    if layout is None or route in ("projection", "joint") or _is_cut_short(layout, route, asked):
        return _on_sample(model, asked, route, coarse)
    counted, facts = _counted(model, asked, layout, route)
    one = counted.rows[1]
    total = None if one is None else one.n_rows
    return Plan(model, counted, route, rows=asked.rows, reading=facts, n_rows=total)


def _given(model: Model, asked: Asked) -> SourceRows | None:
    """Return which of the given rows the rows in memory are, where a fit may ask for it."""
    table = asked.table
    if table is None or asked.order is None or asked.weighting.share_of_rows != 1.0:
        return None
    return given_rows(table.columns, table.weights, asked.copied, model.used_features)


def _is_cut_short(layout: Layout, route: Route, asked: Asked) -> bool:
    """Return whether exact effects of all orders are cut at a lower one under dependence."""
    is_low = asked.order is not None and asked.order < layout.depth
    return is_low and route == "exact" and asked.weighting.share_of_rows == 1.0


def _laid_out(model: Model, asked: Asked) -> Layout:
    given = (asked.resolution, asked.missing_cells, asked.memory_budget)
    return lay_out(model, asked.rows, asked.weighting, *given)


def _planned(
    model: Model,
    asked: Asked,
    layout: Layout | None,
    route: Route,
    coarse: CoarseProjection | None,
) -> Plan:
    """Return the plan of rows in memory, or of none."""
    fitted = asked.table
    if coarse is not None:
        layout = lay_out_coarse(model, fitted, asked.weighting, asked.missing_cells, coarse)
    elif layout is None:
        layout = _laid_out(model, asked)
    return Plan(model, layout, route, coarse, asked.rows, fitted)


def _on_sample(model: Model, asked: Asked, route: Route, coarse: CoarseProjection | None) -> Plan:
    """Return the plan of a projection of rows in batches: on a sample of them."""
    stream = asked.rows
    if stream is None:
        raise TypeError("there are no rows to draw a sample of")
    check_repeats(stream.source, _PASSES)
    settings = coarse or _projection_of(asked.method)
    sample = sample_stream(
        stream, settings.sample_rows, settings.seed, asked.memory_budget, asked.report
    )
    read = {
        "source": stream.source.describe(),
        "passes": 3,
        "sampled_rows": sample.columns.n_rows,
        "seed": settings.seed,
        "sample": "the projection of the trees",
        "all_rows": "the distribution, purity, the explained share, covariances",
    }
    drawn = replace(asked, rows=rows_in_memory(sample.columns, sample.weights))
    given = _given(model, drawn)
    if sample.columns.n_rows == sample.n_rows:
        of_all = _planned(model, drawn, None, route, coarse)
        facts = {"stream": read | {"passes": 1}}
        return replace(of_all, reading=facts, given=given, n_rows=sample.n_rows)
    of_sample = _planned(model, replace(drawn, missing_cells="always"), None, route, coarse)
    return replace(of_sample, rows=stream, reading={"stream": read}, given=given)


def _counted(
    model: Model, asked: Asked, wide: Layout, route: Route
) -> tuple[Layout, dict[str, Any]]:
    """Return the cells of a route that reads counts only, after one pass over rows in batches."""
    stream = asked.rows
    if stream is None:
        raise TypeError("there are no rows to count")
    subsets: list[Subset] = [(j,) for j in model.used_features]
    if route != "closed-form":
        subsets = _subsets_of_tables(wide, model, asked.memory_budget)
    if asked.weighting.is_product:
        subsets = sorted({(j,) for subset in subsets for j in subset})
    grids = {id(grid): grid for grid in wide.grids.values()}
    tables = []
    for key, grid in grids.items():
        sizes = {size for size, one in wide.grids.items() if id(one) == key}
        # The mass of a product on a grid takes the margins on that grid.
        wanted = [s for s in subsets if asked.weighting.is_product or len(s) in sizes or not s]
        tables.append((grid, wanted))
    found = count_in_cells(
        stream,
        tables,
        asked.report,
        keep_special=asked.missing_cells == "always",
        sample=_sample_along(asked, stream, subsets),
    )
    on_grid = dict(zip(grids, found, strict=True))
    counted = {size: on_grid[id(grid)] for size, grid in wide.grids.items()}
    resolution: Resolution = "term" if wide.resolution == "term" else "union"
    layout = lay_out(
        model,
        stream,
        asked.weighting,
        resolution,
        asked.missing_cells,
        asked.memory_budget,
        counted,
    )
    read = {"source": stream.source.describe(), "passes": 1, "sampled_rows": 0}
    return layout, {"stream": read}


def _sample_along(
    asked: Asked, stream: RowStream, subsets: Sequence[Subset]
) -> StreamSample | None:
    """Return the sample that the certificate will need, to be drawn while rows are counted.

    Concurvity of main effects is looked for where two features have no table together. What is
    purified does not need the sample, so that none is drawn where it would not fit.
    """
    used = stream.reader.used
    n_pairs = sum(len(subset) == _PAIR for subset in subsets)
    has_all_pairs = n_pairs == len(used) * (len(used) - 1) // _PAIR
    if asked.weighting.share_of_rows != 1.0 or has_all_pairs or not stream.source.can_repeat:
        return None
    sample = StreamSample(LOOKED_ROWS, used, GRID_SEED)
    try:
        sample.check(asked.memory_budget)
    except MemoryBudgetError:
        return None
    return sample


def run(
    planned: Plan,
    asked: Asked,
    kept_terms: KeptTerms,
    guide: Function | None = None,
    choice: FitChoice | None = None,
) -> Result:
    """Return the components of a model by the planned route.

    Parameters
    ----------
    planned : Plan
        The model and its route.
    asked : Asked
        The request that the plan was made for.
    kept_terms : KeptTerms
        The effects that become components.
    guide : Function, optional
        Decides in place of the model how coarse cells join categories.
    choice : FitChoice, optional
        How another training of the model was fitted.
    """
    problem = replace(_problem_of(planned, asked, kept_terms, guide), choice=choice)
    if planned.coarse is not None:
        return fitted_result(problem, fit_on_coarse_cells(problem, planned.coarse))
    tolerance = _projection_of(asked.method).tolerance
    if planned.route == "projection":
        return fitted_result(problem, project(problem, tolerance, planned.given))
    if planned.route == "joint":
        other = None
        if asked.method == "auto" and not asked.trusts_rows and planned.given is not None:
            other = partial(_without_joint_fit, problem, tolerance, planned.given)
        return purify_jointly(problem, planned.given, other)
    if planned.route == "closed-form":
        result = purify_by_closed_form(problem)
    else:
        is_paper = planned.route == "mass-moving"
        result = _purify_on_union_grid(problem, "mass-moving" if is_paper else "exact")
        if planned.given is not None and _is_cut_short(planned.layout, planned.route, asked):
            return fitted_result(problem, low_orders(problem, planned.given, result))
    counted = planned.layout.rows.get(1)
    if isinstance(counted, CountedRows):
        result = replace(result, n_counted=counted.n_counted)
    return result


def _without_joint_fit(problem: Problem, tolerance: float, given: SourceRows) -> FittedTables:
    """Return effects of a low order that were not fitted to the whole model at once."""
    if problem.layout.effects is None:
        return project(problem, tolerance, given)
    return low_orders(problem, given, _purify_on_union_grid(problem, "exact"))


def run_with_mean(
    stacked: Plan, of_mean: Plan, asked: Asked, kept_terms: KeptTerms
) -> tuple[Result, Result]:
    """Return the projected components of models side by side, and those of their mean.

    Both were planned on one grid; see `run`.
    """
    stack, mean = (_problem_of(each, asked, kept_terms) for each in (stacked, of_mean))
    tolerance = _projection_of(asked.method).tolerance
    n_outputs = mean.ensemble.n_outputs
    of_stack, fitted = project_with_mean(stack, n_outputs, tolerance, stacked.given)
    result = fitted_result(mean, fitted)
    return fitted_result(replace(stack, choice=result.choice), of_stack), result


def _problem_of(
    planned: Plan, asked: Asked, kept_terms: KeptTerms, guide: Function | None = None
) -> Problem:
    return Problem(
        planned.model,
        planned.layout,
        None if planned.fitted is None else planned.fitted.columns,
        asked.weighting,
        kept_terms,
        asked.memory_budget,
        asked.report,
        guide,
        planned.sampled_from,
    )


def _projection_of(method: Method) -> TreeProjection:
    """Return the settings of the projection of single trees."""
    return method if isinstance(method, TreeProjection) else TreeProjection()


def _purify_on_union_grid(problem: Problem, method: SolveMethod) -> Result:
    """Purify the model's tensors on their grids, after checking that all tables fit."""
    layout = problem.layout
    subsets = _subsets_of_tables(layout, problem.model, problem.memory_budget)
    axes = {subset: layout.grids[len(subset)].subset_axes(subset) for subset in subsets}
    effects = layout.effects
    if effects is None:
        effects = accumulate(problem.ensemble, problem.grid, problem.boxes, problem.memory_budget)
    problem.report("computing the distribution", 0, 0)
    mass = layout.mass(problem.weighting, subsets)
    purified = purify_effects(effects, mass, axes, method=method, progress=problem.report)
    return Result(
        purified.intercept,
        table_components(purified, mass, axes, problem.function.inputs, effects),
        Evidence(purified.scale, purified),
    )


def _subsets_of_tables(layout: Layout, model: Model, memory_budget: int) -> list[Subset]:
    """Return the subsets whose tables are purified: those of the model, and all their subsets.

    Raises
    ------
    MemoryBudgetError
        If these tables would not fit.
    """
    if layout.effects is not None:
        return downward_closure(layout.effects.tensors)
    paths = layout.leaf_boxes.subsets
    return closed_subsets(paths, layout.union_grid, model.n_outputs, memory_budget)
