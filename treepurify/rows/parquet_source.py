"""Rows in Parquet files, or in any Arrow dataset, read a few at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from treepurify.arguments import brief, read_path
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.rows.batches import HEAD_ROWS, ROWS_PER_BATCH, Batch, numbered

_GLOB = "*?["
_PARQUET = (".parquet", ".pq")
# Batches that Arrow decodes ahead of the one in work.
_AHEAD = 2
# Bytes of each column that are read at a time.
_BUFFER = 1 << 16


def is_dataset(X: Any) -> bool:
    """Return whether something is a `pyarrow.dataset.Dataset`."""
    return hasattr(X, "get_fragments") and hasattr(X, "schema")


@dataclass(frozen=True, eq=False)
class ParquetSource:
    """Parquet files, read one after the other and page by page.

    Parameters
    ----------
    dataset : pyarrow.dataset.FileSystemDataset
        The files.
    words : str
        The path or pattern that was given, for messages.
    left_out : frozenset of str
        Columns that are as good as absent.
    """

    dataset: Any
    words: str
    left_out: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name in self.dataset.schema.names if name not in self.left_out)

    @cached_property
    def n_rows(self) -> int | None:
        """Number of rows, which the files state."""
        return int(self.dataset.count_rows())

    @property
    def can_repeat(self) -> bool:
        """Files can be read again."""
        return True

    def describe(self) -> str:
        """Return the path or pattern that was given."""
        return self.words

    def head(self) -> Any:
        """Return the first rows."""
        for batch in self._read(None, HEAD_ROWS):
            if len(batch.table):
                return batch.table
        raise InvalidInputError(f"{self.words} has no rows; pass files that have some")

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows of each file, with these columns."""
        return self._read(columns, ROWS_PER_BATCH)

    def _read(self, columns: Sequence[str] | None, n_rows: int) -> Iterator[Batch]:
        wanted = self.names if columns is None else columns
        for part, fragment in enumerate(self.dataset.get_fragments()):
            where = _where(fragment, part)
            with _errors_named(where):
                schema = _schema_of(fragment, wanted, self.dataset.schema, where)
                yield from numbered(_pages(fragment, schema, n_rows), part, where)


@dataclass(frozen=True, eq=False)
class DatasetSource:
    """An Arrow dataset of the caller's, with filters and formats of its own: Arrow reads it.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        The dataset.
    """

    dataset: Any

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.dataset.schema.names)

    @property
    def n_rows(self) -> int | None:
        """None: counting might read all of it."""
        return None

    @property
    def can_repeat(self) -> bool:
        """Files can be read again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return "the Arrow dataset"

    def head(self) -> Any:
        """Return the first rows."""
        with _errors_named(self.describe()):
            return self.dataset.head(HEAD_ROWS)

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows with these columns."""
        wanted = list(self.names if columns is None else columns)
        with _errors_named(self.describe()):
            for part, fragment in enumerate(self._files()):
                _schema_of(fragment, wanted, self.dataset.schema, _where(fragment, part))
            read = self.dataset.to_batches(
                columns=wanted,
                batch_size=ROWS_PER_BATCH,
                batch_readahead=_AHEAD,
                fragment_readahead=1,
            )
            yield from numbered(read, 0, self.describe())

    def _files(self) -> Iterator[Any]:
        """Yield the files; none of a filtered dataset, which does not say."""
        try:
            yield from self.dataset.get_fragments()
        except ValueError:
            return


def _schema_of(fragment: Any, wanted: Sequence[str], known: Any, where: str) -> Any:
    """Return the columns to read, as the file has them or as its folder names them.

    Arrow would fill a column that one of the files lacks with missing values.
    """
    import pyarrow as pa

    own = fragment.physical_schema
    of_folder = _folder_values(fragment)
    absent = [name for name in wanted if name not in own.names and name not in of_folder]
    if absent:
        raise InvalidInputError(
            f"{where} has no column {', '.join(map(repr, absent[:10]))}; its columns are "
            f"{', '.join(map(str, own.names[:30]))}"
        )
    fields = [own.field(name) if name in own.names else known.field(name) for name in wanted]
    return pa.schema(fields)


