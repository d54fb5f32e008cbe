"""Rows in memory as a source of one batch, which is all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treepurify.rows.batches import Batch
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.row_weights import RowWeights
from treepurify.rows.source_reader import RowBatch

__all__ = ["ReadBefore", "TableSource"]

_WORDS = "the table"


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table that was read already.

    Parameters
    ----------
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights, all positive; None for equal weights.
    """

    columns: Columns
    weights: RowWeights

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(spec.name for spec in self.columns.features)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.n_rows

    @property
    def can_repeat(self) -> bool:
        """They can be read again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return _WORDS

    def head(self) -> Columns:
        """Return the rows: they are read already."""
        return self.columns

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield all rows."""
        del columns
        yield Batch(self.columns, 0, 0, _WORDS)


@dataclass(frozen=True, eq=False)
class ReadBefore:
    """The reader of rows that were read already.

    Parameters
    ----------
    features : tuple of FeatureSpec
        The features, in the order of the model.
    weights : ndarray of float64, shape (n_rows,), optional
        Weights of the rows.
    """

    features: tuple[FeatureSpec, ...]
    weights: RowWeights

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
        return RowBatch(batch.table, self.weights, 0, 0, batch.where, {})
