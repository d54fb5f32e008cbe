"""Several trainings of one model, purified on one common grid: their mean, and their spread.

On one grid purification is linear. So the mean of the purified models is the purified mean, and
all of them are purified at once, as outputs side by side: the cells are weighed once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treepurify.components import TensorComponent, evaluate_each
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.ensemble_tables import ensemble_tables
from treepurify.engines.common.finish import Evidence, Rest, Result, measure_explained
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.model_check import ModelCheck, check_against_library
from treepurify.engines.common.problem import Resolution, Wanted
from treepurify.engines.tree.request import Outcome, Request, plan, run
from treepurify.engines.tree.snapped_cuts import CutMoves, choose_moves, move_cuts
from treepurify.errors import MemoryBudgetError
from treepurify.grids.grid import Subset
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, read_model
from treepurify.models.parsed import ModelSource
from treepurify.models.refits import Refits
from treepurify.models.several import check_alike, sum_of_models, together
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import row_shares
from treepurify.spread import Spread

__all__ = ["ReadRefits", "check_refits", "purify_refits", "read_refits"]

# Most cells of a feature, tried one after the other where the union of all cuts does not fit.
_FEWER_CELLS = (512, 362, 256, 181, 128, 91, 64, 45, 32, 23, 16, 11, 8, 6, 4, 3, 2)


@dataclass(frozen=True, eq=False)
class ReadRefits:
    """Trained models, read.

    Parameters
    ----------
    given : tuple of object
        The models as they were given; last the one that they are refits of, where there is one.
    parsed : tuple of TreeEnsemble or AdditiveTables
        The same, parsed.
    centre : TreeEnsemble or AdditiveTables
        What is decomposed, with the cuts of all of them: their mean, or the one that they are
        refits of.
    stack : TreeEnsemble or AdditiveTables
        All of them, their outputs side by side.
    n_models : int
        Number of refits.
    how : str
        How they were trained.
    """

    given: tuple[Any, ...]
    parsed: tuple[Model, ...]
    centre: Model
    stack: Model
    n_models: int
    how: str

    @property
    def is_mean(self) -> bool:
        """Whether the mean of the refits is decomposed."""
        return len(self.parsed) == self.n_models


def read_refits(
    model: Any, X: Any, feature_names: Sequence[str] | None, memory_budget: int
) -> ReadRefits | None:
    """Return several models, read; None for a single one.

    Raises
    ------
    InvalidInputError
        If there are fewer than two, or they differ in their columns, outputs or link.
    UnsupportedModelError
        If one cannot be decomposed, or they read a column in different ways.
    """
    if not isinstance(model, list | tuple | Refits):
        return None
    refits = model if isinstance(model, Refits) else Refits(model)
    given = (*refits.models, *([] if refits.of is None else [refits.of]))
    parsed = tuple(read_model(each, X, feature_names) for each in given)
    check_alike(parsed)
    common = _one_form(parsed, memory_budget)
    n_models = len(refits)
    weights = np.full(len(given), 1.0 / n_models)
    source = _mean_source(parsed)
    if refits.of is not None:
        weights[:n_models], weights[n_models] = 0.0, 1.0
        source = parsed[-1].source
    centre = sum_of_models(common, weights, source)
    return ReadRefits(given, parsed, centre, together(common), n_models, refits.how)


def _one_form(parsed: Sequence[Model], memory_budget: int) -> Sequence[Model]:
    """Return all as trees, or all as tables."""
    if len({isinstance(model, TreeEnsemble) for model in parsed}) == 1:
        return parsed
    return [
        ensemble_tables(model, memory_budget) if isinstance(model, TreeEnsemble) else model
        for model in parsed
    ]


def _mean_source(parsed: Sequence[Model]) -> ModelSource:
    def common(name: str) -> str:
        words = dict.fromkeys(str(getattr(model.source, name)) for model in parsed)
        return ", ".join(words)

    notes = tuple(dict.fromkeys(note for model in parsed for note in model.source.notes))
    kind = f"mean of {len(parsed)} models ({common('kind')})"
    return ModelSource(common("library"), common("version"), kind, notes)


def check_refits(refits: ReadRefits, X: Any) -> ModelCheck | None:
    """Compare each parsed model with its library; see `check_against_library`.

    Raises
    ------
    ModelMismatchError
        If one differs by more than rounding.
    """
    checks = [
        check_against_library(given, parsed, X)
        for given, parsed in zip(refits.given, refits.parsed, strict=True)
    ]
    of_centre = check_against_library(refits.centre, refits.centre, X)
    if of_centre is None:
        return None
    known = [check for check in checks if check is not None]
    errors = [check.error for check in known if check.error is not None]
    notes = dict.fromkeys(check.note for check in known if check.note)
    error = max(errors) if len(errors) == len(checks) else None
    return replace(of_centre, error=error, note=" ".join(notes))


def purify_refits(refits: ReadRefits, request: Request, wanted: Wanted) -> Outcome:
    """Purify several models on one common grid.

    That is the grid of all their cuts where it fits the memory budget. Else each cut is moved to
    the nearest of fewer that are kept, as many as fit, and what that changes is in the remainder.

    Raises
    ------
    MemoryBudgetError
        If not even few cells fit, or the models have no cuts that can be moved.
    """
    try:
        return _purify(refits, refits.centre, refits.stack, request, wanted)
    except MemoryBudgetError:
        if not isinstance(refits.stack, TreeEnsemble) or request.columns is None:
            raise
    return _purify_on_fewer_cuts(refits, refits.stack, request.columns, request, wanted)


def _purify(
    refits: ReadRefits, centre: Model, stack: Model, request: Request, wanted: Wanted
) -> Outcome:
    planned = plan(stack, request)
    of_stack = run(planned, request, wanted, ParsedFunction(centre))
    settled = request
    if request.method == "auto":
        settled = replace(settled, method=planned.route)
    if isinstance(stack, AdditiveTables):
        resolution: Resolution = "union" if planned.layout.resolution == "union" else "term"
        settled = replace(settled, resolution=resolution)
    planned = plan(centre, settled)
    result = run(planned, settled, wanted)
    spread = _spread(refits, of_stack, result, wanted)
    facts = planned.facts()
    facts["refits"] = {
        "models": refits.n_models,
        "how": refits.how,
        "decomposed": "mean" if refits.is_mean else "given model",
        "common_grid": "coarse cells" if planned.route == "coarse" else "all cuts",
        "cells": {axis.name: axis.n_cells for axis in planned.layout.union_grid.axes},
        "without_spread": [
            list(subset)
            for subset in result.components
            if wanted.keeps(subset) and subset not in spread.stacked
        ],
    }
    if not refits.is_mean:
        facts["model"] = refits.parsed[-1].facts()
    return Outcome(result, planned.layout, facts, spread)


def _spread(refits: ReadRefits, of_stack: Result, result: Result, wanted: Wanted) -> Spread:
    """Return the tables of all models; cells and masses are those of the centre."""
    names = refits.centre.output_names
    n_stacked = refits.n_models * len(names)
    stacked: dict[Subset, TensorComponent] = {}
    for subset, component in result.components.items():
        other = of_stack.components.get(subset)
        if not isinstance(component, TensorComponent) or not isinstance(other, TensorComponent):
            continue
        if wanted.keeps(subset):
            values = np.ascontiguousarray(other.values[..., :n_stacked])
            stacked[subset] = replace(component, values=values, raw=None)
    return Spread(
        refits.n_models,
        refits.how,
        of_stack.intercept[:n_stacked].reshape(refits.n_models, len(names)),
        stacked,
        refits.centre.feature_names,
        names,
    )


def _purify_on_fewer_cuts(
    refits: ReadRefits, stack: TreeEnsemble, columns: Columns, request: Request, wanted: Wanted
) -> Outcome:
    """Purify models whose cuts are moved, and put what that changes into the remainder."""
    shares = row_shares(columns.n_rows, request.row_weights)
    n_cuts = [0 if cuts is None else len(cuts) for cuts in ensemble_cuts(stack)]
    failed = MemoryBudgetError("several models do not fit the memory budget: raise it")
    for n_cells in _FEWER_CELLS:
        if n_cells > max(n_cuts):
            continue
        moves = choose_moves(stack, columns, shares, n_cells)
        centre = refits.centre
        if isinstance(centre, TreeEnsemble):
            centre = move_cuts(centre, moves)
        try:
            purified = _purify(refits, centre, move_cuts(stack, moves), request, wanted)
        except MemoryBudgetError as error:
            failed = error
            continue
        return _with_difference(refits, purified, columns, request, wanted, moves)
    raise failed


def _with_difference(
    refits: ReadRefits,
    purified: Outcome,
    columns: Columns,
    request: Request,
    wanted: Wanted,
    moves: CutMoves,
) -> Outcome:
    """Return the components of moved models, with what they leave of the model as remainder."""
    result, function = purified.result, ParsedFunction(refits.centre)
    shares = row_shares(columns.n_rows, request.row_weights)
    margin = function(columns)
    is_rows = request.weighting.share_of_rows == 1.0
    intercept = shares @ margin if is_rows else result.intercept
    kept = {s: c for s, c in result.components.items() if wanted.keeps(s)}
    parts = zip(kept, evaluate_each(kept.values(), columns), strict=True)
    explained = measure_explained(margin, shares, intercept, parts)
    note = (
        "The models have cuts of their own, too many together: cuts were moved onto a common grid "
        f"of fewer, each over at most {moves.moved:.2%} of the rows. What that changes is in the "
        "remainder."
    )
    evidence = result.evidence or Evidence()
    notes = " ".join(part for part in (evidence.note, note) if part)
    all_cells = {
        spec.name: len(old) + 1
        for spec, old in zip(refits.centre.features, moves.old, strict=True)
        if old is not None
    }
    facts = {
        "common_grid": "fewer cuts",
        "cells_of_all_cuts": all_cells,
        "moved_rows": moves.moved,
        "r_squared": explained.share.tolist(),
    }
    return replace(
        purified,
        result=replace(
            result,
            intercept=intercept,
            evidence=replace(evidence, fitted_share=explained.share, note=notes),
            rest=Rest(function, explained.rest_variance),
            covariances=explained.covariances if is_rows else None,
        ),
        facts=purified.facts | {"refits": purified.facts["refits"] | facts},
    )
