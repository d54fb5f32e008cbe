"""What a caller may pass for rows: a table in memory, or rows that come in batches.

A table is a source of one batch, which is all of its rows; polars and DuckDB compute rows on
request.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.arguments import brief
from treepurify.errors import InvalidInputError
from treepurify.rows.batches import HEAD_ROWS, ROWS_PER_BATCH, Batch, Source, numbered
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.dask_source import DaskSource, is_dask
from treepurify.rows.parquet_source import DatasetSource, is_dataset, open_parquet
from treepurify.rows.row_weights import RowWeights
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.stream_source import StreamSource, read_arrow_stream
from treepurify.rows.tables import is_table, table_names

_WORDS = "the table"


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table or an array in memory, as a caller passed it, or as it was read for a model.

    Parameters
    ----------
    table : array_like, table or Columns
        The rows. Nothing is checked before they are read.
    """

    table: Any

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns; None for an array."""
        if isinstance(self.table, Columns):
            return tuple(spec.name for spec in self.table.features)
        names = table_names(self.table)
        return None if names is None else tuple(names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if isinstance(self.table, Columns):
            return self.table.n_rows
        # Sparse rows have a shape and no length, nested lists a length and no shape.
        return int(self.table.shape[0]) if hasattr(self.table, "shape") else len(self.table)

    @property
    def can_repeat(self) -> bool:
        """They can be read again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return _WORDS

    def head(self) -> Any:
        """Return all rows: they are in memory already."""
        return self.table

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield all rows."""
        del columns
        yield Batch(self.table, 0, 0, _WORDS)


@dataclass(frozen=True, eq=False)
class ReadBefore:
    """The reader of rows that were read already.

    Parameters
    ----------
    columns : Columns
        The rows, with the features in the order of the model.
    weights : ndarray of float64, shape (n_rows,), optional
        Weights of the rows.
    """

    columns: Columns
    weights: RowWeights

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The features, in the order of the model."""
        return self.columns.features

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of all features."""
        return tuple(range(len(self.features)))

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None

    @property
    def weight(self) -> None:
        """No column is that of the weights."""
        return

    @property
    def wanted(self) -> None:
        """All columns."""
        return

    def read(self, batch: Batch) -> RowBatch:
        """Return the rows."""
        return RowBatch(self.columns, self.weights, 0, 0, batch.where, {})


def open_rows(X: Any) -> Source:
    """Return the rows that a caller passed as a source: a table is a source of one batch.

    Nothing else in the package looks at the kind of what was passed. Rows are not read here, so
    whatever is no source is taken for a table, which is checked where it is read.

    Parameters
    ----------
    X : object
        A table or an array in memory, or whatever `as_source` takes.

    Raises
    ------
    InvalidInputError
        If files are not there or cannot be read.
    """
    source = as_source(X)
    return TableSource(X) if source is None else source


def as_source(X: Any) -> Source | None:
    """Return the source that something is; None for a table or an array in memory.

    Parameters
    ----------
    X : object
        A path, list, pattern or folder of Parquet files; a `pyarrow.dataset.Dataset`; a polars
        LazyFrame; a DuckDB relation; a Dask frame or array; an Arrow stream; an iterator or a
        list of tables, or a callable that returns such an iterator; a `Source`.

    Raises
    ------
    InvalidInputError
        If files are not there or cannot be read.
    """
    if X is None or isinstance(X, type | np.ndarray | Columns):
        return None
    if hasattr(X, "batches") and hasattr(X, "can_repeat"):
        source: Source = X
        return source
    if isinstance(X, str | Path):
        return open_parquet(X)
    if is_dataset(X):
        return DatasetSource(X)
    if _is_polars_lazy(X):
        return _PolarsSource(X)
    if _is_duck_relation(X):
        return _DuckSource(X)
    if is_dask(X):
        return DaskSource(X)
    if is_table(X) or hasattr(X, "__array__"):
        return None
    if isinstance(X, list | tuple):
        return _listed(X)
    if hasattr(X, "__arrow_c_stream__"):
        return StreamSource(lambda: read_arrow_stream(X), False, "the Arrow stream")
    if hasattr(X, "__next__"):
        return StreamSource(lambda: X, False, "the iterator")
    if callable(X):
        _check_no_arguments(X)
        return StreamSource(lambda: _opened(X()), True, "the callable")
    return None


@dataclass(frozen=True, eq=False)
class _PolarsSource:
    """A polars LazyFrame, computed in batches by polars' streaming engine."""

    frame: Any

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.frame.collect_schema().names())

    @property
    def n_rows(self) -> int | None:
        """None: counting would compute the frame."""
        return None

    @property
    def can_repeat(self) -> bool:
        """It can be computed again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return "the polars LazyFrame"

    def head(self) -> Any:
        """Return the first rows."""
        return self.frame.head(HEAD_ROWS).collect()

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows with these columns."""
        frame = self.frame if columns is None else self.frame.select(list(columns))
        if not hasattr(frame, "collect_batches"):
            raise InvalidInputError(
                "this version of polars cannot give a LazyFrame in batches: install polars 1.34 or "
                "later, or write it to Parquet with sink_parquet and pass the file"
            )
        tables = frame.collect_batches(chunk_size=ROWS_PER_BATCH, maintain_order=True)
        yield from numbered(tables, 0, self.describe())


