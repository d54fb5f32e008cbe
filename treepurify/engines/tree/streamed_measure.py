"""Measures that are found from the values of rows, for rows that come in batches.

How much rows are smoothed, and by what, is found on a sample: all rows where there are not more.
Where the measure that comes of it only counts rows, all of them are counted; where smoothed copies
of rows are the measure, they are copies of the sample.
"""

from dataclasses import replace
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import finish
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.model_check import check_head
from treepurify.engines.tree.request import Request, purify_model
from treepurify.engines.tree.streamed import StreamTask, purify_stream
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import SampledRows, sample_stream
from treepurify.weights.weighting import FittedMeasure

__all__ = ["MEASURE_ROWS", "purify_under_sample"]

MEASURE_ROWS = 1 << 17
"""Most rows from which a measure is found; with so many, `Auto` takes the rows as they are."""
_SEED = 0
_PASSES = "two passes over the rows, one to find the measure on a sample and one to count all rows"


def purify_under_sample(task: StreamTask) -> Decomposition:
    """Return the decomposition under a measure that is found from a sample of the rows.

    Raises
    ------
    InvalidInputError
        If the rows can be read only once, or cannot be read.
    MemoryBudgetError
        If the sample would not fit.
    """
    check_repeats(task.stream.source, _PASSES)
    sample = sample_stream(task.stream, MEASURE_ROWS, _SEED, task.memory_budget, task.report)
    measure = task.weighting.fitted(sample.columns, sample.weights, task.memory_budget)
    facts = dict(task.measure_facts)
    if measure.facts:
        facts["measure"] = dict(measure.facts)
    is_all = sample.columns.n_rows == sample.n_rows
    if not is_all and measure.columns is sample.columns and measure.weighting.counts_are_enough:
        note = (
            f"How much is smoothed was found on a sample of {sample.columns.n_rows} of "
            f"{sample.n_rows} rows; the measure counts all of them."
        )
        note = f"{measure.note} {note}".strip()
        return purify_stream(
            replace(task, weighting=measure.weighting, measure_facts=facts, note=note)
        )
    return _in_memory(task, sample, measure, facts)


def _in_memory(
    task: StreamTask, sample: SampledRows, measure: FittedMeasure, facts: dict[str, Any]
) -> Decomposition:
    """Return the decomposition under rows in memory: those of the sample, or copies of them."""
    check = check_head(task.model, task.parsed, task.stream)
    request = Request(
        measure.columns,
        measure.row_weights,
        measure.weighting,
        task.wanted.order,
        task.method,
        task.resolution,
        task.missing_cells,
        task.memory_budget,
        task.report,
    )
    outcome = purify_model(task.parsed, request, task.wanted)
    note, n_sampled = measure.note, sample.columns.n_rows
    if n_sampled < sample.n_rows:
        note = f"{note} The measure was made from a sample of {n_sampled} of {sample.n_rows} rows."
    read = {
        "source": task.stream.source.describe(),
        "passes": 1,
        "sampled_rows": n_sampled,
        "seed": _SEED,
        "sample": "the measure, and all that refers to it",
    }
    about = {**outcome.facts, "rows": sample.n_rows, **facts, "stream": read}
    return finish(
        ParsedFunction(task.parsed),
        replace(outcome.result, diagnostics=about | outcome.result.diagnostics),
        engine="tree",
        measure=outcome.layout.measure,
        wanted=task.wanted,
        is_product=measure.weighting.is_product,
        rows=outcome.layout.measure_rows(measure.weighting),
        check=check,
        note=note.strip(),
    )
