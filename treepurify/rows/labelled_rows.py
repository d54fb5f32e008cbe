"""Rows that come in batches as tables with their labels, where no model says what columns mean."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.batches import Batch, Source
from treepurify.rows.reduction import RowStream
from treepurify.rows.row_weights import RowWeights
from treepurify.rows.source_reader import Statistic, read_weight_column
from treepurify.rows.stream_sample import SampleState, StreamSample
from treepurify.rows.tables import read_matrix, table_names, to_pandas
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LabelledRows", "as_statistic", "labelled_stream", "sample_table"]


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


@dataclass(frozen=True, eq=False)
class _TableSample:
    """Rows that were drawn from a source.

    Parameters
    ----------
    table : DataFrame or ndarray of shape (n_sampled, n_columns)
        The rows in the order of the source, an array where it gives arrays.
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
) -> _TableSample:
    """Return a weighted sample of the rows of a source; all where there are not more than `most`.

    The rows are read twice: for the draws, which are those of `StreamSample`, and for the rows.

    Parameters
    ----------
    source : Source
        The rows; they can be read again.
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
    has_names = source.names is not None
    stream = labelled_stream(source, columns, weight)
    draw = StreamSample(most, (), seed)
    draw.check(memory_budget)
    drawn = stream.reduce(as_statistic(_Draws(draw)), "drawing a sample of rows", report)
    if not drawn.n_rows:
        raise InvalidInputError(f"{source.describe()} has no rows of positive weight; pass some")
    sample, weights = draw.result(drawn)
    picked = _Picked(sample.places, memory_budget)
    frames = stream.reduce(as_statistic(picked), "reading the sample", report)
    table = picked.table(frames)
    return _TableSample(table if has_names else table.to_numpy(), weights, drawn.n_rows)


@dataclass(frozen=True, eq=False)
class _Draws:
    """The statistic of the rows that are drawn, by their places."""

    sample: StreamSample

    def zero(self) -> SampleState:
        """Return no rows."""
        return self.sample.zero()

    def add(self, state: SampleState, rows: LabelledRows) -> SampleState:
        """Return the draws with those of a batch."""
        return self.sample.drawn(state, rows.part, rows.first_row, rows.weights, _nothing)

    def merge(self, state: SampleState, other: SampleState) -> SampleState:
        """Return the draws of both."""
        return self.sample.merge(state, other)


def _nothing(picked: Indices) -> Array:
    return np.empty((len(picked), 0))


@dataclass(frozen=True, eq=False)
class _Picked:
    """The statistic of the rows at given places, which are in order."""

    places: Any
    memory_budget: int

    def zero(self) -> list[tuple[Array, "pd.DataFrame"]]:
        """Return no rows."""
        return []

    def add(
        self, state: list[tuple[Array, "pd.DataFrame"]], rows: LabelledRows
    ) -> list[tuple[Array, "pd.DataFrame"]]:
        """Return the rows with those of a batch."""
        inside = slice(
            *np.searchsorted(self._of_part(rows.part), [rows.first_row, rows.first_row + len(rows)])
        )
        own = self._of_part(rows.part)[inside]
        if not len(own):
            return state
        frame = rows.frame.iloc[own - rows.first_row]
        known = sum(len(some) for some, _ in state)
        check_budget(
            # What was read and is read, and all of it put together.
            int(2 * frame.memory_usage(deep=True).sum() * (known + len(own)) / len(own)),
            self.memory_budget,
            f"a sample of {len(self.places)} rows",
            "Pass a table of fewer rows.",
        )
        numbered = np.column_stack([np.full(len(own), rows.part), own])
        return [*state, (numbered, frame)]

    def merge(
        self,
        state: list[tuple[Array, "pd.DataFrame"]],
        other: list[tuple[Array, "pd.DataFrame"]],
    ) -> list[tuple[Array, "pd.DataFrame"]]:
        """Return the rows of both."""
        return [*state, *other]

    def table(self, state: list[tuple[Array, "pd.DataFrame"]]) -> "pd.DataFrame":
        """Return all rows in the order of their places."""
        import pandas as pd

        places = np.concatenate([numbered for numbered, _ in state])
        frame = pd.concat([frame for _, frame in state], ignore_index=True)
        return frame.iloc[np.lexsort(places.T[::-1])].reset_index(drop=True)

    def _of_part(self, part: int) -> Indices:
        inside = slice(*np.searchsorted(self.places[:, 0], [part, part + 1]))
        rows: Indices = self.places[inside, 1]
        return rows
