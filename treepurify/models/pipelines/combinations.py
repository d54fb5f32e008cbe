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
from treepurify.models.pipelines.calibration import (
    calibrated_ensemble,
    calibrated_margin,
    calibration_of,
)
from treepurify.models.pipelines.join import rescale, side_by_side, weighted_sum
from treepurify.models.pipelines.steps import known_class, state_fingerprint
from treepurify.models.plain_functions import explain_predictions
from treepurify.rows.tables import is_sparse, read_matrix
from treepurify.typing import Array

__all__ = ["combination_margin", "is_combination", "parse_combination"]

Parse = Callable[[Any], Any]
Margin = Callable[[Any, Any], Array]

_SEED = "random_state"
# How the function of a target is undone: the link from the margin to the response.
_INVERSES: dict[str, LinkName] = {"exp": "log", "expm1": "log1p"}


class _Kind(NamedTuple):
    """One class of wrappers: the attribute of a fitted one, and how it is read and asked."""

    fitted: str
    parse: Callable[[Any, Parse], TreeEnsemble]
    margin: Callable[[Any, Any, Margin], Array]
    inside: str = "each of the estimators_"


def is_combination(model: Any) -> bool:
    """Return whether an estimator is a wrapper that `parse_combination` reads."""
    return _kind(model) is not None


def parse_combination(model: Any, parse: Parse) -> TreeEnsemble:
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
    kind, name = _known(model), type(model).__name__
    if not hasattr(model, kind.fitted):
        raise InvalidInputError(f"this {name} is not fitted; call fit() before you pass it")
    try:
        return kind.parse(model, parse)
    except UnsupportedModelError as error:
        if name in str(error):
            raise
        raise UnsupportedModelError(f"a model inside this {name}: {error}") from error


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
    own = np.asarray(_known(model).margin(model, X, margin), dtype=np.float64)
    return own if own.ndim == 2 else own[:, None]


def _kind(model: Any) -> _Kind | None:
    return _KINDS.get(known_class(model))


def _known(model: Any) -> _Kind:
    kind = _kind(model)
    if kind is None:
        raise TypeError(f"{type(model).__name__} is not a combination")
    return kind


def _purify_inside(model: Any) -> str:
    # Not "model.estimators_": the wrapper may be a part of what the user calls the model.
    return f"Purify {_known(model).inside} of the {type(model).__name__} separately."


def _ensemble(wrapper: Any, estimator: Any, parse: Parse) -> TreeEnsemble:
    parsed = parse(estimator)
    if not isinstance(parsed, TreeEnsemble):
        raise UnsupportedModelError(
            f"a wrapper of {parsed.source.kind} is not supported, only wrappers of trees. "
            f"{_purify_inside(wrapper)}"
        )
    return parsed


def _source(model: Any, inside: Sequence[TreeEnsemble]) -> ModelSource:
    kinds = ", ".join(dict.fromkeys(ensemble.source.kind for ensemble in inside))
    notes = dict.fromkeys(note for ensemble in inside for note in ensemble.source.notes)
    kind = f"{type(model).__name__}({kinds})"
    return ModelSource(
        ", ".join(dict.fromkeys(ensemble.source.library for ensemble in inside)),
        ", ".join(dict.fromkeys(ensemble.source.version for ensemble in inside)),
        kind,
        tuple(notes),
    )


def _class_names(classes: Any) -> tuple[str, ...]:
    names = tuple(str(label) for label in classes)
    return names[1:] if len(names) == 2 else names


def _check_adds_up(model: Any, inside: Sequence[TreeEnsemble]) -> None:
    """Refuse margins whose inverse link is averaged: their sum is no sum of trees."""
    links = sorted({e.link.name for e in inside if e.link.name != "identity"})
    if links:
        verb = "averages" if hasattr(model, "estimators_") else "rescales"
        raise UnsupportedModelError(
            f"{type(model).__name__} {verb} responses, and responses of the models inside are "
            f"not sums of trees: their link is {', '.join(links)}. {_purify_inside(model)} To "
            f"explain the whole by its predictions: {explain_predictions(model)}"
        )


