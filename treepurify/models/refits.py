"""Several trainings of one model: what was trained, and how."""

import copy
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from treepurify.errors import InvalidInputError, UnsupportedModelError

GivenRefits = list[Any] | tuple[Any, ...] | Literal["bags"]


class Refits(list[Any]):
    """Trained models in a list that knows how they were trained, in words."""

    def __init__(self, models: Iterable[Any], how: str = "") -> None:
        super().__init__(models)
        self.how = how


def read_trainings(model: Any, refits: Any) -> tuple[Refits, list[Any]] | None:
    """Return several trainings, and the model of which they are; no model for their mean.

    Parameters
    ----------
    model : object
        A model, or two or more in a list or tuple.
    refits : list or tuple of object, or "bags", optional
        Other trainings of the model; the outer bags of an EBM.

    Returns
    -------
    tuple of Refits and list of object
        None if there is one model only.

    Raises
    ------
    InvalidInputError
        If there are fewer than two trainings, or one of them is None.
    UnsupportedModelError
        If the model has no bags.
    """
    if refits is None:
        if not isinstance(model, list | tuple):
            return None
        given, of = model, []
    elif isinstance(model, list | tuple):
        raise InvalidInputError(
            "with refits, model is the one model that is decomposed; got a list: pass one of "
            "them, or leave refits out to decompose the mean of the list"
        )
    elif isinstance(refits, str) and refits == "bags":
        given, of = _ebm_bags(model), [model]
    else:
        given, of = refits, [model]
    if not isinstance(given, list | tuple) or len(given) < 2:
        raise InvalidInputError(
            "refits are two or more trained models in a list, such as those that tp.refit "
            f"returns; got {type(given).__name__}"
            + (f" of {len(given)}" if isinstance(given, list | tuple) else "")
        )
    if any(one is None for one in given):
        raise InvalidInputError("refits contains None in place of a trained model")
    return Refits(given, getattr(given, "how", "")), of


def _ebm_bags(ebm: Any) -> Refits:
    """Return the bags of an explainable boosting machine, which is their mean, as EBMs."""
    scores = getattr(ebm, "bagged_scores_", None)
    intercepts = getattr(ebm, "bagged_intercept_", None)
    if scores is None or intercepts is None or len(intercepts) < 2:
        raise UnsupportedModelError(
            f"this {type(ebm).__name__} does not contain the scores of two bags or more: train an "
            "ExplainableBoostingRegressor or ExplainableBoostingClassifier with outer_bags=2 or "
            "more. Editing and merging may have dropped them"
        )
    bags = []
    for bag in range(len(intercepts)):
        alone = copy.copy(ebm)
        alone.term_scores_ = [of_term[bag] for of_term in scores]
        own = intercepts[bag]
        alone.intercept_ = float(own) if isinstance(ebm.intercept_, float) else np.atleast_1d(own)
        bags.append(alone)
    return Refits(bags, "bags of an EBM")
