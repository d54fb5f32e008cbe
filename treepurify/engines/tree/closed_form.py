"""The closed form as a route: the functional ANOVA of leaf boxes under independent features."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.conditional import evaluate_boxes
from treepurify.components import (
    Component,
    ModelInputs,
    OnRows,
    TensorComponent,
    locate_on_grid,
)
from treepurify.effects.conditional import conditional_tensors, feature_margins, occurring_subsets
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import Problem, check_memory
from treepurify.engines.tree.independent_leaves import IndependentLeaves
from treepurify.engines.tree.second_moments import component_variance, leaf_indices
from treepurify.errors import MemoryBudgetError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, Subset
from treepurify.remainder import Difference
from treepurify.terms import effect_title
from treepurify.typing import Array
from treepurify.weights.distributions import outer_product

_TABLE_ORDER = 2
# Pairs of leaves whose second moments are summed within a purification: about a second.
_MOST_PAIRS = 200_000_000


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
        boxes, total = self.boxes, np.zeros((len(self.variance), cells.shape[1]))
        on_rows = np.ascontiguousarray(cells, dtype=np.int32), np.array(self.features, np.int64)
        leaves = boxes.leaves_with(self.features)
        entries = boxes.entry_ptr, boxes.entry_feature, self.probability, *boxes.runs[:3]
        evaluate_boxes(*on_rows, leaves, *entries, boxes.values, boxes.output, total)
        return total.T


def purify_by_closed_form(problem: Problem) -> Result:
    """Return the components of an ensemble of any depth under independent features.

    Components of one and two features are tables on the union grid. Larger ones, where they
    are kept, are tables if those fit the memory budget, else sums over leaf boxes that
    are evaluated row by row. All other effects are the remainder, the model minus the
    components; `Decomposition.__getitem__` finds any component in it.
    """
    boxes, grid, budget = problem.boxes, problem.grid, problem.memory_budget
    margins = feature_margins(boxes, problem.weighting, grid, problem.rows)
    leaves = IndependentLeaves(boxes, grid, margins, problem.model.n_outputs)
    inputs = problem.function.inputs
    components: dict[Subset, Component] = {}
    for size in range(1, problem.kept_order + 1):
        problem.report("effects of order", size, problem.kept_order)
        occurring = occurring_subsets(boxes, size, grid.n_features)
        kept = [subset for subset in occurring if problem.kept_terms.keeps(subset)]
        if size <= _TABLE_ORDER:
            check_memory(map(grid.subset_axes, kept), leaves.n_outputs, budget)
        components |= _components(leaves, kept, inputs, budget)
    intercept = problem.model.base + leaves.mean
    if not problem.leaves_something_above:
        return Result(intercept, components)
    variance, facts = _variance_above(problem, leaves, components)
    find = partial(_find, leaves, inputs, budget)
    rest = Difference(problem.function, variance, find)
    return Result(intercept, components, rest=rest, diagnostics={"variance": facts})


def _components(
    leaves: IndependentLeaves,
    subsets: Collection[Subset],
    inputs: ModelInputs,
    memory_budget: int,
) -> dict[Subset, Component]:
    """Return the components of subsets of one size, as tables where these fit."""
    grid, margins = leaves.grid, leaves.margins
    try:
        check_memory(map(grid.subset_axes, subsets), leaves.n_outputs, memory_budget)
        tables = pure_tables(leaves, subsets, memory_budget)
    except MemoryBudgetError:
        return {
            s: BoxComponent(
                s, grid, leaves.boxes, leaves.probability, component_variance(leaves, s)
            )
            for s in subsets
        }
    return {
        s: TensorComponent(
            s, grid.subset_axes(s), values, outer_product([margins[j] for j in s]), inputs
        )
        for s, values in tables.items()
    }


def pure_tables(
    leaves: IndependentLeaves, subsets: Collection[Subset], memory_budget: int
) -> dict[Subset, Array]:
    """Return the components of subsets of one size as tables, shape (cells..., n_outputs).

    Under independence the component of S of a leaf with value v and box probabilities p is
    ``v * prod_{i in S} (1_i - p_i) * prod_{j not in S} p_j``: no solve, at any depth. Leaves
    are summed before the products are multiplied out, as conditional expectations given S,
    and centring the sum along each axis multiplies them out for all leaves at once.

    Raises
    ------
    MemoryBudgetError
        If the tables would not fit.
    """
    tables = conditional_tensors(
        leaves.boxes, leaves.probability, leaves.grid, subsets, leaves.n_outputs, memory_budget
    )
    for subset in tables:
        for axis, feature in enumerate(subset):
            # Twice: the second pass removes what rounding left in the first.
            for _ in range(2):
                values = tables[subset]
                mean = np.tensordot(values, leaves.margins[feature], axes=(axis, 0))
                tables[subset] = values - np.expand_dims(mean, axis)
    return tables


def _find(
    leaves: IndependentLeaves, inputs: ModelInputs, memory_budget: int, subset: Subset
) -> Component | None:
    """Return the component of a subset that is in the remainder, if it occurs."""
    if not any(set(subset) <= set(path) for path in leaves.boxes.subsets) or not subset:
        return None
    return _components(leaves, [subset], inputs, memory_budget)[subset]


def _variance_above(
    problem: Problem, leaves: IndependentLeaves, components: Mapping[Subset, Component]
) -> tuple[Array, dict[str, object]]:
    """Return the variance of what is not kept: exact where that is little work, else estimated."""
    indices = leaf_indices(
        leaves,
        problem.layout.measure,
        most_pairs=_MOST_PAIRS,
        seed=0,
        report=problem.report,
        memory_budget=problem.memory_budget,
    )
    above = indices.variance_by_order.copy()
    for subset, component in components.items():
        above[:, len(subset) - 1] -= component.variance
    # Of these orders everything is kept, so that the rest of an estimate is its error.
    above[:, : 1 if problem.kept_terms.interactions is not None else problem.kept_order] = 0.0
    facts = {
        "variance_by_order": indices.variance_by_order.tolist(),
        "standard_error": indices.standard_error.tolist(),
        "exact": indices.sampled_rows == 0,
        "sampled_rows": indices.sampled_rows,
    }
    return np.maximum(above, 0.0).sum(axis=1), facts
