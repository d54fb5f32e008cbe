"""Sixty faults that the package once had, as behaviour: each asks what once came out wrong.

`caught.py` runs them. A docstring says what came out; a function fails where it comes back.
Public names only, so that they hold whatever is rebuilt behind these.
"""

import contextlib
import pickle
import re
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import treepurify as tp

FAULTS: dict[str, list[Callable[[], None]]] = {}
QUIET = {"progress": False}


def fault(room: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """List a fault under its room."""

    def add(function: Callable[[], None]) -> Callable[[], None]:
        FAULTS.setdefault(room, []).append(function)
        return function

    return add


def table(n_rows: int = 400, names: str = "abc", seed: int = 0) -> pd.DataFrame:
    """Return independent normal columns."""
    return pd.DataFrame(
        np.random.default_rng(seed).normal(size=(n_rows, len(names))), columns=list(names)
    )


def booster(X: Any, y: Any, **options: Any) -> Any:
    """Train a small XGBoost model."""
    from xgboost import XGBRegressor

    return XGBRegressor(**{"n_estimators": 20, "max_depth": 2, "n_jobs": 1} | options).fit(X, y)


def lightgbm(X: Any, y: Any, **options: Any) -> Any:
    """Train a small LightGBM model."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(**{"n_estimators": 15, "verbose": -1, "n_jobs": 1} | options).fit(X, y)


def ebm(X: Any, y: Any, *, classes: bool = False, **options: Any) -> Any:
    """Train a small EBM."""
    from interpret import glassbox

    kind = "ExplainableBoostingClassifier" if classes else "ExplainableBoostingRegressor"
    few = {"outer_bags": 1, "max_rounds": 50, "interactions": 1, "n_jobs": 1, "random_state": 0}
    return getattr(glassbox, kind)(**few | options).fit(X, y)


def same(found: Any, expected: Any, within: float = 1e-9) -> None:
    """Fail where two arrays differ by more than so much of the largest number."""
    found, expected = np.ravel(found), np.ravel(expected)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    off = np.abs(found - expected).max(initial=0.0)
    assert off <= within * max(np.abs(expected).max(initial=0.0), 1e-300), off


def refusal(call: Callable[[], Any], kind: type[Exception] = tp.errors.TreepurifyError) -> str:
    """Return what the package says when it refuses; fail where it does not."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("not refused")


def read_or_refused(model: Any, X: Any, *, compare: bool = True) -> str:
    """Return what the package says when it refuses a model; fail where it predicts otherwise."""
    try:
        d = tp.purify(model, X, **QUIET)
    except tp.errors.TreepurifyError as error:
        return str(error)
    if compare:
        same(d.predict(X), model.predict(X), 1e-5)
    return ""


# Models


@fault("models")
def lightgbm_codes_between_minus_one_and_zero() -> None:
    """They were an unknown category; LightGBM truncates them to the code 0."""
    import lightgbm as library

    codes = np.repeat(np.arange(6.0), 40)[:, None]
    data = library.Dataset(codes, 9.0 * (codes[:, 0] == 0), categorical_feature=[0])
    options = {"verbose": -1, "min_data_per_group": 1, "cat_smooth": 1, "min_data_in_leaf": 1}
    model = library.train({**options, "num_leaves": 3, "max_cat_to_onehot": 1}, data, 3)
    at = np.array([0.0, -0.5, -1e-30, -1.0, -1.5, 99.0])[:, None]
    same(tp.parse_model(model).margin(at), model.predict(at))


@fault("models")
def lightgbm_texts_without_an_end_of_trees() -> None:
    """Whole files of versions before 2.1.1 were called damaged and cut short."""
    X = table()
    model = lightgbm(X.to_numpy(), X["a"] + X["b"] ** 2).booster_
    text = model.model_to_string().replace("version=v4", "version=v2")
    old = text[: text.index("end of trees")] + "\nfeature importances:\n\npandas_categorical:null\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old.txt"
        path.write_text(old)
        same(tp.parse_model(path).margin(X.to_numpy()), model.predict(X.to_numpy()))


@fault("models")
def lightgbm_categories_of_large_codes() -> None:
    """A small file whose codes are identifiers of millions was refused for its memory."""
    import lightgbm as library

    rng = np.random.default_rng(0)
    ids = rng.choice(8_000_000, 30, replace=False)
    X = np.c_[rng.choice(ids, 1000), rng.normal(size=1000)].astype(float)
    data = library.Dataset(X, X[:, 0] % 7 + X[:, 1], categorical_feature=[0])
    options = {"verbose": -1, "num_leaves": 8, "min_data_per_group": 5, "cat_smooth": 1}
    model = library.train(options, data, 5)
    same(tp.parse_model(model).margin(X), model.predict(X))


@fault("models")
def lightgbm_names_with_blanks() -> None:
    """The names of the table were lost to the underscores that LightGBM writes."""
    X = table().rename(columns={"a": "a b", "b": "c_d"})
    d = tp.purify(lightgbm(X, X["a b"] + X["c"]), X, **QUIET)
    assert d.feature_names == ("a b", "c_d", "c")


@fault("models")
def lightgbm_ordered_categories_show_their_labels() -> None:
    """Tables showed "(0, 1.5)" though the model stores the labels."""
    rng = np.random.default_rng(0)
    labels = ["low", "mid", "high"]
    o = pd.Categorical(rng.choice(labels, 400), categories=labels, ordered=True)
    X = pd.DataFrame({"o": o, "x": rng.normal(size=400)})
    d = tp.purify(lightgbm(X, np.array([0, 3, 1])[o.codes] * (X["x"] + 1)), X, **QUIET)
    assert any(label in " ".join(map(str, d.to_frame("o").iloc[:, 0])) for label in labels)


@fault("models")
def lightgbm_cut_beside_zero() -> None:
    """A place was printed as [-1, 1e-35)."""
    X = pd.DataFrame({"p": np.random.default_rng(0).poisson(1.0, 400)})
    d = tp.purify(lightgbm(X, (X["p"] > 0) + (X["p"] > 2)), X, **QUIET)
    assert not re.search(r"e-\d\d", " ".join(map(str, d.to_frame("p").iloc[:, 0])))


@fault("models")
def xgboost_base_score_near_zero() -> None:
    """The logit of a base score was taken by the rule of another version."""
    from xgboost import XGBClassifier

    X = table()
    for score in (1e-9, 0.3, 0.9999998):
        model = XGBClassifier(n_estimators=1, base_score=score).fit(X, X["a"] > 0)
        same(tp.parse_model(model).margin(X), model.predict(X, output_margin=True), 1e-6)


@fault("models")
def xgboost_labels_that_are_not_ascii() -> None:
    """Rows whose categories have another order were read by their codes, silently."""
    labels = np.random.default_rng(1).choice(["≤10", "10-20", ">20"], 400).tolist()
    X = table(names="x").assign(c=pd.Categorical(labels))
    model = booster(X, X["c"].cat.codes ** 2 * 2 + X["x"], enable_categorical=True)
    other = X.assign(c=pd.Categorical(labels, categories=[">20", "10-20", "≤10"]))
    d = tp.purify(model, X, **QUIET)
    with contextlib.suppress(tp.errors.InvalidInputError):  # a refusal is right, too
        same(d.predict(other), model.predict(X), 1e-5)


@fault("models")
def xgboost_unseen_label_is_named() -> None:
    """The refusal asked for a report of a bug and did not name the label."""
    kinds = np.random.default_rng(1).choice(["red", "green", "blue"], 400)
    X = table(names="x").assign(c=pd.Categorical(kinds))
    model = booster(X, X["c"].cat.codes + X["x"], enable_categorical=True)
    rows = X.iloc[:60].assign(c=pd.Categorical(["amber", *kinds[1:60]]))
    said = read_or_refused(model, rows, compare=False)
    assert not said or "amber" in said or "unknown" in said, said


@fault("models")
def xgboost_columns_with_two_levels() -> None:
    """The very table of the training was refused."""
    X = table(200, "abcd")
    X.columns = pd.MultiIndex.from_product([["p", "q"], ["u", "v"]])
    model = booster(X, X.iloc[:, 0] * X.iloc[:, 1])
    same(tp.purify(model, X, **QUIET).predict(X), model.predict(X), 1e-5)


@fault("models")
def a_missing_category_that_is_none() -> None:
    """HistGradientBoosting counts None as a category of its own: margins were silently wrong."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(5)
    x, k = rng.normal(size=400), rng.choice(["x", "y", "z"], 400).astype(object)
    k[rng.random(400) < 0.2] = None
    X = pd.DataFrame({"x": x, "k": pd.Series(k, dtype=object)})
    y = x * (k == "x") + (k == "z") * 2 + np.array([own is None for own in k])
    model = HistGradientBoostingRegressor(max_iter=8, categorical_features=["k"]).fit(X, y)
    same(tp.parse_model(model, X=X).margin(X), model.predict(X))


@fault("models")
def catboost_infinite_borders() -> None:
    """A model trained on -inf was refused with advice about categories."""
    import catboost

    rng = np.random.default_rng(0)
    values = rng.choice(np.r_[np.arange(20.0), np.inf, -np.inf], 400)
    X = pd.DataFrame({"v": values, "z": rng.normal(size=400)})
    model = catboost.CatBoostRegressor(
        iterations=20, depth=3, verbose=0, allow_writing_files=False
    ).fit(X, X["v"].rank() + X["z"])
    assert "categor" not in read_or_refused(model, X)


@fault("models")
def catboost_regressors_have_no_labels() -> None:
    """The predictions of a regressor were refused as labels of classes."""
    import catboost

    X = table(300, "z").assign(c=np.random.default_rng(0).choice(list("abcd"), 300))
    model = catboost.CatBoostRegressor(
        iterations=10, verbose=0, allow_writing_files=False, cat_features=["c"]
    ).fit(X, (X["c"] == "a") * X["z"])
    tp.interventional_shapley_values(model.predict, X[:3], X[:50], **QUIET)


@fault("models")
def infinity_at_a_split_of_missing_values() -> None:
    """Treelite parts missing values alone; plus infinity went to their side."""
    import lightgbm as library
    import treelite

    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(400, 2)))
    X[rng.random(400) < 0.5, 1] = np.nan
    y = X[:, 0] + 5.0 * np.isnan(X[:, 1])
    model = library.train({"verbose": -1, "num_leaves": 8}, library.Dataset(X, y), 5)
    parsed = tp.parse_model(treelite.frontend.from_lightgbm(model))
    at = np.array([[0.0, np.inf], [0.0, -np.inf], [0.0, np.nan], [1.0, 0.0]])
    same(parsed.margin(at), model.predict(at))


@fault("models")
def ebm_columns_of_numbers_as_texts() -> None:
    """An EBM reads a text column of numbers as continuous; the same table was refused."""
    X = table(300, "a").assign(i=np.random.default_rng(0).integers(0, 5, 300).astype(str))
    model = ebm(X, X["a"] * X["i"].astype(float))
    same(tp.purify(model, X, **QUIET).predict(X), model.predict(X))


@fault("models")
def labels_of_an_outlier_detector() -> None:
    """An isolation forest was explained by its labels -1 and 1 without a word."""
    from sklearn.ensemble import IsolationForest

    X = table(200)
    model = IsolationForest(n_estimators=20, random_state=0).fit(X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            base = tp.partial_dependence_anova(model, X, order=1, **QUIET).intercept
        except tp.errors.TreepurifyError:
            return
    assert caught or abs(float(np.ravel(base)[0]) - model.predict(X).mean()) > 1e-9


@fault("models")
def refusals_name_the_class_of_the_user() -> None:
    """Another library's estimator was refused as "BaseEstimator"."""
    from sklearn.base import BaseEstimator, RegressorMixin

    class Blend(RegressorMixin, BaseEstimator):
        def fit(self, X: Any, y: Any) -> Any:
            self.mean_ = np.mean(y)
            return self

        def predict(self, X: Any) -> Any:
            return np.full(len(X), self.mean_)

    X = table(50)
    assert "Blend" in refusal(lambda: tp.parse_model(Blend().fit(X, X["a"])))


# Pipelines


@fault("pipelines")
def one_hot_catboost_behind_columns_passed_on() -> None:
    """Every label counted as unknown, and margins were silently wrong."""
    import catboost
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    X = table(300, "z").assign(sex=rng.choice(["male", "female"], 300))
    trees = catboost.CatBoostRegressor(
        iterations=10, verbose=0, cat_features=["sex"], one_hot_max_size=10,
        allow_writing_files=False,
    )  # fmt: skip
    model = make_pipeline("passthrough", trees).fit(X, X["z"] + 2 * (X["sex"] == "male"))
    same(tp.parse_model(model, X=X).margin(X), model.predict(X))


@fault("pipelines")
def categories_behind_a_step_that_returns_arrays() -> None:
    """In an array pandas' categories are labels; they were read as codes."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = table(names="a").assign(rooms=np.random.default_rng(0).integers(20, 90, 400))
    X["rooms"] = X["rooms"].astype("category")
    split = ColumnTransformer([("a", StandardScaler(), ["a"]), ("r", "passthrough", ["rooms"])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(split, lightgbm(np.zeros((20, 2)), np.arange(20.0)))
        model.fit(X, X["rooms"].astype(float) + X["a"])
        same(tp.parse_model(model, X=X).margin(X), model.predict(X))


@fault("pipelines")
def zeros_of_sparse_columns_are_missing_to_xgboost() -> None:
    """Absent entries of transformed sparse columns were read as zeros."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from xgboost import XGBRegressor

    X = pd.DataFrame({"k": np.random.default_rng(0).choice(list("uvw"), 300)})
    model = make_pipeline(OneHotEncoder(), XGBRegressor(n_estimators=5, max_depth=2))
    model.fit(X, np.where(X["k"] == "u", 3.0, 1.0))
    same(tp.parse_model(model, X=X).margin(X), model.predict(X), 1e-5)


@fault("pipelines")
def transformers_that_learn_nothing() -> None:
    """A fitted pipeline with a stateless step was said not to be fitted."""
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline

    class Ratio(TransformerMixin, BaseEstimator):
        def fit(self, X: Any, y: Any = None) -> Any:
            return self

        def transform(self, X: Any) -> Any:
            return X.assign(ratio=X["a"] / X["b"])

    X = table(200, "ab").abs() + 1
    model = make_pipeline(Ratio(), RandomForestRegressor(5, random_state=0)).fit(X, X["a"] / X["b"])
    assert "not fitted" not in read_or_refused(model, X)


@fault("pipelines")
def functions_that_return_another_number_of_columns() -> None:
    """The refusal named neither the step nor the function."""
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    def column_ratio(X: Any) -> Any:
        return X[["a"]] / X[["b"]].to_numpy()

    X = table(200).abs() + 1
    split = ColumnTransformer(
        [("ratio", FunctionTransformer(column_ratio), ["a", "b"])], remainder=StandardScaler()
    )
    model = make_pipeline(split, RandomForestRegressor(5, random_state=0)).fit(X, X["a"])
    said = read_or_refused(model, X)
    assert not said or "column_ratio" in said or "'ratio'" in said, said


# Rows


@fault("rows")
def big_endian_columns() -> None:
    """A foreign error: pandas raised an error of its own."""
    from sklearn.ensemble import RandomForestRegressor

    X = table(300, "ab")
    model = RandomForestRegressor(10, max_depth=3, random_state=0).fit(X, X["a"] * X["b"])
    rows = pd.DataFrame({k: X[k].to_numpy().astype(">f8") for k in X})
    same(tp.purify(model, rows, **QUIET).predict(rows), model.predict(X))


@fault("rows")
def one_row_of_a_table() -> None:
    """A Series was refused by predict, and the frame of its Shapley values raised pandas' error."""
    X = table()
    model = booster(X, X["a"] * X["b"] + X["c"])
    d = tp.purify(model, X, weights="empirical", **QUIET)
    same(d.predict(X.iloc[0]), d.predict(X[:1]))
    same(d.contributions(X.iloc[7]), d.contributions(X.iloc[[7]]))
    same(d.shapley_values(X.iloc[7]).to_frame(), d.shapley_values(X.iloc[[7]]).to_frame())


@fault("rows")
def text_labels_for_a_model_of_categories() -> None:
    """The rows' check of the certificate failed on labels that purify had taken."""
    X = table(300, "x").assign(c=np.random.default_rng(0).choice(list("abc"), 300))
    coded = X.assign(c=X["c"].astype("category"))
    model = booster(coded, X["x"] * (X["c"] == "a"), enable_categorical=True)
    d = tp.purify(model, X, **QUIET)
    d.verify(model, X)
    assert "did not predict" not in str(d.certificate)


@fault("rows")
def columns_in_another_order() -> None:
    """Tables were read by position."""
    X = table()
    d = tp.purify(booster(X, X["a"] - 2 * X["b"] * X["c"]), X, **QUIET)
    same(d.predict(X[["c", "a", "b"]]), d.predict(X))


@fault("rows")
def batches_give_what_the_table_gives() -> None:
    """Counts of rows in batches and of the table differed in the last bits."""
    X = table().round(1)
    model = booster(X, X["a"] * X["b"] + X["c"])
    whole = tp.purify(model, X, weights="empirical", **QUIET)
    parts = tp.purify(model, lambda: iter([X[:170], X[170:]]), weights="empirical", **QUIET)
    same(parts.contributions(X), whole.contributions(X), 1e-13)


# Distributions


@fault("weights")
def the_order_of_rows_under_smoothing() -> None:
    """Smoothed effects depended on the order of the rows."""
    X = table(200)
    model = booster(X, X["a"] * X["b"] + X["c"])
    own = tp.purify(model, X, **QUIET).contributions(X)
    turned = X.iloc[np.random.default_rng(1).permutation(200)]
    same(tp.purify(model, turned, **QUIET).contributions(X), own)


@fault("weights")
def correlations_of_rows_that_lack_a_score() -> None:
    """Values that many rows share reversed the sign of correlations of the smoothed rows."""
    from sklearn.datasets import load_diabetes

    X, _ = load_diabetes(return_X_y=True, as_frame=True)
    model = booster(X, X.sum(axis=1), n_estimators=60)
    shares = [
        tp.purify(model, X, weights=weights, **QUIET)
        .importance()
        .set_index("effect")["share"]["s6"]
        for weights in ("auto", "empirical")
    ]
    assert abs(shares[0] - shares[1]) < 0.04, shares


@fault("weights")
def very_few_rows_stay_as_they_are() -> None:
    """Five rows were smoothed by bandwidths that nothing could choose."""
    X = table()
    model = booster(X, X["a"] * X["b"])
    own = tp.purify(model, X[:8], weights="auto", **QUIET)
    same(
        own.contributions(X), tp.purify(model, X[:8], weights="empirical", **QUIET).contributions(X)
    )


@fault("weights")
def laplace_is_half_of_each() -> None:
    """The mixture of rows and the uniform distribution is asked of a table of two features."""
    X = pd.DataFrame({"a": [0.0, 0, 0, 1] * 25, "b": [0.0, 0, 1, 1] * 25})
    model = booster(X, X["a"] * X["b"] + X["b"], n_estimators=5)
    mean = [
        float(np.ravel(tp.purify(model, X, weights=weights, **QUIET).intercept)[0])
        for weights in ("laplace", "empirical", "uniform")
    ]
    same(mean[0], (mean[1] + mean[2]) / 2, 1e-6)


# Effects of trees


@fault("effects")
def more_combinations_than_a_float_can_count() -> None:
    """print(d) raised an OverflowError."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 400))
    model = lightgbm(
        X, X[:, 0] * X[:, 1] + rng.normal(size=300), n_estimators=220, num_leaves=15,
        min_child_samples=5, colsample_bytree=0.2, max_bin=31,
    )  # fmt: skip
    str(tp.purify(model, X, **QUIET))


@fault("effects")
def deep_trees_on_dependent_categories() -> None:
    """The projection of deep trees and the closed form of the same function disagreed."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1500, 4)) @ np.linalg.cholesky(np.full((4, 4), 0.6) + np.eye(4) * 0.4).T
    X = pd.DataFrame(np.digitize(z, [-0.7, 0, 0.7]), columns=list("abcd")).astype("category")
    c = {name: own.cat.codes.to_numpy() for name, own in X.items()}
    model = lightgbm(X, c["a"] * c["b"] - c["c"] * (c["d"] > 1) * (c["a"] > 0), n_estimators=40)
    d = tp.purify(model, X, weights="empirical", **QUIET)
    closed = tp.categorical_anova(model, X, order=2, **QUIET)
    names = [name for name in closed.contributions(X) if name in d.contributions(X)]
    same(d.contributions(X)[names], closed.contributions(X)[names], 1e-6)


@fault("effects")
def features_of_which_the_rows_show_one_cell() -> None:
    """A fit failed where all rows had the same value of a feature that trees test."""
    X = table()
    model = booster(X, X["a"] * X["b"] * X["c"], max_depth=5)
    d = tp.purify(model, X.assign(c=0.3), weights="empirical", **QUIET)
    same(d.predict(X.assign(c=0.3)), model.predict(X.assign(c=0.3)), 1e-5)


@fault("effects")
def features_called_remainder_and_intercept() -> None:
    """Taking out what uses a feature left effects of a feature called "remainder"."""
    X = table()
    model = booster(X.to_numpy(), X["a"] * X["b"] * X["c"] + X["a"], max_depth=4)
    names = ["remainder", "intercept", "c"]
    d = tp.purify(model, X.to_numpy(), feature_names=names, **QUIET)
    same(d.contributions(X.to_numpy()).sum(axis=1), d.predict(X.to_numpy()))
    other = X.to_numpy().copy()
    other[:, 1] = other[::-1, 1]
    without = tp.without_features(d, "intercept")
    same(without.predict(other), without.predict(X.to_numpy()))
    assert (0,) in without


@fault("effects")
def features_called_like_columns_of_a_table() -> None:
    """to_frame lost the columns of features called "mass" or "effect"."""
    X = table(names="ab").rename(columns={"a": "mass", "b": "effect"})
    d = tp.purify(booster(X, X["mass"] * X["effect"]), X, **QUIET)
    frame = d.to_frame(("mass", "effect"))
    assert frame.shape[1] >= 4
    assert frame.columns.is_unique


@fault("effects")
def names_of_pairs_are_keys() -> None:
    """importance() gave "a & b", which d[...], to_frame and plots refused."""
    X = table(300, "ab")
    d = tp.purify(booster(X, X["a"] * X["b"]), X, **QUIET)
    assert d["a & b"] is d["b & a"] is d[0, 1]
    assert len(d.to_frame("a & b"))
    tp.plots.pair(d, "a & b")


@fault("effects")
def one_output_has_no_axis() -> None:
    """An effect of shape (n, 1) less a column of n values was an n by n array."""
    X = table()
    d = tp.purify(booster(X, X["a"] * X["b"]), X, **QUIET)
    assert d["a"].evaluate(X).shape == d.predict(X).shape == (400,)


@fault("effects")
def tables_of_shared_values_sum_to_the_model() -> None:
    """Cells on the wrong side of a cut: rows on and beside cuts in single precision."""
    X = table().round(1).astype(np.float32)
    model = booster(X, X["a"] * X["b"] + X["c"])
    beside = pd.concat([X, np.nextafter(X, np.float32(9)), np.nextafter(X, np.float32(-9))])
    d = tp.purify(model, X, **QUIET)
    same(d.predict(beside.astype(np.float32)), model.predict(beside.astype(np.float32)), 1e-5)


# Engines of functions


@fault("engines")
def quantiles_of_scaled_weights() -> None:
    """Accumulated local effects moved by .8 of the largest as all weights were multiplied."""

    def f(X: Any) -> Any:
        return np.floor(3 * X[:, 0]) * X[:, 1]

    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 2)).round(2)
        w = rng.integers(1, 4, 40).astype(float)
        own = tp.ale_anova(f, X, sample_weight=w, bins=10, **QUIET).contributions(X)
        other = tp.ale_anova(f, X, sample_weight=w * 0.1, bins=10, **QUIET).contributions(X)
        same(other, own)


