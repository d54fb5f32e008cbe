"""Which raw column makes which: splits, unions, selections, nesting, refusals."""

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingRegressor
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.models.pipelines.cases import (
    FAMILIES,
    TEXTS,
    check_composed,
    columns,
    dense_one_hot,
    filled,
    lgbm,
    make_data,
    ordinal,
    xgb,
)
from treepurify.errors import InvalidInputError, UnsupportedModelError

X, Y = make_data(missing=["age"])
NUMERIC = ["age", "income", "rooms"]


@pytest.mark.parametrize(
    "step",
    [
        ColumnTransformer([("c", dense_one_hot(), ["color"])], remainder="drop"),
        ColumnTransformer([("c", dense_one_hot(), [3]), ("n", StandardScaler(), [2, 0])]),
        ColumnTransformer([("n", StandardScaler(), slice("age", "rooms"))]),
        ColumnTransformer([("n", StandardScaler(), [True, False, True, False, False])]),
        ColumnTransformer(
            [
                ("c", dense_one_hot(), make_column_selector(dtype_exclude=float)),
                ("n", "passthrough", make_column_selector(dtype_include=float)),
            ]
        ),
        ColumnTransformer([("c", dense_one_hot(), TEXTS)], remainder=StandardScaler()),
        ColumnTransformer([("c", dense_one_hot(), TEXTS)], remainder="passthrough"),
        ColumnTransformer(
            [("c", OneHotEncoder(handle_unknown="ignore"), TEXTS)],
            remainder=filled(MinMaxScaler()),
            sparse_threshold=1.0,
        ),
    ],
    ids=["drop", "positions", "slice", "mask", "selectors", "scaled", "passed on", "sparse"],
)
def test_splits(step):
    check_composed(make_pipeline(step, xgb()), X, Y)


def test_selection_order_and_nesting():
    inner = Pipeline([("split", columns(filled("passthrough"), dense_one_hot()))])
    model = make_pipeline(
        inner,
        VarianceThreshold(0.05),
        SelectKBest(f_regression, k=6),
        None,
        StandardScaler(),
        xgb(),
    )
    check_composed(model, X, Y, unknown=False)


def test_a_union_of_splits():
    numbers = ColumnTransformer([("n", filled(PowerTransformer()), NUMERIC)])
    texts = ColumnTransformer([("c", ordinal(), TEXTS), ("again", TargetEncoder(), ["color"])])
    both = FeatureUnion([("numbers", numbers), ("nothing", "drop"), ("texts", texts)])
    check_composed(make_pipeline(both, xgb()), X, Y)


def test_tables_inside():
    step = columns(StandardScaler(), dense_one_hot()).set_output(transform="pandas")
    check_composed(make_pipeline(step, lgbm()), X, Y)


def test_samplers_do_nothing_at_prediction():
    over_sampling = pytest.importorskip("imblearn.over_sampling")
    from imblearn.pipeline import make_pipeline as make_sampled
    from xgboost import XGBClassifier

    classes = np.digitize(Y, [np.quantile(Y, 0.8)])
    sampler = over_sampling.RandomOverSampler(random_state=0)
    model = make_sampled(columns("passthrough", dense_one_hot()), sampler, XGBClassifier())
    model.fit(X, classes)
    ensemble = tp.parse_model(model)
    probability = ensemble.link.inverse(ensemble.margin(X))[:, 0]
    np.testing.assert_allclose(probability, model.predict_proba(X)[:, 1], atol=1e-6)


def test_rows_of_any_table_in_any_order():
    whole, y = make_data()
    pipeline = make_pipeline(columns(StandardScaler(), dense_one_hot()), xgb()).fit(whole, y)
    d = tp.purify(pipeline, whole[whole.columns[::-1]], weights="empirical")
    assert d.verify(pipeline, whole).relative_difference < 1e-5
    other = tp.purify(pipeline, pl.from_pandas(whole), weights="empirical")
    np.testing.assert_allclose(other.predict(whole), d.predict(whole), atol=1e-12)


def test_dropped_columns_may_hold_anything():
    whole, y = make_data()
    whole = whole.assign(id=[f"row {i}" for i in range(len(whole))], number=1.0)
    pipeline = make_pipeline(columns(StandardScaler(), dense_one_hot()), xgb()).fit(whole, y)
    d = tp.purify(pipeline, whole, weights="empirical")
    assert d.feature_names[-2:] == ("id", "number")
    assert not any({5, 6} & set(subset) for subset in d)
    assert not tp.parse_model(pipeline, X=whole).features[6].is_categorical


