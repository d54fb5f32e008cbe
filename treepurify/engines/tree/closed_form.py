"""The closed form as a route: the functional ANOVA of leaf boxes under independent features."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.conditional import evaluate_boxes
from treepurify._kernels.leaf_pairs import component_variance
from treepurify.components import Component, OnRows, TensorComponent, locate_on_grid
from treepurify.effects.conditional import (
    conditional_tensors,
    entry_probabilities,
    feature_margins,
    occurring_subsets,
    run_masses,
)
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.engines.common.finish import Evidence, Result, Unexplained, table_components
from treepurify.engines.common.problem import KeptTerms, Problem, check_memory
from treepurify.engines.tree.independent_leaves import IndependentLeaves, output_values
from treepurify.engines.tree.second_moments import exact_work, leaf_indices
from treepurify.errors import MemoryBudgetError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, Subset
from treepurify.progress import progress_report
from treepurify.purification.cascade import Purified
from treepurify.rows.columns import Columns
from treepurify.terms import effect_title
from treepurify.typing import Array
from treepurify.weights.weighting import outer_product

__all__ = ["BoxComponent", "centred", "purify_by_closed_form"]

_TABLE_ORDER = 2
# Pairs of leaves whose second moments are summed within a purification: about a second.
_MOST_PAIRS = 200_000_000
_DRAWS = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class BoxComponent(OnRows):
    """The sum over leaves of ``v * prod_{i in S} (1_i - p_i) * prod_{j not in S} p_j``.

    It needs no table over the cells of its features, so there is one for every subset that
    occurs on a path, at any order.

    Parameters
    ----------
    features : tuple of int
        Positions of the features S, increasing.
    grid : Grid
        The union grid.
    boxes : LeafBoxes
        The leaves of the ensemble.
    probability : ndarray of float64
        Probability of each entry of `boxes`.
    variance : ndarray of float64, shape (n_outputs,)
        Variance under the measure.
    """

    features: Subset
    grid: Grid
    boxes: LeafBoxes
    probability: Array
    variance: Array

    def __repr__(self) -> str:
        """Return the features."""
        return effect_title(self.grid.axes[j].name for j in self.features)

    @property
    def axes(self) -> tuple[FeatureAxis, ...]:
        """The axis of each feature."""
        return self.grid.subset_axes(self.features)

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs)."""
        return self.on_cells(locate_on_grid(X, self.grid, self.features))

    def on_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in cells (n_features, n_rows), shape (n_rows, n_outputs)."""
        total = np.zeros((len(self.variance), cells.shape[1]))
        boxes = self.boxes
        evaluate_boxes(
            np.ascontiguousarray(cells, dtype=np.int32),
            np.array(self.features, dtype=np.int64),
            boxes.leaves_with(self.features),
            boxes.entry_ptr,
            boxes.entry_feature,
            self.probability,
            boxes.run_ptr,
            boxes.run_start,
            boxes.run_stop,
            boxes.values,
            boxes.output,
            total,
        )
        return total.T


def purify_by_closed_form(problem: Problem) -> Result:
    """Return the components of an ensemble of any depth under independent features.

    Components of one and two features are tables on the union grid. Larger ones, where they
    are kept, are tables if those fit the memory budget, else sums over leaf boxes that
    are evaluated row by row. All other effects are the remainder, the model minus the
    components; `Decomposition.__getitem__` finds any component in it.
    """
    margins = feature_margins(problem.boxes, problem.weighting, problem.grid, problem.rows)
    probability = entry_probabilities(problem.boxes, margins, problem.grid)
    intercept = problem.model.base + _mean_of_trees(
        problem.boxes, probability, problem.model.n_outputs
    )
    effects: dict[Subset, Array] = {}
    larger: dict[Subset, Component] = {}
    for size in range(1, problem.kept_order + 1):
        problem.report("effects of order", size, problem.kept_order)
        try:
            effects |= _tables(problem, margins, probability, size)
        except MemoryBudgetError:
            if size <= _TABLE_ORDER:
                raise
            larger |= _box_components(problem, margins, probability, size)
    mass = {subset: outer_product([margins[j] for j in subset]) for subset in effects}
    axes = {subset: problem.grid.subset_axes(subset) for subset in effects}
    purified = Purified(intercept, effects, {}, None)
    components: dict[Subset, Component] = {
        **table_components(purified, mass, axes, problem.function.inputs),
        **larger,
    }
    rest: Unexplained | None = None
    facts: dict[str, Any] = {}
    if problem.leaves_something_above:
        total, facts = _total_variance(problem, margins)
        known = np.sum([c.variance for c in components.values()], axis=0) if components else 0.0
        # The remainder outlives this call, and must not report progress later.
        silent = replace(problem, report=progress_report(False))
        find = partial(_find, silent, margins, probability)
        rest = Unexplained(problem.function, np.maximum(total - known, 0.0), find)
    return Result(intercept, components, Evidence(purified=purified), rest, diagnostics=facts)


def _wanted(problem: Problem, size: int) -> set[Subset] | None:
    interactions = problem.kept_terms.interactions
    if interactions is None or size == 1:
        return None
    return {subset for subset in interactions if len(subset) == size}


def _tables(
    problem: Problem, margins: dict[int, Array], probability: Array, size: int
) -> dict[Subset, Array]:
    only = _wanted(problem, size)
    subsets = occurring_subsets(problem.boxes, size, problem.grid.n_features)
    axes = [problem.grid.subset_axes(s) for s in subsets if only is None or s in only]
    check_memory(axes, problem.model.n_outputs, problem.memory_budget)
    tensors = conditional_tensors(
        problem.boxes,
        probability,
        problem.grid,
        size,
        problem.model.n_outputs,
        problem.memory_budget,
        only,
    )
    return {
        subset: centred(values, [margins[j] for j in subset]) for subset, values in tensors.items()
    }


def centred(values: Array, margins: list[Array]) -> Array:
    """Subtract the conditional means from a tensor along every axis.

    Under independence the component of S of a leaf with value v and box probabilities p is
    ``v * prod_{i in S} (1_i - p_i) * prod_{j not in S} p_j``: no solve, at any depth. Leaves
    are summed before the products are multiplied out, as conditional expectations given S,
    and centring the sum along each axis multiplies them out for all leaves at once.

    Parameters
    ----------
    values : ndarray of shape (cells..., n_outputs)
        Conditional expectation given the features of the axes.
    margins : list of ndarray
        Mass of the cells along each axis.
    """
    for axis, margin in enumerate(margins):
        # Twice: the second pass removes what rounding left in the first.
        for _ in range(2):
            mean = np.tensordot(values, margin, axes=(axis, 0))
            values = values - np.expand_dims(mean, axis)
    return values


def _mean_of_trees(boxes: LeafBoxes, probability: Array, n_outputs: int) -> Array:
    """Return the expectation of the trees: each leaf's value times its box's probability."""
    weight = np.ones(len(boxes.values))
    leaf = np.repeat(np.arange(len(weight)), np.diff(boxes.entry_ptr))
    np.multiply.at(weight, leaf, probability)
    weight[boxes.leaf_subset < 0] = 0.0
    return boxes.weighted_sum(weight, n_outputs)


def _box_components(
    problem: Problem, margins: dict[int, Array], probability: Array, size: int
) -> dict[Subset, Component]:
    """Return the components of subsets as sums over leaf boxes, with their exact variances."""
    only = _wanted(problem, size)
    subsets = occurring_subsets(problem.boxes, size, problem.grid.n_features)
    chosen = [subset for subset in subsets if only is None or subset in only]
    low, high = run_masses(problem.boxes, margins, problem.grid)
    values = np.asfortranarray(output_values(problem.boxes, problem.model.n_outputs))
    return {
        subset: _box_component(problem, probability, low, high, values, subset) for subset in chosen
    }


def _box_component(
    problem: Problem, probability: Array, low: Array, high: Array, values: Array, subset: Subset
) -> BoxComponent:
    """Return one, given the cumulative margins at both ends of each run, and values by output."""
    boxes = problem.boxes
    leaves = boxes.leaves_with(subset)
    variance = [
        component_variance(
            np.array(subset, dtype=np.int64),
            leaves,
            boxes.entry_ptr,
            boxes.entry_feature,
            probability,
            boxes.run_ptr,
            low,
            high,
            values[:, k],
        )
        for k in range(problem.model.n_outputs)
    ]
    return BoxComponent(subset, problem.grid, boxes, probability, np.array(variance))


def _find(
    problem: Problem, margins: dict[int, Array], probability: Array, subset: Subset
) -> Component | None:
    """Return the component of a subset that is in the remainder, if it occurs."""
    if not any(set(subset) <= set(path) for path in problem.boxes.subsets) or not subset:
        return None
    single = replace(problem, kept_terms=KeptTerms(None, {subset}))
    try:
        effects = _tables(single, margins, probability, len(subset))
    except MemoryBudgetError:
        return _box_components(single, margins, probability, len(subset))[subset]
    return TensorComponent(
        subset,
        problem.grid.subset_axes(subset),
        effects[subset],
        outer_product([margins[j] for j in subset]),
        problem.function.inputs,
    )


def _total_variance(
    problem: Problem, margins: dict[int, Array]
) -> tuple[Array, dict[str, dict[str, object]]]:
    """Return the model's variance: exact where that is little work, else from draws."""
    leaves = IndependentLeaves(problem.boxes, problem.grid, margins, problem.model.n_outputs)
    if exact_work(leaves, problem.memory_budget) <= _MOST_PAIRS:
        indices = leaf_indices(
            leaves,
            problem.layout.measure,
            most_pairs=_MOST_PAIRS,
            seed=0,
            report=problem.report,
            memory_budget=problem.memory_budget,
        )
        by_order = {"variance_by_order": indices.variance_by_order.tolist(), "exact": True}
        return indices.variance, {"variance": by_order}
    margin = problem.ensemble.margin(_draws(problem, margins), precision="float64")
    deviation = (margin - margin.mean(axis=0)) ** 2
    variance = deviation.mean(axis=0)
    error = deviation.std(axis=0) / np.sqrt(_DRAWS)
    estimate = {
        "model_variance": variance.tolist(),
        "standard_error": error.tolist(),
        "exact": False,
        "draws": _DRAWS,
        "seed": 0,
    }
    return np.asarray(variance), {"variance": estimate}


def _draws(problem: Problem, margins: dict[int, Array]) -> Columns:
    """Draw rows with independent features, one value for each cell."""
    rng = np.random.default_rng(0)
    values = []
    for j, axis in enumerate(problem.grid.axes):
        points = _representatives(axis)
        if j in margins:
            values.append(points[rng.choice(len(points), size=_DRAWS, p=margins[j])])
        else:
            values.append(np.full(_DRAWS, points[0]))
    return Columns(problem.model.features, tuple(values), _DRAWS)


def _representatives(axis: FeatureAxis) -> Array:
    """Return one value from each cell of an axis; codes for categories, NaN for missing."""
    if axis.cuts is None:
        regular = np.arange(axis.n_regular + int(axis.has_other), dtype=np.float64)
    elif len(axis.cuts) == 0:
        regular = np.zeros(1)
    else:
        regular = np.concatenate([[np.nextafter(axis.cuts[0], -np.inf)], axis.cuts])
    return np.append(regular, np.nan) if axis.has_missing else regular
