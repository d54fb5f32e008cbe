"""Every export of CatBoost's statistics of combinations, read back by whatever reads it."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from treepurify.errors import UnsupportedModelError
from treepurify.export import to_ebm, to_shap, to_sql

catboost = pytest.importorskip("catboost")

CITIES = [f"city {k}" for k in range(12)]
# Below 200 iterations CatBoost combines nothing by default.
OPTIONS = {
    "iterations": 25, "depth": 2, "verbose": 0, "allow_writing_files": False, "thread_count": 1,
    "random_seed": 0, "cat_features": ["city", "plan"], "learning_rate": 0.2,
    "max_ctr_complexity": 4,
}  # fmt: skip


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"city": rng.choice(CITIES, n_rows), "age": rng.integers(20, 70, n_rows)})
    X["plan"] = rng.choice(["basic", "plus", "pro"], n_rows)
    return X


def score(X):
    number = X["city"].str.removeprefix("city ").astype(int)
    both = ((number % 3 == 0) ^ (X["age"] > 45)) + (X["plan"] == "pro") * (number > 5)
    return both + np.array([0.0, 1.0, 0.0, -1.0])[number % 4]


@pytest.fixture(scope="module")
def model():
    X = rows(1500, 0)
    return catboost.CatBoostClassifier(**OPTIONS).fit(X, score(X) > 0.5)


@pytest.fixture(scope="module")
def d(model):
    made = tp.purify(model, rows(1500, 0), weights="empirical", progress=False)
    assert any(spec.made_from for spec in made.inputs.features)
    assert made.remainder is None
    return made


@pytest.fixture(scope="module")
def some_hashed(model):
    """Rows without three of the cities, so that the model's hashes of these have no label."""
    X = rows(1500, 0)
    made = tp.purify(model, X[~X["city"].isin(CITIES[:3])], weights="independent", progress=False)
    assert len(made.inputs.features[0].unnamed) == 3
    return made


@pytest.fixture(scope="module")
def brought(model):
    """Raw rows, and next to them the columns that CatBoost makes of them."""
    X = rows(400, 1)
    return pd.concat([X, tp.parse_model(model, X=X).derived_columns(X)], axis=1)


@pytest.fixture(scope="module")
def margins(model, brought):
    return model.predict(brought[["city", "age", "plan"]], prediction_type="RawFormulaVal")


def in_sqlite(query, table):
    with closing(sqlite3.connect(":memory:")) as connection:
        table.assign(id=range(len(table))).to_sql("data", connection, index=False)
        return pd.read_sql(f"{query} ORDER BY id", connection)["margin"].to_numpy(dtype=float)


def in_duckdb(query, table):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("data", table.assign(id=range(len(table))))
        return connection.execute(f"{query} ORDER BY id").df()["margin"].to_numpy(dtype=float)


READ = {
    "sqlite": lambda d, table: in_sqlite(to_sql(d, keep=["id"]), table),
    "duckdb": lambda d, table: in_duckdb(to_sql(d, keep=["id"]), table),
}


def test_derived_columns_are_those_that_the_model_makes(model, d, brought, tmp_path):
    d.save(tmp_path / "effects.tpz")
    loaded = tp.load(tmp_path / "effects.tpz")
    X = brought[["city", "age", "plan"]]
    np.testing.assert_array_equal(loaded.predict(brought), d.predict(X))
    parsed = tp.parse_model(model, X=X)
    moved = parsed.derived_columns(X.set_axis(range(7, 407)))
    assert list(moved.index) == list(range(7, 407))
    assert list(moved) == [spec.name for spec in parsed.features if spec.made_from]


@pytest.mark.parametrize("reader", READ)
def test_runtimes_give_the_margin_of_the_model(d, brought, margins, reader):
    np.testing.assert_allclose(READ[reader](d, brought), margins, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reader", READ)
def test_a_category_known_by_its_hash_only_has_no_answer(some_hashed, brought, margins, reader):
    found = READ[reader](some_hashed, brought)
    is_hashed = brought["city"].isin(CITIES[:3]).to_numpy()
    np.testing.assert_array_equal(np.isnan(found), is_hashed)
    np.testing.assert_allclose(found[~is_hashed], margins[~is_hashed], rtol=0, atol=1e-12)
    assert (
        "-- categories without a label (CatBoost stores only their hash): 'city' 3 of 12"
        in to_sql(some_hashed)
    )


def test_no_label_at_all_is_refused(model):
    d = tp.purify(model, weights="uniform", progress=False)
    with pytest.raises(UnsupportedModelError, match="with rows in which each category occurs"):
        to_sql(d)


def test_an_ebm(d, some_hashed, brought, margins):
    pytest.importorskip("interpret")
    machine = to_ebm(d)
    found = machine.decision_function(brought[list(d.feature_names)])
    np.testing.assert_allclose(found, margins, rtol=0, atol=1e-12)
    with pytest.raises(UnsupportedModelError, match="3 of its 12 categories are in no row"):
        to_ebm(some_hashed)


def test_tables(d):
    frame = d.to_frame()
    for subset, component in d.components.items():
        term = frame[frame["term"] == d.term_name(subset)]
        np.testing.assert_array_equal(term["effect"], component.values.ravel())


def test_shap(d, brought, margins):
    pytest.importorskip("shap")
    few = brought.head(5)[["city", "age", "plan"]]
    explained = to_shap(d.shapley_values(few))
    total = explained.values.sum(axis=1) + np.ravel(explained.base_values)
    np.testing.assert_allclose(total, margins[:5], rtol=0, atol=1e-12)
