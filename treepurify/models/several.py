"""Several models of the same columns: on common ones, or as their weighted sum."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.models.parsed import ModelSource
from treepurify.models.pipelines.join import common_features, weighted_sum, with_common_columns
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array

# The labels of a categorical axis are followed by the cell of unseen values and the missing cell.
_SPECIAL_CELLS = 2


def check_alike(models: Sequence[Model]) -> None:
    """Raise unless models have the same columns, the same outputs and the same link.

    Raises
    ------
    InvalidInputError
        If a model differs from the first in one of these; says which, and in what.
    """
    first = models[0]
    for number, model in enumerate(models[1:], start=1):
        for what, own, expected in (
            ("the columns", model.feature_names, first.feature_names),
            ("the outputs", model.output_names, first.output_names),
        ):
            if own != expected:
                raise InvalidInputError(
                    "models can only be purified together if they predict the same outputs from "
                    f"the same columns; {what} are {_words(own)} in model {number} and "
                    f"{_words(expected)} in model 0. Train all of them on the same columns and "
                    "classes"
                )
        if model.link != first.link:
            raise InvalidInputError(_different_links(number, model.link, first.link))


def _different_links(number: int, own: Link, first: Link) -> str:
    if own.name == first.name == "transformed":
        return (
            "each of several models has learned its own transform of the target, so their effects "
            "have different units: transform the target once (transformer.fit_transform), and "
            "train the regressors inside on the result; or train with the same targets, as in "
            'tp.refit(model, X, y, how="seeds")'
        )
    if own.name == first.name:
        return (
            f"the {own.name!r} links of model {number} and model 0 have different parameters, so "
            "their effects have different units: purify each of them alone"
        )
    return (
        "models can only be purified together if their effects have the same units; the link "
        f"is {own.name!r} in model {number} and {first.name!r} in model 0. Train all of them "
        "with the same objective"
    )


def _words(value: object) -> str:
    words = ", ".join(map(repr, value)) if isinstance(value, tuple) else str(value)
    return words if len(words) <= 120 else f"{words[:117]}..."


def on_common_columns(models: Sequence[Model]) -> list[Model]:
    """Return models whose columns know every label that any of them knows.

    Parameters
    ----------
    models : sequence of TreeEnsemble, or sequence of AdditiveTables
        Models of one form; see `check_alike`.
    """
    ensembles = [model for model in models if isinstance(model, TreeEnsemble)]
    tables = [model for model in models if isinstance(model, AdditiveTables)]
    try:
        if ensembles:
            return [*with_common_columns(ensembles)]
        # On the bins of all of them: a term of weight zero gives its bins, and adds nothing.
        alone = np.multiply.outer(np.eye(len(tables)), np.eye(tables[0].n_outputs))
        return [
            replace(_join_tables(tables, shares), source=model.source)
            for model, shares in zip(tables, alone, strict=True)
        ]
    except UnsupportedModelError as error:
        raise _read_differently(error) from error


def sum_of_models(models: Sequence[Model], weights: Array, source: ModelSource) -> Model:
    """Return the weighted sum of models; one of weight zero gives its cuts, and adds nothing.

    Parameters
    ----------
    models : sequence of TreeEnsemble, or sequence of AdditiveTables
        Models of one form; see `check_alike`.
    weights : ndarray of float64, shape (n_models,)
        Factor on the margin of each.
    source : ModelSource
        What the sum is.
    """
    names = models[0].output_names
    ensembles = [model for model in models if isinstance(model, TreeEnsemble)]
    tables = [model for model in models if isinstance(model, AdditiveTables)]
    try:
        if ensembles:
            return replace(weighted_sum(ensembles, weights.tolist(), names), source=source)
        shares = weights[:, None, None] * np.eye(len(names))
        return replace(_join_tables(tables, shares), source=source)
    except UnsupportedModelError as error:
        raise _read_differently(error) from error


def _read_differently(error: UnsupportedModelError) -> UnsupportedModelError:
    return UnsupportedModelError(f"the models cannot be purified together: {error}")


def _join_tables(models: Sequence[AdditiveTables], shares: Array) -> AdditiveTables:
    """Return the terms of several models as those of one.

    Terms on the same cells become one term. A bin weighs as much as it does in the mean over the
    models, as long as all of them have terms on the same cells; else it has no weight.

    Parameters
    ----------
    models : sequence of AdditiveTables
        Models of the same columns, with as many outputs each.
    shares : ndarray of float64, shape (n_models, n_outputs, n_joined)
        What each output of each model adds to each output of the whole.

    Returns
    -------
    AdditiveTables
        With the names, the link and the source of the first.

    Raises
    ------
    UnsupportedModelError
        If the models read a column in different ways.
    """
    features = common_features(models)
    widened = [_with_labels(model, features) for model in models]
    joined: dict[tuple[Any, ...], list[tuple[TableTerm, Array]]] = {}
    for model, share in zip(widened, shares, strict=True):
        for term in model.terms:
            joined.setdefault(_cells_of(term), []).append((term, share))
    return replace(
        models[0],
        terms=tuple(_sum(parts, len(models)) for parts in joined.values()),
        base=np.sum([m.base @ share for m, share in zip(models, shares, strict=True)], axis=0),
        features=features,
    )


def _cells_of(term: TableTerm) -> tuple[Any, ...]:
    """Return what two terms on the same cells have in common."""
    return term.features, tuple(None if cuts is None else cuts.tobytes() for cuts in term.cuts)


def _sum(parts: list[tuple[TableTerm, Array]], n_models: int) -> TableTerm:
    first, _ = parts[0]
    scores = np.sum([term.scores @ share for term, share in parts], axis=0)
    weights = [term.weights for term, _ in parts if term.weights is not None]
    is_known = len(weights) == len(parts) == n_models
    return replace(first, scores=scores, weights=np.mean(weights, axis=0) if is_known else None)


def _with_labels(model: AdditiveTables, features: tuple[FeatureSpec, ...]) -> AdditiveTables:
    """Widen the tables to labels that other models know; this one does not distinguish them."""
    pairs = list(zip(model.features, features, strict=True))
    if all(own.categories == common.categories for own, common in pairs):
        return replace(model, features=features)
    takes = {
        j: np.array(
            [own.code_of.get(label, own.n_codes) for label in common.categories]
            + [own.n_codes + cell for cell in range(_SPECIAL_CELLS)]
        )
        for j, (own, common) in enumerate(pairs)
        if common.categories is not None
    }
    terms = tuple(_widened(term, model, takes) for term in model.terms)
    return replace(model, features=features, terms=terms)


def _widened(term: TableTerm, model: AdditiveTables, takes: dict[int, Any]) -> TableTerm:
    scores, weights = term.scores, term.weights
    for position, j in enumerate(term.features):
        if term.cuts[position] is not None or j not in takes:
            continue
        scores = scores.take(takes[j], axis=position)
        if weights is not None:
            weights = weights.take(takes[j], axis=position)
            # A label that the model does not know has no mass of its own in it.
            unknown = takes[j][:-_SPECIAL_CELLS] == model.features[j].n_codes
            index: list[Any] = [slice(None)] * weights.ndim
            index[position] = np.flatnonzero(unknown)
            weights[tuple(index)] = 0.0
    return replace(term, scores=scores, weights=weights)
