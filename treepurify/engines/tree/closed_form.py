"""The closed form as a route: components, their variances, and what lies above."""

from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from treepurify._kernels.leaf_pairs import component_variance
from treepurify.columns import Columns
from treepurify.components import Component, ModelInputs, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.effects.conditional import (
    conditional_tensors,
    entry_probabilities,
    occurring_subsets,
    run_masses,
)
from treepurify.effects.tensor import EffectTensors
from treepurify.engines.common.assemble import assemble
from treepurify.engines.common.layout import check_memory
from treepurify.engines.tree.box_component import BoxComponent
from treepurify.engines.tree.closed_form_mean import centred, closed_form_mean
from treepurify.engines.tree.deep_model import DeepModel
from treepurify.engines.tree.independent_leaves import IndependentLeaves, output_values
from treepurify.engines.tree.second_moments import exact_work, leaf_indices
from treepurify.errors import MemoryBudgetError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.progress import progress_report
from treepurify.purification.cascade import Purified
from treepurify.remainder import ModelRemainder
from treepurify.weights.weighting import outer_product

__all__ = ["purify_by_closed_form"]

Array = npt.NDArray[np.float64]

_TABLE_ORDER = 2
# Pairs of leaves whose second moments are summed within a purification: about a second.
_MOST_PAIRS = 200_000_000
_DRAWS = 20_000


def purify_by_closed_form(given: DeepModel) -> Decomposition:
    """Return the components of an ensemble of any depth under independent features.

    Components of one and two features are tables on the union grid. Larger ones, where they
    are asked for, are tables if those fit the memory budget, else sums over leaf boxes that
    are evaluated row by row. What is not kept apart is the remainder, the model minus the
    components; `Decomposition.__getitem__` finds any component in it.
    """
    used = sorted({j for subset in given.boxes.subsets for j in subset})
    tables = given.weighting.tables(given.grid, given.rows, [(j,) for j in used])
    margins = {j: tables[(j,)] for j in used}
    probability = entry_probabilities(given.boxes, margins, given.grid)
    intercept = given.model.base + closed_form_mean(given.boxes, probability, given.model.n_outputs)
    effects: dict[Subset, Array] = {}
    larger: dict[Subset, Component] = {}
    for size in range(1, given.kept_order + 1):
        given.report("components of order", size, given.kept_order)
        try:
            effects |= _tables(given, margins, probability, size)
        except MemoryBudgetError:
            if size <= _TABLE_ORDER:
                raise
            larger |= _box_components(given, margins, probability, size)
    mass = {subset: outer_product([margins[j] for j in subset]) for subset in effects}
    setting = replace(
        given.setting,
        effects=EffectTensors(intercept, {}),
        mass=mass,
        axes={subset: given.grid.subset_axes(subset) for subset in effects},
        order=None,
        adds_up=not larger and not given.leaves_something_above,
    )
    purified = Purified(intercept, effects, {}, None)
    d = assemble(purified, setting, given.check, given.facts)
    components: dict[Subset, Component] = {**d.components, **larger}
    known = np.sum([c.variance for c in components.values()], axis=0) if components else 0.0
    remainder: ModelRemainder | None = None
    above: dict[str, dict[str, object]] = {}
    if given.leaves_something_above:
        total, above = _total_variance(given, margins)
        remainder = ModelRemainder(
            given.model,
            intercept,
            tuple(components.values()),
            np.maximum(total - known, 0.0),
            # What outlives the call reports nothing more.
            partial(_find, replace(given, report=progress_report(False)), margins, probability),
        )
    covariances = {subset: c.variance for subset, c in components.items()}
    if remainder is not None:
        covariances[()] = remainder.variance
    return replace(
        d,
        components=components,
        remainder=remainder,
        diagnostics={**d.diagnostics, **above},
        stored_covariances=covariances,
    )


def _wanted(given: DeepModel, size: int) -> set[Subset] | None:
    if given.interactions is None or size == 1:
        return None
    return {subset for subset in given.interactions if len(subset) == size}


