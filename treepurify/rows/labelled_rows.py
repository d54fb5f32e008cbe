"""Rows that come in batches as tables with their labels, where no model says what columns mean."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.budget import check_budget
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport, row_progress
from treepurify.rows.batches import Batch, Source
from treepurify.rows.reduction import RowStream
from treepurify.rows.row_weights import RowWeights
from treepurify.rows.source_reader import Statistic, read_weight_column
from treepurify.rows.stream_sample import StreamSample
from treepurify.rows.tables import read_matrix, table_names, to_pandas
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    import pandas as pd


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
        frame = table if hasattr(table, "iloc") else to_pandas(table)
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
            "if rows come in batches, the weights must be one of their columns: pass its name as "
            "sample_weight"
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


class TableSample(NamedTuple):
    """Rows that were drawn from a source, in its order.

    Parameters
    ----------
    table : DataFrame or ndarray of shape (n_sampled, n_columns)
        The rows, an array where the source gives arrays.
    weights : ndarray of float64, shape (n_sampled,), optional
        What each of them counts; None where all count the same.
    n_rows : int
        Rows of positive weight that there are.
    """

    table: Any
    weights: RowWeights
    n_rows: int


def sample_table(
    source: Source,
    columns: tuple[str, ...] | None,
    weight: Any,
    most: int,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
) -> TableSample:
    """Return a weighted sample of the rows of a source; all where there are not more than `most`.

    The rows are read once. The draws are those of `StreamSample`.

    Parameters
    ----------
    source : Source
        The rows.
    columns : tuple of str, optional
        The columns; all but the weights by default.
    weight : str, optional
        Name of the column of weights.
    most, seed : int
        Most rows, and seed of the draws.
    memory_budget : int
        Bytes that the sample may take.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If columns are missing, or there are no rows of positive weight.
    MemoryBudgetError
        If the sample would not fit.
    """
    import pandas as pd

    progress = row_progress("drawing a sample of rows", source.n_rows, report)
    has_names = source.names is not None
    # It gives tables, where other streams give the columns of a model.
    stream: Any = labelled_stream(source, columns, weight)
    # Of each row that is drawn, its place among those that are kept.
    draw = StreamSample(most, (0,), seed)
    state = draw.zero()
    kept: list[pd.DataFrame] = []
    for rows in stream.batches():
        keep = partial(_keep, kept, rows.frame, memory_budget)
        state = draw.drawn(state, rows.part, rows.first_row, rows.weights, keep)
        if sum(map(len, kept)) > len(state.keys):
            kept = [pd.concat(kept, ignore_index=True).iloc[state.values[:, 0].astype(np.intp)]]
            state.values[:, 0] = np.arange(len(state.keys))
        progress(len(rows))
    if not state.n_rows:
        raise InvalidInputError(f"{source.describe()} has no rows of positive weight; pass some")
    sample, weights = draw.result(state)
    table = pd.concat(kept, ignore_index=True).iloc[sample.values[:, 0].astype(np.intp)]
    table = table.reset_index(drop=True)
    return TableSample(table if has_names else table.to_numpy(), weights, state.n_rows)


def _keep(
    kept: "list[pd.DataFrame]", frame: "pd.DataFrame", memory_budget: int, picked: Indices
) -> Array:
    """Keep some rows, and return their places among all that are kept, shape (n_picked, 1)."""
    first, own = sum(map(len, kept)), frame.iloc[picked]
    if len(own):
        kept.append(own)
        n_rows = first + len(own)
        check_budget(
            # What is kept, and all of it put together.
            int(2 * own.memory_usage(deep=True).sum() * n_rows / len(own)),
            memory_budget,
            f"a sample of {n_rows} rows",
            "Pass a table of fewer rows.",
        )
    return np.arange(first, first + len(own), dtype=np.float64)[:, None]
