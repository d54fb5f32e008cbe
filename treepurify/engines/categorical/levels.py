"""Read any table as levels: labels, few numbers, or bins of many numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import mark_levels, renumber_levels
from treepurify.engines.common.table_form import TableForm, read_form
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, code_type
from treepurify.grids.quantile_cuts import quantile_cuts
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.row_weights import RowWeights, read_row_weights
from treepurify.rows.table_reader import read_columns
from treepurify.rows.tables import check_labels, table_column
from treepurify.typing import Integers

__all__ = ["columns_of_levels", "read_levels"]

_WIDEST_RANGE = 1 << 16


def read_levels(
    X: Any,
    bins: int,
    feature_names: Sequence[str] | None,
    sample_weight: npt.ArrayLike | None = None,
) -> tuple[Any, Grid, npt.NDArray[Any], TableForm]:
    """Make a grid whose cells are the levels in a table, and encode the table on it.

    Text, categories and numeric columns of at most `bins` distinct values have one level per
    value; numeric columns of more are cut at quantiles. Missing values are a level of their
    own, the last.

    Parameters
    ----------
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    bins : int
        Most levels of a numeric column.
    feature_names : sequence of str, optional
        Names of the features.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, for quantiles.

    Returns
    -------
    DataFrame or ndarray
        The table itself.
    Grid
    ndarray of unsigned int, shape (n_features, n_rows)
        Level of each row.
    TableForm
        The form of the table.
    """
    table, names, form = read_form(X, feature_names)
    weights = read_row_weights(sample_weight, table.shape[0])
    specs, axes, codes = [], [], []
    for position, name in enumerate(names):
        column = table_column(table, position)
        check_labels(column)
        spec, axis, column_codes = _read_column(name, column, bins, weights)
        specs.append(spec)
        axes.append(axis)
        codes.append(column_codes)
    narrow = np.empty((len(codes), len(codes[0])), dtype=code_type(max(a.n_cells for a in axes)))
    for j, column_codes in enumerate(codes):
        narrow[j] = column_codes
    return table, Grid(tuple(axes), tuple(specs), form.is_frame), narrow, form


def columns_of_levels(table: Any, grid: Grid, codes: npt.NDArray[Any]) -> Columns:
    """Return the rows of a table that `read_levels` gave its grid and codes of."""
    binned = [j for j, spec in enumerate(grid.features) if not spec.is_categorical]
    read = read_columns(table, grid.features, match_names=False, only=binned)
    values = tuple(
        np.where(levels < spec.n_codes, levels, np.nan) if spec.is_categorical else numbers
        for spec, levels, numbers in zip(grid.features, codes, read.values, strict=True)
    )
    return Columns(grid.features, values, read.n_rows)


def _read_column(
    name: str, column: Any, bins: int, weights: RowWeights
) -> tuple[FeatureSpec, FeatureAxis, npt.NDArray[Any]]:
    labels, codes, numbers = _factorized(column)
    missing = codes < 0
    has_missing = bool(missing.any())
    if numbers is not None and len(labels) > bins:
        cuts = quantile_cuts(numbers, bins, weights)
        axis = FeatureAxis(name, cuts, has_missing=has_missing)
        cell_codes = np.searchsorted(cuts, numbers, side="right")
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
        cell_codes = codes
    if has_missing:
        cell_codes = np.where(missing, axis.n_cells - 1, cell_codes)
    return spec, axis, cell_codes.astype(code_type(axis.n_cells))


def _factorized(
    column: Any,
) -> tuple[list[Any], Integers, npt.NDArray[Any] | None]:
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


def _numbers(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Integers]:
    """Return the distinct numbers and the code of each row; -1 where it is missing."""
    if numbers.dtype.kind != "f":
        return _distinct_numbers(numbers)
    codes = np.full(len(numbers), -1, dtype=np.int64)
    present = ~np.isnan(numbers)
    values, codes[present] = _distinct_numbers(numbers[present])
    return values, codes


def _distinct_numbers(
    numbers: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], Integers]:
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
