"""Weak spots against plain means, planted noise, and rows without any."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.validation.cases import KINDS, rows
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.rows.resampling import row_parts


def halves(n_rows, seed=0):
    parts = row_parts(seed, 2, n_rows)
    return parts == 0, parts == 1


def check_means(found, X, losses, weights=None):
    """Compare every number of the table with plain means over the rows of each slice."""
    weights = np.ones(len(X)) if weights is None else weights
    frame = found.to_frame()
    for half, column in zip(halves(len(X)), ("search_excess", "excess"), strict=True):
        mean = np.average(losses[half], weights=weights[half])
        for number, row in frame.iterrows():
            inside = found.rows_in(number, X) & half
            expected = np.average(losses[inside], weights=weights[inside])
            assert row[column] == pytest.approx(expected - mean, abs=1e-12)
    assert found.mean_loss == pytest.approx(mean, abs=1e-12)
    assert frame["loss"].iloc[-1] == pytest.approx(expected, abs=1e-12)
    share = weights[inside].sum() / weights[half].sum()
    assert frame["share"].iloc[-1] == pytest.approx(share, abs=1e-12)
    assert frame["n_rows"].iloc[-1] == (inside & (weights > 0)).sum()


@pytest.fixture(scope="module")
def noisy():
    """A model whose errors are four times as large where b > 1 and c < 0."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(9000, 5)), columns=list("abcde"))
    y = X["a"] + X["b"] * X["c"]
    model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X[:1000], y[:1000])
    d = tp.purify(model, X[:1000], progress=False)
    X = X[1000:].reset_index(drop=True)
    is_weak = (X["b"] > 1) & (X["c"] < 0)
    y = d.predict(X) + rng.normal(size=len(X)) * np.where(is_weak, 4.0, 1.0)
    return d, X, y, is_weak.to_numpy()


def test_a_planted_region_is_found_and_confirmed(noisy):
    d, X, y, is_weak = noisy
    found = tp.weak_spots(d, X, y, progress=False)
    check_means(found, X, (y - d.predict(X)) ** 2)
    first = found.spots[0]
    assert first.is_confirmed
    assert {side.axis.name for side in first.sides} == {"b", "c"}
    inside = found.rows_in(0, X)
    assert (inside & is_weak).sum() / (inside | is_weak).sum() > 0.7
    assert first.low < 15.0 * (1 - is_weak.mean()) < first.high + 3.0
    assert first.words() in repr(found)
    assert sum(spot.is_confirmed for spot in found.spots) <= 2
    one = tp.weak_spots(d, X, y, order=1, progress=False)
    assert set(one.to_frame()["order"]) == {1}
    assert one.spots[0].sides[0].axis.name == "b"


def test_results_repeat_and_other_seeds_have_other_halves(noisy):
    d, X, y, _ = noisy
    frames = [
        tp.weak_spots(d, X, y, seed=seed, n_spots=3, progress=False).to_frame()
        for seed in (0, 0, 1)
    ]
    pd.testing.assert_frame_equal(frames[0], frames[1])
    assert not frames[0].equals(frames[2])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_losses_are_those_of_the_models_of_other_libraries(kind):
    X, _, y = rows(900)
    model, margin, tolerance = kind(X, y)
    d = tp.purify(model, X, progress=False)
    weights = np.random.default_rng(0).integers(0, 3, size=len(X)).astype(float)
    target = np.random.default_rng(1).integers(0, 2, size=len(X))
    found = tp.weak_spots(
        d, X, target, sample_weight=weights, min_share=0.1, n_spots=4, progress=False
    )
    score = margin(X)
    is_logit = d.link.name == "logit"
    losses = np.logaddexp(0, score) - target * score if is_logit else (target - score) ** 2
    test = halves(len(X))[1]
    expected = np.average(losses[test], weights=weights[test])
    assert found.mean_loss == pytest.approx(expected, abs=10 * tolerance)
    exact = d.predict(X)
    losses = np.logaddexp(0, exact) - target * exact if is_logit else (target - exact) ** 2
    check_means(found, X, losses, weights)


