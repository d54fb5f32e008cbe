"""Local effects of trees and tables against calls of the same model."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import treepurify as tp
from tests.cases import rows_beside_cuts
from tests.reference.ensembles import random_ensemble
from treepurify.engines.ale.axes import accumulation_axes
from treepurify.engines.ale.local_effects import accumulate_main
from treepurify.engines.ale.pair_sums import pair_sums
from treepurify.engines.common.functions import ParsedFunction, ResponseFunction
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import no_report


def assert_effects_of_calls(d, called, scale):
    """The same pairs, and the same main effects and standard errors at the nodes."""
    assert set(d) == set(called)
    for subset, effect in called.components.items():
        if len(subset) == 2:
            np.testing.assert_allclose(d[subset].values, effect.values, rtol=0, atol=1e-12 * scale)
            np.testing.assert_allclose(d[subset].mass, effect.mass, rtol=0, atol=1e-12)
        errors = d[subset].standard_error
        np.testing.assert_allclose(errors, effect.standard_error, rtol=0, atol=1e-12 * scale)
    assert d.diagnostics["cells_without_rows"] == called.diagnostics["cells_without_rows"]
    pairs = [effect.values for subset, effect in called.components.items() if len(subset) == 2]
    assert max(np.abs(values).max() for values in pairs) > 1e-3 * scale


def numeric_rows(n_rows=400, n_features=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 1] += X[:, 0]
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] * (X[:, 4] > 0)


@pytest.mark.parametrize("vector_leaves", [False, True])
@pytest.mark.parametrize("bins", [1, 6])
def test_one_walk_finds_the_differences_of_calls(vector_leaves, bins):
    """Repeated tests, categories, missing values, unknown codes, weights and two outputs."""
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(
        rng, n_features=6, n_categorical=3, n_codes=5, n_trees=12, depth=7, n_outputs=2,
        vector_leaves=vector_leaves,
    )  # fmt: skip
    f = ParsedFunction(ensemble)
    columns = f.inputs.columns(rows_beside_cuts(ensemble, 600, seed=6))
    weights = rng.random(columns.n_rows)
    axes = accumulation_axes(columns, weights, ensemble.used_features, bins, {}, 1 << 30)
    pairs = list(combinations(axes, 2))
    assert len(pairs) == 15
    found = pair_sums(f, columns, weights, axes, pairs, no_report)
    called = pair_sums(ResponseFunction(ensemble), columns, weights, axes, pairs, no_report)
    for pair in pairs:
        np.testing.assert_allclose(found[pair].total, called[pair].total, rtol=0, atol=1e-11)
        assert np.abs(found[pair].total).max() > 0.1
    # Features of no wanted pair stay where they are.
    one = pair_sums(f, columns, weights, axes, [(1, 4)], no_report)
    np.testing.assert_allclose(one[1, 4].total, found[1, 4].total, rtol=0, atol=1e-12)


def test_the_part_of_an_ensemble_has_its_first_differences():
    rng = np.random.default_rng(2)
    ensemble = random_ensemble(rng, n_features=5, n_categorical=2, n_trees=20, depth=4)
    f = ParsedFunction(ensemble)
    columns = f.inputs.columns(rows_beside_cuts(ensemble, 200, seed=1))
    weights = rng.random(200)
    axes = accumulation_axes(columns, weights, range(5), 8, {}, 1 << 30)
    for j, axis in axes.items():
        part = ensemble.part_along((j,))
        assert 0 < part.n_trees < ensemble.n_trees
        one = accumulate_main(f, columns, weights, axis)
        whole = accumulate_main(ResponseFunction(ensemble), columns, weights, axis)
        for name in ("values", "standard_error", "between"):
            np.testing.assert_allclose(getattr(one, name), getattr(whole, name), atol=1e-12)
    assert ensemble.part_along((0, 3)).n_trees < ensemble.part_along((0,)).n_trees


def test_boosted_trees_and_their_library():
    xgboost = pytest.importorskip("xgboost")
    X, y = numeric_rows()
    X[::11, 2] = np.nan
    y = np.nan_to_num(y, nan=1.0)
    model = xgboost.XGBRegressor(n_jobs=1).fit(X, y)
    d = tp.ale_anova(model, X, progress=False)
    parsed = tp.parse_model(model)
    called = tp.ale_anova(lambda X: parsed.margin(X, precision="float64"), X, progress=False)
    assert_effects_of_calls(d, called, np.std(y))
    library = tp.ale_anova(lambda X: model.predict(X, output_margin=True), X, progress=False)
    for pair in (pair for pair in library if len(pair) == 2):
        # The library adds in single precision.
        np.testing.assert_allclose(d[pair].values, library[pair].values, atol=1e-4)


def test_boosted_trees_of_several_classes():
    xgboost = pytest.importorskip("xgboost")
    X, y = numeric_rows(300, 5)
    model = xgboost.XGBClassifier(n_estimators=15, n_jobs=1)
    model.fit(X, y.argsort().argsort() * 3 // len(y))
    parsed = tp.parse_model(model)
    called = tp.ale_anova(lambda X: parsed.margin(X, precision="float64"), X, progress=False)
    assert_effects_of_calls(tp.ale_anova(model, X, progress=False), called, 1.0)


def test_boosted_trees_with_categories():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = numeric_rows(600, 5)
    rng = np.random.default_rng(1)
    table = pd.DataFrame(X, columns=list("abcde"))
    for name, size in (("town", 8), ("kind", 2)):
        codes = rng.integers(0, size, len(X))
        table[name] = pd.Categorical([f"{name} {code}" for code in codes])
        y = y + rng.normal(size=size)[codes] * X[:, 0]
    model = lightgbm.LGBMRegressor(n_estimators=40, n_jobs=1, verbose=-1).fit(table, y)
    d = tp.ale_anova(model, table, bins=8, progress=False)
    called = tp.ale_anova(model.predict, table, bins=8, progress=False)
    assert_effects_of_calls(d, called, np.std(y))
    assert np.abs(d["a", "town"].values).max() > 0.1


def test_a_forest():
    X, y = numeric_rows(200)
    model = RandomForestRegressor(n_estimators=30, random_state=0).fit(X, y)
    weight = np.random.default_rng(1).random(len(X))
    options = {"bins": 7, "sample_weight": weight, "progress": False}
    d = tp.ale_anova(model, X, **options)
    assert_effects_of_calls(d, tp.ale_anova(model.predict, X, **options), np.std(y))


def test_additive_tables():
    interpret = pytest.importorskip("interpret.glassbox")
    X, y = numeric_rows(400, 5)
    model = interpret.ExplainableBoostingRegressor(
        interactions=3, outer_bags=1, max_rounds=50, n_jobs=1
    )
    model.fit(X, y)
    d = tp.ale_anova(model, X, bins=8, progress=False)
    called = tp.ale_anova(model.predict, X, bins=8, progress=False)
    assert_effects_of_calls(d, called, np.std(y))
    assert sum(np.any(d[pair].values != 0) for pair in combinations(range(5), 2)) == 3


def test_pairs_that_no_path_tests_have_exactly_no_effect(monkeypatch):
    """And no pair of a tree ensemble costs a prediction."""
    xgboost = pytest.importorskip("xgboost")
    X, y = numeric_rows()
    model = xgboost.XGBRegressor(
        n_estimators=40, interaction_constraints="[[0, 1, 2], [3, 4], [5]]", n_jobs=1
    ).fit(X, y)
    predictions = []
    margin = TreeEnsemble.margin
    monkeypatch.setattr(
        TreeEnsemble,
        "margin",
        lambda *args, **options: predictions.append(1) or margin(*args, **options),
    )
    tp.ale_anova(model, X, order=1, progress=False)
    n_mains = len(predictions)
    d = tp.ale_anova(model, X, progress=False)
    assert len(predictions) == 2 * n_mains
    together = {(0, 1), (0, 2), (1, 2), (3, 4)}
    for pair in combinations(range(6), 2):
        assert np.any(d[pair].values != 0) == (pair in together)
