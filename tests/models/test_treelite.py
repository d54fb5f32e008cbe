"""Models of Treelite: the margin is that of Treelite's own library for predictions."""

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble

import treepurify as tp
from tests.cases import rows_beside_cuts
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.parse import parse_model, raw_margin

treelite = pytest.importorskip("treelite")

from_sklearn = treelite.sklearn.import_model
N_ROWS = 10_000


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(400, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2]
    return X, y


def with_missing(X):
    X = X.copy()
    X[::7, 0] = np.nan
    return X


def xgboost_model(X, y, **options):
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=5, **options)
    return treelite.frontend.from_xgboost(model.fit(with_missing(X), y).get_booster())


def lightgbm_model(X, y, **options):
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, **options)
    return treelite.frontend.from_lightgbm(model.fit(with_missing(X), y).booster_)


# Each with the type in which Treelite adds the trees up.
CASES = {
    "xgboost": (xgboost_model, np.float32),
    "xgboost classes": (
        lambda X, y: xgboost_model(
            X, np.digitize(y, [-1, 1]), objective="multi:softprob", num_class=3
        ),
        np.float32,
    ),
    "xgboost counts": (
        lambda X, y: xgboost_model(X, np.abs(y), objective="count:poisson"),
        np.float32,
    ),
    "lightgbm": (lightgbm_model, np.float64),
    "lightgbm one against the rest": (
        lambda X, y: lightgbm_model(
            X, np.digitize(y, [-1, 1]), objective="multiclassova", num_class=3
        ),
        np.float64,
    ),
    "forest": (
        lambda X, y: from_sklearn(ensemble.RandomForestRegressor(20).fit(X, y)),
        np.float64,
    ),
    "forest of classes": (
        lambda X, y: from_sklearn(ensemble.ExtraTreesClassifier(20).fit(X, y > 0)),
        np.float64,
    ),
    "targets": (
        lambda X, y: from_sklearn(ensemble.RandomForestRegressor(20).fit(X, np.stack([y, -y], 1))),
        np.float64,
    ),
    "gradient boosting": (
        lambda X, y: from_sklearn(
            ensemble.GradientBoostingClassifier(n_estimators=20).fit(X, y > 0)
        ),
        np.float64,
    ),
}


