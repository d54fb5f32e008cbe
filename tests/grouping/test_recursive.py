"""Recursive grouping: the paper's functions, its slips, false and hidden interactions."""

import numpy as np
import pytest

from examples.paper_shapley_sets import FUNCTIONS
from tests.reference.ensembles import random_ensemble
from treepurify.grouping.counted_function import as_function
from treepurify.grouping.partition import shapley_sets
from treepurify.grouping.recursive import group_recursively, mixing_test
from treepurify.grouping.sets import Sampling


def silent(*_):
    pass


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", range(10))
def test_functions_of_the_paper(name, seed):
    f, groups, parts = FUNCTIONS[name]
    X = np.random.default_rng(seed).normal(-1, 1, size=(500, 7))
    found = shapley_sets(f, X, X[:20], value="mean", seed=seed, progress=False)
    assert found.groups == groups
    mean = X.mean(axis=0, keepdims=True)
    expected = np.stack([part(X[:20]) - part(mean) for part in parts], axis=1)
    np.testing.assert_allclose(found.values[:, :, 0], expected, atol=1e-12)
    assert np.abs(found.remainder).max() < 1e-12


@pytest.mark.parametrize(
    "groups",
    [
        ((0,),),
        ((0, 1),),
        ((0,), (1,)),
        ((0, 1, 2, 3, 4, 5),),
        ((0, 5), (1, 4), (2, 3)),
        ((0,), (1, 2, 3, 4), (5,)),
        ((0, 1, 2), (3, 4, 5)),
    ],
)
def test_every_group_is_kept(groups):
    """The printed algorithm drops the last group when it takes in the last feature."""
    n = sum(map(len, groups))

    def f(X):
        return sum(np.prod(X[:, list(group)] + 2.0, axis=1) for group in groups)

    X = np.random.default_rng(0).normal(size=(300, n))
    found = shapley_sets(f, X, progress=False)
    assert found.groups == groups
    assert found.values is None


def test_the_number_of_tests_is_log_linear():
    def tests_for(n, size):
        weights = np.random.default_rng(0).normal(size=n)

        def f(X):
            parts = (X * weights).reshape(len(X), -1, size)
            return np.prod(parts + 2.0, axis=2).sum(axis=1)

        X = np.random.default_rng(1).normal(size=(50, n))
        sampling = Sampling(probes=4)
        found = shapley_sets(f, X, sampling=sampling, progress=False)
        assert found.groups == tuple(tuple(range(i, i + size)) for i in range(0, n, size))
        return found.diagnostics["tests"]

    for size in (1, 2, 4):
        counts = {n: tests_for(n, size) for n in (16, 64, 256)}
        for n, count in counts.items():
            assert count <= 2 * n * np.log2(n)
        assert counts[256] / counts[16] <= 16 * np.log2(256) / np.log2(16) * 1.5


def test_no_false_interactions_on_additive_ensembles():
    rng = np.random.default_rng(0)
    for n_trees, probes in ((100, 20_000), (1000, 4000)):
        ensemble = random_ensemble(rng, n_features=10, n_trees=n_trees, depth=1)
        X = rng.normal(size=(2000, 10))
        found = shapley_sets(
            ensemble, X, method="recursive", sampling=Sampling(probes=probes), progress=False
        )
        assert found.groups == tuple((j,) for j in range(10))


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_no_false_interactions_in_the_librarys_own_single_precision(library):
    """A callable, of which nothing is known but its values."""
    pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5))
    y = X @ np.arange(1.0, 6.0) + np.sin(3 * X[:, 0])
    if library == "xgboost":
        from xgboost import XGBRegressor

        model = XGBRegressor(n_jobs=1, n_estimators=300, max_depth=1, learning_rate=0.3).fit(X, y)
    else:
        from lightgbm import LGBMRegressor

        model = LGBMRegressor(n_jobs=1, n_estimators=300, max_depth=1, verbose=-1).fit(X, y)
    sampling = Sampling(probes=2000)
    for f in (model.predict, model):
        found = shapley_sets(f, X, method="recursive", sampling=sampling, progress=False)
        assert len(found.groups) == 5


