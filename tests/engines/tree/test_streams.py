"""Rows that come in batches give what the same rows in memory give."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows, shallow_model
from treepurify.rows.sources import as_source

QUIET = {"progress": False}
MEASURES = [
    "empirical",
    "independent",
    "laplace",
    "uniform",
    tp.weights.Laplace(0.1),
]


def assert_same(a, b, tolerance=0.0):
    assert list(a) == list(b)
    for subset in a:
        first, second = a.components[subset], b.components[subset]
        np.testing.assert_allclose(first.values, second.values, rtol=0, atol=tolerance)
        np.testing.assert_allclose(first.mass, second.mass, rtol=0, atol=tolerance)
        for axis, other in zip(first.axes, second.axes, strict=True):
            assert (axis.bounds, axis.labels()) == (other.bounds, other.labels())
    np.testing.assert_allclose(a.intercept, b.intercept, rtol=0, atol=tolerance)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
@pytest.mark.parametrize("size", [1, 77, 10_000])
def test_counts_are_bit_for_bit_those_in_memory(measure, size):
    model, X = shallow_model()
    whole = tp.purify(model, X, weights=measure, **QUIET)
    streamed = tp.purify(model, batches(X, size), weights=measure, **QUIET)
    assert_same(whole, streamed)
    assert streamed.origin.n_rows == len(X)
    assert streamed.diagnostics["stream"]["passes"] == 1
    assert streamed.measure == whole.measure


def test_missing_values_that_only_the_last_batch_has():
    model, X = shallow_model()
    X.iloc[-1, 0] = np.nan
    whole = tp.purify(model, X, weights="empirical", **QUIET)
    assert whole.components[0,].axes[0].has_missing
    assert_same(whole, tp.purify(model, batches(X, 50), weights="empirical", **QUIET))
    without = tp.purify(model, batches(X.iloc[:-1], 50), weights="empirical", **QUIET)
    assert not without.components[0,].axes[0].has_missing
    always = tp.purify(model, batches(X, 50), weights="empirical", missing_cells="always", **QUIET)
    assert_same(tp.purify(model, X, weights="empirical", missing_cells="always", **QUIET), always)


def test_weights_come_from_a_column():
    model, X = shallow_model()
    weight = np.random.default_rng(1).integers(0, 3, len(X)) / 8
    whole = tp.purify(model, X, weights="empirical", sample_weight=weight, **QUIET)
    source = batches(X.assign(weight=weight, target=0.0), 70)
    assert_same(
        whole, tp.purify(model, source, weights="empirical", sample_weight="weight", **QUIET)
    )
    # Thirds are rounded: sums by batch differ in their last digits.
    whole = tp.purify(model, X, weights="empirical", sample_weight=weight / 3, **QUIET)
    source = batches(X.assign(weight=weight / 3), 70)
    assert_same(
        whole, tp.purify(model, source, weights="empirical", sample_weight="weight", **QUIET), 1e-12
    )
    nothing = batches(X.assign(weight=0.0), 70)
    with pytest.raises(tp.errors.InvalidInputError, match="zero for every row"):
        tp.purify(model, nothing, weights="empirical", sample_weight="weight", **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="has no column 'heavy'"):
        tp.purify(model, batches(X, 70), weights="empirical", sample_weight="heavy", **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="weights must be one of their columns"):
        tp.purify(model, batches(X, 70), weights="empirical", sample_weight=weight, **QUIET)


def test_importances_and_covariances_are_measured_on_all_rows():
    model, X = shallow_model()
    whole = tp.purify(model, X, weights="empirical", **QUIET)
    streamed = tp.purify(model, batches(X, 33), weights="empirical", **QUIET)
    pd.testing.assert_frame_equal(whole.importance(), streamed.importance(), rtol=1e-10)
    for subset, covariance in whole.covariances.items():
        np.testing.assert_allclose(streamed.covariances[subset], covariance, atol=1e-12)
    once = tp.purify(model, iter([X]), weights="empirical", **QUIET)
    assert once.covariances is None
    assert np.isnan(once.importance()["share"]).all()


def test_the_remainder_of_named_interactions_has_its_variance():
    model, X = shallow_model()
    named = {"interactions": [("a", "b")], **QUIET}
    whole, streamed = (
        tp.purify(model, rows, **{"weights": "empirical", **named}) for rows in (X, batches(X, 41))
    )
    assert_same(whole, streamed)
    np.testing.assert_allclose(streamed.remainder.variance, whole.remainder.variance, rtol=1e-10)
    np.testing.assert_allclose(streamed.covariances[()], whole.covariances[()], atol=1e-12)


def test_deep_trees_under_independent_features():
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=10, max_depth=5, random_state=0).fit(X, y)
    for measure in ("independent", "uniform"):
        whole = tp.purify(model, X, weights=measure, **QUIET)
        assert whole.diagnostics["method"] == "closed-form"
        assert_same(whole, tp.purify(model, batches(X, 90), weights=measure, **QUIET))


def deep_model():
    X, y = regression_rows(3000)
    return GradientBoostingRegressor(n_estimators=8, max_depth=4, random_state=0).fit(X, y), X


@pytest.mark.parametrize("method", ["projection", "coarse"])
def test_deep_trees_are_projected_on_a_sample_and_purified_under_all_rows(method):
    model, X = deep_model()
    whole = tp.purify(model, X, weights="empirical", method=method, **QUIET)
    # A sample of all rows is no sample.
    streamed = tp.purify(model, batches(X, 100), weights="empirical", method=method, **QUIET)
    assert_same(whole, streamed, 1e-12)
    assert streamed.certificate.note == ""
    np.testing.assert_allclose(
        streamed.certificate.fitted_share, whole.certificate.fitted_share, rtol=1e-12
    )
    np.testing.assert_allclose(streamed.remainder.variance, whole.remainder.variance, rtol=1e-9)
    for subset, covariance in whole.covariances.items():
        np.testing.assert_allclose(streamed.covariances[subset], covariance, atol=1e-12)
    few = {"projection": tp.options.TreeProjection, "coarse": tp.options.CoarseProjection}[method](
        sample_rows=900
    )
    sampled = tp.purify(model, batches(X, 100), weights="empirical", method=few, **QUIET)
    # Rows that a sample leaves out may have missing values.
    wide = tp.purify(model, X, weights="empirical", method=method, missing_cells="always", **QUIET)
    assert sampled.diagnostics["stream"]["sampled_rows"] == 900
    assert "a sample of 900 of 3000 rows" in sampled.certificate.note
    # Pure under all rows, and measured on all of them.
    pairs = {s: c for s, c in sampled.components.items() if len(s) == 2}
    for subset, component in pairs.items():
        if method == "projection":  # the same cells: coarse ones are those of the sample
            np.testing.assert_array_equal(component.mass, wide.components[subset].mass)
        along = np.einsum("ab,abk->bk", component.mass, component.values)
        assert np.abs(along).max() < 1e-10
    rest = sampled.remainder.on_rows(X)
    expected = 1 - np.mean(rest**2, axis=0) / model.predict(X).var()
    np.testing.assert_allclose(sampled.certificate.fitted_share, expected, rtol=1e-9)
    np.testing.assert_allclose(sampled.predict(X), model.predict(X), atol=1e-9)
    # The sample belongs to the rows, not to the batches.
    again = tp.purify(model, batches(X, 1234), weights="empirical", method=few, **QUIET)
    assert_same(sampled, again, 1e-13)


def test_a_deep_model_says_that_an_iterator_is_read_once_only():
    model, X = deep_model()
    with pytest.raises(tp.errors.InvalidInputError, match=r"three passes.*can be read only once"):
        tp.purify(model, iter([X]), weights="empirical", method="projection", **QUIET)


@pytest.mark.parametrize("measure", ["smoothed", "auto"])
def test_measures_of_values_are_those_in_memory_where_a_sample_is_all_rows(measure):
    model, X = shallow_model()
    X.iloc[3, 0] = np.nan
    whole = tp.purify(model, X, weights=measure, **QUIET)
    streamed = tp.purify(model, batches(X, 50), weights=measure, **QUIET)
    assert_same(whole, streamed)
    assert streamed.measure == whole.measure
    assert streamed.diagnostics["measure"] == whole.diagnostics["measure"]
    assert streamed.diagnostics["stream"]["sampled_rows"] == streamed.origin.n_rows == len(X)
    assert streamed.certificate.note == whole.certificate.note
    if measure == "auto":
        assert_same(whole, tp.purify(model, iter(np.array_split(X, 7)), **QUIET))
        return
    with pytest.raises(tp.errors.InvalidInputError, match=r"two passes.*can be read only once"):
        tp.purify(model, iter([X]), weights=measure, **QUIET)


def test_auto_takes_many_rows_as_they_are_and_reads_them_once(monkeypatch):
    monkeypatch.setattr(tp.weights.Auto, "plenty", 150)
    model, X = shallow_model()
    parts = np.array_split(X, 7)
    d = tp.purify(model, iter(parts), **QUIET)
    assert d.measure == "empirical"
    assert_same(d, tp.purify(model, X, weights="empirical", **QUIET))


def test_uneven_weights_make_many_rows_few(monkeypatch):
    monkeypatch.setattr(tp.weights.Auto, "plenty", 150)
    model, X = shallow_model()
    weight = np.where(np.arange(len(X)) < 60, 1.0, 1e-3)
    table = tp.purify(model, X, sample_weight=weight, **QUIET)
    streamed = tp.purify(
        model, batches(X.assign(weight=weight), 50), sample_weight="weight", **QUIET
    )
    assert "reason" not in table.diagnostics["measure"]
    assert_same(table, streamed)


def test_auto_refuses_rows_without_weight():
    model, X = shallow_model()
    with pytest.raises(tp.errors.InvalidInputError, match="no rows of positive weight"):
        tp.purify(model, batches(X.assign(weight=0.0), 50), sample_weight="weight", **QUIET)


def test_measures_of_values_are_found_on_a_sample(monkeypatch):
    monkeypatch.setattr("treepurify.engines.tree.plan.MEASURE_ROWS", 150)
    model, X = shallow_model()
    weight = np.random.default_rng(2).integers(1, 4, len(X)) / 2
    rows = X.assign(weight=weight)
    options = {"weights": "smoothed", "sample_weight": "weight", **QUIET}
    d = tp.purify(model, batches(rows, 50), **{"weights": "empirical", **options})
    np.testing.assert_allclose(d.predict(X), model.predict(X), atol=1e-12)
    assert_same(
        d, tp.purify(model, batches(rows, 77), **{"weights": "empirical", **options}), 1e-13
    )
    assert "a sample of 150 of 400 rows" in d.certificate.note
    assert d.origin.n_rows == 400
    assert d.diagnostics["stream"]["sampled_rows"] == 150


@pytest.mark.parametrize("measure", ["empirical", "independent", "uniform", "auto"])
def test_the_strongest_pairs_are_found_on_all_rows(measure):
    model, X = shallow_model()
    X.iloc[-1, 0] = np.nan
    asked = {"weights": measure, "interactions": 2, **QUIET}
    whole, streamed = (
        tp.purify(model, rows, **{"weights": "empirical", **asked}) for rows in (X, batches(X, 50))
    )
    assert_same(whole, streamed, 1e-12)
    found, truth = (d.diagnostics["strongest_pairs"] for d in (streamed, whole))
    assert list(found["shares"]) == list(truth["shares"])
    np.testing.assert_allclose([*found["shares"].values()], [*truth["shares"].values()])
    assert sum(len(subset) == 2 for subset in streamed.components) == 2
    with pytest.raises(tp.errors.InvalidInputError, match="read only once"):
        tp.purify(model, iter([X]), **{"weights": "empirical", **asked})


def test_what_cannot_be_streamed_is_refused():
    model, X = shallow_model()
    with pytest.raises(tp.errors.InvalidInputError, match="several models"):
        tp.purify([model, model], batches(X, 50), weights="empirical", **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="has no column 'b'"):
        tp.purify(model, batches(X.drop(columns="b"), 50), weights="empirical", **QUIET)


def test_columns_that_the_model_does_not_use_need_not_be_there():
    X, _ = regression_rows()
    model = tp.parse_model(GradientBoostingRegressor(max_depth=1, n_estimators=3).fit(X, X.a))
    assert model.used_features == (0,)
    d = tp.purify(model, batches(X[["a"]], 50), weights="empirical", **QUIET)
    assert_same(tp.purify(model, X, weights="empirical", **QUIET), d)
    assert "not use" in d.certificate.note


def test_arrays_are_matched_by_position():
    X, y = regression_rows()
    model = GradientBoostingRegressor(max_depth=2, n_estimators=5).fit(X.to_numpy(), y)
    streamed = tp.purify(model, batches(X.to_numpy(), 50), weights="empirical", **QUIET)
    assert_same(tp.purify(model, X.to_numpy(), weights="empirical", **QUIET), streamed)
    with pytest.raises(tp.errors.InvalidInputError, match="model has 4 features"):
        tp.purify(model, batches(X.to_numpy()[:, :3], 50), weights="empirical", **QUIET)
    named = tp.purify(model, batches(X.rename(columns=str.upper), 50), weights="empirical", **QUIET)
    assert named.feature_names == ("A", "B", "C", "D")


def categorical_model():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"town": rng.choice(["Bonn", "Ulm", "Rome"], 600), "size": rng.random(600)})
    X["town"] = X["town"].astype("category")
    y = (X["town"] == "Ulm") ^ (X["size"] > 0.5)
    model = HistGradientBoostingClassifier(
        max_depth=2, max_iter=5, categorical_features="from_dtype", min_samples_leaf=5
    )
    return model.fit(X, y), X


def test_categories_that_only_one_batch_has():
    model, X = categorical_model()
    text = X.assign(town=X["town"].astype(str))
    text.loc[599, "town"] = "Oslo"
    text = text.sort_values("town", kind="stable")
    whole = tp.purify(tp.parse_model(model), text, weights="empirical", **QUIET)
    assert whole.components[0,].axes[0].has_other
    assert_same(
        whole, tp.purify(tp.parse_model(model), batches(text, 60), weights="empirical", **QUIET)
    )
    unknown = text.assign(town="Oslo")
    with pytest.raises(
        tp.errors.InvalidInputError, match="none of the values in the column of feature 'town'"
    ):
        tp.purify(tp.parse_model(model), batches(unknown, 60), weights="empirical", **QUIET)


def test_codes_must_mean_the_same_in_every_file():
    model, X = categorical_model()
    parsed = tp.parse_model(model)
    town, size = parsed.features
    codes_only = replace(town, categories=None, numbers_are="codes")
    parsed = replace(parsed, features=(codes_only, size))
    assert_same(
        tp.purify(parsed, X, weights="empirical", **QUIET),
        tp.purify(parsed, batches(X, 60), weights="empirical", **QUIET),
    )
    turned = X.assign(town=X["town"].cat.reorder_categories(["Ulm", "Bonn", "Rome"]))
    with pytest.raises(
        tp.errors.InvalidInputError, match="categories of column 'town' are in the order"
    ):
        tp.purify(parsed, [X, turned], weights="empirical", **QUIET)


@pytest.mark.parametrize("resolution", ["union", "term"])
def test_ebm_under_streamed_rows(resolution):
    interpret = pytest.importorskip("interpret.glassbox")
    X, y = regression_rows()
    ebm = interpret.ExplainableBoostingRegressor(
        interactions=2, outer_bags=1, max_rounds=20, n_jobs=1
    ).fit(X, y)
    options = {"resolution": resolution, **QUIET}
    assert_same(
        tp.purify(ebm, X, **{"weights": "empirical", **options}),
        tp.purify(ebm, batches(X, 60), **{"weights": "empirical", **options}),
    )


def test_several_outputs():
    X, y = regression_rows()
    model = HistGradientBoostingClassifier(max_depth=2, max_iter=4).fit(X, np.digitize(y, [-1, 1]))
    whole = tp.purify(model, X, weights="empirical", **QUIET)
    streamed = tp.purify(model, batches(X, 60), weights="empirical", **QUIET)
    assert_same(whole, streamed)
    for subset, covariance in whole.covariances.items():
        np.testing.assert_allclose(streamed.covariances[subset], covariance, atol=1e-12)


def test_tables_that_would_not_fit_are_refused_before_a_row_is_read():
    model, X = shallow_model()
    read = []

    def rows():
        read.append(1)
        yield X

    with pytest.raises(tp.errors.MemoryBudgetError):
        tp.purify(model, rows, weights="empirical", memory_budget=2_000, **QUIET)
    # The first batch only, for its columns.
    assert len(read) == 1


def test_a_stream_can_be_saved(tmp_path):
    model, X = shallow_model()
    d = tp.purify(model, batches(X, 60), weights="empirical", **QUIET)
    d.save(tmp_path / "d.tpz")
    loaded = tp.load(tmp_path / "d.tpz")
    assert_same(d, loaded)
    assert loaded.covariances.keys() == d.covariances.keys()


def test_sources_are_told_apart_from_tables():
    _, X = shallow_model()
    assert as_source(X) is None
    assert as_source(batches(X, 3)).can_repeat
