"""Exported queries say which model they are of, and that it was edited."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import make_pipeline

import treepurify as tp
from treepurify.export import to_sql
from treepurify.export.sql import origin


@pytest.fixture(scope="module")
def d():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = GradientBoostingClassifier(max_depth=2, n_estimators=10, random_state=0)
    return tp.purify(
        model.fit(X, X[:, 0] * X[:, 1] + X[:, 2] > 0), X, weights="empirical", progress=False
    )


def test_a_model_as_it_is_was_not_edited(d):
    facts = dict(origin(d))
    assert facts["model SHA-256"] == d.origin.model.sha256
    assert facts["rows of the distribution"] == "300"
    assert facts["written by"] == f"treepurify {tp.__version__}"
    assert "no longer the model" not in facts


def test_a_query_says_what_was_edited(d):
    edited = d.without("x2")
    (sentence,) = edited.certificate.edits
    query = to_sql(edited)
    heading = query[: query.index("WITH")]
    assert d.origin.model.sha256 in heading
    assert sentence in heading


def test_derived_columns_are_listed_with_what_they_are_made_from():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=["height", "weight"])
    model = GradientBoostingClassifier(max_depth=2, n_estimators=5, random_state=0)
    pipeline = make_pipeline(PCA(2), model).fit(X, X["height"] * X["weight"] > 0)
    d = tp.purify(pipeline, X, weights="empirical", progress=False)
    sql = to_sql(d)
    assert "'pca0' from height, weight; 'pca1' from height, weight" in sql[: sql.index("WITH")]
