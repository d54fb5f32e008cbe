"""Where the cells of a numeric axis end, in the units of the feature."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.grids.axis import FeatureAxis

__all__ = ["NumericEdges", "numeric_edges"]

Array = npt.NDArray[np.float64]

# A cell that holds the largest value only needs a width to be seen.
_LEAST_LAST_SHARE, _MOST_LAST_SHARE = 0.01, 0.15
# The effect is flat beyond the outer cuts: so much of their range is shown where no row tells.
_LEAST_UNKNOWN_SHARE, _MOST_UNKNOWN_SHARE = 0.04, 0.15
_MOST_VALUES = 100


class NumericEdges(NamedTuple):
    """Edges of the intervals of a numeric axis, the outer ones finite.

    Parameters
    ----------
    edges : ndarray of float64, shape (n_cells + 1,)
        Cuts beyond the data, by which some libraries set missing values apart, have no width.
    values : ndarray of float64, optional
        The values that the feature can have, each in the middle of a slot of its own, where
        they are whole numbers, at most 100, or just two.
    is_whole : bool
        Whether the values are whole numbers.
    """

    edges: Array
    values: Array | None = None
    is_whole: bool = False


def numeric_edges(axis: FeatureAxis, mass: Array | None = None) -> NumericEdges:
    """Return where the intervals of a numeric axis are drawn.

    Between bounds that are whole numbers, cuts at whole and half numbers are taken to part
    whole numbers: each value k reaches from k - 1/2 to k + 1/2. A single cut in the middle of
    the bounds, or at the upper one, is taken to part two values: both have the same width.
    Other intervals keep their cuts and end at the bounds.

    Parameters
    ----------
    axis : FeatureAxis
        The axis, not of categories.
    mass : ndarray of float64, shape (n_cells,), optional
        Mass of the cells: one without a whole number must have none.
    """
    cuts = np.asarray(axis.cuts, dtype=np.float64)
    lowest, highest = axis.bounds or (-np.inf, np.inf)
    inner = cuts[np.isfinite(cuts) & (cuts > lowest) & (cuts <= highest)]
    if len(inner) == 0:
        lower, upper = axis.bounds or (0.0, 1.0)
        upper = upper if upper > lower else lower + 1.0
    elif axis.bounds is None:
        reach = _reach_unknown(inner)
        lower, upper = inner[0] - reach, inner[-1] + reach
    elif _parts_two_values(inner, axis.bounds):
        return _two_values(cuts, axis.bounds)
    elif _parts_whole_numbers(cuts, axis.bounds, mass):
        return _whole_numbers(cuts, axis.bounds)
    else:
        lower, upper = lowest, max(highest, inner[-1] + _least_last_width(inner, axis.bounds))
    edges = np.clip(np.concatenate([[lower], cuts, [upper]]), lower, upper)
    return NumericEdges(np.asarray(edges, dtype=np.float64))


def _parts_two_values(inner: Array, bounds: tuple[float, float]) -> bool:
    lower, upper = bounds
    if len(inner) > 1 or (lower.is_integer() and upper.is_integer() and bounds != (-1.0, 1.0)):
        return False
    near = np.isclose(inner[0], [upper, (lower + upper) / 2], rtol=0, atol=1e-6 * (upper - lower))
    return bool(near.any())


def _two_values(cuts: Array, bounds: tuple[float, float]) -> NumericEdges:
    lower, upper = bounds
    half = (upper - lower) / 2
    middle = np.where(
        cuts <= lower, lower - half, np.where(cuts > upper, upper + half, upper - half)
    )
    edges = np.concatenate([[lower - half], middle, [upper + half]])
    return NumericEdges(edges, np.array(bounds, dtype=np.float64))


def _parts_whole_numbers(cuts: Array, bounds: tuple[float, float], mass: Array | None) -> bool:
    lower, upper = bounds
    is_inner = np.isfinite(cuts) & (cuts > lower) & (cuts <= upper)
    halves = 2 * cuts[is_inner]
    # Some libraries store a cut as the float32 after the half number.
    noise = np.clip(4 * np.spacing(np.abs(halves).astype(np.float32)), 1e-6, 0.05)
    near = np.abs(halves - np.round(halves)) <= noise
    if not (lower.is_integer() and upper.is_integer() and near.all()):
        return False
    is_empty = np.diff(np.ceil(cuts[is_inner])) == 0
    between = np.flatnonzero(is_inner)[:-1] + 1
    return not is_empty.any() or (mass is not None and not mass[between[is_empty]].any())


def _whole_numbers(cuts: Array, bounds: tuple[float, float]) -> NumericEdges:
    lower, upper = bounds
    # The first whole number that is not below a cut is the first of the cell above.
    first = np.ceil(np.clip(cuts, lower, upper + 1.0))
    edges = np.concatenate([[lower], first, [upper + 1.0]]) - 0.5
    count = int(upper - lower) + 1
    values = np.linspace(lower, upper, count) if count <= _MOST_VALUES else None
    return NumericEdges(edges, values, is_whole=True)


def _least_last_width(inner: Array, bounds: tuple[float, float]) -> float:
    width = bounds[1] - bounds[0]
    if bounds[1] - inner[-1] > 1e-6 * width:
        return 0.0
    if len(inner) == 1:
        return _MOST_LAST_SHARE * width
    usual = float(np.median(np.diff(inner)))
    return min(max(usual, _LEAST_LAST_SHARE * width), _MOST_LAST_SHARE * width)


def _reach_unknown(inner: Array) -> float:
    span = float(inner[-1] - inner[0])
    if span == 0.0:
        return 1.0
    share = float(np.median(np.diff(inner))) / span
    return span * min(max(share, _LEAST_UNKNOWN_SHARE), _MOST_UNKNOWN_SHARE)
