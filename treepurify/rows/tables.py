"""What is asked of a table, whatever its kind: names, columns (derived ones, too), some rows.

A kind is told by what it offers, so that no library of tables is imported: ``iloc`` (pandas and
what works like it), ``get_column`` (polars), ``column_names`` (Arrow).

narwhals would read more kinds, but loses what models need, and the three branches below would
stay (`benchmarks/table_reader.py`, narwhals 2.29):

* Its categorical columns have no codes, by which a model may know them, and ``get_categories`` is
  deprecated. Labels that are numbers become text, so that ``3`` no longer is the category 3.
* A missing value in an Arrow dictionary becomes the last category in ``to_numpy``.
* It refuses two columns of one name, which models without names read by position.
* A million rows of 20 pandas columns of categories take 20 s by label and 0.5 s by code; numbers,
  1 to 7 ms either way.

For tables that stay in a database or a cluster it remains the way to get batches as Arrow tables.

Sparse input of SciPy is told by what it offers, too, and read column by column.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Derivation, FeatureSpec, TableSteps

if TYPE_CHECKING:
    import pandas as pd
from collections.abc import Mapping
from pathlib import PurePath

from treepurify.arguments import brief
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices


def deriving_steps(
    features: Sequence[FeatureSpec], names: Sequence[str] | None, n_columns: int
) -> TableSteps | None:
    """Return the steps that make columns which a table lacks; None where it lacks none.

    Parameters
    ----------
    features : sequence of FeatureSpec
        The features, in the order of the model.
    names : sequence of str, optional
        Names of the columns of the table; None for an array.
    n_columns : int
        Number of columns of the table.
    """
    derived = {spec.name: spec.derivation for spec in features if spec.derivation is not None}
    if not derived:
        return None
    steps = next(iter(derived.values())).steps
    if names is None:
        return None if n_columns == len(features) != len(steps.takes) else steps
    return None if derived.keys() <= set(names) else steps


def with_derived_columns(X: Any, features: Sequence[FeatureSpec], steps: TableSteps) -> Any:
    """Return a data frame with one column per feature, in their order.

    Parameters
    ----------
    X : table or ndarray of shape (n_rows, n_raw)
        Rows with the columns that the model takes: by name where the table has these names, else
        by position.
    features : sequence of FeatureSpec
        The features, in the order of the model.
    steps : TableSteps
        What makes the derived ones.

    Returns
    -------
    DataFrame of shape (n_rows, n_features)

    Raises
    ------
    InvalidInputError
        If there are too many or too few columns, or the steps do not take their values.
    """
    import pandas as pd

    check_table(X)
    if is_sparse(X):
        raise InvalidInputError(
            "the model or its pipeline computes more columns from those of X, which is not "
            "possible with sparse rows: pass X.toarray()"
        )
    frame = frame_or_matrix(X)
    if frame.shape[1] != len(steps.takes) and not set(steps.takes) <= set(table_names(X) or ()):
        raise InvalidInputError(
            f"the model takes {len(steps.takes)} columns, but the data have {frame.shape[1]}. Pass "
            "exactly the columns that the model was trained on, in the same order."
        )
    if not hasattr(frame, "iloc"):
        frame = pd.DataFrame(frame).infer_objects()
    names = list(map(str, frame.columns))
    named = set(steps.takes) <= set(names)
    place = {name: names.index(name) if named else k for k, name in enumerate(steps.takes)}
    made = iter(_made(X, [spec.derivation for spec in features if spec.derivation is not None]))
    columns = [
        frame.iloc[:, place[spec.name]].reset_index(drop=True)
        if spec.derivation is None
        else pd.Series(next(made))
        for spec in features
    ]
    return pd.concat(columns, axis=1, keys=[spec.name for spec in features])


def derived_frame(X: Any, features: Sequence[FeatureSpec]) -> "pd.DataFrame":
    """Return the derived columns of raw rows, with labels in the place of codes.

    Parameters
    ----------
    X : table or ndarray of shape (n_rows, n_raw)
        Rows with the columns that the model takes.
    features : sequence of FeatureSpec
        The features of a model.

    Returns
    -------
    DataFrame of shape (n_rows, n_derived)
        With the index of `X`, if that has one.
    """
    import pandas as pd

    check_table(X)
    derived = [spec for spec in features if spec.derivation is not None]
    made = _made(X, [spec.derivation for spec in derived if spec.derivation is not None])
    named = {spec.name: _labelled(column, spec) for spec, column in zip(derived, made, strict=True)}
    return pd.DataFrame(named, index=getattr(X, "index", None))


def _labelled(column: npt.NDArray[Any], spec: FeatureSpec) -> npt.NDArray[Any]:
    is_coded = spec.categories is not None and spec.numbers_are == "codes"
    if not is_coded or not np.issubdtype(column.dtype, np.integer):
        return column
    labels: npt.NDArray[Any] = np.array(spec.labels, dtype=object)
    return np.take(labels, column)


def _made(X: Any, derivations: Sequence[Derivation]) -> list[npt.NDArray[Any]]:
    """Return the derived columns; those of models that were joined may have several steps."""
    wanted: dict[TableSteps, list[int]] = {}
    for k, derivation in enumerate(derivations):
        wanted.setdefault(derivation.steps, []).append(k)
    made: dict[int, npt.NDArray[Any]] = {}
    for steps, mine in wanted.items():
        columns = steps.columns(X, [derivations[k].position for k in mine])
        made.update(zip(mine, columns, strict=True))
    return [made[k] for k in range(len(derivations))]


_ADVICE = (
    "Sparse rows are read into dense columns: pass fewer rows, or only the columns that the "
    "model needs."
)


def one_row(X: Any) -> Any:
    """Return a table of one row for a Series or a dict of single values, by name; else what it is.

    Examples
    --------
    >>> one_row({"age": 40, "kind": "a"}).to_dict("list")
    {'age': [40], 'kind': ['a']}
    """
    is_series = hasattr(X, "iloc") and getattr(X, "ndim", 2) == 1
    if is_series and not all(isinstance(name, str) for name in X.index):
        return X
    if not is_series and not (isinstance(X, Mapping) and X and all(map(_is_single, X.values()))):
        return X
    import pandas as pd

    return pd.DataFrame({name: [value] for name, value in X.items()})


def _is_single(value: Any) -> bool:
    return isinstance(value, str | bytes) or not (
        hasattr(value, "__len__") or (hasattr(value, "__array__") and np.ndim(value))
    )


def is_table(X: Any) -> bool:
    """Return whether something is a pandas, polars or Arrow table, or works like one."""
    if isinstance(X, np.ndarray):
        return False
    return hasattr(X, "iloc") or hasattr(X, "get_column") or hasattr(X, "column_names")


def _is_in_batches(X: Any) -> bool:
    """Return whether something stands for rows that are not in memory, as a `Source` reads them."""
    if isinstance(X, str | PurePath) or hasattr(X, "get_fragments"):
        return True
    library = type(X).__module__.partition(".")[0]
    if library in ("dask", "dask_expr") or type(X).__name__ == "DuckDBPyRelation":
        return True
    if is_table(X) or hasattr(X, "__array__"):
        return False
    return hasattr(X, "__next__") or hasattr(X, "__arrow_c_stream__")


def check_table(X: Any, name: str = "X") -> None:
    """Raise `InvalidInputError` for what is neither a table nor an array of rows."""
    expected = f"{name} must be a table or a two-dimensional array (rows, features)"
    if isinstance(X, type):
        raise InvalidInputError(f"{expected}, got the class {X.__qualname__}")
    if _is_in_batches(X):
        raise InvalidInputError(
            f"{expected} here, since all rows are read at once; got {brief(X)}. Pass a table. "
            "Files, Dask frames and other rows in batches are accepted by functions that do not "
            "need all rows at once, such as purify, compare, audit and effect_worth, and by the "
            "methods predict, contributions, shapley_values, r_squared and verify of their results"
        )
    if is_table(X):
        if getattr(X, "ndim", 2) != 2:
            raise InvalidInputError(
                f"expected a table with rows and columns, got a single column: pass {name} with "
                "all columns of the model (for a pipeline that reads text, a table of one column)"
            )
        return
    if is_sparse(X):
        check_sparse(X, name)
        return
    kind = type(X).__name__
    if kind == "LazyFrame":
        raise InvalidInputError(
            f"{expected}; a polars LazyFrame contains no rows yet: pass X.collect()"
        )
    if "GroupBy" in kind:
        raise InvalidInputError(
            f"{expected}, got a {kind}: pass the table itself, or one group at a time"
        )
    is_rows = isinstance(X, list | tuple) or hasattr(X, "__array__")
    if not (is_rows or hasattr(X, "n_rows")):
        raise InvalidInputError(f"{expected}, got {brief(X)}")


def read_matrix(X: Any, name: str = "X") -> npt.NDArray[Any]:
    """Return rows that are no table as an array of two dimensions, of any type but complex.

    Entries that sparse rows do not store are zero.

    Raises
    ------
    InvalidInputError
        If they are ragged, or have another number of dimensions.
    """
    check_table(X, name)
    if is_sparse(X):
        return _dense_rows(X)
    expected = "expected a two-dimensional array (rows, features)"
    try:
        array = np.asarray(X)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{expected}, with the same number of values in each row; got {brief(X)}, which is "
            f"not such an array ({error})"
        ) from error
    if array.ndim != 2:
        raise InvalidInputError(f"{expected}, got shape {array.shape}")
    if array.dtype.kind == "c":
        raise InvalidInputError(f"{expected} of real numbers or labels, got {array.dtype}")
    return array


def frame_or_matrix(X: Any) -> Any:
    """Return a table of any kind as a pandas data frame, and other rows as `read_matrix` does."""
    check_table(X)
    if hasattr(X, "iloc"):
        return _native(X)
    return frame_or_matrix(to_pandas(X)) if hasattr(X, "to_pandas") else read_matrix(X)


def to_pandas(X: Any) -> Any:
    """Return a polars or Arrow table as a data frame of pandas, whose missing texts are None."""
    frame = X.to_pandas()
    for position in range(frame.shape[1] if frame.ndim == 2 else 0):
        column = frame.iloc[:, position]
        if (read := _with_none(column)) is not column:
            frame.isetitem(position, read)
    return frame


def _with_none(column: Any) -> Any:
    """Return a column of texts with None for missing ones, as it was before pandas read it."""
    dtype = column.dtype
    is_text = not hasattr(dtype, "categories") and getattr(dtype, "kind", "O") == "O"
    if not is_text or not column.isna().any():
        return column
    return column.astype(object).where(column.notna(), None)


def check_labels(column: Any, name: str | None = None) -> None:
    """Raise `InvalidInputError` for a column of dates, complex numbers or lists: no labels."""
    name = getattr(column, "name", None) if name is None else name
    where = "a column of X" if name is None else f"column {name!r}"
    if getattr(column.dtype, "kind", "O") in "cmM":
        raise InvalidInputError(
            f"{where} has the type {column.dtype}, but columns must be real numbers or labels. "
            "Convert the column to numbers as for training."
        )
    if column.dtype != np.dtype(object):
        return
    wrong = next((value for value in column if getattr(value, "__hash__", None) is None), None)
    if wrong is not None:
        raise InvalidInputError(
            f"{where} contains values of type {type(wrong).__name__}, but columns must be real "
            "numbers or labels. Pass a column for each number in them, as for training."
        )


def table_names(X: Any) -> list[str] | None:
    """Return the column names of a table, or None for an array."""
    if isinstance(X, Columns):
        return [spec.name for spec in X.features]
    check_table(X)
    if not is_table(X):
        return None
    return [str(label) for label in (X.column_names if hasattr(X, "column_names") else X.columns)]


def table_column(X: Any, position: int) -> Any:
    """Return one column: of pandas and Arrow a pandas Series, of all others an array."""
    if hasattr(X, "iloc"):
        return X.iloc[:, position]
    if hasattr(X, "column_names"):
        return _with_none(X.column(position).to_pandas())
    if hasattr(X, "get_column"):
        return X.get_column(X.columns[position]).to_numpy()
    return np.asarray(X)[:, position]


def take_rows(X: Any, rows: Indices) -> Any:
    """Return the given rows of a table, in the table's own type."""
    if isinstance(X, Columns) or hasattr(X, "column_names"):
        return X.take(rows)
    if hasattr(X, "iloc"):
        return _native(X).iloc[rows]
    if is_sparse(X):
        return X.tocsr()[rows]
    return X[rows] if hasattr(X, "get_column") else np.asarray(X)[rows]


