"""The projection of trees: solved to where effects stand still, the same whatever the order."""

import re
from dataclasses import replace

import numpy as np
import pytest

import treepurify as tp
from examples.data import read_table
from tests.cases import data_path
from tests.engines.tree.test_purify import scene
from tests.reference.projection import purified_projection
from treepurify import threads
from treepurify.engines.tree import (
    projection,
)

RANDOM = {
    "numbers": {"n_features": 5, "depth": 6},
    "categories and missing values": {
        "n_features": 5,
        "depth": 6,
        "n_categorical": 2,
        "missing": True,
    },
    "vector leaves": {"n_features": 4, "depth": 5, "n_outputs": 3, "vector_leaves": True},
    "an output for each tree": {"n_features": 4, "depth": 5, "n_outputs": 2},
}


def purify(ensemble, X, **options):
    return tp.purify(
        ensemble, X, progress=False, method="projection", **{"weights": "empirical", **options}
    )


def largest_difference(d, X, ensemble, **options):
    """The largest rms difference of a component from the dense truth, in model deviations."""
    expected, mass = purified_projection(ensemble, X, **options)
    spread = float(ensemble.margin(X).std(axis=0).max()) if len(X) > 1 else 1.0
    found = [float(np.abs(d.intercept - expected.intercept).max())]
    # Sets of which only one has tables have sides without mass: zeros.
    for subset in {*d.components, *expected.effects}:
        component, effect = d.components.get(subset), expected.effects.get(subset, 0.0)
        values = 0.0 if component is None else component.values
        own = mass[subset] if component is None else component.mass
        square = own[..., None] * (values - effect) ** 2
        found.append(float(np.sqrt(square.sum(axis=tuple(range(len(subset)))).max())))
    return max(found) / spread


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_components_are_those_of_dense_least_squares(name, order):
    ensemble, X = scene(3, n_trees=12, **RANDOM[name])
    d = purify(ensemble, X, weights="empirical", order=order)
    assert largest_difference(d, X, ensemble, order=order) <= 1e-8


@pytest.mark.parametrize("different", [3, 200])
@pytest.mark.parametrize("name", RANDOM)
def test_weighted_rows_are_those_of_dense_least_squares(name, different):
    ensemble, X = scene(3, n_trees=8, **RANDOM[name])
    rng = np.random.default_rng(0)
    weight = rng.permutation(len(X)) % different * rng.choice([0.25, 1.5], size=different).max()
    d = purify(ensemble, X, weights="empirical", sample_weight=weight)
    assert largest_difference(d, X, ensemble, sample_weight=weight) <= 1e-8


@pytest.mark.parametrize("weighting", [tp.weights.Laplace(0.5), tp.weights.Laplace(0.02)], ids=str)
@pytest.mark.parametrize("name", RANDOM)
def test_measures_beside_the_rows_are_rows_in_all_cells(name, weighting):
    ensemble, X = scene(3, n_trees=8, **(RANDOM[name] | {"n_features": 3}))
    few = X[::20]
    d = purify(ensemble, few, weights=weighting)
    assert largest_difference(d, few, ensemble, weighting=weighting) <= 1e-8


def test_features_that_restrict_no_leaf_have_mass_beside_the_rows():
    ensemble, X = scene(1, n_features=3, n_trees=8, depth=4, missing=True)
    cut = np.where(ensemble.feature == 0, -np.inf, ensemble.cut)
    ensemble = replace(ensemble, cut=cut, missing_left=ensemble.missing_left & (cut > -np.inf))
    weighting = tp.weights.Laplace(0.3)
    d = purify(ensemble, X, weights=weighting, order=1)
    assert np.abs(d.components[0,].values).max() > 1e-3
    assert largest_difference(d, X, ensemble, order=1, weighting=weighting) <= 1e-8


