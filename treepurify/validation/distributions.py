"""How far two samples of one number, or of labels, lie from each other."""

from dataclasses import dataclass

import numpy as np

from treepurify.rows.row_weights import RowWeights, effective_rows, row_quantiles
from treepurify.typing import Array, Indices

__all__ = ["DistributionShift", "equal_but_for_rounding", "level_shift", "number_shift"]

# What each bin holds beyond its rows, so that an empty one does not make the index infinite.
_PRIOR = 0.5
# Sums of effects differ by this part of the largest where rows have one prediction.
_ROUNDING = 1e-12
# How often the index of two samples of one distribution exceeds its limit.
_RATE = 0.05


@dataclass(frozen=True)
class DistributionShift:
    """Change of the distribution of a numeric variable or of labels.

    Parameters
    ----------
    psi : float
        Population stability index: the sum over bins of ``(a - b) log(a / b)``, where b and a are
        the shares of rows before and after. Bins end at quantiles of the rows before; labels and
        missing values are bins of their own.
    psi_limit : float
        The 95% quantile of the index if the distribution did not change, by the chi-squared
        approximation.
    wasserstein : float
        Wasserstein distance: the mean distance by which values must be moved to turn the
        distribution before into the one after, in the units of the variable; missing values are
        left out. NaN for labels.
    """

    psi: float
    psi_limit: float
    wasserstein: float = np.nan

    @property
    def is_clear(self) -> bool:
        """Whether the index is above its limit."""
        return self.psi > self.psi_limit


def number_shift(
    before: Array,
    after: Array,
    before_weights: RowWeights,
    after_weights: RowWeights,
    n_bins: int,
) -> DistributionShift:
    """Return the shift of numbers (n_rows,), of which NaN are missing.

    Parameters
    ----------
    before, after : ndarray of float64, shape (n_before,) and (n_after,)
        The numbers.
    before_weights, after_weights : ndarray of float64, optional
        Weights of the rows, in any unit.
    n_bins : int
        Number of bins, each with as much of the rows before as the others; fewer where values are
        shared by many rows.

    Examples
    --------
    >>> number_shift(np.arange(9.0), np.arange(9.0) + 2, None, None, 3).wasserstein
    2.0
    """
    from scipy.stats import wasserstein_distance

    there = [np.isfinite(values) for values in (before, after)]
    weights = [
        None if weight is None else weight[known]
        for weight, known in zip((before_weights, after_weights), there, strict=True)
    ]
    if not (there[0].any() and there[1].any()):
        edges = np.empty(0)
    else:
        known = before[there[0]]
        probabilities = np.arange(1, n_bins) / n_bins
        edges = np.unique(row_quantiles(known, weights[0], probabilities))
    # A value that many rows share ends its bin, so that what lies above it is another bin.
    codes = [
        np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))
        for values in (before, after)
    ]
    shift = level_shift(codes[0], codes[1], before_weights, after_weights)
    if not len(edges):
        return shift
    distance = float(wasserstein_distance(known, after[there[1]], *weights))
    return DistributionShift(shift.psi, shift.psi_limit, distance)


def equal_but_for_rounding(first: Array, second: Array) -> tuple[Array, Array]:
    """Return numbers of two samples, each replaced by the smallest that rounding explains.

    Sums of effects of rows with one prediction differ by rounding, and bins must not part them.

    Examples
    --------
    >>> first, second = equal_but_for_rounding(np.array([0.3, 1.0]), np.array([0.1 + 0.2]))
    >>> bool(first[0] == second[0])
    True
    """
    together = np.concatenate([first, second])
    order = np.argsort(together, kind="stable")
    ranked = together[order]
    is_new = ~(np.diff(ranked, prepend=-np.inf) <= _ROUNDING * np.abs(ranked).max(initial=0.0))
    together[order] = ranked[is_new][np.cumsum(is_new) - 1]
    return together[: len(first)], together[len(first) :]


def level_shift(
    before: Indices, after: Indices, before_weights: RowWeights, after_weights: RowWeights
) -> DistributionShift:
    """Return the shift of labels (n_rows,), as codes from 0; see `number_shift`.

    Examples
    --------
    >>> level_shift(np.array([0, 1]), np.array([0, 1]), None, None).psi
    0.0
    """
    from scipy.special import chdtri

    n_levels = 1 + int(max(before.max(initial=0), after.max(initial=0)))
    sizes = [
        effective_rows(len(before), before_weights),
        effective_rows(len(after), after_weights),
    ]
    counts = np.stack(
        [
            np.bincount(codes, weights, minlength=n_levels)
            for codes, weights in ((before, before_weights), (after, after_weights))
        ]
    )
    counts = counts[:, counts.sum(axis=0) > 0]
    shares = counts / counts.sum(axis=1, keepdims=True)
    smoothed = shares * np.array(sizes)[:, None] + _PRIOR
    smoothed /= smoothed.sum(axis=1, keepdims=True)
    b, a = smoothed
    freedom = len(b) - 1
    limit = float(chdtri(freedom, _RATE)) * sum(1 / size for size in sizes) if freedom else 0.0
    return DistributionShift(float(((a - b) * np.log(a / b)).sum()), limit)
