"""A scorecard adds up to the log-odds, but for what it says rounding changes."""

import operator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.export.test_ebm import classifier, decomposed, regressor
from treepurify.export import to_scorecard
from treepurify.export.scorecard import PointScale


@pytest.fixture(scope="module")
def d():
    return decomposed(classifier)[2]


@pytest.fixture(scope="module")
def X():
    return decomposed(classifier)[1]


def test_the_scale():
    scale = PointScale(600, 50, 20)
    assert scale.points(np.log(50.0)) == pytest.approx(600)
    assert scale.points(np.log(100.0)) == pytest.approx(620)
    against = PointScale(600, 50, 20, "against")
    assert against.points(-np.log(50.0)) == pytest.approx(600)
    assert against.points(-np.log(100.0)) == pytest.approx(620)
    assert against.log_odds(against.points(1.25)) == pytest.approx(1.25)


@pytest.mark.parametrize("odds", ["for", "against"])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_points_are_log_odds_within_the_rounding(d, X, odds, nonnegative):
    card = to_scorecard(d, odds=odds, nonnegative=nonnegative)
    log_odds = d.predict(X)
    sign = 1 if odds == "for" else -1
    exact = 600 + 20 / np.log(2) * (sign * log_odds - np.log(50))
    off = card.score(X) - exact
    assert np.abs(off).max() == pytest.approx(card.rounding.largest, abs=1e-9)
    assert np.sqrt(np.mean(off**2)) == pytest.approx(card.rounding.typical, abs=1e-9)
    assert card.rounding.largest <= card.rounding.bound <= 0.5 * (1 + len(d))
    moved = np.abs(card.probability(X) - expit(log_odds)).max()
    assert moved == pytest.approx(card.rounding.largest_probability, abs=1e-12)
    for component in card.components.values():
        np.testing.assert_array_equal(component.values, np.round(component.values))
        assert component.values.min() == 0 or not nonnegative
    assert np.all(card.score(X) == np.round(card.score(X)))


def test_more_decimals_leave_less_to_rounding(d, X):
    fine = to_scorecard(d, decimals=6)
    np.testing.assert_allclose(fine.probability(X), expit(d.predict(X)), atol=1e-7)
    assert fine.rounding.bound < 1e-5 < to_scorecard(d).rounding.bound


