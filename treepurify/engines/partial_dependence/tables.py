"""Partial dependence of additive models of tables (EBMs): exact over the whole background."""

from collections.abc import Mapping
from functools import partial
from itertools import combinations

import numpy as np

from treepurify.certificate import Certificate
from treepurify.components import ModelInputs
from treepurify.effects.table_effects import table_effects
from treepurify.effects.tensor import EffectTensors
from treepurify.engines.common.finish import Result, largest_effect, table_components
from treepurify.engines.common.problem import check_memory
from treepurify.engines.partial_dependence.background import OnGrids
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.models.additive_tables import AdditiveTables
from treepurify.progress import ProgressReport
from treepurify.purification.cascade import Purified, downward_closure, refine
from treepurify.typing import Array
from treepurify.weights import Empirical
from treepurify.weights.distributions import MassTables


def table_terms(
    model: AdditiveTables, on_grids: OnGrids, memory_budget: int, report: ProgressReport
) -> Result:
    """Return all terms of a model of tables; see `partial_dependence_anova`.

    `on_grids` has the background on the grid of the tables of each order.
    """
    subsets = downward_closure(term.features for term in model.terms)
    grids = {size: grid for size, (grid, _) in on_grids.items()}
    axes = {subset: grids[len(subset)].subset_axes(subset) for subset in subsets}
    check_memory(axes.values(), model.n_outputs, memory_budget)
    raw = table_effects(model, grids)
    report("averaging tables", 0, 0)
    mass = {
        size: Empirical().tables(grid, rows, [s for s in subsets if len(s) <= size])
        for size, (grid, rows) in on_grids.items()
    }
    intercept, terms = _moebius(raw, mass, axes)
    purified = Purified(intercept, terms, {}, None)
    inputs = ModelInputs(model.features, model.has_feature_names)
    own_mass = {subset: mass[len(subset)][subset] for subset in subsets}
    components = table_components(purified, own_mass, axes, inputs, raw)
    scale = largest_effect(intercept, raw.tensors.values())
    return Result(intercept, components, certificate=Certificate(scale))


def _moebius(
    raw: EffectTensors,
    mass: Mapping[int, MassTables],
    axes: Mapping[Subset, tuple[FeatureAxis, ...]],
) -> tuple[Array, dict[Subset, Array]]:
    """Return the intercept and the terms of all tables.

    The partial dependence of a table on ``u`` given T is its mean over the background's
    margin of the features outside T; tables are summed term by term.

    Parameters
    ----------
    raw : EffectTensors
        The tables.
    mass : mapping of int to mapping of tuple of int to ndarray
        By order of the tables, the margins on their grid.
    axes : mapping of tuple of int to tuple of FeatureAxis
        The cells of each term, those of larger ones among them.
    """
    intercept = raw.intercept
    terms = {
        subset: np.zeros((*(axis.n_cells for axis in own), len(intercept)))
        for subset, own in axes.items()
    }
    for u, tensor in raw.tensors.items():
        averages = {
            kept: _mean_outside(tensor.values, u, kept, mass[len(u)])
            for size in range(len(u) + 1)
            for kept in combinations(u, size)
        }
        intercept = intercept + averages[()]
        for subset in averages:
            if subset:
                signed = sum(map(partial(_signed, averages, subset), _parts(subset)))
                own = tuple(tensor.axes[u.index(j)] for j in subset)
                terms[subset] += refine(np.asarray(signed), own, axes[subset])
    return intercept, terms


def _parts(subset: Subset) -> list[Subset]:
    return [part for size in range(len(subset) + 1) for part in combinations(subset, size)]


def _signed(averages: dict[Subset, Array], subset: Subset, part: Subset) -> Array:
    table = averages[part]
    shape = iter(table.shape[:-1])
    spread = [next(shape) if j in part else 1 for j in subset]
    sign = -1.0 if (len(subset) - len(part)) % 2 else 1.0
    return sign * table.reshape(*spread, table.shape[-1])


def _mean_outside(values: Array, u: Subset, kept: Subset, mass: MassTables) -> Array:
    dropped = tuple(j for j in u if j not in kept)
    if not dropped:
        return values
    positions = [u.index(j) for j in dropped]
    return np.asarray(np.tensordot(mass[dropped], values, axes=(range(len(dropped)), positions)))
