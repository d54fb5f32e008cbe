"""Write a decomposition as an explainable boosting machine of the interpret package."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_result
from treepurify.components import values_on_rows
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, MissingDependencyError, UnsupportedModelError
from treepurify.export.left_out import OnRemainder, check_tables, leave_out_remainder
from treepurify.grids.axis import FeatureAxis
from treepurify.rows.table_reader import label_text
from treepurify.terms import listed_names, term_name
from treepurify.typing import Array, Indices

_LINKS = {"identity": "identity", "logit": "logit", "log": "log", "softmax": "mlogit"}


def to_ebm(
    d: Decomposition,
    *,
    classes: Sequence[Any] | None = None,
    remainder: OnRemainder = "refuse",
) -> Any:
    """Return an explainable boosting machine with the effects as its terms.

    It can be used like an EBM trained by interpret: ``predict``, ``predict_proba``, ``eval_terms``,
    ``explain_global``, ``explain_local``, ``to_json``, ``scale``, ``monotonize``, ``remove_terms``,
    ``sweep`` and interpret's ``merge_ebms`` work. Its terms are the purified effects, on the margin
    scale.

    Parameters
    ----------
    d : Decomposition
        A decomposition whose effects are tables of cells, of any number of features.
    classes : sequence, optional
        Class labels of a classifier, in the order of its outputs; two for one output. By
        default those of the model. Where these are not known, as of LightGBM's model files, 0 and
        1 or the names of the outputs, with a warning.
    remainder : {"refuse", "drop"}
        What to do with a remainder (effects above the order of the decomposition), which is not a
        table: raise an error, or leave it out with a `RemainderWarning` that states its size. A
        remainder that is only rounding is left out without a warning.

    Returns
    -------
    interpret.glassbox.ExplainableBoostingRegressor or ExplainableBoostingClassifier

    Raises
    ------
    InvalidInputError
        If `classes` does not match the outputs, or an effect is not a table of cells.
    UnsupportedModelError
        If an EBM cannot represent the model's link, its coding of missing values, or a remainder
        that is not to be dropped.
    MissingDependencyError
        If interpret is not installed.

    See Also
    --------
    treepurify.export.to_sql : The predictions as a SQL query.

    Notes
    -----
    If a feature has no cells for missing or unseen values, they score 0, as in EBMs whose training
    data had none. ``purify(..., missing_cells="always")`` gives every feature such cells, with the
    predictions of the model.

    With interpret 0.7.8, ``remove_features`` and ``sweep(features=True)`` damage every EBM, also
    one that it trained itself. Use ``remove_terms`` instead.

    The EBM sums in double precision, as ``d.predict`` does, and both agree to 1e-12. A library that
    sums in single precision, such as XGBoost, differs from both by its rounding: we measured
    differences of 3e-5 with 600 trees and 5e-5 with 2000, on margins up to 29. If the same leaves
    are summed in double precision, they differ from the EBM by 3e-14.

    If the decomposition has a `Spread`, its models become the bags of the EBM, from which interpret
    computes error bars: standard deviations over the bags, with the number of bags in the
    denominator. The same correction is added to all bags so that their mean is the decomposition,
    even if this differs from the mean of the trainings, since `merge_ebms` adds up bags. Without a
    `Spread` there is one bag and error bars are zero, as for an EBM trained with ``outer_bags=1``.

    An EBM stores facts about its training data that a decomposition does not have; they are
    replaced. ``histogram_weights_`` of a numeric feature is one bar, and figures show the rows in
    each cell instead; ``unique_val_counts_`` counts the cells that contain rows, not values;
    ``min_target_`` and ``max_target_`` are the range of the model's response on the rows, or NaN if
    no rows are stored. ``merge_ebms`` sets scores to zero in cells for missing and unseen values
    without rows, as it does for every EBM.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> from treepurify.export import to_ebm
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> model = GradientBoostingRegressor(max_depth=2).fit(X, X[:, 0] * X[:, 1])
    >>> ebm = to_ebm(tp.purify(model, X))
    >>> bool(np.allclose(ebm.predict(X), model.predict(X)))
    True
    """
    check_result("d", d, Decomposition)
    leave_out_remainder(d, remainder, "an EBM")
    _check(d)
    names = _feature_names(d)
    terms = list(d.tensor_components().items())
    axes = _axes_by_order(d)
    ebm = _empty_model(d, names)
    if classes is not None and d.link.name not in ("logit", "softmax"):
        raise InvalidInputError(
            "classes are the labels of a classifier, but this decomposition is of a regression: "
            "leave classes out"
        )
    if d.link.name in ("logit", "softmax"):
        ebm.classes_ = _class_labels(d, classes)
    ebm.n_features_in_ = len(names)
    ebm.feature_names_in_ = names
    ebm.feature_types_in_ = [_feature_type(d, j) for j in range(len(names))]
    ebm.bins_ = [[_bins(axis) for axis in of_feature] for of_feature in axes]
    ebm.feature_bounds_ = _bounds(axes)
    n_rows = float(d.origin.n_rows or 1)
    histograms = [_histogram(d, j, n_rows) for j in range(len(names))]
    ebm.histogram_weights_ = [weights for weights, _ in histograms]
    ebm.unique_val_counts_ = np.array([count for _, count in histograms], dtype=np.int64)
    # Without edges, interpret draws the rows in each cell of a term.
    ebm.histogram_edges_ = [None] * len(names)
    ebm.term_features_ = [subset for subset, _ in terms]
    ebm.term_names_ = [term_name(names[j] for j in subset) for subset, _ in terms]
    ebm.term_scores_ = [
        _interpret_layout(_one_or_all(component.values), component.axes) for _, component in terms
    ]
    ebm.bin_weights_ = [
        _interpret_layout(n_rows * component.mass, component.axes) for _, component in terms
    ]
    bags = _bags(d)
    ebm.bagged_scores_ = [
        np.array([_interpret_layout(_one_or_all(v), c.axes) for v in of_bags])
        for of_bags, (_, c) in zip(bags, terms, strict=True)
    ]
    ebm.standard_deviations_ = [scores.std(axis=0) for scores in ebm.bagged_scores_]
    is_regression = not hasattr(ebm, "classes_")
    if is_regression:
        ebm.min_target_, ebm.max_target_ = _response_range(d)
    ebm.intercept_ = float(d.intercept[0]) if is_regression else d.intercept.copy()
    intercepts = (
        d.intercept[None] if d.spread is None else _around(d.intercept, d.spread.intercepts)
    )
    ebm.bagged_intercept_ = intercepts[:, 0].copy() if d.n_outputs == 1 else intercepts.copy()
    ebm.link_, ebm.link_param_ = _link(d), float("nan")
    ebm.bag_weights_ = np.full(len(intercepts), n_rows)
    ebm.best_iteration_ = np.empty((0, len(intercepts)), dtype=np.int64)  # no stages
    ebm.has_fitted_ = True
    return ebm


def _check(d: Decomposition) -> None:
    check_tables(d, "an EBM")
    used = {j for subset in d.components for j in subset}
    for j, spec in enumerate(d.inputs.features):
        if j in used and (hashed := len(spec.hash_only)):
            raise UnsupportedModelError(
                f"the model stores only hashes of the categories of feature {spec.name!r}, and "
                f"{hashed} of its {spec.n_codes} categories are in no row, so an EBM would treat "
                "them as unseen. Decompose the model with rows in which each category occurs, or "
                "use to_sql, which returns no prediction for such categories"
            )
        own_missing = spec.zero_is_missing or spec.missing_value is not None or None in spec.labels
        if own_missing or (not spec.is_categorical and spec.categories is not None):
            raise UnsupportedModelError(
                f"feature {spec.name!r} is read in a way that an EBM cannot represent (numbers "
                "that stand for missing values, None as a category, or ordered categories as "
                "numbers): recode the feature before training"
            )
    _link(d)


def _link(d: Decomposition) -> str:
    several = d.n_outputs > 1
    known = d.link.name in _LINKS and d.link.scale == 1.0
    if not known or several != (d.link.name in ("softmax", "logit") and several):
        raise UnsupportedModelError(
            f"an EBM cannot represent {d.n_outputs} outputs with the link {d.link.name!r}"
            + (f" of scale {d.link.scale:g}" if d.link.scale != 1.0 else "")
        )
    return "vlogit" if several and d.link.name == "logit" else _LINKS[d.link.name]


def _empty_model(d: Decomposition, names: list[str]) -> Any:
    try:
        from interpret import glassbox
    except ImportError as error:
        raise MissingDependencyError(
            'an EBM needs interpret: pip install "treepurify[ebm]"'
        ) from error
    is_regression = d.link.name in ("identity", "log")
    kind = (
        glassbox.ExplainableBoostingRegressor
        if is_regression
        else glassbox.ExplainableBoostingClassifier
    )
    types = [_feature_type(d, j) for j in range(len(names))]
    return kind(feature_names=names, feature_types=types, interactions=0, outer_bags=1)


def _feature_names(d: Decomposition) -> list[str]:
    # The names that interpret gives to the columns of an array.
    return [
        name if d.inputs.match_names else f"feature_{j:04}"
        for j, name in enumerate(d.feature_names)
    ]


def _feature_type(d: Decomposition, feature: int) -> str:
    return "nominal" if d.inputs.features[feature].is_categorical else "continuous"


def _class_labels(d: Decomposition, classes: Sequence[Any] | None) -> npt.NDArray[Any]:
    n_classes = 2 if d.n_outputs == 1 else d.n_outputs
    if classes is not None:
        is_listed = hasattr(classes, "__len__") and not isinstance(classes, str | bytes | Mapping)
        if not is_listed or len(classes) != n_classes:
            raise InvalidInputError(
                f"classes must be {n_classes} class labels, got {brief(classes)}"
            )
        return np.asarray(classes)
    known = () if d.origin.model is None else d.origin.model.class_labels
    if len(known) == n_classes:
        # Labels of several types are not made texts.
        return np.array(known, dtype=object if len(set(map(type, known))) > 1 else None)
    labels = _numbered_labels(d)
    warnings.warn(
        "the class labels of the model are not known, so the EBM predicts "
        f"{listed_names([str(label) for label in labels])}; to_ebm(d, classes=[...]) sets them",
        stacklevel=3,
    )
    return labels


def _numbered_labels(d: Decomposition) -> npt.NDArray[Any]:
    """Return zero and one, or the names of several outputs."""
    if d.n_outputs == 1:
        return np.arange(2)
    if all(name.lstrip("-").isdigit() for name in d.output_names):
        return np.array([int(name) for name in d.output_names])
    return np.array(d.output_names)


def _axes_by_order(d: Decomposition) -> list[list[FeatureAxis]]:
    """Return the axes of each feature in main effects, in pairs and so on, where they differ."""
    axis_of: dict[tuple[int, int], FeatureAxis] = {}
    for subset, component in d.tensor_components().items():
        for j, axis in zip(subset, component.axes, strict=True):
            known = axis_of.setdefault((j, len(subset)), axis)
            if not known.same_regular(axis):
                raise InvalidInputError(
                    f"the effects of {len(subset)} features that include {axis.name!r} have "
                    "different intervals; an EBM needs the same intervals in all of them"
                )
    axes = []
    for j, spec in enumerate(d.inputs.features):
        used: list[FeatureAxis] = []
        for size in range(max((n for k, n in axis_of if k == j), default=0), 0, -1):
            own = axis_of.get((j, size))
            # A size without effects has the axis of the next larger one.
            used = [used[0] if own is None else own, *used]
        while len(used) > 1 and used[-1].same_regular(used[-2]):
            used.pop()
        unused = FeatureAxis(spec.name, None if spec.is_categorical else np.empty(0), spec.labels)
        axes.append(used or [unused])
    return axes


def _bins(axis: FeatureAxis) -> Array | dict[str, int]:
    if axis.cuts is not None:
        return axis.cuts.copy()
    labels = [label_text(category) for category in axis.categories]
    if len(set(labels)) < len(labels):
        raise UnsupportedModelError(
            f"an EBM stores categories as text, and two categories of {axis.name!r} have the same "
            "text"
        )
    return {label: position for position, label in enumerate(labels, start=1)}


def _bounds(axes: list[list[FeatureAxis]]) -> Array:
    nothing = (np.nan, np.nan)
    return np.array(
        [
            next(
                (axis.bounds for axis in of_feature if axis.bounds and axis.cuts is not None),
                nothing,
            )
            for of_feature in axes
        ]
    ).reshape(len(axes), 2)


def _bags(d: Decomposition) -> list[Array]:
    """Return the values of each component in each bag, shape (n_bags, cells..., n_outputs).

    The bags are the trained models of a spread, around the decomposition; without one, it is the
    only bag.
    """
    tensors = d.tensor_components()
    if d.spread is None:
        return [component.values[None] for component in tensors.values()]
    # A component that no spread knows is the same in all models.
    n_models = d.spread.n_models
    return [
        _around(component.values, d.spread.values(subset))
        if subset in d.spread
        else np.repeat(component.values[None], n_models, axis=0)
        for subset, component in tensors.items()
    ]


def _around(centre: Array, bags: Array) -> Array:
    """Return bags moved alike, so that their mean is the centre: interpret takes it for that."""
    return np.asarray(bags + (centre - bags.mean(axis=0)))


def _histogram(d: Decomposition, feature: int, n_rows: float) -> tuple[Array, int]:
    """Return rows that are missing, regular and unseen, and the number of cells with rows.

    Categories have one bar each; numbers are in one bar, since rows are kept as cells.
    """
    spec = d.inputs.features[feature]
    for subset, component in d.tensor_components().items():
        if feature not in subset:
            continue
        position = subset.index(feature)
        others = tuple(k for k in range(len(subset)) if k != position)
        axis = component.axes[position]
        mass = n_rows * _interpret_layout(component.mass.sum(axis=others), [axis])
        regular = mass[1:-1] if axis.is_categorical else mass[1:-1].sum(keepdims=True)
        return np.concatenate([mass[:1], regular, mass[-1:]]), int(np.count_nonzero(mass[1:-1]))
    # Nothing is known of a feature without effects but that there are rows.
    regular = np.zeros(spec.n_codes) if spec.is_categorical else np.array([n_rows])
    return np.concatenate([[0.0], regular, [0.0]]), 0


def _response_range(d: Decomposition) -> tuple[float, float]:
    """Return the smallest and the largest response of the components on the rows."""
    rows = d.grid_rows
    if rows is None:
        return float("nan"), float("nan")
    margin = np.tile(d.intercept, (rows.n_rows, 1))
    for component in d.tensor_components().values():
        margin += values_on_rows(component, rows.by_order)
    response = d.link.inverse(margin)
    return float(response.min()), float(response.max())


def _one_or_all(values: Array) -> Array:
    return values[..., 0] if values.shape[-1] == 1 else values


def _interpret_layout(table: Array, axes: Sequence[FeatureAxis]) -> Array:
    """Return a table with, along each axis, the missing cell, the regular ones, the unknown."""
    target = np.zeros((*(axis.n_regular + 2 for axis in axes), *table.shape[len(axes) :]))
    target[np.ix_(*(_positions(axis) for axis in axes))] = table
    return target


def _positions(axis: FeatureAxis) -> Indices:
    special = [axis.n_regular + 1] * axis.has_other + [0] * axis.has_missing
    return np.concatenate([np.arange(1, axis.n_regular + 1), special]).astype(np.intp)