@fault("engines")
def legendre_and_the_order_of_rows() -> None:
    """A constant that two levels share moved between main effects with the order of the rows."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = (rng.normal(size=(300, 2)) + rng.normal(size=(300, 1))).round(0).clip(-3, 3)
        X[:6] = (-5, -5)

        def f(rows: Any) -> Any:
            return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 1])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = tp.legendre_anova(f, X, **QUIET).contributions(X)
            turned = X[rng.permutation(300)]
            other = tp.legendre_anova(f, turned, **QUIET).contributions(X)
        same(other[own.columns], own, 1e-6)


@fault("engines")
def categorical_effects_that_rows_leave_open() -> None:
    """Coefficients grew to 5e16 where functions outnumber the rows."""
    X = table(150, "abcd") + np.random.default_rng(1).normal(size=(150, 1))
    model = booster(X, X["a"] * X["b"] + np.sin(2 * X["d"]), n_estimators=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d = tp.categorical_anova(model, X, order=2, **QUIET)
    assert np.abs(d.contributions(X)).to_numpy().max() < 20 * np.abs(model.predict(X)).max()
    same(d.predict(X), model.predict(X), 1e-5)


@fault("engines")
def combinations_of_levels_are_no_sample() -> None:
    """Distinct rows were split in halves as a sample: an error of .41 in place of .04."""
    X = np.random.default_rng(0).integers(0, 3, (200, 3))

    def f(X: Any) -> Any:
        return X[:, 0] * X[:, 1] + X[:, 2]

    d = tp.categorical_anova(f, [X[:90], X[90:]], weights="independent", **QUIET)
    refusal(lambda: tp.with_sampling_error(d, f, X, **QUIET))


@fault("engines")
def columns_that_a_model_does_not_use() -> None:
    """Text columns that no tree reads stopped every other engine, or had effects."""
    X = table()
    model = booster(X, X["a"] * X["b"])
    for engine in (tp.ale_anova, tp.partial_dependence_anova):
        d = engine(lambda rows: model.predict(rows * [1, 1, 0]), X.to_numpy(), **QUIET)
        sizes = d.contributions(X.to_numpy()).std()
        assert sizes[[name for name in sizes.index if "x2" in name]].sum() < 1e-6 * sizes.max()


@fault("engines")
def probabilities_are_explained_as_they_are() -> None:
    """Values of a probability were those of its log-odds."""
    from xgboost import XGBClassifier

    X = table(200)
    model = XGBClassifier(n_estimators=10, max_depth=2).fit(X, X["a"] * X["b"] > 0)

    def f(rows: Any) -> Any:
        return model.predict_proba(rows)[:, 1]

    values = tp.interventional_shapley_values(f, X[:5], X, **QUIET).values
    same(values.reshape(5, -1).sum(axis=1), f(X[:5]) - f(X).mean(), 1e-5)


# Interactions, groups and Shapley values


@fault("interactions")
def stumps_have_no_interaction() -> None:
    """H-statistics of single precision were 1e-4 instead of zero."""
    X = table(200)
    h = tp.h_statistics(booster(X, X["a"] + X["b"], max_depth=1), X, **QUIET)
    assert h.pairs()["h_squared"].max() < 1e-12


@fault("interactions")
def h_is_that_of_the_definition() -> None:
    """Compared with partial dependence on the rows, in double precision."""
    X = table(60, "ab")
    model = booster(X, X["a"] * X["b"] + X["a"])
    found = float(tp.h_statistics(model, X, sample_size=60, **QUIET).pairs()["h_squared"].iloc[0])
    grid = [[X.assign(a=v, b=w) for v, w in X.to_numpy()], [X.assign(a=v) for v in X["a"]],
            [X.assign(b=w) for w in X["b"]]]  # fmt: skip
    both, first, second = (
        np.array([model.predict(rows).astype(float).mean() for rows in own]) for own in grid
    )
    both, first, second = (own - own.mean() for own in (both, first, second))
    same(found, ((both - first - second) ** 2).sum() / (both**2).sum(), 1e-4)


@fault("interactions")
def indices_of_an_ebm() -> None:
    """Indices of interactions of an EBM were refused: it has no trees."""
    X = table(200, "ab")
    model = ebm(X, X["a"] * X["b"])
    indices = tp.interaction_indices(model, X, **QUIET)
    d = tp.purify(model, X, weights="independent", order=2, **QUIET)
    assert float(np.ravel(indices.pair_total)[0]) >= 0
    assert len(d.components) >= 2


@fault("interactions")
def groups_of_a_sum_and_a_product() -> None:
    """Features that only multiply in pairs were one group."""
    X = np.random.default_rng(0).uniform(-1, 1, (200, 4))
    sets = tp.shapley_sets(lambda X: X[:, 0] + X[:, 1] * X[:, 3] + X[:, 2], X, **QUIET)
    assert sorted(map(sorted, sets.groups)) == [[0], [1, 3], [2]]


@fault("interactions")
def shapley_values_of_deep_models_and_their_residuals() -> None:
    """The remainder was left out of what values of a deep model sum to."""
    X = table(200)
    model = booster(X, X["a"] * X["b"] * X["c"], max_depth=5)
    d = tp.purify(model, X, weights="empirical", **QUIET)
    effects = d.contributions(X[:20])
    left = effects.get("remainder", 0.0)
    total = d.shapley_values(X[:20]).values.reshape(20, -1).sum(axis=1)
    intercept = float(np.ravel(d.intercept)[0])
    same(total + left + intercept, d.predict(X[:20]), 1e-6)


@fault("interactions")
def interventional_values_are_those_of_all_coalitions() -> None:
    """Compared with the sum over the coalitions of three features."""
    X = table(40)
    model = booster(X, X["a"] * X["b"] + X["c"], max_depth=3)

    def worth(row: Any, kept: str) -> float:
        return float(model.predict(X.assign(**{k: row[k] for k in kept})).astype(float).mean())

    row = X.iloc[3]
    found = tp.interventional_shapley_values(model, X.iloc[[3]], X, **QUIET).values.ravel()
    weight = {0: 1 / 3, 1: 1 / 6, 2: 1 / 3}
    for k, name in enumerate("abc"):
        others = ["", *(set("abc") - {name}), "".join(sorted(set("abc") - {name}))]
        expected = sum(weight[len(s)] * (worth(row, s + name) - worth(row, s)) for s in others)
        assert abs(found[k] - expected) < 1e-5, (name, found[k], expected)


# Comparisons, evidence and audits


@fault("comparing")
def places_beside_a_cut_at_zero() -> None:
    """A place was printed as [-1, -7.006e-46)."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"p": rng.integers(-2, 3, 1000), "q": rng.normal(size=1000)})
    y = (X["p"] >= 0) * 1.0 + X["q"] * (X["p"] == 0)
    two = tp.compare(
        tp.purify(booster(X, y), X, **QUIET), tp.purify(lightgbm(X, -y), X, **QUIET), X
    )
    assert not re.search(r"e-4\d", str(two) + two.places.to_string())


