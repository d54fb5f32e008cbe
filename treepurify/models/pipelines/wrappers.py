"""Wrappers of several models, or of one on another scale, where they are sums of trees."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link, LinkName
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.models.pipelines.join import rescale, side_by_side, weighted_sum
from treepurify.models.pipelines.steps import known_class, state_fingerprint
from treepurify.models.plain_functions import explain_predictions
from treepurify.rows.tables import is_sparse, read_matrix
from treepurify.typing import Array

Inside = list[TreeEnsemble]
Margin = Callable[[Any, Any], Array]

_SEED = "random_state"
# How the function of a target is undone: the link from the margin to the response.
_INVERSES: dict[str, LinkName] = {"exp": "log", "expm1": "log1p"}
_ELEMENTWISE = {"identity", "logit", "log", "cloglog", "sqrt", "softplus"}


class _Kind(NamedTuple):
    """A class of wrappers: what holds the models inside, how they become one, and its answer."""

    fitted: str
    join: Callable[[Any, Inside], TreeEnsemble]
    margin: Callable[[Any, Any, Margin], Any]


def is_combination(model: Any) -> bool:
    """Return whether an estimator is a wrapper that `parse_combination` reads."""
    return known_class(model) in _KINDS


def parse_combination(model: Any, parse: Callable[[Any], Any]) -> TreeEnsemble:
    """Return the sum of trees that a wrapper is.

    Parameters
    ----------
    model : estimator
        A fitted Bagging, Voting, MultiOutput, OneVsRest, TransformedTarget,
        SelfTraining, RANSAC or CalibratedClassifierCV.
    parse : callable
        Reads the models inside.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        If its prediction is no sum of trees on any scale.
    InvalidInputError
        If it is not fitted.
    """
    kind, name = _KINDS[known_class(model)], type(model).__name__
    if not hasattr(model, kind.fitted):
        raise InvalidInputError(f"this {name} is not fitted; call fit() before you pass it")
    if getattr(model, "voting", "soft") == "hard":
        raise UnsupportedModelError(
            f"{name} counts votes, which are not a sum of leaf values. Train with "
            f'voting="soft". {_purify_inside(model)} To explain the share of votes for the second '
            "class: tp.hooker_anova(lambda X: (model.transform(X) == 1).mean(axis=1), X)"
        )
    members = [m for m, member in getattr(model, "estimators", ()) or () if member != "drop"]
    inside = []
    for number, estimator in enumerate(_models_inside(model)):
        try:
            parsed = parse(estimator)
        except UnsupportedModelError as error:
            where = f"a model inside this {name}"
            where = f"member {members[number]!r} of the vote" if members else where
            raise UnsupportedModelError(
                f"{where}: {error} To explain the whole by its predictions: "
                f"{explain_predictions(model)}"
            ) from error
        if not isinstance(parsed, TreeEnsemble):
            raise UnsupportedModelError(
                f"a wrapper of {parsed.source.kind} is not supported, only wrappers of trees. "
                f"{_purify_inside(model)}"
            )
        inside.append(parsed)
    return replace(kind.join(model, inside), source=_source(name, inside))


def combination_margin(model: Any, X: Any, margin: Margin) -> Array:
    """Return the wrapper's own prediction on the scale of its composed form.

    Parameters
    ----------
    model : estimator
        What `parse_combination` reads.
    X : table of shape (n_rows, n_features)
        The rows.
    margin : callable
        Asks the models inside for theirs.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
    """
    own = np.asarray(_KINDS[known_class(model)].margin(model, X, margin), dtype=np.float64)
    return own if own.ndim == 2 else own[:, None]


def _models_inside(model: Any) -> list[Any]:
    fitted = _KINDS[known_class(model)].fitted
    if fitted == "calibrated_classifiers_":
        return [_calibration(model)[0]]
    inside = getattr(model, fitted)
    return inside if isinstance(inside, list) else [inside]


def _purify_inside(model: Any) -> str:
    # Not "model.estimators_": the wrapper may be a part of what the user calls the model.
    fitted = _KINDS[known_class(model)].fitted
    which = {
        "estimators_": "each of the estimators_",
        "calibrated_classifiers_": "the calibrated_classifiers_[0].estimator",
    }.get(fitted, f"the {fitted}")
    return f"Purify {which} of the {type(model).__name__} separately."


def _source(name: str, inside: Inside) -> ModelSource:
    sources = [ensemble.source for ensemble in inside]
    kinds = ", ".join(dict.fromkeys(source.kind for source in sources))
    return ModelSource(
        ", ".join(dict.fromkeys(source.library for source in sources)),
        ", ".join(dict.fromkeys(source.version for source in sources)),
        f"{name}({kinds})",
        tuple(dict.fromkeys(note for source in sources for note in source.notes)),
    )


def _class_names(classes: Any) -> tuple[str, ...]:
    names = tuple(str(label) for label in classes)
    return names[1:] if len(names) == 2 else names


def _check_adds_up(model: Any, inside: Inside) -> None:
    """Refuse margins whose inverse link is averaged: their sum is no sum of trees."""
    links = sorted({e.link.name for e in inside if e.link.name != "identity"})
    if links:
        verb = "averages" if hasattr(model, "estimators_") else "rescales"
        raise UnsupportedModelError(
            f"{type(model).__name__} {verb} responses, and responses of the models inside are "
            f"not sums of trees: their link is {', '.join(links)}. {_purify_inside(model)} To "
            f"explain the whole by its predictions: {explain_predictions(model)}"
        )


def _average(model: Any, inside: Inside, weights: Sequence[float] | None = None) -> TreeEnsemble:
    _check_adds_up(model, inside)
    shares = np.ones(len(inside)) if weights is None else np.asarray(weights, dtype=np.float64)
    is_classifier = hasattr(model, "classes_")
    names = _class_names(model.classes_) if is_classifier else inside[0].output_names
    return weighted_sum(inside, (shares / shares.sum()).tolist(), names)


def _bagging(model: Any, inside: Inside) -> TreeEnsemble:
    """Join models of which each has columns that were drawn."""
    names = getattr(model, "feature_names_in_", None)
    n_features = int(model.n_features_in_)
    listed = [f"x{j}" for j in range(n_features)] if names is None else [str(n) for n in names]
    whole = []
    for member, drawn in zip(inside, model.estimators_features_, strict=True):
        chosen = np.asarray(drawn)
        if member.n_features != len(chosen):
            raise UnsupportedModelError(
                f"a model inside the {type(model).__name__} has {member.n_features} features, "
                f"expected {len(chosen)}. {_purify_inside(model)}"
            )
        specs = {int(j): spec for j, spec in zip(chosen, member.features, strict=True)}
        if len(specs) != len(chosen):
            raise UnsupportedModelError(
                "a bagged model uses a column twice, since columns are sampled with replacement. "
                "Train with bootstrap_features=False."
            )
        other = replace(member.features[0], has_missing=False)
        whole.append(
            replace(
                member,
                feature=np.append(chosen, -1)[member.feature].astype(np.int32),
                features=tuple(
                    replace(specs.get(j, other), name=name) for j, name in enumerate(listed)
                ),
                has_feature_names=names is not None,
            )
        )
    return _average(model, whole)


def _own_response(model: Any, X: Any, margin: Margin) -> Any:
    if not hasattr(model, "classes_"):
        return model.predict(X)
    probability = np.asarray(model.predict_proba(X))
    return probability[:, 1:] if probability.shape[1] == 2 else probability


def _outputs(model: Any, inside: Inside) -> TreeEnsemble:
    links = {ensemble.link for ensemble in inside}
    is_common = len(links) == 1 and inside[0].link.name in _ELEMENTWISE
    names = []
    for k, (estimator, ensemble) in enumerate(zip(model.estimators_, inside, strict=True)):
        classes = getattr(estimator, "classes_", None)
        own = ensemble.output_names if classes is None else _class_names(classes)
        alone = classes is None and len(own) == 1
        names += [f"target{k}" if alone else f"target{k}:{name}" for name in own]
    return side_by_side(inside, tuple(names), inside[0].link if is_common else Link("unknown"))


def _one_vs_rest(model: Any, inside: Inside) -> TreeEnsemble:
    names = _class_names(model.classes_)
    links = {ensemble.link for ensemble in inside}
    link = Link("unknown")
    if len(inside) == 1 or model.multilabel_:
        link = inside[0].link if len(links) == 1 else link
        names = names if len(inside) == 1 else tuple(map(str, model.classes_))
    elif len(links) == 1 and inside[0].link.name == "logit":
        link = Link("one-vs-rest", inside[0].link.scale)
    return side_by_side(inside, names, link)


def _margins_of_outputs(model: Any, X: Any, margin: Margin) -> Any:
    return np.concatenate([margin(estimator, X) for estimator in model.estimators_], axis=1)


def _target(model: Any, inside: Inside) -> TreeEnsemble:
    (alone,) = inside
    affine = _affine_target(model, alone.n_outputs)
    if affine is not None:
        _check_adds_up(model, inside)
        return rescale(alone, *affine)
    inverse = getattr(model.transformer_, "inverse_func", None)
    name = getattr(inverse, "__name__", "") if isinstance(inverse, np.ufunc) else ""
    before = None if alone.link == Link() else alone.link
    if alone.link.name == "unknown":
        return alone
    if name in _INVERSES and before is None:
        return replace(alone, link=Link(_INVERSES[name]))
    undo = _UndoneTarget(model.transformer_)
    return replace(alone, link=Link("transformed", before=before, undo=undo))


@dataclass(frozen=True, eq=False)
class _UndoneTarget:
    """Takes a transformed target back; equal where the transformers have learned the same."""

    transformer: Any

    def __call__(self, target: Array) -> Any:
        """Return the target, of the shape (n_rows, n_outputs) that its transform has."""
        return self.transformer.inverse_transform(target)

    def __eq__(self, other: object) -> bool:
        """Return whether both take every number back to the same."""
        return isinstance(other, _UndoneTarget) and self.learned == other.learned

    @cached_property
    def learned(self) -> str:
        """A fingerprint of all but the seed, which no longer matters after training."""
        held = {name: value for name, value in vars(self.transformer).items() if name != _SEED}
        return state_fingerprint([type(self.transformer), held])

    def __hash__(self) -> int:
        """Return what equal ones share."""
        return hash(type(self.transformer))


def _affine_target(model: Any, n_outputs: int) -> tuple[Array, Array] | None:
    """Return the factor and the shift that undo the transform of the target, if it is affine."""
    transformer = model.transformer_
    kind = type(transformer).__name__
    is_nothing = kind == "FunctionTransformer" and transformer.inverse_func is None
    scalers = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
    if kind not in scalers and not is_nothing:
        return None
    corners = np.concatenate([np.zeros((1, n_outputs)), np.eye(n_outputs)])
    undone = np.asarray(transformer.inverse_transform(corners), dtype=np.float64)
    return np.diagonal(undone[1:] - undone[0]).copy(), undone[0]


def _margin_of_target(model: Any, X: Any, margin: Margin) -> Any:
    own = margin(model.regressor_, X)
    return own if _affine_target(model, own.shape[1]) is None else model.predict(X)


def _calibration(model: Any) -> tuple[Any, Any]:
    """Return the one estimator and the one curve of a fitted CalibratedClassifierCV."""
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
        raise _not_calibrated(model, reason)
    return fitted[0].estimator, fitted[0].calibrators[0]


def _not_calibrated(model: Any, reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"this CalibratedClassifierCV is not a sum of trees on any known scale: {reason}. Train "
        "with ensemble=False (one sigmoid or isotonic curve, two classes only); or purify the "
        "estimator that it calibrates, its calibrated_classifiers_[0].estimator; or explain the "
        f"probability: {explain_predictions(model)}"
    )


def _calibrated(model: Any, inside: Inside) -> TreeEnsemble:
    """Return the trees of the estimator with the link that the curve makes.

    A sigmoid on a decision function is an affine margin with the link logit; on a probability,
    and for an isotonic curve, the margin stays that of the estimator.
    """
    estimator, curve = _calibration(model)
    alone, names = inside[0], _class_names(model.classes_)
    if _is_affine(estimator, curve):
        whole = rescale(alone, -curve.a_, -curve.b_)
        return replace(whole, link=Link("logit"), output_names=names)
    before = None
    if not hasattr(estimator, "decision_function") and alone.link.name != "identity":
        before = alone.link
    if alone.n_outputs != 1 or (before is not None and before.name == "unknown"):
        raise _not_calibrated(
            model,
            f"its probability is not a function of one margin, since the model inside has "
            f"{alone.n_outputs} outputs and the link {alone.link.name!r}",
        )
    if hasattr(curve, "a_"):
        link = Link("sigmoid", -float(curve.a_), shift=-float(curve.b_), before=before)
    else:
        knots = tuple(map(float, curve.X_thresholds_))
        values = tuple(map(float, curve.y_thresholds_))
        link = Link("isotonic", knots=knots, values=values, before=before)
    return replace(alone, link=link, output_names=names)


def _is_affine(estimator: Any, curve: Any) -> bool:
    return hasattr(curve, "a_") and hasattr(estimator, "decision_function")


def _calibrated_margin(model: Any, X: Any, margin: Margin) -> Any:
    estimator, curve = _calibration(model)
    own = margin(estimator, X)
    return -curve.a_ * own - curve.b_ if _is_affine(estimator, curve) else own


def _of_arrays(model: Any, inside: Inside) -> TreeEnsemble:
    """Return the one model inside, which was trained on arrays: the wrapper knows the names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return inside[0]
    pairs = zip(inside[0].features, names, strict=True)
    features = tuple(replace(spec, name=str(name)) for spec, name in pairs)
    return replace(inside[0], features=features, has_feature_names=True)