def _average(
    model: Any, inside: list[TreeEnsemble], weights: Sequence[float] | None
) -> TreeEnsemble:
    _check_adds_up(model, inside)
    shares = np.ones(len(inside)) if weights is None else np.asarray(weights, dtype=np.float64)
    names = inside[0].output_names
    if hasattr(model, "classes_"):
        names = _class_names(model.classes_)
    return weighted_sum(inside, (shares / shares.sum()).tolist(), names, _source(model, inside))


def _parse_bagging(model: Any, parse: Parse) -> TreeEnsemble:
    names = getattr(model, "feature_names_in_", None)
    n_features = int(model.n_features_in_)
    listed = [f"x{j}" for j in range(n_features)] if names is None else [str(n) for n in names]
    inside = []
    for estimator, drawn in zip(model.estimators_, model.estimators_features_, strict=True):
        member = _ensemble(model, estimator, parse)
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
        other = member.features[0]
        features = tuple(
            replace(specs.get(j, replace(other, has_missing=False)), name=listed[j])
            for j in range(n_features)
        )
        feature = np.where(member.feature < 0, member.feature, chosen[member.feature])
        inside.append(
            replace(
                member,
                feature=feature.astype(np.int32),
                features=features,
                has_feature_names=names is not None,
            )
        )
    return _average(model, inside, None)


def _parse_voting(model: Any, parse: Parse) -> TreeEnsemble:
    if getattr(model, "voting", "soft") == "hard":
        raise UnsupportedModelError(
            f"{type(model).__name__} counts votes, which are not a sum of leaf values. Train with "
            f'voting="soft". {_purify_inside(model)} To explain the share of votes for the second '
            "class: tp.hooker_anova(lambda X: (model.transform(X) == 1).mean(axis=1), X)"
        )
    names = [name for name, member in model.estimators if member not in ("drop", None)]
    inside = [
        _member(name, estimator, parse, model)
        for name, estimator in zip(names, model.estimators_, strict=True)
    ]
    return _average(model, inside, model._weights_not_none)


def _member(name: str, estimator: Any, parse: Parse, vote: Any) -> TreeEnsemble:
    try:
        return _ensemble(vote, estimator, parse)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(
            f"member {name!r} of the vote: {error} To explain the vote by its predictions: "
            f"{explain_predictions(vote)}"
        ) from error


def _own_response(model: Any, X: Any, margin: Margin) -> Array:
    if not hasattr(model, "classes_"):
        return np.asarray(model.predict(X))
    probability = np.asarray(model.predict_proba(X))
    return probability[:, 1:] if probability.shape[1] == 2 else probability


def _parse_outputs(model: Any, parse: Parse) -> TreeEnsemble:
    inside = [_ensemble(model, estimator, parse) for estimator in model.estimators_]
    links = {ensemble.link for ensemble in inside}
    elementwise = {"identity", "logit", "log", "cloglog", "sqrt", "softplus"}
    is_common = len(links) == 1 and inside[0].link.name in elementwise
    names = []
    for k, (estimator, ensemble) in enumerate(zip(model.estimators_, inside, strict=True)):
        classes = getattr(estimator, "classes_", None)
        own = ensemble.output_names if classes is None else _class_names(classes)
        alone = classes is None and len(own) == 1
        names += [f"target{k}" if alone else f"target{k}:{name}" for name in own]
    link = inside[0].link if is_common else Link("unknown")
    return side_by_side(inside, tuple(names), link, _source(model, inside))


def _parse_one_vs_rest(model: Any, parse: Parse) -> TreeEnsemble:
    inside = [_ensemble(model, estimator, parse) for estimator in model.estimators_]
    names = _class_names(model.classes_)
    links = {ensemble.link for ensemble in inside}
    link = Link("unknown")
    if len(inside) == 1 or model.multilabel_:
        link = inside[0].link if len(links) == 1 else link
        names = names if len(inside) == 1 else tuple(map(str, model.classes_))
    elif len(links) == 1 and inside[0].link.name == "logit":
        link = Link("one-vs-rest", inside[0].link.scale)
    return side_by_side(inside, names, link, _source(model, inside))


def _margins_of_outputs(model: Any, X: Any, margin: Margin) -> Array:
    return np.concatenate([margin(estimator, X) for estimator in model.estimators_], axis=1)


