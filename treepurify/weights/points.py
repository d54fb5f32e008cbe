"""Points that stand for a measure where a function can only be called."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, encode_rows
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices

__all__ = ["MeasurePoints", "drawn_points", "mixed_points", "points_in_cells", "row_points"]


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


def row_points(columns: Columns, rows: EncodedRows) -> MeasurePoints:
    """Return the rows themselves as points, with their weights."""
    return MeasurePoints(columns, rows, rows.shares, 0)


def drawn_points(columns: Columns, grid: Grid) -> MeasurePoints:
    """Return rows that were drawn at random as points of equal weight."""
    encoded, _ = encode_rows(columns, grid.axes)
    return MeasurePoints(columns, encoded, encoded.shares, columns.n_rows)


def mixed_points(first: MeasurePoints, second: MeasurePoints, share: float) -> MeasurePoints:
    """Return the points of both, the first with `share` of the weight."""
    values = tuple(
        np.concatenate(pair)
        for pair in zip(first.columns.values, second.columns.values, strict=True)
    )
    n_points = first.columns.n_rows + second.columns.n_rows
    return MeasurePoints(
        Columns(first.columns.features, values, n_points),
        EncodedRows(np.concatenate([first.encoded.codes, second.encoded.codes], axis=1)),
        np.concatenate([share * first.shares, (1.0 - share) * second.shares]),
        first.drawn + second.drawn,
    )


def points_in_cells(
    cells: Iterable[Indices],
    rows: MeasurePoints,
    grid: Grid,
    rng: np.random.Generator,
) -> MeasurePoints:
    """Return points in drawn cells, with the rows' own values within them.

    Parameters
    ----------
    cells : iterable of ndarray of intp, shape (n_points,)
        Cell of each point along the axis of each feature.
    rows : MeasurePoints
        The rows, and their cells.
    grid : Grid
        The cells.
    rng : Generator
        Draws among the rows of a cell.
    """
    values = tuple(
        _within(axis, cell, known, codes, rng)
        for axis, cell, known, codes in zip(
            grid.axes, cells, rows.columns.values, rows.encoded.codes, strict=True
        )
    )
    return drawn_points(Columns(rows.columns.features, values, len(values[0])), grid)


def _within(
    axis: FeatureAxis,
    cell: Indices,
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
    in_cell = known[order[np.minimum(picked, len(order) - 1)]].astype(np.float64)
    return np.where(count > 0, in_cell, between)
