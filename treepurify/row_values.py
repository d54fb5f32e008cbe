"""Values of a decomposition on many rows: written to a file batch by batch, or summed.

Predictions, contributions and Shapley values go to Parquet. The file appears under its name only
when it is complete.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import check_choice, read_path
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.frames import contributions_table
from treepurify.links import Link
from treepurify.moments import PartMoments
from treepurify.progress import progress_report, row_progress
from treepurify.row_results import Groups, ShapleyValues
from treepurify.rows.batches import Source
from treepurify.rows.columns import Columns
from treepurify.rows.dask_source import DaskSource
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.stream_source import StreamSource
from treepurify.rows.tables import check_any_rows, check_table
from treepurify.shapley.values import shapley_values
from treepurify.storage.files import replace_file
from treepurify.typing import Array
from treepurify.value_stream import value_stream

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["contributions", "predictions", "share_explained", "split_evenly"]

_NOTHING_TO_WRITE = "there are no rows, so there are no values to write; pass rows"
_SUFFIXES = (".parquet", ".pq")
# Values of a table that is written at a time.
_VALUES_AT_A_TIME = 1 << 23
_LEAST_ROWS = 1 << 10

Values = Callable[[Columns], "pd.DataFrame"]


def predictions(d: Decomposition, X: Any, scale: Literal["margin", "response"], to: Any) -> Array:
    """Return `Decomposition.predict`, or the path of its table, one column per output."""
    source = _rows_to_write(X, to)
    if source is None:
        margin = d.on_rows(X)
        predicted = d.link.inverse(margin) if scale == "response" else margin
        return predicted[:, 0] if d.n_outputs == 1 else predicted
    written: Array = _write(
        d, source, partial(_predictions, _without_rows(d), scale), d.n_outputs, to
    )
    return written


def contributions(
    d: Decomposition, X: Any, scale: Literal["margin", "response"], to: Any, memory_budget: int
) -> "pd.DataFrame":
    """Return the table of `Decomposition.contributions`, or the path of its file."""
    check_choice("scale", scale, ("margin", "response"))
    if scale == "response" and d.link != Link():
        raise InvalidInputError(
            f"effects add up on the margin scale only; the response follows from the link "
            f"{d.link.name!r}. predict(X, scale='response') transforms the whole prediction; to "
            "explain the response itself, pass the function that predicts it to another engine or "
            "to interventional_shapley_values"
        )
    source = _rows_to_write(X, to)
    if source is None:
        return contributions_table(d, X, memory_budget, progress_report(True))
    values = partial(_contributions, _without_rows(d), memory_budget)
    written: pd.DataFrame = _write(d, source, values, (len(d) + 2) * d.n_outputs, to)
    return written


def split_evenly(
    d: Decomposition, X: Any, to: Any, memory_budget: int, groups: Groups | None = None
) -> ShapleyValues:
    """Return the values of `Decomposition.shapley_values`, or the path of their table."""
    source = _rows_to_write(X, to)
    if source is None:
        report = progress_report(True)
        return shapley_values(d, X, groups=groups, memory_budget=memory_budget, report=report)
    values = partial(_shapley_values, _without_rows(d), memory_budget, groups)
    written: ShapleyValues = _write(d, source, values, (len(d.feature_names) + 2) * d.n_outputs, to)
    return written


def _rows_to_write(X: Any, to: Any) -> Source | None:
    """Return the rows whose values are written; None for a table whose values are returned."""
    source = open_rows(X)
    if not isinstance(source, TableSource):
        return source
    if to is None:
        return None
    check_table(X)
    # As of files, columns that no part uses may be missing, and others may be there.
    return StreamSource(lambda: [X], True, "X")


def _without_rows(d: Decomposition) -> Decomposition:
    """Return a decomposition without the rows of its measure, which workers do not need."""
    return replace(d, rows=None)


def _predictions(
    d: Decomposition, scale: Literal["margin", "response"], columns: Columns
) -> "pd.DataFrame":
    import pandas as pd

    predicted = d.predict(columns, scale=scale).reshape(columns.n_rows, d.n_outputs)
    return pd.DataFrame(predicted, columns=list(d.output_names))


def _contributions(d: Decomposition, memory_budget: int, columns: Columns) -> "pd.DataFrame":
    return contributions_table(d, columns, memory_budget)


def _shapley_values(
    d: Decomposition, memory_budget: int, groups: Groups | None, columns: Columns
) -> "pd.DataFrame":
    return shapley_values(d, columns, groups=groups, memory_budget=memory_budget).to_frame()


def share_explained(d: Decomposition, X: Any) -> Array:
    """Return the figure of `Decomposition.r_squared`."""
    source = open_rows(X)
    # Without a remainder there is nothing to measure, and rows are only counted.
    parts, n_parts = (_no_parts, 0) if d.remainder is None else (d.evaluate_parts, len(d) + 1)
    moments = PartMoments(parts, n_parts, d.n_outputs)
    if isinstance(source, TableSource):
        # Sparse rows are read block by block.
        _, blocks = d.row_blocks(X)
        rows = (RowBatch(columns, None, 0, 0, "the table", {}) for columns in blocks)
        state = reduce(moments.add, rows, moments.zero())
    else:
        report = progress_report(True)
        state = value_stream(d, source).reduce(moments, "measuring the explained share", report)
    check_any_rows(state.n_rows, "the rows on which to measure the explained share")
    if d.remainder is None:
        return np.ones(d.n_outputs)
    variance = state.variance
    return np.asarray(1.0 - state.mean_squares[-1] / np.where(variance > 0, variance, 1.0))


def _no_parts(columns: Columns) -> tuple[Array, ...]:
    del columns
    return ()


def _write(d: Decomposition, source: Source, values: Values, width: int, to: Any) -> Any:
    """Write a table of values on all rows to a Parquet file, or to a folder of files.

    On a Dask frame, return a Dask frame of them instead, unless they are to be written.
    """
    if to is None and isinstance(source, DaskSource):
        reader = value_stream(d, source).reader
        like = _flat(values(_no_rows(d)))
        return source.map_frame(reader, partial(_flat_values, values), like)
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
    tables = _tables(value_stream(d, source), values, width)
    if target.suffix.lower() in _SUFFIXES:
        replace_file(target, lambda path: _write_file(path, (table for _, table in tables)))
    else:
        _write_folder(target, tables)
    return target


def _tables(stream: RowStream, values: Values, width: int) -> Iterator[tuple[int, Any]]:
    """Yield the values on some rows at a time, and the file or partition that they are in."""
    import pyarrow as pa

    size = max(_VALUES_AT_A_TIME // max(width, 1), _LEAST_ROWS)
    progress = row_progress("writing values", stream.source.n_rows, progress_report(True))
    for rows in stream.batches():
        for start in range(0, rows.columns.n_rows, size):
            columns = rows.columns.part(start, start + size)
            frame = _flat(values(columns))
            yield rows.part, pa.Table.from_pandas(frame, preserve_index=False)
            progress(columns.n_rows)


def _flat(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table with one name per column."""
    if frame.columns.nlevels == 1:
        return frame
    return frame.set_axis([": ".join(map(str, names)) for names in frame.columns], axis=1)


def _flat_values(values: Values, columns: Columns) -> "pd.DataFrame":
    return _flat(values(columns))


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
    import pyarrow.parquet as pq

    if not target.parent.is_dir():
        raise InvalidInputError(f"the folder {target.parent} does not exist; create it first")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInputError(
            f"{target} already exists and is not an empty folder: choose another name, or a name "
            'that ends with ".parquet" (an existing file is replaced)'
        )
    folder = Path(mkdtemp(dir=target.parent, prefix=f".{target.name[:32]}."))
    writer, current = None, -1
    try:
        for part, table in tables:
            if writer is None or part != current:
                if writer is not None:
                    writer.close()
                writer = pq.ParquetWriter(folder / f"part-{part:05d}.parquet", table.schema)
                current = part
            writer.write_table(table)
        if writer is None:
            raise InvalidInputError(_NOTHING_TO_WRITE)
        writer.close()
        folder.chmod(0o755)
        if target.exists():
            target.rmdir()
        folder.replace(target)
    except BaseException:
        if writer is not None:
            writer.close()
        rmtree(folder, ignore_errors=True)
        raise
