"""Every export of CatBoost's statistics of combinations, read back by whatever reads it."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from treepurify.errors import UnsupportedModelError
from treepurify.export import (
    effects_frame,
    to_ebm,
    to_excel,
    to_json,
    to_onnx,
    to_relativities,
    to_scorecard,
    to_shap,
    to_shapiq,
    to_sql,
)

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


def in_onnx(onnx_model, table):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(onnx_model.SerializeToString())
    feeds = {
        one.name: table[[one.name]].to_numpy(dtype=object if "string" in one.type else float)
        for one in session.get_inputs()
    }
    return session.run(None, feeds)[0][:, 0]


READ = {
    "sqlite": lambda d, table: in_sqlite(to_sql(d, dialect="sqlite", keep=["id"]), table),
    "duckdb": lambda d, table: in_duckdb(to_sql(d, dialect="duckdb", keep=["id"]), table),
    "onnx": lambda d, table: in_onnx(to_onnx(d), table),
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


def test_a_scorecard(d, brought, margins):
    card = to_scorecard(d, decimals=6)
    factor = 20 / np.log(2)
    expected = 600 - factor * np.log(50) + factor * margins
    found = card.score(brought[["city", "age", "plan"]])
    np.testing.assert_allclose(found, expected, rtol=0, atol=card.rounding.bound + 1e-9)


def test_factor_tables(brought):
    X = rows(1500, 0)
    model = catboost.CatBoostRegressor(**OPTIONS, loss_function="Poisson").fit(
        X, np.floor(np.exp(score(X)))
    )
    d = tp.purify(model, X, weights="empirical", progress=False)
    assert any(spec.made_from for spec in d.inputs.features)
    raw = brought[["city", "age", "plan"]]
    np.testing.assert_allclose(to_relativities(d).predict(raw), model.predict(raw), rtol=1e-12)


def test_tables(d, tmp_path):
    document = json.loads(to_json(d))
    frame, left_out = effects_frame(d)
    assert not left_out
    assert document["features"] == list(d.feature_names)
    parts = zip(document["components"], d.components.items(), strict=True)
    for written, (subset, component) in parts:
        assert np.array_equal(written["values"], component.values)
        term = frame[frame["term"] == d.term_name(subset)]
        np.testing.assert_array_equal(term["effect"], component.values.ravel())
    pytest.importorskip("openpyxl")
    assert to_excel(d, tmp_path / "effects.xlsx") == []
    sheets = pd.read_excel(tmp_path / "effects.xlsx", sheet_name=None)
    for term, sheet in sheets["importance"].set_index("term")["sheet"].items():
        # A workbook has sixteen digits of a number.
        np.testing.assert_allclose(
            sheets[sheet]["effect"], frame.loc[frame["term"] == term, "effect"], rtol=1e-15
        )


def test_shap_and_shapiq(d, brought, margins):
    pytest.importorskip("shap")
    pytest.importorskip("shapiq")
    few = brought.head(5)[["city", "age", "plan"]]
    explained = to_shap(d.shapley_values(few))
    total = explained.values.sum(axis=1) + np.ravel(explained.base_values)
    np.testing.assert_allclose(total, margins[:5], rtol=0, atol=1e-12)
    one = to_shapiq(d.shapley_interactions(few), 0)
    np.testing.assert_allclose(one.values.sum(), margins[0], rtol=0, atol=1e-12)
