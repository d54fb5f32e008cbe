"""One calibrated binary classifier: its margin stays a sum, the calibrator becomes the link."""

from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.pipelines.join import rescale
from treepurify.models.plain_functions import explain_predictions
from treepurify.typing import Array

__all__ = ["calibrated_ensemble", "calibrated_margin", "calibration_of"]

_INSTEAD = (
    "Train with ensemble=False (one sigmoid or isotonic curve, two classes only); or purify the "
    "estimator that it calibrates, its calibrated_classifiers_[0].estimator; or explain the "
    "probability: "
)


def calibration_of(model: Any) -> tuple[Any, Any]:
    """Return the one estimator and the one calibrator of a fitted CalibratedClassifierCV.

    Raises
    ------
    UnsupportedModelError
        If there are several, or the calibrator is neither a sigmoid nor an isotonic curve.
    """
    fitted = model.calibrated_classifiers_
    reason = ""
    if len(fitted) > 1:
        reason = f"it averages the probabilities of {len(fitted)} models, each with its own curve"
    elif len(model.classes_) != 2:
        reason = (
            f"it calibrates each of {len(model.classes_)} classes separately, then rescales their "
            "probabilities to sum to one"
        )
    elif fitted[0].method not in ("sigmoid", "isotonic"):
        reason = f"its method {fitted[0].method!r} is not supported"
    if reason:
        raise UnsupportedModelError(
            f"this CalibratedClassifierCV is not a sum of trees on any known scale: {reason}. "
            f"{_INSTEAD}{explain_predictions(model)}"
        )
    return fitted[0].estimator, fitted[0].calibrators[0]


def calibrated_ensemble(inside: TreeEnsemble, estimator: Any, calibrator: Any) -> TreeEnsemble:
    """Return the trees of an estimator with the link that its calibrator makes.

    A sigmoid on a decision function is an affine margin with the link logit; on a probability,
    and for an isotonic curve, the margin stays that of the estimator.

    Parameters
    ----------
    inside : TreeEnsemble
        The estimator that is calibrated.
    estimator, calibrator : object
        What `calibration_of` returns.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        If it is not known how the estimator's probability follows from its margin.
    """
    if _is_affine(estimator, calibrator):
        return replace(rescale(inside, -calibrator.a_, -calibrator.b_), link=Link("logit"))
    before = None
    if not hasattr(estimator, "decision_function") and inside.link.name != "identity":
        before = inside.link
    if inside.n_outputs != 1 or (before is not None and before.name == "unknown"):
        raise UnsupportedModelError(
            "this CalibratedClassifierCV transforms a probability that is not a function of one "
            f"margin: the model inside has {inside.n_outputs} outputs and the link "
            f"{inside.link.name!r}. {_INSTEAD}{explain_predictions(estimator)}"
        )
    if not hasattr(calibrator, "a_"):
        knots = tuple(map(float, calibrator.X_thresholds_))
        values = tuple(map(float, calibrator.y_thresholds_))
        return replace(inside, link=Link("isotonic", knots=knots, values=values, before=before))
    scale, shift = -float(calibrator.a_), -float(calibrator.b_)
    return replace(inside, link=Link("sigmoid", scale, shift=shift, before=before))


def calibrated_margin(margin: Array, estimator: Any, calibrator: Any) -> Array:
    """Return the margin of the calibrated classifier from that of its estimator."""
    if _is_affine(estimator, calibrator):
        return np.asarray(-calibrator.a_ * margin - calibrator.b_)
    return margin


def _is_affine(estimator: Any, calibrator: Any) -> bool:
    return hasattr(calibrator, "a_") and hasattr(estimator, "decision_function")
