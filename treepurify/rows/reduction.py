"""Reduce a statistic over all batches of a source."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport, row_progress
from treepurify.rows.batches import Source
from treepurify.rows.columns import Columns, joined_columns
from treepurify.rows.dask_source import DaskSource
from treepurify.rows.row_weights import RowWeights, within_range
from treepurify.rows.source_reader import (
    CategoryLevels,
    RowBatch,
    RowReader,
    Statistic,
    joined_levels,
)
from treepurify.rows.sources import ReadBefore, TableSource
from treepurify.rows.stream_source import StreamSource

State = TypeVar("State")
_MANY_ROWS = 1 << 24
# However uneven their weights are, more rows are not kept.
_MOST_LIGHT_ROWS = 1 << 18


@dataclass(frozen=True, eq=False)
class CombinedStatistic:
    """Several statistics in one pass; the state is the list of their states."""

    statistics: tuple[Statistic[Any], ...]

    def zero(self) -> list[Any]:
        """Return the states of no rows."""
        return [statistic.zero() for statistic in self.statistics]

    def add(self, state: list[Any], rows: RowBatch) -> list[Any]:
        """Return all states with the rows added."""
        pairs = zip(self.statistics, state, strict=True)
        return [statistic.add(one, rows) for statistic, one in pairs]

    def merge(self, state: list[Any], other: list[Any]) -> list[Any]:
        """Return the states of the rows of both."""
        triples = zip(self.statistics, state, other, strict=True)
        return [statistic.merge(one, two) for statistic, one, two in triples]


@dataclass(frozen=True, eq=False)
class CopiedRows:
    """Rows that were given, where moved copies of them are the measure.

    Parameters
    ----------
    rows : RowStream
        The rows.
    copies : int
        How often each of them was copied.
    """

    rows: "RowStream"
    copies: int


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Rows of a sample.

    Parameters
    ----------
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_sampled,), optional
        What each of them counts; None where all count the same.
    n_rows : int
        Rows of positive weight that there are.
    """

    columns: Columns
    weights: RowWeights
    n_rows: int


@dataclass(frozen=True, eq=False)
class RowStream:
    """Rows, and how they are read for one model: a table is one batch, which is all of it.

    Parameters
    ----------
    source : Source
        The rows.
    reader : RowReader
        How they are read.
    progress : bool
        Whether to report progress where they are read again later.
    drawn : dict of tuple of int to SampledRows
        The samples that were drawn of them, by most rows and seed: none is read for twice.
    """

    source: Source
    reader: RowReader
    progress: bool = True
    drawn: dict[tuple[int, int], SampledRows] = field(default_factory=dict, repr=False)

    @property
    def is_table(self) -> bool:
        """Whether they are in memory."""
        return isinstance(self.source, TableSource)

    @property
    def expected_rows(self) -> int:
        """Number of rows; very many where the source does not say."""
        return self.source.n_rows or _MANY_ROWS

    @property
    def whole(self) -> RowBatch | None:
        """All of them as one batch, where they are in memory."""
        return next(self.batches()) if self.is_table else None

    def reduce(self, statistic: Statistic[State], what: str, report: ProgressReport) -> State:
        """Return the state of a statistic after all rows.

        Parameters
        ----------
        statistic : Statistic
            What is learned from the rows.
        what : str
            What is done, for the progress: "counting rows".
        report : callable
            Progress.

        Raises
        ------
        InvalidInputError
            If rows cannot be read; the message names their file and column.
        """
        if isinstance(self.source, DaskSource):
            learned: State = self.source.reduce(self.reader, statistic, what, report)
            return learned
        state = statistic.zero()
        if isinstance(self.source, TableSource):
            (rows,) = self.batches()
            return statistic.add(state, replace(rows, report=report))
        progress = row_progress(what, self.source.n_rows, report)
        for rows in self.batches():
            if len(rows):
                state = statistic.add(state, rows)
                progress(len(rows))
        return state

    def ahead(self) -> Iterator[RowBatch]:
        """Yield the rows in order, without using up a source that can be read only once."""
        if isinstance(self.source, StreamSource) and not self.source.can_repeat:
            yield from map(self.reader.read, self.source.ahead())
        else:
            yield from self.batches()

    def batches(self) -> Iterator[RowBatch]:
        """Yield the rows in order, as the model reads them."""
        for batch in self.source.batches(self.reader.wanted):
            yield self.reader.read(batch)


def few_rows(stream: RowStream, plenty: int) -> RowBatch | None:
    """Return all rows as one batch where they tell less than `plenty` rows of equal weight.

    Reads no more of them than it takes to know, and does not use up a source that can be read only
    once. None where there are more, or the source says that there are.

    Raises
    ------
    InvalidInputError
        If rows cannot be read, none has weight, or batches do not agree on their categories.
    """
    if not stream.reader.is_weighted and (stream.source.n_rows or 0) >= plenty:
        return None
    names = [spec.name for spec in stream.reader.features]
    batches: list[RowBatch] = []
    levels: CategoryLevels = {}
    n_rows, total, squares = 0, 0.0, 0.0
    for batch in stream.ahead():
        levels = joined_levels(levels, batch.levels, names, batch.where)
        batches.append(batch)
        n_rows += len(batch)
        total += float(batch.counts.sum())
        squares += float(np.sum(batch.counts**2))
        if total**2 >= plenty * squares > 0 or n_rows >= _MOST_LIGHT_ROWS:
            return None
    if not total:
        raise InvalidInputError(f"{stream.source.describe()} has no rows of positive weight")
    columns = joined_columns([batch.columns for batch in batches])
    weights = None
    if stream.reader.is_weighted:
        weights = np.concatenate([batch.counts for batch in batches])
    return replace(batches[0], columns=columns, weights=weights, levels=levels)


def rows_in_memory(columns: Columns, weights: RowWeights) -> RowStream:
    """Return rows that were read already, with weights in any unit, of which one is positive."""
    if weights is not None:
        weights = within_range(weights)
    reader = ReadBefore(columns, weights)
    return RowStream(TableSource(columns), reader)
