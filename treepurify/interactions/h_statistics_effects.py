"""Mean squares of interaction effects over rows: what H-statistics are ratios of.

Those of a function are computed as the definition says: it is called on every pair of rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.engines.common.called_function import CalledFunction, read_called
from treepurify.engines.common.functions import splice
from treepurify.engines.common.inputs import check_order_fits
from treepurify.engines.partial_dependence.background import outside_support
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import counted_rows, mean_square
from treepurify.rows.samples import sample_rows
from treepurify.typing import Array, Indices
from treepurify.weights import Weighting

__all__ = ["HEffects", "HProblem", "Moments", "called_effects", "moments_of_terms"]

Moments = dict[Subset, tuple[Array, Array]]

_ROWS_A_BLOCK = 128
# Effects below this part of the largest margin are rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class HProblem:
    """A model, the rows that its interactions are measured on, and how; see `h_statistics`."""

    model: Any
    X: Any
    order: int
    feature_names: Sequence[str] | None
    sample_weight: npt.ArrayLike | None
    sample_size: int
    bootstrap: int
    seed: int
    weighting: Weighting
    memory_budget: int
    report: ProgressReport


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

    moments: Callable[[Indices | None], Moments]
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
        The terms, up to some number of features, that are not zero.
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
    for subset in [*pairs, *(s for s in terms if len(s) > 2)]:
        term = terms.get(subset, zero)
        sizes = range(1, len(subset) + 1)
        parts = (part for size in sizes for part in combinations(subset, size))
        joint = sum((terms[part] for part in parts if part in terms), zero)
        moments[subset] = (square(term), square(joint))
    return moments


def called_effects(problem: HProblem) -> HEffects:
    """Return the effects of a function on a sample of the rows.

    For a bootstrap the value at every pair of rows is kept: a resample weighs them anew.
    """
    box, columns = read_called(problem.model, problem.X, problem.feature_names)
    check_order_fits(problem.order, len(box.features))
    columns, weights = counted_rows(columns, problem.sample_weight)
    sample = sample_rows(columns.n_rows, weights, problem.sample_size, problem.seed)
    rows, shares = columns.take(sample.picked), sample.shares
    resampled = problem.bootstrap > 0
    features = range(len(box.features))
    subsets = [s for size in range(1, problem.order + 1) for s in combinations(features, size)]
    complements = [tuple(k for k in features if k != j) for j in features]
    needed = sorted({*subsets, *complements}, key=lambda s: (len(s), s))
    kept = rows.n_rows if resampled else 1
    check_budget(
        8 * rows.n_rows * kept * box.n_outputs * len(needed),
        problem.memory_budget,
        f"{len(needed)} partial dependence functions on {rows.n_rows} x {kept} rows",
        "Use a smaller sample_size or order, or no bootstrap.",
    )
    values: dict[Subset, Array] = {}
    for done, subset in enumerate(needed):
        problem.report("partial dependence", done, len(needed))
        values[subset] = _values(box, rows, subset, None if resampled else shares)
    margin = box(rows)

    def moments(drawn: Indices | None) -> Moments:
        weight = shares
        if drawn is not None:
            weight = np.bincount(drawn, minlength=rows.n_rows) * shares
            weight = weight / weight.sum()
        dependence = {
            subset: np.einsum("z,xzk->xk", weight, table) if resampled else table[:, 0]
            for subset, table in values.items()
        }
        return _moments_of_dependence(dependence, margin, weight, subsets, complements)

    drawn_weights = None if weights is None else shares
    extrapolation = outside_support(
        rows,
        rows,
        tuple(features),
        problem.seed,
        weights=drawn_weights,
        point_weights=drawn_weights,
    )
    return HEffects(
        moments,
        rows.n_rows,
        tuple(spec.name for spec in box.features),
        box.output_names,
        f"interventional (partial dependence over {rows.n_rows} of {columns.n_rows} rows, "
        f"{extrapolation['share']:.0%} of its points outside their joint support)",
        {
            "exact": rows.n_rows == columns.n_rows,
            "rows": rows.n_rows,
            "extrapolation": extrapolation,
        },
    )


def _values(box: CalledFunction, rows: Columns, subset: Subset, shares: Array | None) -> Array:
    """Return the function for every point and background row, or its mean over the latter."""
    blocks = []
    for start in range(0, rows.n_rows, _ROWS_A_BLOCK):
        points = rows.take(np.arange(start, min(start + _ROWS_A_BLOCK, rows.n_rows)))
        values = box(splice(points, rows, subset)).reshape(points.n_rows, rows.n_rows, -1)
        if shares is not None:
            values = np.einsum("z,xzk->xk", shares, values)[:, None]
        blocks.append(values)
    return np.concatenate(blocks)


def _moments_of_dependence(
    dependence: dict[Subset, Array],
    margin: Array,
    shares: Array,
    subsets: list[Subset],
    complements: list[Subset],
) -> Moments:
    terms: dict[Subset, Array] = {}
    # Constants drop out of every mean square about the mean, so the empty part is left out.
    for subset in subsets:
        lower = (part for r in range(1, len(subset)) for part in combinations(subset, r))
        terms[subset] = dependence[subset] - sum(
            (terms[part] for part in lower), np.zeros_like(margin)
        )
    without = {
        j: margin - dependence[(j,)] - dependence[others] for j, others in enumerate(complements)
    }
    pairs = [subset for subset in subsets if len(subset) == 2]
    return moments_of_terms(terms, without, margin, shares, pairs)
