"""How well the components reproduce the function, and how orthogonal they are on the rows.

A fit of high R2 may miss all of an effect that is small compared with the others, as the
interaction of two strongly correlated features is. Means of the remainder in cells of the rows show
it, whatever the functions of the fit.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from treepurify.certificate import Certificate
from treepurify.engines.legendre.least_squares import explained_variances
from treepurify.engines.legendre.moments import Moments
from treepurify.engines.legendre.scaling import Axis, ContinuousAxis, LevelAxis
from treepurify.errors import FitWarning
from treepurify.grids.grid import Subset
from treepurify.moments import moments_of_parts
from treepurify.rows.columns import numeric_cells
from treepurify.terms import term_name
from treepurify.typing import Array, Indices

_SHARE_OF_VARIANCE = 0.01
_ROUNDING = 1e-9
_BINS = 16
_MOST_NAMED = 6
# Cells and powers in which the remainder is searched, and what is reported of it.
_MOST_BINS = 16
_POWERS = 3
_ROWS_A_CELL = 20
_DEVIATIONS = 4.0
_MISSED_SHARE_OF_EFFECT = 0.2
_MISSED_SHARE_OF_VARIANCE = 0.002


@dataclass(frozen=True, eq=False)
class Quality:
    """Figures of a fit, measured on the rows.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    scale : float
        Largest absolute value of the function.
    r_squared : ndarray of float64, shape (n_outputs,)
        Share of the variance that the sum of the components explains.
    max_correlation : ndarray of float64, shape (n_outputs,)
        Largest absolute cosine between a component of at least 1% of the variance and one
        of fewer of its features (Ferrere et al., continuous closed form, equation 94).
    cosines : list of dict
        Every pair of nested components: ``term``, ``inside`` (subsets) and ``cosine``, the
        largest in absolute value over the outputs (equation 97); ``inside`` is empty for the
        constant (equation 96).
    covariances : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each component with the function, and of what they leave under ``()``.
    variances, mean_absolutes : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        Variance, and mean absolute value, of each component; the variance of what they leave
        under ``()``.
    solver_error : float
        Largest correlation left between what the components leave and the fitted function, one
        of the directions that were fitted.
    """

    n_rows: int
    scale: float
    r_squared: Array
    max_correlation: Array
    cosines: list[dict[str, Any]]
    covariances: dict[Subset, Array]
    variances: dict[Subset, Array]
    mean_absolutes: dict[Subset, Array]
    solver_error: float


def measured_quality(
    parts: Mapping[Subset, Array], values: Array, weights: Array, of_function: Moments
) -> Quality:
    """Return the figures of components.

    Parameters
    ----------
    parts : mapping of tuple of int to ndarray of float64, shape (n_rows, n_outputs)
        The components on the rows.
    values : ndarray of float64, shape (n_rows, n_outputs)
        The function.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row; sums to one.
    of_function : Moments
        Mean and variance of the function.
    """
    variance = of_function.value_squares
    # A function that differs by rounding only is constant.
    centred = np.where(variance > 0, values - of_function.value_means, 0.0)
    residual = centred.copy()
    for part in parts.values():
        residual -= part
    moments = moments_of_parts([*parts.values(), residual], centred, weights)
    means, squares = (dict(zip(parts, of, strict=False)) for of in (moments.parts, moments.squares))

    def product(subset: Subset, inside: Subset) -> Array:
        if subset == inside:
            return np.asarray(squares[subset])
        if not inside:
            return np.asarray(means[subset])
        return np.asarray(weights @ (parts[subset] * parts[inside]))

    largest = np.abs(values).max(axis=0, initial=0.0)
    worst, cosines = nested_cosines(list(parts), product, variance, largest)
    safe = np.where(variance > 0, variance, 1.0)
    named = [*parts, ()]
    return Quality(
        n_rows=moments.n_rows,
        scale=float(largest.max(initial=0.0)),
        r_squared=np.where(variance > 0, 1.0 - moments.mean_squares[-1] / safe, 1.0),
        max_correlation=worst,
        cosines=cosines,
        covariances=dict(zip(named, moments.covariances, strict=True)),
        variances=dict(zip(named, moments.variances, strict=True)),
        mean_absolutes=dict(zip(parts, moments.mean_absolutes, strict=False)),
        # At the least squares solution the covariance of residual and function is its variance.
        solver_error=float(
            np.max(np.abs(moments.covariances[-1] - moments.variances[-1]) / safe, initial=0.0)
        ),
    )


def nested_cosines(
    subsets: Sequence[Subset],
    product: Callable[[Subset, Subset], Array],
    variance: Array,
    scale: Array,
) -> tuple[Array, list[dict[str, Any]]]:
    """Return the largest cosine of large components by output, and those of all nested pairs.

    Parameters
    ----------
    subsets : sequence of tuple of int
        The components.
    product : callable
        Returns the inner product of two of them; with the constant for an empty subset.
    variance, scale : ndarray of float64, shape (n_outputs,)
        Variance and largest absolute value of the function.
    """
    norms = {subset: np.sqrt(np.maximum(product(subset, subset), 0.0)) for subset in subsets}
    worst = np.zeros(len(variance))
    cosines = []
    for subset in subsets:
        # A component this small is what rounding left of columns that cancelled.
        size = np.where(norms[subset] > _ROUNDING * scale, norms[subset], np.inf)
        cosines.append(_entry(subset, (), product(subset, ()), size))
        is_large = norms[subset] ** 2 >= _SHARE_OF_VARIANCE * variance
        for inside in _inside(subset, norms):
            other = np.where(norms[inside] > _ROUNDING * scale, norms[inside], np.inf)
            inner = product(subset, inside)
            cosines.append(_entry(subset, inside, inner, size * other))
            cosine = np.abs(inner / (size * other))
            worst = np.where(is_large, np.maximum(worst, cosine), worst)
    return worst, cosines


def evidence_of(
    quality: Quality, conditional_mean: float, unidentified: int, fit_unidentified: int
) -> Certificate:
    """Return what the certificate is made of, relative to the largest value of the function.

    Parameters
    ----------
    quality : Quality
        The figures of the fit.
    conditional_mean : float
        Largest absolute mean of a component of several features in a bin of one of them.
    unidentified, fit_unidentified : int
        Functions that can move between components, and other directions that rows leave open.
    """
    safe = quality.scale or 1.0
    nested = [abs(entry["cosine"]) for entry in quality.cosines if entry["inside"]]
    return Certificate(
        quality.scale,
        conditional_mean=conditional_mean / safe,
        cosine=max(nested, default=0.0),
        unidentified=unidentified,
        fit_unidentified=fit_unidentified,
        solver_error=quality.solver_error,
        fitted_share=tuple(quality.r_squared.tolist()),
        note=(
            "Inner products are means over the rows. Conditional means are taken in "
            f"{_BINS} quantile bins of one feature; they need not be zero, since an effect is "
            "orthogonal to the functions of the fit, not to every function."
        ),
    )


def _inside(subset: Subset, parts: Mapping[Subset, Any]) -> list[Subset]:
    every = (part for size in range(1, len(subset)) for part in combinations(subset, size))
    return [part for part in every if part in parts]


def _entry(subset: Subset, inside: Subset, product: Array, size: Array) -> dict[str, Any]:
    cosine = product / size
    return {
        "term": subset,
        "inside": inside,
        "cosine": float(cosine[np.argmax(np.abs(cosine))]),
        "inner_product": float(np.abs(product).max()),
    }


def largest_conditional_mean(
    parts: Mapping[Subset, Array], weights: Array, coordinates: Mapping[int, Array]
) -> float:
    """Return the largest absolute mean of a component of several features in a bin of one."""
    bins: dict[int, Indices] = {}
    worst = 0.0
    for subset, part in parts.items():
        for j in subset if len(subset) > 1 else ():
            if j not in bins:
                bins[j] = _quantile_bins(coordinates[j], _BINS)
            mass = np.bincount(bins[j], weights)
            for k in range(part.shape[1]):
                sums = np.bincount(bins[j], weights * part[:, k])
                means = sums[mass > 0] / mass[mass > 0]
                worst = max(worst, float(np.abs(means).max(initial=0.0)))
    return worst


def _quantile_bins(coordinates: Array, n_bins: int) -> Indices:
    """Return the bin of each row; equal values share one."""
    present = coordinates[~np.isnan(coordinates)]
    edges = np.unique(np.quantile(present, np.linspace(0, 1, n_bins + 1)[1:-1]))
    return numeric_cells(coordinates, edges)


def worst_named(shares: Sequence[tuple[str, float]]) -> str:
    """Return the first names with their shares, and how many more there are, for a warning."""
    named = ", ".join(f"{name} ({share:.0%})" for name, share in shares[:_MOST_NAMED])
    return named + (f" and {len(shares) - _MOST_NAMED} more" if len(shares) > _MOST_NAMED else "")


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
        fitted = variances.get(subset, np.zeros_like(left))
        is_large = left > _MISSED_SHARE_OF_VARIANCE * total
        share = np.where(is_large, left / np.where(is_large, left + fitted, 1.0), 0.0)
        if np.max(share, initial=0.0) > _MISSED_SHARE_OF_EFFECT:
            worst.append((float(share.max()), subset))
    if not worst:
        return
    worst.sort(key=lambda entry: (-entry[0], entry[1]))
    named = worst_named([(term_name(names[j] for j in s), share) for share, s in worst])
    warnings.warn(
        f"the remainder contains a large share of the effect of {named}: the fit cannot follow "
        'it. A larger degree, selection="aic", or scaling="levels" for features with jumps may '
        'help; diagnostics["left_over"] has the figures.',
        FitWarning,
        stacklevel=5,
    )


def _bins(axis: Axis, coordinates: Array, n_bins: int) -> Indices:
    if isinstance(axis, LevelAxis):
        return coordinates.astype(np.intp)
    return _quantile_bins(coordinates, n_bins)


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
