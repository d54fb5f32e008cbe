"""A weighted sample of rows that come in batches, as a table with its labels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.batches import Source
from treepurify.rows.labelled_rows import LabelledRows, as_statistic, labelled_stream
from treepurify.rows.row_weights import RowWeights
from treepurify.rows.stream_sample import SampleState, StreamSample
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableSample", "sample_table"]


@dataclass(frozen=True, eq=False)
class TableSample:
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
) -> TableSample:
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
    return TableSample(table if has_names else table.to_numpy(), weights, drawn.n_rows)


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
