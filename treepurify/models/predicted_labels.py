"""Refuse to explain labels: what ``predict`` of classifiers and their relatives returns."""

from functools import partial
from typing import Any

from treepurify.errors import InvalidInputError
from treepurify.models.pipelines.steps import is_pipeline, unwrap

# What `predict` of each kind of estimator returns, and the methods that return a score instead.
_LABELS = {
    "classifier": ("class labels", ("predict_proba", "decision_function")),
    "outlier_detector": (
        "labels, -1 for outliers and +1 for all others",
        ("score_samples", "decision_function"),
    ),
    "clusterer": ("numbers of clusters", ("transform",)),
    "density_estimator": ("numbers of components", ("score_samples", "predict_proba")),
}
# Which of their columns a caller may want.
_COLUMN = {"predict_proba": "[:, 1]", "transform": "[:, 0]"}
# Arguments with which `predict` of a classifier returns scores (XGBoost, LightGBM, CatBoost).
_SCORE_ARGUMENTS = frozenset({"output_margin", "raw_score", "prediction_type"})


def check_predicts_no_labels(f: Any) -> None:
    """Raise if a model, or a method ``predict``, returns labels.

    Numbers such as 0, 1 and 2 that stand for classes, clusters or outliers have no mean and no
    variance that says anything about the model.

    Parameters
    ----------
    f : object
        A model with ``predict``, its bound method, a `functools.partial` of that, or any other
        function.

    Raises
    ------
    InvalidInputError
        If it returns labels; names the model, and the method that returns a score.
    """
    model = _asked_for_predictions(f)
    kind = None if model is None else _kind_of_labels(model)
    if kind is None:
        return
    what, scores = _LABELS[kind]
    raise InvalidInputError(
        f"predict of the {kind.replace('_', ' ')} {type(model).__name__} returns {what}, which "
        f"are not scores: {_advice(model, scores)}"
    )


def _advice(model: Any, scores: tuple[str, ...]) -> str:
    score = next((name for name in scores if hasattr(model, name)), None)
    if score is None:
        return (
            "pass a function of rows that returns the score to explain; the model has no "
            f"{' or '.join(scores)}"
        )
    column = _COLUMN.get(score, "")
    # Of several targets, scikit-learn returns a list with the probabilities of each.
    if score == "predict_proba" and isinstance(getattr(model, "classes_", None), list):
        column = f"[0]{column}"
    return f"pass the score to explain, such as lambda X: model.{score}(X){column}"


def _asked_for_predictions(f: Any) -> Any | None:
    """Return the model whose ``predict``, as it is called without further arguments, `f` is."""
    if isinstance(f, type):
        return None
    if hasattr(f, "predict"):
        return f
    while isinstance(f, partial):
        if any(f.keywords.get(name, "Class") not in ("Class", False) for name in _SCORE_ARGUMENTS):
            return None
        f = f.func
    owner = getattr(f, "__self__", None)
    return owner if getattr(f, "__name__", "") == "predict" and hasattr(owner, "predict") else None


def _kind_of_labels(model: Any) -> str | None:
    """Return the kind of estimator, one of `_LABELS`; None if it predicts numbers."""
    inside = unwrap(model)
    while is_pipeline(inside):
        inside = unwrap(inside.steps[-1][1])
    catboost = {cls.__name__ for cls in type(inside).__mro__ if cls.__module__ == "catboost.core"}
    if "CatBoost" in catboost:
        # All have `classes_`, and only this class predicts them: others return the raw value, of a
        # loss for classes too.
        return "classifier" if "CatBoostClassifier" in catboost else None
    marked = _marked_kind(model)
    if marked is not None:
        return marked if marked in _LABELS else None
    if hasattr(model, "predict_proba") or hasattr(model, "classes_"):
        return "classifier"
    if not hasattr(model, "fit_predict"):
        return None
    return "outlier_detector" if hasattr(model, "decision_function") else "clusterer"


def _marked_kind(model: Any) -> str | None:
    """Return what an estimator says that it is, by scikit-learn's tags or as before them."""
    try:
        kind = model.__sklearn_tags__().estimator_type
    except Exception:  # noqa: BLE001 - the tags of people's classes raise whatever they like
        kind = None
    kind = kind or getattr(model, "_estimator_type", None)
    return kind if isinstance(kind, str) else None
