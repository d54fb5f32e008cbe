"""The form of the caller's table: what its columns are, and how rows are put together again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_names, read_numbers
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Columns, FeatureSpec, ordered_labels
from treepurify.rows.missing_values import is_missing
from treepurify.rows.table_reader import read_columns
from treepurify.rows.tables import (
    check_labels,
    frame_or_matrix,
    table_column,
    table_names,
)
from treepurify.saving import savable


@savable("form of a table")
@dataclass(frozen=True, eq=False)
class TableForm:
    """What a table looked like, to put rows together for a function from columns that were read.

    Parameters
    ----------
    names : tuple, optional
        Column labels of a data frame; None for an array.
    dtypes : tuple
        Type of each column.
    none : tuple of int
        Positions of the columns whose missing values are None, and not NaN.
    """

    names: tuple[Any, ...] | None
    dtypes: tuple[Any, ...]
    none: tuple[int, ...] = ()

    @property
    def is_frame(self) -> bool:
        """Whether it is a data frame, whose columns are matched by name."""
        return self.names is not None

    def rebuild(self, columns: Columns) -> Any:
        """Return a table of this form with the values of `columns`.

        Arrays of numbers that are not whole are of double precision. Where a column cannot
        hold a value, such as a mean of whole numbers, the column has double precision too.

        Raises
        ------
        InvalidInputError
            If a category was not among those of the rows that the form was read from.
        """
        if self.names is None and not any(spec.is_categorical for spec in columns.features):
            matrix = columns.matrix()
            return _cast(matrix, self.dtypes[0]) if self.dtypes else matrix
        import pandas as pd

        values = [
            _numbers(column, dtype) if spec.categories is None else _labels(column, spec, dtype)
            for column, spec, dtype in zip(
                columns.values, columns.features, self.dtypes, strict=True
            )
        ]
        for j in self.none:
            column = pd.Series(values[j], dtype=object)
            values[j] = column.where(~np.isnan(columns.values[j]), None)
        if self.names is None:
            objects = np.stack([np.asarray(column, dtype=object) for column in values], axis=1)
            return _cast_labels(objects, self.dtypes[0])
        return pd.DataFrame(dict(enumerate(values))).set_axis(list(self.names), axis=1)


def read_form(X: Any, feature_names: Sequence[str] | None) -> tuple[Any, list[str], TableForm]:
    """Return a table as a pandas data frame or an array, its feature names, and its form.

    Raises
    ------
    InvalidInputError
        If `X` is not a table, has no rows or columns, two columns of one name, or columns of
        other names than `feature_names`.
    """
    table = frame_or_matrix(X)
    labels = table_names(table)
    if 0 in table.shape:
        raise InvalidInputError(
            f"X has no {'rows' if table.shape[1] else 'columns'}; pass the rows that represent "
            "the distribution"
        )
    names = [f"x{j}" for j in range(table.shape[1])]
    if labels is not None:
        names = read_names("the columns of X", labels, table.shape[1])
    if feature_names is not None:
        asked = read_names("feature_names", feature_names, table.shape[1])
        if labels is not None and asked != names:
            raise InvalidInputError(
                "X has column names: rename its columns instead of passing other feature_names"
            )
        names = asked
    if labels is not None:
        return table, names, TableForm(tuple(table.columns), tuple(table.dtypes))
    return table, names, TableForm(None, (table.dtype,) * table.shape[1])


def read_table(X: Any, feature_names: Sequence[str] | None) -> tuple[Any, Columns, TableForm]:
    """Return a table as `read_form` does, its rows, and its form.

    Raises
    ------
    InvalidInputError
        If it cannot be used, or a column holds dates or complex numbers, or an array no numbers.
    """
    table, names, form = read_form(X, feature_names)
    features = tuple(_feature(name, table_column(table, j)) for j, name in enumerate(names))
    dtypes = enumerate(form.dtypes)
    objects = [j for j, dtype in dtypes if form.is_frame and dtype == np.dtype(object)]
    none = [j for j in objects if _is_none(table_column(table, j))]
    form = replace(form, none=tuple(none))
    return table, read_columns(table, features, match_names=form.is_frame), form


def _is_none(column: Any) -> bool:
    """Return whether a column of objects has missing values, and all of them are None."""
    missing = column[column.isna()]
    return len(missing) > 0 and all(value is None for value in missing)


def _feature(name: str, column: Any) -> FeatureSpec:
    """Return how a column is read for a function: as numbers, or as the labels that it has."""
    if hasattr(column.dtype, "categories"):
        labels: Sequence[Any] = list(column.dtype.categories)
    elif getattr(column.dtype, "kind", "O") in "biuf":
        return FeatureSpec(name)
    else:
        check_labels(column)
        if isinstance(column, np.ndarray):
            read_numbers(
                "an array of rows", column, "contain only numbers; pass labels in a DataFrame"
            )
            return FeatureSpec(name)
        objects = column.to_numpy(dtype=object)
        labels = sorted(set(objects[~is_missing(objects)]), key=str)
    return FeatureSpec(
        name,
        "categorical",
        categories=tuple(labels),
        n_codes=len(labels),
        numbers_are="labels",
        ordered_labels=ordered_labels(column),
    )


def _cast(values: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    """Return numbers in a type of whole numbers, where it can hold each of them."""
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biu":
        return values
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
    return cast if np.array_equal(cast, values) else values


def _numbers(values: npt.NDArray[Any], dtype: Any) -> Any:
    import pandas as pd

    if isinstance(dtype, np.dtype) or getattr(dtype, "kind", "O") not in "biu":
        return _cast(values, dtype)
    present = values[~np.isnan(values)]
    is_whole = np.all(np.isfinite(present)) and np.array_equal(present, np.trunc(present))
    return pd.Series(values).astype(dtype) if is_whole else values


def _labels(values: npt.NDArray[Any], spec: FeatureSpec, dtype: Any) -> Any:
    import pandas as pd

    if np.any(values >= spec.n_codes):
        raise InvalidInputError(
            f"feature {spec.name!r} has values that did not occur when the function was "
            "decomposed: give its column a category dtype that lists all values, in every table"
        )
    missing = np.isnan(values)
    codes = np.where(missing, -1, values).astype(np.intp)
    categories = pd.Index(list(spec.categories or ()), tupleize_cols=False)
    return _cast_labels(pd.Categorical.from_codes(codes, categories=categories), dtype)


def _cast_labels(labels: Any, dtype: Any) -> Any:
    """Return labels in the type of their column; missing ones turn whole numbers to floats."""
    import pandas as pd

    if isinstance(dtype, np.dtype) and dtype.kind in "biu" and np.any(pd.isna(labels)):
        dtype = np.dtype(np.float64)
    return labels.astype(dtype)