def _where(fragment: Any, part: int) -> str:
    return f"file {str(getattr(fragment, 'path', part))!r}"


@contextmanager
def _errors_named(where: str) -> Iterator[None]:
    """Let an error of Arrow name the file."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InvalidInputError(f"{where} cannot be read: {error}") from error


def _folder_values(fragment: Any) -> dict[str, Any]:
    """Return the values that the folders of a file name."""
    import pyarrow.dataset as ds

    values: dict[str, Any] = ds.get_partition_keys(fragment.partition_expression)
    return values


def _pages(fragment: Any, schema: Any, n_rows: int) -> Iterator[Any]:
    """Yield the rows of a Parquet file, read page by page: row groups may be large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    of_folder = _folder_values(fragment)
    own = [name for name in schema.names if name in fragment.physical_schema.names]
    with fragment.filesystem.open_input_file(fragment.path) as file:
        reader = pq.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER)
        for batch in reader.iter_batches(n_rows, columns=own):
            columns = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
            for name in schema.names:
                if name not in columns:
                    value = pa.scalar(of_folder[name], schema.field(name).type)
                    columns[name] = pa.repeat(value, batch.num_rows)
            yield pa.RecordBatch.from_arrays(
                [columns[name] for name in schema.names], names=schema.names
            )


def are_many_files(path: Path) -> bool:
    """Return whether a path is a folder, or a pattern that names no file itself."""
    return path.is_dir() or (not path.exists() and any(sign in str(path) for sign in _GLOB))


def open_parquet(X: Any) -> ParquetSource:
    """Return the rows of Parquet files.

    Parameters
    ----------
    X : str, Path or list of these
        A file, several, a pattern such as ``"rows/*.parquet"``, or a folder, whose subfolders may
        name values of a column, such as ``year=2024``.

    Raises
    ------
    InvalidInputError
        If there is no such file, or it is not Parquet.
    MissingDependencyError
        If pyarrow is not installed.
    """
    given = [X] if isinstance(X, str | Path) else list(X)
    wrong = [path for path in given if not isinstance(path, str | Path)]
    if wrong:
        raise InvalidInputError(
            f"a list of files must contain only text or paths; one entry is {brief(wrong[0])}"
        )
    paths = [read_path("the file of rows", path) for path in given]
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError as error:
        raise MissingDependencyError(
            'reading Parquet files needs pyarrow: pip install "treepurify[parquet]"'
        ) from error
    words = repr(str(X)) if isinstance(X, str | Path) else f"{len(paths)} files"
    files: Any
    if len(paths) == 1 and paths[0].is_dir():
        files = str(paths[0])
    else:
        files = [file for path in paths for file in _files(str(path))]
    try:
        dataset = ds.dataset(files, format="parquet", partitioning="hive")
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InvalidInputError(f"{words} cannot be read as Parquet: {error}") from error
    if not dataset.files:
        raise InvalidInputError(f"the folder {words} has no Parquet files")
    return ParquetSource(dataset, words)


def _files(path: str) -> list[str]:
    """Return the file of a path, or all that a pattern matches, in the order of their names."""
    place = Path(path)
    if place.is_file():
        if place.suffix.lower() not in _PARQUET:
            raise InvalidInputError(
                f"{path!r} is not a Parquet file (.parquet, .pq): read it with pandas, or in "
                "batches with polars.scan_csv or duckdb.read_csv, and pass the result"
            )
        return [path]
    if any(sign in path for sign in _GLOB):
        root = Path(place.anchor) if place.is_absolute() else Path()
        pattern = str(place.relative_to(place.anchor)) if place.is_absolute() else path
        found = sorted(str(file) for file in root.glob(pattern) if file.is_file())
        if found:
            return found
    raise InvalidInputError(f"there is no file {path!r}; pass Parquet files, or a folder of them")
