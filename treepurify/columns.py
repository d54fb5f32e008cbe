"""Read user tables (NumPy, pandas, polars, Arrow) into one numeric column a feature."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_table, read_matrix, read_numbers
from treepurify.category_hash import category_hash
from treepurify.errors import InvalidInputError
from treepurify.features import FeatureSpec

__all__ = [
    "Columns",
    "check_known_categories",
    "column_order",
    "is_missing",
    "label_text",
    "read_columns",
    "table_names",
    "take_rows",
]

# LightGBM's kZeroThreshold: the double value of 1e-35 stored as float32.
ZERO_THRESHOLD = float(np.float32(1e-35))


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table, one float array a feature, in the order of the model.

    Parameters
    ----------
    features : tuple of FeatureSpec
        What the model knows about the columns.
    values : tuple of ndarray of shape (n_rows,)
        float32 or float64, possibly strided views of the caller's array. Missing is NaN.
        Categorical columns hold codes; the code ``n_codes`` stands for every value the
        model does not know.
    n_rows : int
        Number of rows.
    """

    features: tuple[FeatureSpec, ...]
    values: tuple[npt.NDArray[np.floating[Any]], ...]
    n_rows: int

    def matrix(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.float64]:
        """Rows ``start:stop`` as one C-ordered float64 matrix of shape (rows, n_features)."""
        stop = self.n_rows if stop is None else min(stop, self.n_rows)
        matrix = np.empty((max(stop - start, 0), len(self.values)))
        for j, column in enumerate(self.values):
            matrix[:, j] = column[start:stop]
        return matrix

    def take(self, rows: npt.NDArray[np.intp]) -> "Columns":
        """Return the given rows only."""
        return Columns(self.features, tuple(column[rows] for column in self.values), len(rows))


def read_columns(
    X: Any,
    features: Sequence[FeatureSpec],
    *,
    match_names: bool = True,
    only: Collection[int] | None = None,
) -> Columns:
    """Read a table into the columns that a model expects.

    Parameters
    ----------
    X : array_like of shape (n_rows, n_features), or pandas, polars or Arrow table
        The rows. An array is matched by position. A table is matched by name where the
        model has names (`match_names`), else by position.
    features : sequence of FeatureSpec
        The features, in the order of the model.
    match_names : bool
        Whether the names in `features` come from the user's own table.
    only : collection of int, optional
        Features whose values are needed: those of all others are missing in the result.

    Returns
    -------
    Columns

    Raises
    ------
    InvalidInputError
        If columns are missing, extra or unreadable; the message names them.
    """
    specs = tuple(features)
    if isinstance(X, Columns):
        return X
    check_table(X)
    if isinstance(X, np.ndarray) or not _is_table(X):
        return _read_array(X, specs, only)
    names = table_names(X) or []
    if match_names:
        order = column_order(names, specs)
    else:
        _check_count(len(names), specs)
        order = list(range(len(specs)))
    return _read_each(specs, int(X.shape[0]), lambda j: _table_column(X, order[j]), only)


def column_order(names: Sequence[str], features: Sequence[FeatureSpec]) -> list[int]:
    """Return the position in a table of each feature's column, matched by name.

    A name with blanks also matches a feature whose name has underscores in their place,
    because LightGBM keeps names in that form only.

    Parameters
    ----------
    names : sequence of str
        Column names of the table.
    features : sequence of FeatureSpec
        The features, in the order of the model.

    Returns
    -------
    list of int

    Raises
    ------
    InvalidInputError
        If columns are missing, extra or repeated; the message names them.
    """
    wanted = {spec.name for spec in features}.difference(names)
    matched = [joined if (joined := name.replace(" ", "_")) in wanted else name for name in names]
    _check_names(matched, tuple(features))
    position = {name: i for i, name in enumerate(matched)}
    return [position[spec.name] for spec in features]


def table_names(X: Any) -> list[str] | None:
    """Return the column names of a table, or None for an array."""
    if isinstance(X, Columns):
        return [spec.name for spec in X.features]
    check_table(X)
    if isinstance(X, np.ndarray) or not _is_table(X):
        return None
    return [str(label) for label in _table_labels(X)]


def take_rows(X: Any, rows: npt.NDArray[np.intp]) -> Any:
    """Return the given rows of a table, in the table's own type."""
    if isinstance(X, Columns):
        return X.take(rows)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names") and hasattr(X, "take"):
        return X.take(rows)
    if hasattr(X, "get_column"):
        return X[rows]
    return np.asarray(X)[rows]


def _is_table(X: Any) -> bool:
    return hasattr(X, "iloc") or hasattr(X, "get_column") or hasattr(X, "column_names")


def _table_labels(X: Any) -> list[Any]:
    if hasattr(X, "column_names"):
        return list(X.column_names)
    return list(X.columns)


def _table_column(X: Any, position: int) -> Any:
    """Return one column as a pandas Series (pandas, Arrow) or a NumPy array (polars)."""
    if hasattr(X, "iloc"):
        return X.iloc[:, position]
    if hasattr(X, "column_names"):
        return X.column(position).to_pandas()
    return X.get_column(X.columns[position]).to_numpy()


