"""Whether an interaction is the model's, the data's, or both."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from examples.paper_shapley_sets_sources import interaction_sources


def sources(f, X, **options):
    found = interaction_sources(f, X, progress=False, **options)
    frame = found.to_frame()
    return found, {(row.first, row.second): row.source for row in frame.itertuples()}


def normal_rows(seed=0):
    return np.random.default_rng(seed).normal(size=(3000, 4))


def test_each_source_is_named():
    X = normal_rows()
    X[:, 3] = 0.9 * X[:, 0] + np.sqrt(1 - 0.81) * X[:, 3]

    def f(X):
        return X[:, 0] + X[:, 0] * X[:, 1] + X[:, 2]

    found, named = sources(f, X)
    assert named["x0", "x1"] == "model"
    assert named["x0", "x3"] == "data"
    # x3 stands for x0, which interacts with x1.
    assert named["x1", "x3"] == "through others"
    assert named["x0", "x2"] == named["x1", "x2"] == named["x2", "x3"] == "none"
    # Variances: x0, x0 x1 and x2 have one each.
    assert found.model_share[0, 1] == pytest.approx(1 / 3, abs=0.05)
    assert "model: 1" in repr(found)


def test_an_interaction_of_dependent_features_has_both_sources():
    X = normal_rows(1)
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    _, named = sources(lambda X: X[:, 0] * X[:, 1] + X[:, 2], X)
    assert named["x0", "x1"] == "both"


def test_conditional_share_is_that_of_normal_rows():
    """For f = x0 with correlation r the missing part is r x1, or r^2 of the variance of f."""
    X = normal_rows(2)
    X[:, 1] = 0.6 * X[:, 0] + 0.8 * X[:, 1]
    found, named = sources(lambda X: X[:, 0], X, sampling=tp.options.Sampling(probes=3000, draws=2))
    assert named["x0", "x1"] == "data"
    assert found.conditional_share[0, 1] == pytest.approx(0.36, abs=0.03)
    assert found.model_share[0, 1] < 1e-12


def test_trees_and_several_outputs():
    X = normal_rows(3)[:500]
    y = X[:, 0] * X[:, 1] + X[:, 2]
    model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, y)
    _, named = sources(model, X)
    assert named["x0", "x1"] == "model"

    def both(X):
        return np.stack([X[:, 0] * X[:, 1], X[:, 2] * X[:, 3]], axis=1)

    _, named = sources(both, X)
    assert [pair for pair, source in named.items() if source == "model"] in (
        [("x0", "x1"), ("x2", "x3")],
        [("x2", "x3"), ("x0", "x1")],
    )


def test_bad_input():
    X = normal_rows(4)[:50]
    with pytest.raises(tp.errors.InvalidInputError, match="threshold"):
        interaction_sources(lambda X: X[:, 0], X, threshold=2.0)
    X[0, 0] = np.nan
    with pytest.raises(tp.errors.InvalidInputError, match="without missing values"):
        interaction_sources(lambda X: np.nan_to_num(X[:, 0]), X)
