"""Read a data file the way the model reads a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.models.parse import parse_model
from treepurify.rows.batches import HEAD_ROWS, first_rows
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.parquet_source import ParquetSource, are_many_files, open_parquet
from treepurify.rows.source_reader import head_table
from treepurify.rows.table_reader import check_known_categories, matched_names
from treepurify.storage import load
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DataFile",
    "TableReader",
    "is_saved",
    "open_in_batches",
    "read_data",
    "read_rows",
    "table_reader",
]

# What stands for a missing value in a CSV file, unless the model knows it as a category.
_MISSING = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#NA",
)  # fmt: skip
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MODEL_SUFFIXES = {".json", ".ubj", ".txt", ".cbm"}
_PARQUET = {".parquet", ".pq"}
# Columns become numbers of double precision, or codes and pointers of that size.
_BYTES_A_VALUE = 8
_COMPRESSIONS = {".gz", ".bz2", ".xz", ".zip"}


class TableReader(Protocol):
    """What reads tables: a parsed model, or a saved decomposition."""

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The features, in the order of the model."""

    @property
    def has_feature_names(self) -> bool:
        """Whether columns are found by name."""

    def columns(self, X: Any) -> Columns:
        """Read a table."""


@dataclass(frozen=True)
class _SavedInputs:
    """What a saved decomposition reads, as a model offers it."""

    d: Decomposition

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        return self.d.inputs.features

    @property
    def has_feature_names(self) -> bool:
        return self.d.inputs.match_names

    def columns(self, X: Any) -> Columns:
        return self.d.inputs.columns(X)


def is_saved(path: Path) -> bool:
    """Return whether a file is a decomposition that purify wrote."""
    return path.suffix.lower() == ".tpz"


def table_reader(path: Path) -> TableReader:
    """Return what reads tables for a model file, or for a saved decomposition."""
    return _SavedInputs(load(path)) if is_saved(path) else parse_model(path)


@dataclass(frozen=True, eq=False)
class DataFile:
    """The rows of a data file.

    Parameters
    ----------
    X : DataFrame or ParquetSource, optional
        The columns of the features, in memory or to be read in batches.
    sample_weight : ndarray of float64, shape (n_rows,), or str, optional
        Weight of each row; the name of their column where rows are read in batches.
    apart : DataFrame, optional
        The columns that are no features; None where rows are read in batches.
    """

    X: "pd.DataFrame | ParquetSource | None" = None
    sample_weight: Array | str | None = None
    apart: "pd.DataFrame | None" = None

    def first(self, n_rows: int, model: TableReader) -> Any:
        """Return the first rows, with the columns of the model.

        Raises
        ------
        InvalidInputError
            If rows are read in batches, and more are requested than are read in advance.
        """
        if not isinstance(self.X, ParquetSource):
            return None if self.X is None else self.X.head(n_rows)
        if n_rows > HEAD_ROWS:
            raise InvalidInputError(
                f"of rows that are read in batches, the first {HEAD_ROWS} or fewer can be "
                f"examples; got {n_rows}"
            )
        weight = self.sample_weight if isinstance(self.sample_weight, str) else None
        return first_rows(head_table(self.X, model.features, weight), n_rows)


def _is_read_in_batches(path: Path) -> bool:
    """Return whether rows are many Parquet files, or one that would not fit the memory budget."""
    if are_many_files(path):
        return True
    is_parquet = path.is_file() and path.suffix.lower() in _PARQUET
    return is_parquet and _bytes_in_memory(path) > DEFAULT_BUDGET


def _bytes_in_memory(path: Path) -> int:
    """Return about how many bytes the rows of a Parquet file would take, which it states."""
    source = open_parquet(path)
    return (source.n_rows or 0) * len(source.names) * _BYTES_A_VALUE


def open_in_batches(
    path: Path, dropped: Sequence[str], weight_column: str | None
) -> ParquetSource | None:
    """Return the rows of many files, or of a large one, unread; None where they fit in memory.

    Raises
    ------
    InvalidInputError
        If there are no such files, or they lack a column that is named.
    MissingDependencyError
        If pyarrow is not installed.
    """
    if not _is_read_in_batches(path):
        return None
    source = open_parquet(path)
    _check_columns(source.names, [*dropped, *([weight_column] if weight_column else [])], path)
    return replace(source, left_out=frozenset(dropped))


