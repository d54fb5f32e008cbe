"""From a request to effects: the measure, the route, the cells and the run.

A weighting that needs the values of rows, such as smoothed copies, is fitted to a sample of rows in
batches: all rows where there are not more. One that takes many rows as they are, such as `Auto`,
reads the first ones. Where a route reads nothing but tables of cells, rows in batches are counted
in one pass, and the result is that of the same rows in memory; else it gets a sample of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treepurify.engines.common.explained import count_in_cells
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import NOT_LAID_OUT, Problem, Resolution, lay_out
from treepurify.engines.tree.exact import subsets_of_tables
from treepurify.engines.tree.routes import (
    TreeRoute,
    choose_route,
)
from treepurify.engines.tree.second_fit import SourceRows, source_rows
from treepurify.errors import MemoryBudgetError
from treepurify.grids.grid import Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.moments import GRID_SEED, LOOKED_ROWS
from treepurify.rows.reduction import CopiedRows, RowStream, few_rows, rows_in_memory
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import StreamSample, sample_stream
from treepurify.weights.cell_counts import CountedRows
from treepurify.weights.distributions import FittedMeasure

MEASURE_ROWS = 1 << 17
"""Most rows from which a measure is found that needs their values."""
_SEED = 0
_EVERYTHING = "the distribution, and everything computed from it"
_PAIR = 2
_PASSES_OF_A_MEASURE = (
    "two passes over the rows, one to estimate the distribution on a sample and one to compare the "
    "model with its library"
)
_PASSES_OF_A_FIT = (
    "three passes over the rows, one to draw a sample, one to count all rows and one to measure "
    "the explained share of the variance"
)


def weigh(problem: Problem, used: Sequence[int]) -> Problem:
    """Return a problem under what its weighting makes of the rows.

    Parameters
    ----------
    problem : Problem
        With the weighting and the rows that were given.
    used : sequence of int
        Features that models use: the others change nothing.

    Raises
    ------
    InvalidInputError
        If rows of which a sample is needed can be read only once, or cannot be read.
    MemoryBudgetError
        If the sample, or the rows that represent the distribution, would not fit.
    """
    rows, weighting, budget = problem.stream, problem.weighting, problem.memory_budget
    if rows is None:
        return replace(problem, weighting=weighting.fitted(None, None, budget).weighting)
    whole = rows.whole
    if whole is None and weighting.plenty is None:
        return problem if weighting.counts_are_enough else _weigh_sample(problem, rows)
    if whole is None:
        whole = few_rows(rows, weighting.plenty or 0)
        if whole is None:
            return _under(problem, weighting.fitted(None, None, budget), rows, rows)
        problem = replace(problem, facts=_reading(rows, len(whole), sample=_EVERYTHING))
        rows = rows_in_memory(whole.columns, whole.weights)
    columns = whole.columns.only(used)
    measure = weighting.fitted(columns, whole.weights, budget)
    is_same = measure.columns is columns and measure.row_weights is whole.weights
    stream = rows if is_same else _rows_of(measure)
    return _under(replace(problem, n_rows=len(whole)), measure, stream, rows)


def _weigh_sample(problem: Problem, rows: RowStream) -> Problem:
    """Return the problem under what its weighting makes of a sample of rows in batches."""
    check_repeats(rows.source, _PASSES_OF_A_MEASURE)
    budget = problem.memory_budget
    sample = sample_stream(rows, MEASURE_ROWS, _SEED, budget, problem.report)
    n_sampled = sample.columns.n_rows
    measure = problem.weighting.fitted(sample.columns, sample.weights, budget)
    if n_sampled < sample.n_rows:
        how = f"a sample of {n_sampled} of {sample.n_rows} rows"
        note = f"{measure.note} The distribution was estimated from {how}.".strip()
        measure = replace(measure, note=note)
    facts = _reading(rows, n_sampled, sample=_EVERYTHING, seed=_SEED)
    problem = replace(problem, n_rows=sample.n_rows, facts=facts)
    return _under(problem, measure, _rows_of(measure), rows)


def _under(problem: Problem, measure: FittedMeasure, rows: RowStream, given: RowStream) -> Problem:
    """Return the problem under a measure, for which some rows stand in place of those given."""
    facts = {"measure": dict(measure.facts)} if measure.facts else {}
    return replace(
        problem,
        weighting=measure.weighting,
        stream=rows,
        copied=CopiedRows(given, measure.copies) if measure.copies > 1 else None,
        facts={**facts, **problem.facts},
        note=measure.note,
    )


def _reading(rows: RowStream, n_sampled: int, passes: int = 1, **more: Any) -> dict[str, Any]:
    """Return what the diagnostics say of how rows in batches were read."""
    about = {"source": rows.source.describe(), "passes": passes, "sampled_rows": n_sampled}
    return {"stream": {**about, **more}}


def _rows_of(measure: FittedMeasure) -> RowStream:
    """Return the rows that stand for a measure in place of those that were given."""
    if measure.columns is None:
        raise TypeError("a measure of rows in memory has rows")
    return rows_in_memory(measure.columns, measure.row_weights)


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
    problem, route = choose_route(replace(problem, source_rows=_source_rows(problem)))
    stream = problem.stream
    if stream is not None and not stream.is_table:
        prepared = _sampled if route.reads_rows(problem) else _counted
        problem = prepared(problem, stream, route)
    elif problem.layout is NOT_LAID_OUT:
        problem = replace(problem, layout=route.lay_out(problem))
    result = route.run(problem)
    if isinstance(problem.rows, CountedRows):
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
    return source_rows(table.columns, table.weights, problem.copied, model.used_features)


def _sampled(problem: Problem, stream: RowStream, route: TreeRoute) -> Problem:
    """Return the problem for a sample of rows in batches, which are fitted one by one."""
    check_repeats(stream.source, _PASSES_OF_A_FIT)
    asked, usual = problem.method, route.options
    settings = asked if isinstance(asked, type(usual)) else usual
    sample = sample_stream(
        stream, settings.sample_rows, settings.seed, problem.memory_budget, problem.report
    )
    is_whole = sample.columns.n_rows == sample.n_rows
    reading = _reading(
        stream,
        sample.columns.n_rows,
        1 if is_whole else 3,
        seed=settings.seed,
        sample="the projection of the trees",
        all_rows="the distribution, purity, the explained share, covariances",
    )
    drawn = replace(
        problem,
        stream=rows_in_memory(sample.columns, sample.weights),
        n_rows=sample.n_rows if is_whole else problem.n_rows,
        all_rows=None if is_whole else stream,
        missing_cells=problem.missing_cells if is_whole else "always",
        facts={**problem.facts, **reading},
    )
    return replace(drawn, source_rows=_source_rows(drawn), layout=route.lay_out(drawn))


def _counted(problem: Problem, stream: RowStream, route: TreeRoute) -> Problem:
    """Return the problem with the rows in batches counted in its cells, in one pass."""
    is_product, wide = problem.weighting.is_product, problem.layout
    subsets: list[Subset] = [(j,) for j in problem.model.used_features]
    if not route.takes_margins:
        subsets = subsets_of_tables(problem)
    if is_product:
        subsets = sorted({(j,) for subset in subsets for j in subset})
    grids = {id(grid): grid for grid in wide.grids.values()}
    of_grid = {id(grid): own for grid, _, own in wide.by_grid(subsets)}
    found = count_in_cells(
        stream,
        # The mass of a product on a grid takes the margins on that grid.
        [(grid, subsets if is_product else of_grid.get(key, [])) for key, grid in grids.items()],
        problem.report,
        keep_special=problem.missing_cells == "always",
        sample=_sample_along(problem, stream, subsets),
    )
    on_grid = dict(zip(grids, found, strict=True))
    counted = {size: on_grid[id(grid)] for size, grid in wide.grids.items()}
    resolution: Resolution = "term" if wide.resolution == "term" else "union"
    return replace(
        problem,
        layout=lay_out(replace(problem, resolution=resolution), counted),
        n_rows=counted[1].n_rows,
        facts={**problem.facts, **_reading(stream, 0)},
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
