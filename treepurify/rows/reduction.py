"""What is learned from rows, summed over all of them however they are divided."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from treepurify.progress import ProgressReport, row_progress
from treepurify.rows.batches import Source
from treepurify.rows.dask_source import DaskSource
from treepurify.rows.resampling import ResampledSource
from treepurify.rows.source_reader import RowBatch, SourceReader
from treepurify.rows.statistic import Statistic

__all__ = ["RowStream", "Several"]

State = TypeVar("State")


@dataclass(frozen=True, eq=False)
class Several:
    """Several statistics in one pass; their states are a list."""

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
class RowStream:
    """A source, and how its batches are read for one model.

    Parameters
    ----------
    source : Source
        The rows.
    reader : SourceReader
        How they are read.
    progress : bool
        Whether to report progress where they are read again later.
    """

    source: Source
    reader: SourceReader
    progress: bool = True

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
        source = self.source.plain if isinstance(self.source, ResampledSource) else self.source
        if isinstance(source, DaskSource):
            learned: State = source.reduce(self.reader, statistic, what, report)
            return learned
        state = statistic.zero()
        progress = row_progress(what, self.source.n_rows, report)
        for rows in self.batches():
            if len(rows):
                state = statistic.add(state, rows)
                progress(len(rows))
        return state

    def batches(self) -> Iterator[RowBatch]:
        """Yield the rows in order, as the model reads them."""
        for batch in self.source.batches(self.reader.wanted):
            yield self.reader.read(batch)
