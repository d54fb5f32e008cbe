"""Transformers that are not read: the user's own, and functions, whatever they return."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError, UnsupportedModelError


class Ratio(BaseEstimator, TransformerMixin):
    """Adds a column, and learns nothing."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X.assign(ratio=X["a"] / X["b"])


class Drop(Ratio):
    """Returns fewer columns, and learns nothing."""

    def transform(self, X):
        return X[["a"]]


def ratio_of(X):
    return np.asarray(X)[:, [0]] / np.asarray(X)[:, [1]]


def three_times(X):
    return np.concatenate([np.asarray(X)] * 3, axis=1)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(1, 2, (200, 3)), columns=["a", "b", "c"])
    return X, X["a"] / X["b"] + X["c"]


def forest():
    return RandomForestRegressor(5, max_depth=3, random_state=0)


def check_transformed(pipeline, X):
    d = tp.purify(pipeline, X, weights="empirical", columns="transformed", progress=False)
    transformed = X
    for _, step in pipeline.steps[:-1]:
        transformed = step.transform(transformed)
    np.testing.assert_allclose(d.predict(transformed), pipeline.predict(X))
    return d


@pytest.mark.parametrize("step", [Ratio, Drop])
def test_transformers_that_learn_nothing(step, rows):
    X, y = rows
    pipeline = make_pipeline(step(), forest()).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=rf"\({step.__name__}\).*'a', 'b', 'c'"):
        tp.purify(pipeline, X, weights="empirical", columns="raw")
    d = check_transformed(pipeline, X)
    assert d.feature_names == tuple(step().transform(X).columns)


def test_a_function_that_adds_columns(rows):
    X, y = rows
    pipeline = make_pipeline(FunctionTransformer(lambda X: X.assign(r=X.a / X.b)), forest())
    pipeline.fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"\(FunctionTransformer\).*<lambda>"):
        tp.parse_model(pipeline, "raw")
    check_transformed(pipeline, X)


def test_a_function_that_returns_fewer_columns_is_found_in_its_place(rows):
    X, y = rows
    split = ColumnTransformer(
        [
            ("ratio", FunctionTransformer(ratio_of), ["a", "b"]),
            ("scaled", StandardScaler(), ["c"]),
            ("more", FunctionTransformer(three_times), ["b"]),
        ]
    )
    pipeline = make_pipeline(split, forest()).fit(X, y)
    expected = r"transformer 'ratio' \(FunctionTransformer\): it calls ratio_of.*'a', 'b'\."
    with pytest.raises(UnsupportedModelError, match=expected):
        tp.parse_model(pipeline, "raw")
    d = check_transformed(pipeline, X)
    made_from = [spec.made_from for spec in tp.parse_model(pipeline, "transformed").features]
    assert made_from == [("a", "b"), ("c",), ("b",), ("b",), ("b",)]
    assert len(d.feature_names) == 5
    # Trees that test the scaled column only are read in its place.
    of_c = make_pipeline(split, DecisionTreeRegressor(max_depth=2)).fit(X, X["c"])
    np.testing.assert_allclose(tp.parse_model(of_c).margin(X)[:, 0], of_c.predict(X))


def test_counts_that_cancel_out_leave_no_place_known(rows):
    X, _ = rows
    fewer = FunctionTransformer(lambda X: np.asarray(X)[:, :1])
    more = FunctionTransformer(lambda X: np.asarray(X)[:, [0, 1, 2, 0, 1]])
    union = FeatureUnion([("fewer", fewer), ("scaled", StandardScaler()), ("more", more)])
    pipeline = make_pipeline(union, DecisionTreeRegressor(max_depth=2)).fit(X, X["b"])
    with pytest.raises(UnsupportedModelError, match="<lambda>"):
        tp.parse_model(pipeline, "raw")
    np.testing.assert_allclose(tp.parse_model(pipeline).margin(X)[:, 0], pipeline.predict(X))


def test_a_function_before_a_scaler(rows):
    X, y = rows
    inside = make_pipeline(FunctionTransformer(ratio_of), StandardScaler())
    split = ColumnTransformer([("ratio", inside, ["a", "b"])], remainder="passthrough")
    pipeline = make_pipeline(split, forest()).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"step 'functiontransformer'.*ratio_of"):
        tp.parse_model(pipeline, "raw")
    check_transformed(pipeline, X)


def test_vectors_of_texts_are_not_called_unfitted():
    texts = ["good", "bad", "very good", "very bad"] * 20
    pipeline = make_pipeline(HashingVectorizer(n_features=8), DecisionTreeRegressor())
    pipeline.fit(texts, [1.0, 0.0, 2.0, -1.0] * 20)
    with pytest.raises(UnsupportedModelError, match="vectors of texts"):
        tp.parse_model(pipeline, "raw")
    margin = tp.parse_model(pipeline).margin(pd.DataFrame({"text": texts}))
    np.testing.assert_allclose(margin[:, 0], pipeline.predict(texts))


def test_transformed_columns_are_those_of_pipelines(rows):
    X, y = rows
    with pytest.raises(InvalidInputError, match="applies to fitted pipelines, got a RandomForest"):
        tp.purify(forest().fit(X, y), X, weights="empirical", columns="transformed")
    with pytest.raises(InvalidInputError, match="columns"):
        tp.purify(forest().fit(X, y), X, weights="empirical", columns="other")
    pipeline = make_pipeline(StandardScaler(), forest()).fit(X, y)
    with pytest.raises(InvalidInputError, match="all rows are read at once"):
        tp.purify(pipeline, iter([X]), weights="empirical", columns="transformed")
    with pytest.raises(UnsupportedModelError):
        tp.purify(
            make_pipeline(Ratio(), LinearRegression()).fit(X, y),
            X,
            weights="empirical",
            columns="transformed",
        )
