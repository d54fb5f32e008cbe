"""Read scikit-survival's gradient boosting: trees of scikit-learn on a survival loss."""

import sys
from typing import Any

import numpy as np

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.models.sklearn import ensemble_of_trees, in_model_order
from treepurify.typing import Array

__all__ = ["parse", "raw_margin"]

_KIND = "GradientBoostingSurvivalAnalysis"
# The predicted time is the exponential of the sum, but for the log of the hazard ratio.
_LINKS = {"coxph": Link(), "squared": Link("log"), "ipcwls": Link("log")}
_FORESTS = ("SurvivalTree", "ExtraSurvivalTree", "RandomSurvivalForest", "ExtraSurvivalTrees")
_INSTEAD = f"Train a {_KIND}, or explain it by its predictions: tp.hooker_anova(model.predict, X)"


def parse(model: Any) -> TreeEnsemble:
    """Read a trained GradientBoostingSurvivalAnalysis.

    Parameters
    ----------
    model : estimator
        With any loss, with or without dropout.

    Returns
    -------
    TreeEnsemble
        Of ``loss="coxph"`` the margin is the prediction, the log of the hazard ratio; of the
        others the prediction, a time, is its exponential.

    Raises
    ------
    UnsupportedModelError
        If it is another estimator of scikit-survival, or starts from another model.
    InvalidInputError
        If it is not fitted.
    """
    link = _link(model)
    trees = [tree.tree_ for tree in np.ravel(model.estimators_)]
    sizes = [tree.node_count for tree in trees]
    # Dropout leaves each tree a share of its own.
    shares = model.learning_rate * np.asarray(getattr(model, "_scale", np.ones(len(trees))))
    value = np.concatenate([tree.value[:, 0] for tree in trees])
    value = np.repeat(shares, sizes)[:, None] * value
    version = getattr(sys.modules.get("sksurv"), "__version__", "unknown")
    note = (
        "scikit-survival rejects missing values for this model; here they follow the right branch"
    )
    source = ModelSource("scikit-survival", version, _KIND, (note,))
    leaves = (value, ("margin",), np.zeros(1), link)
    return ensemble_of_trees(model, trees, leaves, source, allows_missing=False)


def raw_margin(model: Any, X: Any) -> Array:
    """Return scikit-survival's own prediction on the scale of the margin.

    Parameters
    ----------
    model : estimator
        A trained model that `parse` reads.
    X : array_like or table of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    ndarray of float64, shape (n_rows, 1)

    Raises
    ------
    UnsupportedModelError, InvalidInputError
        As `parse`.
    """
    link = _link(model)
    own = np.asarray(model.predict(in_model_order(model, X)), dtype=np.float64)[:, None]
    return np.log(own) if link.name == "log" else own


def _link(model: Any) -> Link:
    kind = type(model).__name__
    if kind != _KIND or not type(model).__module__.startswith("sksurv."):
        reason = "only models whose prediction is a sum of leaf values are supported."
        if kind in _FORESTS:
            reason = (
                "its leaves contain curves over time, not single values, and cannot be decomposed."
            )
        elif kind == "ComponentwiseGradientBoostingSurvivalAnalysis":
            reason = "it is a linear model, not a sum of trees."
        raise UnsupportedModelError(f"{kind} cannot be decomposed exactly: {reason} {_INSTEAD}")
    if not hasattr(model, "estimators_"):
        raise InvalidInputError(f"this {kind} is not fitted; call fit() before you pass it")
    start = model.init_
    if not (isinstance(start, str) and start == "zero"):
        raise UnsupportedModelError(
            f"this {kind} starts from another model, init={start!r}, whose predictions are not a "
            "sum of trees. Train it without init."
        )
    if model.loss not in _LINKS:
        raise UnsupportedModelError(
            f"this {kind} has the loss {model.loss!r}, which is not supported; the supported ones "
            f"are {', '.join(sorted(_LINKS))}"
        )
    return _LINKS[model.loss]
