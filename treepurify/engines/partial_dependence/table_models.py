"""Partial dependence of additive models of tables (EBMs): exact over the whole background."""

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.decomposition import Decomposition
from treepurify.effects.table_effects import table_cuts, table_effects
from treepurify.effects.tensor import EffectTensors
from treepurify.engines.common.finish import (
    Evidence,
    Result,
    finish,
    largest_effect,
    table_components,
)
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.inputs import Interactions, named_subsets
from treepurify.engines.common.layout import check_memory
from treepurify.engines.common.model_check import check_against_library
from treepurify.engines.common.problem import Wanted
from treepurify.engines.partial_dependence.support import certificate_note
from treepurify.engines.partial_dependence.trees import describe_background, read_background
from treepurify.grids.grid import MissingCells, Subset
from treepurify.models.additive_tables import AdditiveTables
from treepurify.progress import ProgressReport
from treepurify.purification.cascade import Purified, downward_closure
from treepurify.weights import Empirical
from treepurify.weights.weighting import MassTables

__all__ = ["tables_anova"]

Array = npt.NDArray[np.float64]


def tables_anova(
    model: Any,
    parsed: AdditiveTables,
    X: Any,
    background: Any,
    *,
    order: int | None,
    interactions: Interactions | None,
    sample_weight: npt.ArrayLike | None,
    missing_cells: MissingCells,
    memory_budget: int,
    report: ProgressReport,
) -> Decomposition:
    """Return the terms of a model of tables; see `partial_dependence_anova`."""
    kept = named_subsets(parsed.features, interactions, order)
    cuts = table_cuts(parsed)
    given = read_background(parsed, X, background, sample_weight, cuts, missing_cells)
    check = check_against_library(model, parsed, X)
    subsets = downward_closure(term.features for term in parsed.terms)
    axes = {subset: given.grid.subset_axes(subset) for subset in subsets}
    check_memory(axes.values(), parsed.n_outputs, memory_budget)
    largest = max((len(subset) for subset in subsets), default=1)
    raw = table_effects(parsed, dict.fromkeys(range(1, largest + 1), given.grid))
    report("averaging tables", 0, 0)
    mass = Empirical().tables(given.grid, given.rows, subsets)
    intercept, terms = _moebius(raw, mass)
    used = tuple(sorted({j for subset in subsets for j in subset}))
    extrapolation = given.extrapolation(used)
    function = ParsedFunction(parsed)
    purified = Purified(intercept, terms, {}, None)
    result = Result(
        intercept,
        table_components(purified, mass, axes, function.inputs, raw),
        Evidence(
            largest_effect(intercept, raw.tensors.values()),
            purified,
            note=certificate_note(extrapolation),
        ),
        diagnostics={
            "model": parsed.facts(),
            "exact": True,
            "background_rows": given.rows.n_rows,
            "extrapolation": extrapolation,
        },
    )
    return finish(
        function,
        result,
        engine="partial dependence",
        measure=describe_background(given.rows.n_rows, extrapolation),
        wanted=Wanted(order, kept),
        rows=dict.fromkeys(range(1, largest + 1), given.rows),
        check=check,
    )


def _moebius(raw: EffectTensors, mass: MassTables) -> tuple[Array, dict[Subset, Array]]:
    """Return the intercept and the terms of all tables.

    The partial dependence of a table on ``u`` given T is its mean over the background's
    margin of the features outside T; tables are summed term by term.
    """
    intercept = raw.intercept
    terms = {
        subset: np.zeros((*table.shape, len(intercept))) for subset, table in mass.items() if subset
    }
    for u, tensor in raw.tensors.items():
        given = {
            kept: _mean_outside(tensor.values, u, kept, mass)
            for size in range(len(u) + 1)
            for kept in combinations(u, size)
        }
        intercept = intercept + given[()]
        for subset in given:
            if subset:
                terms[subset] += sum(map(partial(_signed, given, subset), _parts(subset)))
    return intercept, terms


def _parts(subset: Subset) -> list[Subset]:
    return [part for size in range(len(subset) + 1) for part in combinations(subset, size)]


def _signed(given: dict[Subset, Array], subset: Subset, part: Subset) -> Array:
    table = given[part]
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
