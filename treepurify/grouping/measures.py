"""How good attributions are: the measures of Sivill and Flach (2023), section 6."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.grouping.value_functions import ValueFunction
from treepurify.typing import Array

__all__ = ["attribution_error", "deletion", "sensitivity"]


def attribution_error(attributions: npt.ArrayLike, truth: npt.ArrayLike) -> Array:
    """Return the mean absolute error of each row's attributions (equation 9).

    The equation is printed without the absolute value that its name and results imply.

    Parameters
    ----------
    attributions, truth : array_like of shape (n_rows, n_features)
        What each feature was given, and should have been given.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        The paper prints its mean and standard deviation.

    Examples
    --------
    >>> attribution_error([[1.0, 2.0]], [[1.0, 1.0]])
    array([0.5])
    """
    attributed, expected = np.asarray(attributions, dtype=float), np.asarray(truth, dtype=float)
    if attributed.shape != expected.shape or attributed.ndim != 2:
        raise InvalidInputError(
            f"expected two tables of one shape, got {attributed.shape} and {expected.shape}"
        )
    return np.asarray(np.abs(attributed - expected).mean(axis=1))


def deletion(
    value: ValueFunction, rows: Array, attributions: Array, groups: Sequence[Subset]
) -> Array:
    """Return what is left of a prediction without its most important group (equation 10).

    Parameters
    ----------
    value : ValueFunction
        The worth of a coalition; one output.
    rows : ndarray of float64, shape (n_rows, n_features)
        The rows.
    attributions : ndarray of float64, shape (n_rows, n_groups)
        What each group was given.
    groups : sequence of tuple of int
        The groups; single features for Shapley values.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        ``|v(x, N without i)|``, for the group i of largest absolute attribution: the distance
        to the prediction for no feature. Small is good.
    """
    if attributions.shape != (len(rows), len(groups)):
        raise InvalidInputError(
            f"expected attributions of shape {(len(rows), len(groups))}, got {attributions.shape}"
        )
    best = np.argmax(np.abs(attributions), axis=1)
    left = np.zeros(len(rows))
    for number, group in enumerate(groups):
        rows_of_group = np.flatnonzero(best == number)
        kept = [j for j in range(rows.shape[1]) if j not in group]
        if len(rows_of_group) and kept:
            left[rows_of_group] = np.abs(value(rows[rows_of_group], kept)[:, 0])
    return left


def sensitivity(value: ValueFunction, rows: Array, attributions: Array) -> Array:
    """Return how far attributions are from adding up to the prediction (equation 11).

    Parameters
    ----------
    value : ValueFunction
        The worth of a coalition; one output.
    rows : ndarray of float64, shape (n_rows, n_features)
        The rows.
    attributions : ndarray of float64, shape (n_rows, n_groups)
        What each group, or feature, was given.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        ``|v(x, N) - sum of the attributions|``. Small is good.
    """
    whole = value(rows, list(range(rows.shape[1])))[:, 0]
    return np.asarray(np.abs(whole - attributions.sum(axis=1)))
