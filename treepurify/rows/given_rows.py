"""Rows for what needs a table: a table as it is, and of rows in batches a weighted sample."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from treepurify.arguments import brief
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.batches import Source
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.labelled_rows import sample_table
from treepurify.rows.source_reader import model_table
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.tables import table_column, table_names

SAMPLED_ROWS = 100_000
"""Most rows that are drawn where a table is needed."""
FEW_SAMPLED_ROWS = 20_000
"""Most rows that are drawn where each of them is exchanged with others."""


class GivenRows(NamedTuple):
    """A table, or a sample of rows in batches.

    Parameters
    ----------
    table : table or ndarray
        The rows.
    weights : array_like of shape (n_rows,), optional
        The weights of a table as they were given; what each row of a sample counts, None where
        all count the same.
    observed : tuple of array_like
        What was observed on the rows.
    facts : mapping of str to object
        What the diagnostics say of rows in batches; empty for a table.
    words : str
        How many rows of how many these are; empty where they are all.
    """

    table: Any
    weights: Any
    observed: tuple[Any, ...] = ()
    facts: Mapping[str, Any] = MappingProxyType({})
    words: str = ""

    @property
    def sentence(self) -> str:
        """The words as a sentence; empty where they are all."""
        return f"The rows are {self.words}." if self.words else ""


def given_rows(
    X: Any,
    features: Sequence[FeatureSpec] | None,
    sample_weight: Any,
    observed: Sequence[Any],
    memory_budget: int,
    report: ProgressReport,
    *,
    most: int | None = None,
    seed: int = 0,
) -> GivenRows:
    """Return a table as it is, and of rows in batches a weighted sample, read in one pass.

    Parameters
    ----------
    X : array_like, table, rows in batches or Source
        The rows.
    features : sequence of FeatureSpec, optional
        The features whose columns are wanted; None for all columns.
    sample_weight : array_like or str, optional
        The weights of a table; the name of their column of rows in batches.
    observed : sequence of (str or array_like)
        Names of further columns; of a table also the columns themselves.
    memory_budget : int
        Bytes that a sample may take.
    report : callable
        Progress.
    most : int, optional
        Most rows that are drawn; `SAMPLED_ROWS` by default.
    seed : int
        Seed of the draws.

    Raises
    ------
    InvalidInputError
        If columns are missing, or there are no rows of positive weight.
    MemoryBudgetError
        If a sample would not fit.
    """
    source = open_rows(X)
    weight = sample_weight if isinstance(sample_weight, str) else None
    named = [one for one in observed if isinstance(one, str)]
    names = () if features is None else {spec.name for spec in features}
    apart = [name for name in named if name not in names]
    if isinstance(source, TableSource):
        X = source.table
        columns = tuple(_column_of(X, one) for one in observed)
        # By position, they would be taken for features.
        table = model_table(X, features, *apart) if features is not None and apart else None
        return GivenRows(X if table is None else table, sample_weight, columns)
    check_named_columns(source, observed)
    wanted = None
    if features is not None and source.names is not None:
        head = model_table(source.head(), features, weight, *apart)
        wanted = None if head is None else tuple(table_names(head) or ())
    read = None if wanted is None else tuple(dict.fromkeys((*wanted, *named)))
    most = SAMPLED_ROWS if most is None else most
    table, weights, n_rows = sample_table(
        source, read, sample_weight, most, seed, memory_budget, report
    )
    columns = tuple(np.asarray(table[name]) for name in named)
    if named:
        table = table.drop(columns=apart) if wanted is None else table[list(wanted)]
    reading = {
        "source": source.describe(),
        "passes": 1,
        "rows": n_rows,
        "sampled_rows": len(table),
        "seed": seed,
        "sample": "everything",
    }
    words = f"a sample of {len(table)} of {n_rows} rows" if len(table) < n_rows else ""
    return GivenRows(table, weights, columns, {"stream": reading}, words)


def table_in_memory(X: Any) -> Any:
    """Return a table; rows in batches are refused where there is one result for each row."""
    source = open_rows(X)
    if not isinstance(source, TableSource):
        raise InvalidInputError(
            f"the result has a row for each row of {source.describe()} and is a table in memory: "
            "pass a table, of many rows some at a time"
        )
    return X


def check_named_columns(source: Source, observed: Sequence[Any]) -> None:
    """Raise `InvalidInputError` unless all that was observed is named columns of the source."""
    names = source.names or ()
    for one in observed:
        if not isinstance(one, str) or one not in names:
            raise InvalidInputError(
                "what was observed on rows in batches must be one of their columns: pass its "
                f"name, got {brief(one)}; the columns of {source.describe()} are "
                f"{', '.join(names[:30])}"
            )


def _column_of(X: Any, column: Any) -> Any:
    if not isinstance(column, str):
        return column
    names = table_names(X) or []
    if column not in names:
        raise InvalidInputError(
            f"X has no column {column!r}; its columns are {', '.join(names[:30]) or 'unnamed'}"
        )
    return np.asarray(table_column(X, list(names).index(column)))