@fault("comparing")
def a_decomposition_does_not_differ_from_itself() -> None:
    """Columns in another order were compared by position."""
    X = table()
    model = booster(X, X["a"] * X["b"] + X["c"])
    d = tp.purify(model, X, **QUIET)
    again = tp.purify(model, X[["a", "b", "c"]], **QUIET)
    assert tp.compare(d, again, X[["c", "b", "a"]]).terms["distance"].max() < 1e-12


@fault("evidence")
def labels_of_two_classes_as_target() -> None:
    """A target of "bad" and "good" was refused, and the output was called "margin"."""
    from sklearn.ensemble import GradientBoostingClassifier

    X = table(names="ab")
    y = np.where(X["a"] > 0, "goodpayer", "badpayer")
    d = tp.purify(GradientBoostingClassifier(n_estimators=20, max_depth=2).fit(X, y), X, **QUIET)
    assert d.output_names != ("margin",)
    tp.effect_worth(d, X, y)


@fault("evidence")
def worth_of_an_effect_that_is_noise() -> None:
    """The rise of the loss without an effect is that of the model without it."""
    X = table(300, "ab")
    y = X["a"] + 0.1 * X["b"]
    d = tp.purify(booster(X, y), X, weights="empirical", **QUIET)
    frame = tp.effect_worth(d, X, y).to_frame().set_index("term")
    column = next(name for name in frame if "rise" in name or name == "worth")
    expected = np.mean((y - d.without("a").predict(X)) ** 2) - np.mean((y - d.predict(X)) ** 2)
    same(frame[column]["a"], expected, 1e-6)


