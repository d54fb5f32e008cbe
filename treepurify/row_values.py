"""Predictions of a decomposition on many rows, and what needs a table of rows.

Predictions on rows in batches go to Parquet. The file appears under its name only when it is
complete.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import check_choice, read_path
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.frames import contributions_table
from treepurify.links import Link
from treepurify.progress import progress_report, row_progress
from treepurify.remainder import stack_rows
from treepurify.row_results import Groups, ShapleyValues
from treepurify.rows.batches import Source
from treepurify.rows.columns import Columns
from treepurify.rows.dask_source import DaskSource
from treepurify.rows.given_rows import given_rows, table_in_memory
from treepurify.rows.reduction import RowStream
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.stream_source import StreamSource
from treepurify.rows.tables import check_any_rows, check_table
from treepurify.shapley.values import shapley_values
from treepurify.storage.files import replace_file
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

_NOTHING_TO_WRITE = "there are no rows, so there are no values to write; pass rows"
_SUFFIXES = (".parquet", ".pq")
_ROWS_AT_A_TIME = 1 << 16

Values = Callable[[Columns], "pd.DataFrame"]


def predictions(d: Decomposition, X: Any, scale: Literal["margin", "response"], to: Any) -> Array:
    """Return `Decomposition.predict`, or the path of its table, one column per output."""
    source = open_rows(X)
    if isinstance(source, TableSource):
        if to is None:
            margin = d.on_rows(X)
            predicted = d.link.inverse(margin) if scale == "response" else margin
            return predicted[:, 0] if d.n_outputs == 1 else predicted
        check_table(X)
        # As of files, columns that no part uses may be missing, and others may be there.
        source = StreamSource(lambda: [X], True, "X")
    # Workers do not need the rows of the measure.
    predict = partial(_predictions, replace(d, rows=None), scale)
    written: Array = _write(d, source, predict, to)
    return written


def contributions(
    d: Decomposition, X: Any, scale: Literal["margin", "response"], memory_budget: int
) -> "pd.DataFrame":
    """Return the table of `Decomposition.contributions`."""
    check_choice("scale", scale, ("margin", "response"))
    if scale == "response" and d.link != Link():
        raise InvalidInputError(
            f"effects add up on the margin scale only; the response follows from the link "
            f"{d.link.name!r}. predict(X, scale='response') transforms the whole prediction; to "
            "explain the response itself, pass the function that predicts it to another engine or "
            "to interventional_shapley_values"
        )
    return contributions_table(d, table_in_memory(X), memory_budget, progress_report(True))


def split_evenly(
    d: Decomposition, X: Any, memory_budget: int, groups: Groups | None = None
) -> ShapleyValues:
    """Return the values of `Decomposition.shapley_values`."""
    return shapley_values(
        d,
        table_in_memory(X),
        groups=groups,
        memory_budget=memory_budget,
        report=progress_report(True),
    )


def _predictions(
    d: Decomposition, scale: Literal["margin", "response"], columns: Columns
) -> "pd.DataFrame":
    import pandas as pd

    predicted = d.predict(columns, scale=scale).reshape(columns.n_rows, d.n_outputs)
    return pd.DataFrame(predicted, columns=list(d.output_names))


def share_explained(d: Decomposition, X: Any) -> Array:
    """Return the figure of `Decomposition.r_squared`."""
    rows = given_rows(X, d.inputs.features, None, (), DEFAULT_BUDGET, progress_report(True))
    # Sparse rows are read block by block.
    n_rows, blocks = d.row_blocks(rows.table)
    check_any_rows(n_rows, "the rows on which to measure the explained share")
    if d.remainder is None:
        return np.ones(d.n_outputs)
    totals, rests = [], []
    for columns in blocks:
        total = rest = np.zeros((columns.n_rows, d.n_outputs))
        for rest in d.evaluate_parts(columns):
            total = total + rest
        totals.append(total)
        rests.append(rest)
    total, rest, weights = stack_rows(totals), stack_rows(rests), rows.weights
    centred = total - np.average(total, axis=0, weights=weights)
    variance = np.average(centred**2, axis=0, weights=weights)
    left = np.average(rest**2, axis=0, weights=weights)
    return np.asarray(1.0 - left / np.where(variance > 0, variance, 1.0))


def _write(d: Decomposition, source: Source, values: Values, to: Any) -> Any:
    """Write values on all rows to a Parquet file, or to a folder of files.

    On a Dask frame, return a Dask frame of them instead, unless they are to be written.
    """
    stream = d.row_stream(source)
    if to is None and isinstance(source, DaskSource):
        return source.map_frame(stream.reader, values, values(_no_rows(d)))
    if to is None:
        raise InvalidInputError(
            f"the values on the rows of {source.describe()} are written to a file as they are "
            'computed: pass a Parquet file or a folder, as in to="values.parquet"'
        )
    target = read_path("to", to)
    try:
        import pyarrow.parquet  # noqa: F401 - asked for before anything is computed
    except ImportError as error:
        raise MissingDependencyError(
            'writing Parquet files needs pyarrow: pip install "treepurify[parquet]"'
        ) from error
    tables = _tables(stream, values)
    if target.suffix.lower() in _SUFFIXES:
        replace_file(target, lambda path: _write_file(path, (table for _, table in tables)))
    else:
        _write_folder(target, tables)
    return target


def _tables(stream: RowStream, values: Values) -> Iterator[tuple[int, Any]]:
    """Yield the values on some rows at a time, and the file or partition that they are in."""
    import pyarrow as pa

    progress = row_progress("writing values", stream.source.n_rows, progress_report(True))
    for rows in stream.batches():
        for start in range(0, rows.columns.n_rows, _ROWS_AT_A_TIME):
            columns = rows.columns.part(start, start + _ROWS_AT_A_TIME)
            yield rows.part, pa.Table.from_pandas(values(columns), preserve_index=False)
            progress(columns.n_rows)


def _no_rows(d: Decomposition) -> Columns:
    features = d.inputs.features
    return Columns(features, tuple(np.empty(0) for _ in features), 0)


def _write_file(path: Path, tables: Iterator[Any]) -> None:
    import pyarrow.parquet as pq

    first = next(tables, None)
    if first is None:
        raise InvalidInputError(_NOTHING_TO_WRITE)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _write_folder(target: Path, tables: Iterator[tuple[int, Any]]) -> None:
    """Write one file for each file or partition of the source, in a folder of its own at first."""
    if not target.parent.is_dir():
        raise InvalidInputError(f"the folder {target.parent} does not exist; create it first")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInputError(
            f"{target} already exists and is not an empty folder: choose another name, or a name "
            'that ends with ".parquet" (an existing file is replaced)'
        )
    folder = Path(mkdtemp(dir=target.parent, prefix=f".{target.name[:32]}."))
    try:
        for part, of_part in groupby(tables, key=itemgetter(0)):
            _write_file(folder / f"part-{part:05d}.parquet", (table for _, table in of_part))
        if not any(folder.iterdir()):
            raise InvalidInputError(_NOTHING_TO_WRITE)
        folder.chmod(0o755)
        if target.exists():
            target.rmdir()
        folder.replace(target)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
