"""Rows in batches: what a source of rows offers, and one batch of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from treepurify.rows.tables import check_table, is_table, read_matrix

ROWS_PER_BATCH = 1 << 16
"""Most rows that a source reads at a time, where it may choose."""
HEAD_ROWS = 256
"""Most rows that stand for the table before it is read: its types and columns."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a source, as a table of any kind.

    Parameters
    ----------
    table : table or ndarray
        The rows.
    part : int
        Number of the file or partition that they are in, from 0.
    first_row : int
        Position of the first of them in that part: part and position name a row, however
        the rows are divided into batches.
    where : str
        Where they are, for messages.
    """

    table: Any
    part: int
    first_row: int
    where: str


class Source(Protocol):
    """Rows that are read in batches."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns; None for arrays, whose columns are known by position."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known before they are read."""

    @property
    def can_repeat(self) -> bool:
        """Whether the rows can be read more than once."""

    def describe(self) -> str:
        """Return what it is, for messages."""

    def head(self) -> Any:
        """Return the first rows, at most `HEAD_ROWS`, as a table with all columns."""

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows in order, with these columns at least; all columns for None."""


def numbered(tables: Iterable[Any], part: int, where: str) -> Iterator[Batch]:
    """Yield the tables of one part as batches, with the position of their first rows."""
    first_row = 0
    for table in tables:
        check_table(table, where)
        yield Batch(table, part, first_row, where)
        first_row += len(table)


def first_rows(table: Any, n_rows: int) -> Any:
    """Return the first rows of a table, in the table's own type.

    Raises
    ------
    InvalidInputError
        If it is no table.
    """
    if hasattr(table, "iloc"):
        return table.iloc[:n_rows]
    if is_table(table):
        return table.slice(0, n_rows)
    return read_matrix(table, "each batch")[:n_rows]
