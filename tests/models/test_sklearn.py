"""scikit-learn's trees, forests and gradient boosting against the library itself."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingRegressor,
)
from sklearn.ensemble._forest import ForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from tests.cases import rows_beside_cuts
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link
from treepurify.models.cuts import cut_at_most_single
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import parse_model
from treepurify.models.parse import raw_margin as raw_margin_of_any
from treepurify.models.sklearn import parse, raw_margin

N_ROWS = 250
FOREST_TOLERANCE = 1e-14


def _data(n_features: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ROWS, n_features))
    X[:, 1] = np.round(X[:, 1], 1)
    return X, X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 0.1 * rng.normal(size=N_ROWS)


X, Y = _data()
TWO = np.where(np.median(Y) < Y, "yes", "no")
THREE = np.digitize(Y, [-0.3, 1.0]) * 10
TWO_TARGETS = np.column_stack([Y, Y**2])
TWO_CLASS_TARGETS = np.column_stack([(Y > 0) * 1, THREE])
WEIGHTS = np.random.default_rng(4).exponential(size=N_ROWS)


def _allows_missing(model) -> bool:
    return bool(model.__sklearn_tags__().input_tags.allow_nan)


def _predicts_missing(model) -> bool:
    # The tags of scikit-learn 1.6 do not say that monotonic trees refuse missing values.
    try:
        model.predict(np.full((1, model.n_features_in_), np.nan))
    except ValueError:
        return False
    return True


def _rows(model, ensemble: TreeEnsemble, seed: int = 0) -> np.ndarray:
    missing = 0.1 if _predicts_missing(model) else 0.0
    rows = rows_beside_cuts(ensemble, 800, seed=seed, missing=missing, infinite=False)
    # The library refuses what does not fit into single precision.
    rows[np.abs(rows) > np.finfo(np.float32).max] = 0.0
    return rows


def _assert_equal(model, *, exact: bool = True) -> TreeEnsemble:
    ensemble = parse(model)
    rows = _rows(model, ensemble)
    expected = raw_margin(model, rows)
    actual = ensemble.margin(rows)
    assert expected.shape == (len(rows), ensemble.n_outputs)
    if exact:
        np.testing.assert_array_equal(actual, expected)
    else:
        tolerance = FOREST_TOLERANCE * np.abs(expected).max()
        np.testing.assert_allclose(actual, expected, rtol=FOREST_TOLERANCE, atol=tolerance)
    return ensemble


@pytest.mark.parametrize("tree", [DecisionTreeRegressor, ExtraTreeRegressor])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_leaf_nodes": 13},
        {"max_depth": 1},
        {"criterion": "absolute_error", "max_depth": 4},
        {"ccp_alpha": 0.01},
        {"monotonic_cst": [1, 0, 0, -1], "max_depth": 5},
    ],
)
def test_regression_tree(tree, options):
    ensemble = _assert_equal(tree(random_state=0, **options).fit(X, Y))
    assert ensemble.output_names == ("margin",)
    assert ensemble.link == Link()


@pytest.mark.parametrize("tree", [DecisionTreeClassifier, ExtraTreeClassifier])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_leaf_nodes": 9},
        {"class_weight": "balanced", "max_depth": 3},
        {"criterion": "entropy", "max_depth": 4},
    ],
)
@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
def test_classification_tree(tree, options, target):
    model = tree(random_state=0, **options).fit(X, target, sample_weight=WEIGHTS)
    ensemble = _assert_equal(model)
    expected = ("yes",) if target is TWO else ("0", "10", "20")
    assert ensemble.output_names == expected
    np.testing.assert_array_equal(
        ensemble.margin(X)[:, -1], model.predict_proba(X)[:, -1], strict=True
    )


@pytest.mark.parametrize("forest", [RandomForestRegressor, ExtraTreesRegressor])
@pytest.mark.parametrize("options", [{}, {"max_leaf_nodes": 11}, {"max_samples": 0.3}])
def test_regression_forest(forest, options):
    if forest is ExtraTreesRegressor and "max_samples" in options:
        options = {**options, "bootstrap": True}
    model = forest(n_estimators=13, random_state=0, **options).fit(X, Y, sample_weight=WEIGHTS)
    assert _assert_equal(model, exact=False).n_trees == 13


@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("target", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("class_weight", [None, "balanced", "balanced_subsample"])
def test_classification_forest(forest, target, class_weight):
    bootstrap = class_weight == "balanced_subsample"
    model = forest(
        13, random_state=0, max_depth=5, class_weight=class_weight, bootstrap=bootstrap
    ).fit(X, target)
    ensemble = _assert_equal(model, exact=False)
    np.testing.assert_allclose(ensemble.margin(X)[:, -1], model.predict_proba(X)[:, -1], atol=1e-14)


def test_a_forest_of_one_class_by_chance_in_some_trees():
    target = np.zeros(N_ROWS, dtype=int)
    target[0] = 1
    _assert_equal(RandomForestClassifier(7, random_state=0).fit(X, target), exact=False)


@pytest.mark.parametrize(
    "model",
    [DecisionTreeRegressor(max_depth=5), RandomForestRegressor(9), ExtraTreesRegressor(9)],
)
def test_several_regression_targets(model):
    ensemble = _assert_equal(model.set_params(random_state=0).fit(X, TWO_TARGETS), exact=False)
    assert ensemble.output_names == ("target0", "target1")


@pytest.mark.parametrize(
    "model",
    [DecisionTreeClassifier(max_depth=4), RandomForestClassifier(9), ExtraTreesClassifier(9)],
)
def test_several_classification_targets(model):
    model.set_params(random_state=0).fit(X, TWO_CLASS_TARGETS)
    ensemble = _assert_equal(model, exact=False)
    assert ensemble.output_names == (
        "target0:0", "target0:1", "target1:0", "target1:10", "target1:20",
    )  # fmt: skip
    np.testing.assert_allclose(ensemble.margin(X)[:, 1], model.predict_proba(X)[0][:, 1])


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
@pytest.mark.parametrize("start", [None, "zero", "constant"])
def test_gradient_boosting_regressor(loss, start):
    init = DummyRegressor(strategy="constant", constant=3.7) if start == "constant" else start
    model = GradientBoostingRegressor(
        n_estimators=25, loss=loss, init=init, subsample=0.7, random_state=0
    )
    ensemble = _assert_equal(model.fit(X, Y, sample_weight=WEIGHTS))
    assert ensemble.link == Link()
    assert not any(spec.has_missing for spec in ensemble.features)
    assert not ensemble.missing_left.any()
    assert "rejects missing values" in ensemble.source.notes[0]


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
@pytest.mark.parametrize(
    "init", [None, "zero", DummyClassifier(strategy="most_frequent")], ids=["none", "zero", "own"]
)
def test_gradient_boosting_of_two_classes(loss, init):
    model = GradientBoostingClassifier(n_estimators=20, loss=loss, init=init, random_state=0)
    ensemble = _assert_equal(model.fit(X, TWO))
    assert ensemble.output_names == ("yes",)
    probability = ensemble.link.inverse(ensemble.margin(X))[:, 0]
    np.testing.assert_allclose(probability, model.predict_proba(X)[:, 1], atol=1e-15, rtol=1e-12)


def test_gradient_boosting_of_three_classes():
    model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(X, THREE)
    ensemble = _assert_equal(model)
    assert ensemble.output_names == ("0", "10", "20")
    assert ensemble.tree_output[:4].tolist() == [0, 1, 2, 0]
    probability = ensemble.link.inverse(ensemble.margin(X))
    np.testing.assert_allclose(probability, model.predict_proba(X), rtol=1e-12)


def test_gradient_boosting_that_stops_early():
    model = GradientBoostingRegressor(
        n_estimators=500, n_iter_no_change=2, max_leaf_nodes=6, max_depth=None, random_state=0
    ).fit(X, Y)
    ensemble = _assert_equal(model)
    assert ensemble.n_trees == model.n_estimators_ < 500


@pytest.mark.parametrize(
    "model",
    [DecisionTreeRegressor(), RandomForestRegressor(3), GradientBoostingRegressor(n_estimators=3)],
)
def test_constant_target_gives_single_leaves(model):
    ensemble = _assert_equal(model.fit(X, np.full(N_ROWS, 2.5)), exact=False)
    assert len(ensemble.feature) == ensemble.n_trees
    np.testing.assert_allclose(ensemble.margin(X), 2.5)


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), ExtraTreesClassifier(3)])
def test_single_class(model):
    ensemble = _assert_equal(model.fit(X, np.full(N_ROWS, "only")), exact=False)
    assert ensemble.output_names == ("only",)


def _with_missing(seed: int = 0) -> np.ndarray:
    rows = X.copy()
    rng = np.random.default_rng(seed)
    rows[rng.random(N_ROWS) < 0.3, 0] = np.nan
    rows[Y > 1.0, 2] = np.nan
    return rows


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(max_depth=6),
        DecisionTreeClassifier(max_leaf_nodes=12),
        ExtraTreeRegressor(max_depth=6),
        RandomForestClassifier(9, max_depth=5),
        ExtraTreesRegressor(9),
    ],
)
def test_missing_values(model):
    rows = _with_missing()
    target = THREE if hasattr(model, "predict_proba") else Y
    model.set_params(random_state=0).fit(rows, target)
    ensemble = _assert_equal(model, exact=False)
    np.testing.assert_allclose(ensemble.margin(rows), raw_margin(model, rows), atol=1e-13)
    assert [spec.has_missing for spec in ensemble.features][2]
    assert not ensemble.features[1].has_missing
    assert not ensemble.features[3].has_missing


def test_split_that_parts_missing_values_from_all_others():
    rows = np.array([[1.0], [2.0], [np.nan], [np.nan]])
    model = DecisionTreeRegressor().fit(rows, [1.0, 1.0, 5.0, 5.0])
    assert np.isinf(model.tree_.threshold[0])
    ensemble = parse(model)
    np.testing.assert_array_equal(ensemble.margin([[3e38], [-3e38], [np.nan]])[:, 0], [1, 1, 5])
    assert ensemble.features[0].has_missing
    assert not np.any(ensemble.cut == np.inf)


def test_names_come_from_the_training_table():
    table = pd.DataFrame(X, columns=["age", "hours", "b c", "d"])
    model = RandomForestRegressor(3, random_state=0).fit(table, Y)
    ensemble = parse(model)
    assert ensemble.has_feature_names
    assert ensemble.feature_names == ("age", "hours", "b c", "d")
    shuffled = table[["d", "b c", "age", "hours"]]
    np.testing.assert_allclose(ensemble.margin(shuffled), raw_margin(model, table), rtol=1e-14)
    np.testing.assert_array_equal(raw_margin(model, shuffled), raw_margin(model, table))
    # Neither call may warn: an array is matched by position.
    np.testing.assert_array_equal(raw_margin(model, X), raw_margin(model, table))


def test_without_names_a_table_is_matched_by_position():
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, Y)
    ensemble = parse(model)
    assert not ensemble.has_feature_names
    assert ensemble.feature_names == ("x0", "x1", "x2", "x3")
    table = pd.DataFrame(X, columns=list("wxyz"))
    np.testing.assert_array_equal(ensemble.margin(table), raw_margin(model, table))


def test_children_come_after_parents_in_best_first_trees():
    model = RandomForestRegressor(5, max_leaf_nodes=40, random_state=0).fit(X, Y)
    ensemble = parse(model)
    inner = np.flatnonzero(ensemble.feature >= 0)
    assert np.all(ensemble.left[inner] > inner)
    assert np.all(ensemble.right[inner] > inner)


def test_subclass_that_predicts_as_its_parent_is_read():
    class Renamed(RandomForestRegressor):
        pass

    model = Renamed(3, random_state=0).fit(X, Y)
    assert parse_model(model).n_trees == 3
    np.testing.assert_array_equal(raw_margin_of_any(model, X)[:, 0], model.predict(X))


def test_model_is_left_as_it_was():
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, TWO)
    before = model.decision_function(X)
    arrays = [tree.tree_.value.copy() for tree in model.estimators_.ravel()]
    parse(model).value[:] = 7.0
    np.testing.assert_array_equal(model.decision_function(X), before)
    for tree, values in zip(model.estimators_.ravel(), arrays, strict=True):
        np.testing.assert_array_equal(tree.tree_.value, values)


def test_the_parser_does_not_import_scikit_learn():
    code = "import sys, treepurify.models.sklearn; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def _old_tree(model, *, counts: bool):
    """Give the tree of `model` the layout of scikit-learn 1.2."""
    tree = model.tree_
    names = [name for name in tree.__getstate__()["nodes"].dtype.names if "missing" not in name]
    nodes = tree.__getstate__()["nodes"]
    old = np.empty(len(nodes), dtype=[(name, nodes.dtype[name]) for name in names])
    for name in names:
        old[name] = nodes[name]
    scale = tree.weighted_n_node_samples[:, None, None] if counts else 1.0
    body = {
        "__module__": "sklearn.tree._tree",
        "value": tree.value * scale,
        "__getstate__": lambda self: {"nodes": old},
    }
    return type("Tree", (), body)()


def test_old_layout_with_counts_and_without_missing_values():
    model = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, THREE)
    rows = rows_beside_cuts(parse(model), 300, missing=0.0, infinite=False)
    expected = model.predict_proba(rows)
    model.tree_ = _old_tree(model, counts=True)
    ensemble = parse(model)
    np.testing.assert_allclose(ensemble.margin(rows), expected, rtol=1e-15, atol=1e-16)
    assert not ensemble.missing_left.any()


# --- cuts ------------------------------------------------------------------------------

AWKWARD = [0.0, -0.0, 1e-45, -1e-45, 1e-40, 0.1, 1.0, -1.0, 16777217.0, 3.4e38, -3.4e38, 1e-300]
single_range = st.floats(-3.4028234663852886e38, 3.4028234663852886e38)


@given(threshold=single_range | st.sampled_from(AWKWARD), other=single_range)
@settings(max_examples=300, deadline=None)
def test_cut_is_the_float32_comparison(threshold, other):
    cut = cut_at_most_single(np.array([threshold]))
    near = np.concatenate([cut, [threshold, other, 0.0, -0.0]])
    with np.errstate(over="ignore"):
        single = near.astype(np.float32)
        x = np.concatenate(
            [
                near,
                np.nextafter(near, -np.inf),
                np.nextafter(near, np.inf),
                single,
                np.nextafter(single, np.float32(-np.inf)),
                np.nextafter(single, np.float32(np.inf)),
            ]
        )
    x = x[np.abs(x) <= np.finfo(np.float32).max]
    np.testing.assert_array_equal(x < cut, x.astype(np.float32) <= np.float64(threshold))


def test_cut_is_the_smallest_double_on_the_right():
    threshold = np.array([0.0, 0.1, 1.0, np.nextafter(1.0, 2.0), 1e-45, -7.25, 1e30])
    cut = cut_at_most_single(threshold)
    below = np.nextafter(cut, -np.inf)
    assert np.all(below.astype(np.float32) <= threshold)
    assert np.all(cut.astype(np.float32) > threshold)


# --- drawn models ------------------------------------------------------------------------

drawn_values = st.one_of(
    st.sampled_from(AWKWARD),
    st.floats(-2, 2),
    st.floats(-2, 2, width=32),
    st.integers(-3, 3).map(float),
)


@st.composite
def drawn_models(draw):
    """A fitted model on few, awkward rows, with missing values where it allows them."""
    kind = draw(
        st.sampled_from(
            [
                DecisionTreeRegressor,
                DecisionTreeClassifier,
                ExtraTreeRegressor,
                ExtraTreeClassifier,
                RandomForestClassifier,
                ExtraTreesRegressor,
                GradientBoostingRegressor,
                GradientBoostingClassifier,
            ]
        )
    )
    model = kind(random_state=draw(st.integers(0, 99)))
    model.set_params(max_depth=draw(st.sampled_from([1, 2, 4])))
    model.set_params(max_leaf_nodes=draw(st.sampled_from([None, 2, 5])))
    if "n_estimators" in model.get_params():
        model.set_params(n_estimators=draw(st.integers(1, 4)))
    n_rows, n_features = draw(st.integers(4, 14)), draw(st.integers(1, 3))
    values = drawn_values
    if _allows_missing(model):
        values = values | st.just(np.nan)
    cells = n_rows * n_features
    rows = np.array(draw(st.lists(values, min_size=cells, max_size=cells)))
    targets = draw(st.lists(st.integers(0, 2), min_size=n_rows, max_size=n_rows))
    if kind is GradientBoostingClassifier:
        targets[:2] = [0, 1]
    return model.fit(rows.reshape(n_rows, n_features), targets)


@given(model=drawn_models(), seed=st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_drawn_models(model, seed):
    ensemble = parse(model)
    rows = _rows(model, ensemble, seed)[:200]
    expected = raw_margin(model, rows)
    if isinstance(model, RandomForestClassifier | ExtraTreesRegressor):
        np.testing.assert_allclose(ensemble.margin(rows), expected, rtol=1e-14, atol=1e-14)
    else:
        np.testing.assert_array_equal(ensemble.margin(rows), expected)


def test_the_largest_numbers_warn_of_nothing():
    X = np.tile([3e38, -3e38], 40)[:, None]
    model = RandomForestRegressor(n_estimators=2, random_state=0).fit(X / 1e38, X[:, 0])
    np.testing.assert_allclose(parse(model).margin(X), raw_margin(model, X), rtol=1e-12)


# --- refusals ----------------------------------------------------------------------------


class RandomForestQuantileRegressor(ForestRegressor):
    """What packages for quantile forests make from scikit-learn's forests."""

    def __init__(self):
        super().__init__(DecisionTreeRegressor())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            RandomForestQuantileRegressor(),
            r"RandomForestQuantileRegressor.*quantile of the responses.*loss=\"quantile\"",
        ),
        (AdaBoostClassifier(), r"AdaBoostClassifier.*vote for classes.*HistGradientBoosting"),
        (AdaBoostRegressor(), r"AdaBoostRegressor.*weighted median.*HistGradientBoosting"),
        (RandomTreesEmbedding(), r"RandomTreesEmbedding.*transforms its input"),
        (StackingRegressor([]), r"StackingRegressor.*model\.estimators_"),
        (LinearRegression(), r"LinearRegression.*linear model.*coefficients"),
        (LogisticRegression(), r"LogisticRegression.*linear model.*coefficients"),
        (MLPRegressor(), r"MLPRegressor.*not a sum of trees.*hooker_anova"),
        (KMeans(), r"KMeans.*not a sum of trees"),
    ],
)
def test_models_that_are_no_sum_of_trees(model, message):
    for function in (parse_model, parse):
        with pytest.raises(UnsupportedModelError, match=message):
            function(model)
    with pytest.raises(UnsupportedModelError, match=message):
        raw_margin(model, X)


