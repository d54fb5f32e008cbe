"""Rows that another library computes on request: polars and DuckDB."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treepurify.errors import InvalidInputError
from treepurify.rows.batches import HEAD_ROWS, ROWS_PER_BATCH, Batch, numbered

__all__ = ["DuckSource", "PolarsSource", "is_duck_relation", "is_polars_lazy"]


def is_polars_lazy(X: Any) -> bool:
    """Return whether something is a polars LazyFrame."""
    return type(X).__name__ == "LazyFrame" and type(X).__module__.startswith("polars")


def is_duck_relation(X: Any) -> bool:
    """Return whether something is a relation of DuckDB."""
    return type(X).__name__ == "DuckDBPyRelation"


@dataclass(frozen=True, eq=False)
class PolarsSource:
    """A polars LazyFrame, computed in batches by polars' streaming engine."""

    frame: Any

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.frame.collect_schema().names())

    @property
    def n_rows(self) -> int | None:
        """None: counting would compute the frame."""
        return None

    @property
    def can_repeat(self) -> bool:
        """It can be computed again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return "the polars LazyFrame"

    def head(self) -> Any:
        """Return the first rows."""
        return self.frame.head(HEAD_ROWS).collect()

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows with these columns."""
        frame = self.frame if columns is None else self.frame.select(list(columns))
        if not hasattr(frame, "collect_batches"):
            raise InvalidInputError(
                "this version of polars cannot give a LazyFrame in batches: install polars 1.34 or "
                "later, or write it to Parquet with sink_parquet and pass the file"
            )
        tables = frame.collect_batches(chunk_size=ROWS_PER_BATCH, maintain_order=True)
        yield from numbered(tables, 0, self.describe())


@dataclass(frozen=True, eq=False)
class DuckSource:
    """A relation of DuckDB, computed in batches."""

    relation: Any

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.relation.columns)

    @property
    def n_rows(self) -> int | None:
        """None: counting would compute the relation."""
        return None

    @property
    def can_repeat(self) -> bool:
        """It can be computed again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return "the DuckDB relation"

    def head(self) -> Any:
        """Return the first rows."""
        return self.relation.limit(HEAD_ROWS).to_arrow_table()

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows with these columns."""
        names = self.names if columns is None else columns
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        relation = self.relation.project(", ".join(quoted)) if quoted else self.relation
        # Older versions know it by another name only.
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from numbered(read(ROWS_PER_BATCH), 0, self.describe())