def read_data(
    path: Path, model: TableReader, *, dropped: Sequence[str] = (), weight_column: str | None = None
) -> DataFile:
    """Read a CSV or Parquet file.

    Columns of a CSV file whose feature is categorical in the model hold its labels, as text;
    where the model knows codes only they must hold the codes.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or a column is absent or holds what the model cannot read.
    MissingDependencyError
        If a Parquet file is given and pyarrow is not installed.
    """
    if not path.exists():
        raise InvalidInputError(f"there is no file {str(path)!r}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _COMPRESSIONS else path.suffix
    apart = [*dropped, *([weight_column] if weight_column else [])]
    if kind.lower() in _PARQUET:
        table = _read_parquet(path)
        _check_columns(table.columns, apart, path)
    elif kind.lower() in _SEPARATORS:
        table = _read_csv(path, _SEPARATORS[kind.lower()], model, apart)
    else:
        second = ". To compare with a second model: compare MODEL DATA --other-model SECOND"
        raise InvalidInputError(
            f"{str(path)!r} is not a data file; data files are .csv, .tsv (also compressed, as "
            ".csv.gz) or .parquet"
            f"{second if path.suffix.lower() in _MODEL_SUFFIXES else ''}"
        )
    weights = None
    if weight_column is not None:
        weights = _numbers(table[weight_column], weight_column)
    X = table.drop(columns=apart)
    check_known_categories(_read_columns(model, X))
    return DataFile(X, weights, table[apart])


def read_rows(
    model: TableReader,
    data: Path,
    target_column: str | None,
    drop_column: list[str] | None,
    sample_weight_column: str | None,
) -> DataFile:
    """Return the rows of a data file or of many, without the columns that are no features.

    A folder of Parquet files, a pattern of names, and a file that would take more than the default
    memory budget are opened, and read in batches later.

    Raises
    ------
    InvalidInputError
        If the files cannot be read, have no rows, or lack a column that is named.
    MissingDependencyError
        If a Parquet file is given and pyarrow is not installed.
    """
    apart = [*([target_column] if target_column else []), *(drop_column or [])]
    source = open_in_batches(data, apart, sample_weight_column)
    if source is not None:
        return DataFile(source, sample_weight_column)
    rows = read_data(data, model, dropped=apart, weight_column=sample_weight_column)
    if rows.apart is None or len(rows.apart) == 0:
        raise InvalidInputError(f"{str(data)!r} has no rows")
    return rows


def _read_columns(model: TableReader, X: "pd.DataFrame") -> Columns:
    try:
        return model.columns(X)
    except InvalidInputError as error:
        known = {spec.name for spec in model.features}
        if known.issuperset(matched_names(list(map(str, X.columns)), model.features)):
            raise
        raise InvalidInputError(
            f"{error} On the command line, name the target with --target-column, and other "
            "columns to leave out with --drop-column"
        ) from error


def _numbers(column: "pd.Series[Any]", name: str) -> Array:
    try:
        return column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the weights in column {name!r} are not numbers: {error}"
        ) from error


def _read_parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except ImportError as error:
        raise MissingDependencyError(
            'reading Parquet files needs pyarrow: pip install "treepurify[parquet]"'
        ) from error
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read as Parquet: {error}") from error


def _read_csv(path: Path, separator: str, model: TableReader, apart: list[str]) -> "pd.DataFrame":
    import pandas as pd

    try:
        _check_header(pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str), path)
        header = pd.read_csv(path, sep=separator, nrows=0).columns
        _check_columns(header, apart, path)
        specs = _specs_of_columns([name for name in header if name not in apart], model)
        table = pd.read_csv(
            path,
            sep=separator,
            dtype={name: str for name, spec in specs.items() if _holds_text(spec)},
            keep_default_na=False,
            na_values={name: _missing_values(specs.get(name)) for name in header},
        )
    except (OSError, UnicodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read as CSV: {error}") from error
    return table.assign(**{name: _with_labels(table[name], spec) for name, spec in specs.items()})


def _check_header(first: "pd.DataFrame", path: Path) -> None:
    """Refuse names that occur twice, which pandas would rename."""
    names = [name for name in first.iloc[0] if isinstance(name, str)]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInputError(
            f"{str(path)!r} has columns of the same name: {', '.join(map(repr, repeated[:10]))}. "
            "Give each column a different name"
        )


def _check_columns(names: Any, wanted: list[str], path: Path) -> None:
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InvalidInputError(
            f"{str(path)!r} has no column {', '.join(map(repr, absent))}; its columns are "
            f"{', '.join(map(str, list(names)[:30]))}"
        )


def _specs_of_columns(names: list[str], model: TableReader) -> dict[str, FeatureSpec]:
    if not model.has_feature_names:
        return dict(zip(names, model.features, strict=False))
    known = {spec.name: spec for spec in model.features}
    matched = zip(names, matched_names(names, model.features), strict=True)
    return {name: known[match] for name, match in matched if match in known}


def _holds_text(spec: FeatureSpec) -> bool:
    labels = spec.categories or ()
    return spec.label_hashes is not None or any(isinstance(label, str) for label in labels)


def _missing_values(spec: FeatureSpec | None) -> list[str]:
    labels = spec.categories or () if spec is not None else ()
    return [text for text in _MISSING if text not in labels]


def _with_labels(column: "pd.Series[Any]", spec: FeatureSpec) -> "pd.Series[Any]":
    """Turn numbers in a CSV file into labels, where the model would take them for codes."""
    import pandas as pd

    is_number = pd.api.types.is_numeric_dtype(column)
    if spec.categories is None:
        if spec.is_categorical and spec.label_hashes is None and not is_number:
            raise InvalidInputError(
                f"feature {spec.name!r} is categorical, and the model file has only its codes, "
                "but the column has text. Use the integer codes of the training data (the "
                "positions of the categories, sorted as in training), or purify in Python with a "
                "pandas column of dtype 'category'."
            )
        return column
    # Text in a categorical column is looked up as it is; a number in a numeric one is a number.
    return column.astype("category") if is_number == spec.is_categorical else column
