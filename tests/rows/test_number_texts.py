"""Numbers that are stored as texts or as categories, as each library reads them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, VotingRegressor
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError, UnsupportedModelError


def catboost_model():
    catboost = pytest.importorskip("catboost")
    return catboost.CatBoostRegressor(iterations=8, verbose=0, allow_writing_files=False)


def additive_model():
    glassbox = pytest.importorskip("interpret.glassbox")
    return glassbox.ExplainableBoostingRegressor(max_rounds=20, outer_bags=1, interactions=1)


def xgboost_model():
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=8)


MODELS = {
    "forest": lambda: RandomForestRegressor(5, random_state=0),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=8, categorical_features=None),
    "catboost": catboost_model,
    "additive": additive_model,
    "votes": lambda: VotingRegressor(
        [("tree", DecisionTreeRegressor(max_depth=3)), ("xgboost", xgboost_model())]
    ),
}
NUMBERS = np.random.default_rng(0).integers(-3, 12, 300) * 10
COLUMNS = {
    "texts": pd.Series(NUMBERS.astype(str)),
    "objects": pd.Series(NUMBERS.astype(str), dtype=object),
    "missing texts": pd.Series(
        [None if k % 7 == 0 else str(number) for k, number in enumerate(NUMBERS)], dtype=object
    ),
    "powers of ten": pd.Series([f"{number:.1e}" for number in NUMBERS]),
    "whole categories": pd.Series(NUMBERS).astype("category"),
    "missing categories": pd.Series(NUMBERS).where(NUMBERS > 0).astype("category"),
    "truth values": pd.Series(NUMBERS > 30).astype("category"),
    "categories of texts": pd.Series(NUMBERS.astype(str)).astype("category"),
}


@pytest.mark.parametrize("form", ["table", "array"])
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", MODELS)
def test_as_the_library_reads_them(name, column, form):
    X = pd.DataFrame({"a": np.random.default_rng(1).normal(size=300), "i": COLUMNS[column]})
    rows = X if form == "table" else X.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = MODELS[name]().fit(rows, X["a"] + NUMBERS * 0.1)
            own = model.predict(rows)
        except Exception:  # noqa: BLE001 - each library has errors of its own
            pytest.skip("the library refuses such a column")
        try:
            parsed = tp.parse_model(model)
        except UnsupportedModelError as error:
            # Newer releases of XGBoost read categories unasked, and trees read their numbers.
            if name != "votes" or "in different ways" not in str(error):
                raise
            pytest.skip("the models inside read such a column in different ways")
        np.testing.assert_allclose(parsed.margin(rows)[:, 0], own, rtol=1e-5, atol=1e-5)


def test_texts_that_are_no_numbers():
    X = pd.DataFrame({"i": NUMBERS.astype(str)})
    parsed = tp.parse_model(DecisionTreeRegressor().fit(X, NUMBERS))
    with pytest.raises(InvalidInputError, match="the value 'ten'"):
        parsed.margin(pd.DataFrame({"i": ["10", "ten"]}))


def test_what_a_library_refuses_is_refused_with_advice():
    model = xgboost_model().fit(pd.DataFrame({"i": NUMBERS}), NUMBERS)
    with pytest.raises(InvalidInputError, match=r"astype\(float\)"):
        tp.parse_model(model).margin(pd.DataFrame({"i": NUMBERS.astype(str)}))


def test_durations_are_no_labels():
    pytest.importorskip("interpret")
    X = pd.DataFrame({"i": pd.to_timedelta(np.abs(NUMBERS), unit="D")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = additive_model().fit(X, NUMBERS)
        except Exception:  # noqa: BLE001 - some versions refuse it themselves
            pytest.skip("interpret refuses such a column")
    with pytest.raises(InvalidInputError, match="type timedelta64"):
        tp.parse_model(model).margin(X)