def _tables(
    given: DeepModel, margins: dict[int, Array], probability: Array, size: int
) -> dict[Subset, Array]:
    only = _wanted(given, size)
    subsets = occurring_subsets(given.boxes, size, given.grid.n_features)
    axes = [given.grid.subset_axes(s) for s in subsets if only is None or s in only]
    check_memory(axes, given.model.n_outputs, given.memory_budget)
    tensors = conditional_tensors(
        given.boxes,
        probability,
        given.grid,
        size,
        given.model.n_outputs,
        given.memory_budget,
        only,
    )
    return {
        subset: centred(values, [margins[j] for j in subset]) for subset, values in tensors.items()
    }


def _box_components(
    given: DeepModel, margins: dict[int, Array], probability: Array, size: int
) -> dict[Subset, Component]:
    only = _wanted(given, size)
    subsets = occurring_subsets(given.boxes, size, given.grid.n_features)
    return {
        subset: box_component(given, margins, probability, subset)
        for subset in subsets
        if only is None or subset in only
    }


def box_component(
    given: DeepModel, margins: dict[int, Array], probability: Array, subset: Subset
) -> BoxComponent:
    """Return the component of a subset as a sum over leaf boxes, with its exact variance."""
    boxes, grid = given.boxes, given.grid
    low, high = run_masses(boxes, margins, grid)
    leaves = boxes.leaves_with(subset)
    values = output_values(boxes, given.model.n_outputs)
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
            np.ascontiguousarray(values[:, k]),
        )
        for k in range(given.model.n_outputs)
    ]
    return BoxComponent(subset, grid, boxes, probability, np.array(variance))


def _find(
    given: DeepModel, margins: dict[int, Array], probability: Array, subset: Subset
) -> Component | None:
    """Return the component of a subset that was not kept apart, if it occurs."""
    if not any(set(subset) <= set(path) for path in given.boxes.subsets) or not subset:
        return None
    try:
        single = replace(given, interactions={subset})
        effects = _tables(single, margins, probability, len(subset))
    except MemoryBudgetError:
        return box_component(given, margins, probability, subset)
    return TensorComponent(
        subset,
        given.grid.subset_axes(subset),
        effects[subset],
        outer_product([margins[j] for j in subset]),
        ModelInputs(given.model.features, given.model.has_feature_names),
    )


def _total_variance(
    given: DeepModel, margins: dict[int, Array]
) -> tuple[Array, dict[str, dict[str, object]]]:
    """Return the model's variance: exact where that is little work, else from draws."""
    leaves = IndependentLeaves(given.boxes, given.grid, margins, given.model.n_outputs)
    if exact_work(leaves, given.memory_budget) <= _MOST_PAIRS:
        indices = leaf_indices(
            leaves,
            given.setting.measure,
            most_pairs=_MOST_PAIRS,
            seed=0,
            report=given.report,
            memory_budget=given.memory_budget,
        )
        by_order = {"variance_by_order": indices.variance_by_order.tolist(), "exact": True}
        return indices.variance, {"variance": by_order}
    margin = given.model.margin(_draws(given, margins), precision="float64")
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


def _draws(given: DeepModel, margins: dict[int, Array]) -> Columns:
    """Draw rows with independent features, one value for each cell."""
    rng = np.random.default_rng(0)
    values = []
    for j, axis in enumerate(given.grid.axes):
        points = representatives(axis)
        if j in margins:
            values.append(points[rng.choice(len(points), size=_DRAWS, p=margins[j])])
        else:
            values.append(np.full(_DRAWS, points[0]))
    return Columns(given.model.features, tuple(values), _DRAWS)


def representatives(axis: FeatureAxis) -> Array:
    """Return one value from each cell of an axis; codes for categories, NaN for missing."""
    if axis.cuts is None:
        regular = np.arange(axis.n_regular + int(axis.has_other), dtype=np.float64)
    elif len(axis.cuts) == 0:
        regular = np.zeros(1)
    else:
        regular = np.concatenate([[np.nextafter(axis.cuts[0], -np.inf)], axis.cuts])
    return np.append(regular, np.nan) if axis.has_missing else regular
