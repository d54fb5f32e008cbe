"""Read scikit-learn's trees, forests and gradient boosting.

Everything is read from attributes of the fitted estimator; scikit-learn is not imported.
"""

import sys
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link
from treepurify.models.cuts import cut_at_most_single
from treepurify.models.ensemble import NUMERIC_NODE, VECTOR_LEAF, TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.models.plain_functions import explain_predictions
from treepurify.models.sklearn_hist import parse_histogram_boosting
from treepurify.models.sklearn_nodes import (
    FlatNodes,
    check_fields,
    flat_nodes,
)
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array


def isolation_leaves(model: Any, trees: list[Any]) -> tuple[Array, tuple[str, ...], Array, Link]:
    """Return the share of each node in the mean path length, name of the output, base and link.

    A row's path ends in a leaf; the rows that training left there would have been split
    further, which adds the mean path for their number (Liu, Ting and Zhou 2008, equation 1).
    The mean over the trees is in units of the mean path of as many rows as each tree saw: 1 is
    an ordinary row, and the shorter the path, the more of an outlier is the row.

    Parameters
    ----------
    model : IsolationForest
        The fitted forest.
    trees : list of sklearn.tree._tree.Tree
        Its trees.

    Raises
    ------
    UnsupportedModelError
        If each tree saw one row only: all rows have one score.
    """
    unit = float(_mean_path(np.array([model.max_samples_]))[0])
    if unit == 0.0:
        raise UnsupportedModelError(
            "each tree of this IsolationForest saw one row, so all rows have the same score; "
            "train it with more rows or a larger max_samples"
        )
    lengths = [tree.compute_node_depths() - 1.0 + _mean_path(tree.n_node_samples) for tree in trees]
    value = np.concatenate(lengths)[:, None] / (unit * len(trees))
    return value, ("path length",), np.zeros(1), Link("path-length")


def isolation_margin(model: Any, X: Any) -> Array:
    """Return the mean path length by the library's own score, shape (n_rows,)."""
    return np.asarray(-np.log2(-model.score_samples(X)))


def _mean_path(n_rows: Any) -> Array:
    """Return the mean length of an unsuccessful search in a binary tree of that size."""
    n = np.asarray(n_rows, dtype=np.float64)
    many = np.maximum(n, 3.0)
    long = 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    return np.where(n <= 1, 0.0, np.where(n == 2, 1.0, long))


Leaves = tuple[Array, tuple[str, ...], Array, Link]

_TREES = frozenset(
    {"DecisionTreeRegressor", "DecisionTreeClassifier", "ExtraTreeRegressor", "ExtraTreeClassifier"}
)
_FORESTS = frozenset(
    {"RandomForestRegressor", "RandomForestClassifier"}
    | {"ExtraTreesRegressor", "ExtraTreesClassifier"}
)
_BOOSTING = frozenset({"GradientBoostingRegressor", "GradientBoostingClassifier"})
_HISTOGRAM_BOOSTING = frozenset({"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"})
_ISOLATION = "IsolationForest"
_SUPPORTED = _TREES | _FORESTS | _BOOSTING | _HISTOGRAM_BOOSTING | {_ISOLATION}

_FITTED_ATTRIBUTE = {
    **dict.fromkeys(_TREES, "tree_"),
    **dict.fromkeys(_FORESTS | _BOOSTING | {_ISOLATION}, "estimators_"),
    **dict.fromkeys(_HISTOGRAM_BOOSTING, "_predictors"),
}

