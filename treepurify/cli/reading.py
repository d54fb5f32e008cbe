"""Read the rows that a command is given, as its model reads a table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import ModelInputs
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.models.parse import parse_model
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.parquet_source import are_many_files, open_parquet
from treepurify.rows.table_reader import matched_names
from treepurify.storage import load

if TYPE_CHECKING:
    import pandas as pd

# What stands for a missing value in a CSV file, unless the model knows it as a category.
_MISSING = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#NA",
)  # fmt: skip
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MODELS = (".json", ".ubj", ".txt", ".cbm", ".tpz")
_PARQUET = (".parquet", ".pq")
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zip")
# Columns become numbers of double precision, or codes and pointers of that size.
_BYTES_A_VALUE = 8


class Rows(NamedTuple):
    """The rows of a file.

    Parameters
    ----------
    X : DataFrame or ParquetSource, optional
        The columns of the features, in memory or to be read in batches.
    y, weight : ndarray or str, optional
        The target and the weight of each row; the names of their columns for rows in batches.
    """

    X: Any = None
    y: Any = None
    weight: Any = None

    @property
    def held_out(self) -> tuple[Any, Any, Any]:
        """The features, the target and the weights, as functions take held-out rows."""
        if isinstance(self.y, str):
            return replace(self.X, left_out=self.X.left_out - {self.y}), self.y, self.weight
        return self.X, self.y, self.weight


def is_saved(path: Path) -> bool:
    """Return whether a file is a decomposition that purify wrote."""
    return path.suffix.lower() == ".tpz"


def read_rows(
    model: Path,
    data: Path | None,
    target: str | None = None,
    ignored: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    positive: str | None = None,
    groups: Sequence[str] | None = None,
) -> Rows:
    """Return the rows of a file, without the columns that are no features.

    Many Parquet files, and one that would take more than the default memory budget, are opened and
    read in batches later, unless `groups` are asked for.

    Parameters
    ----------
    model : Path
        The model file, or the saved decomposition, that says what the columns are.
    data : Path, optional
        A CSV or Parquet file, a folder of Parquet files or a pattern of their names.
    target, ignored, weight : optional
        The column of the target, other columns that are no features, and that of the weights.
    positive : str, optional
        The value of the target that counts as one; all others are zero then.
    groups : sequence of str, optional
        Columns that tell groups, which may be no features; they stay among the rows.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, has no rows, or a column is absent or not what the model reads.
    MissingDependencyError
        If a Parquet file is given and pyarrow is not installed.
    """
    if data is None:
        if target or ignored or weight:
            raise InvalidInputError("options that name columns need rows: name a DATA file")
        return Rows()
    inputs = _inputs(model)
    features = {spec.name for spec in inputs.features}
    apart = [
        target,
        weight,
        *(ignored or []),
        *(name for name in groups or [] if name not in features),
    ]
    named = [name for name in dict.fromkeys(apart) if name]
    if groups is None and _is_read_in_batches(data):
        source = open_parquet(data)
        _check_columns(source.names, named, data)
        if positive is not None:
            raise InvalidInputError("--positive needs rows in memory: pass one file that fits")
        return Rows(replace(source, left_out=frozenset(named) - {weight}), target, weight)
    table = _read_table(data, inputs, named)
    if len(table) == 0:
        raise InvalidInputError(f"{str(data)!r} has no rows")
    _check_features(inputs, table.drop(columns=named))
    return Rows(
        table.drop(columns=[name for name in named if name not in (groups or ())]),
        None if target is None else _observed(table[target], positive, data),
        None if weight is None else table[weight].to_numpy(),
    )


def _inputs(model: Path) -> ModelInputs:
    """Return what reads tables for a model file, or for a saved decomposition."""
    if is_saved(model):
        return load(model).inputs
    parsed = parse_model(model)
    return ModelInputs(parsed.features, parsed.has_feature_names)


def _is_read_in_batches(path: Path) -> bool:
    if are_many_files(path):
        return True
    if not path.is_file() or path.suffix.lower() not in _PARQUET:
        return False
    source = open_parquet(path)
    return (source.n_rows or 0) * len(source.names) * _BYTES_A_VALUE > DEFAULT_BUDGET


def _read_table(path: Path, inputs: ModelInputs, apart: Sequence[str]) -> "pd.DataFrame":
    if not path.exists():
        raise InvalidInputError(f"there is no file {str(path)!r}")
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix not in _COMPRESSIONS]
    kind = suffixes[-1] if suffixes else ""
    if path.is_dir() or kind in _PARQUET:
        table = _read_parquet(path)
        _check_columns(list(table.columns), apart, path)
        return table
    if kind in _SEPARATORS:
        return _read_csv(path, _SEPARATORS[kind], inputs, apart)
    second = ". To compare with a second model: compare MODEL DATA --other-model SECOND"
    raise InvalidInputError(
        f"{str(path)!r} is not a data file; data files are .csv, .tsv (also compressed, as "
        f".csv.gz) or .parquet{second if kind in _MODELS else ''}"
    )


def _check_columns(names: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InvalidInputError(
            f"{str(path)!r} has no column {', '.join(map(repr, absent))}; its columns are "
            f"{', '.join(map(str, names[:30]))}"
        )


def _check_features(inputs: ModelInputs, X: "pd.DataFrame") -> None:
    """Refuse a table that the model cannot read, and say how columns are left out."""
    try:
        inputs.columns(X)
    except InvalidInputError as error:
        known = {spec.name for spec in inputs.features}
        if known.issuperset(matched_names(list(map(str, X.columns)), inputs.features)):
            raise
        raise InvalidInputError(
            f"{error} On the command line, name the target with --target-column, and other "
            "columns to leave out with --drop-column"
        ) from error


def _observed(column: "pd.Series[Any]", positive: str | None, path: Path) -> Any:
    """Return the target; 0 and 1 where its positive value is named."""
    if positive is None:
        return column.to_numpy()
    missing, texts = int(column.isna().sum()), column.astype(str)
    if missing:
        raise InvalidInputError(
            f"{missing} rows of {str(path)!r} have no value in column {column.name!r}: remove them"
        )
    if positive not in set(texts):
        raise InvalidInputError(
            f"no row of {str(path)!r} has {positive!r} in column {column.name!r}; it has "
            f"{', '.join(sorted(texts.unique())[:10])}"
        )
    return (texts == positive).to_numpy().astype(float)


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


def _read_csv(
    path: Path, separator: str, inputs: ModelInputs, apart: Sequence[str]
) -> "pd.DataFrame":
    """Read a CSV file, in which columns of categorical features hold labels, as text."""
    import pandas as pd

    try:
        first = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str)
        names = [name for name in first.iloc[0] if isinstance(name, str)]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidInputError(
                f"{str(path)!r} has columns of the same name: "
                f"{', '.join(map(repr, repeated[:10]))}. Give each column a different name"
            )
        header = list(pd.read_csv(path, sep=separator, nrows=0).columns)
        _check_columns(header, apart, path)
        specs = _specs_of([name for name in header if name not in apart], inputs)
        table = pd.read_csv(
            path,
            sep=separator,
            dtype={name: str for name, spec in specs.items() if _holds_text(spec)},
            keep_default_na=False,
            na_values={
                name: [text for text in _MISSING if text not in _labels(specs.get(name))]
                for name in header
            },
        )
    except (OSError, UnicodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read as CSV: {error}") from error
    return table.assign(**{name: _with_labels(table[name], spec) for name, spec in specs.items()})


def _specs_of(names: list[str], inputs: ModelInputs) -> dict[str, FeatureSpec]:
    """Return the features of the columns that have one."""
    if not inputs.match_names:
        return dict(zip(names, inputs.features, strict=False))
    known = {spec.name: spec for spec in inputs.features}
    matched = zip(names, matched_names(names, inputs.features), strict=True)
    return {name: known[match] for name, match in matched if match in known}


def _labels(spec: FeatureSpec | None) -> Sequence[Any]:
    return () if spec is None else spec.categories or ()


def _holds_text(spec: FeatureSpec) -> bool:
    return spec.label_hashes is not None or any(isinstance(label, str) for label in _labels(spec))


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
