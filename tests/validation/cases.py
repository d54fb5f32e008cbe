"""Models of every kind with rows of two groups, and the margins of their own libraries."""

import numpy as np
import pandas as pd
import pytest


def rows(n_rows=600, seed=0):
    """Rows, a group that goes with the first feature, and a binary target."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    X["d"] = np.round(X["d"])
    group = np.where(X["a"] + rng.normal(size=n_rows) > 0.3, "new", "old")
    y = (X["a"] + X["b"] * X["c"] + 0.5 * rng.normal(size=n_rows) > 0).astype(int)
    return X, group, y.to_numpy()


def deep_xgboost(X, y):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=15, max_depth=6, n_jobs=1).fit(X, y)
    return model, lambda rows: model.predict(rows, output_margin=True), 1e-5


def ebm(X, y):
    interpret = pytest.importorskip("interpret.glassbox")
    model = interpret.ExplainableBoostingClassifier(
        interactions=3, max_rounds=60, outer_bags=2, n_jobs=1, random_state=0
    ).fit(X, y)
    return model, model.decision_function, 1e-12


def forest(X, y):
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(n_estimators=10, max_depth=7, random_state=0).fit(X, y)
    return model, model.predict, 1e-12


def pipeline(X, y):
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    steps = [("n", StandardScaler(), list("abc")), ("l", OneHotEncoder(), ["d"])]
    booster = GradientBoostingClassifier(max_depth=3, n_estimators=20, random_state=0)
    model = make_pipeline(ColumnTransformer(steps), booster).fit(X, y)
    return model, model.decision_function, 1e-12


KINDS = (deep_xgboost, ebm, forest, pipeline)


def tied_rows(n_rows=400, seed=0):
    """Rows of few values, so that many predictions are equal, a group and a target of numbers."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 4, (n_rows, 3)).astype(float), columns=list("abc"))
    y = np.clip(X["a"] + X["b"] * (X["c"] > 1) - X["c"] + rng.normal(size=n_rows), 0, 6)
    return X, np.where(rng.random(n_rows) < 0.5, "new", "old"), np.round(y.to_numpy())


def tied_forest(X, y):
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(10, random_state=0).fit(X, y > 2)
    return model, lambda rows: model.predict_proba(rows)[:, 1]


def tied_lightgbm(X, y):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=4, verbose=-1, n_jobs=1)
    return model.fit(X, y > 2), lambda rows: model.predict_proba(rows)[:, 1]


def tied_xgboost(X, y):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(n_estimators=30, max_depth=2, n_jobs=1).fit(X, y)
    return model, model.predict


def tied_ebm(X, y):
    interpret = pytest.importorskip("interpret.glassbox")
    model = interpret.ExplainableBoostingRegressor(
        interactions=2, max_rounds=60, outer_bags=2, n_jobs=1, random_state=0
    ).fit(X, y)
    return model, model.predict


TIED = (tied_forest, tied_lightgbm, tied_xgboost, tied_ebm)