def _check_names(given: list[str], specs: tuple[FeatureSpec, ...]) -> None:
    expected = [spec.name for spec in specs]
    missing = [name for name in expected if name not in given]
    extra = [name for name in given if name not in expected]
    if len(set(given)) != len(given):
        repeated = sorted({name for name in given if given.count(name) > 1})
        raise InvalidInputError(f"columns appear more than once: {_listed(repeated)}")
    if missing or extra:
        parts = []
        if missing:
            parts.append(f"missing: {_listed(missing)}")
        if extra:
            parts.append(f"not known to the model: {_listed(extra)}")
        raise InvalidInputError(
            f"the table's columns do not match the model's features ({'; '.join(parts)}). "
            "Pass exactly the columns the model was trained on, in any order."
        )


def _check_count(count: int, specs: tuple[FeatureSpec, ...]) -> None:
    if count != len(specs):
        raise InvalidInputError(
            f"the model has {len(specs)} features, the data {count} columns. "
            "Pass exactly the columns the model was trained on, in the same order."
        )


def _listed(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _read_each(
    specs: tuple[FeatureSpec, ...],
    n_rows: int,
    column: Callable[[int], Any],
    only: Collection[int] | None,
) -> Columns:
    missing = np.broadcast_to(np.float64(np.nan), n_rows)
    values = tuple(
        _read_column(column(j), spec) if only is None or j in only else missing
        for j, spec in enumerate(specs)
    )
    return Columns(specs, values, n_rows)


def _read_array(X: Any, specs: tuple[FeatureSpec, ...], only: Collection[int] | None) -> Columns:
    array = read_matrix(X)
    _check_count(array.shape[1], specs)
    return _read_each(specs, array.shape[0], lambda j: array[:, j], only)


def _read_column(column: Any, spec: FeatureSpec) -> npt.NDArray[np.floating[Any]]:
    if spec.is_categorical:
        values: npt.NDArray[np.floating[Any]] = _read_categorical(column, spec)
    else:
        values = _without_missing_value(_read_numeric(column, spec), spec)
    if spec.zero_is_missing:
        values = np.where(np.abs(values) <= ZERO_THRESHOLD, np.nan, values)
    return values


def _without_missing_value(
    values: npt.NDArray[np.floating[Any]], spec: FeatureSpec
) -> npt.NDArray[np.floating[Any]]:
    """Turn the number that stands for missing into NaN, in values or in codes."""
    if spec.missing_value is None:
        return values
    # XGBoost, the one library with such a number, compares in single precision.
    with np.errstate(over="ignore"):
        same = values.astype(np.float32) == np.float32(spec.missing_value)
    return np.where(same, np.nan, values)


def _read_numeric(column: Any, spec: FeatureSpec) -> npt.NDArray[np.floating[Any]]:
    if isinstance(column, np.ndarray):
        dtype = column.dtype
        if dtype in (np.float64, np.float32):
            return column
        if dtype.kind in "biuf":
            return column.astype(np.float64)
        if dtype.kind == "O":
            return _numbers_of_objects(column, spec)
        raise _not_numeric(spec, f"dtype {dtype}")
    dtype = column.dtype
    if spec.categories is not None and hasattr(dtype, "categories") and hasattr(column, "cat"):
        codes = column.cat.codes.to_numpy()
        positions = _codes_of_categories(codes, dtype.categories, spec)
        return np.where(positions == spec.n_codes, np.nan, positions)
    kind = getattr(dtype, "kind", "O")
    if isinstance(dtype, np.dtype) and kind in "biufO":
        return _read_numeric(column.to_numpy(), spec)
    # pandas' nullable and Arrow-backed dtypes carry the kind of the numbers they hold.
    if kind in "biuf" and not hasattr(dtype, "categories"):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    raise _not_numeric(spec, f"dtype {dtype}")


def _numbers_of_objects(
    column: npt.NDArray[np.object_], spec: FeatureSpec
) -> npt.NDArray[np.float64]:
    missing = is_missing(column)
    present = column[~missing]
    for value in present:
        if not isinstance(value, Number | np.bool_) or isinstance(value, complex):
            raise _not_numeric(spec, f"the value {value!r}")
    values = np.full(len(column), np.nan)
    values[~missing] = read_numbers(f"the column of feature {spec.name!r}", present)
    return values


def _not_numeric(spec: FeatureSpec, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"feature {spec.name!r} is numeric in the model, but the column has {what}. "
        "Convert the column to numbers the way it was done for training."
    )


def is_missing(column: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    """Return where an object column holds None, NaN or pandas' NA."""
    # The missing markers are the only values that differ from themselves or refuse to say.
    return np.array([_is_missing_value(value) for value in column], dtype=bool)


def _is_missing_value(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, str):
        return False
    try:
        return bool(value != value)  # noqa: PLR0124 - this is how NaN is told from the rest
    except (TypeError, ValueError):
        return type(value).__name__ in ("NAType", "NaTType")


def _read_categorical(column: Any, spec: FeatureSpec) -> npt.NDArray[np.float64]:
    dtype = column.dtype
    if hasattr(dtype, "categories") and hasattr(column, "cat"):
        return _codes_of_categories(column.cat.codes.to_numpy(), dtype.categories, spec)
    kind = getattr(dtype, "kind", "O")
    if kind in "biuf":
        read = _read_numeric(column, _as_numeric(spec))
        numbers = _without_missing_value(read, spec).astype(np.float64)
        if spec.numbers_are == "codes" or spec.categories is None:
            return known_codes(numbers, spec)
        levels, inverse = np.unique(numbers, return_inverse=True)
        labels: list[Any] = [bool(v) for v in levels] if kind == "b" else list(levels)
        table = np.array([_lookup(label, spec) for label in labels])
        return np.asarray(table[inverse], dtype=np.float64)
    objects = np.asarray(column, dtype=object)
    return _codes_of_objects(objects, spec)


def _as_numeric(spec: FeatureSpec) -> FeatureSpec:
    return FeatureSpec(spec.name)


def known_codes(codes: npt.NDArray[np.float64], spec: FeatureSpec) -> npt.NDArray[np.float64]:
    """Truncate codes towards zero; unknown ones become `n_codes`; NaN stays."""
    # Adding zero turns the negative zero that truncation leaves into the code 0.
    truncated = np.trunc(codes) + 0.0
    negative = (truncated if spec.truncates_before_sign else codes) < 0
    unknown = negative | (truncated >= spec.n_codes)
    return np.asarray(np.where(unknown, float(spec.n_codes), truncated))


def check_known_categories(columns: Columns) -> None:
    """Refuse a column of which no value is known: labels of another training, most likely.

    Raises
    ------
    InvalidInputError
        If a categorical column has values, and the model knows none of them.
    """
    for spec, codes in zip(columns.features, columns.values, strict=True):
        if not spec.is_categorical or not spec.n_codes:
            continue
        present = codes[~np.isnan(codes)]
        if len(present) and np.all(present == spec.n_codes):
            known = f"the model knows {', '.join(map(str, (spec.categories or ())[:8]))}"
            if spec.categories is None:
                known = f"the model knows the codes 0 to {spec.n_codes - 1}"
            raise InvalidInputError(
                f"no value in the column of feature {spec.name!r} is known to the model; {known}. "
                "Pass the labels of the training, spelt as they were there."
            )


def _codes_of_categories(
    codes: npt.NDArray[Any], labels: Any, spec: FeatureSpec
) -> npt.NDArray[np.float64]:
    """Return the model's codes of a column's own codes, which number the given labels."""
    table = np.full(len(labels) + 1, np.nan)  # code -1, a missing value, stands last
    used = np.unique(codes[codes >= 0])
    if spec.categories is None:
        own_codes = _without_missing_value(used.astype(np.float64), spec)
        table[used] = known_codes(own_codes.astype(np.float64), spec)
    else:
        found = np.array([_lookup(label, spec) for label in labels[used]], dtype=np.float64)
        table[used] = _without_missing_value(found, spec)
    return np.asarray(table[codes])


def _codes_of_objects(
    column: npt.NDArray[np.object_], spec: FeatureSpec
) -> npt.NDArray[np.float64]:
    if spec.categories is None:
        missing = is_missing(column)
        if all(isinstance(value, Number) for value in column[~missing]):
            numbers = _without_missing_value(_numbers_of_objects(column, spec), spec)
            return known_codes(numbers.astype(np.float64), spec)
        raise InvalidInputError(
            f"feature {spec.name!r} is categorical, and the model knows its codes only, but the "
            "column has text. Pass a pandas column of dtype 'category' with the categories of "
            "the training data, or the integer codes."
        )
    known: dict[Hashable, float] = {}
    values = np.empty(len(column))
    for row, value in enumerate(column):
        code = np.nan if _is_missing_value(value) else known.get(value)
        if code is None:
            code = known[value] = _lookup(value, spec)
        values[row] = code
    return values


def _lookup(label: Any, spec: FeatureSpec) -> float:
    """Return the code of a label, `n_codes` where the model does not know it, NaN for NaN."""
    if _is_missing_value(label):
        return float("nan")
    if spec.label_hashes is not None:
        return float(spec.code_of.get(category_hash(label_text(label)), spec.n_codes))
    code = spec.code_of.get(label)
    if code is None and not isinstance(label, str):
        code = spec.code_of.get(label_text(label))
    return float(spec.n_codes if code is None else code)


def label_text(label: Any) -> str:
    """Return the text by which models that keep every label as text (EBM, CatBoost) know it."""
    if isinstance(label, bool | np.bool_ | int | np.integer):
        return str(int(label))
    if isinstance(label, float | np.floating):
        # Adding zero takes the sign off -0.0; whole numbers lose their ".0".
        return str(float(label) + 0.0).removesuffix(".0")
    return str(label)
