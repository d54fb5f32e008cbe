"""What rows weigh: given weights, shares of the whole, quantiles by weight, and equal rows.

Sums of weights are rounded, in one way for each order of the rows and each unit of the weights. So
wherever a sum is compared with a share of the total, what differs by rounding counts as equal.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import hash_rows
from treepurify.arguments import read_numbers
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Mask

RowWeights = Array | None


def ordered_by_value(columns: Columns, weights: RowWeights) -> tuple[Columns, RowWeights]:
    """Return the rows in an order that is as good as random and depends on their values alone.

    What is drawn for each row of it is then the same whatever the order of rows and features.
    Equal rows stand together, by weight.
    """
    hashes = _hashes(columns)
    order = np.argsort(hashes, kind="stable") if weights is None else np.lexsort((weights, hashes))
    return columns.take(order), None if weights is None else weights[order]


def telling_rows(columns: Columns, weights: RowWeights, features: Sequence[int]) -> float:
    """Return how many rows of equal weight tell as much about a function of some features.

    It is the number of Kish (1965) over the distinct rows, each with the weight of all that are
    equal to it: a function has one value on them, so that another row of the same values tells
    nothing new. It depends neither on the unit of the weights nor on the order of the rows, and
    a row of weight two is two rows; over all rows the number could not do both.
    """
    kept = Columns(
        tuple(columns.features[j] for j in features),
        tuple(columns.values[j] for j in features),
        columns.n_rows,
    )
    return telling_numbers(distinct_numbers(kept), weights)


def telling_numbers(numbers: Indices, weights: RowWeights) -> float:
    """Return the same for rows that `distinct_numbers` has numbered."""
    mass = np.bincount(numbers, row_shares(len(numbers), weights)).astype(np.float64)
    # Rounding of equal masses must not make a fraction of a row.
    return round(effective_rows(len(mass), mass), 6)


def distinct_numbers(columns: Columns) -> Indices:
    """Return a number from 0 on for each row, the same for equal rows, else as good as random."""
    return np.unique(_hashes(columns), return_inverse=True)[1]


def _hashes(columns: Columns) -> npt.NDArray[np.uint64]:
    """Return a number for each row that tells its values from others, in any order of columns."""
    matrix = columns.matrix()
    matrix += 0.0  # no negative zeros
    matrix[np.isnan(matrix)] = np.nan
    keys = np.array([crc32(spec.name.encode()) for spec in columns.features], dtype=np.uint64)
    hashes = np.empty(columns.n_rows, dtype=np.uint64)
    hash_rows(matrix.view(np.uint64), mixed_bits(keys), hashes)
    return mixed_bits(hashes)


def mixed_bits(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread what distinguishes numbers over all their bits (the finaliser of SplitMix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)


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
