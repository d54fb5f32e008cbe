"""Several models of the same columns as one: their outputs side by side, or their weighted sum."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.models.parsed import ModelSource
from treepurify.models.pipelines.join import side_by_side, weighted_sum
from treepurify.models.table_join import join_tables
from treepurify.typing import Array

__all__ = ["check_alike", "sum_of_models", "together"]


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
            ("the link", model.link, first.link),
        ):
            if own != expected:
                raise InvalidInputError(
                    f"several models are purified together where they predict the same from the "
                    f"same columns; {what} of model {number} are {_words(own)}, those of model 0 "
                    f"{_words(expected)}. Train all of them on the same columns and classes"
                )


def _words(value: object) -> str:
    words = ", ".join(map(repr, value)) if isinstance(value, tuple) else str(value)
    return words if len(words) <= 120 else f"{words[:117]}..."


def together(models: Sequence[Model]) -> Model:
    """Return one model with the outputs of all models, those of the first one first.

    Parameters
    ----------
    models : sequence of TreeEnsemble, or sequence of AdditiveTables
        Models of one form; see `check_alike`.
    """
    n_models, n_outputs = len(models), models[0].n_outputs
    names = tuple(
        f"{name} of model {m}" for m in range(n_models) for name in models[0].output_names
    )
    source = replace(models[0].source, kind=f"{n_models} models side by side")
    ensembles = [model for model in models if isinstance(model, TreeEnsemble)]
    tables = [model for model in models if isinstance(model, AdditiveTables)]
    try:
        if ensembles:
            return side_by_side(ensembles, names, models[0].link, source)
        apart = np.eye(n_models * n_outputs).reshape(n_models, n_outputs, -1)
        return replace(join_tables(tables, apart), output_names=names, source=source)
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
            return weighted_sum(ensembles, weights.tolist(), names, source)
        shares = weights[:, None, None] * np.eye(len(names))
        return replace(join_tables(tables, shares), source=source)
    except UnsupportedModelError as error:
        raise _read_differently(error) from error


def _read_differently(error: UnsupportedModelError) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the models cannot be purified together: {error}. Give all of them columns of the same "
        "types and, in columns of categories, the same categories"
    )
