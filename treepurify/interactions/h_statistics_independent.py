"""The purified counterpart of H-statistics: shares of variance under independent features."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from treepurify.effects.conditional import conditional_tensors, entry_probabilities
from treepurify.engines.tree.closed_form import centred
from treepurify.engines.tree.independent_leaves import independent_leaves
from treepurify.engines.tree.purify import purify
from treepurify.engines.tree.second_moments import MOST_PAIRS, leaf_indices
from treepurify.grids.grid import Subset
from treepurify.interactions.h_statistics_effects import HProblem
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.reduction import rows_in_memory
from treepurify.rows.row_weights import read_row_weights
from treepurify.typing import Array
from treepurify.weights.weighting import outer_product

__all__ = ["independent_shares"]

# The variance of each component, of the model, and of all components with a feature; facts.
_Variances = tuple[dict[Subset, Array], Array, list[Array], dict[str, Any]]


def independent_shares(
    problem: HProblem, parsed: Model
) -> tuple[Mapping[Subset, Array], dict[str, Any]]:
    """Return the share of variance of each interaction when features are independent.

    Components are then uncorrelated, so every ratio of an H-statistic becomes a sum of their
    variances over another that contains it: it lies between 0 and 1.

    Returns
    -------
    shares : mapping of tuple of int to ndarray, shape (n_outputs,)
        By subset; that of all interactions together under the empty one.
    facts : dict
        How the variances that the shares are parts of were computed, and their errors.
    """
    problem.report("purifying under independent features", 0, 0)
    if isinstance(parsed, TreeEnsemble):
        variances = _of_ensemble(problem, parsed)
    else:
        variances = _of_tables(problem, parsed)
    variance, whole, containing, facts = variances
    n_features = parsed.n_features
    zero = np.zeros(parsed.n_outputs)
    mains = [variance.get((j,), zero) for j in range(n_features)]
    shares: dict[Subset, Array] = {(): _share(whole - sum(mains, zero), whole)}
    for j in range(n_features):
        shares[(j,)] = _share(containing[j] - mains[j], whole)
    larger = [s for s in variance if len(s) > 2]
    for subset in [*combinations(range(n_features), 2), *larger]:
        parts = (part for r in range(1, len(subset) + 1) for part in combinations(subset, r))
        joint = sum((variance[part] for part in parts if part in variance), zero)
        shares[subset] = _share(variance.get(subset, zero), joint)
    return shares, facts


def _of_tables(problem: HProblem, parsed: AdditiveTables) -> _Variances:
    """Return the variance of each component, of the model, and of all that contain a feature."""
    d = purify(
        parsed,
        problem.X,
        weights=problem.weighting,
        order=None,
        sample_weight=problem.sample_weight,
        memory_budget=problem.memory_budget,
        progress=False,
    )
    variance = {subset: component.variance for subset, component in d.components.items()}
    zero = np.zeros(d.n_outputs)
    containing = [
        sum((v for s, v in variance.items() if j in s), zero) for j in range(parsed.n_features)
    ]
    return (
        variance,
        sum(variance.values(), zero),
        containing,
        {"measure": d.measure, "method": "components"},
    )


def _of_ensemble(problem: HProblem, parsed: TreeEnsemble) -> _Variances:
    """Return the same for an ensemble: components of low order, and its interaction indices."""
    columns = parsed.columns(problem.X)
    weights = read_row_weights(problem.sample_weight, columns.n_rows)
    rows = rows_in_memory(columns, weights)
    leaves = independent_leaves(parsed, rows, problem.weighting, problem.report)
    boxes, grid, margins = leaves.boxes, leaves.grid, leaves.margins
    probability = entry_probabilities(boxes, margins, grid)
    variance = {}
    for size in range(1, problem.order + 1):
        tensors = conditional_tensors(
            boxes, probability, grid, size, parsed.n_outputs, problem.memory_budget
        )
        for subset, values in tensors.items():
            subset_margins = [margins[j] for j in subset]
            pure = centred(values, subset_margins)
            variance[subset] = np.tensordot(
                outer_product(subset_margins), pure**2, axes=len(subset)
            )
    indices = leaf_indices(
        leaves,
        problem.weighting.describe(),
        most_pairs=MOST_PAIRS,
        seed=0,
        report=problem.report,
        memory_budget=problem.memory_budget,
    )
    facts = {
        "measure": indices.measure,
        "method": indices.method,
        "sampled_rows": indices.sampled_rows,
        "variance_standard_error": indices.variance_standard_error.tolist(),
        "feature_standard_error": indices.feature_standard_error.tolist(),
    }
    return variance, indices.variance, list(indices.feature_total.T), facts


def _share(part: Array, whole: Array) -> Array:
    """Return the ratio, kept from leaving [0, 1] by rounding; zero over zero."""
    ratio = part / np.where(whole > 0, whole, 1.0)
    return np.clip(np.where(whole > 0, ratio, 0.0), 0.0, 1.0)
