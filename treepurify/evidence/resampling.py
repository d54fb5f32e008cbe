"""Intervals of a mean over rows, by drawing the rows again."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.evidence.losses import Loss
from treepurify.typing import Array

__all__ = ["Intervals", "draw_counts", "intervals_of_draws", "mean_rises", "resample", "rise_sums"]

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
    loss: Loss,
    margin: Array,
    others: Iterator[Array],
    shares: Array,
    counts: npt.NDArray[np.uint8],
    coverage: float,
) -> Intervals:
    """Return by how much the loss of other margins is above that of one, with intervals.

    Parameters
    ----------
    loss : Loss
        The loss.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        The margin that others are compared with, on the same draws of the rows.
    others : iterator of ndarray of float64, shape (n_rows, n_outputs)
        Other margins.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    counts : ndarray of uint8, shape (n_bootstrap, n_rows)
        How often each row was drawn.
    coverage : float
        Nominal coverage of the intervals.
    """
    if loss.of_rows is None:
        value, draws = _rises_of_wholes(loss, margin, others, shares, counts)
    else:
        rises = mean_rises(rise_sums(loss.of_rows, margin, others, shares, counts))
        value, draws = rises[0], rises[1:]
    return intervals_of_draws(value, draws, coverage)


def rise_sums(
    of_rows: Callable[[Array], Array],
    margin: Array,
    others: Iterable[Array],
    weights: Array,
    counts: npt.NDArray[np.uint8] | Array,
) -> Array:
    """Return sums over rows, as they are and drawn again, for a loss that is a mean over rows.

    Parameters
    ----------
    of_rows : callable
        The loss of each row, from the margins.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        The margin that others are compared with.
    others : iterable of ndarray of float64, shape (n_rows, n_outputs)
        Other margins.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row.
    counts : ndarray of uint8 or float64, shape (n_bootstrap, n_rows)
        How often each row was drawn.

    Returns
    -------
    ndarray of float64, shape (1 + n_bootstrap, 2 + n_others)
        Of the weights, of the loss, and of its rises: of all rows, and of each draw. The sums of
        several parts of the rows add up.
    """
    before = of_rows(margin)
    columns = chain((np.ones_like(before), before), (of_rows(other) - before for other in others))
    sums: list[Array] = []
    while some := list(islice(columns, _EFFECTS_AT_ONCE)):
        weighted = np.stack(some, axis=1)
        weighted *= weights[:, None]
        sums.append(np.concatenate([weighted.sum(axis=0)[None], _weighed(counts, weighted)]))
    return np.concatenate(sums, axis=1)


def mean_rises(sums: Array) -> Array:
    """Return the mean rises of all rows, and of each draw, shape (1 + n_bootstrap, n_others).

    They are NaN where the rows that were drawn weigh nothing.

    Parameters
    ----------
    sums : ndarray of float64, shape (1 + n_bootstrap, 2 + n_others)
        What `rise_sums` returns.
    """
    weight = sums[:, :1]
    return np.asarray(sums[:, 2:] / np.where(weight > 0, weight, np.nan))


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


def _weighed(counts: npt.NDArray[np.uint8] | Array, columns: Array) -> Array:
    """Return ``counts @ columns``, some rows at a time: they are small whole numbers."""
    total = np.zeros((len(counts), columns.shape[1]))
    for start in range(0, len(columns), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        total += counts[:, block].astype(np.float64) @ columns[block]
    return total


def _rises_of_wholes(
    loss: Loss,
    margin: Array,
    others: Iterator[Array],
    shares: Array,
    counts: npt.NDArray[np.uint8],
) -> tuple[Array, Array]:
    drawn = [_drawn_shares(count, shares) for count in counts]

    def on_draws(of_shares: Callable[[Array], float]) -> Array:
        return np.array([np.nan if share is None else of_shares(share) for share in drawn])

    at_margin = loss.at(margin)
    before = on_draws(at_margin)
    whole = at_margin(shares)
    values, draws = [], []
    for other in others:
        at_other = loss.at(other)
        values.append(at_other(shares) - whole)
        draws.append(on_draws(at_other) - before)
    return np.array(values), np.array(draws).reshape(len(values), len(counts)).T


def _drawn_shares(count: npt.NDArray[np.uint8], shares: Array) -> Array | None:
    """Return the shares of drawn rows; None where they weigh nothing."""
    drawn = count * shares
    total = drawn.sum()
    return np.asarray(drawn / total) if total > 0 else None
