"""A weighted sample of rows that come in batches, which depends on neither batches nor workers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.reduction import RowStream, SampledRows
from treepurify.rows.row_weights import RowWeights, mixed_bits
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array, Indices


@dataclass(eq=False)
class SampleState:
    """The rows of the smallest keys so far, some more than are wanted, in no order.

    Parameters
    ----------
    keys : ndarray of float64, shape (n_kept,)
        Exponential random numbers with the weights as rates.
    places : ndarray of int64, shape (n_kept, 2)
        Part and position of each row.
    weights : ndarray of float64, shape (n_kept,)
        Weights.
    values : ndarray of float64, shape (n_kept, n_used)
        Values of the used features.
    n_rows : int
        Rows of positive weight that were seen.
    """

    keys: Array
    places: npt.NDArray[np.int64]
    weights: Array
    values: Array
    n_rows: int = 0


@dataclass(frozen=True, eq=False)
class StreamSample:
    """The statistic of a sample without replacement, with chances that grow with weights.

    Each row draws an exponential number with its weight as rate, from a hash of the seed and of
    its place (file and row number), and the rows with the smallest numbers are taken: a bottom-k
    sample (Cohen and Kaplan 2007, "Summarizing data using bottom-k sketches").

    Parameters
    ----------
    most : int
        Most rows of the sample. Where there are no more rows than that, they are the sample.
    used : tuple of int
        Positions of the features whose values are kept.
    seed : int
        Seed of the draws.
    """

    most: int
    used: tuple[int, ...]
    seed: int = 0

    def check(self, memory_budget: int) -> None:
        """Raise `MemoryBudgetError` if the sample would not fit."""
        check_budget(
            # Twice the rows before those of larger keys are dropped, and once more in order.
            24 * self.most * (len(self.used) + 4),
            memory_budget,
            f"a sample of {self.most} rows of {len(self.used)} features",
            "Pass fewer rows.",
        )

    def zero(self) -> SampleState:
        """Return no rows."""
        places = np.empty((0, 2), dtype=np.int64)
        return SampleState(np.empty(0), places, np.empty(0), np.empty((0, len(self.used))))

    def add(self, state: SampleState, rows: RowBatch) -> SampleState:
        """Return the sample with the rows of a batch drawn too."""
        columns = rows.columns

        def values(picked: Indices) -> Array:
            return np.column_stack([columns.values[j][picked].astype(float) for j in self.used])

        return self.drawn(state, rows.part, rows.first_row, rows.counts, values)

    def drawn(
        self,
        state: SampleState,
        part: int,
        first_row: int,
        weights: Array,
        values: Callable[[Indices], Array],
    ) -> SampleState:
        """Return the sample with the rows of a batch drawn too.

        Parameters
        ----------
        state : SampleState
            The sample so far.
        part, first_row : int
            Their file or partition, and the position there of the first of them.
        weights : ndarray of float64, shape (n_rows,)
            Their weights.
        values : callable
            Returns the values of some of them, shape (n_picked, n_used).
        """
        row = first_row + np.arange(len(weights))
        keys = self._keys(part, row, weights)
        counted = weights > 0
        limit = np.partition(state.keys, self.most)[self.most] if self._is_full(state) else np.inf
        picked = np.flatnonzero(counted & (keys <= limit))
        if len(picked) > self.most + 1:
            # Values of rows that leave the sample again need not be read.
            picked = np.sort(picked[np.argpartition(keys[picked], self.most)[: self.most + 1]])
        places = np.column_stack([np.full(len(picked), part), row[picked]])
        added = SampleState(
            keys[picked], places, weights[picked], values(picked), int(counted.sum())
        )
        return self.merge(state, added)

    def merge(self, state: SampleState, other: SampleState) -> SampleState:
        """Return the sample of the rows of both."""
        n_rows = state.n_rows + other.n_rows
        joined = SampleState(
            np.concatenate([state.keys, other.keys]),
            np.concatenate([state.places, other.places]),
            np.concatenate([state.weights, other.weights]),
            np.concatenate([state.values, other.values]),
            n_rows,
        )
        return joined if len(joined.keys) <= 2 * self.most else self._smallest(joined)

    def _is_full(self, state: SampleState) -> bool:
        return len(state.keys) > self.most

    def _smallest(self, state: SampleState) -> SampleState:
        """Return the rows of the smallest keys, one more than the sample has."""
        if not self._is_full(state):
            return state
        kept = np.argpartition(state.keys, self.most)[: self.most + 1]
        return SampleState(
            state.keys[kept],
            state.places[kept],
            state.weights[kept],
            state.values[kept],
            state.n_rows,
        )

    def _keys(self, part: int, row: npt.NDArray[np.int64], weights: Array) -> Array:
        seeds = np.array([self.seed, part], dtype=np.uint64) + np.uint64(1)
        start = mixed_bits(mixed_bits(seeds[:1]) ^ seeds[1:])
        bits = mixed_bits(mixed_bits(row.astype(np.uint64) + np.uint64(1)) ^ start)
        # Fractions of 2^53 between 0 and 1, never either of them.
        fractions = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(-np.log(fractions) / weights)

    def result(self, state: SampleState) -> tuple[SampleState, Array | None]:
        """Return the sample in the order of the rows, and what each row stands for.

        With the smallest key that was left out known, each row of the sample has a chance of
        its own, and counts with its weight over that chance; None where all count the same.
        """
        smallest = self._smallest(state)
        chance = np.ones(len(smallest.keys))
        kept = np.arange(len(smallest.keys))
        if self._is_full(smallest):
            last = int(np.argmax(smallest.keys))
            kept = np.delete(kept, last)
            chance = -np.expm1(-smallest.weights * smallest.keys[last])
        kept = kept[np.lexsort(smallest.places[kept].T[::-1])]
        counts = smallest.weights[kept] / chance[kept]
        sample = SampleState(
            smallest.keys[kept],
            smallest.places[kept],
            smallest.weights[kept],
            smallest.values[kept],
            state.n_rows,
        )
        return sample, None if np.all(counts == counts[:1]) else counts


def sampled_columns(
    sample: StreamSample, state: SampleState, features: tuple[FeatureSpec, ...]
) -> tuple[Columns, RowWeights]:
    """Return a sample as the rows of a model, and their weights.

    Parameters
    ----------
    sample : StreamSample
        The statistic.
    state : SampleState
        Its state after all rows.
    features : tuple of FeatureSpec
        The features of the model; those that are not used are missing in the sample.
    """
    rows, weights = sample.result(state)
    n_rows = len(rows.keys)
    missing = np.broadcast_to(np.float64(np.nan), n_rows)
    position = {j: i for i, j in enumerate(sample.used)}
    values = tuple(
        np.ascontiguousarray(rows.values[:, position[j]]) if j in position else missing
        for j in range(len(features))
    )
    return Columns(features, values, n_rows), weights


def sample_stream(
    stream: RowStream, most: int, seed: int, memory_budget: int, report: ProgressReport
) -> SampledRows:
    """Return a weighted sample of the rows; all of them where there are not more than `most`.

    The stream keeps it: see `RowStream.drawn`.

    Raises
    ------
    MemoryBudgetError
        If the sample would not fit.
    InvalidInputError
        If there are no rows of positive weight.
    """
    if (most, seed) in stream.drawn:
        return stream.drawn[most, seed]
    sample = StreamSample(most, stream.reader.used, seed)
    sample.check(memory_budget)
    state = stream.reduce(sample, "drawing a sample of rows", report)
    return keep_sample(stream, sample, state)


def keep_sample(stream: RowStream, sample: StreamSample, state: SampleState) -> SampledRows:
    """Return a sample that was drawn along with something else; the stream keeps it, too.

    Raises
    ------
    InvalidInputError
        If there are no rows of positive weight.
    """
    if not state.n_rows:
        raise InvalidInputError(f"{stream.source.describe()} has no rows of positive weight")
    columns, weights = sampled_columns(sample, state, stream.reader.features)
    drawn = SampledRows(columns, weights, state.n_rows)
    stream.drawn[sample.most, sample.seed] = drawn
    return drawn