@fault("auditing")
def audits_of_features_that_determine_each_other() -> None:
    """A finding without a pair to draw raised a KeyError; forests could not be audited."""
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    base = rng.integers(0, 6, 200).astype(float)
    X = pd.DataFrame({"a": base, "b": 2 * base + 1, "c": rng.normal(size=200)})
    y = X["a"] + X["c"]
    trained = RandomForestRegressor(5, random_state=0).fit(X, y)
    for model in (booster(X, y, interaction_constraints=[["a"], ["b"], ["c"]]), trained):
        audit = tp.audit(model, X, n_bootstrap=1, **QUIET)
        assert not re.search(r"\b0\.00%", str(audit))
        for finding in audit.findings:
            tp.plots.finding(audit, finding)


@fault("auditing")
def held_out_rows_are_checked_first() -> None:
    """A wrong target was noticed after the whole audit, minutes later."""
    X = table(300, "abcdef")
    model = booster(X, X["a"] * X["b"] + X["c"] * X["d"])
    start = time.process_time()
    tp.audit(model, X, n_bootstrap=9, **QUIET)
    whole = time.process_time() - start
    wrong = (X, np.where(X["a"] > 0, "yes", "no"))
    start = time.process_time()
    refusal(lambda: tp.audit(model, X, held_out=wrong, n_bootstrap=9, **QUIET))
    assert time.process_time() - start < 0.5 * whole