@pytest.mark.parametrize("n_rows", [1, 8, 40])
@pytest.mark.parametrize("seed", range(3))
def test_sets_of_categories_that_add_up_to_all_say_nothing_twice(seed, n_rows):
    """Products that depend on each other on any rows have no part in the norm, either."""
    ensemble, X = scene(seed, n_features=4, n_categorical=3, n_codes=4, depth=6, n_trees=6)
    X = X[:n_rows]
    weighting = tp.weights.Laplace(0.5)
    d = purify(ensemble, X, weights=weighting)
    facts = d.diagnostics["projection"]
    assert facts["converged"]
    assert facts["undetermined"] == 0
    assert largest_difference(d, X, ensemble, weighting=weighting) <= 1e-8


def test_few_rows_and_copies_of_features_leave_directions_that_least_norm_decides():
    ensemble, X = scene(5, n_trees=12, n_features=5, depth=6)
    X = X[:40].copy()
    X[:, 1] = X[:, 0]
    X[:, 3] = -X[:, 2]
    d = purify(ensemble, X, weights="empirical")
    assert d.diagnostics["projection"]["undetermined"] > 0
    assert largest_difference(d, X, ensemble) <= 1e-8


def deep_booster(n_rows=600, seed=0, **options):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)) + rng.normal(size=(n_rows, 1))
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] ** 2 + rng.normal(size=n_rows)
    return xgboost.XGBRegressor(n_estimators=30, **options).fit(X, y), X


def test_a_default_booster_is_solved_to_rounding():
    model, X = deep_booster()
    ensemble = tp.parse_model(model)
    d = purify(model, X, weights="empirical")
    assert largest_difference(d, X, ensemble) <= 1e-7
    assert max(d.diagnostics["projection"]["error"]) <= 1e-6


def test_a_default_booster_of_order_three_is_solved_to_rounding():
    from lightgbm import LGBMRegressor

    rng = np.random.default_rng(0)
    common, own = rng.normal(size=(2, 3000, 8))
    X = np.sqrt(0.5) * (common[:, :1] + own)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * X[:, 5] * X[:, 6] * X[:, 7]
    model = LGBMRegressor(n_estimators=4, learning_rate=0.5, verbose=-1).fit(X, y)
    facts = purify(model, X, weights="empirical", order=3, memory_budget=8 << 30).diagnostics[
        "projection"
    ]
    assert facts["converged"]
    assert max(facts["error"]) < 1e-6


def test_rows_without_any_mass_leave_the_effects_under_the_uniform_distribution():
    model, X = deep_booster()
    projected = purify(model, X, weights=tp.weights.Laplace(1.0))
    exact = tp.purify(model, X, weights="uniform", order=2, progress=False)
    assert set(projected.components) == set(exact.components)
    np.testing.assert_allclose(projected.intercept, exact.intercept, atol=1e-6)
    for subset, component in exact.components.items():
        values = projected.components[subset].values
        np.testing.assert_allclose(values, component.values, atol=1e-6)


def test_memory_is_checked_before_trees_are_solved(monkeypatch):
    def never(*_):
        raise AssertionError("solved before the tables were known to fit")

    monkeypatch.setattr(projection, "_project_tree", never)
    model, X = deep_booster(max_depth=3)
    with pytest.raises(tp.errors.MemoryBudgetError, match="purifying 15 tables"):
        purify(model, X, weights="empirical", memory_budget=150_000)
    with pytest.raises(
        tp.errors.MemoryBudgetError, match=r"tree \d+ and one more tree \(\d+ combinations"
    ):
        purify(*deep_booster(), memory_budget=1_500_000)


def test_more_cores_are_no_reason_to_refuse(monkeypatch):
    model, X = deep_booster()
    with monkeypatch.context() as patch:
        for module in (projection, threads):
            patch.setattr(module, "available_threads", lambda: 64)
        patch.setattr(projection, "_FEW_ROWS", 0)
        d = purify(model, X, memory_budget=30_000_000)
    usual = purify(model, X)
    for subset, component in usual.components.items():
        np.testing.assert_array_equal(d.components[subset].values, component.values)


