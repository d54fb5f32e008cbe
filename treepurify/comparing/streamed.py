"""The sums of a comparison over rows that come in batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treepurify.comparing.pair_sums import SideSums, merged, side_sums, value_sums
from treepurify.comparing.shared_cells import Sides, sides_of_batch
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.batches import ROWS_PER_BATCH, Batch, Source
from treepurify.rows.category_levels import CategoryLevels, joined_levels
from treepurify.rows.columns import Columns
from treepurify.rows.labelled_rows import as_statistic
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import RowReader
from treepurify.rows.sources import check_repeats
from treepurify.typing import Array
from treepurify.value_stream import value_stream

__all__ = ["compare_stream"]

_Sums = tuple[int, float, Array, CategoryLevels]


def compare_stream(
    a: Decomposition,
    b: Decomposition,
    source: Source,
    weight: Any,
    smallest: Array,
    report: ProgressReport,
) -> tuple[SideSums, str]:
    """Return the sums of a comparison over all rows of a source, and the mass in words.

    Parameters
    ----------
    a, b : Decomposition
        The decompositions.
    source : Source
        The rows; they can be read again.
    weight : str, optional
        Name of the column of weights.
    smallest : ndarray of float64, shape (n_outputs,)
        Effects have a sign from here on.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If features or outputs differ, or the rows cannot be read, or only once.
    """
    check_repeats(source, "two passes over the rows, one for means and one for differences")
    first, second = (value_stream(d, source, weight).reader for d in (a, b))
    # It gives the rows as both decompositions read them, where other readers give those of one.
    reader: Any = _BothReaders(first, first if a.inputs == b.inputs else second)
    stream = RowStream(source, reader)
    # Workers need nothing of the rows of the measures.
    a, b = (replace(d, rows=None, stream=None) for d in (a, b))
    known = stream.reduce(as_statistic(_ValueSums(a, b)), "averaging effects", report)
    if known is None or not known[1] > 0:
        raise InvalidInputError(f"{source.describe()} has no rows of positive weight; pass some")
    n_rows, weight, sums, _ = known
    compared = as_statistic(_Compared(a, b, weight, sums / weight, smallest))
    found = stream.reduce(compared, "comparing effects", report)
    return found, f"the {n_rows} rows of {source.describe()}"


@dataclass(frozen=True, eq=False)
class _BothRows:
    """Some rows, as each of two decompositions reads them, with what `RowBatch` has beside them."""

    columns: tuple[Columns, Columns]
    weights: Array
    levels: CategoryLevels

    def __len__(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, eq=False)
class _BothReaders:
    """How each of two decompositions reads rows."""

    first: RowReader
    second: RowReader

    @property
    def wanted(self) -> Sequence[str] | None:
        """Names of the columns that are read; None for all."""
        if self.first.wanted is None or self.second.wanted is None:
            return None
        return tuple(dict.fromkeys([*self.first.wanted, *self.second.wanted]))

    def read(self, batch: Batch) -> _BothRows:
        """Return the rows of a batch."""
        rows = self.first.read(batch)
        again = rows if self.second is self.first else self.second.read(batch)
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        return _BothRows((rows.columns, again.columns), weights, rows.levels)


def _blocks(a: Decomposition, b: Decomposition, rows: _BothRows, total: float) -> Iterator[Sides]:
    """Yield the components of both on a few of the rows at a time."""
    first, second = rows.columns
    for start in range(0, len(rows), ROWS_PER_BATCH):
        stop = start + ROWS_PER_BATCH
        columns = first.part(start, stop), second.part(start, stop)
        yield sides_of_batch(a, b, columns, rows.weights[start:stop] / total)


@dataclass(frozen=True, eq=False)
class _ValueSums:
    """The statistic of rows, their weight, and the sums of all values; None before the first row.

    Centred values need the means over all rows, so these come in a pass of their own.
    """

    a: Decomposition
    b: Decomposition

    def zero(self) -> _Sums | None:
        return None

    def add(self, state: _Sums | None, rows: _BothRows) -> _Sums | None:
        for sides in _blocks(self.a, self.b, rows, 1.0):
            weights = np.zeros(0) if sides.weights is None else sides.weights
            own = len(weights), float(weights.sum()), value_sums(sides), rows.levels
            state = self.merge(state, own)
        return state

    def merge(self, state: _Sums | None, other: _Sums | None) -> _Sums | None:
        if state is None or other is None:
            return state or other
        levels = joined_levels(state[3], other[3], self.a.feature_names)
        return state[0] + other[0], state[1] + other[1], state[2] + other[2], levels


@dataclass(frozen=True, eq=False)
class _Compared:
    """The statistic of the sums of a comparison; None before the first row."""

    a: Decomposition
    b: Decomposition
    weight: float
    means: Array
    smallest: Array

    def zero(self) -> SideSums | None:
        return None

    def add(self, state: SideSums | None, rows: _BothRows) -> SideSums | None:
        for sides in _blocks(self.a, self.b, rows, self.weight):
            state = self.merge(state, side_sums(sides, self.smallest, self.means))
        return state

    def merge(self, state: SideSums | None, other: SideSums | None) -> SideSums | None:
        return state or other if state is None or other is None else merged(state, other)
