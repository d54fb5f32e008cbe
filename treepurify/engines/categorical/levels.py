"""Read any table as levels: labels, few numbers, or bins of many numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import mark_levels, renumber_levels
from treepurify.arguments import check_labels, check_table, read_matrix, read_names
from treepurify.columns import Columns
from treepurify.engines.categorical.observations import code_type
from treepurify.errors import InvalidInputError
from treepurify.features import FeatureSpec
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid
from treepurify.saving import savable

__all__ = ["TableForm", "read_levels"]

_WIDEST_RANGE = 1 << 16


@savable("form of a table")
@dataclass(frozen=True, eq=False)
class TableForm:
    """What a table looked like, to rebuild one for the function from columns that were read.

    Parameters
    ----------
    names : tuple of str, optional
        Column names of a data frame; None for an array.
    dtypes : tuple
        Type of each column.
    """

    names: tuple[Any, ...] | None
    dtypes: tuple[Any, ...]

    def rebuild(self, columns: Columns) -> Any:
        """Return a table of the original form with the values of `columns`."""
        values = [
            _original(values, spec, dtype)
            for values, spec, dtype in zip(
                columns.values, columns.features, self.dtypes, strict=True
            )
        ]
        if self.names is not None:
            import pandas as pd

            return pd.DataFrame(dict(enumerate(values))).set_axis(list(self.names), axis=1)
        if not values:
            return np.zeros((columns.n_rows, 0))
        return np.stack([np.asarray(own) for own in values], axis=1)


def _original(values: npt.NDArray[Any], spec: FeatureSpec, dtype: Any) -> Any:
    """Return a column's own values: labels for codes, in the original type."""
    import pandas as pd

    missing = np.isnan(values)
    if spec.categories is None:
        keep = missing.any() and not isinstance(dtype, np.dtype)
        return pd.array(values, dtype=dtype) if keep else _cast(values, dtype, missing)
    labels = np.array([*spec.categories, None], dtype=object)
    unknown = ~missing & (values >= len(spec.categories))
    if unknown.any():
        raise InvalidInputError(
            f"feature {spec.name!r} has values that were not among the rows decomposed"
        )
    own = labels[np.where(missing, len(spec.categories), values).astype(np.intp)]
    if isinstance(dtype, np.dtype):
        if dtype.kind in "biuf" and missing.any():
            own = np.where(missing, np.nan, own).astype(np.float64)
        return _cast(own, dtype, missing)
    return pd.array(own, dtype=dtype)


def _cast(values: npt.NDArray[Any], dtype: Any, missing: npt.NDArray[np.bool_]) -> Any:
    whole = isinstance(dtype, np.dtype) and dtype.kind in "biu"
    return values if whole and missing.any() else np.asarray(values).astype(dtype)


def read_levels(
    X: Any, bins: int, feature_names: Sequence[str] | None
) -> tuple[Grid, npt.NDArray[Any], TableForm]:
    """Make a grid whose cells are the levels in a table, and encode the table on it.

    Text, categories and numeric columns of at most `bins` distinct values have one level a
    value; numeric columns of more are cut at quantiles. Missing values are a level of their
    own, the last.

    Parameters
    ----------
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    bins : int
        Most levels of a numeric column.
    feature_names : sequence of str, optional
        Names of the columns.
    """
    table, form = _as_columns(X)
    labels = None
    if feature_names is not None:
        labels = read_names("feature_names", feature_names, len(table))
    elif form.names is not None:
        labels = read_names("the columns of X", [*map(str, form.names)], len(table))
    specs, axes, codes = [], [], []
    for position, column in enumerate(table):
        name = labels[position] if labels is not None else f"x{position}"
        spec, axis, own = _read_column(name, column, bins)
        specs.append(spec)
        axes.append(axis)
        codes.append(own)
    match_names = form.names is not None and feature_names is None
    narrow = np.empty((len(codes), len(codes[0])), dtype=code_type(max(a.n_cells for a in axes)))
    for j, own in enumerate(codes):
        narrow[j] = own
    return Grid(tuple(axes), tuple(specs), match_names), narrow, form


