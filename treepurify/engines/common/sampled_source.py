"""Rows that come in batches, for what needs a table of them: a sample, and a word about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import ResponseFunction, model_or_none
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.batches import Source
from treepurify.rows.reduction import RowsNote
from treepurify.rows.row_weights import RowWeights
from treepurify.rows.source_reader import model_table
from treepurify.rows.sources import check_repeats
from treepurify.rows.table_sample import sample_table
from treepurify.rows.tables import table_names

__all__ = [
    "FEW_SAMPLED_ROWS",
    "SAMPLED_ROWS",
    "SampledSource",
    "decompose_sample",
    "sample_source",
    "with_note",
]

SAMPLED_ROWS = 100_000
"""Most rows that are drawn where an engine needs a table."""
FEW_SAMPLED_ROWS = 20_000
"""Most rows that are drawn where each of them is exchanged with others."""
_PASSES = "two passes over the rows, one to draw a sample and one to read it"


@dataclass(frozen=True, eq=False)
class SampledSource:
    """A sample of a source.

    Parameters
    ----------
    table : DataFrame or ndarray
        The rows.
    weights : ndarray of float64, shape (n_sampled,), optional
        What each of them counts; None where all count the same.
    facts : dict
        What the diagnostics say of it.
    words : str
        How many rows of how many it has; empty where it has all.
    beside : Series, optional
        A column that is no feature, where one is wanted.
    """

    table: Any
    weights: RowWeights
    facts: dict[str, Any]
    words: str
    beside: Any = None

    @property
    def note(self) -> RowsNote:
        """What a reader must know of it."""
        return RowsNote({"stream": self.facts}, self.words)


def sample_source(
    model: Any,
    source: Source,
    feature_names: Sequence[str] | None,
    sample_weight: Any,
    most: int,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
    beside: str | None = None,
) -> SampledSource:
    """Return a weighted sample of a source, with the columns of a model or, of a function, all.

    Parameters
    ----------
    model : object
        A model that `parse_model` knows, an object with ``predict``, or a function.
    source : Source
        The rows.
    feature_names : sequence of str, optional
        Names of the features.
    sample_weight : str, optional
        Name of the column of weights.
    most, seed : int
        Most rows, and seed of the draws.
    memory_budget : int
        Bytes that the sample may take.
    report : callable
        Progress.
    beside : str, optional
        Name of a column that is no feature, and wanted too.

    Raises
    ------
    InvalidInputError
        If the rows can be read only once, or cannot be read.
    MemoryBudgetError
        If the sample would not fit.
    """
    check_repeats(source, _PASSES)
    behind = model.model_behind_response if isinstance(model, ResponseFunction) else model
    parsed = model_or_none(behind, feature_names)
    names, columns = source.names, None
    if parsed is not None and names is not None:
        weight = sample_weight if isinstance(sample_weight, str) else None
        head = model_table(source.head(), parsed.features, weight, beside)
        columns = None if head is None else tuple(table_names(head) or ())
    if columns is not None and beside is not None:
        columns = (*columns, beside)
    drawn = sample_table(source, columns, sample_weight, most, seed, memory_budget, report)
    table, kept = drawn.table, None
    if beside is not None:
        if names is None or beside not in names:
            raise InvalidInputError(f"{source.describe()} has no column {beside!r}")
        table, kept = table.drop(columns=beside), table[beside]
    n_sampled = len(drawn.table)
    words = f"a sample of {n_sampled} of {drawn.n_rows} rows" if n_sampled < drawn.n_rows else ""
    facts = {
        "source": source.describe(),
        "passes": 2,
        "rows": drawn.n_rows,
        "sampled_rows": n_sampled,
        "seed": seed,
        "sample": "everything",
    }
    return SampledSource(table, drawn.weights, facts, words, kept)


def decompose_sample(engine: Callable[..., Decomposition], sample: SampledSource) -> Decomposition:
    """Return what an engine makes of a sample, with a word about it.

    Parameters
    ----------
    engine : callable
        Is called with the table, and its weights as ``sample_weight``.
    sample : SampledSource
        The sample.
    """
    return with_note(engine(sample.table, sample_weight=sample.weights), sample.note)


def with_note(d: Decomposition, note: RowsNote) -> Decomposition:
    """Return a decomposition that says of which rows it is."""
    d = replace(d, diagnostics={**d.diagnostics, **note.facts})
    if not note.words:
        return d
    certificate = d.certificate
    if certificate is not None:
        text = f"{certificate.note} All of it refers to {note.words}.".strip()
        certificate = replace(certificate, note=text)
    return replace(d, measure=f"{d.measure}, {note.words}", certificate=certificate)
