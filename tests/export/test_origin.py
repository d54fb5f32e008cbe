"""Exported files say which model they are of, and that it was edited."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import make_pipeline

import treepurify as tp
from treepurify.export import to_excel, to_onnx, to_scorecard, to_sql
from treepurify.export.origin import origin


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


def test_every_export_says_what_was_edited(d, tmp_path):
    edited = d.without("x2")
    (sentence,) = edited.certificate.edits
    digest = d.origin.model.sha256
    sql = to_sql(edited)
    card = to_scorecard(edited)
    texts = [sql[: sql.index("WITH")], card.to_html(), repr(card)]
    if pytest.importorskip("openpyxl"):
        to_excel(edited, tmp_path / "effects.xlsx")
        card.to_excel(tmp_path / "card.xlsx")
        for name in ("effects.xlsx", "card.xlsx"):
            facts = pd.read_excel(tmp_path / name, sheet_name="facts")
            texts.append(" ".join(map(str, facts.to_numpy().ravel())))
    onnx = pytest.importorskip("onnx")
    to_onnx(edited, tmp_path / "m.onnx")
    props = onnx.load(tmp_path / "m.onnx").metadata_props
    texts.append(" ".join(f"{prop.key}: {prop.value}" for prop in props))
    for text in texts:
        assert digest in text
        assert sentence in text.replace("&amp;", "&")


def test_derived_columns_are_listed_with_what_they_are_made_from():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=["height", "weight"])
    model = GradientBoostingClassifier(max_depth=2, n_estimators=5, random_state=0)
    pipeline = make_pipeline(PCA(2), model).fit(X, X["height"] * X["weight"] > 0)
    d = tp.purify(pipeline, X, weights="empirical", progress=False)
    sql = to_sql(d)
    assert "'pca0' from height, weight; 'pca1' from height, weight" in sql[: sql.index("WITH")]