@pytest.mark.parametrize(
    "kind",
    [
        DecisionTreeRegressor,
        ExtraTreeClassifier,
        RandomForestClassifier,
        ExtraTreesRegressor,
        GradientBoostingClassifier,
    ],
)
def test_unfitted(kind):
    with pytest.raises(InvalidInputError, match=rf"this {kind.__name__} is not fitted; call fit"):
        parse(kind())
    with pytest.raises(InvalidInputError, match="is not fitted"):
        raw_margin(kind(), X)


@pytest.mark.parametrize(
    "init", [LinearRegression(), DecisionTreeRegressor(max_depth=1)], ids=["linear", "tree"]
)
def test_gradient_boosting_on_another_model(init):
    model = GradientBoostingRegressor(n_estimators=2, init=init).fit(X, Y)
    with pytest.raises(UnsupportedModelError, match=r"init=.*Train it with init=None"):
        parse(model)


def test_gradient_boosting_on_random_guesses():
    init = DummyClassifier(strategy="stratified", random_state=0)
    model = GradientBoostingClassifier(n_estimators=2, init=init).fit(X, TWO)
    with pytest.raises(UnsupportedModelError, match=r"init=DummyClassifier.*init=None"):
        parse(model)


def test_subclass_with_a_prediction_of_its_own():
    class Doubled(DecisionTreeRegressor):
        def predict(self, X, check_input=True):
            return 2 * super().predict(X, check_input)

    with pytest.raises(UnsupportedModelError, match=r"Doubled is a .* that overrides predict\(\)"):
        parse(Doubled().fit(X, Y))


