"""Comparisons on rows that come in batches are those on the same rows in memory."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows, shallow_model

QUIET = {"progress": False, "missing_cells": "always"}


def rows_with_gaps(n_rows=900):
    """Rows with a category that only the last of them has, missing values, and weights."""
    X, y = regression_rows(n_rows)
    rng = np.random.default_rng(3)
    X["town"] = pd.Categorical(rng.choice(["here", "there"], n_rows), ["here", "there", "beyond"])
    X.loc[rng.random(n_rows) < 0.1, "c"] = np.nan
    X.iloc[-1, 0] = np.nan
    X.loc[n_rows - 1, "town"] = "beyond"
    return X, y + (X["town"] == "here"), rng.integers(0, 4, n_rows) / 4


def categorical_model(**options):
    """A model of rows with a categorical column."""
    X, y, _ = rows_with_gaps()
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=20, **options)
    return model.fit(X[:800], y[:800])


def cases():
    """Pairs of decompositions: measures, depths with remainders, forests, and several outputs."""
    model, X = shallow_model()
    yield (
        "measures",
        tp.purify(model, X, weights="empirical", **QUIET),
        tp.purify(model, X, weights="uniform", **QUIET),
    )
    X, y, _ = rows_with_gaps()
    known = X.iloc[:800]
    models = categorical_model(max_depth=2), categorical_model()
    yield "depths", *(tp.purify(model, known, weights="empirical", **QUIET) for model in models)
    forest = RandomForestRegressor(5, max_depth=5, random_state=0)
    tables = X[["b", "d"]], X[["d", "b"]]
    sides = [
        tp.purify(forest.fit(table, y), table, weights="empirical", **QUIET) for table in tables
    ]
    yield "orders of columns", *sides
    classes = HistGradientBoostingClassifier(
        categorical_features="from_dtype", max_iter=20, max_depth=2
    )
    both = (classes.fit(known, np.digitize(y[:800] * sign, [-1, 1])) for sign in (1, -1))
    yield "classes", *(tp.purify(one, known, weights="empirical", **QUIET) for one in both)


CASES = list(cases())


def assert_same(whole, streamed):
    for name in ("terms", "places", "orders", "shapley_ise"):
        first, second = getattr(whole, name), getattr(streamed, name)
        keys = [key for key in ("term", "feature", "output", "where", "order") if key in first]
        first, second = (frame.sort_values(keys, ignore_index=True) for frame in (first, second))
        pd.testing.assert_frame_equal(first, second, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("size", [1, 97, 5000])
@pytest.mark.parametrize(("name", "a", "b"), CASES, ids=[name for name, *_ in CASES])
def test_figures_are_those_in_memory(name, a, b, size):
    X, _, weight = rows_with_gaps()
    if size == 1:
        X, weight = X.tail(40), weight[-40:]
    X = X[list(a.feature_names)]
    whole = tp.compare(a, b, X, sample_weight=weight)
    source = batches(X.assign(weight=weight), size)
    streamed = tp.compare(a, b, source, sample_weight="weight")
    assert_same(whole, streamed)
    assert_same(tp.compare(a, b, X), tp.compare(a, b, batches(X, size)))
    assert streamed.mass == f"the {len(X)} rows of the callable"
    if name == "depths":
        assert a.remainder is None
        assert b.remainder is not None
        assert (streamed.shapley_ise["ise"] > 0).all()


def test_a_folder_of_files(tmp_path):
    pytest.importorskip("pyarrow")
    _, a, b = CASES[1]
    X, y, weight = rows_with_gaps()
    for part in range(3):
        own = slice(300 * part, 300 * part + 300)
        table = X[own].assign(weight=weight[own], target=y[own], town=X["town"][own].astype(str))
        table.to_parquet(tmp_path / f"{part}.parquet")
    whole = tp.compare(a, b, X, sample_weight=weight)
    assert_same(whole, tp.compare(a, b, tmp_path, sample_weight="weight"))
    path = tp.report.write_comparison(
        [a, b], tmp_path / "page.html", X=tmp_path / "*.parquet", sample_weight="weight", top=1
    )
    assert "the 900 rows of" in path.read_text(encoding="utf-8")


@pytest.mark.libraries
def test_a_dask_frame():
    dd = pytest.importorskip("dask.dataframe")
    _, a, b = CASES[1]
    X, _, weight = rows_with_gaps()
    frame = dd.from_pandas(X.assign(weight=weight), npartitions=4)
    assert_same(
        tp.compare(a, b, X, sample_weight=weight), tp.compare(a, b, frame, sample_weight="weight")
    )


def test_what_cannot_be_compared_is_refused():
    _, a, b = CASES[0]
    _, X = shallow_model()
    with pytest.raises(tp.errors.InvalidInputError, match="read only once"):
        tp.compare(a, b, iter([X]))
    with pytest.raises(tp.errors.InvalidInputError, match="no rows of positive weight"):
        tp.compare(a, b, batches(X.assign(weight=0.0), 90), sample_weight="weight")
    with pytest.raises(tp.errors.InvalidInputError, match="weights must be one of their columns"):
        tp.compare(a, b, batches(X, 90), sample_weight=np.ones(len(X)))


def test_codes_that_mean_other_labels_elsewhere_are_refused():
    _, a, _ = CASES[1]
    X, _, _ = rows_with_gaps()
    features = tuple(
        replace(spec, categories=None, numbers_are="codes") if spec.categories else spec
        for spec in a.inputs.features
    )
    d = tp.purify(
        replace(tp.parse_model(categorical_model()), features=features),
        X,
        weights="empirical",
        **QUIET,
    )
    same = [X[:500], X[500:]]
    assert_same(tp.compare(d, d, X), tp.compare(d, d, same))
    same[1] = same[1].assign(
        town=same[1]["town"].cat.reorder_categories(["there", "here", "beyond"])
    )
    with pytest.raises(tp.errors.InvalidInputError, match="categories of column 'town'"):
        tp.compare(d, d, same)


def test_a_feature_that_only_the_second_model_uses_is_read():
    X, y = regression_rows(600)
    first = HistGradientBoostingRegressor(max_depth=1, max_iter=2).fit(X, X["a"] > 0)
    second = HistGradientBoostingRegressor(max_depth=2, max_iter=10).fit(X, y)
    a, b = (tp.purify(model, X, weights="empirical", progress=False) for model in (first, second))
    assert {j for s in b.components for j in s} - {j for s in a.components for j in s}
    assert_same(tp.compare(a, b, X), tp.compare(a, b, batches(X, 100)))
