"""The query gives what the decomposition gives, in databases that run it."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.export.written import CASES, check_same
from treepurify.export import to_sql
from treepurify.export.sql import _exact
from treepurify.links import Link

duckdb = pytest.importorskip("duckdb")


@cache
def written(name):
    return CASES[name]()


def run_duckdb(query, stored):
    data = stored.assign(id=np.arange(len(stored)))
    with duckdb.connect() as connection:
        connection.register("data", data)
        return connection.execute(f"{query} ORDER BY id").df().drop(columns="id")


def run_sqlite(query, stored):
    with closing(sqlite3.connect(":memory:")) as connection:
        data = stored.assign(id=np.arange(len(stored)))
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in data)
        connection.execute(f"CREATE TABLE data ({names})")
        marks = ", ".join("?" * len(data.columns))
        records = data.astype(object).where(data.notna(), None).to_numpy().tolist()
        connection.executemany(f"INSERT INTO data VALUES ({marks})", records)
        found = connection.execute(f"{query} ORDER BY id")
        columns = [one[0] for one in found.description]
        return pd.DataFrame(found.fetchall(), columns=columns).drop(columns="id")


RUN = {"duckdb": run_duckdb, "sqlite": run_sqlite}


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize("case", CASES)
def test_the_query_gives_the_margin(case, database):
    one = written(case)
    found = RUN[database](to_sql(one.d, keep=["id"]), one.stored)
    check_same(found.to_numpy(dtype=float), one.margins, one.d)


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize(
    "case", ["xgboost_regressor", "xgboost_classifier", "xgboost_classes", "xgboost_counts"]
)
def test_the_query_gives_the_response(case, database):
    one = written(case)
    query = to_sql(one.d, keep=["id"], scale="response")
    found = RUN[database](query, one.stored).to_numpy(dtype=float)
    expected = one.d.link.inverse(one.margins)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def tree_on(values, target, names=None, **options):
    X = pd.DataFrame(values, columns=names)
    model = DecisionTreeRegressor(**options).fit(X, target)
    return tp.purify(model, X, weights="empirical", progress=False), X


@pytest.mark.parametrize("database", RUN)
def test_what_has_no_cell_gives_null(database):
    d, X = tree_on([[0.0], [1.0]], [0.0, 4.0], ["x"])
    stored = pd.DataFrame({"x": [0.0, None, np.nan, 1.0]})
    found = RUN[database](to_sql(d, keep=["id"]), stored)["margin"]
    assert found.isna().tolist() == [False, True, True, False]
    np.testing.assert_array_equal(found.dropna(), d.predict(X))


def test_text_in_a_column_of_numbers_gives_null_in_sqlite():
    d, _ = tree_on([[0.0], [1.0]], [0.0, 4.0], ["x"])
    stored = pd.DataFrame({"x": np.array([0.0, "much", "1.0"], dtype=object)})
    found = run_sqlite(to_sql(d, keep=["id"]), stored)["margin"]
    assert found.isna().tolist() == [False, True, True]


def test_a_column_that_is_not_there_is_an_error_in_sqlite():
    """A name in quotes that names nothing would be text, were it not for the table before it."""
    d, _ = tree_on([[0.0], [1.0]], [0.0, 4.0], ["x"])
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        run_sqlite(to_sql(d, keep=["id"]), pd.DataFrame({"y": [1.0]}))


@pytest.mark.parametrize("database", RUN)
def test_whole_numbers_in_the_database(database):
    d, _ = tree_on([[2.0**53], [2.0**53 + 2]], [0.0, 4.0], ["x"])
    whole = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3]
    found = RUN[database](to_sql(d, keep=["id"]), pd.DataFrame({"x": whole}))
    expected = d.predict(pd.DataFrame({"x": whole}))
    np.testing.assert_array_equal(found["margin"], expected)


@pytest.mark.parametrize("database", RUN)
def test_single_precision_in_the_database(database):
    one = written("no_names")
    stored = one.stored.replace([1e300, -1e300], 0.0).astype(np.float32)
    if database == "sqlite":
        stored = stored.astype(float)
    found = RUN[database](to_sql(one.d, keep=["id"]), stored)
    check_same(found.to_numpy(dtype=float), one.d.on_rows(stored), one.d)


@pytest.mark.parametrize("database", RUN)
def test_more_terms_than_an_expression_is_deep(database):
    """Databases limit the depth of an expression to 1000; here are 1300 effects."""
    rng = np.random.default_rng(0)
    names = [f"f{k}" for k in range(51)]
    tensors = {(k,): rng.normal(size=2) for k in range(51)}
    tensors |= {(j, k): rng.normal(size=(2, 2)) for j in range(51) for k in range(j + 1, 51)}
    d = tp.purify_tensors(tensors, progress=False, feature_names=names)
    codes = pd.DataFrame(rng.integers(0, 2, size=(50, 51)), columns=names)
    found = RUN[database](to_sql(d, keep=["id"]), codes)
    check_same(found.to_numpy(dtype=float), d.on_rows(codes), d)


@pytest.mark.parametrize("database", RUN)
def test_a_pair_of_many_cells(database):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3000, 2))
    model = GradientBoostingRegressor(n_estimators=150, max_depth=2, random_state=0)
    names = ["a", "b"]
    X = pd.DataFrame(values, columns=names)
    d = tp.purify(model.fit(X, values[:, 0] * values[:, 1]), X, weights="empirical", progress=False)
    assert d["a", "b"].n_cells > 5000
    found = RUN[database](to_sql(d, keep=["id"]), X)
    check_same(found.to_numpy(dtype=float), d.on_rows(X), d)


def test_cuts_are_exact_in_both():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2**63, size=2000, dtype=np.uint64).view(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    special = [5e-324, 2.2250738585072014e-308, 1e-35, 0.1, 1e22, 1e300, 1.7976931348623157e308]
    everything = [*numbers.tolist(), *special, *(-v for v in special), 0.0]
    query = f"SELECT {', '.join(map(_exact, everything))}"
    with closing(sqlite3.connect(":memory:")) as connection, duckdb.connect() as other:
        assert other.execute(query).fetchone() == tuple(everything)
        for value in everything:  # more columns than SQLite allows
            assert connection.execute(f"SELECT {_exact(value)}").fetchone() == (value,)


@pytest.mark.parametrize("database", RUN)
def test_an_infinite_cut_and_truth_values(database):
    d, X = tree_on([[0.0], [1.0]], [0.0, 4.0], ["x"])
    table = d["x"]
    for end, whole in ((np.inf, [True, True, False]), (-np.inf, [False, False, False])):
        axis = replace(table.axes[0], cuts=np.array([end]))
        moved = replace(d, components={(0,): replace(table, axes=(axis,))})
        stored = pd.DataFrame({"x": [0.0, 1e308, np.inf]})
        found = RUN[database](to_sql(moved, keep=["id"]), stored)["margin"]
        np.testing.assert_array_equal(found, np.where(whole, 0.0, 4.0))
    answers = RUN[database](to_sql(d, keep=["id"]), pd.DataFrame({"x": [False, True]}))["margin"]
    np.testing.assert_array_equal(answers, d.predict(X))


def test_text_is_compared_byte_by_byte_in_a_column_that_ignores_case():
    one = written("xgboost_regressor")
    names = ", ".join('"' + name.replace('"', '""') + '" COLLATE NOCASE' for name in one.stored)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE data ({names})")
        connection.executemany("INSERT INTO data VALUES (0, ?, 0)", [("x",), ("X",), ("new",)])
        lower, upper, unknown = (row[0] for row in connection.execute(to_sql(one.d)))
    assert upper == unknown != lower


def test_a_remainder_is_refused_or_named_in_the_query():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 3))
    X = pd.DataFrame(values, columns=list("abc"))
    model = DecisionTreeRegressor(max_depth=3).fit(X, values.prod(axis=1))
    d = tp.purify(model, X, weights="empirical", order=1, progress=False)
    assert d.remainder is not None
    with pytest.raises(
        tp.errors.UnsupportedModelError, match=r'a SQL query cannot contain .*remainder="drop"'
    ):
        to_sql(d)
    with pytest.warns(tp.errors.RemainderWarning, match="predictions change by"):
        query = to_sql(d, keep=["id"], remainder="drop")
    assert "-- without the remainder: predictions change by" in query
    found = run_duckdb(query, X)["margin"].to_numpy()
    np.testing.assert_allclose(found + d.remainder.on_rows(X)[:, 0], d.predict(X), atol=1e-12)


@pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")
def test_what_cannot_be_written():
    one = written("xgboost_regressor")
    with pytest.raises(tp.errors.InvalidInputError, match="several columns called"):
        to_sql(one.d, keep=["Margin"])
    with pytest.raises(tp.errors.InvalidInputError, match="table must be the name"):
        to_sql(one.d, table=3)
    with pytest.raises(tp.errors.InvalidInputError, match="an empty one"):
        to_sql(one.d, table="")
    with pytest.raises(tp.errors.MemoryBudgetError, match="a query of"):
        to_sql(one.d, memory_budget=100)
    X = np.random.default_rng(0).normal(size=(50, 2))
    smooth = tp.legendre_anova(lambda x: np.asarray(x)[:, 0], X, degree=2, progress=False)
    with pytest.raises(tp.errors.TreepurifyError, match=r"is not a table|is not one|remainder"):
        to_sql(smooth)
    with pytest.raises(tp.errors.UnsupportedModelError, match=r"link 'sqrt' cannot be exported"):
        to_sql(replace(one.d, link=Link("sqrt")), scale="response")
