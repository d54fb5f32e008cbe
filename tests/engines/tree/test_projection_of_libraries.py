"""The projection of models of every library, beside dense least squares and the closed form."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.engines.tree.test_projection import largest_difference

N_ROWS = 250


def rows():
    """Dependent features, a sixth of them missing, and two features of categories."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)) + rng.normal(size=(N_ROWS, 1))
    y = X[:, 0] * X[:, 1] + X[:, 2] ** 2 + np.sin(X[:, 3]) * X[:, 4]
    table = pd.DataFrame(X, columns=list("abcde"))
    table = table.mask(rng.random(X.shape) < 1 / 6)
    mixed = table.copy()
    levels = np.clip(1.2 * X[:, 1] + 3, 0, 5).astype(int)
    mixed["b"] = pd.Categorical(np.array(list("uvwxyz"))[levels])
    mixed["d"] = pd.Categorical(rng.choice([*"pqrs", None], size=N_ROWS))
    return table, mixed, y


def booster(kind, **options):
    return pytest.importorskip("xgboost").__dict__[kind](n_estimators=4, **options)


def forest(kind, **options):
    return pytest.importorskip("sklearn.ensemble").__dict__[kind](
        n_estimators=3, max_depth=6, random_state=0, **options
    )


@cache
def fitted(name):
    """A model and its rows."""
    table, mixed, y = rows()
    classes = pd.qcut(y, 3, labels=False)
    if name == "XGBoost, missing values":
        return booster("XGBRegressor", max_depth=6).fit(table, y), table
    if name == "XGBoost, sets of categories":
        options = {"enable_categorical": True, "max_cat_to_onehot": 1}
        return booster("XGBRegressor", max_depth=6, **options).fit(mixed, y), mixed
    if name == "XGBoost, classes":
        return booster("XGBClassifier", max_depth=4).fit(table, classes), table
    if name == "LightGBM, categories":
        lightgbm = pytest.importorskip("lightgbm")
        sizes = {"min_child_samples": 5, "min_data_per_group": 3, "cat_smooth": 1.0}
        model = lightgbm.LGBMRegressor(n_estimators=4, verbose=-1, **sizes)
        return model.fit(mixed, y), mixed
    if name == "scikit-learn, categories":
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = HistGradientBoostingRegressor(max_iter=4, categorical_features="from_dtype")
        return model.fit(mixed, y), mixed
    if name == "forest":
        known = table.dropna()
        return forest("RandomForestRegressor").fit(known, y[known.index]), known
    if name == "forest of classes":
        known = table.dropna()
        return forest("ExtraTreesClassifier").fit(known, classes[known.index]), known
    catboost = pytest.importorskip("catboost")
    shape = {"grow_policy": "Lossguide", "max_leaves": 20}
    model = catboost.CatBoostRegressor(iterations=4, verbose=0, allow_writing_files=False, **shape)
    return model.fit(table, y), table


MODELS = [
    "XGBoost, missing values",
    "XGBoost, sets of categories",
    "XGBoost, classes",
    "LightGBM, categories",
    "scikit-learn, categories",
    "forest",
    "forest of classes",
    "CatBoost",
]


def purify(model, X, **options):
    return tp.purify(
        model, X, method="projection", progress=False, **{"weights": "empirical", **options}
    )


@pytest.mark.parametrize("n_rows", [N_ROWS, 30, 1])
@pytest.mark.parametrize("name", MODELS)
def test_components_are_those_of_dense_least_squares(name, n_rows):
    model, X = fitted(name)
    some = X.iloc[:n_rows]
    ensemble = tp.parse_model(model)
    for order in (1, 2, 3) if n_rows == 30 else (2,):
        d = purify(model, some, weights="empirical", order=order)
        assert d.diagnostics["projection"]["converged"]
        assert largest_difference(d, some, ensemble, order=order) <= 1e-7
    np.testing.assert_allclose(d.on_rows(some), ensemble.margin(some), atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_independent_features_have_the_components_of_the_closed_form(name):
    model, X = fitted(name)
    d = purify(model, X, weights=tp.weights.Laplace(1.0))
    exact = tp.purify(model, X, weights="uniform", method="closed-form", progress=False)
    np.testing.assert_allclose(d.intercept, exact.intercept, atol=1e-9)
    assert set(d.components) == set(exact.components)
    for subset, component in exact.components.items():
        has_mass = component.mass > 0
        found = d.components[subset].values[has_mass]
        np.testing.assert_allclose(found, component.values[has_mass], atol=1e-8)


@pytest.mark.parametrize("name", MODELS[:5])
def test_rows_in_batches_and_cells_for_later_rows_change_nothing(name):
    model, X = fitted(name)
    whole = purify(model, X, weights="empirical")

    def batches():
        return (X.iloc[start : start + 70] for start in range(0, len(X), 70))

    for other in (
        purify(model, batches, weights="empirical"),
        purify(model, X, weights="empirical", missing_cells="always"),
    ):
        assert set(other.components) == set(whole.components)
        for subset, component in whole.components.items():
            found = other.components[subset].on_rows(X)
            np.testing.assert_allclose(found, component.on_rows(X), atol=1e-8)


def test_trees_without_splits_are_their_mean():
    table, _, y = rows()
    model = booster("XGBRegressor", gamma=1e9).fit(table, y)
    d = purify(model, table, weights="empirical")
    assert dict(d.components) == {}
    np.testing.assert_allclose(d.intercept, model.predict(table[:1]), rtol=1e-6)
