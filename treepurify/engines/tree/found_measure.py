"""The measure of a problem: what a weighting makes of the rows.

A measure of the values of rows, such as smoothed copies, is found on a sample of rows in batches:
all rows where there are not more. A measure that takes many rows as they are, such as `Auto`,
reads the first ones, and counts all rows where there are more.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treepurify.engines.common.problem import Problem
from treepurify.rows.reduction import CopiedRows, RowStream, few_rows, rows_in_memory
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import sample_stream
from treepurify.weights.weighting import FittedMeasure

__all__ = ["MEASURE_ROWS", "weigh"]

MEASURE_ROWS = 1 << 17
"""Most rows from which a measure is found that needs their values."""
_SEED = 0
_PASSES = (
    "two passes over the rows, one to estimate the distribution on a sample and one to compare the "
    "model with its library"
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
    rows, weighting = problem.stream, problem.weighting
    problem = replace(problem, trusts_rows=weighting.plenty is None)
    if rows is None:
        fitted = weighting.fitted(None, None, problem.memory_budget)
        return replace(problem, weighting=fitted.weighting)
    whole = rows.whole
    if whole is not None:
        return _of_table(problem, rows, whole, used)
    if weighting.plenty is not None:
        whole = few_rows(rows, weighting.plenty)
        if whole is None:
            fitted = weighting.fitted(None, None, problem.memory_budget)
            return _under(problem, fitted, rows)
        found = _of_table(problem, rows_in_memory(whole.columns, whole.weights), whole, used)
        return replace(found, facts={**found.facts, "stream": _reading(rows, len(whole))})
    return problem if weighting.counts_are_enough else _of_sample(problem, rows)


def _of_table(problem: Problem, rows: RowStream, whole: RowBatch, used: Sequence[int]) -> Problem:
    """Return the problem under rows in memory."""
    weighting = problem.weighting
    columns = whole.columns.only(used)
    measure = weighting.fitted(columns, whole.weights, problem.memory_budget)
    is_same = measure.columns is columns and measure.row_weights is whole.weights
    problem = _under(problem, measure, rows if is_same else _rows_of(measure), rows)
    return replace(problem, n_rows=len(whole))


def _of_sample(problem: Problem, rows: RowStream) -> Problem:
    """Return the problem under a sample of rows in batches."""
    check_repeats(rows.source, _PASSES)
    sample = sample_stream(rows, MEASURE_ROWS, _SEED, problem.memory_budget, problem.report)
    n_sampled = sample.columns.n_rows
    measure = problem.weighting.fitted(sample.columns, sample.weights, problem.memory_budget)
    problem = _under(problem, measure, _rows_of(measure), rows)
    note = problem.note
    if n_sampled < sample.n_rows:
        how = f"a sample of {n_sampled} of {sample.n_rows} rows"
        note = f"{note} The distribution was estimated from {how}.".strip()
    reading = {**_reading(rows, n_sampled), "seed": _SEED}
    facts = {**problem.facts, "stream": reading}
    return replace(problem, n_rows=sample.n_rows, facts=facts, note=note)


def _under(
    problem: Problem, measure: FittedMeasure, rows: RowStream, given: RowStream | None = None
) -> Problem:
    """Return the problem under a measure, for which some rows stand in place of those given."""
    return replace(
        problem,
        weighting=measure.weighting,
        stream=rows,
        copied=CopiedRows(given, measure.copies) if given and measure.copies > 1 else None,
        facts={"measure": dict(measure.facts)} if measure.facts else {},
        note=measure.note,
    )


def _reading(rows: RowStream, n_rows: int) -> dict[str, Any]:
    """Return what the diagnostics say of rows in batches that were read in one pass."""
    return {
        "source": rows.source.describe(),
        "passes": 1,
        "sampled_rows": n_rows,
        "sample": "the distribution, and everything computed from it",
    }


def _rows_of(measure: FittedMeasure) -> RowStream:
    """Return the rows that stand for a measure in place of those that were given."""
    if measure.columns is None:
        raise TypeError("a measure of rows in memory has rows")
    return rows_in_memory(measure.columns, measure.row_weights)
