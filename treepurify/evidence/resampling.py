"""Intervals of a mean over rows, by drawing the rows again."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.evidence.held_out import PredictedRows
from treepurify.typing import Array

_EFFECTS_AT_ONCE = 16
_ROWS_AT_ONCE = 1 << 13


@dataclass(frozen=True, eq=False)
class Intervals:
    """Numbers, one per effect, with percentile intervals and standard errors.

    Parameters
    ----------
    value, low, high, standard_error : ndarray of float64, shape (n_effects,)
        The value on all rows, the ends of its interval, and the standard deviation over the
        draws; all but the value are NaN without draws.
    undefined : int
        Draws that are left out since the loss has no value on them: all rows drawn weigh
        nothing, or one class is missing where the loss compares two.
    """

    value: Array
    low: Array
    high: Array
    standard_error: Array
    undefined: int = 0


def draw_counts(
    n_rows: int, n_bootstrap: int, seed: int, memory_budget: int
) -> npt.NDArray[np.uint8]:
    """Return how often each row is in each of some draws with replacement.

    Returns
    -------
    ndarray of uint8, shape (n_bootstrap, n_rows)
    """
    check_budget(
        n_bootstrap * n_rows,
        memory_budget,
        f"{n_bootstrap} draws of {n_rows} rows",
        "Use a smaller n_bootstrap.",
    )
    rng = np.random.default_rng(seed)
    counts = np.empty((n_bootstrap, n_rows), dtype=np.uint8)
    for draw in counts:
        # A row that is drawn 256 times of as many is less likely than any error of the machine.
        draw[:] = np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows)
    return counts


def resample(
    rows: PredictedRows,
    others: Iterable[Array],
    counts: npt.NDArray[np.uint8],
    coverage: float,
) -> Intervals:
    """Return by how much the loss of other margins is above that of the rows, with intervals.

    Parameters
    ----------
    rows : PredictedRows
        The rows, whose margin others are compared with, on the same draws.
    others : iterable of ndarray of float64, shape (n_rows, n_outputs)
        Other margins.
    counts : ndarray of uint8, shape (n_bootstrap, n_rows)
        How often each row was drawn.
    coverage : float
        Nominal coverage of the intervals.
    """
    rises = (_rises_of_wholes if rows.loss.of_rows is None else _rises_of_means)(
        rows, iter(others), counts
    )
    return intervals_of_draws(rises[0], rises[1:], coverage)


def _rises_of_means(
    rows: PredictedRows, others: Iterable[Array], counts: npt.NDArray[np.uint8]
) -> Array:
    """Return the rises on all rows and on each draw, for a loss that is a mean over rows."""
    of_rows: Any = rows.loss.of_rows
    before = of_rows(rows.margin)
    sums = [_sums(counts, rows.shares[:, None])]
    while some := list(islice(others, _EFFECTS_AT_ONCE)):
        weighted = np.stack([of_rows(other) - before for other in some], axis=1)
        weighted *= rows.shares[:, None]
        sums.append(_sums(counts, weighted))
    weight, rises = np.split(np.concatenate(sums, axis=1), [1], axis=1)
    # Where the rows that were drawn weigh nothing there is no mean.
    return np.asarray(rises / np.where(weight > 0, weight, np.nan))


def _sums(counts: npt.NDArray[np.uint8], columns: Array) -> Array:
    """Return the sums over all rows and over each draw, some rows at a time."""
    total = np.zeros((1 + len(counts), columns.shape[1]))
    total[0] = columns.sum(axis=0)
    for start in range(0, len(columns), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        total[1:] += counts[:, block].astype(np.float64) @ columns[block]
    return total


def _rises_of_wholes(
    rows: PredictedRows, others: Iterable[Array], counts: npt.NDArray[np.uint8]
) -> Array:
    """Return the rises on all rows and on each draw, for a loss of all rows together."""
    drawn = [count * rows.shares for count in counts]
    shares = [rows.shares, *(each / each.sum() if each.any() else None for each in drawn)]

    def on_draws(margin: Array) -> Array:
        loss = rows.loss.at(margin)
        return np.array([np.nan if share is None else loss(share) for share in shares])

    before = on_draws(rows.margin)
    rises = [on_draws(other) - before for other in others]
    return np.array(rises).reshape(len(rises), len(shares)).T


def intervals_of_draws(value: Array, draws: Array, coverage: float) -> Intervals:
    """Return values with percentiles of draws.

    Parameters
    ----------
    value : ndarray of float64, shape (n_effects,)
        The values.
    draws : ndarray of float64, shape (n_bootstrap, n_effects)
        Those of each draw; NaN where they are not defined.
    coverage : float
        Nominal coverage of the intervals.
    """
    is_defined = np.isfinite(draws).all(axis=1)
    undefined = int(np.sum(~is_defined))
    draws = draws[is_defined]
    if len(draws) == 0:
        unknown = np.full(len(value), np.nan)
        return Intervals(value, unknown, unknown, unknown, undefined)
    tail = (1.0 - coverage) / 2
    low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    error = draws.std(axis=0, ddof=1 if len(draws) > 1 else 0)
    return Intervals(value, low, high, error, undefined)
