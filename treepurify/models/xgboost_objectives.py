"""What an XGBoost objective says about the base score and the response."""

import json
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify._kernels.single_precision import log_of_singles, softplus_inverse_of_singles
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link, LinkName
from treepurify.models.xgboost_nodes import singles

# From 3.2 on XGBoost keeps probabilities this far from 0 and 1 before it takes their logit;
# older versions take the logit of what is stored, and load nothing outside of (0, 1).
_SMALLEST_PROBABILITY = np.float32(1e-6)
_LARGEST_PROBABILITY = np.float32(1) - _SMALLEST_PROBABILITY
_CLAMPED_SINCE = (3, 2)
# Expectiles of one model are at least this far apart.
_SMALLEST_GAP = np.float32(1e-6)

BaseScale = Literal["identity", "logit", "log", "gaps"]


@dataclass(frozen=True)
class Objective:
    """How an objective reads margins.

    Parameters
    ----------
    name : str
        Name in XGBoost.
    link : Link
        From the margin to what ``predict`` returns.
    base_scale : {"identity", "logit", "log", "gaps"}
        Function that takes the stored base score to the margin; ``"gaps"`` takes the steps
        between the scores of the outputs.
    note : str
        What a user should know, or "".
    """

    name: str
    link: Link
    base_scale: BaseScale
    note: str = ""


def _named(link: LinkName, scale: BaseScale, *names: str, note: str = "") -> dict[str, Objective]:
    return {name: Objective(name, Link(link), scale, note) for name in names}


_OBJECTIVES = {
    **_named(
        "identity",
        "identity",
        "reg:squarederror",
        "reg:linear",
        "reg:squaredlogerror",
        "reg:pseudohubererror",
        "reg:absoluteerror",
        "reg:quantileerror",
        "rank:pairwise",
        "rank:ndcg",
        "rank:map",
    ),
    **_named(
        "identity", "identity", "binary:logitraw", note="the margin is the log-odds of the class"
    ),
    **_named(
        "step", "identity", "binary:hinge", note="predict() returns 1 where the margin is above 0"
    ),
    **_named("logit", "logit", "binary:logistic", "reg:logistic"),
    **_named(
        "log", "log", "count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"
    ),
    **_named("softmax", "identity", "multi:softmax", "multi:softprob"),
    **_named("ordered", "gaps", "reg:expectileerror"),
}


def find_objective(name: Any, n_outputs: int = 1) -> Objective:
    """Return what is known about an objective.

    Parameters
    ----------
    name : str
        Name as stored in the model.
    n_outputs : int
        Number of outputs of the model.

    Returns
    -------
    Objective

    Raises
    ------
    UnsupportedModelError
        If the objective is not known: its base score could not be placed on the margin scale.
    """
    objective = _OBJECTIVES.get(name) if isinstance(name, str) else None
    if objective is None:
        raise UnsupportedModelError(
            f"unknown XGBoost objective {reprlib.repr(name)}: the scale of its base score is "
            f"unknown. Supported: {', '.join(sorted(_OBJECTIVES))}"
        )
    if objective.link.name == "ordered" and n_outputs == 1:
        return replace(objective, link=Link())
    return objective


def base_margin(
    stored: Any, objective: Objective, n_outputs: int, version: Sequence[int] = _CLAMPED_SINCE
) -> npt.NDArray[np.float32]:
    """Return the constant on the margin scale, rounded as XGBoost rounds it.

    Parameters
    ----------
    stored : str
        The base score as stored: ``"5E-1"`` up to XGBoost 3.0, ``"[5E-1]"`` or one number an
        output from 3.1 on.
    objective : Objective
        The model's objective.
    n_outputs : int
        Number of outputs.
    version : sequence of int
        The version of XGBoost that wrote the model; empty where it does not say.

    Returns
    -------
    ndarray of float32, shape (n_outputs,)

    Raises
    ------
    InvalidInputError
        If the base score cannot be read, or is one that this version does not load.
    UnsupportedModelError
        If the margin is infinite, or depends on a version that the model does not say.

    Examples
    --------
    >>> base_margin("5E-1", find_objective("binary:logistic"), 1).round(3) + 0.0
    array([0.], dtype=float32)
    """
    score = _scores(stored)
    # One number stands for all outputs, but not where each output has a step of its own.
    shapes = {(n_outputs,)} if objective.base_scale == "gaps" else {(1,), (n_outputs,)}
    if score.shape not in shapes or not np.all(np.isfinite(score)):
        raise InvalidInputError(
            f"the base score {reprlib.repr(stored)} must be one finite number, or one per output "
            f"({n_outputs}); the model is damaged"
        )
    if objective.base_scale == "logit":
        score = _probability(stored, score, version)
        score = -log_of_singles(np.float32(1) / score - np.float32(1))
    elif objective.base_scale == "log":
        if np.any(score <= 0):
            raise UnsupportedModelError(
                f"the base score {reprlib.repr(stored)} of {objective.name} is 0 or negative, "
                "so every margin is infinite"
            )
        score = log_of_singles(score)
    elif objective.base_scale == "gaps":
        steps = np.maximum(np.diff(score) - _SMALLEST_GAP, _SMALLEST_GAP)
        score = np.concatenate([score[:1], softplus_inverse_of_singles(steps)])
    return np.broadcast_to(score, (n_outputs,)).copy()


def depends_on_version(stored: Any, objective: Objective) -> bool:
    """Whether versions of XGBoost take the base score to different margins.

    Parameters
    ----------
    stored : str
        The base score as stored; see `base_margin`.
    objective : Objective
        The model's objective.

    Returns
    -------
    bool
    """
    score = _scores(stored)
    clamped = np.clip(score, _SMALLEST_PROBABILITY, _LARGEST_PROBABILITY)
    return objective.base_scale == "logit" and not np.array_equal(score, clamped)


def _scores(stored: Any) -> npt.NDArray[np.float32]:
    """Return the stored numbers; none where they cannot be read."""
    try:
        return singles(np.atleast_1d(np.array(json.loads(str(stored)), dtype=np.float64)))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return np.empty(0, dtype=np.float32)


def _probability(
    stored: Any, score: npt.NDArray[np.float32], version: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Return the probabilities that a version of XGBoost takes the logit of."""
    clamped = np.clip(score, _SMALLEST_PROBABILITY, _LARGEST_PROBABILITY)
    if np.array_equal(clamped, score):
        return score
    if not version:
        raise UnsupportedModelError(
            f"the margin of the base score {reprlib.repr(stored)} depends on the version of "
            "XGBoost, which the model does not state; save it again with the XGBoost that "
            "trained it"
        )
    if tuple(version) >= _CLAMPED_SINCE:
        return clamped
    if np.any((score <= 0) | (score >= 1)):
        raise InvalidInputError(
            f"the base score {reprlib.repr(stored)} of a logistic model is not between 0 and 1, "
            f"which XGBoost {'.'.join(map(str, version))} rejects; the model is damaged"
        )
    return score
