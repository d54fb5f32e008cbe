"""Factors multiply to what the libraries predict, also when they are rounded or folded."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from xgboost import XGBRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError, RemainderWarning, UnsupportedModelError
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
    tables = to_relativities(d)
    rows, _, _ = policies(seed=1)
    np.testing.assert_allclose(tables.predict(rows), np.exp(d.predict(rows)), rtol=1e-12)
    np.testing.assert_allclose(tables.predict(rows), model.predict(rows), rtol=2e-5)
    frame = tables.to_frame()
    ages = frame[frame["characteristic"] == "age"]
    assert (ages["factor"] == 1.0).any()
    assert ages["share"].sum() == pytest.approx(1.0)
    base = frame["factor"].iloc[0]
    assert base == tables.base
    assert tables.largest_error == 0.0
    inside = ages[ages["from"] <= 30.0].iloc[-1]
    held = (X["age"] >= inside["from"]) & (X["age"] < inside["to"])
    if tables.measure == "empirical":
        assert inside["share"] == pytest.approx(exposure[held].sum() / exposure.sum())


def test_a_looked_up_row_is_the_product(fitted):
    _, d, _, _ = fitted
    tables = to_relativities(d)
    row = pd.DataFrame({"age": [40.0], "power": [7.0], "region": ["west"]})
    row["region"] = pd.Categorical(row["region"], categories=["north", "south", "west"])
    product = tables.base
    for component in tables.components.values():
        product *= float(component.on_rows(row)[0, 0])
    assert tables.predict(row)[0] == pytest.approx(product, rel=1e-14)


def test_rounding_costs_at_most_what_it_says(fitted):
    _, d, X, _ = fitted
    exact, rounded = to_relativities(d), to_relativities(d, decimals=2)
    off = np.abs(rounded.predict(X) / exact.predict(X) - 1)
    assert 0 < off.max() <= rounded.largest_error < 0.2
    for component in rounded.components.values():
        np.testing.assert_array_equal(component.values, np.round(component.values, 2))


def test_a_folded_pair_holds_both_main_effects(fitted):
    _, d, X, _ = fitted
    pair = next(d.term_name(s) for s in d.components if len(s) == 2)
    first, second = d.feature_names.index(pair.split(" & ")[0]), pair.split(" & ")[1]
    tables = to_relativities(d, fold=[pair])
    assert (first,) not in tables.components
    assert (d.feature_names.index(second),) not in tables.components
    np.testing.assert_allclose(tables.predict(X), np.exp(d.predict(X)), rtol=1e-12)
    assert pair in tables.base_levels
    whole = tables.components[d[pair].features]
    assert whole.mass.sum() == pytest.approx(1.0)
    assert (whole.values == 1.0).any()


def test_pairs_on_coarser_cells_are_folded():
    from interpret.glassbox import ExplainableBoostingRegressor

    X, y, _ = policies(1500)
    X = X[["age", "power"]].fillna(7.0)
    model = ExplainableBoostingRegressor(
        objective="poisson_deviance", interactions=[(0, 1)], outer_bags=2, max_rounds=60
    ).fit(X, y)
    d = tp.purify(model, X, progress=False)
    tables = to_relativities(d, fold=[("age", "power")])
    assert list(tables.components) == [(0, 1)]
    np.testing.assert_allclose(tables.predict(X), np.exp(d.predict(X)), rtol=1e-12)
    assert tables.components[0, 1].mass.sum() == pytest.approx(1.0)


def test_several_trainings_give_bands():
    X, y, exposure = policies(1500)
    models = [
        MODELS["lightgbm"]().set_params(random_state=k, subsample=0.5, subsample_freq=1)
        for k in range(4)
    ]
    for model in models:
        model.fit(X, y, sample_weight=exposure)
    d = tp.purify(models, X, progress=False)
    frame = to_relativities(d).to_frame()
    ages = frame[frame["characteristic"] == "age"]
    assert (ages["low"] <= ages["high"]).all()
    at_base = ages[ages["factor"] == 1.0].iloc[0]
    assert at_base["low"] == at_base["high"] == 1.0


def test_files_have_all_factors(fitted, tmp_path):
    _, d, _, _ = fitted
    tables = to_relativities(d, decimals=4)
    tables.to_csv(tmp_path / "factors.csv")
    read = pd.read_csv(tmp_path / "factors.csv")
    np.testing.assert_array_equal(read["factor"], tables.to_frame()["factor"])
    tables.to_excel(tmp_path / "factors.xlsx")
    sheets = pd.read_excel(tmp_path / "factors.xlsx", sheet_name=None)
    assert next(iter(sheets)) == "factors"
    assert "rounding" in list(sheets["facts"]["fact"])


def test_what_has_no_factors_is_refused(fitted):
    _, d, X, _ = fitted
    pairs = [s for s in d.components if len(s) == 2]
    shared = [p for p in pairs if 0 in p]
    twice = shared[:2] if len(shared) > 1 else [pairs[0], pairs[0]]
    with pytest.raises(InvalidInputError, match="into one pair only"):
        to_relativities(d, fold=twice)
    with pytest.raises(InvalidInputError, match="'age' is not one"):
        to_relativities(d, fold=["age"])
    with pytest.raises(UnsupportedModelError, match="log link"):
        to_relativities(
            tp.purify(XGBRegressor(n_estimators=2).fit(X[["age"]], X["age"]), X[["age"]])
        )
    deep = lightgbm.LGBMRegressor(objective="poisson", n_estimators=20, verbose=-1)
    _, y, _ = policies()
    of_deep = tp.purify(deep.fit(X, y), X, progress=False)
    with pytest.raises(UnsupportedModelError, match="remainder"):
        to_relativities(of_deep)
    with pytest.warns(RemainderWarning):
        assert to_relativities(of_deep, remainder="drop").lost


def test_no_factor_is_rounded_to_zero():
    X = np.repeat([[0.0], [1.0]], [60, 40], axis=0)
    y = np.where(X[:, 0] > 0, 0.1, 10.0)
    model = HistGradientBoostingRegressor(loss="poisson", max_iter=300).fit(X, y)
    with pytest.raises(InvalidInputError, match="would be rounded to zero"):
        to_relativities(tp.purify(model, X), decimals=1)
