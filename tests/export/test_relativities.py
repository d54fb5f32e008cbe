"""Factors multiply to what the libraries predict."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from xgboost import XGBRegressor

import treepurify as tp
from tests.export.written import product_of_factors
from treepurify.errors import RemainderWarning, UnsupportedModelError
from treepurify.export import to_relativities


def policies(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n_rows).astype(float),
            "power": rng.integers(4, 12, n_rows).astype(float),
            "region": pd.Categorical(rng.choice(["north", "south", "west"], n_rows)),
        }
    )
    X.loc[::50, "power"] = np.nan
    rate = 0.3 * np.where(X["age"] < 25, 2.0, 1.0) * np.where(X["region"] == "west", 1.5, 1.0)
    rate = rate * np.where((X["age"] < 25) & (X["power"] > 8), 1.8, 1.0)
    return X, rng.poisson(rate), rng.uniform(0.1, 1.0, n_rows)


MODELS = {
    "lightgbm": lambda: lightgbm.LGBMRegressor(
        objective="poisson", max_depth=2, n_estimators=40, verbose=-1
    ),
    "xgboost": lambda: XGBRegressor(
        objective="count:poisson", max_depth=2, n_estimators=40, enable_categorical=True
    ),
    "histogram": lambda: HistGradientBoostingRegressor(
        loss="poisson", max_depth=2, max_iter=40, categorical_features="from_dtype"
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    X, y, exposure = policies()
    model = MODELS[request.param]().fit(X, y, sample_weight=exposure)
    d = tp.purify(model, X, sample_weight=exposure, missing_cells="always", progress=False)
    return model, d, X, exposure


def test_factors_multiply_to_the_prediction(fitted):
    model, d, X, exposure = fitted
    table = to_relativities(d)
    rows, _, _ = policies(seed=1)
    found = product_of_factors(table, rows)
    np.testing.assert_allclose(found, np.exp(d.predict(rows)), rtol=1e-12)
    np.testing.assert_allclose(found, model.predict(rows), rtol=2e-5)
    ages = table[table["term"] == "age"]
    assert ages["mass"].sum() == pytest.approx(1.0)
    assert ages.loc[ages["mass"].idxmax(), "factor"] == 1.0
    inside = ages[ages["from_1"] <= 30.0].iloc[-1]
    held = (X["age"] >= inside["from_1"]) & (X["age"] < inside["to_1"])
    if d.measure == "empirical":
        assert inside["mass"] == pytest.approx(exposure[held].sum() / exposure.sum())


def test_what_has_no_factors_is_refused():
    X, y, _ = policies()
    with pytest.raises(UnsupportedModelError, match="log link"):
        to_relativities(
            tp.purify(XGBRegressor(n_estimators=2).fit(X[["age"]], X["age"]), X[["age"]])
        )
    deep = lightgbm.LGBMRegressor(objective="poisson", n_estimators=20, verbose=-1)
    of_deep = tp.purify(deep.fit(X, y), X, progress=False)
    with pytest.raises(UnsupportedModelError, match="remainder"):
        to_relativities(of_deep)
    with pytest.warns(RemainderWarning, match="a table of factors leaves out"):
        to_relativities(of_deep, remainder="drop")
