"""The distinct rows of a source, and how many rows, or what weight, each of them stands for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.batches import Source
from treepurify.rows.labelled_rows import LabelledRows, as_statistic, labelled_stream
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DistinctRows", "distinct_rows"]


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The distinct rows of a source, in the order of their first appearance.

    Parameters
    ----------
    table : DataFrame or ndarray of shape (n_distinct, n_columns)
        The rows, an array where the source gives arrays.
    weights : ndarray of float64, shape (n_distinct,)
        Number of rows that are equal to each, or the sum of their weights.
    n_rows : int
        Number of all rows of positive weight.
    effective : float
        How many rows of equal weight tell as much as all of them (Kish 1965).
    """

    table: Any
    weights: Array
    n_rows: int
    effective: float


@dataclass(eq=False)
class _RowsSoFar:
    """Distinct rows with their weights, and what all rows together weigh."""

    frame: "pd.DataFrame | None" = None
    weights: Array | None = None
    n_rows: int = 0
    squares: float = 0.0


@dataclass(frozen=True, eq=False)
class _DistinctStatistic:
    """The statistic of distinct rows."""

    memory_budget: int

    def zero(self) -> _RowsSoFar:
        """Return no rows."""
        return _RowsSoFar()

    def add(self, state: _RowsSoFar, rows: LabelledRows) -> _RowsSoFar:
        """Return the distinct rows with those of a batch."""
        counted = rows.weights > 0
        frame, weights = rows.frame[counted], rows.weights[counted]
        added = _RowsSoFar(frame, weights, len(weights), float(np.sum(weights**2)))
        return self.merge(state, added)

    def merge(self, state: _RowsSoFar, other: _RowsSoFar) -> _RowsSoFar:
        """Return the distinct rows of both."""
        import pandas as pd

        frames = [one.frame for one in (state, other) if one.frame is not None]
        weights = [one.weights for one in (state, other) if one.weights is not None]
        squares, n_rows = state.squares + other.squares, state.n_rows + other.n_rows
        if not frames:
            return _RowsSoFar()
        frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
        check_budget(
            # The rows, their groups, and those that are left.
            3 * int(frame.memory_usage(deep=True).sum()),
            self.memory_budget,
            f"more than {len(frames[0])} distinct rows",
            "Round or bin numbers first, or pass a sample of the rows.",
        )
        group = frame.groupby(list(frame), dropna=False, sort=False, observed=True).ngroup()
        numbers = group.to_numpy()
        summed = np.bincount(numbers, np.concatenate(weights)).astype(np.float64)
        first = np.unique(numbers, return_index=True)[1]
        return _RowsSoFar(frame.iloc[first].reset_index(drop=True), summed, n_rows, squares)


def distinct_rows(
    source: Source,
    columns: tuple[str, ...] | None,
    weight: str | None,
    memory_budget: int,
    report: ProgressReport,
) -> DistinctRows:
    """Return the distinct rows of a source, each with its count or weight.

    Whatever depends on the distribution of the rows alone is the same under these.

    Parameters
    ----------
    source : Source
        The rows.
    columns : tuple of str, optional
        The columns in which rows may differ; all but the weights by default.
    weight : str, optional
        Name of the column of weights.
    memory_budget : int
        Bytes that they may take.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If columns are missing, weights cannot be used, or there are no rows of positive weight.
    MemoryBudgetError
        If there are too many.
    """
    # Asked before the rows are read: an iterator has no more to tell then.
    has_names = source.names is not None
    stream, statistic = labelled_stream(source, columns, weight), _DistinctStatistic(memory_budget)
    state: _RowsSoFar = stream.reduce(as_statistic(statistic), "finding distinct rows", report)
    if state.frame is None or state.weights is None or not len(state.weights):
        raise InvalidInputError(f"{source.describe()} has no rows of positive weight; pass some")
    effective = float(state.weights.sum() ** 2 / state.squares)
    table = state.frame if has_names else state.frame.to_numpy()
    return DistinctRows(table, state.weights, state.n_rows, effective)
