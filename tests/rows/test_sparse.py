"""Sparse rows are read as each library reads them, and give what the same dense rows give."""

import tracemalloc

import lightgbm
import numpy as np
import pytest
import xgboost
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import treepurify as tp
from treepurify import components as components_module
from treepurify.budget import DEFAULT_BUDGET
from treepurify.models import parsed as parsed_module
from treepurify.rows import table_reader as table_reader_module
from treepurify.rows import tables
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.table_reader import read_columns

AB = (FeatureSpec("a"), FeatureSpec("b"))


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * (rng.uniform(size=(300, 4)) < 0.4)
    return X, X[:, 0] * (X[:, 1] != 0) + X[:, 2]


def trained(kind, X, y):
    model = {
        "xgboost": xgboost.XGBRegressor(n_estimators=10, max_depth=2, n_jobs=1),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=10, max_depth=2, verbose=-1),
        "boosting": GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0),
        "forest": RandomForestRegressor(n_estimators=5, max_depth=2, random_state=0),
    }[kind]
    return model.fit(X, y)


@pytest.mark.parametrize("form", [csr_matrix, csc_matrix, csr_array, coo_array])
def test_entries_that_are_not_stored_are_zero(form):
    X, _ = data()
    columns = read_columns(form(X[:, :2]), AB)
    np.testing.assert_array_equal(np.column_stack(columns.values), X[:, :2])
    assert columns.n_rows == 300


def test_entries_stored_twice_are_added_and_stored_zeros_are_zeros():
    X = csr_matrix((np.array([1.0, 2.0, 0.0]), ([0, 0, 1], [0, 0, 1])), shape=(3, 2))
    specs = tuple(FeatureSpec(name, absent_is_missing=True) for name in "ab")
    a, b = read_columns(X, specs).values
    np.testing.assert_array_equal(a, [3.0, np.nan, np.nan])
    np.testing.assert_array_equal(b, [np.nan, 0.0, np.nan])


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "boosting", "forest"])
def test_effects_and_predictions_are_those_of_the_library(kind):
    X, y = data()
    rows = csr_matrix(X)
    model = trained(kind, rows, y)
    d = tp.purify(model, rows, weights="empirical", progress=False)
    # The certificate compares with the library, which gets the sparse rows.
    assert d.certificate.margin_error < 2e-6
    np.testing.assert_allclose(d.predict(rows), model.predict(rows), atol=2e-5)
    dense = np.where(X == 0, np.nan, X) if kind == "xgboost" else X
    other = tp.purify(model, dense, weights="empirical", progress=False)
    assert set(d) == set(other)
    for subset, component in d.components.items():
        np.testing.assert_allclose(component.values, other.components[subset].values, atol=1e-10)
    assert d.verify(model, rows).relative_difference < 1e-6


def test_other_uses_of_sparse_rows():
    X, y = data()
    rows = csr_matrix(X)
    model = trained("boosting", rows, y)
    d, dense = (tp.purify(model, each, weights="empirical", progress=False) for each in (rows, X))
    np.testing.assert_array_equal(d.contributions(rows), dense.contributions(X))
    np.testing.assert_array_equal(d.shapley_values(rows).values, dense.shapley_values(X).values)
    np.testing.assert_array_equal(tp.compare(d, dense, rows).terms["distance"], 0.0)
    worth = tp.effect_worth(d, rows, y, n_bootstrap=0, absorb=False, progress=False)
    truth = tp.effect_worth(dense, X, y, n_bootstrap=0, absorb=False, progress=False)
    np.testing.assert_array_equal(worth.worth, truth.worth)
    refits = tp.refit(model, rows, y, n=2, progress=False)
    assert tp.purify(refits, rows, weights="empirical", progress=False).spread.n_models == 2
    called, truth = (
        tp.ale_anova(lambda table: np.asarray(table)[:, 0] ** 2, each, bins=4, progress=False)
        for each in (rows, X)
    )
    np.testing.assert_array_equal(called["x0"].on_rows(X), truth["x0"].on_rows(X))


