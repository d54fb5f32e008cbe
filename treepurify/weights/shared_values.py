"""Numbers whose shared values mean something of their own, such as amounts that a law names.

Smoothing takes neighbouring values for much the same. Where rows of one value have levels of
other columns that rows of the next value do not, as the capital gains of a tax table have marital
statuses, it would mix what is apart.
"""

import numpy as np

from treepurify.rows.row_weights import equal_parts, exceeds
from treepurify.typing import Array, Indices, Mask
from treepurify.weights.latent_rows import LatentRows
from treepurify.weights.score_smoothing import smoothings

__all__ = ["gains_of_values", "has_telling_values"]

_CELLS = 32
# With this number of rows, the prediction of a value is the mean of its own rows' and of all rows'.
_PRIOR_ROWS = 4.0
_STANDARD_ERRORS = 2.0
_LEAST_ROWS = 30
_MOST_CELLS = 1 << 20
_LEAST_SHARED = 0.5


def has_telling_values(latent: LatentRows) -> Mask:
    """Return, for each column of scores, whether its values should stay as they are.

    They should where, for some column of levels, a row's level is predicted better by the other
    rows of exactly the same value than by the rows of neighbouring ranks, smoothed at their best:
    by the mean leave-one-out log-likelihood, by more than two standard errors. Most rows must share
    their value with others.
    """
    telling = np.zeros(len(latent.scored), dtype=bool)
    for first, j in enumerate(latent.scored):
        known = latent.known[first] & (latent.shares > 0)
        if not known.any():
            continue
        different, value = np.unique(latent.columns.values[j][known], return_inverse=True)
        alone = np.bincount(value)[value] == 1
        rows = latent.shares[known] * latent.effective_rows
        if exceeds(_LEAST_ROWS, rows.sum()) or alone.mean() > _LEAST_SHARED:
            continue
        cell = equal_parts(latent.positions[first][known], _CELLS)
        telling[first] = any(
            len(different) * n_levels <= _MOST_CELLS
            and _is_clear(gains_of_values(value, cell, level[known] + 1, rows), rows)
            for level, n_levels in zip(latent.levels, latent.n_levels, strict=True)
        )
    return telling


def gains_of_values(value: Indices, cell: Indices, level: Indices, rows: Array) -> Array:
    """Return how much better exact values predict levels than their neighbourhood does.

    Parameters
    ----------
    value, cell, level : ndarray of int, shape (n_rows,)
        Value, one of 32 cells of ranks, and level of each row.
    rows : ndarray of float64, shape (n_rows,)
        How many rows of equal weight each counts as.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        Leave-one-out log-likelihood in nats, less that under the best bandwidth.
    """
    others = np.maximum(np.bincount(level, rows) - 1.0, 0.0) / (rows.sum() - 1.0)
    by_value = _table(value, level, rows)
    same = np.maximum(by_value[value, level] - 1.0, 0.0) + _PRIOR_ROWS * others[level]
    exact = same / (np.maximum(by_value.sum(axis=1)[value] - 1.0, 0.0) + _PRIOR_ROWS)
    # A level that only one row has cannot be predicted from other rows.
    counts = np.where(others > 0, _table(cell, level, rows, _CELLS), 0.0)
    near = _predicted(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(near[:, counts > 0]) @ counts[counts > 0]
        found = np.log(exact) - np.log(near[np.argmax(mean)][cell, level])
    return np.where((others[level] > 0) & (rows > 0), found, 0.0)


def _predicted(counts: Array) -> Array:
    """Return how probable a level is in each cell without one row of it, under each bandwidth."""
    own = np.diagonal(smoothings(_CELLS), axis1=1, axis2=2)[:, :, None]
    smoothed = smoothings(_CELLS) @ counts
    of_all = np.maximum(smoothed.sum(axis=2, keepdims=True) - own, np.finfo(float).tiny)
    return np.asarray(np.maximum(smoothed - own, 0.0) / of_all)


def _is_clear(gains: Array, rows: Array) -> bool:
    """Return whether the mean lies above zero by more than two standard errors."""
    mean = np.average(gains, weights=rows)
    error = np.sqrt(rows @ (gains - mean) ** 2) / rows.sum()
    return bool(mean > _STANDARD_ERRORS * error)


def _table(first: Indices, second: Indices, rows: Array, least: int = 0) -> Array:
    shape = max(int(first.max()) + 1, least), int(second.max()) + 1
    counts = np.bincount(first * shape[1] + second, rows, shape[0] * shape[1])
    return np.asarray(counts, dtype=np.float64).reshape(shape)
