"""Files as R's xgboost and lightgbm write them."""

import lightgbm
import numpy as np
import pytest
import xgboost

from tests.cases import rows_beside_cuts
from treepurify.models.parse import parse_model

# As model.matrix of R names columns.
NAMES = ["Petal.Length", "log(price)", "Speciesversicolor"]


@pytest.fixture(scope="module")
def table():
    X = np.random.default_rng(0).normal(size=(300, 3))
    return X, X[:, 0] * X[:, 1] + X[:, 2]


@pytest.mark.parametrize("extension", ["json", "ubj"])
def test_a_file_of_xgboost_for_r_is_read(extension, table, tmp_path):
    X, y = table
    rows = xgboost.DMatrix(X, y, feature_names=NAMES, feature_types=["float"] * 3)
    booster = xgboost.train({"max_depth": 4}, rows, num_boost_round=10)
    # R keeps attributes of its own in the model.
    booster.set_attr(niter="9", call="xgb.train(data = dtrain, params = list(eta = 0.3))")
    path = tmp_path / f"model.{extension}"
    booster.save_model(path)
    parsed = parse_model(path)
    assert parsed.feature_names == tuple(NAMES)
    at = rows_beside_cuts(parsed, 5000, infinite=False)
    own = booster.predict(xgboost.DMatrix(at, feature_names=NAMES, feature_types=["float"] * 3))
    np.testing.assert_array_equal(parsed.margin(at)[:, 0], own)


def test_a_file_of_lightgbm_for_r_is_read(table, tmp_path):
    X, y = table
    rows = lightgbm.Dataset(X, y, feature_name=["Petal.Length", "log_price_", "Column_2"])
    booster = lightgbm.train({"verbose": -1}, rows, num_boost_round=10)
    path = tmp_path / "model.txt"
    # R's lgb.save leaves the line of pandas' categories out.
    text = booster.model_to_string().partition("pandas_categorical")[0]
    path.write_text(text)
    parsed = parse_model(path)
    at = rows_beside_cuts(parsed, 5000, infinite=False)
    np.testing.assert_array_equal(parsed.margin(at)[:, 0], booster.predict(at))
