"""Mean squares of centred effects over weighted rows: what every H-statistic is a ratio of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.grids.grid import Subset
from treepurify.rows.row_weights import mean_square

__all__ = ["HEffects", "Moments", "moments_of_terms"]

Array = npt.NDArray[np.float64]
Moments = dict[Subset, tuple[Array, Array]]

# Effects below this part of the largest margin are rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class HEffects:
    """A model whose interaction effects can be squared and averaged over rows.

    Parameters
    ----------
    moments : callable
        Positions of the rows of a resample, each of which counts with its weight as often as
        it stands there, or None for the rows themselves, to numerator and denominator by
        subset.
    n_rows : int
        Number of rows with weight, which resamples are drawn from.
    feature_names, output_names : tuple of str
        Names.
    measure : str
        What partial dependence is averaged over.
    diagnostics : dict
        How it is computed.
    """

    moments: Callable[[npt.NDArray[np.intp] | None], Moments]
    n_rows: int
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    measure: str
    diagnostics: Mapping[str, Any]


def moments_of_terms(
    terms: Mapping[Subset, Array],
    without: Mapping[int, Array],
    margin: Array,
    shares: Array,
    pairs: Iterable[Subset],
) -> Moments:
    """Return numerators and denominators from the terms on the rows.

    Parameters
    ----------
    terms : mapping of tuple of int to ndarray, shape (n_rows, n_outputs)
        The terms of one, two and three features that are not zero.
    without : mapping of int to ndarray, shape (n_rows, n_outputs)
        Sum of all terms of two or more features that contain the feature.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        The model.
    shares : ndarray of float64, shape (n_rows,)
        Weights that sum to one.
    pairs : iterable of tuple of int
        All pairs that are reported.
    """
    zero = np.zeros_like(margin)
    rounding = (_ROUNDING * np.max(np.abs(margin), axis=0, initial=0.0)) ** 2

    def square(values: Array) -> Array:
        mean = mean_square(values, shares)
        return np.where(mean > rounding, mean, 0.0)

    variance = square(margin)
    mains = sum((values for s, values in terms.items() if len(s) == 1), zero)
    moments: Moments = {(): (square(margin - mains), variance)}
    for j, values in without.items():
        moments[(j,)] = (square(values), variance)
    for pair in [*pairs, *(s for s in terms if len(s) == 3)]:
        term = terms.get(pair, zero)
        parts = (part for size in (1, 2, 3) for part in combinations(pair, size))
        joint = sum((terms[part] for part in parts if part in terms), zero)
        moments[pair] = (square(term), square(joint))
    return moments
