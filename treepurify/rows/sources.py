"""What a caller may pass for rows: a table in memory, or rows that come in batches."""

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.arguments import brief
from treepurify.errors import InvalidInputError
from treepurify.rows.batches import Source
from treepurify.rows.columns import Columns
from treepurify.rows.dask_source import DaskSource, is_dask
from treepurify.rows.lazy_sources import (
    DuckSource,
    PolarsSource,
    is_duck_relation,
    is_polars_lazy,
)
from treepurify.rows.parquet_source import DatasetSource, is_dataset, open_parquet
from treepurify.rows.stream_source import StreamSource, read_arrow_stream
from treepurify.rows.table_source import TableSource
from treepurify.rows.tables import is_table

__all__ = ["as_source", "check_repeats", "open_rows"]


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
    if is_polars_lazy(X):
        return PolarsSource(X)
    if is_duck_relation(X):
        return DuckSource(X)
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
            f"a callable that gives rows in batches is called without arguments; got {brief(X)}"
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
            "callable that returns the batches anew each time it is called"
        )
