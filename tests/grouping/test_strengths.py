"""Groups by interaction indices, exact for trees and sampled for other functions."""

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


def test_sampled_indices_of_a_product():
    """f = x0 + 2 x1 x2 with standard normal x: variances 1 and 4."""
    X = np.random.default_rng(0).normal(size=(5000, 3))
    sampling = Sampling(samples=20_000)
    found = shapley_sets(
        lambda X: X[:, 0] + 2 * X[:, 1] * X[:, 2],
        X,
        method="index",
        sampling=sampling,
        progress=False,
    )
    assert found.groups == ((0,), (1, 2))
    strengths = found.strengths
    assert strengths.shares[1, 2] == pytest.approx(0.8, abs=5 * strengths.standard_error[1, 2])
    assert strengths.standard_error[1, 2] < 0.05
    assert strengths.shares[0, 1] < 1e-12


def test_sampled_and_exact_indices_agree():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2000, 8))
    model = xgboost.XGBRegressor(n_jobs=1, n_estimators=30, max_depth=3).fit(X, blocks(X))
    exact = shapley_sets(model, X, method="index", progress=False).strengths
    ensemble = tp.parse_model(model)
    sampled = shapley_sets(
        lambda X: ensemble.margin(X)[:, 0], X, method="index", progress=False
    ).strengths
    apart = np.abs(exact.shares - sampled.shares)
    assert np.all(apart <= 6 * sampled.standard_error + 1e-12)
    assert exact.standard_error is None


def strengths():
    shares = np.zeros((5, 5))
    for i, j, share in ((0, 3, 0.4), (1, 3, 0.1), (1, 2, 0.2)):
        shares[i, j] = shares[j, i] = share
    return InteractionStrengths(shares, tuple("abcde"), "made up")


def test_dendrogram():
    found = strengths()
    assert found.groups(0.3) == ((0, 3), (1,), (2,), (4,))
    assert found.groups(0.05) == ((0, 1, 2, 3), (4,))
    merges = [(m.strength, m.first, m.second) for m in found.merges()]
    assert merges == [(0.4, (0,), (3,)), (0.2, (1,), (2,)), (0.1, (1, 2), (0, 3))]
    assert list(found.to_frame()["groups_left"]) == [4, 3, 2]
    for bad in (-0.1, 1.5):
        with pytest.raises(tp.errors.InvalidInputError, match="threshold"):
            found.groups(bad)


def test_linkage_is_what_scipy_cuts():
    from scipy.cluster.hierarchy import fcluster, is_valid_linkage

    found = strengths()
    linkage = found.linkage()
    assert is_valid_linkage(linkage)
    for threshold in (0.05, 0.15, 0.3, 0.5):
        labels = fcluster(linkage, 1 - threshold, criterion="distance")
        groups = {tuple(np.flatnonzero(labels == k).tolist()) for k in set(labels)}
        assert groups == set(found.groups(threshold))


def test_bootstrap_stability():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2000, 8))
    model = xgboost.XGBRegressor(n_jobs=1, n_estimators=40, max_depth=3, learning_rate=0.3)
    model.fit(X, blocks(X))
    sampling = Sampling(bootstrap=4)
    found = shapley_sets(model, X, sampling=sampling, progress=False)
    np.testing.assert_allclose(np.diag(found.stability), 1.0)
    np.testing.assert_array_equal(found.stability, found.stability.T)
    assert found.stability[2, 3] == pytest.approx(1.0)
    assert found.stability[0, 2] < 0.5
    again = shapley_sets(model, X, sampling=sampling, progress=False)
    np.testing.assert_array_equal(found.stability, again.stability)
