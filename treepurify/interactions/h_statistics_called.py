"""Interaction effects of a function: called on every pair of rows, as the definition says."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.engines.common.called_function import CalledFunction, read_called
from treepurify.engines.common.functions import splice
from treepurify.engines.partial_dependence.support import outside_support
from treepurify.grids.grid import Subset
from treepurify.interactions.h_statistics_effects import HEffects, Moments, moments_of_terms
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import counted_rows
from treepurify.rows.samples import sample_rows

__all__ = ["called_effects"]

Array = npt.NDArray[np.float64]

_ROWS_A_BLOCK = 128


def called_effects(
    f: Any,
    X: Any,
    order: int,
    feature_names: Sequence[str] | None,
    sample_weight: npt.ArrayLike | None,
    sample_size: int,
    seed: int,
    resampled: bool,
    memory_budget: int,
    report: ProgressReport,
) -> HEffects:
    """Return the effects of a function on a sample of the rows of `X`.

    For a bootstrap the value at every pair of rows is kept: a resample weighs them anew.
    """
    box, columns = read_called(f, X, feature_names)
    columns, weights = counted_rows(columns, sample_weight)
    sample = sample_rows(columns.n_rows, weights, sample_size, seed)
    rows, shares = columns.take(sample.picked), sample.shares
    features = range(len(box.features))
    subsets = [s for size in range(1, order + 1) for s in combinations(features, size)]
    complements = [tuple(k for k in features if k != j) for j in features]
    needed = sorted({*subsets, *complements}, key=lambda s: (len(s), s))
    kept = rows.n_rows if resampled else 1
    check_budget(
        8 * rows.n_rows * kept * box.n_outputs * len(needed),
        memory_budget,
        f"{len(needed)} partial dependence functions on {rows.n_rows} x {kept} rows",
        "Use a smaller sample_size or order, no bootstrap, or raise memory_budget.",
    )
    values: dict[Subset, Array] = {}
    for done, subset in enumerate(needed):
        report("partial dependence", done, len(needed))
        values[subset] = _values(box, rows, subset, None if resampled else shares)
    margin = box(rows)

    def moments(drawn: npt.NDArray[np.intp] | None) -> Moments:
        weight = shares
        if drawn is not None:
            weight = np.bincount(drawn, minlength=rows.n_rows) * shares
            weight = weight / weight.sum()
        dependence = {
            subset: np.einsum("z,xzk->xk", weight, table) if resampled else table[:, 0]
            for subset, table in values.items()
        }
        return _moments(dependence, margin, weight, subsets, complements)

    own = None if weights is None else shares
    extrapolation = outside_support(
        rows, rows, tuple(features), seed, weights=own, point_weights=own
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
    found = []
    for start in range(0, rows.n_rows, _ROWS_A_BLOCK):
        points = rows.take(np.arange(start, min(start + _ROWS_A_BLOCK, rows.n_rows)))
        values = box(splice(points, rows, subset)).reshape(points.n_rows, rows.n_rows, -1)
        if shares is not None:
            values = np.einsum("z,xzk->xk", shares, values)[:, None]
        found.append(values)
    return np.concatenate(found)


def _moments(
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
