"""Isolation forests: scores that are sums of leaf values, on a link."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

import treepurify as tp
from treepurify.errors import UnsupportedModelError

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 4))
X[:20] *= 5.0


@pytest.mark.parametrize("max_features", [1.0, 0.5])
@pytest.mark.parametrize("max_samples", [2, 3, 100])
def test_path_lengths_of_isolation_forests(max_features, max_samples):
    model = IsolationForest(
        n_estimators=20, max_features=max_features, max_samples=max_samples, random_state=0
    ).fit(X)
    parsed = tp.parse_model(model)
    new = np.concatenate([X, rng.normal(scale=9.0, size=(100_000, 4))])
    score = model.score_samples(new)
    np.testing.assert_allclose(parsed.link.inverse(parsed.margin(new))[:, 0], score, rtol=1e-12)
    np.testing.assert_allclose(parsed.margin(new)[:, 0], -np.log2(-score), atol=1e-12)


def test_missing_values_in_isolation_forests():
    with_holes = X.copy()
    with_holes[::7, 1] = np.nan
    model = IsolationForest(n_estimators=20, random_state=0)
    try:
        model.fit(with_holes)
    except ValueError:
        pytest.skip("this scikit-learn takes no missing values here")
    d = tp.purify(model, with_holes, progress=False)
    assert d.verify(model, with_holes).relative_difference < 1e-12


def test_effects_of_an_isolation_forest_add_up_to_its_score():
    model = IsolationForest(n_estimators=20, max_samples=16, random_state=0).fit(X)
    d = tp.purify(model, X, order=None, weights="empirical", progress=False)
    np.testing.assert_allclose(
        np.ravel(d.predict(X, scale="response")), model.score_samples(X), rtol=1e-9
    )
    assert d.output_names == ("path length",)


def test_a_forest_whose_trees_saw_one_row_each():
    model = IsolationForest(n_estimators=5, max_samples=1, random_state=0).fit(X)
    with pytest.raises(UnsupportedModelError, match="saw one row"):
        tp.parse_model(model)
