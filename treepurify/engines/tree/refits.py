"""Several trainings of one model: each is purified by itself, and looked up in cells of one.

A tree ensemble becomes an additive model of tables where it is combined with an EBM.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treepurify.components import TensorComponent
from treepurify.effects.accumulate import accumulate, ensemble_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import NOT_LAID_OUT, Problem
from treepurify.engines.tree.plan import solve
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import EncodedRows, Subset, make_grid
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, read_uncompared
from treepurify.models.parsed import ModelCheck, ModelSource, check_against_library
from treepurify.models.pipelines.join import with_shared_columns
from treepurify.models.refits import read_trainings
from treepurify.models.several import check_alike, on_common_columns, sum_of_models
from treepurify.rows.sources import TableSource, open_rows
from treepurify.spread import Spread
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid

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
    if not isinstance(open_rows(X), TableSource):
        raise InvalidInputError(
            "several models can only be purified with rows in memory: pass a table, or "
            "purify them one by one with these rows"
        )
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
    n_models = len(refits.models)
    kept = [subset for subset in result.components if problem.kept_terms.keeps(subset)]
    tables = _largest(result, kept, n_models, problem.memory_budget)
    cuts = None
    if refits.is_mean and isinstance(problem.model, TreeEnsemble):
        cuts = ensemble_cuts(problem.model)
    found = {s: np.zeros((n_models, *table.values.shape)) for s, table in tables.items()}
    intercepts = np.zeros((n_models, problem.model.n_outputs))
    start = replace(problem, cuts=cuts, layout=NOT_LAID_OUT, facts={})
    for number, model in enumerate(refits.models):
        problem.report("purifying models", number, n_models)
        own, other = solve(replace(start, model=model))
        intercepts[number] = other.intercept
        for subset, table in tables.items():
            effect, size = other.components.get(subset), len(subset)
            if isinstance(effect, TensorComponent):
                rows = problem.layout.rows.get(size), own.layout.rows.get(size)
                found[subset][number] = _in_cells(table, effect, *rows)
    if refits.is_mean:
        _move_mean(intercepts, result.intercept)
        for subset, table in tables.items():
            _move_mean(found[subset], table.values)
    stacked = {}
    for subset, table in tables.items():
        shape = (*table.values.shape[:-1], -1)
        side_by_side = np.moveaxis(found.pop(subset), 0, -2).reshape(shape)
        stacked[subset] = replace(table, values=side_by_side, raw=None)
    names = (problem.model.feature_names, problem.model.output_names)
    spread = Spread(n_models, refits.how, intercepts, stacked, *names, refits.is_mean)
    facts = {
        "models": n_models,
        "how": refits.how,
        "decomposed": "mean" if refits.is_mean else "given model",
        "without_spread": [list(subset) for subset in kept if subset not in stacked],
    }
    facts_of_all = {**result.diagnostics, "refits": facts}
    return problem, replace(result, diagnostics=facts_of_all, spread=spread)


def _largest(
    result: Result, kept: Sequence[Subset], n_models: int, memory_budget: int
) -> dict[Subset, TensorComponent]:
    """Return the largest effects that are tables, as many as can be kept for each model."""
    found = {subset: result.components[subset] for subset in kept}
    tables = {s: table for s, table in found.items() if isinstance(table, TensorComponent)}
    ordered = sorted(tables, key=lambda subset: -tables[subset].variance.sum())
    n_bytes = np.cumsum([8 * tables[subset].values.size * n_models for subset in ordered])
    chosen = set(ordered[: np.searchsorted(n_bytes, memory_budget, side="right")])
    return {subset: table for subset, table in tables.items() if subset in chosen}


def _move_mean(values: Array, centre: Array) -> None:
    """Move values of all models so that their mean is the centre; what a model lacks stays zero."""
    has_it = values.reshape(len(values), -1).any(axis=1)
    if has_it.any():
        values[has_it] += (centre - values.mean(axis=0)) / has_it.mean()


def _in_cells(
    component: TensorComponent,
    other: TensorComponent,
    rows: RowsOnGrid | None,
    own_rows: RowsOnGrid | None,
) -> Array:
    """Return the effect of another model in the cells of a component: its mean over each.

    Where a cell has no rows, all of the other's cells that it overlaps count the same.
    """
    values = other.values
    for k, j in enumerate(component.features):
        axis, of_other = component.axes[k], other.axes[k]
        has_other = axis.has_other and of_other.has_other
        has_missing = axis.has_missing and of_other.has_missing
        both = replace(axis, has_other=has_other, has_missing=has_missing)
        if axis.same_regular(of_other) and axis.n_cells == of_other.n_cells == both.n_cells:
            continue
        if axis.cuts is not None and of_other.cuts is not None:
            both = replace(both, cuts=np.union1d(axis.cuts, of_other.cuts))
        mass = np.zeros((axis.n_cells, of_other.n_cells))
        mass[both.cells_in(axis), both.cells_in(of_other)] = np.finfo(float).tiny
        if isinstance(rows, EncodedRows) and isinstance(own_rows, EncodedRows):
            np.add.at(mass, (rows.codes[j], own_rows.codes[j]), rows.shares)
        mass /= np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        values = np.moveaxis(np.tensordot(mass, values, axes=(1, k)), 0, k)
    return values


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
    """Return the sum of trees as one table for each set of features on a path, without weights."""
    grid, _ = make_grid(
        None,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
        missing_cells="always",
    )
    try:
        effects = accumulate(ensemble, grid, leaf_boxes(ensemble, grid), memory_budget)
    except MemoryBudgetError as error:
        advice = "To compare trees with an EBM, they become tables: purify them separately."
        raise MemoryBudgetError(f"{error} {advice}") from error
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
