"""What rows weigh: weights that a caller gives, shares of the whole, and quantiles by weight."""

from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_numbers
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Columns
from treepurify.typing import Array

__all__ = [
    "RowWeights",
    "counted_rows",
    "effective_rows",
    "mean_square",
    "read_row_weights",
    "read_weights",
    "row_quantiles",
    "row_shares",
    "within_range",
]

RowWeights = Array | None


def read_weights(weights: Any, name: str = "sample_weight") -> Array:
    """Return weights as numbers; whether they fit the rows is for `read_row_weights` to say.

    Raises
    ------
    InvalidInputError
        If they are not numbers.
    """
    return read_numbers(name, weights, "have one number per row, finite and not negative")


def read_row_weights(
    weights: npt.ArrayLike | None, n_rows: int, name: str = "sample_weight"
) -> RowWeights:
    """Return the weight of each row; None, where none are given, for equal weights.

    Raises
    ------
    InvalidInputError
        Unless they are one number for each row, finite, not negative and not all zero.
    """
    if weights is None:
        return None
    values = read_weights(weights, name)
    if values.shape != (n_rows,):
        raise InvalidInputError(
            f"{name} must have one number per row ({n_rows}), got shape {values.shape}"
        )
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        raise InvalidInputError(
            f"{name} must be finite and not negative; got values from {np.min(values):g} to "
            f"{np.max(values):g}"
        )
    if not np.any(values > 0):
        raise InvalidInputError(f"{name} is zero for every row; one must be positive")
    return values


def counted_rows(
    columns: Columns, sample_weight: npt.ArrayLike | None
) -> tuple[Columns, RowWeights]:
    """Return the rows of positive weight with their weights; None where these are equal.

    Raises
    ------
    InvalidInputError
        If the weights cannot be used; see `read_row_weights`.
    """
    weights = read_row_weights(sample_weight, columns.n_rows)
    if weights is None:
        return columns, None
    kept = np.flatnonzero(weights > 0)
    counted = columns if len(kept) == columns.n_rows else columns.take(kept)
    weights = weights[kept]
    return counted, None if np.all(weights == weights[0]) else weights


def within_range(weights: Array) -> Array:
    """Return weights of which the largest is below one and at least a half.

    Sums of weights near the limits of double precision would overflow or lose digits. Scaling by
    a power of two changes no digit.
    """
    return np.asarray(np.ldexp(weights, -np.frexp(weights.max())[1]))


def row_shares(n_rows: int, weights: RowWeights) -> Array:
    """Return the share of each row; they sum to one."""
    if weights is None:
        return np.full(n_rows, 1.0 / max(n_rows, 1))
    scaled = within_range(weights)
    return np.asarray(scaled / scaled.sum())


def effective_rows(n_rows: int, weights: RowWeights) -> float:
    """Return how many rows of equal weight tell as much as the weighted ones (Kish 1965)."""
    if weights is None:
        return float(n_rows)
    scaled = within_range(weights)
    # Never more than there are, which rounding alone could make of equal weights.
    return min(float(scaled.sum() ** 2 / np.sum(scaled**2)), float(n_rows))


def row_quantiles(
    values: npt.NDArray[np.floating], weights: RowWeights, levels: Array, *, between: bool
) -> npt.NDArray[np.floating]:
    """Return quantiles of the values at levels from 0 to 1.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        Finite values, one at least.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights, all positive; None for equal weights.
    levels : ndarray of float64, shape (n_levels,)
        The levels.
    between : bool
        Whether to interpolate between neighbouring values where weights are equal.
        Interpolation depends on the number of rows, but quantiles must not change when all
        weights are multiplied by a number. So with unequal weights, as without `between`,
        quantiles are those of the inverse distribution function: the first value at which
        the cumulative weight reaches the level.
    """
    if weights is None and between:
        return np.asarray(np.quantile(values, levels))
    order = np.argsort(values, kind="stable")
    counted = np.ones(len(values)) if weights is None else within_range(weights)[order]
    reached = counted.cumsum()
    # Whole-number weights give the very numbers that repeated rows do: sums of ones.
    place = np.searchsorted(reached, reached[-1] * levels, side="left")
    return np.asarray(values[order[np.minimum(place, len(values) - 1)]])


def mean_square(values: Array, shares: Array) -> Array:
    """Return the weighted mean square about the mean, along the first axis."""
    # Sums rather than matrix products: these are too narrow for the threads of a BLAS.
    weight = shares[:, None]
    centred = values - (weight * values).sum(axis=0)
    return np.asarray((weight * centred**2).sum(axis=0))
