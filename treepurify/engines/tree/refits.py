"""Read several trainings of one model: what is decomposed, and all of them side by side.

A tree ensemble becomes an additive model of tables where it is combined with an EBM.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.effects.accumulate import accumulate, ensemble_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.grids.grid import make_grid
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, read_uncompared
from treepurify.models.parsed import ModelCheck, ModelSource, check_against_library
from treepurify.models.pipelines.shared_columns import with_shared_columns
from treepurify.models.refits import read_trainings
from treepurify.models.several import check_alike, sum_of_models, together

__all__ = ["ReadRefits", "read_refits"]


@dataclass(frozen=True, eq=False)
class ReadRefits:
    """Trained models, read.

    Parameters
    ----------
    parsed : tuple of TreeEnsemble or AdditiveTables
        The models; last the one that they are refits of, where there is one.
    centre : TreeEnsemble or AdditiveTables
        What is decomposed, with the cuts of all of them: their mean, or the one that they are
        refits of.
    stack : TreeEnsemble or AdditiveTables
        All of them, their outputs side by side.
    n_models : int
        Number of refits.
    how : str
        How they were trained.
    check : ModelCheck, optional
        What came of the comparison of each with its library.
    """

    parsed: tuple[Model, ...]
    centre: Model
    stack: Model
    n_models: int
    how: str
    check: ModelCheck | None

    @property
    def is_mean(self) -> bool:
        """Whether the mean of the refits is decomposed."""
        return len(self.parsed) == self.n_models


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
    given = (*models, *of)
    read = [read_uncompared(each, X, feature_names) for each in given]
    parsed: tuple[Model, ...] = tuple(read)
    ensembles = [one for one in parsed if isinstance(one, TreeEnsemble)]
    if len(ensembles) == len(parsed):
        parsed = tuple(with_shared_columns(ensembles))
    check_alike(parsed)
    common = _one_form(parsed, memory_budget)
    n_models = len(models)
    weights = np.full(len(given), 1.0 / n_models)
    source = _mean_source(parsed)
    if of:
        weights[:n_models], weights[n_models] = 0.0, 1.0
        source = parsed[-1].source
    centre = sum_of_models(common, weights, source)
    if X is not None:
        for each in read:
            each.compare(X)
    check = _common_check([each.check for each in read], centre, X)
    return ReadRefits(parsed, centre, together(common), n_models, models.how, check)


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
