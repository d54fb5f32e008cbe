"""The steps of a pipeline, what they return, and wrappers that predict as the model inside."""

from dataclasses import dataclass
from typing import Any

from treepurify.errors import InvalidInputError

__all__ = [
    "Steps",
    "does_nothing",
    "is_pipeline",
    "known_class",
    "returns_arrays",
    "returns_sparse",
    "takes_texts",
    "transformers_of",
    "unwrap",
]

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
_METHODS = ("predict", "predict_proba", "decision_function", "transform")


def known_class(model: Any) -> str:
    """Return the name of the scikit-learn class that an estimator predicts or transforms as.

    It is empty for other libraries, and where a class made from one of scikit-learn's has methods
    of its own, which may do something else; imbalanced-learn's are known.
    """
    for name in _METHODS:
        method = getattr(type(model), name, None)
        module = str(getattr(method, "__module__", "sklearn."))
        if not module.startswith(("sklearn.", "imblearn.")):
            return ""
    classes = (cls for cls in type(model).__mro__ if cls.__module__.startswith("sklearn."))
    return next((cls.__name__ for cls in classes), "")


@dataclass(frozen=True, eq=False)
class Steps:
    """An estimator that does what a pipeline of these fitted steps does.

    Parameters
    ----------
    steps : list of tuple of str and object
        As of a pipeline of scikit-learn.
    """

    steps: list[tuple[str, Any]]


def is_pipeline(model: Any) -> bool:
    """Return whether a model is `Steps`, or a pipeline of scikit-learn or imbalanced-learn."""
    return isinstance(model, Steps) or known_class(model) == "Pipeline"


def does_nothing(step: Any) -> bool:
    """Return whether a step passes all columns on; samplers do nothing at prediction."""
    if step is None or isinstance(step, str):
        return step is None or step == "passthrough"
    return hasattr(step, "fit_resample") and not hasattr(step, "predict")


def transformers_of(pipeline: Any) -> list[tuple[str, Any]]:
    """Return the steps before the last, but for those that do nothing at prediction."""
    return [(name, step) for name, step in pipeline.steps[:-1] if not does_nothing(step)]


def takes_texts(step: Any) -> bool:
    """Return whether a step takes a sequence of texts instead of a table (`TfidfVectorizer`)."""
    return hasattr(step, "build_analyzer") and hasattr(step, "transform")


def returns_arrays(transformer: Any) -> bool:
    """Return whether a transformer of scikit-learn makes arrays, in which categories are labels."""
    config = getattr(transformer, "_sklearn_output_config", {})
    is_joining = known_class(transformer) in ("ColumnTransformer", "FeatureUnion")
    return is_joining and config.get("transform") in (None, "default")


def returns_sparse(transformer: Any, *, gets_sparse: bool) -> bool:
    """Return whether a fitted transformer returns a sparse matrix.

    XGBoost takes the zeros of such a matrix for missing, and scalers round otherwise on it.

    Parameters
    ----------
    transformer : object
        A fitted transformer, ``"passthrough"``, ``"drop"`` or None.
    gets_sparse : bool
        Whether it gets one.
    """
    if isinstance(transformer, str) or does_nothing(transformer):
        return gets_sparse and transformer != "drop"
    if is_pipeline(transformer):
        for _, step in transformer.steps:
            gets_sparse = returns_sparse(step, gets_sparse=gets_sparse)
        return gets_sparse
    kind = type(transformer).__name__
    if type(transformer).__module__.startswith("category_encoders."):
        return False
    if kind == "ColumnTransformer":
        return bool(transformer.sparse_output_)
    if kind == "FeatureUnion":
        parts = [part for _, part in transformer.transformer_list]
        return any(returns_sparse(part, gets_sparse=gets_sparse) for part in parts)
    if kind == "OneHotEncoder":
        return bool(transformer.sparse_output)
    if kind == "KBinsDiscretizer":
        return bool(transformer.encode == "onehot")
    return gets_sparse and kind not in ("OrdinalEncoder", "TargetEncoder", "PowerTransformer")


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
