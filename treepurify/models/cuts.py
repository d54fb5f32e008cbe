"""Rewrite the comparisons of each library as ``float64(x) < cut``, exactly."""

from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.typing import Array


def cut_below_single(threshold: npt.NDArray[np.float32]) -> Array:
    """Return the cuts for which ``float64(x) < cut`` iff ``float32(x) < threshold``.

    Parameters
    ----------
    threshold : ndarray of float32
        Thresholds that the library compares with the value rounded to single precision.

    Returns
    -------
    ndarray of float64
        The smallest doubles that round to `threshold` or above it.

    Examples
    --------
    >>> import numpy as np
    >>> cut = cut_below_single(np.array([0.5], dtype=np.float32))
    >>> np.float32(np.nextafter(cut, 0.0)) < 0.5, np.float32(cut) < 0.5
    (array([ True]), array([False]))
    """
    # Next to the largest numbers, steps and roundings overflow to the infinities they mean.
    with np.errstate(over="ignore", under="ignore"):
        below = np.nextafter(threshold, np.float32(-np.inf)).astype(np.float64)
        above = threshold.astype(np.float64)
        # Rounding treats the infinities of float32 as if they stood at 2**128.
        finite_below = np.where(np.isinf(below) & (above > below), -(2.0**128), below)
        finite_above = np.where(np.isposinf(above), 2.0**128, above)
        middle = 0.5 * (finite_below + finite_above)
        rounds_up = middle.astype(np.float32) >= threshold
    # A tie goes to the neighbour with an even significand, which may be the one below.
    return np.where(rounds_up, middle, np.nextafter(middle, np.inf))


def cut_at_most_single(threshold: npt.NDArray[np.floating[Any]]) -> Array:
    """Return the cuts for which ``float64(x) < cut`` iff ``float32(x) <= threshold``.

    Parameters
    ----------
    threshold : ndarray of float32 or float64
        Thresholds that the library compares with the value rounded to single precision. The
        largest single-precision number separates infinity from all finite numbers; CatBoost uses
        it, and its negative, to separate missing values from all numbers.

    Returns
    -------
    ndarray of float64
        The smallest doubles that round to a single-precision number above the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> cut = cut_at_most_single(np.array([0.5]))
    >>> np.float32(np.nextafter(cut, 0.0)) <= 0.5, np.float32(cut) <= 0.5
    (array([ True]), array([False]))
    """
    with np.errstate(over="ignore", under="ignore"):
        floor = threshold.astype(np.float32)
        floor = np.where(floor > threshold, np.nextafter(floor, np.float32(-np.inf)), floor)
        above = np.nextafter(floor, np.float32(np.inf))
    # No number is above infinity.
    return np.where(np.isposinf(threshold), np.inf, cut_below_single(above))


def cut_at_most_double(threshold: Array) -> Array:
    """Return the cuts for which ``x < cut`` iff ``x <= threshold``, in double precision.

    No value is at most NaN, which is a threshold of histograms over infinite values.
    """
    return np.where(np.isnan(threshold), -np.inf, np.nextafter(threshold, np.inf))
