"""Monotone constraints that models and files carry."""

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostRegressor
from interpret.glassbox import ExplainableBoostingRegressor
from lightgbm import LGBMRegressor
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

import treepurify as tp

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(200, 3)), columns=["a", "b", "c"])
Y = X["a"] - X["c"]
MODELS = {
    "xgboost": XGBRegressor(n_estimators=2, monotone_constraints={"a": 1, "c": -1}),
    "xgboost dart": XGBRegressor(n_estimators=2, booster="dart", monotone_constraints=(1, 0, -1)),
    "lightgbm": LGBMRegressor(n_estimators=2, monotone_constraints=[1, 0, -1], verbose=-1),
    "catboost": CatBoostRegressor(
        iterations=2,
        monotone_constraints={"a": 1, "c": -1},
        verbose=0,
        allow_writing_files=False,
    ),
    "histogram boosting": HistGradientBoostingRegressor(
        max_iter=2, monotonic_cst={"a": 1, "c": -1}
    ),
    "forest": RandomForestRegressor(2, monotonic_cst=[1, 0, -1]),
    "ebm": ExplainableBoostingRegressor(
        monotone_constraints=[1, 0, -1], interactions=0, max_rounds=5, outer_bags=1, n_jobs=1
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_trained_models_carry_their_constraints(name):
    assert tp.parse_model(MODELS[name].fit(X, Y)).source.constraints == (1, 0, -1)


def test_models_without_constraints_carry_none():
    for model in (XGBRegressor(n_estimators=2), LGBMRegressor(n_estimators=2, verbose=-1)):
        assert tp.parse_model(model.fit(X, Y)).source.constraints == ()


def test_files_of_lightgbm_and_catboost_hold_constraints_and_those_of_xgboost_do_not(tmp_path):
    MODELS["lightgbm"].fit(X, Y).booster_.save_model(tmp_path / "lightgbm.txt")
    MODELS["catboost"].fit(X, Y).save_model(str(tmp_path / "catboost.json"), format="json")
    MODELS["xgboost"].fit(X, Y).save_model(tmp_path / "xgboost.json")
    found = {
        name: tp.parse_model(next(tmp_path.glob(f"{name}.*"))).source.constraints
        for name in ("lightgbm", "catboost", "xgboost")
    }
    assert found == {"lightgbm": (1, 0, -1), "catboost": (1, 0, -1), "xgboost": ()}


def test_pipelines_carry_constraints_of_columns_that_reach_the_model_unchanged():
    # The scaled column comes first: c, then a and b.
    scaler = ColumnTransformer([("scale", StandardScaler(), ["c"])], remainder="passthrough")
    booster = XGBRegressor(n_estimators=2, monotone_constraints=(-1, 1, 0))
    parsed = tp.parse_model(make_pipeline(scaler, booster).fit(X, Y))
    assert parsed.source.constraints == (1, 0, 0)
