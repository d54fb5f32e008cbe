"""What the remainder still holds of single effects: functions that the columns cannot follow.

A fit of high R2 may miss all of an effect that is small beside the others, as the interaction
of two strongly correlated features is. Means of the remainder in cells of the rows show
it, whatever the functions of the fit.
"""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from treepurify.engines.legendre.least_squares import explained_variances
from treepurify.engines.legendre.quality import quantile_bins, worst_named
from treepurify.engines.legendre.scaling import Axis, ContinuousAxis, LevelAxis
from treepurify.errors import FitWarning
from treepurify.typing import Array, Indices

__all__ = ["left_over_variances", "warn_of_left_over"]

Subset = tuple[int, ...]

_MOST_BINS = 16
_POWERS = 3
_ROWS_A_CELL = 20
_DEVIATIONS = 4.0
_SHARE_OF_EFFECT = 0.2
_SHARE_OF_VARIANCE = 0.002


def left_over_variances(
    residual: Array,
    weights: Array,
    axes: Mapping[int, Axis],
    coordinates: Mapping[int, Array],
    subsets: Sequence[Subset],
) -> dict[Subset, Array]:
    """Return the variance of the remainder that each effect of one or two features would hold.

    That is what explains most of two: means in cells of the rows (quantiles of numbers, and
    levels), and polynomials of degree 3 of the normal scores of ranks, which follow tails; less
    what as many functions explain by chance, and for a pair less what its features alone hold.
    It is zero within four standard deviations of chance.

    Parameters
    ----------
    residual : ndarray of float64, shape (n_rows, n_outputs)
        What the components leave.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row; sums to one.
    axes : mapping of int to Axis
        The scaled features.
    coordinates : mapping of int to ndarray of float64, shape (n_rows,)
        Their values on the rows.
    subsets : sequence of tuple of int
        The effects; those of more than two features are left out.
    """
    wanted = [subset for subset in subsets if len(subset) <= 2]
    used = sorted({j for subset in wanted for j in subset})
    n_bins = int(np.clip(np.sqrt(len(weights) / _ROWS_A_CELL), 1, _MOST_BINS))
    cells = {j: _bins(axes[j], coordinates[j], n_bins) for j in used}
    powers = {
        j: _powers(coordinates[j], weights) for j in used if isinstance(axes[j], ContinuousAxis)
    }
    centred = residual - weights @ residual

    def explained(subset: Subset) -> Array:
        joint = np.zeros(len(weights), dtype=np.intp)
        for j in subset:
            joint = joint * (int(cells[j].max(initial=0)) + 1) + cells[j]
        by_cells = _between(centred, weights, joint)
        if not all(j in powers for j in subset):
            return by_cells
        functions = powers[subset[0]]
        if len(subset) == 2:
            other = powers[subset[1]]
            products = (functions[:, None] * other).reshape(-1, len(weights))
            functions = np.vstack([functions, other, products])
        return np.maximum(by_cells, _regressed(centred, weights, functions))

    alone = {j: explained((j,)) for j in used}
    return {
        s: alone[s[0]] if len(s) == 1 else np.maximum(explained(s) - alone[s[0]] - alone[s[1]], 0.0)
        for s in wanted
    }


def warn_of_left_over(
    left_over: Mapping[Subset, Array],
    variances: Mapping[Subset, Array],
    total: Array,
    names: Mapping[int, str],
) -> None:
    """Warn where the remainder holds a large share of an effect that is not negligible itself."""
    worst = []
    for subset, left in left_over.items():
        own = variances.get(subset, np.zeros_like(left))
        is_large = left > _SHARE_OF_VARIANCE * total
        share = np.where(is_large, left / np.where(is_large, left + own, 1.0), 0.0)
        if np.max(share, initial=0.0) > _SHARE_OF_EFFECT:
            worst.append((float(share.max()), subset))
    if not worst:
        return
    worst.sort(key=lambda entry: (-entry[0], entry[1]))
    named = worst_named([(" & ".join(names[j] for j in s), share) for share, s in worst])
    warnings.warn(
        f"the remainder holds a large share of the effect of {named}: the functions of the "
        'fit do not follow it. A larger degree, selection="aic", or scaling="levels" for features '
        'with jumps may; diagnostics["left_over"] has the figures.',
        FitWarning,
        stacklevel=5,
    )


def _bins(axis: Axis, coordinates: Array, n_bins: int) -> Indices:
    if isinstance(axis, LevelAxis):
        return coordinates.astype(np.intp)
    return quantile_bins(coordinates, n_bins)


def _powers(coordinates: Array, weights: Array) -> Array:
    """Return powers of the normal scores of weighted ranks, shape (3, n_rows)."""
    from scipy.special import ndtri

    _, number = np.unique(coordinates, return_inverse=True)
    mass = np.bincount(number, weights)
    rank = np.cumsum(mass) - 0.5 * mass
    # Rows without weight may come before or after all others.
    least = 0.5 * float(weights[weights > 0].min())
    score = ndtri(np.clip(rank, least, 1.0 - least))[number]
    return score ** np.arange(1, _POWERS + 1)[:, None]


def _regressed(centred: Array, weights: Array, functions: Array) -> Array:
    """Return the variance that functions explain, less what as many explain by chance."""
    shifted = functions - (functions @ weights)[:, None]
    weighted = shifted * weights
    found = explained_variances(weighted @ shifted.T, weighted @ centred)
    return _beyond_chance(found, len(functions) * float(weights @ weights), centred, weights)


def _between(centred: Array, weights: Array, cells: Indices) -> Array:
    """Return the variance of means in cells, less what chance gives them."""
    mass = np.bincount(cells, weights)
    squares = np.bincount(cells, weights**2)
    occupied = mass > 0
    by_chance = max(float(np.sum(squares[occupied] / mass[occupied]) - squares.sum()), 0.0)
    sums = np.stack([np.bincount(cells, weights * column) for column in centred.T], axis=1)
    found = np.sum(sums[occupied] ** 2 / mass[occupied, None], axis=0)
    return _beyond_chance(found, by_chance, centred, weights)


def _beyond_chance(found: Array, by_chance: float, centred: Array, weights: Array) -> Array:
    """Correct an explained variance for chance; zero where it may be nothing but chance.

    `by_chance` is the share of the variance of noise that is explained on average: the number of
    functions over that of the rows.
    """
    total = weights @ centred**2
    spread = np.sqrt(2.0 * by_chance * float(weights @ weights))
    if by_chance + _DEVIATIONS * spread >= 1.0:
        return np.zeros_like(found)
    is_found = found > (by_chance + _DEVIATIONS * spread) * total
    return np.where(is_found, (found - by_chance * total) / (1.0 - by_chance), 0.0)
