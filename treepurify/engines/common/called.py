"""Find the function that a model or a callable is asked for values with."""

from collections.abc import Callable
from functools import partial
from typing import Any

from treepurify.arguments import brief
from treepurify.errors import InvalidInputError

__all__ = ["called_function"]


def called_function(f: Any) -> Callable[[Any], Any]:
    """Return the function of rows that stands for `f`: its ``predict``, or `f` itself.

    Every engine that calls what it cannot parse asks here, so that all take and refuse the same.

    Parameters
    ----------
    f : callable or object with ``predict``
        A function of rows, or a trained model.

    Returns
    -------
    callable

    Raises
    ------
    InvalidInputError
        If `f` is neither, or gives the labels of a classifier: numbers such as 0, 1 and 2 that
        stand for classes have no mean and no variance that says anything about the model.
    """
    function: Any = getattr(f, "predict", f)
    if not callable(function) or isinstance(f, type):
        raise InvalidInputError(
            "expected a trained model, a function of rows, or an object with predict; got "
            f"{brief(f)}"
        )
    classifier = f if _is_classifier(f) else _classifier_of_labels(function)
    if classifier is not None:
        score = "predict_proba" if hasattr(classifier, "predict_proba") else "decision_function"
        column = "[:, 1]" if score == "predict_proba" else ""
        raise InvalidInputError(
            f"predict of the classifier {type(classifier).__name__} gives labels of classes, which "
            "are no scores: pass the score to explain, such as "
            f"lambda X: model.{score}(X){column}"
        )
    asked: Callable[[Any], Any] = function
    return asked


def _classifier_of_labels(function: Any) -> Any | None:
    """Return the classifier whose method ``predict`` a function is."""
    while isinstance(function, partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    is_predict = getattr(function, "__name__", "") == "predict"
    return owner if is_predict and _is_classifier(owner) else None


def _is_classifier(model: Any) -> bool:
    if model is None or isinstance(model, type) or not hasattr(model, "predict"):
        return False
    return hasattr(model, "predict_proba") or hasattr(model, "classes_")
