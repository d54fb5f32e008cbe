"""Profiles, groups and pictures of rows in batches: of all of them where they are few."""

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows, shallow_model
from treepurify.grouping import partition

QUIET = {"progress": False}


@pytest.mark.parametrize("is_function", [False, True])
def test_few_rows_have_the_profile_of_memory(is_function):
    X, y = regression_rows(700)
    model, _ = shallow_model()
    weight = np.random.default_rng(0).integers(1, 4, 700) / 4
    asked = model
    if is_function:
        asked = lambda X: np.asarray(X)[:, 0] * np.asarray(X)[:, 1]
    whole = tp.feature_profile(asked, X, "a", y, sample_weight=weight, **QUIET)
    rows = X.assign(price=y, weight=weight)
    for size in (90, 1000):
        found = tp.feature_profile(
            asked, batches(rows, size), "a", "price", sample_weight="weight", **QUIET
        )
        pd.testing.assert_frame_equal(found.to_frame(), whole.to_frame(), rtol=1e-10)
        assert repr(found) == repr(whole)


def test_a_profile_of_a_sample_says_so(monkeypatch):
    monkeypatch.setattr("treepurify.rows.given_rows.SAMPLED_ROWS", 300)
    X, y = regression_rows(700)
    model, _ = shallow_model()
    rows = X.assign(price=y, more=0.0)
    found, again = (
        tp.feature_profile(model, batches(rows, size), "a", "price", **QUIET) for size in (7, 700)
    )
    assert "a sample of 300 of 700 rows" in repr(found)
    pd.testing.assert_frame_equal(found.to_frame(), again.to_frame())
    whole = tp.feature_profile(model, X, "a", y, **QUIET)
    assert abs(found.share @ found.predicted - whole.share @ whole.predicted) < 0.3
    with pytest.raises(tp.errors.InvalidInputError, match="pass its name"):
        tp.feature_profile(model, batches(rows, 90), "a", y, **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="cost"):
        tp.feature_profile(model, batches(rows, 90), "a", "cost", **QUIET)


def test_groups_of_few_rows_and_of_a_sample(monkeypatch):
    X, _ = regression_rows(700)
    model, _ = shallow_model()
    options = {"x": X[:3], "method": "index", **QUIET}
    whole = tp.shapley_sets(model, X, **options)
    streamed = tp.shapley_sets(model, batches(X.assign(more=0.0), 90), **options)
    assert whole.groups == streamed.groups
    np.testing.assert_allclose(whole.values, streamed.values, rtol=1e-10)
    assert streamed.diagnostics["stream"]["sampled_rows"] == 700
    monkeypatch.setattr(partition, "FEW_SAMPLED_ROWS", 200)
    sampled = tp.shapley_sets(model, batches(X, 90), X[:3], **QUIET)
    assert sampled.diagnostics["stream"]["sampled_rows"] == 200
    assert sampled.diagnostics["stream"]["rows"] == 700
