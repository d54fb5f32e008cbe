"""Which values of a feature figures show, and which effects titles, colours and sentences name.

By default both leave out a few: values far out, and effects of hardly any rows.
"""

from collections.abc import Sequence

import numpy as np

from treepurify.components import tabulate
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import CENTRAL_ENDS, FeatureAxis
from treepurify.plots.axis_layout import Range, numeric_edges
from treepurify.rows.row_weights import exceeds, row_quantiles
from treepurify.typing import Array, Mask

# Effects of a smaller share of the rows are not stated, if the others have this share together.
_LEAST_ROWS, _LEAST_TOGETHER = 0.005, 0.5
# An end of the data that is not further beyond, in widths of the part between, stays an end.
_LEAST_BEYOND = 0.25
# A light cell may reach very far: of it, this part of the width of the others is drawn.
_LIGHT, _MOST_REACH = 0.02, 0.1
# So few values all have a place.
_FEW_VALUES = 12


def shown_range(d: Decomposition, feature: int, axis: FeatureAxis, mass: Array) -> Range | None:
    """Return the smallest and largest value of a feature that is drawn; None for all of them.

    The same for every figure of a decomposition, and for all models on the same rows: see
    `FeatureAxis.central`. Where these values were not kept, by the mass of the cells of the main
    effect, which are the finest.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    feature : int
        The feature.
    axis : FeatureAxis
        Its axis in the figure.
    mass : ndarray of float64, shape (n_cells,)
        The mass of its cells.
    """
    if axis.is_categorical:
        return None
    main = d.components.get((feature,)) if axis.central is None else None
    table = None if main is None else tabulate(main, d.inputs)
    if table is not None and not table.axes[0].is_categorical:
        axis, mass = table.axes[0], table.mass
    return central_range(axis, mass)


def central_range(axis: FeatureAxis, mass: Array) -> Range | None:
    """Return between which values 0.5 to 99.5% of the data of a numeric axis lie.

    An end of the data that is hardly further out stays; None where both do. Where only the mass of
    the cells is known, it is spread evenly within them.

    Parameters
    ----------
    axis : FeatureAxis
        The axis, not of categories.
    mass : ndarray of float64, shape (n_cells,)
        The mass of its cells.
    """
    if axis.bounds is None or axis.cuts is None or len(axis.cuts) == 0:
        return None
    numeric = numeric_edges(axis, mass)
    edges, held = numeric.edges, mass[: axis.n_regular]
    total = held.sum()
    if total <= 0 or (numeric.values is not None and len(numeric.values) <= _FEW_VALUES):
        return None
    low, high = axis.central or _ends_of_bulk(edges, held / total)
    if numeric.is_whole:
        low, high = np.floor(low + 0.5) - 0.5, np.ceil(high - 0.5) + 0.5
    least = _LEAST_BEYOND * (high - low)
    low = low if low - edges[0] > least else edges[0]
    high = high if edges[-1] - high > least else edges[-1]
    if high <= low or (low == edges[0] and high == edges[-1]):
        return None
    return float(low), float(high)


def _ends_of_bulk(edges: Array, shares: Array) -> Range:
    """Return the quantiles, but in a light cell hardly further out than it begins.

    Where in it the values lie is not known, and a few far out make it wide.
    """
    upto = np.concatenate([[0.0], np.cumsum(shares)])
    low, high = np.interp(CENTRAL_ENDS, upto, edges)
    first, last = np.clip(np.searchsorted(upto, CENTRAL_ENDS, side="right") - 1, 0, len(shares) - 1)
    width = edges[last] - edges[first + 1]
    if width > 0 and shares[first] < _LIGHT:
        low = max(low, edges[first + 1] - _MOST_REACH * width)
    if width > 0 and shares[last] < _LIGHT:
        high = min(high, edges[last] + _MOST_REACH * width)
    return float(low), float(high)


def cells_that_count(values: Array, mass: Array, axes: Sequence[FeatureAxis] = ()) -> Mask:
    """Return the cells that titles, colours and sentences speak of: those with 0.5% of the rows.

    Each category, and missing values, must have that share. Intervals and combinations of two
    values are often smaller: neighbouring intervals below it are counted together, and at either
    end of the effects, cells are left out that have less than 0.5% together. So at least 0.5% of
    the rows have an effect as low as the lowest that counts, and at least 0.5% one as high as the
    highest. Where categories below 0.5% have most of the rows, only this last rule applies.

    Parameters
    ----------
    values, mass : ndarray of float64, shape (cells...)
        Effect and mass of each cell.
    axes : sequence of FeatureAxis
        The features; without any, each cell must have the share.

    Returns
    -------
    ndarray of bool, shape (cells...)
        All False only where no cell has mass.
    """
    least = _LEAST_ROWS * mass.sum()
    enough = np.ones(mass.shape, dtype=np.bool_) if axes else ~exceeds(least, mass)
    for position, axis in enumerate(axes):
        others = tuple(which for which in range(mass.ndim) if which != position)
        joined = _with_neighbours(axis, mass.sum(axis=others), least)
        enough &= np.expand_dims(~exceeds(least, joined), others)
    is_known = (mass > 0) & np.isfinite(values)
    counts = is_known & enough
    if mass[counts].sum() < _LEAST_TOGETHER * mass.sum():
        counts = is_known
    if not counts.any():
        return counts
    level = np.array([_LEAST_ROWS])
    (low,) = row_quantiles(values[counts], mass[counts], level)
    (high,) = -row_quantiles(-values[counts], mass[counts], level)
    return np.asarray(counts & (values >= low) & (values <= high))


def _with_neighbours(axis: FeatureAxis, held: Array, least: float) -> Array:
    """Return the mass of each cell, for small intervals that of all in a row of them."""
    joined = held.copy()
    if not axis.is_categorical:
        is_small = exceeds(least, held[: axis.n_regular])
        run = np.cumsum(~(is_small & np.append(False, is_small[:-1]))) - 1
        joined[: axis.n_regular] = np.bincount(run, held[: axis.n_regular])[run]
    return joined
