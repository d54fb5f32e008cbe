"""Interaction indices of rows in batches are those of the same rows in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows

QUIET = {"progress": False}


def case(kind):
    """A model, its rows with gaps and an unknown town at the end, and weights."""
    X, y = regression_rows(700)
    X["town"] = pd.Categorical(np.where(np.arange(700) < 400, "here", "there"))
    model = {
        "shallow": HistGradientBoostingRegressor(max_depth=2, max_iter=20),
        "deep": HistGradientBoostingRegressor(max_iter=20),
        "forest": RandomForestRegressor(3, max_depth=6, random_state=0),
    }[kind]
    if kind == "forest":
        X = X[["a", "b", "d"]]
        return model.fit(X, y), X, np.random.default_rng(0).integers(0, 4, 700) / 4
    model.set_params(categorical_features="from_dtype").fit(X, y)
    X.loc[695:, "c"] = np.nan
    X["town"] = X["town"].cat.add_categories("beyond")
    X.loc[699, "town"] = "beyond"
    return model, X, np.random.default_rng(0).integers(0, 4, 700) / 4


def assert_same(whole, streamed):
    for name in ("variance_by_order", "pair_total", "feature_total", "pair_standard_error"):
        first, second = getattr(whole, name), getattr(streamed, name)
        np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-13 * whole.variance.max())
    assert (whole.method, whole.measure) == (streamed.method, streamed.measure)


@pytest.mark.parametrize("kind", ["shallow", "deep", "forest"])
@pytest.mark.parametrize("weights", ["independent", "uniform"])
def test_indices_are_those_in_memory(kind, weights):
    model, X, weight = case(kind)
    options = {"weights": weights, **QUIET}
    whole = tp.interaction_indices(model, X, **options)
    assert_same(whole, tp.interaction_indices(model, batches(X, 97), **options))
    if weights == "uniform":
        return
    whole = tp.interaction_indices(model, X, sample_weight=weight, **options)
    source = batches(X.assign(weight=weight), 97)
    assert_same(whole, tp.interaction_indices(model, source, sample_weight="weight", **options))
    few = tp.interaction_indices(model, batches(X, 350), most_pairs=1, **options)
    assert_same(tp.interaction_indices(model, X, most_pairs=1, **options), few)


def test_weights_that_would_be_ignored_are_refused():
    model, X, weight = case("shallow")
    source = batches(X.assign(weight=weight), 97)
    with pytest.raises(tp.errors.InvalidInputError, match="would be ignored"):
        tp.interaction_indices(model, source, weights="uniform", sample_weight="weight", **QUIET)


@pytest.mark.libraries
def test_a_dask_frame():
    dd = pytest.importorskip("dask.dataframe")
    model, X, _ = case("deep")
    frame = dd.from_pandas(X, npartitions=3)
    whole = tp.interaction_indices(model, X, **QUIET)
    assert_same(whole, tp.interaction_indices(model, frame, **QUIET))


def test_an_iterator_of_an_ebm_is_read_from_its_beginning():
    interpret = pytest.importorskip("interpret.glassbox")
    X, y = regression_rows(300)
    model = interpret.ExplainableBoostingRegressor(
        interactions=2, outer_bags=1, max_rounds=50, n_jobs=1
    ).fit(X, y)
    whole = tp.interaction_indices(model, X, **QUIET)
    assert_same(whole, tp.interaction_indices(model, batches(X, 97)(), **QUIET))
