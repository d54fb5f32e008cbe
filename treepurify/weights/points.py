"""Points that stand for a measure where a function can only be called.

They are drawn from numbers from 0 to 1 that fill space evenly.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify.budget import rounded_count
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, encode_rows
from treepurify.rows.columns import Columns, FeatureSpec, joined_columns
from treepurify.typing import Array, Cells, Floats
from treepurify.weights.distributions import Weighting

_MOST_CELLS_DRAWN_FROM = 1 << 22
# Points of a Sobol sequence are multiples of 2^-30, zero among them.
_HALF_A_STEP = 2.0**-31


class MeasurePoints(NamedTuple):
    """Rows with weights that stand for a measure.

    Parameters
    ----------
    columns : Columns
        The rows.
    encoded : EncodedRows
        Their cells and weights.
    drawn : int
        How many of them were drawn at random; the others are the caller's rows.
    """

    columns: Columns
    encoded: EncodedRows
    drawn: int = 0

    @property
    def shares(self) -> Array:
        """Weight of each point; they sum to one."""
        return self.encoded.shares


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
        codes = np.concatenate([rows.encoded.codes, others.encoded.codes], axis=1)
        weights = np.concatenate([share * rows.shares, (1.0 - share) * others.shares])
        columns = joined_columns([rows.columns, others.columns])
        return MeasurePoints(columns, EncodedRows(codes, weights), others.drawn)
    sizes = [axis.n_cells for axis in grid.axes]
    if weighting.is_product:
        margins = weighting.tables(grid, rows.encoded, [(j,) for j in range(len(sizes))])
        numbers = _numbers_of_features(rows.columns.features, n_points, rng)
        return _points_at(numbers, [margins[(j,)] for j in range(len(sizes))], rows, grid)
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
    cells = np.zeros((len(sizes), n_points), dtype=np.intp)
    cells[list(split)] = np.unravel_index(drawn, joint.shape)
    return points_in_cells(cells, rows, grid, rng)


def points_in_cells(
    cells: Cells, rows: MeasurePoints, grid: Grid, rng: np.random.Generator
) -> MeasurePoints:
    """Return points in drawn cells, with the rows' own values within them.

    A value is as probable as the rows of the cell that have it, whatever their order.

    Parameters
    ----------
    cells : ndarray of int, shape (n_features, n_points)
        Cell of each point along the axis of each feature.
    rows : MeasurePoints
        The rows, and their cells.
    grid : Grid
        The cells.
    rng : Generator
        Generator of the draws.
    """
    alike = [np.ones(axis.n_cells) for axis in grid.axes]
    numbers = cells + _numbers_of_features(rows.columns.features, cells.shape[1], rng)
    numbers /= np.array([[len(mass)] for mass in alike])
    return _points_at(numbers, alike, rows, grid)


def _points_at(
    numbers: Array, margins: Sequence[Array], rows: MeasurePoints, grid: Grid
) -> MeasurePoints:
    """Return the points of independent features that have these numbers.

    Parameters
    ----------
    numbers : ndarray of float64, shape (n_features, n_points)
        Where each value stands in the distribution of its feature, from 0 to 1.
    margins : sequence of ndarray of float64, shape (n_cells,)
        Mass of the cells of each feature.
    rows : MeasurePoints
        The rows, and their cells.
    grid : Grid
        The cells.
    """
    each = zip(grid.axes, margins, rows.columns.values, rows.encoded.codes, numbers, strict=True)
    values = tuple(
        _values_at(own, mass, axis, known, codes, rows.shares)
        for axis, mass, known, codes, own in each
    )
    columns = Columns(rows.columns.features, values, numbers.shape[1])
    encoded, _ = encode_rows(columns, grid.axes)
    return MeasurePoints(columns, encoded, columns.n_rows)


def _values_at(
    numbers: Array, mass: Array, axis: FeatureAxis, known: Floats, codes: Cells, shares: Array
) -> Array:
    """Return where a distribution function reaches some numbers from 0 to 1.

    The rows share the mass of their cell; that of a cell without rows lies at its lower end.
    """
    in_cell = np.bincount(codes, shares, axis.n_cells)
    empty = np.flatnonzero(in_cell == 0)
    lower = np.arange(axis.n_cells) * 1.0
    if axis.cuts is not None and len(axis.cuts):
        lower[1 : axis.n_regular] = axis.cuts
        lower[0] = np.nextafter(axis.cuts[0], -np.inf)
    lower[axis.n_cells - axis.has_missing :] = np.nan
    each = np.divide(mass, in_cell, out=np.zeros(axis.n_cells), where=in_cell > 0)
    values = np.concatenate([known, lower[empty]])
    weights = np.concatenate([shares * each[codes], mass[empty]])
    order = np.lexsort((values, np.concatenate([codes, empty])))
    reached = weights[order].cumsum()
    place = np.searchsorted(reached, numbers * reached[-1], side="right")
    return np.asarray(values[order[np.minimum(place, len(order) - 1)]], dtype=np.float64)


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


def _numbers_of_features(
    features: Sequence[FeatureSpec], n_points: int, rng: np.random.Generator
) -> Array:
    """Return even numbers for each feature by its name, shape (n_features, n_points)."""
    numbers = np.empty((len(features), n_points))
    by_name = sorted(range(len(features)), key=lambda j: features[j].name)
    numbers[by_name] = even_numbers(n_points, len(features), rng).T
    return numbers