def _margin_of_arrays(model: Any, X: Any, margin: Margin) -> Any:
    return margin(model.estimator_, X if is_sparse(X) else read_matrix(X))


_BAGGING = _Kind("estimators_", _bagging, _own_response)
_VOTING = _Kind(
    "estimators_",
    lambda model, inside: _average(model, inside, model._weights_not_none),
    _own_response,
)
_OUTPUTS = _Kind("estimators_", _outputs, _margins_of_outputs)
_ARRAYS = _Kind("estimator_", _of_arrays, _margin_of_arrays)
_KINDS = {
    "BaggingRegressor": _BAGGING,
    "BaggingClassifier": _BAGGING,
    "VotingRegressor": _VOTING,
    "VotingClassifier": _VOTING,
    "MultiOutputRegressor": _OUTPUTS,
    "MultiOutputClassifier": _OUTPUTS,
    "OneVsRestClassifier": _Kind("estimators_", _one_vs_rest, _margins_of_outputs),
    "TransformedTargetRegressor": _Kind("regressor_", _target, _margin_of_target),
    "CalibratedClassifierCV": _Kind("calibrated_classifiers_", _calibrated, _calibrated_margin),
    "SelfTrainingClassifier": _ARRAYS,
    "RANSACRegressor": _ARRAYS,
}
