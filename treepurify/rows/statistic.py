"""Statistics that accumulate batch by batch and merge."""

from typing import Protocol, TypeVar

from treepurify.rows.source_reader import RowBatch

__all__ = ["Statistic"]

State = TypeVar("State")


class Statistic(Protocol[State]):
    """What an engine learns from rows: a sum that starts at zero, takes batches, and merges.

    The states that it makes, fills and merges belong to it: they are arrays that it writes to,
    since copies for every batch would take more time than what is added to them.
    """

    def zero(self) -> State:
        """Return the state of no rows."""

    def add(self, state: State, rows: RowBatch) -> State:
        """Return the state with the rows added; the given one is no longer used."""

    def merge(self, state: State, other: State) -> State:
        """Return the state of the rows of both; the given ones are no longer used.

        `state` stands for rows before those of `other`.
        """