def test_foreign_tree_type():
    model = DecisionTreeRegressor().fit(X, Y)
    model.tree_ = type("ObliqueTree", (), {"__module__": "treeple._lib"})()
    with pytest.raises(UnsupportedModelError, match=r"of the type treeple\._lib\.ObliqueTree"):
        parse(model)


def test_unknown_node_field():
    model = DecisionTreeRegressor(max_depth=1).fit(X, Y)
    tree = _old_tree(model, counts=False)
    nodes = tree.__getstate__()["nodes"]
    wider = np.zeros(len(nodes), dtype=[*nodes.dtype.descr, ("category_bitset", "<u8")])
    model.tree_ = type("Tree", (), {
        "__module__": "sklearn.tree._tree",
        "value": tree.value,
        "__getstate__": lambda self: {"nodes": wider},
    })()  # fmt: skip
    with pytest.raises(UnsupportedModelError, match=r"unknown fields: \['category_bitset'\]"):
        parse(model)


class OwnBlend(RegressorMixin, BaseEstimator):
    """An ensemble of one's own, on scikit-learn's base classes."""

    def fit(self, X, y):
        self.model_ = DecisionTreeRegressor().fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


def test_refusals_name_the_class_that_was_passed():
    X = np.random.default_rng(0).normal(size=(60, 2))
    labels = X[:, 0] > 0
    own = r"^OwnBlend \(of tests\) cannot be decomposed exactly: it is not a known sum"
    with pytest.raises(UnsupportedModelError, match=own):
        parse_model(OwnBlend().fit(X, X[:, 0]))
    imblearn = pytest.importorskip("imblearn.ensemble")
    bags = imblearn.EasyEnsembleClassifier(n_estimators=2, random_state=0).fit(X, labels)
    with pytest.raises(
        UnsupportedModelError, match=r"inside this EasyEnsembleClassifier: AdaBoost"
    ):
        parse_model(bags)
