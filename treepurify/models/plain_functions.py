"""The line that explains a model by its predictions only, for what is no sum on any scale."""

from typing import Any


def explain_predictions(model: Any, name: str = "model") -> str:
    """Return a line of code that fits effects to the numbers that a model predicts.

    Parameters
    ----------
    model : object
        A fitted model, or its class.
    name : str
        How the line calls it.

    Returns
    -------
    str

    Examples
    --------
    >>> from sklearn.ensemble import StackingRegressor
    >>> explain_predictions(StackingRegressor)
    'tp.hooker_anova(model.predict, X)'
    """
    if callable(model) and not isinstance(model, type) and not hasattr(model, "predict"):
        return f"tp.hooker_anova({name}, X)"
    if not hasattr(model, "predict_proba"):
        return f"tp.hooker_anova({name}.predict, X)"
    classes = getattr(model, "classes_", None)
    if classes is None or isinstance(classes, property) or len(classes) == 2:
        return f"tp.hooker_anova(lambda X: {name}.predict_proba(X)[:, 1], X)"
    return f"tp.hooker_anova({name}.predict_proba, X)"