# Filled in with the line for the model.
_PREDICTIONS_ONLY = "To explain it by its predictions: {line}"
_BOOST_INSTEAD = f"Train a GradientBoosting or HistGradientBoosting model. {_PREDICTIONS_ONLY}"
_REFUSALS = {
    "AdaBoostClassifier": "its trees vote for classes; their leaf values are not added up. "
    f"{_BOOST_INSTEAD}",
    "AdaBoostRegressor": "it predicts the weighted median of its estimators, which is not a sum "
    f"of their leaf values. {_BOOST_INSTEAD}",
    **dict.fromkeys(
        ("RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor"),
        "a quantile of the responses in the leaves of all trees is not a sum of leaf values. Train "
        'a boosted model of the quantile, such as GradientBoostingRegressor(loss="quantile"). '
        f"{_PREDICTIONS_ONLY}",
    ),
    "RandomTreesEmbedding": "it transforms its input and predicts nothing. Purify the model that "
    "is trained on the embedding's leaves, or a RandomForest model.",
    **dict.fromkeys(
        ("StackingRegressor", "StackingClassifier"),
        "its final estimator transforms the predictions of the others. Purify each of "
        f"model.estimators_ separately. {_PREDICTIONS_ONLY}",
    ),
    **dict.fromkeys(
        ("ClassifierChain", "RegressorChain"),
        "each of its models uses the predictions of the earlier ones. Purify each of "
        f"model.estimators_ separately. {_PREDICTIONS_ONLY}",
    ),
}
_LINEAR = (
    "it is a linear model, not a sum of trees. Its effects are its coefficients times the inputs, "
    "and it has no interactions."
)

# Estimators that predict the same for every row.
_CONSTANT_STRATEGIES = frozenset(
    {"mean", "median", "quantile", "constant", "prior", "most_frequent", "uniform"}
)

_NODE_FIELDS = frozenset({"left_child", "right_child", "feature", "threshold", "n_node_samples"})
# Versions before 1.3 know no missing values.
_OPTIONAL_NODE_FIELDS = frozenset({"impurity", "weighted_n_node_samples", "missing_go_to_left"})


