"""Rows for what needs a table: of rows that come in batches a sample, and a word about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import ResponseFunction, model_or_none
from treepurify.errors import InvalidInputError
from treepurify.origin import seeds_of
from treepurify.progress import ProgressReport
from treepurify.rows.labelled_rows import sample_table
from treepurify.rows.reduction import RowsNote
from treepurify.rows.source_reader import model_table
from treepurify.rows.sources import TableSource, check_repeats, open_rows
from treepurify.rows.tables import table_names

__all__ = [
    "FEW_SAMPLED_ROWS",
    "SAMPLED_ROWS",
    "SampledSource",
    "table_or_sample",
    "with_note",
]

SAMPLED_ROWS = 100_000
"""Most rows that are drawn where an engine needs a table."""
FEW_SAMPLED_ROWS = 20_000
"""Most rows that are drawn where each of them is exchanged with others."""
_PASSES = "two passes over the rows, one to draw a sample and one to read it"


@dataclass(frozen=True, eq=False)
class SampledSource:
    """A table, or a sample of a source.

    Parameters
    ----------
    table : table or ndarray
        The rows.
    weights : array_like of shape (n_rows,), optional
        The weights of a table; what each row of a sample counts, None where all count the same.
    facts : dict
        What the diagnostics say of a sample.
    words : str
        How many rows of how many it has; empty where it has all.
    target : array_like, optional
        What was observed on the rows, where it is wanted.
    """

    table: Any
    weights: Any
    facts: dict[str, Any]
    words: str
    target: Any = None

    @property
    def note(self) -> RowsNote:
        """What a reader must know of it."""
        return RowsNote({"stream": self.facts} if self.facts else {}, self.words)


def table_or_sample(
    model: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    sample_weight: Any,
    most: int,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
    target: Any = None,
) -> SampledSource:
    """Return a table as it is, and of rows in batches a weighted sample.

    A sample has the columns of a model or, of a function, all.

    Parameters
    ----------
    model : object
        A model that `parse_model` knows, an object with ``predict``, or a function.
    X : array_like, table, rows in batches or Source
        The rows.
    feature_names : sequence of str, optional
        Names of the features.
    sample_weight : array_like or str, optional
        The weights of a table; the name of their column of rows in batches.
    most, seed : int
        Most rows, and seed of the draws.
    memory_budget : int
        Bytes that the sample may take.
    report : callable
        Progress.
    target : array_like or str, optional
        What was observed on the rows of a table; of rows in batches the name of its column.

    Raises
    ------
    InvalidInputError
        If the rows can be read only once, or cannot be read.
    MemoryBudgetError
        If the sample would not fit.
    """
    source = open_rows(X)
    if isinstance(source, TableSource):
        return SampledSource(source.table, sample_weight, {}, "", target)
    if target is not None and not isinstance(target, str):
        raise InvalidInputError(
            "if rows come in batches, the target must be one of their columns: pass its name as y"
        )
    check_repeats(source, _PASSES)
    behind = model.model_behind_response if isinstance(model, ResponseFunction) else model
    parsed = model_or_none(behind, feature_names)
    names, columns = source.names, None
    if parsed is not None and names is not None:
        weight = sample_weight if isinstance(sample_weight, str) else None
        head = model_table(source.head(), parsed.features, weight, target)
        columns = None if head is None else tuple(table_names(head) or ())
    if columns is not None and target is not None:
        columns = (*columns, target)
    drawn = sample_table(source, columns, sample_weight, most, seed, memory_budget, report)
    table, kept = drawn.table, None
    if target is not None:
        if names is None or target not in names:
            raise InvalidInputError(f"{source.describe()} has no column {target!r}")
        table, kept = table.drop(columns=target), table[target]
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


def with_note(d: Decomposition, note: RowsNote) -> Decomposition:
    """Return a decomposition that says of which rows it is."""
    seeds = tuple(sorted({*d.origin.seeds, *seeds_of(note.facts)}))
    d = replace(
        d,
        origin=replace(d.origin, seeds=seeds),
        diagnostics={**d.diagnostics, **note.facts},
    )
    if not note.words:
        return d
    certificate = d.certificate
    if certificate is not None:
        text = f"{certificate.note} These figures refer to {note.words}.".strip()
        certificate = replace(certificate, note=text)
    return replace(d, measure=f"{d.measure}, {note.words}", certificate=certificate)
