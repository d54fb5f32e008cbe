"""The worth of effects on held-out rows in batches: sums over all of them, and over draws."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.evidence.losses import LossChoice, read_loss
from treepurify.progress import ProgressReport
from treepurify.rows.batches import Batch, Source
from treepurify.rows.category_levels import CategoryLevels, joined_levels
from treepurify.rows.labelled_rows import as_statistic
from treepurify.rows.reduction import RowStream
from treepurify.rows.resampling import Resampling
from treepurify.rows.source_reader import RowBatch, RowReader
from treepurify.rows.tables import table_column, table_names
from treepurify.typing import Array
from treepurify.value_stream import value_stream

__all__ = ["WorthSums", "worth_of_stream"]

# So many rows, drawn again some hundred times, stay in the cache.
_ROWS_AT_ONCE = 1 << 12


@dataclass(frozen=True, eq=False)
class WorthSums:
    """Sums over rows, as they are and drawn again.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    sums : ndarray of float64, shape (1 + n_bootstrap, 3 + n_effects)
        Of the weights, of the losses of the model and of the intercept alone, and of the rises
        where each effect is left out: of all rows, and of each draw.
    levels : mapping of int to tuple of hashable
        See `RowBatch`.
    """

    n_rows: int
    sums: Array
    levels: CategoryLevels

    @property
    def losses(self) -> tuple[float, float]:
        """Mean losses of the model and of the intercept alone."""
        weight, model, intercept = self.sums[0, :3]
        return float(model / weight), float(intercept / weight)

    @property
    def rises(self) -> Array:
        """Mean rises of all rows, and of each draw, shape (1 + n_bootstrap, n_effects)."""
        weight = self.sums[:, :1]
        return np.asarray(self.sums[:, 3:] / np.where(weight > 0, weight, np.nan))


def worth_of_stream(
    d: Decomposition,
    source: Source,
    target: str,
    weight: Any,
    loss: LossChoice,
    draws: Sequence[Resampling],
    report: ProgressReport,
) -> WorthSums:
    """Return the sums over all rows of a source, for a loss that is a mean over rows.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    source : Source
        The rows.
    target : str
        Name of the column of what was observed.
    weight : str, optional
        Name of the column of weights.
    loss : str or tuple
        The loss.
    draws : sequence of Resampling
        How often each row counts in each draw.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If rows or observations cannot be read.
    """
    # It gives what was observed too, where other readers give the columns of a model.
    reader: Any = _ObservedReader(value_stream(d, source, weight, (target,)).reader, target)
    statistic = _Worth(replace(d, rows=None, stream=None), loss, tuple(draws))
    found: WorthSums = RowStream(source, reader).reduce(
        as_statistic(statistic), "leaving effects out", report
    )
    return found


@dataclass(frozen=True, eq=False)
class _ObservedRows:
    """Some rows, and what was observed there."""

    rows: RowBatch
    observed: Any

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class _ObservedReader:
    """How rows are read with a column of what was observed."""

    reader: RowReader
    target: str

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return tuple(dict.fromkeys([*(self.reader.wanted or ()), self.target]))

    def read(self, batch: Batch) -> _ObservedRows:
        """Return the rows of a batch."""
        names = table_names(batch.table) or []
        observed = table_column(batch.table, list(names).index(self.target))
        return _ObservedRows(self.reader.read(batch), np.asarray(observed))


@dataclass(frozen=True, eq=False)
class _Worth:
    """The statistic of `WorthSums`."""

    d: Decomposition
    loss: LossChoice
    draws: tuple[Resampling, ...]

    def zero(self) -> WorthSums:
        """Return the sums over no rows."""
        n_effects = len(self.d) + (self.d.remainder is not None)
        return WorthSums(0, np.zeros((1 + len(self.draws), 3 + n_effects)), {})

    def add(self, state: WorthSums, rows: _ObservedRows) -> WorthSums:
        """Return the sums with those over a batch."""
        return self.merge(state, WorthSums(len(rows), self._sums(rows), rows.rows.levels))

    def _sums(self, rows: _ObservedRows) -> Array:
        sums = self.zero().sums
        batch = rows.rows
        weights = np.ones(len(rows)) if batch.weights is None else batch.weights
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            stop = start + _ROWS_AT_ONCE
            own, place = weights[start:stop], (batch.part, batch.first_row + start)
            times = [draw.times(*place, len(own)) for draw in self.draws]
            of_rows = self._of_rows(batch.columns.part(start, stop), rows.observed[start:stop])
            sums += np.stack([np.ones(len(own)), *times]) @ (own[:, None] * of_rows)
        return sums

    def _of_rows(self, columns: Any, observed: Any) -> Array:
        """Return one, the losses of model and intercept, and the rises, for each row."""
        d = self.d
        read = read_loss(self.loss, observed, d.link, d.output_names, columns.n_rows)
        of_rows: Any = read.of_rows
        parts = list(d.evaluate_parts(columns))
        constant = np.tile(d.intercept, (columns.n_rows, 1))
        margin = constant.copy()
        for values in parts:
            margin += values
        base = of_rows(margin)
        rises = [of_rows(margin - values) - base for values in parts]
        return np.stack([np.ones(columns.n_rows), base, of_rows(constant), *rises], axis=1)

    def merge(self, state: WorthSums, other: WorthSums) -> WorthSums:
        """Return the sums over the rows of both."""
        levels = joined_levels(state.levels, other.levels, self.d.feature_names)
        return WorthSums(state.n_rows + other.n_rows, state.sums + other.sums, levels)