def test_columns_that_the_model_does_not_use_take_no_room(monkeypatch):
    X, y = data()
    wide = csr_matrix(np.hstack([X, np.zeros((300, 50))]))
    model = trained("boosting", wide, y)
    whole = tp.purify(model, wide, weights="empirical", progress=False)
    for module in (parsed_module, tables):
        monkeypatch.setattr(module, "DEFAULT_BUDGET", 8 * 300 * 10)
    d = tp.purify(model, wide, weights="empirical", progress=False)
    assert set(d) == set(whole)
    for subset, component in d.components.items():
        np.testing.assert_array_equal(component.values, whole.components[subset].values)
    with pytest.raises(tp.errors.MemoryBudgetError, match="sparse rows"):
        read_columns(wide, tuple(FeatureSpec(f"x{j}") for j in range(54)))


@pytest.mark.parametrize("kind", ["xgboost", "boosting", "deep", "forest"])
@pytest.mark.parametrize("form", [csr_matrix, csc_matrix, coo_array])
def test_values_on_sparse_rows_come_in_blocks(kind, form, monkeypatch):
    X, y = data()
    wide = np.hstack([X, np.zeros((300, 40))])
    models = {
        "deep": HistGradientBoostingRegressor(max_iter=5),
        "forest": RandomForestRegressor(5, random_state=0),
        "boosting": GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0),
        "xgboost": xgboost.XGBRegressor(n_estimators=10, max_depth=2, n_jobs=1),
    }
    rows = form(wide)
    model = models[kind].fit(wide if kind == "deep" else csr_matrix(wide), y)
    d = tp.purify(model, rows if kind == "xgboost" else wide, weights="empirical", progress=False)

    def values():
        return (
            d.predict(rows),
            d.contributions(rows).to_numpy(),
            d.shapley_values(rows).values,
            d.shapley_values(rows).data,
            *d.shapley_interactions(rows).values.values(),
            d.r_squared(rows),
            d.verify(model, csr_matrix(wide) if kind != "deep" else wide).relative_difference,
            *([] if d.remainder is None else [d.remainder.on_rows(rows)]),
        )

    whole = values()
    read, plain = [], tables.check_dense_size
    monkeypatch.setattr(components_module, "_SPARSE_BYTES", 8 * 4 * 70)
    monkeypatch.setattr(
        table_reader_module, "check_dense_size", lambda *size: (read.append(size), plain(*size))
    )
    for one, other in zip(values(), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    # The copy of all rows that Shapley values hold, and what the library is asked with, apart.
    assert max(n_rows * n_columns for n_rows, n_columns in read[:5]) <= 4 * 70
    assert len(d.predict(form(wide[:0]))) == 0


def test_rows_that_would_not_fit_as_dense_are_predicted():
    n_features, n_rows = 30_000, 9_000
    rng = np.random.default_rng(0)
    X, y = data()
    places = np.repeat(np.arange(300), 4), np.tile([0, 7, 99, 20_000], 300)
    small = csr_matrix((X.ravel(), places), shape=(300, n_features))
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=2, n_jobs=1).fit(small, y)
    d = tp.purify(model, small, weights="empirical", progress=False)
    many = small[rng.integers(0, 300, n_rows)]
    assert 8 * n_rows * n_features > DEFAULT_BUDGET
    tracemalloc.start()
    predicted = d.predict(many)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 26
    np.testing.assert_allclose(predicted, model.predict(many), atol=2e-5)


def test_what_is_no_number_is_refused():
    with pytest.raises(tp.errors.InvalidInputError, match="real numbers"):
        read_columns(csr_matrix(np.eye(2) * 1j), AB)
    with pytest.raises(
        tp.errors.InvalidInputError, match="2 features, but the data have 3 columns"
    ):
        read_columns(csr_matrix(np.eye(3)), AB)