def test_a_saved_decomposition_of_a_pipeline(tmp_path):
    whole, y = make_data()
    pipeline = make_pipeline(columns(StandardScaler(), dense_one_hot()), xgb()).fit(whole, y)
    d = tp.purify(pipeline, whole, weights="empirical")
    d.save(tmp_path / "effects.tp")
    again = tp.load(tmp_path / "effects.tp")
    np.testing.assert_array_equal(again.predict(whole), d.predict(whole))
    assert "ColumnTransformer" in again.origin.model.kind


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (PCA(2), r"'pca' \(PCA\).*several columns.*'income', 'rooms'"),
        (PolynomialFeatures(), r"PolynomialFeatures.*several columns"),
    ],
)
def test_mixed_columns_are_refused_by_name(step, reason):
    whole, y = make_data()
    pipeline = make_pipeline(step, xgb()).fit(whole[["income", "rooms"]], y)
    with pytest.raises(UnsupportedModelError, match=reason):
        tp.purify(pipeline, whole[["income", "rooms"]], weights="empirical", columns="raw")


def test_mixed_columns_that_no_tree_tests_do_not_matter():
    whole, y = make_data()
    split = ColumnTransformer([("pca", PCA(1), ["rooms"]), ("a", StandardScaler(), ["income"])])
    pipeline = make_pipeline(split, xgb(interaction_constraints="[[1]]")).fit(
        whole, 0 * y + whole.income
    )
    if tp.parse_model(pipeline, columns="transformed").used_features == (1,):
        assert tp.parse_model(pipeline).used_features == (1,)


def test_transformed_columns_and_what_they_are_made_from():
    whole, y = make_data()
    pipeline = make_pipeline(columns(PCA(2), dense_one_hot()), xgb()).fit(whole, y)
    ensemble = tp.parse_model(pipeline, columns="transformed")
    rows = pipeline[:-1].transform(whole)
    assert ensemble.feature_names[:3] == ("num__pca0", "num__pca1", "cat__color_blue")
    assert [spec.made_from for spec in ensemble.features[:3]] == [tuple(NUMERIC)] * 2 + [("color",)]
    np.testing.assert_array_equal(ensemble.margin(rows)[:, 0], pipeline.predict(whole))


def test_boosting_machines_behind_steps_that_pass_columns_on():
    glassbox = pytest.importorskip("interpret.glassbox")
    whole, y = make_data()
    rows = whole[NUMERIC]
    machine = glassbox.ExplainableBoostingRegressor(interactions=0, max_rounds=20, n_jobs=1)
    pipeline = make_pipeline("passthrough", machine).fit(rows, y)
    np.testing.assert_allclose(
        tp.parse_model(pipeline).margin(rows)[:, 0], pipeline.predict(rows), rtol=1e-12
    )
    scaled = make_pipeline(StandardScaler(), machine).fit(rows, y)
    np.testing.assert_allclose(
        tp.parse_model(scaled).margin(rows)[:, 0], scaled.predict(rows), rtol=1e-12
    )
    with pytest.raises(UnsupportedModelError, match="select columns"):
        tp.parse_model(scaled, "raw")
    assert tp.parse_model(scaled, columns="transformed").features[1].made_from == ("income",)


class OwnScaler(StandardScaler):
    """A scaler that does something else."""

    def transform(self, X):
        return super().transform(X) ** 2


class OwnPipeline(Pipeline):
    """A pipeline that predicts something else."""

    def predict(self, X):
        return 2 * super().predict(X)


def test_methods_of_ones_own_are_refused():
    whole, y = make_data()
    with pytest.raises(UnsupportedModelError, match=r"OwnScaler.*the source of each of its"):
        tp.parse_model(make_pipeline(OwnScaler(), xgb()).fit(whole[NUMERIC], y), "raw")
    own = OwnPipeline([("scale", StandardScaler()), ("trees", xgb())]).fit(whole[NUMERIC], y)
    with pytest.raises(UnsupportedModelError):
        tp.parse_model(own)


def test_sparse_rows_before_models_of_several_libraries_are_refused():
    whole, y = make_data()
    step = columns(StandardScaler(), OneHotEncoder(), sparse_threshold=1.0)
    both = VotingRegressor([("xgboost", xgb()), ("tree", DecisionTreeRegressor(max_depth=3))])
    with pytest.raises(UnsupportedModelError, match="sparse_threshold=0"):
        tp.parse_model(make_pipeline(step, both).fit(whole, y))
    step.set_params(sparse_threshold=0.0)
    check = make_pipeline(step, both).fit(whole, y)
    np.testing.assert_allclose(
        tp.parse_model(check).margin(whole)[:, 0], check.predict(whole), 1e-6
    )