def test_a_split_of_missing_values_alone_takes_infinity_for_a_number(data):
    X, y = data
    X = np.round(X)
    X[np.random.default_rng(1).random(len(X)) < 0.5, 1] = np.nan
    model = lightgbm_model(X, y + 5.0 * np.isnan(X[:, 1]))
    tests = [model.get_tree_accessor(t).get_field("threshold") for t in range(model.num_tree)]
    assert np.any(np.isposinf(np.concatenate(tests)))
    parsed = parse_model(model)
    rows = rows_beside_cuts(parsed, 3000)
    assert np.any(np.isposinf(rows[:, 1]))
    np.testing.assert_allclose(parsed.margin(rows), raw_margin(model, rows), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_margins_are_those_of_treelite_beside_cuts(name, data):
    make, precision = CASES[name]
    model = make(*data)
    parsed = parse_model(model)
    rows = rows_beside_cuts(parsed, N_ROWS)
    own = treelite.gtil.predict(model, rows.astype(model.input_type), pred_margin=True)
    own = own.reshape(len(rows), -1)
    assert parsed.accumulation == np.dtype(precision).name
    # It adds the base last, and divides sums where the leaves are divided here.
    rounding = 20 * np.finfo(precision).eps * (np.abs(own).max() + 1)
    np.testing.assert_allclose(parsed.margin(rows), own, rtol=0, atol=rounding)
    np.testing.assert_array_equal(raw_margin(model, rows), own)
    response = treelite.gtil.predict(model, rows.astype(model.input_type)).reshape(len(rows), -1)
    np.testing.assert_allclose(parsed.link.inverse(own), response, rtol=1e-5, atol=1e-6)


def build(operator, *, by_category=False):
    builder = treelite.model_builder.ModelBuilder
    made = builder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=treelite.model_builder.Metadata(
            num_feature=1,
            task_type="kRegressor",
            average_tree_output=False,
            num_target=1,
            num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=treelite.model_builder.TreeAnnotation(
            num_tree=1, target_id=[0], class_id=[0]
        ),
        postprocessor=treelite.model_builder.PostProcessorFunc(name="identity"),
        base_scores=[0.25],
    )
    made.start_tree()
    made.start_node(0)
    made.numerical_test(
        feature_id=0,
        threshold=0.1,
        default_left=True,
        opname=operator,
        left_child_key=1,
        right_child_key=2,
    )
    made.end_node()
    leaves = {1: -1.0, 2: 2.0}
    if by_category:
        leaves = {2: 2.0, 3: -1.0, 4: 1.0}
        made.start_node(1)
        made.categorical_test(
            feature_id=0,
            default_left=True,
            category_list=[0],
            category_list_right_child=True,
            left_child_key=3,
            right_child_key=4,
        )
        made.end_node()
    for key, value in leaves.items():
        made.start_node(key)
        made.leaf(value)
        made.end_node()
    made.end_tree()
    return made.commit()


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_each_comparison_is_read(operator):
    model = build(operator)
    cut = np.float32(0.1)
    near = [np.nextafter(cut, np.float32(-1)), cut, np.nextafter(cut, np.float32(1))]
    rows = np.array([*near, np.nan, np.inf, -np.inf], dtype=np.float64)[:, None]
    own = treelite.gtil.predict(model, rows.astype(np.float32), pred_margin=True)
    np.testing.assert_array_equal(parse_model(model).margin(rows)[:, 0], own.ravel())


def test_what_is_not_read_says_so():
    with pytest.raises(UnsupportedModelError, match="operator 1"):
        parse_model(build("=="))
    with pytest.raises(UnsupportedModelError, match="both as a number and as a category"):
        parse_model(build("<", by_category=True))


def lightgbm_by_category(codes, y):
    rows = lightgbm.Dataset(codes, y, categorical_feature=[0, 2])
    options = {"max_cat_to_onehot": 1, "min_data_per_group": 1, "cat_smooth": 0, "verbose": -1}
    booster = lightgbm.train(options, rows, num_boost_round=20)
    return treelite.frontend.from_lightgbm(booster)


def xgboost_by_category(codes, y, **options):
    rows = xgboost.DMatrix(codes, y, feature_types=["c", "q", "c"], enable_categorical=True)
    booster = xgboost.train({"max_depth": 5, **options}, rows, 20)
    return treelite.frontend.from_xgboost(booster)


@pytest.mark.parametrize(
    "make",
    [
        lightgbm_by_category,
        lambda codes, y: xgboost_by_category(codes, y, max_cat_to_onehot=1),
        lambda codes, y: xgboost_by_category(codes, y, max_cat_to_onehot=20),
    ],
)
def test_splits_by_category_are_sets_of_codes(make):
    rng = np.random.default_rng(0)
    codes = np.column_stack([np.arange(900) % 9, rng.normal(size=900), rng.integers(0, 40, 900)])
    codes[::13, 0] = np.nan
    y = 3 * (codes[:, 2] % 3) + np.nan_to_num(codes[:, 0]) % 2 * codes[:, 1]
    model = make(codes, y)
    parsed = parse_model(model)
    assert [spec.kind for spec in parsed.features] == ["categorical", "numeric", "categorical"]
    rows = rng.choice([*range(50), -1, -0.5, 1.5, 1e9, np.inf, np.nan], (N_ROWS, 3))
    rows[:, 1] = rng.normal(size=N_ROWS)
    own = treelite.gtil.predict(model, rows.astype(model.input_type), pred_margin=True).ravel()
    rounding = 20 * np.finfo(parsed.accumulation).eps * np.abs(own).max()
    np.testing.assert_allclose(parsed.margin(rows)[:, 0], own, rtol=0, atol=rounding)
    np.testing.assert_array_equal(raw_margin(model, rows)[:, 0], own)
    d = tp.purify(model, codes, weights="empirical", progress=False)
    np.testing.assert_allclose(d.predict(codes), parsed.margin(codes)[:, 0], atol=1e-4)


def test_a_checkpoint_says_how_to_load_it(data, tmp_path):
    path = tmp_path / "model.tl"
    lightgbm_model(*data).serialize(str(path))
    with pytest.raises(InvalidInputError, match=r"treelite\.Model\.deserialize"):
        parse_model(path)


def test_a_model_is_purified_and_compared_with_its_library(data):
    X, y = data
    model = xgboost_model(X, y)
    d = tp.purify(model, X, weights="empirical", order=1)
    assert d.origin.model.library == "treelite"
    assert d.certificate.margin_error < 1e-5
