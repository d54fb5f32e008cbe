"""Read the function, the levels of the rows and their measure for a categorical decomposition.

Columns become levels: the values of text and of few numbers, quantile bins of many numbers. Under
the measure of the rows these stand for themselves; under another one the function is called at the
combinations of levels that have mass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import mark_levels, renumber_levels
from treepurify.arguments import check_whole
from treepurify.budget import check_budget, rounded_count
from treepurify.components import ModelInputs
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.engines.common.functions import (
    ParsedFunction,
    RowFunction,
    called_function,
    check_function,
    is_function,
    parsed_or_none,
    read_values,
    value_names,
)
from treepurify.engines.common.known_values import KnownValues
from treepurify.engines.common.table_form import TableForm, read_form
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis, quantile_cuts
from treepurify.grids.grid import EncodedRows, Grid, code_type, encode_rows, make_grid
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.columns import Columns, FeatureSpec, ordered_labels
from treepurify.rows.row_weights import RowWeights, read_row_weights
from treepurify.rows.table_reader import check_distribution, read_columns
from treepurify.rows.tables import check_labels, table_column
from treepurify.typing import Array, Integers
from treepurify.weights import Weighting
from treepurify.weights.points import MeasurePoints, points_in_cells

# Whole numbers within such a range are counted in place of being sorted.
_WIDEST_RANGE = 1 << 16
# Where a level is a bin, the function is called at a value of the rows in it.
_SEED = 0


@dataclass(frozen=True, eq=False)
class CategoricalProblem:
    """The function to be decomposed and the rows that it is decomposed over.

    Parameters
    ----------
    grid : Grid
        The levels of each feature.
    codes : ndarray of int, shape (n_features, n_rows)
        Level of each row.
    values : ndarray of float64, shape (n_rows, n_outputs)
        Values of the function.
    function : RowFunction, optional
        The function; None where only its values were given.
    output_names : tuple of str
        One name per output.
    link : Link
        From the values to the response, for a parsed model.
    source : str
        Where the values came from, in words.
    columns : Columns
        The rows.
    """

    grid: Grid
    codes: npt.NDArray[Any]
    values: Array
    function: RowFunction | None
    output_names: tuple[str, ...]
    link: Link
    source: str
    columns: Columns

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""
        return ModelInputs(self.grid.features, self.grid.match_names)


def read_problem(
    model: Any,
    X: Any,
    bins: int,
    feature_names: Sequence[str] | None,
    sample_weight: npt.ArrayLike | None = None,
) -> CategoricalProblem:
    """Return the function's values over levels.

    A tree ensemble is decomposed on its margin scale and on its own grid. Other models and
    functions are evaluated on the rows as they are.
    """
    check_whole("bins", bins, 2)
    parsed = parsed_or_none(model, feature_names, X) if is_function(model) else None
    if isinstance(parsed, TreeEnsemble):
        return _of_ensemble(parsed, X)
    table, grid, codes, form = _read_levels(X, bins, feature_names, sample_weight)
    columns = _columns_of_levels(table, grid, codes)
    if not is_function(model):
        values = read_values(model, codes.shape[1])
        names = value_names(values.shape[1])
        return CategoricalProblem(grid, codes, values, None, names, Link(), "given values", columns)
    if parsed is None:
        called, link = called_function(model), Link()
        source = "predict" if hasattr(model, "predict") else "function"
    else:
        called, link = ParsedFunction(parsed), parsed.link
        source = f"margin of the {parsed.source.library} model"
    function = check_function(called, table, columns, form)
    values = function(columns)
    names = value_names(values.shape[1]) if parsed is None else parsed.output_names
    return CategoricalProblem(grid, codes, values, function, names, link, source, columns)


def _of_ensemble(ensemble: TreeEnsemble, X: Any) -> CategoricalProblem:
    columns = ensemble.columns(X)
    check_distribution(columns, "the rows to decompose over")
    grid, rows = make_grid(
        columns,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
    )
    codes = rows.codes if rows is not None else np.zeros((0, 0), np.uint8)
    margin = ParsedFunction(ensemble)
    return CategoricalProblem(
        grid,
        codes,
        margin(columns),
        margin,
        ensemble.output_names,
        ensemble.link,
        f"margin of the {ensemble.source.library} model",
        columns,
    )


def _read_levels(
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


def _columns_of_levels(table: Any, grid: Grid, codes: npt.NDArray[Any]) -> Columns:
    """Return the rows of a table that `_read_levels` gave its grid and codes of."""
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
            ordered_labels=ordered_labels(column),
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
            raise InvalidInputError(f"column {series.name!r} contains infinite values")
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


@dataclass(frozen=True, eq=False)
class Measured:
    """The problem at the combinations of levels that have mass.

    Parameters
    ----------
    problem : CategoricalProblem
        The problem with the combinations in place of the rows.
    weights : ndarray of float64, shape (n_combinations,), optional
        Their weights; None for equal weights.
    words : str
        The measure in words.
    facts : mapping of str to object
        What was found, for diagnostics.
    note : str
        What a reader of the certificate must know.
    are_rows : bool
        Whether each combination is one row, so that their number tells how large the sample is.
    """

    problem: CategoricalProblem
    weights: RowWeights
    words: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    are_rows: bool = False


def measured(
    problem: CategoricalProblem, row_weights: RowWeights, weighting: Weighting, memory_budget: int
) -> Measured:
    """Return the problem under a weighting.

    Under a measure that rows stand for, these are its rows; else all combinations of levels that
    have mass, at which the function is called.

    Raises
    ------
    InvalidInputError
        If the function is known by values on the rows alone, and other combinations have mass.
    MemoryBudgetError
        If there are too many combinations.
    """
    if weighting.share_of_rows == 1.0:
        return Measured(problem, row_weights, weighting.describe(), are_rows=True)
    fitted = weighting.fitted(problem.columns, row_weights, memory_budget)
    weighting, note = fitted.weighting, fitted.note
    facts = {"measure": dict(fitted.facts)} if fitted.facts else {}
    if weighting.share_of_rows == 1.0 and fitted.columns is not None:
        at_points = _at_points(problem, fitted.columns)
        return Measured(at_points, fitted.row_weights, weighting.describe(), facts, note)
    at_cells, mass = _at_cells(problem, row_weights, weighting, memory_budget)
    return Measured(at_cells, mass, weighting.describe(), facts, note)


def _at_points(problem: CategoricalProblem, points: Columns) -> CategoricalProblem:
    """Return the problem at points whose values are values of the rows."""
    encoded, _ = encode_rows(points, problem.grid.axes)
    values = _values(problem, points, encoded)
    return replace(problem, codes=encoded.codes, values=values, columns=points)


def _at_cells(
    problem: CategoricalProblem, row_weights: RowWeights, weighting: Weighting, memory_budget: int
) -> tuple[CategoricalProblem, Array]:
    """Return the problem at all combinations of levels with mass, and their masses."""
    grid, n_outputs = problem.grid, problem.values.shape[1]
    every = tuple(range(grid.n_features))
    n_cells = prod(grid.shape(every))
    check_budget(
        8 * n_cells * (2 * grid.n_features + n_outputs + 3),
        memory_budget,
        f"{rounded_count(n_cells)} combinations of the levels of all features",
        'Use weights="empirical" or "auto", or pass fewer features or bins.',
    )
    rows = EncodedRows(problem.codes, row_weights)
    joint = weighting.tables(grid, rows, [every])[every]
    cells = np.nonzero(joint > 0)
    rng = np.random.default_rng(_SEED)
    codes = np.stack(cells).astype(problem.codes.dtype)
    points = points_in_cells(codes, MeasurePoints(problem.columns, rows), grid, rng)
    values = _values(problem, points.columns, EncodedRows(codes))
    at_cells = replace(problem, codes=codes, values=values, columns=points.columns)
    return at_cells, joint[cells]


def _values(problem: CategoricalProblem, columns: Columns, rows: EncodedRows) -> Array:
    """Return the function at points: its values on the rows, where only these are known."""
    if problem.function is not None:
        return problem.function(columns)
    known = KnownValues(problem.inputs, problem.codes.T, problem.values, problem.grid.axes)
    return known.in_cells(rows.codes)
