"""Drift against means, distances and losses that are computed from their definitions."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wasserstein_distance
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import log_loss

import treepurify as tp
from tests.validation.cases import KINDS, TIED, rows, tied_rows
from treepurify.errors import InvalidInputError
from treepurify.validation.drift import level_shift, number_shift


def shift_of(before, after):
    return number_shift(before, after, np.ones(len(before)), np.ones(len(after)))


@pytest.fixture(scope="module")
def binary():
    X, _, y = rows(700)
    model = GradientBoostingClassifier(max_depth=2, n_estimators=20, random_state=0).fit(X, y)
    later = X[300:].assign(a=X["a"][300:] + 0.5)
    d = tp.purify(model, X, progress=False)
    return d, model, (X[:300], later), (y[:300], y[300:])


@pytest.mark.parametrize("kind", TIED, ids=lambda kind: kind.__name__)
def test_bins_do_not_part_equal_predictions(kind):
    X, _, y = tied_rows(800)
    before, after = X[:400], X[400:]
    model, response = kind(before, y[:400])
    d = tp.purify(model, before, progress=False)
    # The library adds leaves up in another order where other leaves have the same sum.
    predicted = [np.round(np.float64(response(rows)), 9) for rows in (before, after)]
    found = tp.drift(d, before, after, progress=False)
    expected = shift_of(*predicted)
    assert found.scores[0].psi == pytest.approx(expected.psi, rel=1e-9)
    assert found.scores[0].psi_limit == expected.psi_limit


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_effects_sum_to_the_difference_of_mean_margins(kind):
    X, _, y = rows()
    model, margin, tolerance = kind(X, y)
    before, after = X[:250], X[250:].assign(a=X["a"][250:] + 0.4)
    weights = np.random.default_rng(1).uniform(size=len(after))
    d = tp.purify(model, X, progress=False)
    found = tp.drift(d, before, after, weight_after=weights, progress=False)
    total = found.to_frame()["difference"].sum()
    for predict, off in ((d.predict, 1e-12), (margin, tolerance)):
        expected = np.average(predict(after), weights=weights) - predict(before).mean()
        assert total == pytest.approx(expected, abs=off)
    remainder = [s for s in found.differences.subsets if not s]
    assert len(remainder) == (d.remainder is not None)


def test_distances_are_those_of_scipy(binary):
    d, _, (before, after), _ = binary
    found = tp.drift(d, before, after, progress=False)
    margins = d.predict(before), d.predict(after)
    assert found.scores[0].wasserstein == pytest.approx(wasserstein_distance(*margins))
    features = found.features_frame().set_index("feature")
    for name in features.index:
        expected = wasserstein_distance(before[name], after[name])
        assert features.loc[name, "wasserstein"] == pytest.approx(expected)
    terms = found.to_frame().set_index("term")
    expected = wasserstein_distance(d["a"].evaluate(before), d["a"].evaluate(after))
    assert terms.loc["a", "wasserstein"] == pytest.approx(expected)
    assert features["psi"].idxmax() == "a"


def test_the_stability_index_is_its_sum_over_bins():
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=4000), rng.normal(0.3, 1.2, size=3000)
    edges = np.quantile(before, np.arange(1, 10) / 10, method="inverted_cdf")
    b, a = (
        np.histogram(values, [-np.inf, *edges, np.inf])[0] / len(values)
        for values in (before, after)
    )
    # A half row more in each bin changes little here.
    expected = ((a - b) * np.log(a / b)).sum()
    found = shift_of(before, after)
    assert found.psi == pytest.approx(expected, rel=0.01)
    tripled = number_shift(before, after, np.full(4000, 3.0), np.ones(3000))
    assert tripled.psi == pytest.approx(found.psi)


def test_the_limit_is_exceeded_by_one_in_twenty_without_drift():
    rng = np.random.default_rng(1)
    clear = 0
    for _ in range(600):
        before, after = rng.normal(size=800), rng.normal(size=500)
        found = shift_of(before, after)
        clear += found.psi > found.psi_limit
    assert 0.03 < clear / 600 < 0.075


def test_a_value_that_many_rows_share_is_a_bin_of_its_own():
    before = np.concatenate([np.zeros(900), np.arange(1.0, 101.0)])
    after = np.concatenate([np.zeros(500), np.arange(1.0, 501.0)])
    assert shift_of(before, after).psi > 0.5
    missing = shift_of(before, np.where(after > 0, np.nan, after))
    assert missing.psi > 1
    assert level_shift(np.array([0, 0]), np.array([1, 1]), np.ones(2), np.ones(2)).psi < np.inf


def test_new_values_and_levels_are_counted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.uniform(size=400), "town": rng.choice(["a", "b", "c"], 400)})
    X["town"] = X["town"].astype("category")
    y = X["size"] + (X["town"] == "b")
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(
        n_estimators=10, max_depth=2, enable_categorical=True, n_jobs=1
    ).fit(X, y)
    d = tp.purify(model, X, missing_cells="always", progress=False)
    before = X[X["town"] != "c"]
    after = X.copy()
    after.loc[:9, "size"] = 7.0
    after.loc[10:14, "size"] = np.nan
    found = tp.drift(d, before, after, progress=False)
    features = found.features_frame().set_index("feature")
    assert features.loc["town", "new_levels"] == pytest.approx((X["town"] == "c").mean())
    assert features.loc["town", "new_level_names"] == "c"
    assert features.loc["size", "above"] >= 10 / 400
    assert features.loc["size", "missing_after"] == pytest.approx(5 / 400)
    assert "labels that did not occur before (c)" in repr(found)


def test_losses_are_those_of_both_periods(binary):
    d, model, (before, after), (y_before, y_after) = binary
    found = tp.drift(d, before, after, y_before, y_after, progress=False)
    expected = [
        log_loss(y, model.predict_proba(X)[:, 1]) for X, y in ((before, y_before), (after, y_after))
    ]
    np.testing.assert_allclose([found.loss.before, found.loss.after], expected)
    assert found.loss.name == "log_loss"
    assert found.loss.rise.low < expected[1] - expected[0] < found.loss.rise.high


def test_what_cannot_be_compared_is_refused(binary):
    d, _, (before, after), (y_before, y_after) = binary
    with pytest.raises(InvalidInputError, match="both y_before and y_after"):
        tp.drift(d, before, after, y_before)
    with pytest.raises(InvalidInputError, match="a mean over rows, which"):
        tp.drift(d, before, after, y_before, y_after, loss="auc", progress=False)
    with pytest.raises(InvalidInputError, match="no rows"):
        tp.drift(d, before, after[:0], progress=False)
