"""Held-out rows in batches: all of them where they are few, else a sample that says so."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import treepurify as tp
from tests.engines.tree.streams import batches, regression_rows
from treepurify.evidence import held_out
from treepurify.rows.resampling import Resampling

QUIET = {"progress": False}


@pytest.fixture(scope="module")
def case():
    """A decomposition, held-out rows with a target, an unknown town at the end, and weights."""
    X, y = regression_rows(1200)
    rng = np.random.default_rng(0)
    X["town"] = pd.Categorical(rng.choice(["here", "there"], 1200), ["here", "there", "beyond"])
    X.loc[1199, "town"] = "beyond"
    X.iloc[-1, 0] = np.nan
    model = HistGradientBoostingRegressor(
        categorical_features="from_dtype", max_depth=2, max_iter=15
    ).fit(X[:400], y[:400])
    d = tp.purify(model, X[:400], weights="empirical", missing_cells="always", **QUIET)
    return d, X[400:], y[400:], rng.integers(0, 4, 800) / 4


CALLS = {
    "effect_worth": {"n_bootstrap": 20, "shapley": True},
    "missed_effects": {"repeats": 2},
    "simplify": {},
}


def frame_of(result):
    return result if isinstance(result, pd.DataFrame) else result.to_frame()


@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.parametrize("size", [1, 333, 5000])
def test_few_rows_are_those_in_memory(case, name, size):
    d, X, y, weight = case
    ask, options = getattr(tp, name), {**CALLS[name], **QUIET}
    if size == 1:
        X, y, weight = X.tail(60), y.tail(60), weight[-60:]
    whole = frame_of(ask(d, X, y, sample_weight=weight, **options))
    source = batches(X.assign(price=y, weight=weight, more="text"), size)
    streamed = frame_of(ask(d, source, "price", sample_weight="weight", **options))
    # Rows without weight are not drawn, which changes neither sums nor their splits by much.
    by_term = [
        frame.sort_values(frame.columns[0], ignore_index=True) for frame in (whole, streamed)
    ]
    if name == "simplify":
        columns = [c for c in whole if c in ("loss", "left_out")]
        pd.testing.assert_frame_equal(*(frame[columns] for frame in by_term), rtol=1e-9)
    elif name == "effect_worth":
        columns = ["term", "worth", "shapley", "variance"]
        pd.testing.assert_frame_equal(*(frame[columns] for frame in by_term), rtol=1e-9, atol=1e-12)
    unweighted = [
        frame_of(ask(d, *rows, **options))
        for rows in ((X, y), (batches(X.assign(price=y), size), "price"))
    ]
    pd.testing.assert_frame_equal(*unweighted, rtol=1e-9, atol=1e-12)


def test_a_sample_says_so_and_does_not_depend_on_batches(case, monkeypatch):
    monkeypatch.setattr(held_out, "HELD_OUT_ROWS", 300)
    d, X, y, _ = case
    rows = X.assign(price=y)
    words = "The rows are a sample of 300 of the 800 rows of the callable, drawn with seed 0."
    loss = {"loss": lambda y, predicted, share: float(share @ np.abs(y - predicted))}
    found = [tp.effect_worth(d, batches(rows, size), "price", **loss, **QUIET) for size in (7, 800)]
    assert found[0].n_rows == 300
    assert words in found[0].notes
    pd.testing.assert_frame_equal(found[0].to_frame(), found[1].to_frame())
    whole = tp.effect_worth(d, X, y, **loss, **QUIET)
    assert np.all(np.abs(found[0].worth - whole.worth) < 6 * found[0].standard_error + 1e-12)
    simple = tp.simplify(d, batches(rows, 90), "price", **QUIET)
    assert words in simple.summary()
    assert tp.missed_effects(d, batches(rows, 90), "price", **QUIET).attrs["rows"] == words


@pytest.mark.parametrize("loss", ["squared_error", ("quantile", 0.8)])
def test_means_over_rows_are_those_of_all_rows(case, monkeypatch, loss):
    monkeypatch.setattr(held_out, "HELD_OUT_ROWS", 300)
    d, X, y, weight = case
    whole = tp.effect_worth(d, X, y, loss=loss, sample_weight=weight, n_bootstrap=400, **QUIET)
    rows = X.assign(price=y, weight=weight)
    asked = {"loss": loss, "sample_weight": "weight", "n_bootstrap": 400, **QUIET}
    found, again = (
        tp.effect_worth(d, batches(rows, size), "price", **asked) for size in (61, 5000)
    )
    assert found.n_rows == 800
    assert "from all 800 rows" in found.notes[0]
    np.testing.assert_allclose(found.worth, whole.worth, rtol=1e-10, atol=1e-13)
    for name in ("model_loss", "intercept_loss"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-12)
    # Rows are drawn by themselves, so that draws are others, and their spread is the same.
    large = whole.standard_error > 0.02 * whole.standard_error.max()
    ratio = found.standard_error[large] / whole.standard_error[large]
    assert ratio.min() > 0.8
    assert ratio.max() < 1.25
    pd.testing.assert_frame_equal(found.to_frame(), again.to_frame(), rtol=1e-9, atol=1e-12)
    # By hand, for one draw.
    times = Resampling(0, 0).times(0, 0, 800) * weight
    once = tp.effect_worth(d, X, y, loss=loss, sample_weight=times, n_bootstrap=0, **QUIET)
    single = tp.effect_worth(d, batches(rows, 61), "price", **{**asked, "n_bootstrap": 1})
    np.testing.assert_allclose(single.low, once.worth, rtol=1e-9, atol=1e-12)


@pytest.mark.libraries
def test_classes_by_position_and_dask_frames(monkeypatch):
    monkeypatch.setattr(held_out, "HELD_OUT_ROWS", 300)
    X, y = regression_rows(900)
    labels = np.array(["no", "maybe", "yes"])[np.digitize(y, [-1, 1])]
    model = HistGradientBoostingClassifier(max_depth=2, max_iter=10).fit(X.to_numpy(), labels)
    d = tp.purify(model, X.to_numpy(), weights="empirical", **QUIET)
    whole = tp.effect_worth(d, X.to_numpy(), labels, n_bootstrap=0, **QUIET)
    rows = X.assign(bought=labels)
    sources = [batches(rows, 100)]
    try:
        import dask.dataframe as dd

        sources.append(dd.from_pandas(rows, npartitions=3))
    except ImportError:
        pass
    for source in sources:
        found = tp.effect_worth(d, source, "bought", n_bootstrap=0, **QUIET)
        assert found.n_rows == 900
        np.testing.assert_allclose(found.worth, whole.worth, rtol=1e-10, atol=1e-13)


def test_an_audit_takes_held_out_rows_in_files(case, tmp_path):
    pytest.importorskip("pyarrow")
    _, X, y, _ = case
    for part in range(2):
        own = slice(400 * part, 400 * part + 400)
        table = X[own].assign(price=y[own], town=X["town"][own].astype(str))
        table.to_parquet(tmp_path / f"{part}.parquet")
    model = HistGradientBoostingRegressor(max_depth=2, max_iter=15).fit(X[list("abcd")], y)
    options = {"n_bootstrap": 0, "measures": [], **QUIET}
    numbers = X[list("abcd")]
    whole = tp.audit(model, numbers, held_out=(numbers, y), **options)
    streamed = tp.audit(model, tmp_path, held_out=(tmp_path / "*.parquet", "price"), **options)
    assert list(whole.to_frame()["term"]) == list(streamed.to_frame()["term"])


@pytest.mark.libraries
def test_dask_frames_and_what_is_refused(case):
    d, X, y, _ = case
    rows = X.assign(price=y)
    with pytest.raises(tp.errors.InvalidInputError, match="pass its name as y"):
        tp.effect_worth(d, batches(rows, 90), y, **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="pass its name as y"):
        tp.effect_worth(d, batches(rows, 90), "cost", **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="read only once"):
        tp.simplify(d, iter([rows]), "price", **QUIET)
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(rows, npartitions=3)
    found = tp.effect_worth(d, frame, "price", n_bootstrap=0, **QUIET)
    truth = tp.effect_worth(d, X, y, n_bootstrap=0, **QUIET)
    pd.testing.assert_frame_equal(found.to_frame(), truth.to_frame(), rtol=1e-9, atol=1e-12)
