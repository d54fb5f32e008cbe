"""Rows in Dask frames: the same answers, from partitions that stay where they are."""

import os
import signal
import sys

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.engines.tree.streams import regression_rows, shallow_model
from tests.engines.tree.test_streams import assert_same, categorical_model, deep_model

dd = pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

QUIET = {"progress": False}
# Dask and its servers warn of what they do themselves.
pytestmark = [pytest.mark.libraries, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def client():
    """Two processes."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(**options, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("npartitions", [1, 2, 7])
def test_frames_without_a_client(npartitions):
    model, X = shallow_model()
    whole = tp.purify(model, X, weights="empirical", **QUIET)
    frame = dd.from_pandas(X.assign(target=0.0), npartitions=npartitions)
    d = tp.purify(model, frame, weights="empirical", **QUIET)
    assert_same(whole, d)
    for subset, covariance in whole.covariances.items():
        np.testing.assert_allclose(d.covariances[subset], covariance, atol=1e-12)
    np.testing.assert_allclose(d.r_squared(frame), 1.0)
    assert d.verify(model, frame).n_rows == len(X)


def test_arrays():
    array = pytest.importorskip("dask.array")
    X, y = regression_rows()
    model, _ = shallow_model()
    model.fit(X.to_numpy(), y)
    chunked = array.from_array(X.to_numpy(), chunks=(90, 2))
    d = tp.purify(model, chunked, weights="empirical", **QUIET)
    assert_same(tp.purify(model, X.to_numpy(), weights="empirical", **QUIET), d)
    found = d.predict(chunked).compute().to_numpy()[:, 0]
    np.testing.assert_allclose(found, d.predict(X.to_numpy()))


def test_a_cluster_gives_the_same(client):
    model, X = shallow_model()
    weight = np.random.default_rng(0).integers(0, 4, len(X)) / 4
    frame = dd.from_pandas(X.assign(weight=weight), npartitions=5)
    whole = tp.purify(model, X, weights="empirical", sample_weight=weight, **QUIET)
    assert_same(
        whole, tp.purify(model, frame, weights="empirical", sample_weight="weight", **QUIET)
    )
    assert client.nthreads()


def test_a_sample_does_not_depend_on_the_workers(client):
    model, X = deep_model()
    frame = dd.from_pandas(X, npartitions=4)
    few = tp.options.TreeProjection(sample_rows=500)
    with dask.config.set(scheduler="synchronous"):
        alone = tp.purify(model, frame, weights="empirical", method=few, **QUIET)
    assert_same(alone, tp.purify(model, frame, weights="empirical", method=few, **QUIET), 1e-12)
    assert alone.diagnostics["stream"]["sampled_rows"] == 500
    assert client.nthreads()


def test_predictions_are_lazy_frames():
    model, X = shallow_model()
    d = tp.purify(model, X, weights="empirical", **QUIET)
    frame = dd.from_pandas(X, npartitions=3)
    values = d.predict(frame)
    assert isinstance(values, dd.DataFrame)
    assert values.divisions == frame.divisions
    found = values.compute()
    expected = pd.DataFrame(d.predict(X), columns=list(d.output_names))
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12)


def test_predictions_of_several_outputs_have_one_name_a_column():
    model, X = shallow_model()
    _, y = regression_rows()
    pytest.importorskip("xgboost")
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(X, np.digitize(y, [-1, 1]))
    d = tp.purify(model, X, weights="empirical", **QUIET)
    found = d.predict(dd.from_pandas(X, npartitions=3)).compute()
    np.testing.assert_allclose(found.to_numpy(), d.predict(X))
    assert list(found.columns) == list(d.output_names)


def test_partitions_without_rows_and_of_missing_values_only():
    model, X = shallow_model()
    X.iloc[100:200] = np.nan
    parts = [X[:0], X[:100], X[100:200], X[200:]]
    frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=X[:0])
    whole = tp.purify(model, X, weights="empirical", **QUIET)
    assert_same(whole, tp.purify(model, frame, weights="empirical", **QUIET))
    text = [*parts[:3], X[200:].assign(b="two")]
    mixed = dd.from_delayed([dask.delayed(part) for part in text], meta=X[:0], verify_meta=False)
    with pytest.raises(tp.errors.InvalidInputError, match="partition 3: feature 'b' is numeric"):
        tp.purify(model, mixed, weights="empirical", **QUIET)


def _dies_once(part, marker):
    """Give a partition; the first worker that is asked for it dies."""
    if not os.path.exists(marker):  # noqa: PTH110
        with open(marker, "w") as file:  # noqa: PTH123
            file.write(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_model_is_purified_though_a_worker_dies(client, tmp_path):
    model, X = deep_model()
    parts = [dask.delayed(X[i::4]) for i in range(4)]
    marker = str(tmp_path / "killed")
    dying = [*parts[:3], dask.delayed(_dies_once)(parts[3], marker)]
    options = {"method": tp.options.TreeProjection(sample_rows=900), **QUIET}
    with dask.config.set(scheduler="synchronous"):
        alone = tp.purify(
            model, dd.from_delayed(parts, meta=X[:0]), **{"weights": "empirical", **options}
        )
    frame = dd.from_delayed(dying, meta=X[:0], verify_meta=False)
    found = tp.purify(model, frame, **{"weights": "empirical", **options})
    assert (tmp_path / "killed").exists()
    assert_same(alone, found, 1e-12)
    np.testing.assert_allclose(found.predict(X), alone.predict(X), atol=1e-12)
    assert client.nthreads()


def test_a_category_that_only_the_last_partition_has():
    model, X = categorical_model()
    parsed = tp.parse_model(model)
    text = X.assign(town=X["town"].astype(object).where(X.index < 590, "Oslo"))
    parts = [dask.delayed(text[start : start + 150]) for start in range(0, 600, 150)]
    frame = dd.from_delayed(parts, meta=text[:0], verify_meta=False)
    whole = tp.purify(parsed, text, weights="empirical", **QUIET)
    assert whole["town"].axes[0].has_other
    assert_same(whole, tp.purify(parsed, frame, weights="empirical", **QUIET))
    only_unknown = text.assign(town="Oslo")
    frame = dd.from_delayed([dask.delayed(only_unknown)], meta=text[:0], verify_meta=False)
    with pytest.raises(
        tp.errors.InvalidInputError, match="none of the values in the column of feature 'town'"
    ):
        tp.purify(parsed, frame, weights="empirical", **QUIET)


def test_draws_belong_to_the_place_of_a_row(tmp_path):
    model, X = shallow_model()
    for number in range(3):
        X[number * 140 : number * 140 + 140].to_parquet(tmp_path / f"part{number}.parquet")
    options = {"n_bootstrap": 2, "measures": [], **QUIET}
    files = tp.audit(model, tmp_path, **options)
    frame = tp.audit(model, dd.read_parquet(tmp_path), **options)
    assert files.spread.keys() == frame.spread.keys()
    for subset, spread in files.spread.items():
        np.testing.assert_allclose(frame.spread[subset], spread, atol=1e-13)


def test_models_of_dask_are_read_as_they_are(client):
    xgboost = pytest.importorskip("xgboost")
    lightgbm = pytest.importorskip("lightgbm")
    from xgboost import dask as xgboost_dask

    X, y = regression_rows(2000)
    frame = dd.from_pandas(X.assign(y=y), npartitions=2).persist()
    rows, target = frame[list("abcd")], frame["y"]
    trained = xgboost_dask.train(
        client, {"max_depth": 2}, xgboost_dask.DaskDMatrix(client, rows, target), num_boost_round=5
    )
    assert_same(
        tp.purify(trained["booster"], X, weights="empirical", **QUIET),
        tp.purify(trained, rows, weights="empirical", **QUIET),
    )
    model = xgboost_dask.DaskXGBRegressor(n_estimators=5, max_depth=2)
    model.client = client
    model.fit(rows, target)
    alone = xgboost.XGBRegressor()
    alone.load_model(model.get_booster().save_raw("json"))
    assert_same(
        tp.purify(alone, X, weights="empirical", **QUIET),
        tp.purify(model, rows, weights="empirical", **QUIET),
    )
    model = lightgbm.DaskLGBMRegressor(n_estimators=5, max_depth=2, verbose=-1, client=client)
    model.fit(rows, target)
    assert_same(
        tp.purify(model.booster_, X, weights="empirical", **QUIET),
        tp.purify(model, rows, weights="empirical", **QUIET),
    )


def test_what_is_not_two_dimensional_is_refused():
    array = pytest.importorskip("dask.array")
    model, _ = shallow_model()
    with pytest.raises(tp.errors.InvalidInputError, match="two dimensions"):
        tp.purify(model, array.zeros(3), weights="empirical", **QUIET)


def test_a_frame_without_rows_is_refused():
    model, X = shallow_model()
    with pytest.raises(tp.errors.InvalidInputError, match="the Dask frame has no rows"):
        tp.purify(model, dd.from_pandas(X[:0], npartitions=1), weights="empirical", **QUIET)