def _as_columns(X: Any) -> tuple[list[Any], TableForm]:
    check_table(X)
    if hasattr(X, "to_pandas") and not hasattr(X, "iloc"):
        X = X.to_pandas()
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2:
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        form = TableForm(tuple(X.columns), tuple(column.dtype for column in columns))
    else:
        array = read_matrix(X)
        columns = [array[:, j] for j in range(array.shape[1])]
        form = TableForm(None, (array.dtype,) * array.shape[1])
    for column in columns:
        check_labels(column)
    if not columns or len(columns[0]) == 0:
        raise InvalidInputError("X has no rows or no columns; pass the rows to decompose over")
    return columns, form


def _read_column(
    name: str, column: Any, bins: int
) -> tuple[FeatureSpec, FeatureAxis, npt.NDArray[Any]]:
    labels, codes, numbers = _factorized(column)
    missing = codes < 0
    has_missing = bool(missing.any())
    if numbers is not None and len(labels) > bins:
        cuts = np.unique(np.quantile(numbers[~missing], np.arange(1, bins) / bins))
        cuts = cuts[cuts > numbers[~missing].min()]
        axis = FeatureAxis(name, cuts, has_missing=has_missing)
        own = np.searchsorted(cuts, numbers, side="right")
        spec = FeatureSpec(name, has_missing=has_missing)
    else:
        spec = FeatureSpec(
            name,
            "categorical",
            categories=tuple(labels),
            n_codes=len(labels),
            numbers_are="labels",
            has_missing=has_missing,
        )
        axis = FeatureAxis(name, None, categories=tuple(labels), has_missing=has_missing)
        own = codes
    if has_missing:
        own = np.where(missing, axis.n_cells - 1, own)
    return spec, axis, own.astype(code_type(axis.n_cells))


def _factorized(
    column: Any,
) -> tuple[list[Any], npt.NDArray[np.int64], npt.NDArray[Any] | None]:
    """Return the labels in order, the code of each row (-1 for missing), and the numbers."""
    import pandas as pd

    if isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
        used = column.cat.remove_unused_categories()
        return list(used.cat.categories), np.asarray(used.cat.codes, np.int64), None
    series = pd.Series(column) if not isinstance(column, pd.Series) else column
    if series.dtype == object:
        series = series.infer_objects()
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_complex_dtype(series):
        is_bool = pd.api.types.is_bool_dtype(series)
        is_whole = isinstance(series.dtype, np.dtype) and series.dtype.kind in "biu"
        numbers = (
            series.to_numpy() if is_whole else series.to_numpy(dtype=np.float64, na_value=np.nan)
        )
        if not is_whole and np.any(np.isinf(numbers)):
            raise InvalidInputError(f"column {series.name!r} holds infinite values")
        values, codes = _numbers(numbers)
        plain = [bool(v) if is_bool else int(v) if v == int(v) else v for v in values.tolist()]
        return plain, codes, numbers
    try:
        codes, labels = pd.factorize(series, sort=True)
    except TypeError:
        raise InvalidInputError(
            f"column {series.name!r} mixes types that cannot be sorted; convert it to text"
        ) from None
    return list(labels), np.asarray(codes, dtype=np.int64), None


def _numbers(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the distinct numbers and the code of each row; -1 where it is missing."""
    if numbers.dtype.kind != "f":
        return _distinct_numbers(numbers)
    codes = np.full(len(numbers), -1, dtype=np.int64)
    present = ~np.isnan(numbers)
    values, codes[present] = _distinct_numbers(numbers[present])
    return values, codes


def _distinct_numbers(
    numbers: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    lowest, highest = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 0.0)
    is_whole = numbers.dtype.kind != "f" or bool(np.all(numbers == np.trunc(numbers)))
    if not is_whole or highest - lowest >= _WIDEST_RANGE:
        values, codes = np.unique(numbers.astype(np.float64), return_inverse=True)
        return values, codes.reshape(-1)
    # Whole numbers of a small range need no sorting.
    is_shifted = numbers.dtype.kind == "u" and lowest == 0
    shifted = numbers if is_shifted else numbers.astype(np.int64) - int(lowest)
    used = np.zeros(int(highest - lowest) + 1, dtype=bool)
    mark_levels(shifted, used)
    codes = np.empty(len(numbers), dtype=np.int64)
    renumber_levels(shifted, np.cumsum(used) - 1, codes)
    return np.flatnonzero(used) + int(lowest), codes