def _native(frame: Any) -> Any:
    """Return a data frame with the byte order of this machine, as pandas takes rows of no other."""
    if frame.ndim == 1:
        return frame
    is_foreign = [isinstance(dtype, np.dtype) and not dtype.isnative for dtype in frame.dtypes]
    foreign = [j for j, is_one in enumerate(is_foreign) if is_one]
    if foreign:
        frame = frame.copy(deep=False)
    for j in foreign:
        values = frame.iloc[:, j].to_numpy()
        frame.isetitem(j, values.astype(values.dtype.newbyteorder("=")))
    return frame


def row_labels(X: Any) -> Any:
    """Return the index of the rows of a pandas table; None for others, and for a single row."""
    return X.index if hasattr(X, "iloc") and X.ndim > 1 else None


def row_count(X: Any) -> int:
    """Return the number of rows of a table, an array or a list of rows."""
    if isinstance(X, Columns):
        return X.n_rows
    shape = getattr(X, "shape", None)
    if shape is None:
        return len(X)
    # A single number is taken for a row here; those who read it say what is wrong.
    return int(shape[0]) if shape else 1


def check_any_rows(
    n_rows: int, purpose: str = "the rows that represent the distribution", name: str = "X"
) -> None:
    """Raise `InvalidInputError` where there are no rows, saying what to pass."""
    if n_rows == 0:
        raise InvalidInputError(f"{name} has no rows; pass {purpose}")


