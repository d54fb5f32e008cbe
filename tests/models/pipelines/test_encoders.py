"""Encoders: each label, the unknown and the missing one fall where the pipeline puts them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

import treepurify as tp
from tests.models.pipelines.cases import (
    FAMILIES,
    check_composed,
    columns,
    dense_one_hot,
    filled,
    lgbm,
    make_data,
    ordinal,
    xgb,
)
from treepurify.errors import UnsupportedModelError

ENCODERS = {
    "one-hot": dense_one_hot,
    "drop first": lambda: dense_one_hot(drop="first"),
    "drop binary": lambda: dense_one_hot(drop="if_binary"),
    "rare": lambda: dense_one_hot(min_frequency=60),
    "rare for unknown": lambda: dense_one_hot(
        handle_unknown="infrequent_if_exist", max_categories=4
    ),
    "rare and drop": lambda: dense_one_hot(min_frequency=60, drop="first"),
    "ordinal": ordinal,
    "ordinal, NaN": lambda: ordinal(unknown_value=np.nan, encoded_missing_value=-2),
    "ordinal, rare": lambda: ordinal(unknown_value=77, min_frequency=60),
    "target": TargetEncoder,
    "filled": lambda: filled(dense_one_hot(), strategy="most_frequent"),
    "filled by a label": lambda: filled(dense_one_hot(), strategy="constant", fill_value="missing"),
    "indicator": lambda: filled(dense_one_hot(), strategy="most_frequent", add_indicator=True),
    "scaled": lambda: make_pipeline(ordinal(encoded_missing_value=-1), StandardScaler()),
}


@pytest.mark.libraries
@pytest.mark.parametrize("missing", [(), ("color",)], ids=["whole", "missing"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(family, name, missing):
    model, takes_missing = FAMILIES[family]
    if name == "ordinal, NaN" and not takes_missing:
        pytest.skip("unknown labels become NaN, which the model refuses")
    # Some encoders pass missing labels on.
    missing = missing if takes_missing else ()
    X, y = make_data(missing=missing)
    step = columns(filled("passthrough"), ENCODERS[name]())
    check_composed(make_pipeline(step, model()), X, y, missing=bool(missing))


# Histogram boosting takes no sparse rows.
@pytest.mark.libraries
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "histogram"])
@pytest.mark.parametrize("name", ["one-hot", "rare", "rare for unknown"])
def test_sparse_dummies(name, family):
    X, y = make_data(missing=["color"])
    encoder = ENCODERS[name]().set_params(sparse_output=True)
    step = columns(filled("passthrough"), encoder, sparse_threshold=1.0)
    check_composed(make_pipeline(step, FAMILIES[family][0]()), X, y)
    assert step.sparse_output_


def test_sparse_and_dense_dummies_predict_otherwise():
    """The same trees on dense rows read zeros, which on sparse rows are missing."""
    X, y = make_data()
    step = columns(filled(StandardScaler()), OneHotEncoder(), sparse_threshold=1.0)
    pipeline = make_pipeline(step, xgb()).fit(X, y)
    dense = pipeline[-1].predict(step.transform(X).toarray())
    assert np.abs(dense - pipeline.predict(X)).max() > 0.1
    np.testing.assert_array_equal(tp.parse_model(pipeline).margin(X)[:, 0], pipeline.predict(X))


@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
def test_refused_labels_are_noted(encoder):
    X, y = make_data()
    step = columns("passthrough", encoder())
    ensemble = check_composed(make_pipeline(step, xgb()), X, y, unknown=False, missing=False)
    assert any("raises an error for unknown labels" in note for note in ensemble.source.notes)


def test_one_effect_for_all_dummies():
    X, y = make_data()
    pipeline = make_pipeline(columns(StandardScaler(), dense_one_hot()), xgb()).fit(X, y)
    ensemble = tp.parse_model(pipeline)
    assert set(ensemble.features[3].categories) == set(X.color)
    d = tp.purify(pipeline, X, weights="empirical")
    assert d.feature_names == tuple(X.columns)
    assert d["color"].n_cells == X.color.nunique()
    assert d.verify(pipeline, X).relative_difference < 1e-5


@pytest.mark.parametrize("model", ["histogram", "lightgbm"])
def test_codes_read_as_categories(model):
    X, y = make_data(missing=["color"])
    step = columns("passthrough", ordinal(unknown_value=np.nan))
    native = [3, 4]
    estimator = (
        HistGradientBoostingRegressor(max_iter=15, categorical_features=native)
        if model == "histogram"
        else lgbm(categorical_feature=native)
    )
    check_composed(make_pipeline(step, estimator), X, y)


def test_categories_passed_on():
    X, y = make_data()
    X = X.astype({"color": "category", "size": "category"})
    step = columns(StandardScaler(), "passthrough").set_output(transform="pandas")
    pipeline = make_pipeline(step, xgb(enable_categorical=True)).fit(X, y)
    ensemble = tp.parse_model(pipeline)
    assert ensemble.features[3].is_categorical
    np.testing.assert_array_equal(ensemble.margin(X)[:, 0], pipeline.predict(X))


def test_several_columns_for_several_classes():
    import xgboost

    X, y = make_data()
    classes = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    step = columns("passthrough", TargetEncoder())
    pipeline = make_pipeline(step, xgboost.XGBClassifier(n_estimators=8)).fit(X, classes)
    ensemble = tp.parse_model(pipeline)
    probability = ensemble.link.inverse(ensemble.margin(X))
    np.testing.assert_allclose(probability, pipeline.predict_proba(X), atol=1e-6)


def test_none_and_nan_together_are_told_apart_by_the_last_step_only():
    X, y = make_data()
    texts = X.color.astype(object)
    texts[:20], texts[20:40] = None, np.nan
    X = pd.DataFrame({"color": texts, "age": X.age})
    step = ColumnTransformer([("c", dense_one_hot(), ["color"]), ("a", "passthrough", ["age"])])
    y = y + 5.0 * np.arange(len(y)).__lt__(20) - 5.0 * np.arange(len(y)).__lt__(40)
    pipeline = make_pipeline(step, xgb()).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="both None and NaN"):
        tp.parse_model(pipeline, "raw")
    ensemble = tp.parse_model(pipeline, X=X)
    assert "both None and NaN" in ensemble.source.notes[0]
    np.testing.assert_array_equal(ensemble.margin(X)[:, 0], pipeline.predict(X))


@pytest.mark.filterwarnings("ignore::UserWarning:lightgbm")
@pytest.mark.parametrize("is_code", [True, False])
def test_categories_that_are_numbers_in_an_array(is_code):
    """In what a ColumnTransformer returns, categories are their labels; codes have no meaning."""
    X, y = make_data()
    X["rooms"] = (X.rooms * 10).astype(int).astype("category")
    split = ColumnTransformer([("a", StandardScaler(), ["age"]), ("r", "passthrough", ["rooms"])])
    model = lgbm(categorical_feature=[1]) if is_code else lgbm()
    pipeline = make_pipeline(split, model).fit(X, y)
    ensemble = tp.parse_model(pipeline, X=X)
    assert ensemble.features[2].is_categorical == is_code
    np.testing.assert_array_equal(ensemble.margin(X)[:, 0], pipeline.predict(X))