def test_sparse_rows_that_models_of_several_libraries_read_in_different_ways():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    both = VotingRegressor([("xgboost", xgb()), ("tree", DecisionTreeRegressor(max_depth=3))])
    model = tp.parse_model(both.fit(X, y))
    np.testing.assert_allclose(model.margin(X)[:, 0], both.predict(X), 1e-6)
    with pytest.raises(InvalidInputError, match="XGBoost reads a missing value, but the other"):
        model.margin(csr_array(X))


def test_transformed_sparse_rows_have_missing_zeros():
    whole, y = make_data()
    step = columns(StandardScaler(), OneHotEncoder(), sparse_threshold=1.0)
    pipeline = make_pipeline(step, xgb()).fit(whole, y)
    ensemble = tp.parse_model(pipeline, columns="transformed")
    rows = pipeline[:-1].transform(whole).toarray()
    np.testing.assert_array_equal(ensemble.margin(rows)[:, 0], pipeline.predict(whole))
    assert "zeros are read as missing" in ensemble.source.notes[-1]


def test_trees_that_would_grow_too_large_have_the_columns_of_the_last_step(monkeypatch):
    """In sparse rows a scaled zero is missing to XGBoost, so that a test becomes several cuts."""
    whole, y = make_data()
    step = columns(StandardScaler(), OneHotEncoder(), sparse_threshold=1.0)
    pipeline = make_pipeline(step, xgb()).fit(whole, y)
    assert tp.parse_model(pipeline).feature_names == tuple(whole)
    monkeypatch.setattr("treepurify.models.pipelines.compose._MOST_NODES", -(1 << 30))
    ensemble = tp.parse_model(pipeline, X=whole)
    assert all(spec.derivation is not None for spec in ensemble.features)
    np.testing.assert_array_equal(ensemble.margin(whole)[:, 0], pipeline.predict(whole))


def test_a_pipeline_must_be_fitted():
    with pytest.raises(InvalidInputError, match="train"):
        tp.parse_model(make_pipeline(StandardScaler(), xgb()))


def test_the_word_for_columns():
    with pytest.raises(InvalidInputError, match='columns must be "auto", "raw" or "transformed"'):
        tp.parse_model(xgb(), columns="other")


def test_native_categories_and_dummies_side_by_side():
    whole, y = make_data()
    native = whole.astype(dict.fromkeys(TEXTS, "category"))
    dummies = make_pipeline(columns("passthrough", dense_one_hot()), xgb()).fit(whole, y)
    first = tp.purify(dummies, whole, weights="empirical")
    second = tp.purify(xgb(enable_categorical=True).fit(native, y), native, weights="empirical")
    comparison = tp.compare(first, second, native)
    assert (3,) in comparison.subsets
    assert comparison.rank_agreement > 0.5


NUMBER_STEPS = [
    StandardScaler(),
    MinMaxScaler(),
    PowerTransformer(),
    QuantileTransformer(n_quantiles=20),
    filled(StandardScaler(), add_indicator=True),
    "passthrough",
]
TEXT_STEPS = [
    dense_one_hot(),
    dense_one_hot(drop="first"),
    dense_one_hot(min_frequency=40),
    ordinal(),
    TargetEncoder(),
    OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=3),
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    numbers=st.lists(st.sampled_from(NUMBER_STEPS), min_size=1, max_size=2),
    texts=st.sampled_from(TEXT_STEPS),
    family=st.sampled_from(["xgboost", "lightgbm", "catboost", "tree", "histogram"]),
    threshold=st.sampled_from([0.0, 1.0]),
    last=st.sampled_from(["passthrough", StandardScaler(with_mean=False)]),
    seed=st.integers(0, 3),
)
def test_drawn_pipelines(numbers, texts, family, threshold, last, seed):
    if family == "histogram":
        threshold = 0.0
    table, y = make_data(200, missing=["age", "color"], seed=seed)
    step = columns(
        make_pipeline(filled("passthrough"), *numbers), texts, sparse_threshold=threshold
    )
    check_composed(make_pipeline(step, last, FAMILIES[family][0]()), table, y)


def test_frames_with_columns_of_several_types():
    table, y = make_data()
    table = table.assign(rooms=table.rooms.astype(int), new=table.age > 40)
    table["age"] = table.age.astype(np.float32)
    numbers = ["age", "income", "rooms", "new"]
    split = ColumnTransformer([("n", StandardScaler(), numbers), ("c", dense_one_hot(), TEXTS)])
    pipeline = make_pipeline(split, xgb()).fit(table, y)
    ensemble = tp.parse_model(pipeline, X=table)
    np.testing.assert_array_equal(ensemble.margin(table)[:, 0], pipeline.predict(table))