def test_a_noisy_function_is_given_its_own_tolerance():
    rng = np.random.default_rng(0)
    noise = np.random.default_rng(1)
    X = rng.normal(size=(500, 4))

    def f(X):
        return X.sum(axis=1) + 5 * X[:, 0] * X[:, 1] + 1e-6 * noise.uniform(-1, 1, size=len(X))

    found = shapley_sets(f, X, progress=False)
    assert found.groups == ((0, 1), (2,), (3,))
    low, high = found.diagnostics["same_groups_for_tolerances"]
    assert low < 1e-5 < high


def boxed(X):
    """An interaction inside one part in a hundred of the rows."""
    inside = (X[:, 1] < 0.1) & (X[:, 3] < 0.1)
    return X.sum(axis=1) + 3.0 * inside


def test_a_rare_interaction_is_found_with_enough_probes():
    """A probe shows it where x is in the box of both and x' of neither, or the like."""
    X = np.random.default_rng(0).uniform(size=(5000, 5))
    # Pairs of rows with x_1 and x'_1 on different sides, and x_3 and x'_3 too.
    q = (2 * 0.1 * 0.9) ** 2
    probes = int(np.ceil(np.log(1e-6) / np.log(1 - q)))
    found = 0
    for seed in range(20):
        sampling = Sampling(probes=probes)
        sets = shapley_sets(boxed, X, sampling=sampling, seed=seed, progress=False)
        found += sets.groups == ((0,), (1, 3), (2,), (4,))
    assert found == 20


def test_a_seen_interaction_is_not_lost_by_halving():
    """One probe a test: without its witness, a half would hardly show it again."""
    X = np.random.default_rng(0).uniform(size=(4000, 64))

    def f(X):
        return X.sum(axis=1) + 3.0 * ((X[:, 0] < 0.05) & (X[:, 63] < 0.05))

    function = as_function(f, X)
    rng = np.random.default_rng(1)
    lost = seen = 0
    for _ in range(40):
        test = mixing_test(function, X, 20, (1e-13, 0.0), rng)
        found = group_recursively(64, test, silent)
        seen += np.isfinite(found.smallest_interaction)
        lost += np.isfinite(found.smallest_interaction) and len(found.groups) == 64
    assert seen > 3
    assert lost == 0


def test_results_repeat_under_a_seed_and_rows_are_counted():
    calls = []

    def f(X):
        calls.append(len(X))
        return X[:, 0] * X[:, 1] + X[:, 2]

    X = np.random.default_rng(0).normal(size=(100, 3))
    first = shapley_sets(f, X, X[:4], seed=5, progress=False)
    assert first.diagnostics["rows_evaluated_in_all"] == sum(calls)
    again = shapley_sets(f, X, X[:4], seed=5, progress=False)
    np.testing.assert_array_equal(first.values, again.values)
    assert dict(first.diagnostics) == dict(again.diagnostics)


def test_a_tolerance_merges_or_splits():
    X = np.random.default_rng(0).normal(size=(500, 3))

    def f(X):
        return X.sum(axis=1) + 0.01 * X[:, 0] * X[:, 1] + X[:, 1] * X[:, 2]

    def groups(tolerance):
        return shapley_sets(f, X, tolerance=tolerance, progress=False).groups

    assert groups("auto") == ((0, 1, 2),)
    assert groups(0.5) == ((0,), (1, 2))
    assert groups(1e6) == ((0,), (1,), (2,))
    found = shapley_sets(f, X, [[1.0, 1.0, 1.0]], tolerance=0.5, value="mean", progress=False)
    assert 1e-4 < np.abs(found.remainder).max() < 0.05
    np.testing.assert_allclose(found.total(), f(np.ones((1, 3)))[:, None], atol=1e-12)
