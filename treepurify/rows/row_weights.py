"""What rows weigh: weights that a caller gives, shares of the whole, and quantiles by weight.

Sums of weights are rounded, in one way for each order of the rows and each unit of the weights. So
wherever a sum is compared with a share of the total, what differs by rounding counts as equal.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_numbers
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Mask

__all__ = [
    "RowWeights",
    "counted_rows",
    "effective_rows",
    "equal_parts",
    "exceeds",
    "first_reached",
    "heaviest",
    "just_below",
    "mean_square",
    "read_row_weights",
    "read_weights",
    "row_quantiles",
    "row_shares",
    "within_range",
]

RowWeights = Array | None

# Of the total: far above the rounding of sums, and far below what one of many rows weighs.
_TIE = 1e-9


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
        raise InvalidInputError(f"{name} is zero for every row; at least one must be positive")
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


def just_below(targets: Array, total: float) -> Array:
    """Return what sums of weights must reach where those that miss a target by rounding reach it.

    Only the last sum reaches the total: rows of next to no weight count.
    """
    return np.where(targets >= total, np.inf, targets - _TIE * total)


def first_reached(sums: Array, targets: Array) -> Indices:
    """Return the first of the cumulative weights that reach each target, the last one at most."""
    place = np.searchsorted(sums, just_below(targets, float(sums[-1])), side="left")
    return np.asarray(np.minimum(place, len(sums) - 1), dtype=np.intp)


def equal_parts(places: Array, n_parts: int) -> Indices:
    """Return the part, of `n_parts` of equal weight, in which each place from 0 to 1 lies."""
    part = np.floor(n_parts * (places + _TIE))
    return np.asarray(np.minimum(part, n_parts - 1), dtype=np.intp)


def exceeds(mass: Array | float, limit: Array | float) -> Mask:
    """Return where a mass is above a limit by more than rounding."""
    return np.asarray(np.asarray(mass) > np.asarray(limit) * (1.0 + _TIE))


def heaviest(mass: Array) -> int:
    """Return the place of the largest mass, the first of those that are equal but for rounding."""
    return int(np.argmax(mass >= mass.max() * (1.0 - _TIE)))


def row_quantiles(
    values: npt.NDArray[np.floating], weights: RowWeights, levels: Array
) -> npt.NDArray[np.floating]:
    """Return quantiles of the values at levels from 0 to 1: of the inverse distribution function.

    Each is the first value at which the cumulative weight reaches the level, whatever the order
    of the rows and the unit of their weights. Interpolation between neighbouring values would
    depend on the number of rows.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        Finite values, one at least.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights, all positive; None for equal weights.
    levels : ndarray of float64, shape (n_levels,)
        The levels.
    """
    order = np.argsort(values, kind="stable")
    counted = np.ones(len(values)) if weights is None else within_range(weights)[order]
    reached = counted.cumsum()
    return np.asarray(values[order[first_reached(reached, reached[-1] * levels)]])


def mean_square(values: Array, shares: Array) -> Array:
    """Return the weighted mean square about the mean, along the first axis."""
    # Sums rather than matrix products: these are too narrow for the threads of a BLAS.
    weight = shares[:, None]
    centred = values - (weight * values).sum(axis=0)
    return np.asarray((weight * centred**2).sum(axis=0))
