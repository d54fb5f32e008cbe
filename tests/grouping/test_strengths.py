"""Groups by interaction indices, exact for trees and tables."""

import numpy as np
import pytest

import treepurify as tp
from treepurify.grouping.partition import shapley_sets
from treepurify.grouping.sets import Sampling
from treepurify.grouping.strengths import InteractionStrengths

BLOCKS = ((0,), (1,), (2, 3), (4, 5, 6), (7,))


def blocks(X):
    product = (X[:, 4] + 0.5) * (X[:, 5] + 0.5) * (X[:, 6] + 0.5)
    mains = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 7] ** 2
    return mains + 2 * X[:, 2] * X[:, 3] + product


@pytest.mark.parametrize("depth", [3, 6])
def test_known_blocks_at_the_default(depth):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(8000, 8))
    y = blocks(X) + 0.1 * rng.normal(size=len(X))
    n_trees = 100 if depth == 3 else 50
    model = xgboost.XGBRegressor(
        n_jobs=1, n_estimators=n_trees, max_depth=depth, learning_rate=0.2 if depth == 3 else 0.1
    )
    found = shapley_sets(model.fit(X, y), X, progress=False)
    assert found.method == "index"
    assert found.groups == BLOCKS


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("n_trees", [100, 1000])
def test_depth_one_adds_up(library, n_trees):
    pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    y = X[:, 0] * X[:, 1] + X.sum(axis=1)
    if library == "xgboost":
        from xgboost import XGBRegressor

        model = XGBRegressor(n_jobs=1, n_estimators=n_trees, max_depth=1).fit(X, y)
    else:
        from lightgbm import LGBMRegressor

        model = LGBMRegressor(n_jobs=1, n_estimators=n_trees, max_depth=1, verbose=-1).fit(X, y)
    for method in ("index", "recursive"):
        sampling = Sampling(probes=500)
        found = shapley_sets(model, X, method=method, sampling=sampling, progress=False)
        assert len(found.groups) == 6


def strengths():
    shares = np.zeros((5, 5))
    for i, j, share in ((0, 3, 0.4), (1, 3, 0.1), (1, 2, 0.2)):
        shares[i, j] = shares[j, i] = share
    return InteractionStrengths(shares, tuple("abcde"), "made up")


def test_groups_join_as_the_threshold_falls():
    found = strengths()
    assert found.groups(0.3) == ((0, 3), (1,), (2,), (4,))
    assert found.groups(0.05) == ((0, 1, 2, 3), (4,))
    merges = [(m.strength, m.first, m.second) for m in found.merges()]
    assert merges == [(0.4, (0,), (3,)), (0.2, (1,), (2,)), (0.1, (1, 2), (0, 3))]
    assert list(found.to_frame()["groups_left"]) == [4, 3, 2]
    for bad in (-0.1, 1.5):
        with pytest.raises(tp.errors.InvalidInputError, match="threshold"):
            found.groups(bad)


def test_a_function_is_sent_to_the_search():
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(tp.errors.InvalidInputError, match='function: use method="recursive"'):
        shapley_sets(lambda X: X[:, 0], X, method="index", progress=False)