# Validation


@fault("validation")
def predictions_at_the_threshold() -> None:
    """Approval rates were those of a sum of effects that rounding had moved."""
    from sklearn.tree import DecisionTreeRegressor

    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 4, (300, 4)).astype(float)
        y = np.clip(X[:, 0] + X[:, 1] * (X[:, 2] > 1) - X[:, 3], 0, 6)
        group = np.where(rng.random(300) < 0.5, "a", "b")
        model = DecisionTreeRegressor().fit(X, y)
        gap = tp.group_gap(tp.purify(model, X, **QUIET), X, group, threshold=3.0, **QUIET)
        for rate, own in zip(gap.rates.approval, "ab", strict=True):
            assert abs(rate - (model.predict(X) >= 3.0)[group == own].mean()) < 1e-9


@fault("validation")
def directions_of_an_unused_category() -> None:
    """A foreign IndexError where no tree tests the categories whose order is asked."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(0)
    X = table(300, "a").assign(c=pd.Categorical(rng.choice(list("uvw"), 300)))
    model = HistGradientBoostingRegressor(
        categorical_features="from_dtype", max_iter=5, max_depth=1
    ).fit(X, (X["a"] > 0) * 1.0)
    found = tp.check_monotonicity(model, X, {"c": ["w", "v", "u"]}, **QUIET)
    assert found.check("c").verdict == "proved"


@fault("validation")
def a_wrong_step_is_one_of_the_model() -> None:
    """A model that falls was proved to rise where the witness lay on a cut."""
    X = table(300, "ab")
    model = booster(X, np.abs(X["a"]) + X["b"])
    found = tp.check_monotonicity(model, X, {"a": "increasing", "b": "increasing"}, **QUIET)
    assert found.check("a").verdict != "proved"


@fault("validation")
def reasons_of_a_model_sum_to_its_score() -> None:
    """Reasons left out what a row and the reference share, and did not sum to the difference."""
    X = table(200, "abcd")
    model = booster(X, X["a"] * X["b"] - X["c"])
    reasons = tp.reason_codes(model, X[:5], reference=X, **QUIET)
    same(reasons.values.sum(axis=1), model.predict(X[:5]) - model.predict(X).mean(), 1e-5)


# Figures and reports


@fault("plots")
def three_panels_of_a_paper() -> None:
    """Legends ran into the next panel and off the page."""
    import matplotlib.legend
    import matplotlib.pyplot as plt

    X = table(600)
    d = tp.purify(booster(X, X["a"] * X["b"] + X["c"], n_estimators=30), X, **QUIET)
    figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.4))
    for ax, name in zip(axes, "abc", strict=True):
        tp.plots.main_effect(d, name, ax=ax)
    figure.tight_layout()
    figure.canvas.draw()
    legends = figure.findobj(matplotlib.legend.Legend)
    boxes = sorted((own.get_window_extent() for own in legends), key=lambda box: box.x0)
    assert not any(one.x1 > two.x0 for one, two in pairwise(boxes))
    assert all(box.x1 <= figure.bbox.width + 1 for box in boxes)


@fault("plots")
def distances_between_lines_of_a_pair() -> None:
    """Lines had the main effect of the first feature only: their distance was wrong."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=400), "k": pd.Categorical(rng.choice(["u", "v"], 400))})
    model = booster(X, X["a"] + 10.0 * (X["k"] == "v"), enable_categorical=True, n_estimators=60)
    d = tp.purify(model, X, **QUIET)
    ax = tp.plots.pair_lines(d, ("a", "k"))
    heights = [float(np.nanmean(line.get_data().values)) for line in ax.patches]
    assert np.ptp(heights) > 8, heights