def _parse_target(model: Any, parse: Parse) -> TreeEnsemble:
    inside = _ensemble(model, model.regressor_, parse)
    affine = _affine_target(model, inside.n_outputs)
    source = _source(model, [inside])
    if affine is not None:
        _check_adds_up(model, [inside])
        return replace(rescale(inside, *affine), source=source)
    transformer = model.transformer_
    inverse = getattr(transformer, "inverse_func", None)
    name = getattr(inverse, "__name__", "") if isinstance(inverse, np.ufunc) else ""
    if inside.link.name == "unknown":
        link = inside.link
    elif name in _INVERSES and inside.link == Link():
        link = Link(_INVERSES[name])
    else:
        before = None if inside.link == Link() else inside.link
        link = Link("transformed", before=before, undo=_UndoneTarget(transformer))
    return replace(inside, link=link, source=source)


@dataclass(frozen=True, eq=False)
class _UndoneTarget:
    """Takes a transformed target back; equal where the transformers have learned the same."""

    transformer: Any

    def __call__(self, target: Array) -> Any:
        """Return the target, of the shape (n_rows, n_outputs) that its transform has."""
        return self.transformer.inverse_transform(target)

    def __eq__(self, other: object) -> bool:
        """Return whether both take every number back to the same."""
        if not isinstance(other, _UndoneTarget):
            return NotImplemented
        return self.learned == other.learned

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
    scalers = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
    kind = type(transformer).__name__
    is_nothing = kind == "FunctionTransformer" and transformer.inverse_func is None
    if kind not in scalers and not is_nothing:
        return None
    corners = np.concatenate([np.zeros((1, n_outputs)), np.eye(n_outputs)])
    undone = np.asarray(transformer.inverse_transform(corners), dtype=np.float64)
    return np.diagonal(undone[1:] - undone[0]).copy(), undone[0]


def _margin_of_target(model: Any, X: Any, margin: Margin) -> Array:
    own = margin(model.regressor_, X)
    affine = _affine_target(model, own.shape[1])
    return own if affine is None else np.asarray(model.predict(X))


def _parse_calibrated(model: Any, parse: Parse) -> TreeEnsemble:
    estimator, calibrator = calibration_of(model)
    inside = _ensemble(model, estimator, parse)
    made = calibrated_ensemble(inside, estimator, calibrator)
    names = _class_names(model.classes_)
    return replace(made, output_names=names, source=_source(model, [inside]))


def _calibrated_margin(model: Any, X: Any, margin: Margin) -> Array:
    estimator, calibrator = calibration_of(model)
    return calibrated_margin(margin(estimator, X), estimator, calibrator)


def _parse_rows_as_arrays(model: Any, parse: Parse) -> TreeEnsemble:
    """Read the one model inside, which the wrapper trains on arrays: it alone knows the names."""
    inside = _ensemble(model, model.estimator_, parse)
    source = _source(model, [inside])
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return replace(inside, source=source)
    features = tuple(
        replace(spec, name=str(name)) for spec, name in zip(inside.features, names, strict=True)
    )
    return replace(inside, features=features, has_feature_names=True, source=source)


def _margin_of_arrays(model: Any, X: Any, margin: Margin) -> Array:
    return margin(model.estimator_, X if is_sparse(X) else read_matrix(X))


_BAGGING = _Kind("estimators_", _parse_bagging, _own_response)
_VOTING = _Kind("estimators_", _parse_voting, _own_response)
_OUTPUTS = _Kind("estimators_", _parse_outputs, _margins_of_outputs)
_KINDS = {
    "BaggingRegressor": _BAGGING,
    "BaggingClassifier": _BAGGING,
    "VotingRegressor": _VOTING,
    "VotingClassifier": _VOTING,
    "MultiOutputRegressor": _OUTPUTS,
    "MultiOutputClassifier": _OUTPUTS,
    "OneVsRestClassifier": _Kind("estimators_", _parse_one_vs_rest, _margins_of_outputs),
    "TransformedTargetRegressor": _Kind(
        "regressor_", _parse_target, _margin_of_target, "the regressor_"
    ),
    "CalibratedClassifierCV": _Kind(
        "calibrated_classifiers_",
        _parse_calibrated,
        _calibrated_margin,
        "the calibrated_classifiers_[0].estimator",
    ),
    **dict.fromkeys(
        ("SelfTrainingClassifier", "RANSACRegressor"),
        _Kind("estimator_", _parse_rows_as_arrays, _margin_of_arrays, "the estimator_"),
    ),
}
