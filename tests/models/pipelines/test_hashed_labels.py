"""CatBoost behind transformers: categories of which it keeps nothing but hashes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, StandardScaler

import treepurify as tp
from tests.models.pipelines.cases import check_composed, columns, dense_one_hot, make_data, ordinal
from treepurify.errors import UnsupportedModelError
from treepurify.models.parse import read_model

catboost = pytest.importorskip("catboost")


def one_hot_catboost(names=("color", "size")):
    return catboost.CatBoostRegressor(
        iterations=15,
        depth=4,
        verbose=0,
        allow_writing_files=False,
        thread_count=1,
        cat_features=list(names),
        one_hot_max_size=255,
    )


def as_frame(step):
    return step.set_params(verbose_feature_names_out=False).set_output(transform="pandas")


FILLED = {
    "by a label": lambda: SimpleImputer(strategy="constant", fill_value="missing"),
    "by the most frequent": lambda: SimpleImputer(strategy="most_frequent"),
    "where a label says so": lambda: SimpleImputer(strategy="most_frequent", missing_values="S"),
}


@pytest.mark.parametrize("step", ["passthrough", "remainder"])
def test_labels_that_are_passed_on(step):
    X, y = make_data()
    split = columns(StandardScaler(), "passthrough")
    if step == "remainder":
        scaled = [("num", StandardScaler(), ["age", "income", "rooms"])]
        split = ColumnTransformer(scaled, remainder="passthrough")
    pipeline = make_pipeline(as_frame(split), one_hot_catboost())
    check_composed(pipeline, X, y, missing=False)
    assert set(read_model(pipeline, X).features[3].categories) < set(X.color)


def check_last_columns(pipeline, X, y):
    """Steps that change labels leave nothing to compare with hashes of raw ones."""
    ensemble = tp.parse_model(pipeline.fit(X, y), X=X)
    rows = X.sample(300, replace=True, random_state=1).assign(size="never seen")
    rows[::2] = X[:150].to_numpy()
    rows = rows.astype(X.dtypes)
    assert any(spec.derivation is not None for spec in ensemble.features)
    np.testing.assert_allclose(ensemble.margin(rows)[:, 0], pipeline.predict(rows), rtol=1e-12)
    with pytest.raises(UnsupportedModelError, match=r"'color'.*only hashes"):
        tp.parse_model(pipeline, "raw")


@pytest.mark.parametrize("filled", FILLED)
def test_labels_that_are_filled(filled):
    X, y = make_data(missing=() if "says" in filled else ["color"])
    step = as_frame(columns("passthrough", FILLED[filled]()))
    check_last_columns(make_pipeline(step, one_hot_catboost()), X, y)


def test_labels_and_their_codes_and_dummies():
    X, y = make_data()
    split = ColumnTransformer(
        [
            ("dummies", dense_one_hot(), ["color"]),
            ("codes", ordinal(dtype=np.int64), ["size"]),
            ("text", "passthrough", ["color"]),
            ("numbers", "passthrough", ["age", "income", "rooms"]),
        ]
    )
    check_last_columns(make_pipeline(as_frame(split), one_hot_catboost()), X, y)


@pytest.mark.parametrize("hole", [-1, 0])
def test_whole_numbers_with_a_hole(hole):
    """A number that stands for missing is told apart by the imputer, not by the model."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.integers(-1, 4, 400), "age": rng.normal(size=400)})
    y = X.code**2 + X.age
    fill = SimpleImputer(missing_values=hole, strategy="most_frequent")
    for last in (make_pipeline(fill, dense_one_hot()), fill):
        parts = [("code", last, ["code"]), ("age", "passthrough", ["age"])]
        names = ["code"] if last is fill else []
        pipeline = make_pipeline(as_frame(ColumnTransformer(parts)), one_hot_catboost(names))
        pipeline.fit(X, y)
        rows = pd.DataFrame({"code": np.arange(-3, 9), "age": 0.0})
        composed = tp.parse_model(pipeline, X=X).margin(rows)[:, 0]
        np.testing.assert_allclose(composed, pipeline.predict(rows), rtol=1e-12)


def test_numbers_that_become_labels_are_refused():
    X, y = make_data()
    split = ColumnTransformer(
        [("two", Binarizer(threshold=2), ["rooms"]), ("age", "passthrough", ["age"])]
    )
    X = X.astype({"rooms": np.int64})
    pipeline = make_pipeline(as_frame(split), one_hot_catboost(["rooms"])).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"'rooms'.*only hashes"):
        tp.parse_model(pipeline, "raw", X)
    composed = tp.parse_model(pipeline, X=X)
    np.testing.assert_allclose(composed.margin(X)[:, 0], pipeline.predict(X), rtol=1e-12)
