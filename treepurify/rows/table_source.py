"""Rows in memory as a source of one batch, which is all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from treepurify.rows.batches import Batch
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.row_weights import RowWeights
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.tables import table_names

__all__ = ["ReadBefore", "TableSource"]

_WORDS = "the table"


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table or an array in memory, as a caller passed it, or as it was read for a model.

    Parameters
    ----------
    table : array_like, table or Columns
        The rows. Nothing is checked before they are read.
    """

    table: Any

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns; None for an array."""
        if isinstance(self.table, Columns):
            return tuple(spec.name for spec in self.table.features)
        names = table_names(self.table)
        return None if names is None else tuple(names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if isinstance(self.table, Columns):
            return self.table.n_rows
        # Sparse rows have a shape and no length, nested lists a length and no shape.
        return int(self.table.shape[0]) if hasattr(self.table, "shape") else len(self.table)

    @property
    def can_repeat(self) -> bool:
        """They can be read again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return _WORDS

    def head(self) -> Any:
        """Return all rows: they are in memory already."""
        return self.table

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield all rows."""
        del columns
        yield Batch(self.table, 0, 0, _WORDS)


@dataclass(frozen=True, eq=False)
class ReadBefore:
    """The reader of rows that were read already.

    Parameters
    ----------
    columns : Columns
        The rows, with the features in the order of the model.
    weights : ndarray of float64, shape (n_rows,), optional
        Weights of the rows.
    """

    columns: Columns
    weights: RowWeights

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The features, in the order of the model."""
        return self.columns.features

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of all features."""
        return tuple(range(len(self.features)))

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None

    @property
    def weight(self) -> None:
        """No column is that of the weights."""
        return

    @property
    def wanted(self) -> None:
        """All columns."""
        return

    def read(self, batch: Batch) -> RowBatch:
        """Return the rows."""
        return RowBatch(self.columns, self.weights, 0, 0, batch.where, {})
