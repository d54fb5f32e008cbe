"""Points that stand for a measure, and the cells on which a function is decomposed."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.columns import Columns
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.table_effects import table_cuts
from treepurify.engines.common.functions import ParsedFunction, RowFunction
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Cuts, EncodedRows, Grid, encode_rows
from treepurify.models.ensemble import TreeEnsemble
from treepurify.weights import Empirical, Independent, Laplace, Rows, Uniform, Weighting

__all__ = ["MeasurePoints", "function_cuts", "measure_points"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeasurePoints:
    """Rows with weights that stand for a measure.

    Parameters
    ----------
    columns : Columns
        The rows.
    encoded : EncodedRows
        Their cells.
    shares : ndarray of float64, shape (n_points,)
        Their weights, which sum to one.
    drawn : int
        How many of them were drawn at random; the others are the caller's rows.
    """

    columns: Columns
    encoded: EncodedRows
    shares: Array
    drawn: int


def function_cuts(f: RowFunction, columns: Columns, bins: int) -> Cuts:
    """Return the cuts of each numeric feature: the model's own, else quantiles of the rows.

    A feature with at most `bins` different values is cut between them.
    """
    if isinstance(f, ParsedFunction):
        model = f.model
        return ensemble_cuts(model) if isinstance(model, TreeEnsemble) else table_cuts(model)
    return tuple(
        None if spec.is_categorical else _quantile_cuts(values, bins)
        for spec, values in zip(f.features, columns.values, strict=True)
    )


def _quantile_cuts(values: npt.NDArray[np.floating], bins: int) -> Array:
    finite = values[np.isfinite(values)].astype(np.float64)
    levels = np.unique(finite)
    if len(levels) <= bins:
        return np.asarray((levels[1:] + levels[:-1]) / 2)
    inner = np.arange(1, bins) / bins
    cuts = np.unique(np.quantile(finite, inner, method="inverted_cdf"))
    return np.asarray(cuts[cuts > levels[0]])


def measure_points(
    columns: Columns,
    grid: Grid,
    rows: EncodedRows,
    weighting: Weighting,
    n_points: int,
    seed: int,
) -> MeasurePoints:
    """Return points that stand for the measure of a weighting.

    The rows themselves stand for the empirical measure. Independent features are drawn one
    by one from the rows, uniform ones from the cells and then among the rows' own values
    within the cell.

    Raises
    ------
    InvalidInputError
        If the weighting gives no distribution that points can be drawn from.
    """
    weights = np.ones(columns.n_rows) if rows.weights is None else rows.weights
    shares = weights / weights.sum()
    rng = np.random.default_rng(seed)
    if isinstance(weighting, Empirical | Rows):
        return MeasurePoints(columns, rows, shares, 0)
    if isinstance(weighting, Independent):
        drawn = _independent(columns, shares, n_points, rng)
        return _points(drawn, grid, np.full(n_points, 1.0 / n_points))
    if isinstance(weighting, Uniform):
        drawn = _uniform(columns, grid, rows, weighting, n_points, rng)
        return _points(drawn, grid, np.full(n_points, 1.0 / n_points))
    if isinstance(weighting, Laplace) and weighting.variant == "mixture":
        part = _points(
            _uniform(columns, grid, rows, Uniform(), n_points, rng),
            grid,
            np.full(n_points, weighting.smoothing / n_points),
        )
        values = tuple(
            np.concatenate([own, new])
            for own, new in zip(columns.values, part.columns.values, strict=True)
        )
        codes = np.concatenate([rows.codes, part.encoded.codes], axis=1)
        return MeasurePoints(
            Columns(columns.features, values, columns.n_rows + n_points),
            EncodedRows(codes),
            np.concatenate([(1 - weighting.smoothing) * shares, part.shares]),
            n_points,
        )
    raise InvalidInputError(
        f'points cannot be drawn from weights={weighting.describe()!r}; use "empirical", '
        '"laplace", "independent", "uniform" or Rows(...)'
    )


def _points(columns: Columns, grid: Grid, shares: Array) -> MeasurePoints:
    encoded, _ = encode_rows(columns, grid.axes)
    return MeasurePoints(columns, encoded, shares, columns.n_rows)


def _independent(
    columns: Columns, shares: Array, n_points: int, rng: np.random.Generator
) -> Columns:
    values = tuple(
        column[rng.choice(columns.n_rows, size=n_points, p=shares)] for column in columns.values
    )
    return Columns(columns.features, values, n_points)


def _uniform(
    columns: Columns,
    grid: Grid,
    rows: EncodedRows,
    weighting: Uniform,
    n_points: int,
    rng: np.random.Generator,
) -> Columns:
    tables = weighting.tables(grid, None, [(j,) for j in range(grid.n_features)])
    values = []
    for j, axis in enumerate(grid.axes):
        cell = rng.choice(axis.n_cells, size=n_points, p=tables[(j,)])
        values.append(_within(axis, cell, columns.values[j], rows.codes[j], rng))
    return Columns(columns.features, tuple(values), n_points)


def _within(
    axis: FeatureAxis,
    cell: npt.NDArray[np.intp],
    known: npt.NDArray[np.floating],
    codes: npt.NDArray[np.unsignedinteger],
    rng: np.random.Generator,
) -> Array:
    """Return a value in each cell: that of a row in it, else the lower end of the cell."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(axis.n_cells + 1))
    count = np.diff(ends)[cell]
    if axis.cuts is None:
        between = np.where(cell == axis.missing_cell, np.nan, cell.astype(np.float64))
    elif len(axis.cuts):
        inner = np.concatenate([[np.nextafter(axis.cuts[0], -np.inf)], axis.cuts])
        between = np.append(inner, np.full(int(axis.has_missing), np.nan))[cell]
    else:
        between = np.zeros(len(cell))
    picked = ends[cell] + (rng.random(len(cell)) * count).astype(np.intp)
    own = known[order[np.minimum(picked, len(order) - 1)]].astype(np.float64)
    return np.where(count > 0, own, between)
