"""A problem on its cells with a route to its effects, whichever way its rows are stored.

Where tables of cells are all that a route reads of rows in batches, these are counted in one pass,
and the result is that of the same rows in memory. Where it reads the rows themselves, it gets a
sample of them.
"""

from collections.abc import Sequence
from dataclasses import replace

from treepurify.engines.common.all_rows import count_in_cells
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import Problem, Resolution, lay_out
from treepurify.engines.tree.coarse_projection import lay_out_coarse
from treepurify.engines.tree.exact import subsets_of_tables
from treepurify.engines.tree.nearest_sum import SourceRows, given_rows
from treepurify.engines.tree.routes import (
    TreeRoute,
    choose_route,
    coarse_projection_of,
    projection_of,
    reads_rows,
)
from treepurify.errors import MemoryBudgetError
from treepurify.grids.grid import Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.moments import GRID_SEED, LOOKED_ROWS
from treepurify.rows.reduction import RowStream, rows_in_memory
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import StreamSample, sample_stream
from treepurify.weights.cell_counts import CountedRows

__all__ = ["solve"]

_PAIR = 2
_PASSES = (
    "three passes over the rows, one to draw a sample, one to count all rows and one to measure "
    "the explained share of the variance"
)


def solve(problem: Problem) -> tuple[Problem, Result]:
    """Return a problem on its cells, and the effects of its model by the route that fits it.

    Raises
    ------
    InvalidInputError
        If the method does not fit the measure or the model, rows cannot be read, or more passes
        are needed than the source allows.
    MemoryBudgetError
        If the model does not fit the budget.
    """
    problem, route = choose_route(replace(problem, given=_source_rows(problem)))
    stream, is_counted = problem.stream, False
    if stream is not None and not stream.is_table:
        is_counted = not reads_rows(problem, route)
        prepared = _counted if is_counted else _sampled
        problem = prepared(problem, stream, route)
    elif route.name == "coarse":
        problem = _on_cells_of(problem, route)
    result = route.run(problem)
    if is_counted and isinstance(problem.rows, CountedRows):
        result = replace(result, n_rows=problem.rows.n_counted)
    facts = {**problem.facts, "resolution": problem.layout.resolution, **result.diagnostics}
    n_rows = problem.n_rows if result.n_rows is None else result.n_rows
    return problem, replace(result, diagnostics=facts, n_rows=n_rows, method=route.name)


def _source_rows(problem: Problem) -> SourceRows | None:
    """Return which of the given rows the rows in memory are, where a fit may ask for it."""
    table, model, order = problem.table, problem.model, problem.kept_terms.order
    if table is None or order is None or problem.weighting.share_of_rows != 1.0:
        return None
    if isinstance(model, TreeEnsemble) and model.depth <= order:
        return None  # effects of that order are the whole model
    used = problem.model.used_features
    return given_rows(table.columns, table.weights, problem.copied, used)


def _on_cells_of(problem: Problem, route: TreeRoute) -> Problem:
    """Return the problem on the cells of a route for rows in memory."""
    if route.name != "coarse":
        return replace(problem, cells=lay_out(problem))
    settings = coarse_projection_of(problem)
    about = (problem.table, problem.weighting, problem.missing_cells, settings)
    return replace(problem, cells=lay_out_coarse(problem.model, *about))


def _sampled(problem: Problem, stream: RowStream, route: TreeRoute) -> Problem:
    """Return the problem for a sample of rows in batches, which are fitted one by one."""
    check_repeats(stream.source, _PASSES)
    settings = coarse_projection_of(problem) if route.name == "coarse" else projection_of(problem)
    sample = sample_stream(
        stream, settings.sample_rows, settings.seed, problem.memory_budget, problem.report
    )
    is_whole = sample.columns.n_rows == sample.n_rows
    reading = {
        "source": stream.source.describe(),
        "passes": 1 if is_whole else 3,
        "sampled_rows": sample.columns.n_rows,
        "seed": settings.seed,
        "sample": "the projection of the trees",
        "all_rows": "the distribution, purity, the explained share, covariances",
    }
    drawn = replace(
        problem,
        stream=rows_in_memory(sample.columns, sample.weights),
        facts={**problem.facts, "stream": reading},
    )
    drawn = replace(drawn, given=_source_rows(drawn))
    if is_whole:
        return replace(_on_cells_of(drawn, route), n_rows=sample.n_rows)
    return _on_cells_of(replace(drawn, all_rows=stream, missing_cells="always"), route)


def _counted(problem: Problem, stream: RowStream, route: TreeRoute) -> Problem:
    """Return the problem with the rows in batches counted in its cells, in one pass."""
    is_product, wide = problem.weighting.is_product, problem.layout
    subsets: list[Subset] = [(j,) for j in problem.model.used_features]
    if route.name != "closed-form":
        subsets = subsets_of_tables(problem)
    if is_product:
        subsets = sorted({(j,) for subset in subsets for j in subset})
    grids = {id(grid): grid for grid in wide.grids.values()}
    tables = []
    for key, grid in grids.items():
        sizes = {size for size, one in wide.grids.items() if id(one) == key}
        # The mass of a product on a grid takes the margins on that grid.
        wanted = [s for s in subsets if is_product or len(s) in sizes or not s]
        tables.append((grid, wanted))
    found = count_in_cells(
        stream,
        tables,
        problem.report,
        keep_special=problem.missing_cells == "always",
        sample=_sample_along(problem, stream, subsets),
    )
    on_grid = dict(zip(grids, found, strict=True))
    counted = {size: on_grid[id(grid)] for size, grid in wide.grids.items()}
    resolution: Resolution = "term" if wide.resolution == "term" else "union"
    reading = {"source": stream.source.describe(), "passes": 1, "sampled_rows": 0}
    return replace(
        problem,
        cells=lay_out(replace(problem, resolution=resolution), counted),
        n_rows=counted[1].n_rows,
        facts={**problem.facts, "stream": reading},
    )


def _sample_along(
    problem: Problem, stream: RowStream, subsets: Sequence[Subset]
) -> StreamSample | None:
    """Return the sample that the certificate will need, to be drawn while rows are counted.

    Concurvity of main effects is looked for where two features have no table together. What is
    purified does not need the sample, so that none is drawn where it would not fit.
    """
    used = stream.reader.used
    n_pairs = sum(len(subset) == _PAIR for subset in subsets)
    has_all_pairs = n_pairs == len(used) * (len(used) - 1) // _PAIR
    if problem.weighting.share_of_rows != 1.0 or has_all_pairs or not stream.source.can_repeat:
        return None
    sample = StreamSample(LOOKED_ROWS, used, GRID_SEED)
    try:
        sample.check(problem.memory_budget)
    except MemoryBudgetError:
        return None
    return sample
