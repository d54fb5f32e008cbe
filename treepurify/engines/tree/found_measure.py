"""The rows that stand for the measure of a purification, and the measure that is found from them.

How much rows are smoothed, and by what, is found on a sample of rows in batches: all rows where
there are not more. Where the measure that comes of it only counts rows, all of them are counted;
where smoothed copies of rows are the measure, they are copies of the sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from treepurify.engines.common.inputs import fit_measure
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream, rows_in_memory
from treepurify.rows.sources import check_repeats
from treepurify.rows.stream_sample import sample_stream
from treepurify.weights import Weighting
from treepurify.weights.weighting import FittedMeasure

__all__ = ["MEASURE_ROWS", "FoundMeasure", "find_measure"]

MEASURE_ROWS = 1 << 17
"""Most rows from which a measure is found; with this number, `Auto` takes the rows as they are."""
_SEED = 0
_PASSES = "two passes over the rows, one to find the measure on a sample and one to count all rows"


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
    """

    weighting: Weighting
    rows: RowStream | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def find_measure(
    rows: RowStream | None, weighting: Weighting, memory_budget: int, report: ProgressReport
) -> FoundMeasure:
    """Return what a weighting makes of the rows.

    Raises
    ------
    InvalidInputError
        If rows of which a sample is needed can be read only once, or cannot be read.
    MemoryBudgetError
        If the sample, or the rows that stand for the measure, would not fit.
    """
    if rows is None or rows.whole is not None:
        return _of_table(rows, weighting, memory_budget)
    if weighting.counts_are_enough:
        return FoundMeasure(weighting, rows)
    check_repeats(rows.source, _PASSES)
    sample = sample_stream(rows, MEASURE_ROWS, _SEED, memory_budget, report)
    measure = weighting.fitted(sample.columns, sample.weights, memory_budget)
    facts: dict[str, Any] = {"measure": dict(measure.facts)} if measure.facts else {}
    n_sampled, note = sample.columns.n_rows, measure.note
    is_all = n_sampled == sample.n_rows
    if not is_all and measure.columns is sample.columns and measure.weighting.counts_are_enough:
        how = (
            f"How much is smoothed was found on a sample of {n_sampled} of {sample.n_rows} rows; "
            "the measure counts all of them."
        )
        return FoundMeasure(measure.weighting, rows, facts, f"{note} {how}".strip())
    if not is_all:
        how = f"The measure was made from a sample of {n_sampled} of {sample.n_rows} rows."
        note = f"{note} {how}".strip()
    read = {
        "source": rows.source.describe(),
        "passes": 1,
        "sampled_rows": n_sampled,
        "seed": _SEED,
        "sample": "the measure, and all that refers to it",
    }
    facts = {"rows": sample.n_rows, **facts, "stream": read}
    return FoundMeasure(measure.weighting, _copies(measure), facts, note)


def _of_table(rows: RowStream | None, weighting: Weighting, memory_budget: int) -> FoundMeasure:
    """Return what a weighting makes of rows in memory, or of none."""
    whole = None if rows is None else rows.whole
    columns, weights = (None, None) if whole is None else (whole.columns, whole.weights)
    measure = fit_measure(columns, weights, weighting, memory_budget)
    if measure.columns is not columns or measure.row_weights is not weights:
        rows = _copies(measure)
    return FoundMeasure(measure.weighting, rows, measure.facts, measure.note)


def _copies(measure: FittedMeasure) -> RowStream | None:
    """Return the rows that stand for a measure in place of those that were given."""
    if measure.columns is None:
        return None
    return rows_in_memory(measure.columns, measure.row_weights)
