"""Partial dependence over rows that come in batches is that of the same rows in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from tests.engines.partial_dependence.test_partial_dependence import background_rows
from tests.engines.tree.streams import batches, regression_rows
from tests.engines.tree.test_streams import categorical_model
from tests.reference.ensembles import random_ensemble

QUIET = {"progress": False}


def assert_same_terms(whole, streamed, X, tolerance=0.0):
    """Tables bit for bit without a tolerance; terms of more features by their values on rows."""
    assert list(whole) == list(streamed)
    np.testing.assert_allclose(streamed.intercept, whole.intercept, rtol=0, atol=tolerance)
    for subset, term in whole.components.items():
        other = streamed.components[subset]
        np.testing.assert_allclose(
            other.on_rows(X), term.on_rows(X), rtol=0, atol=tolerance, err_msg=str(subset)
        )
        np.testing.assert_allclose(other.variance, term.variance, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(other.mean_absolute, term.mean_absolute, rtol=1e-9, atol=1e-14)
        if len(subset) < 3:
            np.testing.assert_allclose(other.values, term.values, rtol=0, atol=tolerance)
            np.testing.assert_allclose(other.mass, term.mass, rtol=0, atol=tolerance)
    assert streamed.measure == whole.measure
    assert streamed.certificate.note == whole.certificate.note
    for subset, covariance in (whole.covariances or {}).items():
        np.testing.assert_allclose(streamed.covariances[subset], covariance, rtol=0, atol=1e-11)


@pytest.mark.parametrize("missing_cells", ["auto", "always"])
@pytest.mark.parametrize("case", range(4))
def test_counts_of_patterns_are_those_in_memory(case, missing_cells):
    rng = np.random.default_rng(case)
    n_categorical = case % 2
    ensemble = random_ensemble(
        rng, n_features=4, n_categorical=n_categorical, n_trees=5, depth=4, n_outputs=1 + case % 3
    )
    # Only the last batch has missing values, and none in the second feature.
    X = background_rows(rng, 400, 4, n_categorical, missing=0.0)
    X[-20:] = background_rows(rng, 20, 4, n_categorical, missing=0.2)
    X[:, 1] = np.nan_to_num(X[:, 1])
    options = {"order": [None, 2, 1, 3][case], "missing_cells": missing_cells, **QUIET}
    whole = tp.partial_dependence_anova(ensemble, X, **options)
    for size in (64, 1000):
        streamed = tp.partial_dependence_anova(ensemble, batches(X, size), **options)
        assert_same_terms(whole, streamed, X)
        assert streamed.diagnostics["extrapolation"] == whole.diagnostics["extrapolation"]
    if whole.remainder is not None:
        np.testing.assert_allclose(streamed.remainder.variance, whole.remainder.variance, rtol=1e-9)
        found, expected = streamed.remainder.component((0, 1, 2)), whole.remainder
        truth = expected.component((0, 1, 2))
        np.testing.assert_array_equal(found.on_rows(X), truth.on_rows(X))
        np.testing.assert_allclose(found.variance, truth.variance, rtol=1e-9)
    np.testing.assert_allclose(streamed.on_rows(X), ensemble.margin(X), atol=1e-10)


def test_weights_come_from_a_column():
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=0).fit(X, y)
    weight = np.random.default_rng(1).integers(0, 3, len(X)) / 3
    whole = tp.partial_dependence_anova(model, X, sample_weight=weight, **QUIET)
    rows = batches(X.assign(weight=weight, more="text"), 70)
    streamed = tp.partial_dependence_anova(model, rows, sample_weight="weight", **QUIET)
    assert_same_terms(whole, streamed, X, 1e-12)
    assert streamed.diagnostics["background_rows"] == np.count_nonzero(weight)
    nothing = batches(X.assign(weight=0.0), 70)
    with pytest.raises(tp.errors.InvalidInputError, match="zero for every row"):
        tp.partial_dependence_anova(model, nothing, sample_weight="weight", **QUIET)


def test_unknown_categories_of_the_last_batch():
    model, X = categorical_model()
    text = X.assign(town=X["town"].astype(str))
    text.loc[599, "town"] = "Oslo"
    whole = tp.partial_dependence_anova(model, text, **QUIET)
    streamed = tp.partial_dependence_anova(model, batches(text, 60), **QUIET)
    assert whole["town"].axes[0].has_other
    assert_same_terms(whole, streamed, text)


def test_covers_need_the_rows_for_variances_only():
    X, y = regression_rows()
    model = RandomForestRegressor(n_estimators=5, max_depth=4, random_state=0).fit(X, y)
    for order in (2, None):
        options = {"background": "cover", "order": order, **QUIET}
        whole = tp.partial_dependence_anova(model, X, **options)
        assert_same_terms(whole, tp.partial_dependence_anova(model, batches(X, 90), **options), X)


def test_additive_tables():
    interpret = pytest.importorskip("interpret.glassbox")
    X, y = regression_rows()
    ebm = interpret.ExplainableBoostingRegressor(
        interactions=2, outer_bags=1, max_rounds=20, n_jobs=1
    ).fit(X, y)
    whole = tp.partial_dependence_anova(ebm, X, **QUIET)
    assert_same_terms(whole, tp.partial_dependence_anova(ebm, batches(X, 60), **QUIET), X)
    main = tp.partial_dependence_anova(ebm, batches(X, 60), order=1, **QUIET)
    expected = tp.partial_dependence_anova(ebm, X, order=1, **QUIET).remainder.variance
    np.testing.assert_allclose(main.remainder.variance, expected, rtol=1e-9)


@pytest.mark.libraries
def test_partitions_of_dask(tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=0).fit(X, y)
    whole = tp.partial_dependence_anova(model, X, order=None, **QUIET)
    frame = frames.from_pandas(X, npartitions=3)
    streamed = tp.partial_dependence_anova(model, frame, order=None, **QUIET)
    assert_same_terms(whole, streamed, X)
    streamed.save(tmp_path / "d.tpz")
    loaded = tp.load(tmp_path / "d.tpz")
    assert_same_terms(whole, loaded, X)
    pd.testing.assert_frame_equal(loaded.importance(), streamed.importance())


def test_one_pass_suffices_where_all_terms_are_tables():
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=8, max_depth=2, random_state=0).fit(X, y)
    parsed = tp.parse_model(model)
    whole = tp.partial_dependence_anova(parsed, X, **QUIET)
    once = tp.partial_dependence_anova(parsed, iter([X[:100], X[100:]]), **QUIET)
    assert once.diagnostics["stream"]["passes"] == 1
    assert once.covariances is None
    for subset, term in whole.components.items():
        np.testing.assert_array_equal(once.components[subset].values, term.values)
    deep = GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=0).fit(X, y)
    with pytest.raises(tp.errors.InvalidInputError, match=r"two passes.*can be read only once"):
        tp.partial_dependence_anova(deep, iter([X]), **QUIET)


def test_what_cannot_be_streamed_is_refused():
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=0).fit(X, y)
    with pytest.raises(tp.errors.InvalidInputError, match="leave background out"):
        tp.partial_dependence_anova(model, batches(X, 50), background=X, **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="background cannot be rows in batches"):
        tp.partial_dependence_anova(model, X, background=batches(X, 50), **QUIET)
    with pytest.raises(tp.errors.MemoryBudgetError):
        tp.partial_dependence_anova(model, batches(X, 50), memory_budget=2000, **QUIET)
