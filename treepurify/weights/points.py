"""Points that stand for a measure where a function can only be called.

They are drawn from numbers from 0 to 1 that fill space evenly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from treepurify.budget import rounded_count
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, encode_rows
from treepurify.rows.columns import Columns, FeatureSpec, joined_columns
from treepurify.typing import Array, Indices
from treepurify.weights.weighting import Weighting

__all__ = [
    "MeasurePoints",
    "even_numbers",
    "numbers_of_features",
    "points_in_cells",
    "row_points",
    "sample_points",
]

_MOST_CELLS_DRAWN_FROM = 1 << 22
# Points of a Sobol sequence are multiples of 2^-30, zero among them.
_HALF_A_STEP = 2.0**-31


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


def sample_points(
    weighting: Weighting,
    rows: MeasurePoints,
    grid: Grid,
    n_points: int,
    rng: np.random.Generator,
) -> MeasurePoints:
    """Return points drawn from a distribution, at which a function can be called.

    A distribution of rows returns these rows. Otherwise cells are drawn, separately for each
    feature if features are independent, else from the joint table of all features, and then
    values of the rows within each cell. Points do not depend on the order of the rows.

    Raises
    ------
    InvalidInputError
        If the distribution is not one from which points can be drawn.
    """
    share = weighting.share_of_rows
    if share == 1.0:
        return rows
    if share is not None:
        others = sample_points(weighting.beside_rows, rows, grid, n_points, rng)
        return MeasurePoints(
            joined_columns([rows.columns, others.columns]),
            EncodedRows(np.concatenate([rows.encoded.codes, others.encoded.codes], axis=1)),
            np.concatenate([share * rows.shares, (1.0 - share) * others.shares]),
            others.drawn,
        )
    sizes = [axis.n_cells for axis in grid.axes]
    if weighting.is_product:
        margins = weighting.tables(grid, rows.encoded, [(j,) for j in range(len(sizes))])
        numbers = numbers_of_features(rows.columns.features, n_points, rng)
        of_features = (_drawn_cells(margins[(j,)], own) for j, own in enumerate(numbers))
        return points_in_cells(of_features, rows, grid, numbers)
    split = tuple(j for j, size in enumerate(sizes) if size > 1)
    what = f"points cannot be drawn from weights={weighting.describe()!r}"
    advice = 'use "empirical", "laplace", "independent" or "uniform"'
    if prod(sizes) > _MOST_CELLS_DRAWN_FROM:
        raise InvalidInputError(
            f"{what}: the features have {rounded_count(prod(sizes))} combinations of values, and "
            f"the limit is {_MOST_CELLS_DRAWN_FROM}; {advice}, or fewer bins"
        )
    tables = weighting.tables(grid, rows.encoded, [split, *((j,) for j in split)])
    joint = tables[split]
    for axis, j in enumerate(split):
        margin = joint.sum(axis=tuple(other for other in range(len(split)) if other != axis))
        if not np.allclose(margin, tables[(j,)]):
            raise InvalidInputError(f"{what}, which is not a joint distribution; {advice}")
    drawn = rng.choice(joint.size, size=n_points, p=joint.ravel())
    numbers = numbers_of_features(rows.columns.features, n_points, rng)
    cells = np.zeros((len(sizes), n_points), dtype=np.intp)
    cells[list(split)] = np.unravel_index(drawn, joint.shape)
    return points_in_cells(cells, rows, grid, numbers)


def _drawn_cells(margin: Array, numbers: Array) -> Indices:
    """Return the cells in which the distribution function reaches these numbers.

    Each number becomes where it stands in its cell, in place.
    """
    ends = np.concatenate([[0.0], margin.cumsum()])
    numbers *= ends[-1]
    cell = np.searchsorted(ends[1:], numbers, side="right")
    cell = np.minimum(cell, np.flatnonzero(margin)[-1])
    numbers -= ends[cell]
    numbers /= margin[cell]
    return np.asarray(cell, dtype=np.intp)


def points_in_cells(
    cells: Iterable[Indices], rows: MeasurePoints, grid: Grid, numbers: Array
) -> MeasurePoints:
    """Return points in drawn cells, with the rows' own values within them.

    A value is as probable as the rows of the cell that have it, whatever their order.

    Parameters
    ----------
    cells : iterable of ndarray of intp, shape (n_points,)
        Cell of each point along the axis of each feature.
    rows : MeasurePoints
        The rows, and their cells.
    grid : Grid
        The cells.
    numbers : ndarray of float64, shape (n_features, n_points)
        Where each value stands among those of the rows in its cell, from 0 to 1.
    """
    values = tuple(
        _within(axis, cell, known, codes, rows.shares, own)
        for axis, cell, known, codes, own in zip(
            grid.axes, cells, rows.columns.values, rows.encoded.codes, numbers, strict=True
        )
    )
    columns = Columns(rows.columns.features, values, numbers.shape[1])
    encoded, _ = encode_rows(columns, grid.axes)
    return MeasurePoints(columns, encoded, encoded.shares, columns.n_rows)


def _within(
    axis: FeatureAxis,
    cell: Indices,
    known: npt.NDArray[np.floating],
    codes: npt.NDArray[np.unsignedinteger],
    shares: Array,
    numbers: Array,
) -> Array:
    """Return a value in each cell: that of a row in it, else the lower end of the cell."""
    order = np.lexsort((known, codes))
    ends = np.searchsorted(codes[order], np.arange(axis.n_cells + 1))
    reached = np.concatenate([[0.0], shares[order].cumsum()])
    mass = np.diff(reached[ends])[cell]
    if axis.cuts is None:
        between = np.where(cell == axis.missing_cell, np.nan, cell.astype(np.float64))
    elif len(axis.cuts):
        inner = np.concatenate([[np.nextafter(axis.cuts[0], -np.inf)], axis.cuts])
        between = np.append(inner, np.full(int(axis.has_missing), np.nan))[cell]
    else:
        between = np.zeros(len(cell))
    picked = np.searchsorted(reached[1:], reached[ends[cell]] + numbers * mass, side="right")
    picked = np.clip(picked, ends[cell], np.maximum(ends[cell + 1] - 1, 0))
    in_cell = known[order[np.minimum(picked, len(order) - 1)]].astype(np.float64)
    return np.where(mass > 0, in_cell, between)


def even_numbers(n_points: int, n_dimensions: int, rng: np.random.Generator) -> Array:
    """Return points in a cube, shape (n_points, n_dimensions), none on its sides.

    They are those of a scrambled Sobol sequence (Owen 1997), or independent ones where there are
    more dimensions than it has.
    """
    from scipy.stats import qmc

    if not n_points * n_dimensions or n_dimensions > qmc.Sobol.MAXDIM:
        return rng.random((n_points, n_dimensions))
    sequence = qmc.Sobol(n_dimensions, rng=rng)
    # It warns unless the first of its points are a power of two.
    first = 1 << (n_points.bit_length() - 1)
    points = np.empty((n_points, n_dimensions))
    points[:first] = sequence.random(first)
    if first < n_points:
        points[first:] = sequence.random(n_points - first)
    points += _HALF_A_STEP
    return points


def numbers_of_features(
    features: Sequence[FeatureSpec], n_points: int, rng: np.random.Generator
) -> Array:
    """Return even numbers for each feature by its name, shape (n_features, n_points).

    They are two sequences, each of half of the points.
    """
    first = (n_points + 1) // 2
    numbers = np.empty((len(features), n_points))
    by_name = sorted(range(len(features)), key=lambda j: features[j].name)
    numbers[by_name, :first] = even_numbers(first, len(features), rng).T
    numbers[by_name, first:] = even_numbers(n_points - first, len(features), rng).T
    return numbers
