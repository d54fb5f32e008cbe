"""Rows that come in batches, drawn again: each counts a random number of times.

Drawing as many rows as there are with replacement takes their number, and all of them together. The
times that one row is drawn have nearly a Poisson distribution of mean one, and such numbers can be
drawn for each row by itself (Hanley and MacGibbon 2006). Here they belong to the file and position
of the row, so that neither batches nor workers change them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from typing import Any

import numpy as np

from treepurify.rows.batches import Batch, Source
from treepurify.rows.row_order import mixed_bits
from treepurify.typing import Array

__all__ = ["ResampledSource", "Resampling"]

# Tells these numbers from those of `StreamSample`, which may have the same seed.
_SALT = 0x9E3779B97F4A7C15
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

    def times(self, part: int, first_row: int, n_rows: int) -> Array:
        """Return how often each of some rows is drawn, shape (n_rows,).

        Parameters
        ----------
        part, first_row : int
            The file or partition, and the position there of the first row; see `Batch`.
        n_rows : int
            Number of rows.
        """
        start = np.array([_SALT], dtype=np.uint64)
        for word in (self.seed, self.number, part):
            start = mixed_bits(start ^ np.uint64(word + 1))
        rows = np.arange(first_row, first_row + n_rows, dtype=np.uint64) + np.uint64(1)
        bits = mixed_bits(mixed_bits(rows) ^ start)
        fractions = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.searchsorted(_poisson(), fractions, side="right").astype(np.float64)


@cache
def _poisson() -> Array:
    """Return the distribution function of the Poisson distribution of mean one, from zero on."""
    chances = exp(-1.0) / np.cumprod(np.maximum(np.arange(_MOST), 1))
    return np.asarray(chances.cumsum())


@dataclass(frozen=True, eq=False)
class ResampledSource:
    """A source whose rows count as often as they are drawn again.

    Parameters
    ----------
    plain : Source
        The rows.
    resampling : Resampling
        How often each is drawn.
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
        return f"{self.plain.describe()}, drawn again"

    def head(self) -> Any:
        """Return the first rows."""
        return self.plain.head()

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows; their weights are for the reader to draw."""
        return self.plain.batches(columns)
