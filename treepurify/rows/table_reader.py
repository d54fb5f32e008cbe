"""Read user tables (NumPy, pandas, polars, Arrow) into one numeric column per feature."""

from ast import literal_eval
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from numbers import Number
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_numbers
from treepurify.errors import InvalidInputError
from treepurify.rows.category_hash import category_hash
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.missing_values import is_missing, is_missing_value, missing_kind
from treepurify.rows.tables import (
    by_columns,
    check_any_rows,
    check_dense_size,
    check_labels,
    deriving_steps,
    is_sparse,
    one_row,
    read_matrix,
    sparse_column,
    table_column,
    table_names,
    with_derived_columns,
)
from treepurify.typing import Array

_NONE: Mapping[str, Sequence[str]] = MappingProxyType({})


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
        The rows. An array is matched by position, and so are sparse rows of SciPy, whose entries
        that are not stored are zero, or missing where the model reads them so. A table is matched
        by name where the model has names (`match_names`), else by position. A pandas Series with
        names, or a dict of single values, is one row. Columns that a pipeline derives from others
        are made by its steps, unless the table has them.
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
    X = one_row(X)
    names = table_names(X)
    sparse = is_sparse(X)
    table = X if names is not None or sparse else read_matrix(X)
    steps = deriving_steps(specs, names, int(table.shape[1]))
    if steps is not None:
        if names is not None and match_names:
            ignored = _ignored(specs).difference(steps.takes)
            _check_names([name for name in names if name not in ignored], steps.takes)
        table = with_derived_columns(table, specs, steps)
        order = list(range(len(specs)))
    elif names is not None and match_names:
        order = column_order(names, specs)
    else:
        order = list(range(int(table.shape[1])))
        if names is not None and (ignored := _ignored(specs)):
            order = [k for k in order if names[k] not in ignored]
        _check_count(len(order), specs)
    wanted = range(len(specs)) if only is None else only
    if sparse:
        check_dense_size(int(X.shape[0]), len(wanted))
        table = by_columns(X)
    return read_placed_columns(table, specs, {j: order[j] for j in wanted})


def read_placed_columns(
    table: Any, features: tuple[FeatureSpec, ...], place: Mapping[int, int]
) -> Columns:
    """Read the columns of some features, those of all others are missing in the result.

    Parameters
    ----------
    table : table or ndarray
        The rows, of a kind that `table_column` knows.
    features : tuple of FeatureSpec
        The features, in the order of the model.
    place : mapping of int to int
        Position in the table of the column of each feature to read.

    Raises
    ------
    InvalidInputError
        If a column is unreadable; the message names it.
    """
    n_rows = int(table.shape[0])
    missing = np.broadcast_to(np.float64(np.nan), n_rows)
    values = tuple(
        _read_column(_column_of(table, place[j], spec), spec) if j in place else missing
        for j, spec in enumerate(features)
    )
    return Columns(features, values, n_rows)


def _column_of(table: Any, position: int, spec: FeatureSpec) -> Any:
    if not is_sparse(table):
        return table_column(table, position)
    if spec.absent_is_missing is None:
        raise InvalidInputError(
            f"where sparse rows store no value of {spec.name!r}, XGBoost reads a missing value, "
            "but the other models inside read zero: pass dense rows, or explain the models one by "
            "one"
        )
    return sparse_column(table, position, np.nan if spec.absent_is_missing else 0.0)