def test_the_certificate_says_that_components_were_fitted(tmp_path):
    model, X = deep_booster()
    d = purify(model, X, weights="empirical")
    held = d.certificate
    assert not held.is_exact
    assert held.is_accurate
    assert held.fitted_share == pytest.approx(d.r_squared(X))
    assert 0 < held.solver_error <= 1e-7
    assert f"fitted (R\u00b2 = {held.fitted_share[0]:.4f}); the remainder" in str(held)
    assert re.search(r"Main effects \d+%, pairs \d+%; \d+% are interactions of three", repr(d))
    d.save(tmp_path / "d.tpz")
    assert tp.load(tmp_path / "d.tpz").certificate == held


def test_neither_the_order_of_rows_nor_of_features_matters():
    ensemble, X = scene(6, n_trees=15, n_features=5, depth=6)
    X = X[:60]
    first = purify(ensemble, X, weights="empirical")
    rows = np.random.default_rng(0).permutation(len(X))
    turned = purify(ensemble, X[rows], weights="empirical")
    for subset, component in first.components.items():
        np.testing.assert_allclose(turned.components[subset].values, component.values, atol=1e-8)
    columns = np.array([3, 0, 4, 2, 1])  # the new column k is the old one columns[k]
    place = np.argsort(columns)
    moved = replace(
        ensemble,
        feature=np.where(ensemble.feature < 0, -1, place[ensemble.feature]).astype(np.int32),
        features=tuple(ensemble.features[j] for j in columns),
    )
    again = purify(moved, X[:, columns], weights="empirical")
    for subset, component in first.components.items():
        same = tuple(sorted(int(place[j]) for j in subset))
        np.testing.assert_allclose(
            again.components[same].on_rows(X[:, columns]), component.on_rows(X), atol=1e-8
        )


def test_repeated_rows_are_rows_of_greater_weight():
    model, X = deep_booster(200)
    times = np.random.default_rng(0).integers(1, 5, size=len(X))
    repeated = purify(model, np.repeat(X, times, axis=0), weights="empirical")
    weighted = purify(model, X, weights="empirical", sample_weight=times)
    for subset, component in repeated.components.items():
        np.testing.assert_allclose(weighted.components[subset].values, component.values, atol=1e-6)


def test_thousands_of_small_tables_are_not_purified_for_effects_of_pairs():
    """Few levels, many features: every table has fewer cells than rows, and there are many."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = (rng.random((2000, 20)) < rng.uniform(0.1, 0.9, size=20)).astype(float)
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 4] + 0.3 * rng.normal(size=2000)
    model = xgboost.XGBRegressor(n_estimators=50).fit(X, y)
    options = {"weights": "empirical", "progress": False}
    assert tp.purify(model, X, **options).diagnostics["method"] == "joint"
    few = xgboost.XGBRegressor(n_estimators=50, max_depth=3).fit(X[:, :4], y)
    assert tp.purify(few, X[:, :4], order=3, **options).diagnostics["method"] == "exact"


@pytest.mark.parametrize("name", ["pima_diabetes", "boston_housing"])
def test_the_default_on_real_data_is_the_tightly_solved_answer(name):
    xgboost = pytest.importorskip("xgboost")
    data_path(name)
    table = read_table(name).select_dtypes("number")
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
    kind = xgboost.XGBClassifier if y.nunique() == 2 else xgboost.XGBRegressor
    model = kind(n_estimators=20).fit(X, y)
    assert (
        largest_difference(purify(model, X, weights="empirical"), X, tp.parse_model(model)) <= 1e-6
    )


def test_a_feature_of_which_rows_show_one_cell_has_no_effect():
    ensemble, X = scene(6, n_trees=8, n_features=4, depth=5)
    X = X[:50].copy()
    X[:, 2] = 0.5
    d = purify(ensemble, X, weights="empirical")
    assert largest_difference(d, X, ensemble) <= 1e-8
