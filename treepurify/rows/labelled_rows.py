"""Rows that come in batches as tables with their labels, where no model says what columns mean."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.errors import InvalidInputError
from treepurify.rows.batches import Batch, Source
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import read_weight_column
from treepurify.rows.statistic import Statistic
from treepurify.rows.tables import read_matrix, table_names
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LabelledRows", "as_statistic", "labelled_stream"]


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Some rows as a data frame, with a weight for each.

    Parameters
    ----------
    frame : DataFrame
        The rows; the columns of an array are numbered.
    weights : ndarray of float64, shape (n_rows,)
        Their weights; ones without any.
    part, first_row : int
        See `Batch`.
    """

    frame: "pd.DataFrame"
    weights: Array
    part: int
    first_row: int

    def __len__(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, eq=False)
class _LabelReader:
    """Reads columns as they are, labels and all."""

    columns: tuple[str, ...] | None
    weight: str | None

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """Names of the columns that are read; None for all."""
        if self.columns is None or self.weight is None:
            return self.columns
        return (*self.columns, self.weight)

    def read(self, batch: Batch) -> LabelledRows:
        """Return the rows of a batch."""
        import pandas as pd

        table, place = batch.table, (batch.part, batch.first_row)
        if table_names(table) is None or self.columns is None:
            frame = pd.DataFrame(read_matrix(table))
            return LabelledRows(frame, np.ones(len(frame)), *place)
        frame = table if hasattr(table, "iloc") else table.to_pandas()
        weights = np.ones(len(frame))
        if self.weight is not None:
            try:
                weights = read_weight_column(frame[self.weight], self.weight)
            except InvalidInputError as error:
                raise InvalidInputError(f"{batch.where}: {error}") from error
        return LabelledRows(frame[list(self.columns)].reset_index(drop=True), weights, *place)


def labelled_stream(source: Source, columns: tuple[str, ...] | None, weight: Any) -> RowStream:
    """Return how the rows of a source are read with their labels.

    Parameters
    ----------
    source : Source
        The rows.
    columns : tuple of str, optional
        The columns; all but the weights by default.
    weight : str, optional
        Name of the column of weights.

    Raises
    ------
    InvalidInputError
        If columns are missing, or the weights are no name.
    """
    names = source.names
    if weight is not None and not isinstance(weight, str):
        raise InvalidInputError(
            "rows that come in batches bring their weights along: pass the name of their column "
            "as sample_weight"
        )
    if names is not None:
        columns = columns or tuple(name for name in names if name != weight)
        absent = [name for name in (*columns, weight) if name not in (*names, None)]
    else:
        absent = [] if weight is None else [weight]
    if absent:
        raise InvalidInputError(
            f"{source.describe()} has no column {', '.join(map(repr, absent[:10]))}; its columns "
            f"are {', '.join((names or ())[:30])}"
        )
    # It gives tables, where other readers give the columns of a model.
    reader: Any = _LabelReader(columns, weight)
    return RowStream(source, reader)


def as_statistic(statistic: Any) -> Statistic[Any]:
    """Return a statistic of labelled rows as one of rows."""
    known: Statistic[Any] = statistic
    return known
