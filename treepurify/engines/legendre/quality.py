"""How well the components reproduce the function, and how orthogonal they are on the rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from treepurify.engines.common.finish import Evidence
from treepurify.engines.legendre.design import centred_values
from treepurify.purification.purity import Purity
from treepurify.rows.numeric_cells import numeric_cells
from treepurify.typing import Array, Indices

__all__ = [
    "Quality",
    "evidence_of",
    "largest_conditional_mean",
    "measure_quality",
    "nested_cosines",
    "quantile_bins",
    "worst_named",
]

Subset = tuple[int, ...]

_SHARE_OF_VARIANCE = 0.01
_ROUNDING = 1e-9
_BINS = 16
_MOST_NAMED = 6


@dataclass(frozen=True, eq=False)
class Quality:
    """Figures of a fit, measured on its rows with the components as they will be evaluated.

    Parameters
    ----------
    r_squared : ndarray of float64, shape (n_outputs,)
        Share of the variance that the sum of the components explains.
    max_correlation : ndarray of float64, shape (n_outputs,)
        Largest absolute cosine between a component of at least 1 % of the variance and one
        of fewer of its features (Ferrere et al., continuous closed form, equation 94).
    cosines : list of dict
        Every pair of nested components: ``term``, ``inside`` (subsets) and ``cosine``, the
        largest in absolute value over the outputs (equation 97); ``inside`` is empty for the
        constant (equation 96).
    conditional_mean : float
        Largest absolute mean of a component of several features in a bin of one of them.
    residual : ndarray of float64, shape (n_rows, n_outputs)
        What the components leave.
    covariances : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each component with the function, and of the residual under ``()``.
    """

    r_squared: Array
    max_correlation: Array
    cosines: list[dict[str, Any]]
    conditional_mean: float
    residual: Array
    covariances: dict[Subset, Array]


def measure_quality(
    values: Array,
    weights: Array,
    parts: Mapping[Subset, Array],
    coordinates: Mapping[int, Array],
) -> Quality:
    """Return the figures for components given on the rows, shape (n_rows, n_outputs) each."""
    _, centred = centred_values(values, weights)
    variance = weights @ centred**2
    residual = centred.copy()
    for part in parts.values():
        residual -= part
    safe = np.where(variance > 0, variance, 1.0)
    explained = np.where(variance > 0, 1.0 - (weights @ residual**2) / safe, 1.0)

    def product(subset: Subset, inside: Subset) -> Array:
        of_inside = parts[inside] if inside else np.ones_like(parts[subset])
        return np.asarray(weights @ (parts[subset] * of_inside))

    scale = np.abs(values).max(axis=0, initial=0.0)
    worst, cosines = nested_cosines(list(parts), product, variance, scale)
    covariances = {s: np.asarray(weights @ (part * centred)) for s, part in parts.items()}
    covariances[()] = np.asarray(weights @ (residual * centred))
    means = largest_conditional_mean(parts, weights, coordinates)
    return Quality(np.asarray(explained), worst, cosines, means, residual, covariances)


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
    scale: float,
    n_rows: int,
    quality: Quality,
    solver_error: float,
    unidentified: int,
    fit_unidentified: int,
) -> Evidence:
    """Return what the certificate is made of, relative to the largest value of the function."""
    safe = scale or 1.0
    nested = [abs(entry["cosine"]) for entry in quality.cosines if entry["inside"]]
    products = [entry["inner_product"] for entry in quality.cosines if entry["inside"]]
    return Evidence(
        scale,
        purity=Purity(
            quality.conditional_mean / safe,
            max(products, default=0.0) / safe**2,
            max(nested, default=0.0),
        ),
        checked_rows=n_rows,
        unidentified=unidentified,
        fit_unidentified=fit_unidentified,
        solver_error=solver_error,
        fitted_share=quality.r_squared,
        converged=solver_error < 1e-8,
        note=(
            "Inner products are means over the rows. Conditional means are those in "
            f"{_BINS} quantile bins of one feature: a component is orthogonal to the functions "
            "of the fit, not to every function, so they need not vanish."
        ),
    )


def _inside(subset: Subset, parts: Mapping[Subset, Array]) -> list[Subset]:
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
                bins[j] = quantile_bins(coordinates[j], _BINS)
            mass = np.bincount(bins[j], weights)
            for k in range(part.shape[1]):
                sums = np.bincount(bins[j], weights * part[:, k])
                means = sums[mass > 0] / mass[mass > 0]
                worst = max(worst, float(np.abs(means).max(initial=0.0)))
    return worst


def quantile_bins(coordinates: Array, n_bins: int) -> Indices:
    """Return the bin of each row; equal values share one."""
    known = coordinates[~np.isnan(coordinates)]
    edges = np.unique(np.quantile(known, np.linspace(0, 1, n_bins + 1)[1:-1]))
    return numeric_cells(coordinates, edges)


def worst_named(shares: Sequence[tuple[str, float]]) -> str:
    """Return the first names with their shares, and how many more there are, for a warning."""
    named = ", ".join(f"{name} ({share:.0%})" for name, share in shares[:_MOST_NAMED])
    return named + (f" and {len(shares) - _MOST_NAMED} more" if len(shares) > _MOST_NAMED else "")