def column_order(names: Sequence[str], features: Sequence[FeatureSpec]) -> list[int]:
    """Return the position in a table of each feature's column, matched by name.

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
    matched = matched_names(names, features)
    ignored = _ignored(features)
    _check_names(
        [name for name in matched if name not in ignored],
        [spec.name for spec in features],
        {spec.name: spec.made_from for spec in features if spec.made_from},
    )
    position = {name: i for i, name in enumerate(matched)}
    return [position[spec.name] for spec in features]


def _ignored(features: Sequence[FeatureSpec]) -> set[str]:
    return {name for spec in features for name in spec.ignored}


def matched_names(names: Sequence[str], features: Sequence[FeatureSpec]) -> list[str]:
    """Return the names of columns, as the features have them where they have them.

    Names that differ in blanks and underscores only are the same where no column has the name
    itself, because LightGBM keeps names with underscores in the place of blanks; and so are the
    levels of a name in a tuple and joined by blanks, as XGBoost joins them.
    """
    absent = {spec.name for spec in features}.difference(names)
    joined = Counter(map(_plain_name, absent))
    wanted = {_plain_name(own): own for own in absent if joined[_plain_name(own)] == 1}
    known = {spec.name for spec in features}
    return [name if name in known else wanted.get(_plain_name(name), name) for name in names]


def _plain_name(name: str) -> str:
    """Return a name with underscores for blanks, and between the levels of a pandas MultiIndex."""
    if name.startswith("(") and name.endswith(")"):
        try:
            levels = literal_eval(name)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            levels = name
        name = " ".join(map(str, levels)) if isinstance(levels, tuple) else name
    return name.replace(" ", "_")


def _check_names(
    names: Sequence[str], wanted: Sequence[str], made_from: Mapping[str, Sequence[str]] = _NONE
) -> None:
    expected = dict.fromkeys(wanted)
    given = set(names)
    missing = [name for name in expected if name not in given]
    extra = [name for name in names if name not in expected]
    check_different(names)
    if missing or extra:
        derived = [name for name in missing if name in made_from]
        parts, advice = [], []
        if missing:
            parts.append(f"missing: {_listed(missing)}")
            if raw := [name for name in missing if name not in made_from]:
                advice.append(f"add {_listed(raw, 3)}{' or rename a column' * bool(extra)}")
        if extra:
            parts.append(f"unexpected: {_listed(extra)}")
            advice.append(
                "drop the others (in pandas, X.drop(columns=[...])), or name them in "
                "parse_model(model, ignore=[...])"
            )
        raise InvalidInputError(
            f"the table's columns do not match the model's features ({'; '.join(parts)}). "
            "Pass exactly the columns the model was trained on, in any order"
            + (f": {'; '.join(advice)}." if advice else ".")
            + _derived_advice(derived, made_from)
        )


def _derived_advice(missing: Sequence[str], made_from: Mapping[str, Sequence[str]]) -> str:
    if not missing:
        return ""
    made = "; ".join(f"{name!r} from {_listed(made_from[name])}" for name in missing[:5])
    more = "; ..." if len(missing) > 5 else ""
    return (
        " Some of them are computed from others by a pipeline or by CatBoost "
        f"({made}{more}). Without the model they cannot be computed here: pass "
        "tp.parse_model(model, X=X).columns(X), or another table that contains them."
    )


def check_different(names: Sequence[str]) -> None:
    """Raise `InvalidInputError` if several columns of a table have the same name."""
    count = Counter(names)
    if len(count) != len(names):
        repeated = sorted(name for name, times in count.items() if times > 1)
        raise InvalidInputError(f"columns appear more than once: {_listed(repeated)}")


def _check_count(count: int, specs: tuple[FeatureSpec, ...]) -> None:
    if count != len(specs):
        raise InvalidInputError(
            f"the model has {len(specs)} features, but the data have {count} columns. "
            "Pass exactly the columns the model was trained on, in the same order."
        )


def _listed(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _read_column(column: Any, spec: FeatureSpec) -> npt.NDArray[np.floating[Any]]:
    if spec.is_categorical:
        return _read_categorical(column, spec)
    return _without_missing_value(_read_numeric(column, spec), spec)


def _without_missing_value(
    values: npt.NDArray[np.floating[Any]], spec: FeatureSpec
) -> npt.NDArray[np.floating[Any]]:
    """Turn the number that stands for missing into NaN, in values or in codes."""
    if spec.missing_value is None and not spec.zero_is_missing:
        return values
    return np.where(spec.counts_as_missing(values), np.nan, values)


def _read_numeric(column: Any, spec: FeatureSpec) -> npt.NDArray[np.floating[Any]]:
    if isinstance(column, np.ndarray):
        dtype = column.dtype
        if dtype in (np.float64, np.float32):
            return column
        if dtype.kind in "biuf":
            return column.astype(np.float64)
        if spec.reads_texts and dtype.kind in "OU":
            return _numbers_of_texts(column, spec)
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
    if spec.reads_texts and kind == "O":
        return _numbers_of_texts(np.asarray(column, dtype=object), spec)
    raise _not_numeric(spec, f"dtype {dtype}")


def _numbers_of_texts(column: npt.NDArray[Any], spec: FeatureSpec) -> Array:
    """Return the numbers that texts, and categories, stand for."""
    import pandas as pd

    try:
        codes, labels = pd.factorize(np.asarray(column, dtype=object))
    except TypeError:  # lists and the like
        return _numbers_of_objects(column, spec)
    numbers = [*_numbers_of_labels(labels, spec), np.nan]  # code -1, a missing value, stands last
    return np.array(numbers)[codes]


def _numbers_of_labels(labels: Any, spec: FeatureSpec) -> list[float]:
    numbers = []
    for label in labels:
        try:
            numbers.append(float(label))
        except (TypeError, ValueError, OverflowError) as error:
            raise _not_numeric(spec, f"the value {label!r}") from error
    return numbers


def _numbers_of_objects(column: npt.NDArray[np.object_], spec: FeatureSpec) -> Array:
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
        "Convert the column to numbers as for training, for example with astype(float) if its "
        "text consists of numbers."
    )


def _read_categorical(column: Any, spec: FeatureSpec) -> Array:
    codes = _codes_of_column(column, spec)
    if not spec.missing_kinds:
        return codes
    rows = np.flatnonzero(np.isnan(codes))
    kinds = np.array([missing_kind(value) for value in np.asarray(column, dtype=object)[rows]])
    codes = codes.copy()
    for kind, code in spec.missing_kinds:
        codes[rows[kinds == kind]] = float(code)
    return codes


def _codes_of_column(column: Any, spec: FeatureSpec) -> Array:
    dtype = column.dtype
    has_labels = hasattr(dtype, "categories") and hasattr(column, "cat")
    is_number = spec.reads_texts and spec.categories is None
    if has_labels and not (is_number and _are_numbers(dtype.categories, spec)):
        return _codes_of_categories(column.cat.codes.to_numpy(), dtype.categories, spec)
    kind = getattr(dtype, "kind", "O")
    if kind in "biuf" or is_number:
        read = _read_numeric(column, _as_numeric(spec))
        numbers = _without_missing_value(read, spec).astype(np.float64)
        if spec.numbers_are == "codes" or spec.categories is None:
            return known_codes(numbers, spec)
        levels, inverse = np.unique(numbers, return_inverse=True)
        labels: list[Any] = [bool(v) for v in levels] if kind == "b" else list(levels)
        table = np.array([_lookup(label, spec) for label in labels])
        return np.asarray(table[inverse], dtype=np.float64)
    if kind == "m":
        check_labels(column)
    objects = np.asarray(column, dtype=object)
    return _codes_of_objects(objects, spec)


def _are_numbers(labels: Any, spec: FeatureSpec) -> bool:
    with suppress(InvalidInputError):
        return len(_numbers_of_labels(labels, spec)) > 0
    return False


def _as_numeric(spec: FeatureSpec) -> FeatureSpec:
    return FeatureSpec(spec.name, reads_texts=spec.reads_texts)


def known_codes(codes: Array, spec: FeatureSpec) -> Array:
    """Truncate codes towards zero; unknown ones become `n_codes`; NaN stays."""
    # Adding zero turns the negative zero that truncation leaves into the code 0.
    truncated = np.trunc(codes) + 0.0
    unknown = (truncated if spec.truncates_before_sign else codes) < 0
    if spec.listed_codes is not None:
        listed = np.asarray(spec.listed_codes, dtype=np.float64)
        place = np.searchsorted(listed[:-1], truncated)
        unknown |= (listed[place] != truncated) & ~np.isnan(codes)
        truncated = np.where(np.isnan(codes), np.nan, place)
    unknown |= truncated >= spec.n_codes
    return np.asarray(np.where(unknown, float(spec.n_codes), truncated))


def check_distribution(
    columns: Columns, purpose: str = "the rows that represent the distribution", name: str = "X"
) -> None:
    """Refuse rows that stand for no distribution: none, or labels of another training.

    Raises
    ------
    InvalidInputError
        If there are no rows, or the model knows no value of a categorical column.
    """
    check_any_rows(columns.n_rows, purpose, name)
    check_known_categories(columns)


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
            raise unknown_categories(spec)


def unknown_categories(spec: FeatureSpec) -> InvalidInputError:
    """Return the error for a column of which no value is known."""
    known = f"the model knows {', '.join(map(str, (spec.categories or ())[:8]))}"
    if spec.categories is None:
        known = f"the model knows the codes 0 to {spec.n_codes - 1}"
    if spec.listed_codes is not None:
        known = f"the model knows the codes {', '.join(map(str, spec.listed_codes[:8]))}"
    return InvalidInputError(
        f"the model knows none of the values in the column of feature {spec.name!r}; {known}. "
        "Pass the labels used in training, spelled the same way."
    )


def _codes_of_categories(codes: npt.NDArray[Any], labels: Any, spec: FeatureSpec) -> Array:
    """Return the model's codes of a column's own codes, which number the given labels."""
    table = np.full(len(labels) + 1, np.nan)  # code -1, a missing value, stands last
    used = np.unique(codes[codes >= 0])
    if spec.stored_labels and not spec.could_store(list(labels)):
        raise _not_in_order(spec, labels)
    if spec.categories is None:
        own_codes = _without_missing_value(used.astype(np.float64), spec)
        table[used] = known_codes(own_codes.astype(np.float64), spec)
    else:
        model_codes = np.array([_lookup(label, spec) for label in labels[used]], dtype=np.float64)
        table[used] = _without_missing_value(model_codes, spec)
    return np.asarray(table[codes])


def _not_in_order(spec: FeatureSpec, labels: Any) -> InvalidInputError:
    return InvalidInputError(
        f"feature {spec.name!r} was trained with {len(spec.stored_labels)} categories, some of "
        "them not plain ASCII, which XGBoost stores cut up; the column has other categories, or "
        f"has them in another order: {', '.join(map(repr, list(labels)[:8]))}. Pass a table with "
        "the categories of the training data in their order first, as X of this call or of "
        "parse_model(model, X=X): their labels are taken from it."
    )


def _codes_of_objects(column: npt.NDArray[np.object_], spec: FeatureSpec) -> Array:
    if spec.categories is None:
        missing = is_missing(column)
        if all(isinstance(value, Number) for value in column[~missing]):
            numbers = _without_missing_value(_numbers_of_objects(column, spec), spec)
            return known_codes(numbers.astype(np.float64), spec)
        raise InvalidInputError(
            f"feature {spec.name!r} is categorical, and the model stores only codes of its "
            "categories, but the column has text. Pass a pandas column of dtype 'category' with "
            "the categories of the training data, or the integer codes."
        )
    if not spec.n_codes:  # no tree tests it, so it may hold whatever the library takes
        return np.where(is_missing(column), np.nan, 0.0)
    import pandas as pd

    try:
        codes, labels = pd.factorize(column)
    except TypeError:
        check_labels(column, spec.name)
        raise
    return _codes_of_categories(codes, labels, spec)


def _lookup(label: Any, spec: FeatureSpec) -> float:
    """Return the code of a label, `n_codes` where the model does not know it, NaN for NaN."""
    if is_missing_value(label):
        return float("nan")
    if spec.label_hashes is not None:
        return float(spec.code_of.get(category_hash(label_text(label)), spec.n_codes))
    code = spec.code_of.get(label)
    if code is None and not isinstance(label, str):
        code = spec.code_of.get(label_text(label))
    return float(spec.n_codes if code is None else code)


def hashed_labels(column: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return `category_hash` of each label of a column, and which rows have none.

    Parameters
    ----------
    column : ndarray or pandas Series of shape (n_rows,)
        Labels, as `table_column` returns them.

    Returns
    -------
    hashes : ndarray of int64, shape (n_rows,)
        Zero at missing values.
    is_missing : ndarray of bool, shape (n_rows,)
    """
    import pandas as pd

    codes, labels = pd.factorize(np.asarray(column, dtype=object))
    hashes = [category_hash(label_text(label)) for label in labels]
    # Code -1, a missing value, stands last.
    return np.array([*hashes, 0], dtype=np.int64)[codes], codes < 0


def label_text(label: Any) -> str:
    """Return the text by which models that keep every label as text (EBM, CatBoost) know it."""
    if isinstance(label, bool | np.bool_ | int | np.integer):
        return str(int(label))
    if isinstance(label, float | np.floating):
        # Adding zero takes the sign off -0.0; whole numbers lose their ".0".
        return str(float(label) + 0.0).removesuffix(".0")
    return str(label)
