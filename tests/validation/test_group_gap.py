"""Gaps between groups against means and rates that are computed from their definitions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)

import treepurify as tp
from tests.validation.cases import KINDS, TIED, rows, tied_rows
from treepurify.errors import InvalidInputError
from treepurify.spread import one_more_training


@pytest.fixture(scope="module")
def binary():
    X, group, y = rows()
    model = GradientBoostingClassifier(max_depth=2, n_estimators=20, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    return d, model, X, group, y


def difference(values, group, weights=None):
    """The mean of the group "old" less that of "new", by definition."""
    weights = np.ones(len(values)) if weights is None else weights
    new, old = (
        np.average(values[group == name], axis=0, weights=weights[group == name])
        for name in ("new", "old")
    )
    return old - new


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_effects_sum_to_the_difference_of_mean_margins(kind):
    X, group, y = rows()
    model, margin, tolerance = kind(X, y)
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    d = tp.purify(model, X, progress=False)
    gap = tp.group_gap(d, X, group, sample_weight=weights, progress=False)
    total = gap.to_frame()["difference"].sum()
    assert total == pytest.approx(difference(d.predict(X), group, weights), abs=1e-12)
    assert total == pytest.approx(difference(margin(X), group, weights), abs=tolerance)
    for place, subset in enumerate(gap.differences.subsets):
        effect = d[subset] if subset else d.remainder
        expected = difference(effect.evaluate(X), group, weights)
        assert gap.differences.effects.value[place, 0] == pytest.approx(expected, abs=1e-12)


def test_several_outputs_have_each_their_own_sum():
    X, group, y = rows()
    classes = y + (X["b"].to_numpy() > 1)
    model = GradientBoostingClassifier(max_depth=2, n_estimators=5, random_state=0)
    d = tp.purify(model.fit(X, classes), X, progress=False)
    gap = tp.group_gap(d, X, group, classes, threshold=0.4, output=2, progress=False)
    frame = gap.to_frame()
    sums = frame.groupby("output", sort=False)["difference"].sum().to_numpy()
    np.testing.assert_allclose(sums, difference(d.predict(X), group), atol=1e-12)
    predicted = model.predict_proba(X)[:, 2] >= 0.4
    assert gap.rates.difference.value == pytest.approx(difference(predicted, group))
    rate = [predicted[(group == name) & (classes == 2)].mean() for name in gap.groups]
    np.testing.assert_allclose(gap.rates.true_positive, rate)


def test_the_group_may_be_a_column_that_the_model_does_not_have(binary):
    d, _, X, group, y = binary
    table = X.assign(sex=group, target=y)[["sex", "d", "c", "b", "a", "target"]]
    named = tp.group_gap(d, table, "sex", "target", threshold=0.5, progress=False)
    given = tp.group_gap(d, X, group, y, threshold=0.5, progress=False)
    pd.testing.assert_frame_equal(named.to_frame(), given.to_frame())
    pd.testing.assert_frame_equal(named.rates.to_frame(), given.rates.to_frame())
    turned = tp.group_gap(
        d, X, pd.Categorical(group).set_categories(["old", "new"]), progress=False
    )
    np.testing.assert_allclose(
        turned.differences.total.value, -given.differences.total.value, atol=1e-12
    )
    above = X["a"] >= 0.25
    cut = tp.group_gap(d, X, above, progress=False)
    p = d.predict(X)
    assert cut.differences.total.value[0] == pytest.approx(p[above].mean() - p[~above].mean())


def test_intervals_have_the_width_of_two_independent_samples(binary):
    d, _, X, group, _ = binary
    gap = tp.group_gap(d, X, group, progress=False)
    found = gap.differences
    for place, subset in enumerate(found.subsets):
        values = d[subset].evaluate(X)
        error = np.sqrt(
            sum(values[group == name].var() / (group == name).sum() for name in ("new", "old"))
        )
        assert found.effects.standard_error[place, 0] == pytest.approx(error, rel=0.2)
    half = (found.total.high - found.total.low) / 2
    assert half[0] == pytest.approx(1.96 * found.total.standard_error[0], rel=0.15)


def test_rates_are_those_of_the_predictions(binary):
    d, model, X, group, y = binary
    gap = tp.group_gap(d, X, group, y, threshold=0.4, progress=False)
    predicted = model.predict_proba(X)[:, 1] >= 0.4
    for rates, chosen in (
        (gap.rates.approval, np.ones(len(y), dtype=bool)),
        (gap.rates.true_positive, y == 1),
        (gap.rates.false_positive, y == 0),
    ):
        expected = [predicted[(group == name) & chosen].mean() for name in gap.groups]
        np.testing.assert_allclose(rates, expected, rtol=1e-12)
    assert gap.rates.ratio.value == pytest.approx(gap.rates.approval[1] / gap.rates.approval[0])
    assert gap.rates.ratio.low < gap.rates.ratio.value < gap.rates.ratio.high


def most_common(response):
    """The prediction that most rows share, of those above the middle."""
    values, counts = np.unique(response[response > np.median(response)], return_counts=True)
    return float(values[np.argmax(counts)])


@pytest.mark.parametrize("kind", TIED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("adverse", ["low", "high"])
def test_predictions_that_equal_the_threshold_reach_it(kind, adverse):
    X, group, y = tied_rows()
    model, predict = kind(X, y)
    response = predict(X)
    threshold = most_common(response)
    assert (response == threshold).sum() > 5
    d = tp.purify(model, X, progress=False)
    gap = tp.group_gap(d, X, group, y > 2, threshold=threshold, adverse=adverse, progress=False)
    predicted = response >= threshold
    approved = predicted == (adverse == "low")
    expected = [approved[group == name].mean() for name in gap.groups]
    np.testing.assert_allclose(gap.rates.approval, expected, rtol=1e-12)
    expected = [predicted[(group == name) & (y > 2)].mean() for name in gap.groups]
    np.testing.assert_allclose(gap.rates.true_positive, expected, rtol=1e-12)


def test_ties_of_one_class_of_several_reach_the_threshold():
    X, group, y = tied_rows()
    model = RandomForestClassifier(10, random_state=0).fit(X, np.clip(y, 0, 2))
    response = model.predict_proba(X)[:, 2]
    threshold = most_common(response)
    d = tp.purify(model, X, progress=False)
    gap = tp.group_gap(d, X, group, output=2, threshold=threshold, progress=False)
    expected = [(response >= threshold)[group == name].mean() for name in gap.groups]
    np.testing.assert_allclose(gap.rates.approval, expected, rtol=1e-12)


def test_trainings_have_the_differences_of_each_model():
    X, group, _ = rows(300)
    y = X["a"] + X["b"] * X["c"]
    models = tp.refit(
        GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0), X, y, n=4,
        progress=False,
    )  # fmt: skip
    d = tp.purify(models, X, weights="empirical", progress=False)
    found = tp.group_gap(d, X, group, progress=False).differences
    of_models = np.array([difference(model.predict(X), group) for model in models])
    np.testing.assert_allclose(found.trainings.sum(axis=1)[:, 0], of_models)
    frame = found.to_frame().set_index("term")
    low, high = one_more_training(found.trainings[:, found.subsets.index((0,)), 0], 0.95)
    assert tuple(frame.loc["a", ["training_low", "training_high"]]) == pytest.approx(
        (float(low), float(high))
    )


def test_what_cannot_be_compared_is_refused(binary):
    d, _, X, group, _ = binary
    three = np.where(np.arange(len(X)) < 5, "other", group)
    with pytest.raises(InvalidInputError, match=r"two labels; it has new \(\d+ rows\).*keep two"):
        tp.group_gap(d, X, three)
    named = tp.group_gap(d, X, pd.Categorical(three).set_categories(["old", "new"]), progress=False)
    assert sum(named.differences.n_rows) == len(X) - 5
    with pytest.raises(InvalidInputError, match="two labels; it has old"):
        tp.group_gap(d, X, pd.Categorical(three).set_categories(["old", "no"]))
    with pytest.raises(InvalidInputError, match="X has no column 'sex'"):
        tp.group_gap(d, X, "sex")
    with pytest.raises(InvalidInputError, match="one value per row"):
        tp.group_gap(d, X, group[:-1])
    with pytest.raises(InvalidInputError, match="y is only used for rates at a threshold"):
        tp.group_gap(d, X, group, group == "new")
    with pytest.raises(InvalidInputError, match="the group 'old' has no rows of positive weight"):
        tp.group_gap(d, X, group, sample_weight=(group == "new") * 1.0)
    assert "does not say why" in repr(tp.group_gap(d, X, group, progress=False))