@dataclass(frozen=True, eq=False)
class _DuckSource:
    """A relation of DuckDB, computed in batches."""

    relation: Any

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.relation.columns)

    @property
    def n_rows(self) -> int | None:
        """None: counting would compute the relation."""
        return None

    @property
    def can_repeat(self) -> bool:
        """It can be computed again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return "the DuckDB relation"

    def head(self) -> Any:
        """Return the first rows."""
        return self.relation.limit(HEAD_ROWS).to_arrow_table()

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows with these columns."""
        names = self.names if columns is None else columns
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        relation = self.relation.project(", ".join(quoted)) if quoted else self.relation
        # Older versions know it by another name only.
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from numbered(read(ROWS_PER_BATCH), 0, self.describe())


def check_repeats(source: Source, passes: str) -> None:
    """Raise `InvalidInputError` before the first pass, where more are needed and not possible.

    Parameters
    ----------
    source : Source
        The rows.
    passes : str
        What reads them, such as "two passes, one for ... and one for ...".
    """
    if not source.can_repeat:
        raise InvalidInputError(
            f"this takes {passes}, and {source.describe()} can be read only once: pass files, or a "
            "callable that returns new batches each time it is called"
        )


def _is_polars_lazy(X: Any) -> bool:
    """Return whether something is a polars LazyFrame."""
    return type(X).__name__ == "LazyFrame" and type(X).__module__.startswith("polars")


def _is_duck_relation(X: Any) -> bool:
    """Return whether something is a relation of DuckDB."""
    return type(X).__name__ == "DuckDBPyRelation"


def _listed(X: Any) -> Source | None:
    """Return a list of files or of tables as a source; None for rows as nested lists."""
    if X and any(isinstance(one, str | Path) for one in X):
        return open_parquet(X)
    if X and all(is_table(one) or (isinstance(one, np.ndarray) and one.ndim == 2) for one in X):
        return StreamSource(lambda: X, True, "the list of tables")
    return None


def _check_no_arguments(X: Any) -> None:
    """Raise `InvalidInputError` for a callable that cannot be called without arguments."""
    try:
        signature(X).bind()
    except TypeError:
        raise InvalidInputError(
            f"a callable that returns rows in batches must take no arguments; got {brief(X)}"
        ) from None
    except (ValueError, NameError):
        # Some that are written in C do not say what they take; Python 3.14 evaluates annotations
        # here, of which some name what exists for type checkers only.
        return


def _opened(X: Any) -> Any:
    """Return what a callable opened as an iterable of tables."""
    if hasattr(X, "__arrow_c_stream__") and not is_table(X):
        return read_arrow_stream(X)
    return X
