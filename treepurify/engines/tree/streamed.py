"""Purify under rows that come in batches: what the rows are asked for, pass by pass.

Where tables of cells are all that a route reads of the rows, these are counted in one pass, and the
result is that of the same rows in memory. Where it reads the rows themselves, it gets a sample of
them; then the masses of its tables, and what its components explain, are measured on all rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import Result, finish
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.model_check import check_head
from treepurify.engines.common.problem import (
    Counted,
    Layout,
    Problem,
    Resolution,
    Wanted,
    lay_out,
)
from treepurify.engines.common.streamed_rows import count_stream
from treepurify.engines.tree.coarse_projection import (
    CoarseProjection,
    lay_out_coarse,
)
from treepurify.engines.tree.request import run_route
from treepurify.engines.tree.routes import (
    Method,
    Route,
    TreeProjection,
    choose_coarse,
    choose_route,
)
from treepurify.engines.tree.union_grid import subsets_of_tables
from treepurify.grids.grid import MissingCells, Subset
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import sample_stream
from treepurify.weights import Uniform, Weighting
from treepurify.weights.cell_counts import CountedRows

__all__ = ["StreamTask", "purify_stream"]

_PASSES = (
    "three passes over the rows, one to draw a sample, one to count all of them, one to measure "
    "what is explained"
)
# A source that does not say how many rows it has is taken to have so many.
_MANY_ROWS = 1 << 24


@dataclass(frozen=True, eq=False)
class StreamTask:
    """What `purify` was asked for, for rows that come in batches.

    Parameters
    ----------
    model : object
        What the caller passed.
    parsed : TreeEnsemble or AdditiveTables
        The parsed model.
    stream : RowStream
        The rows.
    weighting : Weighting
        The measure.
    wanted : Wanted
        Which effects are kept apart.
    method, resolution, missing_cells, memory_budget
        See `purify`.
    report : callable
        Progress.
    measure_facts : mapping of str to object
        What the diagnostics say of the measure.
    note : str
        What a reader of the certificate must know of it.
    """

    model: Any
    parsed: Model
    stream: RowStream
    weighting: Weighting
    wanted: Wanted
    method: Method
    resolution: Resolution
    missing_cells: MissingCells
    memory_budget: int
    report: ProgressReport
    measure_facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def purify_stream(task: StreamTask) -> Decomposition:
    """Return the decomposition of a model under all rows of a stream.

    Raises
    ------
    InvalidInputError
        If rows cannot be read, or more passes are needed than the source allows.
    """
    weighting, stream = task.weighting, task.stream
    check = check_head(task.model, task.parsed, stream)
    coarse = choose_coarse(
        task.method, task.parsed, stream.source.n_rows or _MANY_ROWS, weighting, task.wanted.order
    )
    route: Route = "coarse"
    layout: Layout | None = None
    if coarse is None:
        layout = _wide_layout(task)
        route = choose_route(
            task.method, layout, weighting, task.wanted.order, task.parsed, task.memory_budget
        )
    if layout is None or route == "projection":
        result, layout = _project(task, coarse)
    else:
        result, layout = _purify_counted(task, layout, route)
    facts = {"model": task.parsed.facts(), "method": route, "resolution": layout.resolution}
    facts |= task.measure_facts
    is_rows = weighting.share_of_rows == 1.0 and stream.source.can_repeat
    return finish(
        ParsedFunction(task.parsed),
        replace(result, diagnostics=facts | result.diagnostics),
        engine="tree",
        measure=layout.measure,
        wanted=task.wanted,
        is_product=weighting.is_product,
        stream=stream if is_rows and result.rest is None else None,
        check=check,
        note=task.note,
    )


def _wide_layout(task: StreamTask) -> Layout:
    """Return the model on its grids before rows are read, with all special cells.

    Later rows may have missing values and unknown categories.
    """
    wide = lay_out(
        task.parsed, None, None, Uniform(), task.resolution, "always", task.memory_budget
    )
    n_rows = task.stream.source.n_rows or _MANY_ROWS
    rows = {size: CountedRows(grid, {}, n_rows) for size, grid in wide.grids.items()}
    return replace(wide, rows=rows)


def _purify_counted(task: StreamTask, wide: Layout, route: Route) -> tuple[Result, Layout]:
    """Return the result of a route that reads counts only, after one pass."""
    subsets: list[Subset] = [(j,) for j in task.parsed.used_features]
    if route != "closed-form":
        subsets = subsets_of_tables(wide, task.parsed, task.memory_budget)
    if task.weighting.is_product:
        subsets = sorted({(j,) for subset in subsets for j in subset})
    counted = _count(task, wide, subsets)
    layout = lay_out(
        task.parsed,
        None,
        None,
        task.weighting,
        "term" if wide.resolution == "term" else "union",
        task.missing_cells,
        task.memory_budget,
        counted,
    )
    problem = Problem(
        task.parsed,
        layout,
        None,
        task.weighting,
        task.wanted,
        task.memory_budget,
        task.report,
        stream=task.stream,
    )
    result = run_route(problem, route, task.method, None)
    read = {"source": task.stream.source.describe(), "passes": 1, "sampled_rows": 0}
    facts = {"rows": counted[1].n_rows, "stream": read}
    return replace(result, diagnostics=facts | result.diagnostics), layout


def _count(task: StreamTask, wide: Layout, subsets: list[Subset]) -> Counted:
    """Return the rows counted on the grid of each order, in one pass."""
    grids = {id(grid): grid for grid in wide.grids.values()}
    by_grid = {}
    for key, grid in grids.items():
        sizes = {size for size, one in wide.grids.items() if one is grid}
        by_grid[key] = [s for s in subsets if len(s) in sizes or not s]
    counted = count_stream(
        task.stream,
        [(grids[key], of_grid) for key, of_grid in by_grid.items()],
        task.report,
        keep_special=task.missing_cells == "always",
    )
    known = dict(zip(grids, counted, strict=True))
    return {size: known[id(grid)] for size, grid in wide.grids.items()}


def _project(task: StreamTask, coarse: CoarseProjection | None) -> tuple[Result, Layout]:
    """Return the result of a projection on a sample, purified and measured on all rows."""
    check_repeats(task.stream.source, _PASSES)
    projection = task.method if isinstance(task.method, TreeProjection) else TreeProjection()
    settings = projection if coarse is None else coarse
    sample = sample_stream(
        task.stream, settings.sample_rows, settings.seed, task.memory_budget, task.report
    )
    if coarse is None:
        layout = lay_out(
            task.parsed,
            sample.columns,
            sample.weights,
            task.weighting,
            task.resolution,
            "always",
            task.memory_budget,
        )
    else:
        layout = lay_out_coarse(
            task.parsed, sample.columns, sample.weights, task.weighting, "always", coarse
        )
    problem = Problem(
        task.parsed,
        layout,
        sample.columns,
        task.weighting,
        task.wanted,
        task.memory_budget,
        task.report,
        stream=task.stream,
    )
    result = run_route(problem, "projection", projection, coarse)
    read = {
        "source": task.stream.source.describe(),
        "passes": 3,
        "sampled_rows": sample.columns.n_rows,
        "seed": settings.seed,
        "sample": "the projection of the trees",
        "all_rows": "the mass of every cell, purity, the share explained, covariances",
    }
    return replace(result, diagnostics={"stream": read} | result.diagnostics), layout