@fault("plots")
def names_with_dollars() -> None:
    """Names with two dollar signs became formulas, or stopped the figure."""
    import matplotlib.pyplot as plt

    X = table(200, "ab").rename(columns={"a": "price $ in $", "b": "x_{"})
    d = tp.purify(booster(X, X["price $ in $"] * X["x_{"]), X, **QUIET)
    tp.plots.main_effect(d, "price $ in $").figure.canvas.draw()
    tp.plots.importance(d).figure.canvas.draw()
    plt.close("all")


@fault("report")
def hyphens_in_names() -> None:
    """Names with a hyphen were printed with a minus sign."""
    rng = np.random.default_rng(0)
    X = table(names="z").assign(**{"top-left": pd.Categorical(rng.choice(["x-ray", "o"], 400))})
    model = lightgbm(X, (X["top-left"] == "o") * X["z"])
    d = tp.purify(model, X, **QUIET)
    other = tp.purify(model, X, weights="empirical", **QUIET)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.html"
        tp.report.write_comparison({"a": d, "b": other}, path)
        text = path.read_text(encoding="utf-8")
    assert "top\N{MINUS SIGN}left" not in text
    assert "x\N{MINUS SIGN}ray" not in text


@fault("report")
def names_that_are_markup() -> None:
    """A feature called <b> was a tag of the page; labels of classes were nowhere on it."""
    from sklearn.ensemble import GradientBoostingClassifier

    X = table(200, "ab").rename(columns={"a": "<script>x</script>"})
    y = np.where(X.iloc[:, 0] > 0, "goodpayer", "badpayer")
    model = GradientBoostingClassifier(n_estimators=10, max_depth=2).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.html"
        tp.report.write_html(tp.purify(model, X, **QUIET), path)
        text = path.read_text(encoding="utf-8")
    assert "<script>x<" not in text
    assert "goodpayer" in text


