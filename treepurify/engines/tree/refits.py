"""Several trainings of one model: each is purified by itself, and looked up in cells of one.

A tree ensemble becomes an additive model of tables where it is combined with an EBM.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.components import TensorComponent
from treepurify.effects.accumulate import accumulate, ensemble_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import Problem
from treepurify.engines.tree.plan import solve
from treepurify.errors import MemoryBudgetError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset, make_grid
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, read_uncompared
from treepurify.models.parsed import ModelCheck, ModelSource, check_against_library
from treepurify.models.pipelines.join import with_shared_columns
from treepurify.models.refits import read_trainings
from treepurify.models.several import check_alike, on_common_columns, sum_of_models
from treepurify.spread import Spread
from treepurify.typing import Array

__all__ = ["ReadRefits", "read_refits", "solve_refits"]

_OF_A_MEAN = (
    " The mean of several models has the split points of all: pass one of them as model and the "
    "others as refits, which are purified one by one."
)


@dataclass(frozen=True, eq=False)
class ReadRefits:
    """Trained models, read.

    Parameters
    ----------
    models : tuple of TreeEnsemble or AdditiveTables
        The refits.
    centre : TreeEnsemble or AdditiveTables
        What is decomposed: their mean, or the model that they are refits of.
    is_mean : bool
        Whether that is their mean.
    how : str
        How they were trained.
    check : ModelCheck, optional
        What came of the comparison of each with its library.
    """

    models: tuple[Model, ...]
    centre: Model
    is_mean: bool
    how: str
    check: ModelCheck | None

    @property
    def used_features(self) -> Subset:
        """Features that any of them uses."""
        every = (*self.models, self.centre)
        return tuple(sorted({j for model in every for j in model.used_features}))


def read_refits(
    model: Any, refits: Any, X: Any, feature_names: Sequence[str] | None, memory_budget: int
) -> ReadRefits | None:
    """Return several models, read; None for a single one.

    Raises
    ------
    InvalidInputError
        If there are fewer than two, or they differ in their columns, outputs or link.
    UnsupportedModelError
        If one cannot be decomposed, or they read a column in different ways.
    """
    trainings = read_trainings(model, refits)
    if trainings is None:
        return None
    models, of = trainings
    read = [read_uncompared(each, X, feature_names) for each in (*models, *of)]
    parsed: Sequence[Model] = read
    ensembles = [one for one in read if isinstance(one, TreeEnsemble)]
    if len(ensembles) == len(read):
        parsed = with_shared_columns(ensembles)
    check_alike(parsed)
    parsed = on_common_columns(_one_form(parsed, memory_budget))
    n_models, centre = len(models), parsed[-1]
    if not of:
        centre = sum_of_models(parsed, np.full(n_models, 1.0 / n_models), _mean_source(parsed))
    if X is not None:
        for each in read:
            each.compare(X)
    check = _common_check([each.check for each in read], centre, X)
    return ReadRefits(tuple(parsed[:n_models]), centre, not of, models.how, check)


def solve_refits(problem: Problem, refits: ReadRefits) -> tuple[Problem, Result]:
    """Return what `solve` does for the centre, with the effects of each refit.

    Each refit is purified by itself, and its effects are averaged over each cell of the same effect
    of the centre. If that is the mean of the refits, they are purified on its cells, which have the
    cuts of all of them: then purification is linear, and the mean of what was fitted is moved to
    that of the centre. Of the smallest effects only as many are kept as fit the memory budget.

    Raises
    ------
    MemoryBudgetError
        If a model does not fit the budget.
    """
    try:
        problem, result = solve(problem)
    except MemoryBudgetError as error:
        raise MemoryBudgetError(f"{error}{_OF_A_MEAN * refits.is_mean}") from error
    n_models, n_outputs = len(refits.models), problem.model.n_outputs
    kept = [subset for subset in result.components if problem.kept_terms.keeps(subset)]
    tables = _largest(result, kept, n_models, problem.memory_budget)
    cuts = None
    if refits.is_mean and isinstance(problem.model, TreeEnsemble):
        cuts = ensemble_cuts(problem.model)
    found: dict[Subset, list[Array]] = {subset: [] for subset in tables}
    intercepts = []
    for number, model in enumerate(refits.models):
        problem.report("purifying models", number, n_models)
        own, other = solve(replace(problem, model=model, cuts=cuts, cells=None, facts={}))
        intercepts.append(other.intercept)
        for subset, table in tables.items():
            effect = other.components.get(subset)
            values = np.zeros_like(table.values)
            if isinstance(effect, TensorComponent):
                values = _in_cells(table, effect, problem, own)
            found[subset].append(values)
    stacked = {}
    for subset, table in tables.items():
        values = _around(table.values, found.pop(subset), refits.is_mean)
        shape = (*table.values.shape[:-1], n_models * n_outputs)
        side_by_side = np.moveaxis(values, 0, -2).reshape(shape)
        stacked[subset] = replace(table, values=side_by_side, raw=None)
    spread = Spread(
        n_models,
        refits.how,
        _around(result.intercept, intercepts, refits.is_mean),
        stacked,
        problem.model.feature_names,
        problem.model.output_names,
        refits.is_mean,
    )
    facts = {
        "models": n_models,
        "how": refits.how,
        "decomposed": "mean" if refits.is_mean else "given model",
        "without_spread": [list(subset) for subset in kept if subset not in stacked],
    }
    return problem, replace(
        result, diagnostics={**result.diagnostics, "refits": facts}, spread=spread
    )


def _largest(
    result: Result, kept: Sequence[Subset], n_models: int, memory_budget: int
) -> dict[Subset, TensorComponent]:
    """Return the largest effects that are tables, as many as can be kept for each model."""
    sizes = {subset: result.components[subset].variance.sum() for subset in kept}
    chosen, n_bytes = set(), 0
    for subset in sorted(sizes, key=lambda subset: -sizes[subset]):
        component = result.components[subset]
        if isinstance(component, TensorComponent):
            n_bytes += 8 * component.values.size * n_models
            if n_bytes <= memory_budget:
                chosen.add(subset)
    return {
        subset: component
        for subset, component in result.components.items()
        if subset in chosen and isinstance(component, TensorComponent)
    }


def _around(centre: Array, values: list[Array], is_mean: bool) -> Array:
    """Return values of all models, moved so that their mean is that of the centre if it is one.

    What a model does not have at all stays zero.
    """
    together = np.array(values)
    has_it = together.reshape(len(values), -1).any(axis=1)
    if is_mean and has_it.any():
        together[has_it] += (centre - together.mean(axis=0)) / has_it.mean()
    return together


def _in_cells(
    component: TensorComponent, other: TensorComponent, problem: Problem, own: Problem
) -> Array:
    """Return the effect of another model in the cells of a component: its mean over each."""
    values, size = other.values, len(component.features)
    rows, own_rows = problem.layout.rows.get(size), own.layout.rows.get(size)
    for k, j in enumerate(component.features):
        axis, of_other = component.axes[k], other.axes[k]
        special = axis.has_other, axis.has_missing
        if axis.same_regular(of_other) and special == (of_other.has_other, of_other.has_missing):
            continue
        mass = np.zeros((axis.n_cells, of_other.n_cells))
        if isinstance(rows, EncodedRows) and isinstance(own_rows, EncodedRows):
            np.add.at(mass, (rows.codes[j], own_rows.codes[j]), rows.shares)
        total = mass.sum(axis=1, keepdims=True)
        mass = np.where(total > 0, mass, _overlaps(axis, of_other))
        mass /= np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        values = np.moveaxis(np.tensordot(mass, values, axes=(1, k)), 0, k)
    return values


def _overlaps(axis: FeatureAxis, other: FeatureAxis) -> Array:
    """Return one for each two cells that overlap, shape (n_cells, n_cells of the other axis)."""
    found = np.zeros((axis.n_cells, other.n_cells))
    if axis.cuts is None or other.cuts is None:
        np.fill_diagonal(found[: axis.n_regular, : other.n_regular], 1.0)
    else:
        ends = np.concatenate([[-np.inf], axis.cuts, [np.inf]])
        first = np.searchsorted(other.cuts, ends[:-1], side="right")
        last = np.searchsorted(other.cuts, ends[1:], side="left")
        cells = np.arange(other.n_regular)
        inside = (first[:, None] <= cells) & (cells <= last[:, None])
        found[: axis.n_regular, : other.n_regular] = inside
    for cell, of_other in (
        (axis.other_cell, other.other_cell),
        (axis.missing_cell, other.missing_cell),
    ):
        if cell is not None and of_other is not None:
            found[cell, of_other] = 1.0
    return found


def _one_form(parsed: Sequence[Model], memory_budget: int) -> Sequence[Model]:
    """Return all as trees, or all as tables."""
    if len({isinstance(model, TreeEnsemble) for model in parsed}) == 1:
        return parsed
    return [
        _ensemble_tables(model, memory_budget) if isinstance(model, TreeEnsemble) else model
        for model in parsed
    ]


def _mean_source(parsed: Sequence[Model]) -> ModelSource:
    def common(name: str) -> str:
        words = dict.fromkeys(str(getattr(model.source, name)) for model in parsed)
        return ", ".join(words)

    notes = tuple(dict.fromkeys(note for model in parsed for note in model.source.notes))
    kind = f"mean of {len(parsed)} models ({common('kind')})"
    labels = {model.source.class_labels for model in parsed}
    same = labels.pop() if len(labels) == 1 else ()
    return ModelSource(common("library"), common("version"), kind, notes, class_labels=same)


def _common_check(checks: Sequence[ModelCheck | None], centre: Model, X: Any) -> ModelCheck | None:
    """Return what came of all comparisons, on the rows of the model that is decomposed."""
    of_centre = None if X is None else check_against_library(centre, X)
    if of_centre is None:
        return None
    known = [check for check in checks if check is not None]
    errors = [check.error for check in known if check.error is not None]
    notes = dict.fromkeys(check.note for check in known if check.note)
    error = max(errors) if len(errors) == len(checks) else None
    return replace(of_centre, error=error, note=" ".join(notes))


def _ensemble_tables(ensemble: TreeEnsemble, memory_budget: int) -> AdditiveTables:
    """Return the sum of the trees as one table for each set of features on a path.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    memory_budget : int
        Bytes that the tables may take.

    Returns
    -------
    AdditiveTables
        The same function, on the cells between its own cuts; without weights of bins.

    Raises
    ------
    MemoryBudgetError
        If the tables would not fit.
    """
    grid, _ = make_grid(
        None,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
        missing_cells="always",
    )
    boxes = leaf_boxes(ensemble, grid)
    n_cells = sum(prod(grid.shape(subset)) for subset in boxes.subsets)
    check_budget(
        16 * n_cells * ensemble.n_outputs,
        memory_budget,
        f"the trees as {len(boxes.subsets)} tables, to compare them with an EBM",
        "Purify trees and EBMs separately.",
    )
    effects = accumulate(ensemble, grid, boxes, memory_budget)
    terms = tuple(
        TableTerm(subset, tuple(axis.cuts for axis in tensor.axes), tensor.values)
        for subset, tensor in effects.tensors.items()
    )
    return AdditiveTables(
        terms,
        effects.intercept,
        ensemble.features,
        ensemble.output_names,
        ensemble.link,
        ensemble.source,
        ensemble.has_feature_names,
    )
