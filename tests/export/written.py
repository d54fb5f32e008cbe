"""Decompositions that exports write down, and rows on and beside everything that they compare."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import xgboost
from interpret.glassbox import ExplainableBoostingClassifier
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

import treepurify as tp
from tests.cases import needs_stored_labels
from tests.export.test_ebm import classifier, counts, regressor, several_classes

__all__ = ["CASES", "Written", "check_same", "product_of_factors"]

NAMES = ['re"al', "it's -- a kind", "count;"]


@dataclass(frozen=True)
class Written:
    """A decomposition, rows as Python reads them, and the same rows as a database holds them."""

    d: tp.Decomposition
    X: pd.DataFrame
    stored: pd.DataFrame

    @property
    def margins(self):
        return self.d.on_rows(self.X)


def training(n_rows=400, *, missing=True, labels=("x", "y's", 'z"')):
    rng = np.random.default_rng(0)
    kind = rng.choice(np.array(labels, dtype=object), n_rows)
    X = pd.DataFrame(
        {
            NAMES[0]: rng.normal(size=n_rows) + 0.1,
            NAMES[1]: pd.Categorical(kind, categories=list(labels)),
            NAMES[2]: rng.integers(0, 5, n_rows) / 10,
        }
    )
    y = X[NAMES[0]] * (kind == labels[0]) + 2.0 * X[NAMES[2]] + 0.05 * rng.normal(size=n_rows)
    if missing:
        X.loc[::7, NAMES[0]] = np.nan
        X.loc[::11, NAMES[1]] = np.nan
    return X, y.fillna(1.0).to_numpy()


def beside(d, *, unknown, n_rows=1500, seed=1):
    """Rows whose values lie on, just below and just above every cut of the decomposition."""
    rng = np.random.default_rng(seed)
    columns = {}
    for j, spec in enumerate(d.inputs.features):
        axes = [
            axis
            for c in d.tensor_components().values()
            for k, axis in zip(c.features, c.axes, strict=True)
            if k == j
        ]
        if spec.is_categorical:
            known = list(spec.labels)
            columns[spec.name] = rng.choice(np.array([*known, *unknown], dtype=object), n_rows)
            continue
        cuts = np.concatenate([np.empty(0), *(axis.cuts for axis in axes)])
        pool = [cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)]
        pool += [[0.0, -0.0, 1e-36, -1e-36, 1e-35, -999.0, 1e300, -1e300, np.inf, -np.inf, np.nan]]
        pool += [rng.normal(size=20), cuts.astype(np.float32)]
        columns[spec.name] = rng.choice(np.concatenate(pool), n_rows)
    return pd.DataFrame(columns)


def _texts(train: Callable[..., Any], **options: Any) -> Written:
    X, y = training()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = train(X, y)
    needs_stored_labels(model)
    d = tp.purify(
        model, X, missing_cells="always", progress=False, **{"weights": "empirical", **options}
    )
    table = beside(d, unknown=["", "new", None])
    return Written(d, table, table)


def lightgbm_classifier(X, y):
    renamed = X.rename(columns=dict(zip(NAMES, ["real", "kind", "count"], strict=True)))
    kind = lightgbm.LGBMClassifier(
        n_estimators=20, num_leaves=3, verbose=-1, n_jobs=1, min_data_per_group=5
    )
    return kind.fit(renamed, y > 0.5)


def lightgbm_case():
    X, y = training()
    model = lightgbm_classifier(X, y)
    X.columns = ["real", "kind", "count"]
    d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
    table = beside(d, unknown=["new", None])
    return Written(d, table, table)


def ebm(X, y):
    kind = ExplainableBoostingClassifier(
        max_rounds=40, outer_bags=2, n_jobs=1, random_state=0, max_interaction_bins=5
    )
    return kind.fit(X, y > 0.5)


def zeros_are_missing(labels=(0, 1, 2)):
    """LightGBM that reads zeros as missing, and codes of categories."""
    X, y = training(labels=labels)
    values = X.assign(**{NAMES[1]: X[NAMES[1]].astype(float)}).to_numpy()
    values[::5, 0] = 0.0
    data = lightgbm.Dataset(values, y, categorical_feature=[1])
    options = {
        "num_leaves": 3, "verbose": -1, "zero_as_missing": True, "num_threads": 1,
        "min_data_per_group": 5,
    }  # fmt: skip
    model = lightgbm.train(options, data, 20)
    d = tp.purify(model, values, weights="empirical", missing_cells="always", progress=False)
    return _codes(d)


def a_number_for_missing():
    """XGBoost that reads a number as missing, and codes of categories."""
    X, y = training(labels=(0, 1, 2))
    values = X.assign(**{NAMES[1]: X[NAMES[1]].astype(float)}).fillna(-999.0).to_numpy()
    model = xgboost.XGBRegressor(
        n_estimators=20, max_depth=2, missing=-999.0, n_jobs=1, enable_categorical=True,
        feature_types=["q", "c", "q"],
    ).fit(values, y)  # fmt: skip
    d = tp.purify(model, values, weights="empirical", missing_cells="always", progress=False)
    return _codes(d)


def _codes(d):
    unknown = [-0.5, -1.0, 0.0, 1.5, 7.0, 70_001.0, 70_001.5, -999.0, np.nan, np.inf]
    table = beside(d, unknown=unknown).astype(float)
    return Written(d, table, table)


def whole_numbers_as_labels():
    """Categories that are numbers: a table of Python says so by its type, a database holds them."""
    X, y = training(labels=(10, 20, 35))
    model = regressor(X, y)
    needs_stored_labels(model)
    d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
    stored = beside(d, unknown=[11, 0, None])
    stored[NAMES[1]] = stored[NAMES[1]].astype(float)
    read = stored.assign(**{NAMES[1]: pd.Categorical(stored[NAMES[1]])})
    return Written(d, read, stored)


def catboost_case():
    X, y = training()
    X[NAMES[1]] = X[NAMES[1]].astype(object).fillna("none")
    model = catboost.CatBoostRegressor(
        iterations=20, depth=2, one_hot_max_size=10, verbose=False, thread_count=1,
        allow_writing_files=False, random_seed=0,
    ).fit(X, y, cat_features=[NAMES[1]])  # fmt: skip
    d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
    table = beside(d, unknown=["", "new"])
    return Written(d, table, table)


def histogram_boosting():
    X, y = training()
    model = HistGradientBoostingRegressor(
        max_iter=20, max_depth=2, random_state=0, categorical_features="from_dtype"
    ).fit(X, y)
    d = tp.purify(model, X, weights="empirical", missing_cells="always", progress=False)
    table = beside(d, unknown=["", "new", None])
    return Written(d, table, table)


def one_feature_names_unknown():
    X, y = training(missing=False)
    values = X[[NAMES[0], NAMES[2]]].to_numpy()
    model = GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0).fit(values, y)
    d = tp.purify(model, values, weights="empirical", missing_cells="always", progress=False)
    table = beside(d, unknown=[])
    return Written(d, table, table)


def cells_of_each_term():
    """Pairs have coarser cells than main effects."""
    return _texts(ebm, resolution="term")


CASES = {
    "xgboost_regressor": lambda: _texts(regressor),
    "xgboost_classifier": lambda: _texts(classifier),
    "xgboost_classes": lambda: _texts(several_classes),
    "xgboost_counts": lambda: _texts(counts),
    "ebm": lambda: _texts(ebm),
    "lightgbm": lightgbm_case,
    "zeros_are_missing": zeros_are_missing,
    "identifiers": lambda: zeros_are_missing((0, 70_000, 70_002)),
    "a_number_for_missing": a_number_for_missing,
    "whole_numbers_as_labels": whole_numbers_as_labels,
    "catboost": catboost_case,
    "histogram_boosting": histogram_boosting,
    "no_names": one_feature_names_unknown,
    "cells_of_each_term": cells_of_each_term,
}


def check_same(found, expected, d):
    """Require the same margins to a millionth of the model's standard deviation, and no NaN."""
    assert np.all(np.isfinite(found))
    deviation = expected.std(axis=0)
    assert np.all(deviation > 0)
    assert np.all(np.abs(found - expected) <= 1e-6 * deviation)
    # What is added up is the same numbers in another order.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1.0, d.certificate.scale))


def product_of_factors(table, X):
    """Return the prediction of rows as somebody looks it up in a table of factors."""
    found = np.full(len(X), table["factor"].iloc[0])
    for term, cells in table[1:].groupby("term", sort=False):
        names = [term] if term in X else term.split(" & ")
        own, rows = cells.reset_index(drop=True), []
        for k, name in enumerate(names, start=1):
            low, high, label = (own[f"{part}_{k}"] for part in ("from", "to", "cell"))
            values = X[name].to_numpy()[:, None]
            if low.notna().any():
                numbers = values.astype(float)
                rows.append((low.to_numpy() <= numbers) & (numbers < high.to_numpy()))
                rows[-1] |= np.isnan(numbers) & (label == "missing").to_numpy()
            else:
                rows.append(label.to_numpy() == values)
        chosen = np.logical_and.reduce(rows)
        assert np.all(chosen.sum(axis=1) == 1), term
        found = found * own["factor"].to_numpy()[chosen.argmax(axis=1)]
    return found
