"""Wrappers that predict as the one model inside them."""

from typing import Any

from treepurify.errors import InvalidInputError
from treepurify.models.pipelines.steps import Steps, known_class

__all__ = ["unwrap"]

_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
# The attribute that holds the fitted model. A threshold moves the decision, not the probability.
_INSIDE = {
    **dict.fromkeys(_SEARCHES, "best_estimator_"),
    "FrozenEstimator": "estimator",
    "FixedThresholdClassifier": "estimator_",
    "TunedThresholdClassifierCV": "estimator_",
}


# Selections of columns that predict with the model that they kept.
_SELECTIONS = frozenset({"RFE", "RFECV"})


def unwrap(model: Any) -> Any:
    """Return the model that a search, a frozen estimator, a threshold or a training stands for.

    Of a recursive feature elimination that is a pipeline: the selection, and the model it kept.

    Parameters
    ----------
    model : object
        Any model.

    Returns
    -------
    object
        The model inside, or the model itself.

    Raises
    ------
    InvalidInputError
        If a search is not fitted, or kept no model.
    """
    if isinstance(model, dict) and {"booster", "history"} <= set(model):
        # What xgboost.dask.train returns: the model, and how its training went.
        model = model["booster"]
    while (kind := known_class(model)) in _INSIDE:
        attribute = _INSIDE[kind]
        if not hasattr(model, attribute):
            advice = "call fit() before you pass it"
            if kind in _SEARCHES:
                advice += ", with refit=True so that it keeps the best model (best_estimator_)"
            raise InvalidInputError(f"this {kind} contains no fitted model; {advice}")
        model = getattr(model, attribute)
    if kind in _SELECTIONS:
        if not hasattr(model, "estimator_"):
            raise InvalidInputError(f"this {kind} is not fitted; call fit() before you pass it")
        return Steps([("selection", model), ("model", model.estimator_)])
    return model
