"""Rows that count: those of positive weight, and samples of them in proportion to weight."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.columns import Columns
from treepurify.engines.common.inputs import RowWeights, row_weights
from treepurify.weights import Empirical

__all__ = [
    "RowSample",
    "counted_rows",
    "mean_square",
    "row_quantiles",
    "row_shares",
    "sample_rows",
]

Array = npt.NDArray[np.float64]


def counted_rows(
    columns: Columns, sample_weight: npt.ArrayLike | None
) -> tuple[Columns, RowWeights]:
    """Return the rows of positive weight with their weights; None where these are equal.

    Raises
    ------
    InvalidInputError
        If the weights cannot be used; see `row_weights`.
    """
    weights = row_weights(columns, Empirical(), sample_weight)
    if weights is None:
        return columns, None
    kept = np.flatnonzero(weights > 0)
    own = columns if len(kept) == columns.n_rows else columns.take(kept)
    weights = weights[kept]
    return own, None if np.all(weights == weights[0]) else weights


def row_shares(n_rows: int, weights: RowWeights) -> Array:
    """Return the share of each row; they sum to one."""
    if weights is None:
        return np.full(n_rows, 1.0 / n_rows)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class RowSample:
    """Rows that were drawn without replacement.

    Parameters
    ----------
    picked : ndarray of intp, shape (n_sampled,)
        Positions of the rows, increasing.
    shares : ndarray of float64, shape (n_sampled,)
        What each of them counts in a mean; they sum to one.
    unseen : ndarray of float64, shape (n_sampled,)
        The chance that each of them had not to be drawn.
    """

    picked: npt.NDArray[np.intp]
    shares: Array
    unseen: Array


def sample_rows(n_rows: int, weights: RowWeights, most: int, seed: int) -> RowSample:
    """Draw at most so many rows, each with a chance in proportion to its weight.

    A row that carries more than one draw's share of the weight is taken for certain. Each row
    counts with its weight over its chance (Horvitz and Thompson 1952), so that rows that were
    not certain count the same. Equal weights are a simple random sample.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights, all positive; None for equal weights.
    most : int
        Most rows in the sample.
    seed : int
        Seed of the draw.
    """
    if n_rows <= most:
        return RowSample(np.arange(n_rows), row_shares(n_rows, weights), np.zeros(n_rows))
    rng = np.random.default_rng(seed)
    if weights is None:
        picked = np.sort(rng.choice(n_rows, size=most, replace=False))
        return RowSample(picked, row_shares(most, None), np.full(most, 1.0 - most / n_rows))
    chance = _chances(weights, most)
    certain = np.flatnonzero(chance >= 1)
    rest = rng.permutation(np.flatnonzero(chance < 1))
    # Evenly spaced draws from rows in random order: each row at most once, with its chance.
    places = rng.random() + np.arange(most - len(certain))
    found = np.searchsorted(chance[rest].cumsum(), places, side="right")
    drawn = rest[np.minimum(found, len(rest) - 1)]
    picked = np.unique(np.concatenate([certain, drawn]))
    return RowSample(
        picked, row_shares(len(picked), weights[picked] / chance[picked]), 1.0 - chance[picked]
    )


def _chances(weights: Array, most: int) -> Array:
    """Return the chance of each row to be among `most`, in proportion to weight, at most one."""
    chance = np.ones(len(weights))
    unsure = np.ones(len(weights), dtype=bool)
    while True:
        places = most - int(np.sum(~unsure))
        chance[unsure] = places * weights[unsure] / weights[unsure].sum()
        above = chance > 1
        if not above.any():
            return chance
        chance[above] = 1.0
        unsure &= ~above


def row_quantiles(
    values: npt.NDArray[np.floating], weights: RowWeights, levels: Array, *, between: bool
) -> npt.NDArray[np.floating]:
    """Return quantiles of the values at levels from 0 to 1.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        Finite values, one at least.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights, all positive; None for equal weights.
    levels : ndarray of float64, shape (n_levels,)
        The levels.
    between : bool
        Whether to interpolate between neighbouring values where weights are equal. How far
        one goes between them depends on the number of rows, which weights do not tell: they
        are no number of rows when they are multiplied. So with unequal weights, as without
        `between`, quantiles are those of the inverse distribution function: the first value
        at which the rows so far reach the level.
    """
    if weights is None and between:
        return np.asarray(np.quantile(values, levels))
    order = np.argsort(values, kind="stable")
    own = np.ones(len(values)) if weights is None else weights[order]
    reached = own.cumsum()
    # Whole-number weights give the very numbers that repeated rows do: sums of ones.
    place = np.searchsorted(reached, reached[-1] * levels, side="left")
    return np.asarray(values[order[np.minimum(place, len(values) - 1)]])


def mean_square(values: Array, shares: Array) -> Array:
    """Return the weighted mean square about the mean, along the first axis."""
    # Sums rather than matrix products: these are too narrow for the threads of a BLAS.
    weight = shares[:, None]
    centred = values - (weight * values).sum(axis=0)
    return np.asarray((weight * centred**2).sum(axis=0))