def test_classes_and_the_deviance():
    X, _, _ = rows(900)
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, size=len(X))
    model = GradientBoostingClassifier(max_depth=2, n_estimators=5, random_state=0).fit(X, classes)
    d = tp.purify(model, X, progress=False)
    found = tp.weak_spots(d, X, classes, min_share=0.15, progress=False)
    assert found.loss == "log_loss"
    probability = model.predict_proba(X)[np.arange(len(X)), classes]
    check_means(found, X, -np.log(probability))
    xgboost = pytest.importorskip("xgboost")
    counts = rng.poisson(np.exp(X["a"]))
    model = xgboost.XGBRegressor(objective="count:poisson", n_estimators=20, max_depth=2, n_jobs=1)
    d = tp.purify(model.fit(X, counts), X, progress=False)
    found = tp.weak_spots(d, X, counts, min_share=0.15, n_spots=3, progress=False)
    mean = np.exp(d.predict(X))
    losses = 2 * (np.where(counts > 0, counts * np.log(np.maximum(counts, 1) / mean), 0))
    check_means(found, X, losses - 2 * (counts - mean))


def test_missing_values_and_unseen_categories_are_slices():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.uniform(size=6000), "town": rng.choice(list("abc"), 6000)})
    X["town"] = X["town"].astype("category")
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=2, enable_categorical=True, n_jobs=1)
    model.fit(X, X["size"] + (X["town"] == "b"))
    d = tp.purify(model, X, missing_cells="always", progress=False)
    y = d.predict(X)
    later = X.astype({"town": str})
    later.loc[::7, "size"] = np.nan
    later.loc[::5, "town"] = "new"
    bad = later["size"].isna() | (later["town"] == "new")
    noise = rng.normal(size=len(X)) * np.where(bad, 3.0, 0.5)
    found = tp.weak_spots(d, later, y + noise, progress=False)
    frame = found.to_frame()
    assert set(frame[frame["is_confirmed"]]["slice"]) >= {
        "size missing",
        "town = any unseen category",
    }
    check_means(found, later, (y + noise - d.predict(later)) ** 2)


def test_next_to_nothing_is_confirmed_where_there_is_nothing(noisy):
    """Of 200 data sets 2.5% would have a false one; 11 or more have a chance of one per cent."""
    d, X, _, _ = noisy
    margin = d.predict(X)
    found = below = tested = 0
    for repeat in range(200):
        rng = np.random.default_rng(repeat)
        own = rng.choice(len(X), 1200, replace=False)
        y = margin[own] + rng.normal(size=len(own))
        spots = tp.weak_spots(d, X.iloc[own], y, n_spots=5, min_share=0.05, progress=False).spots
        found += any(spot.is_confirmed for spot in spots)
        below += sum(spot.high < 0 for spot in spots)
        tested += len(spots)
    assert found <= 10
    assert tested > 500
    assert below < 0.02 * tested


def test_more_slices_have_wider_intervals(noisy):
    d, X, y, _ = noisy
    one, many = (tp.weak_spots(d, X, y, n_spots=n, progress=False).spots[0] for n in (1, 20))
    assert one.words() == many.words()
    assert many.low < one.low < one.excess < one.high < many.high


def test_what_cannot_be_used_is_refused(noisy):
    d, X, y, _ = noisy
    with pytest.raises(InvalidInputError, match="a mean over rows, which"):
        tp.weak_spots(d, X, (y > 0).astype(int), loss="auc")
    with pytest.raises(InvalidInputError, match="from 1 to 2"):
        tp.weak_spots(d, X, y, order=3)
    with pytest.raises(InvalidInputError, match="one half of the rows"):
        tp.weak_spots(d, X[:100], y[:100])
    with pytest.raises(MemoryBudgetError):
        tp.weak_spots(d, X, y, memory_budget=100_000)
    same = tp.weak_spots(d, X, d.predict(X), progress=False)
    assert not same.spots
    assert "0 of 0" in same.summary()[1]
    with pytest.raises(InvalidInputError, match="no slice"):
        same.rows_in(0, X)
    with pytest.raises(InvalidInputError, match="from 0 to"):
        tp.weak_spots(d, X, y, n_spots=1, progress=False).rows_in(1, X)
