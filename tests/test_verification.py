"""Decompositions against models on rows of every form, and against models of other shapes."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify.cli.app import app
from treepurify.errors import InvalidInputError

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")
catboost = pytest.importorskip("catboost")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

QUIET = {"progress": False, "missing_cells": "always"}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    kind = rng.choice(list("abc"), 200)
    return pd.DataFrame({"kind": kind, "x": rng.normal(size=200), "k": rng.integers(0, 4, 200)})


def target(rows):
    return (rows["x"] * (rows["kind"] == "a") + (rows["k"] == 2)).to_numpy()


def with_categories(rows, labels="abc"):
    return rows.assign(kind=pd.Categorical(rows["kind"], categories=list(labels)))


def train_xgboost(rows, **parameters):
    model = xgboost.XGBRegressor(
        n_estimators=8, max_depth=2, n_jobs=1, enable_categorical=True, **parameters
    )
    return model.fit(with_categories(rows), target(rows))


def train_lightgbm(rows):
    model = lightgbm.LGBMRegressor(n_estimators=8, verbose=-1, n_jobs=1, min_data_per_group=3)
    return model.fit(with_categories(rows), target(rows))


def train_catboost(rows):
    model = catboost.CatBoostRegressor(
        iterations=8, depth=2, one_hot_max_size=9, verbose=False, thread_count=1,
        allow_writing_files=False, cat_features=["kind"],
    )  # fmt: skip
    return model.fit(rows, target(rows))


def train_histogram(rows):
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(max_iter=8, categorical_features="from_dtype")
    return model.fit(with_categories(rows), target(rows))


def train_ebm(rows):
    glassbox = pytest.importorskip("interpret.glassbox")
    model = glassbox.ExplainableBoostingRegressor(
        interactions=1, outer_bags=1, max_rounds=30, n_jobs=1
    )
    return model.fit(rows, target(rows))


def train_pipeline(rows):
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    columns = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    model = make_pipeline(columns, GradientBoostingRegressor(n_estimators=8))
    return model.fit(rows, target(rows))


TRAIN = {
    "xgboost": train_xgboost,
    "dart": lambda rows: train_xgboost(rows, booster="dart"),
    "lightgbm": train_lightgbm,
    "catboost": train_catboost,
    "histogram": train_histogram,
    "ebm": train_ebm,
    "pipeline": train_pipeline,
}
FORMS = {
    "text": lambda rows: rows,
    "string": lambda rows: rows.astype({"kind": "string"}),
    "other order": lambda rows: with_categories(rows, "cab")[["k", "kind", "x"]],
    "polars": pl.DataFrame,
    "polars categories": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("kind").cast(pl.Categorical)
    ),
    "arrow": pa.table,
    "arrow dictionary": lambda rows: pa.table(with_categories(rows)),
    "objects": lambda rows: rows.to_numpy(dtype=object),
    "batches": lambda rows: pl.DataFrame(rows).lazy(),
}


@pytest.fixture(scope="module", params=TRAIN)
def model(request, rows):
    return TRAIN[request.param](rows)


@pytest.mark.parametrize("form", FORMS)
def test_labels_of_every_form_are_compared_with_the_library(model, rows, form):
    X = FORMS[form](rows)
    if form == "batches" and not hasattr(X, "collect_batches"):
        pytest.skip("this version of polars gives no batches")
    if form not in ("other order", "arrow dictionary"):  # which bring the codes of categories
        needs_stored_labels(model)
    d = tp.purify(model, X, weights="empirical", **QUIET)
    assert d.certificate.margin_error is not None, d.certificate.note
    found = d.verify(model, X)
    assert found.source == "raw prediction of the library"
    assert found.relative_difference < 1e-6


def test_xgboost_is_asked_about_missing_and_unknown_labels(rows):
    odd = rows.assign(kind=rows["kind"].where(rows["x"] > -1).replace("b", "new"))
    model = train_xgboost(rows)
    needs_stored_labels(model)
    d = tp.purify(model, odd, weights="empirical", **QUIET)
    assert d.verify(model, odd).relative_difference < 1e-6
    known = rows.assign(kind=rows["kind"].where(rows["x"] > -1))
    expected = model.predict(with_categories(known))
    np.testing.assert_allclose(d.predict(known), expected, atol=1e-5)


def test_a_csv_file_is_compared_with_the_library(rows, tmp_path):
    model = train_xgboost(rows)
    needs_stored_labels(model)
    model.save_model(tmp_path / "model.ubj")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = ["purify", tmp_path / "model.ubj", tmp_path / "rows.csv", "--out", tmp_path / "out"]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert tp.load(tmp_path / "out" / "decomposition.tpz").certificate.margin_error is not None


@pytest.mark.parametrize("library", ["xgboost", "sklearn"])
def test_another_model_is_named_by_our_error(rows, library):
    from sklearn.ensemble import GradientBoostingRegressor

    def fit(X, y):
        kind = xgboost.XGBRegressor if library == "xgboost" else GradientBoostingRegressor
        return kind(n_estimators=4).fit(X, y)

    X = rows[["x", "k"]]
    y = target(rows)
    model = fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    with pytest.raises(InvalidInputError, match=r"its features are \['x', 'other'\].*'k'\]"):
        d.verify(fit(X.rename(columns={"k": "other"}), y), X)
    with pytest.raises(InvalidInputError, match=r"it has 1 features, \['x'\], but .* 2"):
        d.verify(fit(X[["x"]], y), X)
    found = d.verify(fit(X, y + X["x"] ** 2), X)
    assert found.relative_difference > 0.1


def test_rows_that_only_the_library_refuses(rows):
    model = train_catboost(rows)
    d = tp.purify(model, rows, weights="empirical", **QUIET)
    missing = rows.assign(kind=rows["kind"].where(rows["x"] > -1))
    with pytest.raises(InvalidInputError, match=r"did not predict on these rows \(CatBoostError"):
        d.verify(model, missing)
