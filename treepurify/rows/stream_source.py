"""Rows in tables that come one after the other: iterators, lists, callables, Arrow streams."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from treepurify.arguments import brief
from treepurify.errors import InvalidInputError
from treepurify.rows.batches import HEAD_ROWS, Batch, first_rows, numbered
from treepurify.rows.tables import table_names


@dataclass(eq=False)
class StreamSource:
    """Tables, or arrays of two dimensions, one after the other.

    What was read of an iterator to see its columns is kept until it is read from its beginning.

    Parameters
    ----------
    open : callable
        Returns the tables, as an iterable.
    can_repeat : bool
        Whether it gives the same rows when it is called again.
    words : str
        What it is, for messages.
    """

    open: Callable[[], Iterable[Any]]
    can_repeat: bool
    words: str
    _begun: list[Any] = field(default_factory=list)
    _rest: Iterator[Any] | None = None
    _is_read: bool = False

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns of the first table; None for an array."""
        names = table_names(self.head())
        return None if names is None else tuple(names)

    @property
    def n_rows(self) -> int | None:
        """None: a stream ends where it ends."""
        return None

    def describe(self) -> str:
        """Return what it is."""
        return self.words

    def head(self) -> Any:
        """Return the first rows of the first table that has any."""
        rest = self._iterate()
        while not (self._begun and len(self._begun[-1])):
            try:
                self._begun.append(next(rest))
            except StopIteration:
                raise InvalidInputError(
                    f"{self.words} gave no rows: it is empty, or was read before. Pass a new one, "
                    "or a callable that returns a new one each time it is called"
                ) from None
        return first_rows(self._begun[-1], HEAD_ROWS)

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the tables as they come, with all their columns."""
        del columns
        if self._is_read:
            raise InvalidInputError(
                f"{self.words} was already read and can be read only once: pass a callable that "
                "returns new batches each time it is called"
            )
        tables = chain(self._begun, self._iterate())
        self._is_read = not self.can_repeat
        self._begun = []
        if self.can_repeat:
            self._rest = None
        yield from numbered(tables, 0, self.words)

    def ahead(self) -> Iterator[Batch]:
        """Yield the tables as they come, and keep them until they are read from the beginning."""
        yield from numbered(self._kept(), 0, self.words)

    def _kept(self) -> Iterator[Any]:
        yield from list(self._begun)
        for table in self._iterate():
            self._begun.append(table)
            yield table

    def _iterate(self) -> Iterator[Any]:
        if self._rest is None:
            opened = self.open()
            if not isinstance(opened, Iterable):
                raise InvalidInputError(
                    f"{self.words} must return an iterable of tables, got {brief(opened)}"
                )
            self._rest = iter(opened)
        return self._rest


def read_arrow_stream(stream: Any) -> Iterable[Any]:
    """Return the record batches of an object with ``__arrow_c_stream__``."""
    import pyarrow as pa

    batches: Iterable[Any] = pa.RecordBatchReader.from_stream(stream)
    return batches
