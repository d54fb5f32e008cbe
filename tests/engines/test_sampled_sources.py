"""What needs a table takes a stated sample of rows that come in batches, and says so."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows

QUIET = {"progress": False}
ENGINES = {
    "hooker": partial(tp.hooker_anova, bins=4, **QUIET),
    "legendre": partial(tp.legendre_anova, degree=3, **QUIET),
    "ale": partial(tp.ale_anova, bins=4, **QUIET),
    "partial dependence": partial(tp.partial_dependence_anova, background_size=20, **QUIET),
}


def smooth(X):
    return (X["a"] * X["b"] + np.sin(X["c"])).to_numpy()


def sampled(monkeypatch, most):
    monkeypatch.setattr("treepurify.engines.common.function_rows.SAMPLED_ROWS", most)
    for engine in ("hooker", "legendre", "partial_dependence"):
        monkeypatch.setattr(f"treepurify.engines.{engine}.anova.SAMPLED_ROWS", most)


def assert_same_values(one, other, X):
    assert list(one) == list(other)
    for subset, component in one.components.items():
        found = other.components[subset].on_rows(X)
        np.testing.assert_allclose(found, component.on_rows(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ENGINES)
def test_a_sample_of_all_rows_is_the_table_itself(name):
    X, _ = regression_rows()
    rows = X.assign(kind=pd.Categorical(np.where(X["a"] > 0, "up", "down")), w=1.0)
    engine, table = ENGINES[name], rows.drop(columns="w")
    whole = engine(smooth, table)
    streamed = engine(smooth, batches(rows, 90), sample_weight="w")
    assert_same_values(whole, streamed, table[:50])
    assert streamed.measure == whole.measure
    assert streamed.diagnostics["stream"]["sampled_rows"] == len(X)


@pytest.mark.parametrize("name", ENGINES)
def test_a_sample_does_not_depend_on_batches_and_is_stated(name, monkeypatch):
    sampled(monkeypatch, 150)
    X, _ = regression_rows()
    weight = np.random.default_rng(0).integers(0, 3, len(X)) / 2
    rows, engine = X.assign(w=weight), ENGINES[name]
    one = engine(smooth, batches(rows, 37), sample_weight="w")
    other = engine(smooth, batches(rows, 400), sample_weight="w")
    assert_same_values(one, other, X[:50])
    n_rows = np.count_nonzero(weight)
    assert one.measure.endswith(f"a sample of 150 of {n_rows} rows")
    if one.certificate is not None:
        assert f"a sample of 150 of {n_rows} rows" in one.certificate.note
    assert one.diagnostics["stream"]["sampled_rows"] == 150
    # Rows that can be read only once suffice.
    assert_same_values(one, engine(smooth, iter([rows]), sample_weight="w"), X[:50])


def test_models_find_their_columns_among_others():
    X, y = regression_rows()
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    rows = X.assign(target=y, name="text")[["name", "d", "c", "b", "a", "target"]]
    whole = tp.hooker_anova(model, X, **QUIET)
    assert_same_values(whole, tp.hooker_anova(model, batches(rows, 70), **QUIET), X)
    h = tp.h_statistics(model, X, **QUIET)
    streamed = tp.h_statistics(model, batches(rows, 70), **QUIET)
    pd.testing.assert_frame_equal(streamed.pairs(), h.pairs(), rtol=1e-12)
    assert streamed.diagnostics["stream"]["sampled_rows"] == len(X)


def test_h_statistics_say_how_many_rows_were_sampled(monkeypatch):
    monkeypatch.setattr("treepurify.interactions.h_statistics.FEW_SAMPLED_ROWS", 99)
    X, _ = regression_rows()
    h = tp.h_statistics(smooth, batches(X, 70), sample_size=30, **QUIET)
    assert h.measure.endswith("a sample of 99 of 400 rows")


@pytest.mark.libraries
def test_arrays_and_partitions_of_dask():
    frames = pytest.importorskip("dask.dataframe")
    X, _ = regression_rows()

    def of_array(rows):
        return np.asarray(rows)[:, 0] * np.asarray(rows)[:, 1]

    engine = ENGINES["hooker"]
    whole = engine(of_array, X.to_numpy())
    assert_same_values(whole, engine(of_array, batches(X.to_numpy(), 70)), X.to_numpy())
    framed = engine(smooth, frames.from_pandas(X, npartitions=3))
    assert_same_values(engine(smooth, X), framed, X)


def test_values_in_place_of_a_function_are_refused():
    X, y = regression_rows()
    with pytest.raises(tp.errors.InvalidInputError, match="cannot be matched"):
        tp.legendre_anova(y.to_numpy(), batches(X, 70), **QUIET)
