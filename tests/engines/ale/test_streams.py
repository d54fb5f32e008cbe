"""Accumulated local effects of rows that come in batches are those of the same rows in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows
from tests.reference.ensembles import random_ensemble
from treepurify.engines.common.functions import response_function

QUIET = {"progress": False}


def assert_same_effects(whole, streamed, X, scale=1.0):
    assert list(whole) == list(streamed)
    assert streamed.measure == whole.measure
    assert streamed.origin == whole.origin
    for name in whole.diagnostics:
        assert streamed.diagnostics[name] == whole.diagnostics[name], name
    within = {"rtol": 0, "atol": 1e-12 * scale}
    np.testing.assert_allclose(streamed.intercept, whole.intercept, **within)
    for subset, effect in whole.components.items():
        other = streamed.components[subset]
        assert type(other) is type(effect)
        np.testing.assert_allclose(other.values, effect.values, **within)
        np.testing.assert_allclose(other.on_rows(X), effect.on_rows(X), **within)
        np.testing.assert_allclose(other.mass, effect.mass, rtol=0, atol=1e-13)
        np.testing.assert_allclose(other.variance, effect.variance, rtol=1e-9, atol=1e-13 * scale)
        np.testing.assert_allclose(other.mean_absolute, effect.mean_absolute, atol=1e-12 * scale)
        np.testing.assert_allclose(other.standard_error, effect.standard_error, **within)
        for axis, own in zip(other.axes, effect.axes, strict=True):
            np.testing.assert_array_equal(axis.nodes, own.nodes)
    np.testing.assert_allclose(streamed.remainder.variance, whole.remainder.variance, rtol=1e-9)
    for subset, covariance in whole.covariances.items():
        np.testing.assert_allclose(streamed.covariances[subset], covariance, atol=1e-11 * scale)


def mixed_rows(n_rows=700):
    """Numbers that depend on a category, with missing values, and another category."""
    rng = np.random.default_rng(3)
    town = rng.integers(0, 6, n_rows)
    X = np.column_stack(
        [
            town + rng.normal(size=n_rows),
            rng.normal(size=n_rows),
            np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows)),
            town,
            (town + rng.integers(0, 3, n_rows)) % 5,
        ]
    ).astype(float)
    X[-5:, 3] = np.nan
    return X


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_effects_are_those_in_memory(weighted, n_outputs):
    rng = np.random.default_rng(n_outputs)
    ensemble = random_ensemble(
        rng, n_features=5, n_categorical=2, n_trees=8, depth=4, n_outputs=n_outputs
    )
    names = [spec.name for spec in ensemble.features]
    X = pd.DataFrame(mixed_rows(), columns=names)
    X[names[3:]] = X[names[3:]].where(X[names[3:]] < ensemble.features[3].n_codes)
    weight = rng.integers(0, 3, len(X)) / 4 if weighted else None
    whole = tp.ale_anova(ensemble, X, bins=9, sample_weight=weight, **QUIET)
    rows = X if weight is None else X.assign(weight=weight)
    for size in (61, 1000):
        streamed = tp.ale_anova(
            ensemble,
            batches(rows, size),
            bins=9,
            sample_weight=None if weight is None else "weight",
            **QUIET,
        )
        assert_same_effects(whole, streamed, X, np.abs(ensemble.margin(X)).max())


def test_chosen_nodes_reach_the_ends_of_all_rows():
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=5, max_depth=3, random_state=0).fit(X, y)
    options = {"nodes": {"a": [-0.5, 0.0, 0.5], 1: [-9.0, 0.0, 9.0]}, "bins": 5, **QUIET}
    whole = tp.ale_anova(model, X, **options)
    assert_same_effects(whole, tp.ale_anova(model, batches(X, 90), **options), X)
    with pytest.raises(tp.errors.InvalidInputError, match="increasing"):
        tp.ale_anova(model, batches(X, 90), nodes={"a": [1.0, 0.0]}, **QUIET)


def test_responses_and_main_effects_alone():
    X, y = regression_rows()
    model = GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=0).fit(X, y > 0)
    f = response_function(model)
    whole = tp.ale_anova(f, X, order=1, **QUIET)
    assert_same_effects(whole, tp.ale_anova(f, batches(X, 90), order=1, **QUIET), X)


def test_additive_tables_with_named_pairs():
    interpret = pytest.importorskip("interpret.glassbox")
    X, y = regression_rows()
    ebm = interpret.ExplainableBoostingRegressor(
        interactions=2, outer_bags=1, max_rounds=20, n_jobs=1
    ).fit(X, y)
    options = {"interactions": [("a", "b")], "bins": 6, **QUIET}
    whole = tp.ale_anova(ebm, X, **options)
    assert_same_effects(whole, tp.ale_anova(ebm, batches(X, 60), **options), X)


def test_quantiles_are_exact_where_few_values_may_be_kept():
    X, y = regression_rows(30_000)
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    whole = tp.ale_anova(model, X, order=1, **QUIET)
    small = tp.ale_anova(model, batches(X, 9999), order=1, memory_budget=10_000_000, **QUIET)
    assert_same_effects(whole, small, X[:100])


@pytest.mark.libraries
def test_partitions_of_dask(tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=5, max_depth=3, random_state=0).fit(X, y)
    whole = tp.ale_anova(model, X, bins=5, **QUIET)
    streamed = tp.ale_anova(model, frames.from_pandas(X, npartitions=3), bins=5, **QUIET)
    assert_same_effects(whole, streamed, X)
    streamed.save(tmp_path / "d.tpz")
    np.testing.assert_array_equal(tp.load(tmp_path / "d.tpz").predict(X), streamed.predict(X))


def test_what_cannot_be_streamed_is_refused():
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=5, max_depth=3, random_state=0).fit(X, y)
    with pytest.raises(tp.errors.InvalidInputError, match=r"three passes.*can be read only once"):
        tp.ale_anova(model, iter([X]), **QUIET)
    with pytest.raises(tp.errors.MemoryBudgetError, match="values of 4 features"):
        tp.ale_anova(model, batches(X, 50), memory_budget=2000, **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="has no column 'd'"):
        tp.ale_anova(model, batches(X.drop(columns="d"), 50), **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="no rows of positive weight"):
        tp.ale_anova(model, batches(X.assign(w=0.0), 50), sample_weight="w", **QUIET)