def holds(attribute, value):
    """Whether a printed interval holds a number, in the precision of that number."""
    read = np.asarray(value).dtype.type
    if attribute[0] in "<>":
        sign, number = attribute[:2].strip(), read(attribute[2:])
        return {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[sign](
            value, number
        )
    if attribute[0] in "[(":
        low, high = map(read, attribute[1:-1].split(","))
        above = value >= low if attribute[0] == "[" else value > low
        return above and (value < high if attribute[-1] == ")" else value <= high)
    return attribute == "all"


def test_printed_cuts_give_the_points_of_the_score():
    """Rows between a cut and its first four digits, in the precision of the model."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(200, 260, 600)).astype(np.float32).astype(np.float64)
    y = np.sin(x) + 0.3 * rng.normal(size=600) > 0
    model = xgboost.XGBClassifier(n_estimators=40, max_depth=1, n_jobs=1).fit(x[:, None], y)
    card = to_scorecard(
        tp.purify(model, x[:, None], weights="empirical", progress=False), decimals=3
    )
    table = card.to_frame().iloc[1:]
    assert len(table) > 10
    points = card.components[0,].on_rows(x[:, None])[:, 0]
    inside = [[holds(word, np.float32(value)) for word in table["attribute"]] for value in x]
    np.testing.assert_array_equal(np.sum(inside, axis=1), 1)
    np.testing.assert_allclose(inside @ table["points"].to_numpy(), points)
    numeric = (x[:, None] >= table["from"].to_numpy()) & (x[:, None] < table["to"].to_numpy())
    np.testing.assert_array_equal(numeric, inside)
    assert max(len(word) for word in table["attribute"]) <= len("[200.12345, 200.12345)")


def test_the_table_scores_rows_by_hand(d, X):
    """Interval by interval, as somebody would who has the printed card only."""
    card = to_scorecard(d)
    table = card.to_frame()
    mains = table[table["characteristic"] == "count"]
    assert mains["share"].sum() == pytest.approx(1.0)
    points = dict(zip(mains["attribute"], mains["points"], strict=True))
    found = card.components[2,].on_rows(X)[:, 0]

    def read(value):
        for attribute, worth in points.items():
            if holds(attribute, value):
                return worth
        raise AssertionError(value)

    assert [read(value) for value in X["count"]] == found.tolist()
    neighbours = mains["points"].to_numpy()
    assert np.all(np.diff(neighbours) != 0)
    assert table["points"].dtype == np.int64


def test_a_workbook(d, tmp_path):
    pytest.importorskip("openpyxl")
    card = to_scorecard(d)
    card.to_excel(tmp_path / "card.xlsx")
    sheets = pd.read_excel(tmp_path / "card.xlsx", sheet_name=None)
    pairs = [c for c in card.components.values() if len(c.axes) == 2]
    assert len(sheets) == 2 + len(pairs)
    assert sheets["scorecard"]["points"].tolist() == card.to_frame()["points"].tolist()
    for pair in pairs:
        name = " & ".join(axis.name for axis in pair.axes)
        np.testing.assert_array_equal(sheets[name].iloc[:, 1:], pair.values[..., 0])
    facts = dict(sheets["facts"].to_numpy())
    assert f"rounding {facts['rounding']}" == str(card.rounding)
    with pytest.raises(tp.errors.InvalidInputError, match=r"ending in \.xlsx"):
        card.to_excel(tmp_path / "card.csv")


def test_a_page(d, tmp_path):
    card = to_scorecard(d)
    text = card.to_html(tmp_path / "card.html")
    assert (tmp_path / "card.html").read_text(encoding="utf-8") == text
    assert card.rounding.in_words() in text
    (of_kind,) = [c for s, c in card.components.items() if s == (1,)]
    for label, points in zip(of_kind.axes[0].labels(), of_kind.values[:, 0], strict=True):
        assert f"<td>{label}</td><td class=points>{points:.0f}</td>" in text


def test_it_describes_itself(d):
    assert to_scorecard(d).rounding.in_words() in repr(to_scorecard(d))
    rows_unknown = replace(d, rows=None)
    card = to_scorecard(rows_unknown)
    assert np.isnan(card.rounding.largest)
    assert "without rows" in str(card.rounding)


def test_a_remainder_is_refused_or_said():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    model = GradientBoostingClassifier(max_depth=3, n_estimators=10, random_state=0)
    d = tp.purify(model.fit(X, X.prod(axis=1) > 0), X, weights="empirical", order=1, progress=False)
    with pytest.raises(tp.errors.UnsupportedModelError, match="a scorecard cannot contain"):
        to_scorecard(d)
    with pytest.warns(tp.errors.RemainderWarning, match="predictions change by"):
        card = to_scorecard(d, remainder="drop")
    assert "predictions change by" in dict(card.facts())["without the remainder"]


def test_what_a_scorecard_cannot_hold(d):
    with pytest.raises(tp.errors.UnsupportedModelError, match="log-odds of two classes"):
        to_scorecard(decomposed(regressor)[2])
    X = np.random.default_rng(0).normal(size=(50, 3))
    three = tp.purify_tensors({(0, 1, 2): np.arange(8.0).reshape(2, 2, 2)}, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match=r"features only; .* has 3"):
        to_scorecard(replace(three, link=d.link))
    constant = GradientBoostingRegressor(n_estimators=1).fit(X, np.ones(50))
    card = to_scorecard(
        replace(tp.purify(constant, X, weights="empirical", progress=False), link=d.link)
    )
    with pytest.raises(tp.errors.InvalidInputError, match="no effects"):
        card.score(X)
    for name, value in (("base_odds", 0), ("points_to_double", -1), ("decimals", 9), ("odds", 3)):
        with pytest.raises(tp.errors.InvalidInputError, match=f"{name} must be"):
            to_scorecard(d, **{name: value})
