"""Rows drawn again or split: each counts a random number of times, which belongs to its position.

Drawing as many rows as there are with replacement takes their number, and all of them together. The
times that one row is drawn have nearly a Poisson distribution of mean one, and such numbers can be
drawn for each row by itself (Hanley and MacGibbon 2006), so that some rows at a time suffice.
"""

from collections.abc import Sequence
from functools import cache
from math import exp

import numpy as np

from treepurify.rows.row_weights import mixed_bits
from treepurify.typing import Array, Indices

# Tell these numbers from each other and from those of `StreamSample`, which may have the same seed.
_SALT = 0x9E3779B97F4A7C15
_SPLIT_SALT = 0xD1B54A32D192ED03
# No row is drawn more often: the chance is below the spacing of random numbers.
_MOST = 20


def times_drawn(seed: int, number: int, first_row: int, n_rows: int) -> Array:
    """Return how often each of some rows is drawn, shape (n_rows,).

    Parameters
    ----------
    seed, number : int
        Seed of several draws, and which of them it is.
    first_row, n_rows : int
        Position of the first of the rows, and their number.
    """
    fractions = _fractions(_SALT, (seed, number, 0), first_row, n_rows)
    times = np.searchsorted(_poisson(), fractions, side="right")
    return np.asarray(times, dtype=np.float64)


def row_parts(seed: int, n_parts: int, n_rows: int) -> Indices:
    """Return to which of several parts each row belongs, with equal chances, shape (n_rows,)."""
    fractions = _fractions(_SPLIT_SALT, (seed, 0, 0), 0, n_rows)
    return (fractions * n_parts).astype(np.intp)


def _fractions(salt: int, words: Sequence[int], first_row: int, n_rows: int) -> Array:
    """Return a random number from 0 to 1 for each row, which belongs to these words and the row."""
    start = np.array([salt], dtype=np.uint64)
    for word in words:
        start = mixed_bits(start ^ np.uint64(word + 1))
    rows = np.arange(first_row, first_row + n_rows, dtype=np.uint64) + np.uint64(1)
    bits = mixed_bits(mixed_bits(rows) ^ start)
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)


@cache
def _poisson() -> Array:
    """Return the distribution function of the Poisson distribution of mean one, from zero on."""
    chances = exp(-1.0) / np.cumprod(np.maximum(np.arange(_MOST), 1))
    return np.asarray(chances.cumsum())