# Saved files and exports


@fault("storage")
def files_give_back_what_was_saved() -> None:
    """No file could be loaded with NumPy 2.5; a loaded decomposition differed in the last bits."""
    X = table()
    d = tp.purify(booster(X, X["a"] * X["b"] * X["c"], max_depth=4), X, **QUIET)
    with tempfile.TemporaryDirectory() as folder:
        d.save(Path(folder) / "d.tpz")
        again = tp.load(Path(folder) / "d.tpz")
    same(again.contributions(X), d.contributions(X), 0.0)
    same(pickle.loads(pickle.dumps(d)).predict(X), d.predict(X), 0.0)


@fault("storage")
def damaged_files_are_one_error() -> None:
    """Files cut short raised errors of zipfile, json and numpy."""
    X = table()
    d = tp.purify(booster(X, X["a"] * X["b"]), X, **QUIET)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d.tpz"
        d.save(path)
        whole = path.read_bytes()
        for size in (0, 10, len(whole) // 2, len(whole) - 3):
            path.write_bytes(whole[:size])
            refusal(lambda: tp.load(path), tp.errors.SavedFileError)


@fault("storage")
def batches_are_not_kept_in_results() -> None:
    """A result of rows in batches kept the stream and could not be pickled."""
    X = table()
    model = booster(X, X["a"] * X["b"])
    d = tp.purify(model, lambda: iter([X[:200], X[200:]]), weights="empirical", **QUIET)
    same(pickle.loads(pickle.dumps(d)).predict(X), d.predict(X), 0.0)


@fault("export")
def labels_of_an_exported_ebm() -> None:
    """It predicted 0 and 1 where the EBM predicts "No" and "Yes"."""
    X = table()
    model = ebm(X, np.where(X["a"] * X["b"] + X["c"] > 0, "Yes", "No"), classes=True)
    back = tp.export.to_ebm(tp.purify(model, X, weights="empirical", **QUIET))
    assert (back.predict(X) == model.predict(X)).all()


@fault("export")
def terms_of_three_features_in_an_ebm() -> None:
    """They could not go back into an EBM: order 3 was refused as impossible."""
    X = table()
    model = ebm(X, np.sign(X["a"] * X["b"] * X["c"]), interactions=[("a", "b", "c")], max_bins=8)
    back = tp.export.to_ebm(tp.purify(model, X, order=3, **QUIET))
    same(back.predict(X), model.predict(X))


@fault("export")
def queries_on_and_beside_cuts() -> None:
    """Rows on a cut of single precision fell on the other side in the database."""
    X = table(200, "ab").round(1)
    model = booster(X, X["a"] * X["b"] + X["a"])
    d = tp.purify(model, X, **QUIET)
    rows = pd.concat([X, np.nextafter(X, 9), np.nextafter(X, -9)], ignore_index=True)
    with contextlib.closing(sqlite3.connect(":memory:")) as data:
        rows.reset_index().to_sql("data", data)
        found = data.execute(tp.export.to_sql(d, keep=["index"])).fetchall()
    same([own[-1] for own in sorted(found)], d.predict(rows), 1e-12)


@fault("export")
def shap_explains_the_same_prediction() -> None:
    """Base values and values did not sum to the margin of each row."""
    X = table(100)
    model = booster(X, X["a"] * X["b"] + X["c"])
    explained = tp.export.to_shap(tp.interventional_shapley_values(model, X[:4], X, **QUIET))
    same(explained.values.sum(axis=1) + np.ravel(explained.base_values), model.predict(X[:4]), 1e-5)


# The command line


@fault("cli")
def names_with_brackets_in_tables() -> None:
    """They vanished from what the commands print."""
    from typer.testing import CliRunner

    import treepurify.cli

    app = getattr(treepurify.cli, "app", None)
    if app is None:
        return
    X = table(200, "ab").rename(columns={"a": "width (cm) {x}"})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.json"
        booster(X, X["width (cm) {x}"] * X["b"]).save_model(path)
        X.to_csv(Path(folder) / "rows.csv", index=False)
        said = CliRunner().invoke(app, ["info", str(path)]).output
    assert "width (cm) {x}" in " ".join(said.split())
