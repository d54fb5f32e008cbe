"""Values on rows that come in batches are those in memory, written whole or not at all."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows, shallow_model
from treepurify import components, decomposition, row_values
from treepurify.comparing import compare

pytest.importorskip("pyarrow")


def decompositions():
    """A sum of tables, one with a remainder, and one of several outputs."""
    model, X = shallow_model()
    yield tp.purify(model, X, weights="empirical", progress=False), X
    deep, y = regression_rows(600)
    model = GradientBoostingRegressor(n_estimators=6, max_depth=4, random_state=0).fit(deep, y)
    yield tp.purify(model, deep, weights="empirical", method="projection", progress=False), deep
    model = HistGradientBoostingClassifier(max_depth=2, max_iter=3).fit(deep, np.digitize(y, [0]))
    yield tp.purify(model, deep, weights="empirical", progress=False), deep
    model.fit(deep, np.digitize(y, [-1, 1]))
    yield tp.purify(model, deep, weights="empirical", progress=False), deep


CASES = list(decompositions())


@pytest.mark.parametrize(("d", "X"), CASES)
def test_values_are_those_in_memory(d, X, tmp_path):
    source = batches(X, 130)
    expected = pd.DataFrame(d.predict(X).reshape(len(X), -1), columns=list(d.output_names))
    path = d.predict(source, to=tmp_path / "margin.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(path), expected, rtol=1e-13, atol=1e-13)
    response = d.predict(source, scale="response", to=tmp_path / "response.parquet")
    expected = d.predict(X, scale="response").reshape(len(X), -1)
    np.testing.assert_allclose(pd.read_parquet(response), expected)


def test_verify_reads_all_batches():
    model, X = shallow_model()
    d = tp.purify(model, X, weights="empirical", progress=False)
    whole, streamed = (d.verify(model, rows) for rows in (X, batches(X.assign(target=1.0), 37)))
    assert (streamed.n_rows, streamed.source) == (whole.n_rows, whole.source)
    assert streamed.largest_difference == whole.largest_difference
    assert streamed.relative_difference == whole.relative_difference
    with pytest.raises(tp.errors.InvalidInputError, match="must have all columns"):
        d.verify(model, batches(X.drop(columns="a"), 37))


def test_a_folder_has_one_file_for_each_file(tmp_path):
    d, X = CASES[0]
    for number in range(3):
        X[number * 100 : number * 100 + 100].to_parquet(tmp_path / f"in{number}.parquet")
    path = d.predict(str(tmp_path / "in*.parquet"), to=tmp_path / "out")
    names = sorted(file.name for file in path.iterdir())
    assert names == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    second = pd.read_parquet(path / "part-00001.parquet").to_numpy()[:, 0]
    np.testing.assert_array_equal(second, d.predict(X[100:200]))
    with pytest.raises(tp.errors.InvalidInputError, match="already exists"):
        d.predict(str(tmp_path / "in*.parquet"), to=tmp_path / "out")


@pytest.mark.parametrize("name", ["values.parquet", "values"])
def test_an_interruption_leaves_nothing(name, tmp_path):
    d, X = CASES[0]

    def interrupted():
        yield X[:200]
        yield X[200:300]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        d.predict(interrupted, to=tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(tmp_path):
    d, X = CASES[0]
    path = d.predict(X, to=tmp_path / "values.parquet")
    before = path.read_bytes()
    with pytest.raises(tp.errors.InvalidInputError, match="feature 'a' is numeric"):
        d.predict([X[:10], X[10:].assign(a="one")], to=path)
    assert path.read_bytes() == before


def test_where_to_write_must_be_said():
    d, X = CASES[0]
    with pytest.raises(tp.errors.InvalidInputError, match=r'to="values\.parquet"'):
        d.predict(batches(X, 100))


def test_many_rows_are_written_some_at_a_time(tmp_path, monkeypatch):
    d, X = CASES[1]
    monkeypatch.setattr("treepurify.row_values._ROWS_AT_A_TIME", 7)
    path = d.predict([X], to=tmp_path / "values.parquet")
    np.testing.assert_allclose(pd.read_parquet(path).to_numpy()[:, 0], d.predict(X), rtol=1e-13)


@pytest.mark.parametrize("name", ["contributions", "shapley_values"])
def test_a_result_for_each_row_needs_a_table(name):
    d, X = CASES[0]
    with pytest.raises(tp.errors.InvalidInputError, match="pass a table, of many rows some at a"):
        getattr(d, name)(batches(X, 100))


@pytest.mark.parametrize(("d", "X"), CASES)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_values_of_a_table_are_reported_effect_by_effect(d, X, is_sparse, monkeypatch):
    told = []
    for module in (row_values, decomposition):
        monkeypatch.setattr(module, "progress_report", lambda _: lambda *said: told.append(said))
    monkeypatch.setattr(components, "_SPARSE_BYTES", 5000)
    rows = csr_array(X.to_numpy()) if is_sparse else X
    for name in ("contributions", "shapley_values", "shapley_interactions", "shapley_residuals"):
        told.clear()
        getattr(d, name)(rows)
        done = [at for what, at, _ in told if what == "evaluating effects"]
        (n_effects,) = {total for what, _, total in told if what == "evaluating effects"}
        assert n_effects >= len(d)
        assert done == sorted(done)
        assert done[-1] == n_effects


def test_a_comparison_on_a_table_is_reported(monkeypatch):
    told = []
    monkeypatch.setattr(compare, "progress_report", lambda _: lambda *said: told.append(said))
    d, X = CASES[0]
    tp.compare(d, d, X)
    assert told == [("comparing effects", number, len(d)) for number in range(len(d))]
