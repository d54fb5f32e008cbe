"""Samples of rows, in proportion to their weights."""

from dataclasses import dataclass

import numpy as np

from treepurify.rows.row_weights import RowWeights, row_shares, within_range
from treepurify.typing import Array, Indices


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
        The probability that each of them was not drawn.
    """

    picked: Indices
    shares: Array
    unseen: Array


def sample_rows(
    n_rows: int, weights: RowWeights, most: int, seed: int | np.random.Generator
) -> RowSample:
    """Draw at most `most` rows, each with a chance in proportion to its weight.

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
    seed : int or Generator
        Seed of the draw, or what draws.
    """
    if n_rows <= most:
        return RowSample(np.arange(n_rows), row_shares(n_rows, weights), np.zeros(n_rows))
    rng = np.random.default_rng(seed)
    if weights is None:
        picked = np.sort(rng.choice(n_rows, size=most, replace=False))
        return RowSample(picked, row_shares(most, None), np.full(most, 1.0 - most / n_rows))
    weights = within_range(weights)
    chance = _chances(weights, most)
    certain = np.flatnonzero(chance >= 1)
    rest = rng.permutation(np.flatnonzero(chance < 1))
    # Evenly spaced draws from rows in random order: each row at most once, with its chance.
    places = rng.random() + np.arange(most - len(certain))
    reached = np.searchsorted(chance[rest].cumsum(), places, side="right")
    drawn = rest[np.minimum(reached, len(rest) - 1)]
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
