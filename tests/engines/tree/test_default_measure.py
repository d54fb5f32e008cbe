"""`purify` as people call it: every kind of model and rows, under the default measure."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from interpret import glassbox
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treepurify as tp

QUIET = {"progress": False}
pytestmark = pytest.mark.filterwarnings("ignore:Missing values detected")


def table(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n_rows, 1))
    X = pd.DataFrame(base + rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    X.loc[rng.random(n_rows) < 0.1, "b"] = np.nan
    X["kind"] = pd.Categorical(rng.choice(["red", "green", "blue"], n_rows))
    y = X["a"] * X["c"] + X["b"].fillna(1.0) + (X["kind"] == "red")
    return X, y + 0.3 * rng.normal(size=n_rows)


def pipeline():
    encoder = make_column_transformer(
        (OneHotEncoder(), ["kind"]), remainder="passthrough", verbose_feature_names_out=False
    )
    return make_pipeline(encoder, lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1))


MODELS = {
    "deep booster": lambda: xgboost.XGBRegressor(n_jobs=1, enable_categorical=True),
    "LightGBM": lambda: lightgbm.LGBMRegressor(verbose=-1, n_jobs=1),
    "pipeline": pipeline,
    "EBM": lambda: glassbox.ExplainableBoostingRegressor(outer_bags=2, max_rounds=100, n_jobs=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_model_adds_up_and_says_its_measure(name):
    X, y = table(600)
    model = MODELS[name]().fit(X, y)
    d = tp.purify(model, X, **QUIET)
    assert d.measure.startswith("smoothed rows")
    np.testing.assert_allclose(d.predict(X), model.predict(X), atol=1e-5)
    assert d.certificate.conditional_mean < 1e-10
    assert d.origin.measure_rows == len(X)
    assert d.origin.copies * len(X) >= 1 << 15
    assert "The 600 rows were smoothed" in d.certificate.note


def test_a_forest_of_few_rows():
    X, y = table(300)
    X = X[["a", "c", "d"]]
    model = RandomForestRegressor(20, random_state=0).fit(X, y)
    d = tp.purify(model, X, **QUIET)
    np.testing.assert_allclose(d.predict(X), model.predict(X), atol=1e-10)


def test_an_ebm_needs_no_rows():
    X, y = table(600)
    model = MODELS["EBM"]().fit(X, y)
    d = tp.purify(model, **QUIET)
    counted = tp.purify(model, weights="empirical", **QUIET)
    assert d.measure == counted.measure
    for subset in counted.components:
        np.testing.assert_array_equal(d[subset].values, counted[subset].values)


def test_trees_without_rows_are_refused_with_the_way_out():
    X, y = table(200)
    model = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X[["a"]], y)
    with pytest.raises(tp.errors.InvalidInputError, match=r'pass X, or use weights="uniform"'):
        tp.purify(model, **QUIET)


def test_effects_of_few_rows_are_nearer_to_those_of_all():
    X, y = table(20_000)
    X = X[["a", "c", "d"]]
    model = xgboost.XGBRegressor(n_jobs=1).fit(X, y)
    truth = tp.purify(model, X, weights="empirical", missing_cells="always", **QUIET)

    def distance(**options):
        d = tp.purify(model, X[:500], missing_cells="always", **options, **QUIET)
        errors = [
            d[s].on_rows(d.inputs.columns(X)) - truth[s].on_rows(d.inputs.columns(X))
            for s in truth.components
        ]
        return np.sqrt(sum(np.mean(error**2) for error in errors))

    assert distance() < 0.6 * distance(weights="empirical")


def test_features_that_the_model_does_not_use_change_nothing():
    X, y = table(500)
    model = xgboost.XGBRegressor(n_jobs=1, max_depth=2, interaction_constraints=[["a", "b"]])
    model.fit(X[["a", "b", "c", "d"]].assign(d=0.0), y)
    rng = np.random.default_rng(9)
    first, second = (
        tp.purify(model, X[["a", "b", "c"]].assign(d=rng.normal(size=len(X))), **QUIET)
        for _ in range(2)
    )
    assert "d" not in first.diagnostics["measure"]["bandwidths"]
    for subset in first.components:
        np.testing.assert_array_equal(first[subset].values, second[subset].values)


def test_the_sampling_error_is_that_of_the_rows_not_of_their_copies():
    def rows(n_rows, seed):
        return table(n_rows, seed=seed)[0][["a", "c", "d"]]

    X, y = table(800)
    X = X[["a", "c", "d"]]
    model = xgboost.XGBRegressor(n_jobs=1, max_depth=2, n_estimators=30).fit(X, y)
    truth = tp.purify(model, rows(50_000, 1), **QUIET)
    off, estimated = [], []
    for seed in (0, 2, 3, 4):
        X = rows(800, seed)
        d = tp.purify(model, X, **QUIET)
        columns = d.inputs.columns(X)
        apart = [d[s].on_rows(columns) - truth[s].on_rows(columns) for s in d]
        off.append(np.sum(np.mean(np.square(apart), axis=1)) / np.var(model.predict(X)))
        found = tp.with_sampling_error(d, model, X, splits=2, **QUIET)
        estimated.append(found.certificate.sampling_error[0] ** 2)
    assert 0.5 < np.mean(estimated) / np.mean(off) < 2
