"""Rows for what needs a table: of rows that come in batches a sample, and a word about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import (
    ResponseFunction,
    is_function,
    model_or_none,
)
from treepurify.errors import InvalidInputError
from treepurify.origin import seeds_of
from treepurify.progress import ProgressReport
from treepurify.rows.given_rows import given_rows
from treepurify.rows.reduction import RowsNote
from treepurify.rows.sources import TableSource, open_rows

__all__ = [
    "FEW_SAMPLED_ROWS",
    "SampledSource",
    "check_values_have_table",
    "table_or_sample",
    "with_note",
]

FEW_SAMPLED_ROWS = 20_000
"""Most rows that are drawn where each of them is exchanged with others."""


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
    seed: int,
    memory_budget: int,
    report: ProgressReport,
    target: Any = None,
    most: int | None = None,
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
    seed : int
        Seed of the draws.
    memory_budget : int
        Bytes that the sample may take.
    report : callable
        Progress.
    target : array_like or str, optional
        What was observed on the rows of a table; of rows in batches the name of its column.
    most : int, optional
        Most rows; `SAMPLED_ROWS` by default.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read.
    MemoryBudgetError
        If the sample would not fit.
    """
    behind = model.model_behind_response if isinstance(model, ResponseFunction) else model
    source, features = open_rows(X), None
    if isinstance(model, Decomposition):
        features = model.inputs.features
    elif not isinstance(source, TableSource):
        parsed = model_or_none(behind, feature_names)
        features = None if parsed is None else parsed.features
    observed = () if target is None else (target,)
    drawn = given_rows(
        source,
        features,
        sample_weight,
        observed,
        memory_budget,
        report,
        most=most,
        seed=seed,
    )
    facts = {}
    if drawn.n_rows is not None:
        facts = {
            "source": source.describe(),
            "passes": 1,
            "rows": drawn.n_rows,
            "sampled_rows": len(drawn.table),
            "seed": seed,
            "sample": "everything",
        }
    return SampledSource(drawn.table, drawn.weights, facts, drawn.words, *drawn.observed)


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
        certificate = certificate.noted(f"These figures refer to {note.words}.")
    return replace(d, measure=f"{d.measure}, {note.words}", certificate=certificate)


def check_values_have_table(model: Any, X: Any) -> None:
    """Raise `InvalidInputError` for values in place of a function, where rows come in batches."""
    if not is_function(model) and not isinstance(open_rows(X), TableSource):
        raise InvalidInputError(
            "values cannot be matched to rows that come in batches: pass the function itself, or "
            "a table with the values on its rows"
        )
