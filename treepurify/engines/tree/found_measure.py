"""The rows that represent the distribution, and the measure that is found from them.

A measure of the values of rows, such as smoothed copies, is found on a sample of rows in batches:
all rows where there are not more. A measure that takes many rows as they are, such as `Auto`,
reads the first ones, and counts all rows where there are more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from treepurify.progress import ProgressReport
from treepurify.rows.reduction import CopiedRows, RowStream, few_rows, rows_in_memory
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import sample_stream
from treepurify.weights import Weighting
from treepurify.weights.weighting import FittedMeasure

__all__ = ["MEASURE_ROWS", "FoundMeasure", "find_measure"]

MEASURE_ROWS = 1 << 17
"""Most rows from which a measure is found that needs their values."""
_SEED = 0
_PASSES = (
    "two passes over the rows, one to estimate the distribution on a sample and one to compare the "
    "model with its library"
)


@dataclass(frozen=True, eq=False)
class FoundMeasure:
    """A measure, and the rows that stand for it.

    Parameters
    ----------
    weighting : Weighting
        The measure.
    rows : RowStream, optional
        The rows: those that were given, or copies of them.
    facts : mapping of str to object
        What the diagnostics say of both.
    note : str
        What a reader of the certificate must know.
    given : CopiedRows, optional
        The rows that were given, where `rows` are copies of them.
    n_rows : int, optional
        How many were given, where they were read.
    """

    weighting: Weighting
    rows: RowStream | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    given: CopiedRows | None = None
    n_rows: int | None = None


def find_measure(
    rows: RowStream | None,
    used: Sequence[int],
    weighting: Weighting,
    memory_budget: int,
    report: ProgressReport,
) -> FoundMeasure:
    """Return what a weighting makes of the rows.

    Parameters
    ----------
    rows : RowStream, optional
        The rows.
    used : sequence of int
        Features that the model uses: the others change nothing.
    weighting : Weighting
        The weighting.
    memory_budget : int
        Bytes that other rows may take.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If rows of which a sample is needed can be read only once, or cannot be read.
    MemoryBudgetError
        If the sample, or the rows that represent the distribution, would not fit.
    """
    if rows is None:
        return FoundMeasure(weighting.without_rows(), None)
    whole = rows.whole
    if whole is None and weighting.plenty is not None:
        whole = few_rows(rows, weighting.plenty)
        if whole is None:
            measure = weighting.of_many_rows()
            return FoundMeasure(measure.weighting, rows, _facts(measure), measure.note)
        in_memory = rows_in_memory(whole.columns, whole.weights)
        found = _of_table(in_memory, whole, used, weighting, memory_budget)
        return replace(found, facts={**found.facts, "stream": _reading(rows, len(whole))})
    if whole is not None:
        return _of_table(rows, whole, used, weighting, memory_budget)
    if weighting.counts_are_enough:
        return FoundMeasure(weighting, rows)
    return _of_sample(rows, weighting, memory_budget, report)


def _of_table(
    rows: RowStream,
    whole: RowBatch,
    used: Sequence[int],
    weighting: Weighting,
    memory_budget: int,
) -> FoundMeasure:
    """Return what a weighting makes of rows in memory."""
    columns = whole.columns.only(used) if weighting.needs_values else whole.columns
    measure = weighting.fitted(columns, whole.weights, memory_budget)
    given = _given(rows, measure)
    if measure.columns is not columns or measure.row_weights is not whole.weights:
        rows = _copies(measure)
    n_rows = len(whole)
    return FoundMeasure(measure.weighting, rows, _facts(measure), measure.note, given, n_rows)


def _of_sample(
    rows: RowStream, weighting: Weighting, memory_budget: int, report: ProgressReport
) -> FoundMeasure:
    """Return what a weighting makes of a sample of rows in batches."""
    check_repeats(rows.source, _PASSES)
    sample = sample_stream(rows, MEASURE_ROWS, _SEED, memory_budget, report)
    measure = weighting.fitted(sample.columns, sample.weights, memory_budget)
    facts = _facts(measure)
    n_sampled, note = sample.columns.n_rows, measure.note
    if n_sampled < sample.n_rows:
        how = (
            f"The distribution was estimated from a sample of {n_sampled} of {sample.n_rows} rows."
        )
        note = f"{note} {how}".strip()
    read = {**_reading(rows, n_sampled), "seed": _SEED}
    facts = {**facts, "stream": read}
    given = _given(rows, measure)
    return FoundMeasure(measure.weighting, _copies(measure), facts, note, given, sample.n_rows)


def _reading(rows: RowStream, n_rows: int) -> dict[str, Any]:
    """Return what the diagnostics say of rows in batches that were read in one pass."""
    return {
        "source": rows.source.describe(),
        "passes": 1,
        "sampled_rows": n_rows,
        "sample": "the distribution, and everything computed from it",
    }


def _facts(measure: FittedMeasure) -> dict[str, Any]:
    return {"measure": dict(measure.facts)} if measure.facts else {}


def _given(rows: RowStream, measure: FittedMeasure) -> CopiedRows | None:
    return CopiedRows(rows, measure.copies) if measure.copies > 1 else None


def _copies(measure: FittedMeasure) -> RowStream:
    """Return the rows that stand for a measure in place of those that were given."""
    if measure.columns is None:
        raise TypeError("a measure of rows in memory has rows")
    return rows_in_memory(measure.columns, measure.row_weights)
