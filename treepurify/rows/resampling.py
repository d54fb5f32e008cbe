"""Rows that come in batches, drawn again or split: each counts a random number of times.

Drawing as many rows as there are with replacement takes their number, and all of them together. The
times that one row is drawn have nearly a Poisson distribution of mean one, and such numbers can be
drawn for each row by itself (Hanley and MacGibbon 2006). Here they belong to the file and position
of the row, so that neither batches nor workers change them. Likewise each row of a split belongs
to one part, by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from typing import Any

import numpy as np

from treepurify.rows.batches import Batch, Source
from treepurify.rows.row_order import mixed_bits
from treepurify.typing import Array, Indices

__all__ = ["ResampledSource", "Resampling", "RowSplit"]

# Tell these numbers from each other and from those of `StreamSample`, which may have the same seed.
_SALT = 0x9E3779B97F4A7C15
_SPLIT_SALT = 0xD1B54A32D192ED03
# No row is drawn more often: the chance is below the spacing of random numbers.
_MOST = 20


@dataclass(frozen=True)
class Resampling:
    """One of several times that rows are drawn again.

    Parameters
    ----------
    seed : int
        Seed of the draws.
    number : int
        Which of them it is.
    """

    seed: int
    number: int

    words = "drawn again"

    def times(self, part: int, first_row: int, n_rows: int) -> Array:
        """Return how often each of some rows is drawn, shape (n_rows,)."""
        fractions = _fractions(_SALT, (self.seed, self.number, part), first_row, n_rows)
        times = np.searchsorted(_poisson(), fractions, side="right")
        return np.asarray(times, dtype=np.float64)


@dataclass(frozen=True)
class RowSplit:
    """One of several times that rows are divided among parts.

    Parameters
    ----------
    seed, number : int
        Seed of the splits, and which of them it is.
    n_parts : int
        Number of parts; each row belongs to one of them, with equal chances.
    """

    seed: int
    number: int
    n_parts: int

    def parts(self, part: int, first_row: int, n_rows: int) -> Indices:
        """Return the part that each of some rows of a file or partition belongs to."""
        fractions = _fractions(_SPLIT_SALT, (self.seed, self.number, part), first_row, n_rows)
        return (fractions * self.n_parts).astype(np.intp)


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


@dataclass(frozen=True, eq=False)
class ResampledSource:
    """A source whose rows count as often as they are drawn again, or not at all.

    Parameters
    ----------
    plain : Source
        The rows.
    resampling : Resampling
        How often each counts.
    """

    plain: Source
    resampling: Resampling

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns."""
        return self.plain.names

    @property
    def n_rows(self) -> int | None:
        """Number of rows, as often as they may be drawn."""
        return self.plain.n_rows

    @property
    def can_repeat(self) -> bool:
        """Whether the rows can be read more than once."""
        return self.plain.can_repeat

    def describe(self) -> str:
        """Return what it is."""
        return f"{self.plain.describe()}, {self.resampling.words}"

    def head(self) -> Any:
        """Return the first rows."""
        return self.plain.head()

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows; their weights are for the reader to draw."""
        return self.plain.batches(columns)