def is_sparse(X: Any) -> bool:
    """Return whether something is a sparse matrix or a sparse array of SciPy."""
    return hasattr(X, "tocsc") and hasattr(X, "toarray") and not isinstance(X, type)


def check_sparse(X: Any, name: str) -> None:
    """Refuse sparse rows of complex numbers, or of another number of dimensions than two."""
    if len(X.shape) != 2 or X.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{name} must be a two-dimensional array (rows, features) of real numbers, got sparse "
            f"values of shape {X.shape} and type {X.dtype}"
        )


def check_dense_size(n_rows: int, n_columns: int) -> None:
    """Raise `MemoryBudgetError` if that many dense columns exceed the budget."""
    what = f"{n_columns} columns of {n_rows} sparse rows"
    check_budget(8 * n_rows * n_columns, DEFAULT_BUDGET, what, _ADVICE)


def _dense_rows(X: Any) -> Array:
    """Return sparse rows as an array; what is absent is zero."""
    check_dense_size(*X.shape)
    return np.asarray(X.toarray())


def by_columns(X: Any) -> Any:
    """Return the same rows stored by column, each entry once."""
    columns = X.tocsc()
    if not columns.has_canonical_format:
        columns = columns.copy()
        columns.sum_duplicates()
    return columns


def sparse_column(X: Any, position: int, absent: float) -> Array:
    """Return one dense column of what `by_columns` returned.

    Parameters
    ----------
    X : sparse matrix or array in compressed columns
        The rows.
    position : int
        Which column.
    absent : float
        The value of entries that are not stored; those stored as zero are zero.
    """
    column = np.full(X.shape[0], absent)
    entries = slice(X.indptr[position], X.indptr[position + 1])
    column[X.indices[entries]] = X.data[entries]
    return column