def parse(model: Any) -> TreeEnsemble:
    """Read a trained scikit-learn tree, forest or boosting model.

    The margin of a regressor is its prediction; of gradient boosting, ``decision_function``
    or the prediction on the scale of the loss's link; of a tree or forest classifier, its
    probabilities, with the identity as link. A classifier of two classes has one output,
    named by the positive class, ``classes_[1]``: for trees and forests the probability of
    that class. Of an isolation forest it is the mean path
    length in units of that of an ordinary row. A classifier of several targets has one output
    for each class of each target, two-class targets included, named ``"target0:class"``.

    Parameters
    ----------
    model : estimator
        DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting or
        HistGradientBoosting, each Regressor or Classifier; or IsolationForest.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        If the estimator is of another kind, or has parts that are not sums of trees.
    InvalidInputError
        If the estimator is not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X = np.array([[0.0], [1.0]])
    >>> ensemble = parse(DecisionTreeClassifier().fit(X, ["no", "yes"]))
    >>> ensemble.output_names, ensemble.margin(X).ravel()
    (('yes',), array([0., 1.]))
    """
    kind = _kind(model)
    version = getattr(sys.modules.get("sklearn"), "__version__", "unknown")
    if kind in _HISTOGRAM_BOOSTING:
        return parse_histogram_boosting(
            model,
            _feature_names(model),
            _boosting_output_names(model),
            ModelSource("scikit-learn", version, kind, constraints=_constraints(model)),
            has_feature_names=hasattr(model, "feature_names_in_"),
        )
    trees = _trees(model, kind)
    allows_missing = kind not in _BOOSTING and _allows_missing(model)
    source = ModelSource(
        "scikit-learn",
        version,
        kind,
        _notes(kind, allows_missing),
        constraints=_constraints(model),
    )
    value, outputs, base, link = _read_leaves(model, kind, trees)
    names = _feature_names(model)
    seen = getattr(model, "estimators_features_", None)
    flat = _read_nodes(trees, len(names), seen, allows_missing=allows_missing)
    tree_output = (
        np.tile(np.arange(len(outputs), dtype=np.int32), len(trees) // len(outputs))
        if value.shape[1] == 1
        else np.full(len(trees), VECTOR_LEAF, dtype=np.int32)
    )
    return TreeEnsemble(
        tree_ptr=flat.tree_ptr,
        feature=flat.feature,
        cut=flat.cut,
        left=flat.left,
        right=flat.right,
        missing_left=flat.missing_left,
        category_ptr=np.full(len(flat.feature), NUMERIC_NODE, dtype=np.int64),
        category_left=np.zeros(0, dtype=np.bool_),
        value=np.where(flat.feature[:, None] < 0, value, 0.0),
        tree_output=tree_output,
        base=base,
        features=tuple(
            FeatureSpec(name, has_missing=bool(missing and allows_missing), reads_texts=True)
            for name, missing in zip(names, flat.saw_missing, strict=True)
        ),
        output_names=outputs,
        link=link,
        source=source,
        has_feature_names=hasattr(model, "feature_names_in_"),
        cover=flat.cover,
    )


def raw_margin(model: Any, X: Any) -> Array:
    """Return scikit-learn's own raw prediction.

    Parameters
    ----------
    model : estimator
        A trained model that `parse` reads.
    X : array_like or table of shape (n_rows, n_features)
        The rows. The columns of a table may be in any order if the model knows their names.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
        On the scale, and with the outputs, of ``parse(model).margin(X)``.

    Raises
    ------
    UnsupportedModelError, InvalidInputError
        As `parse`.
    """
    kind = _kind(model)
    X = in_model_order(model, X)
    # It adds all numbers up to see whether they are finite, which the largest of them overflow.
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        # Arrays are matched by position and tables by name, as everywhere in this package.
        warnings.filterwarnings("ignore", message=".*feature names", category=UserWarning)
        if kind in _HISTOGRAM_BOOSTING:
            margin = model._raw_predict(X)
        elif kind == _ISOLATION:
            margin = isolation_margin(model, X)
        elif kind in _BOOSTING and hasattr(model, "classes_"):
            margin = model.decision_function(X)
        elif hasattr(model, "classes_"):
            margin = _probabilities(model.predict_proba(X))
        else:
            margin = model.predict(X)
    margin = np.asarray(margin, dtype=np.float64)
    return margin if margin.ndim == 2 else margin[:, None]


def _kind(model: Any) -> str:
    """Return the name of the scikit-learn class whose predictions the model makes."""
    base = next(cls for cls in type(model).__mro__ if cls.__module__.startswith("sklearn."))
    kind = str(base.__name__)
    if kind not in _SUPPORTED:
        raise _refusal(model, base)
    for name in ("predict", "predict_proba", "decision_function", "score_samples", "_raw_predict"):
        method = getattr(type(model), name, None)
        if not str(getattr(method, "__module__", "sklearn.")).startswith("sklearn."):
            raise UnsupportedModelError(
                f"{type(model).__qualname__} is a {kind} that overrides {name}(), which may "
                "predict something other than the sum of its trees. "
                + _PREDICTIONS_ONLY.format(line=explain_predictions(model))
            )
    if not hasattr(model, _FITTED_ATTRIBUTE[kind]):
        raise InvalidInputError(f"this {kind} is not fitted; call fit() before you pass it")
    return kind


def _refusal(model: Any, base: type) -> UnsupportedModelError:
    """Return why a class is not read, by its own name and that of what it is made from."""
    own = type(model)
    library = own.__module__.partition(".")[0]
    origin = "defined in your program" if library == "__main__" else f"of {library}"
    is_bare = base.__module__ == "sklearn.base"
    name = own.__qualname__
    if library != "sklearn":
        name += f" ({origin})" if is_bare else f" ({origin}, derived from {base.__name__})"
    linear = base.__module__.startswith("sklearn.linear_model")
    reason = _REFUSALS.get(own.__name__, _REFUSALS.get(base.__name__, _LINEAR if linear else None))
    if reason is None:
        what = "it is not a known sum of trees" if is_bare else "it is not a sum of trees"
        reason = (
            f"{what}. The scikit-learn models that can be read are DecisionTree, ExtraTree, "
            "RandomForest, ExtraTrees, GradientBoosting, HistGradientBoosting and "
            "IsolationForest. " + _PREDICTIONS_ONLY
        )
    reason = reason.format(line=explain_predictions(model))
    return UnsupportedModelError(f"{name} cannot be decomposed exactly: {reason}")


def _feature_names(model: Any) -> tuple[str, ...]:
    if hasattr(model, "feature_names_in_"):
        return tuple(str(name) for name in model.feature_names_in_)
    return tuple(f"x{j}" for j in range(model.n_features_in_))


def _constraints(model: Any) -> tuple[int, ...]:
    """Return the monotone constraint of each feature; none where there are none."""
    given = getattr(model, "monotonic_cst", None)
    if given is None:
        return ()
    names = _feature_names(model)
    signs = [given.get(name, 0) for name in names] if isinstance(given, dict) else given
    return tuple(int(sign) for sign in signs)


def in_model_order(model: Any, X: Any) -> Any:
    """Return a table with its columns in the order of the model, which knows their names."""
    names = list(getattr(model, "feature_names_in_", ()))
    if not names:
        return X
    if hasattr(X, "iloc"):
        return X[names] if set(names) <= set(X.columns) else X
    return X.select(names) if hasattr(X, "select") else X


def _trees(model: Any, kind: str) -> list[Any]:
    """Return the low-level trees, in the order in which they are added up."""
    estimators = [model] if kind in _TREES else np.ravel(model.estimators_).tolist()
    if not estimators:
        raise InvalidInputError(f"this {kind} has no trees; fit it again")
    trees = [estimator.tree_ for estimator in estimators]
    for tree in trees:
        if type(tree).__module__ != "sklearn.tree._tree" or type(tree).__name__ != "Tree":
            raise UnsupportedModelError(
                f"this {kind} contains trees of the type {type(tree).__module__}."
                f"{type(tree).__name__}, whose splits are unknown. "
                + _PREDICTIONS_ONLY.format(line=explain_predictions(model))
            )
    return trees


def _read_nodes(
    trees: list[Any], n_features: int, seen: list[Any] | None, *, allows_missing: bool
) -> FlatNodes:
    """Return the nodes of all trees; each was given all features, or those that it has seen."""
    tables = [tree.__getstate__()["nodes"] for tree in trees]
    fields = tables[0].dtype.names
    check_fields(fields, _NODE_FIELDS, _OPTIONAL_NODE_FIELDS)

    # Field by field and tree by tree: a forest of full trees has ten million nodes and more.
    def joined(name: str, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
        parts = [table[name] for table in tables]
        return np.concatenate(parts, dtype=dtype, casting="same_kind")

    children = joined("left_child", np.int32), joined("right_child", np.int32)
    inner = children[0] >= 0
    # No comparison holds for NaN: without directions, missing values go right.
    missing_left = np.zeros(len(inner), dtype=np.bool_)
    if allows_missing and "missing_go_to_left" in fields:
        missing_left = joined("missing_go_to_left") != 0
    cut = np.concatenate([cut_at_most_single(table["threshold"]) for table in tables])
    cut[~inner] = np.nan
    feature = joined("feature", np.int32)
    if seen is not None:
        feature = np.concatenate(
            [np.asarray(own)[table["feature"]] for own, table in zip(seen, tables, strict=True)],
            dtype=np.int32,
            casting="same_kind",
        )
    return flat_nodes(
        np.array([len(table) for table in tables], dtype=np.int64),
        np.where(inner, feature, np.int32(-1)),
        cut,
        children,
        missing_left,
        joined("n_node_samples"),
        joined("weighted_n_node_samples") if "weighted_n_node_samples" in fields else None,
        n_features,
    )


def _allows_missing(model: Any) -> bool:
    if hasattr(model, "__sklearn_tags__"):
        return bool(model.__sklearn_tags__().input_tags.allow_nan)
    return bool(model._get_tags().get("allow_nan", False))


def _notes(kind: str, allows_missing: bool) -> tuple[str, ...]:
    notes = []
    if kind in _TREES | _FORESTS and kind.endswith("Classifier"):
        notes.append("the margin is a probability: the effects add up on the probability scale")
    if not allows_missing:
        notes.append(
            "scikit-learn rejects missing values for this model; here they follow the right branch"
        )
    return tuple(notes)


def _read_leaves(model: Any, kind: str, trees: list[Any]) -> Leaves:
    """Return the values of all nodes, the names of the outputs, the base and the link."""
    if kind == _ISOLATION:
        return isolation_leaves(model, trees)
    value = np.concatenate([tree.value for tree in trees])
    if kind in _BOOSTING:
        # The library multiplies each leaf, not the sum: folding repeats its rounding.
        value = model.learning_rate * value[:, 0]
        outputs = _boosting_output_names(model)
        return value, outputs, _boosting_base(model, len(outputs)), _boosting_link(model)
    if hasattr(model, "classes_"):
        value, outputs = _class_probabilities(model, value)
    else:
        value = value[:, :, 0]
        n_targets = value.shape[1]
        outputs = tuple(f"target{k}" for k in range(n_targets)) if n_targets > 1 else ("margin",)
    return value / len(trees), outputs, np.zeros(len(outputs)), Link()


def _class_probabilities(model: Any, value: Array) -> tuple[Array, tuple[str, ...]]:
    """Return probabilities from node values of shape (n_nodes, n_targets, most classes)."""
    total = value.sum(axis=-1, keepdims=True)
    # Before version 1.3 the values are weighted counts. Fractions are left as they are:
    # their sum may differ from 1 by rounding, and the library does not divide by it.
    rounding = 4 * value.shape[-1] * np.finfo(np.float64).eps
    is_count = (np.abs(total - 1.0) > rounding) & (total != 0.0)
    value = value / np.where(is_count, total, 1.0)
    if value.shape[1] == 1:
        names = tuple(str(label) for label in model.classes_)
        if len(names) == 2:
            return value[:, 0, 1:], names[1:]
        return value[:, 0], names
    targets = [value[:, k, : len(classes)] for k, classes in enumerate(model.classes_)]
    return np.concatenate(targets, axis=1), tuple(
        f"target{k}:{label}" for k, classes in enumerate(model.classes_) for label in classes
    )


def _probabilities(probabilities: Any) -> Array:
    """Bring the result of ``predict_proba`` to the outputs of the ensemble."""
    if isinstance(probabilities, list):
        return np.concatenate(probabilities, axis=1)
    return np.asarray(probabilities[:, 1:] if probabilities.shape[1] == 2 else probabilities)


def _boosting_output_names(model: Any) -> tuple[str, ...]:
    if not hasattr(model, "classes_"):
        return ("margin",)
    names = tuple(str(label) for label in model.classes_)
    return names[1:] if len(names) == 2 else names


def _boosting_base(model: Any, n_outputs: int) -> Array:
    start = model.init_
    if isinstance(start, str) and start == "zero":
        return np.zeros(n_outputs)
    constant = type(start).__module__ == "sklearn.dummy" and (
        getattr(start, "strategy", None) in _CONSTANT_STRATEGIES
    )
    if not constant:
        raise UnsupportedModelError(
            f"this {type(model).__name__} starts from another model, init={start!r}, whose "
            "predictions are not a sum of trees. Train it with init=None or init='zero'."
        )
    # The model turns its own start into a margin: clipping and link differ between versions.
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_)))
    return np.asarray(base, dtype=np.float64).reshape(n_outputs)


def _boosting_link(model: Any) -> Link:
    if not hasattr(model, "classes_"):
        return Link()
    if model.loss == "exponential":
        # AdaBoost's loss: the margin is half the log-odds.
        return Link("logit", scale=2.0)
    return Link("logit" if len(model.classes_) == 2 else "softmax")
