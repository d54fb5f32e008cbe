"""How much of a function its components explain on rows, and what batches are counted for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.components import Component, evaluate_each
from treepurify.engines.common.functions import CalledFunction
from treepurify.grids.grid import Grid, Subset
from treepurify.moments import PartMoments
from treepurify.progress import ProgressReport
from treepurify.remainder import Function
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import CombinedStatistic, RowStream
from treepurify.rows.row_weights import mean_square
from treepurify.rows.source_reader import Statistic
from treepurify.rows.stream_sample import StreamSample, keep_sample
from treepurify.typing import Array
from treepurify.weights.cell_counts import CellCounts, CountedRows, counted_rows


@dataclass(frozen=True, eq=False)
class ExplainedVariance:
    """How much of a function its components explain on rows.

    Parameters
    ----------
    covariances : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each component with the function; of what they leave under ().
    rest_variance : ndarray of float64, shape (n_outputs,)
        Variance of what they leave.
    share : ndarray of float64, shape (n_outputs,)
        Share of the variance of the function that they explain.
    rest : ndarray of float64, shape (n_rows, n_outputs)
        What they leave on the rows; empty where rows came in batches.
    """

    covariances: dict[Subset, Array]
    rest_variance: Array
    share: Array
    rest: Array


def measure_explained(
    values: Array, shares: Array, intercept: Array, parts: Iterable[tuple[Subset, Array]]
) -> ExplainedVariance:
    """Return how much of a function its components explain on rows.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_outputs)
        The function.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row in the measure.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    parts : iterable of (tuple of int, ndarray of float64 of shape (n_rows, n_outputs))
        The components.
    """
    # Sums rather than matrix products: for one column the threads of a BLAS only wait.
    weight = shares[:, None]
    centred = values - (weight * values).sum(axis=0)
    weighted = weight * centred
    total = (weighted * centred).sum(axis=0)
    rest = values - intercept
    covariances: dict[Subset, Array] = {}
    for subset, part in parts:
        rest -= part
        covariances[subset] = (weighted * part).sum(axis=0)
    covariances[()] = (weighted * rest).sum(axis=0)
    left = (weight * rest**2).sum(axis=0) / np.where(total > 0, total, 1.0)
    return ExplainedVariance(covariances, mean_square(rest, shares), np.asarray(1.0 - left), rest)


def count_in_cells(
    stream: RowStream,
    tables: Sequence[tuple[Grid, Sequence[Subset]]],
    report: ProgressReport,
    *,
    keep_special: bool,
    sample: StreamSample | None = None,
) -> list[CountedRows]:
    """Return all rows counted in the cells of tables on one grid or several, in one pass.

    Parameters
    ----------
    stream : RowStream
        The rows.
    tables : sequence of tuple of (Grid, sequence of tuple of int)
        Each grid, with cells for missing and unseen values everywhere, and its tables.
    report : callable
        Progress.
    keep_special : bool
        Whether these cells stay where no row needs them.
    sample : StreamSample, optional
        A sample to be drawn in the same pass, which the stream keeps.
    """
    counts = [CellCounts(grid, subsets, stream.reader.used) for grid, subsets in tables]
    both: tuple[Statistic[Any], ...] = (*counts, *([] if sample is None else [sample]))
    states = stream.reduce(CombinedStatistic(both), "counting rows", report)
    found = [
        counted_rows(one, state, keep_special=keep_special)
        for one, state in zip(counts, states, strict=False)
    ]
    if sample is not None:
        keep_sample(stream, sample, states[-1])
    return found


@dataclass(frozen=True, eq=False)
class MeasuredParts:
    """What components and their rest are on all rows of a stream.

    Parameters
    ----------
    explained : ExplainedVariance
        How much of the function they explain.
    n_rows : int
        Number of rows.
    variances, absolutes : mapping of tuple of int to ndarray of float64, shape (n_outputs,)
        Variance and mean absolute value of each component.
    mean : ndarray of float64, shape (n_outputs,)
        Mean of the function.
    """

    explained: ExplainedVariance
    n_rows: int
    variances: Mapping[Subset, Array]
    absolutes: Mapping[Subset, Array]
    mean: Array


def explain_rows(
    stream: RowStream,
    function: Function,
    intercept: Array,
    kept: Mapping[Subset, Component],
    report: ProgressReport,
) -> MeasuredParts:
    """Return how much of a function its components explain on all rows.

    Parameters
    ----------
    stream : RowStream
        The rows.
    function : Function
        The function.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    kept : mapping of tuple of int to Component
        The components.
    report : callable
        Progress.
    """

    def parts(columns: Columns) -> Iterable[Array]:
        return evaluate_each(kept.values(), columns)

    def centred(columns: Columns) -> Array:
        return np.asarray(function(columns) - intercept)

    is_ours = not isinstance(function, CalledFunction)
    moments = PartMoments(parts, len(kept), len(intercept), centred, on_threads=is_ours)
    state = stream.reduce(moments, "measuring the explained share", report)
    total = state.variance
    left = state.mean_squares[-1] / np.where(total > 0, total, 1.0)
    found = state.covariances
    covariances = {subset: found[i] for i, subset in enumerate(kept)}
    covariances[()] = found[-1]
    rest_variance = state.variances[-1]
    return MeasuredParts(
        ExplainedVariance(
            covariances, rest_variance, np.asarray(1.0 - left), np.empty((0, len(left)))
        ),
        state.n_rows,
        dict(zip(kept, state.variances, strict=False)),
        dict(zip(kept, state.mean_absolutes, strict=False)),
        intercept + state.function / state.weight,
    )
