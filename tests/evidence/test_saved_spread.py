"""A spread in a file: read as it was written, and refused where it does not fit together."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.saved_files import changed
from treepurify.errors import SavedFileError


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


@pytest.mark.parametrize(
    ("field", "value"),
    [("n_models", 4), ("n_models", 1), ("n_models", "3"), ("output_names", [])],
)
def test_a_spread_that_does_not_fit_is_refused(d, tmp_path, field, value):
    d.save(tmp_path / "d.tpz")

    def change(document):
        (spread,) = [each for each in document["objects"] if each["kind"] == "spread"]
        spread["fields"][field] = value

    changed(tmp_path / "d.tpz", change)
    with pytest.raises(SavedFileError):
        tp.load(tmp_path / "d.tpz")


def test_something_else_in_its_place_is_refused(d, tmp_path):
    d.save(tmp_path / "d.tpz")
    changed(tmp_path / "d.tpz", lambda document: document.update(spread=7))
    with pytest.raises(SavedFileError):
        tp.load(tmp_path / "d.tpz")
