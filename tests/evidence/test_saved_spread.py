"""A spread in a file is read as it was written."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp


@pytest.fixture(scope="module")
def d():
    X = np.random.default_rng(0).uniform(size=(200, 2))
    estimator = GradientBoostingRegressor(max_depth=2, n_estimators=4)
    return tp.purify(
        tp.refit(estimator, X, X[:, 0], n=3, progress=False), X, weights="empirical", progress=False
    )


def test_a_spread_is_saved_and_loaded(d, tmp_path):
    d.save(tmp_path / "d.tpz")
    again = tp.load(tmp_path / "d.tpz")
    assert again.spread.n_models == 3
    assert again.spread.how == "bootstrap"
    np.testing.assert_array_equal(again.spread.intercepts, d.spread.intercepts)
    for subset in d:
        np.testing.assert_array_equal(again.spread.values(subset), d.spread.values(subset))
    assert again.diagnostics["refits"] == d.diagnostics["refits"]


def test_a_file_of_one_model_has_none(d, tmp_path):
    X = np.random.default_rng(0).uniform(size=(200, 2))
    model = GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0])
    tp.purify(model, X, weights="empirical", progress=False).save(tmp_path / "d.tpz")
    assert tp.load(tmp_path / "d.tpz").spread is None
