"""Interactions that carry variance without helping held-out predictions are found."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.report.pages import Page, number
from treepurify.auditing.changes import worthless_effects
from treepurify.auditing.ranked_findings import Audit
from treepurify.comparing.apparent import model_variance
from treepurify.errors import InvalidInputError
from treepurify.terms import in_digits


def worthless(worth):
    """Return the effects without worth from a thousandth of the variance on."""
    d = worth.decomposition
    return [*worthless_effects(Audit(d, worth=worth, threshold=0.001), model_variance(d))]


@pytest.fixture(scope="module")
def noise():
    """A model of few rows, whose interaction of the last two features is noise."""
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(2000, 4)) * 1.0
    y = X[:, 0] + X[:, 0] * X[:, 1] + 4 * rng.normal(size=2000)
    model = GradientBoostingRegressor(max_depth=2, n_estimators=300, random_state=0)
    return model.fit(X[:150], y[:150]), X[:150], X[150:], y[150:]


def test_an_interaction_without_worth_is_a_finding(noise):
    model, X, X_test, y_test = noise
    found = tp.audit(
        model, X, held_out=(X_test, y_test), n_bootstrap=0, measures=[], progress=False
    )
    (finding,) = (f for f in found.findings if f.kind == "no worth")
    assert (2, 3) in finding.effects
    assert (0, 1) not in finding.effects
    worth = found.worth.of(finding.subset)
    assert finding.numbers["worth"] == worth["worth"]
    assert f"changes by {in_digits(worth['worth'], 2, sign=True)}" in finding.sentence
    shares = [found.decomposition.components[s].variance[0] for s in finding.effects]
    assert shares == sorted(shares, reverse=True)
    assert finding.severity >= 0.01
    assert "1850 held-out rows" in finding.sentence


def test_a_main_effect_without_worth_is_a_finding_too(noise):
    model, X, X_test, y_test = noise
    d = tp.purify(model, X, progress=False)
    worth = tp.effect_worth(d, X_test, y_test, n_bootstrap=0, absorb=False, progress=False)
    shares = {s: float(c.variance[0]) / d.predict(X).var() for s, c in d.components.items()}
    expected = {
        s
        for s, value in zip(worth.subsets, worth.worth, strict=True)
        if value <= 0 and shares[s] >= 0.001
    }
    assert {finding.subset for finding in worthless(worth)} == expected
    assert any(len(s) == 1 for s in expected)


def test_harmful_effects_are_not_cut_off(noise, tmp_path):
    model, X, X_test, y_test = noise
    d = tp.purify(model, X, progress=False)
    worth = tp.effect_worth(d, X_test, y_test, n_bootstrap=0, absorb=False, progress=False)
    frame = worth.to_frame()
    assert frame["worth"].iloc[-1] < 0
    assert any(f" {frame['term'].iloc[-1]}, " in line for line in worth.summary(4))
    first, last, between = worth.ends(4)
    assert [*first["term"], *last["term"]] == [*frame["term"].head(2), *frame["term"].tail(2)]
    assert between.startswith(
        f"{len(frame) - 4} more, with a worth of {frame['worth'].iloc[2]:.3g} to "
    )
    assert worth.ends(len(frame))[2] == ""


def test_the_report_lists_every_effect_with_its_worth(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 9))
    y = X[:, 0] + 2 * rng.normal(size=300)
    model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X[:150], y[:150])
    d = tp.purify(model, X[:150], progress=False)
    worth = tp.effect_worth(d, X[150:], y[150:], n_bootstrap=0, absorb=False, progress=False)
    assert len(worth.subsets) > 31
    assert worth.worth.min() < 0
    path = tmp_path / "page.html"
    page = Page(tp.report.write_html(d, path, top=0, worth=worth, progress=False))
    shown = {row[0]: number(row[1]) for row in page.rows("Worth on held-out rows")}
    for row in worth.to_frame().to_dict("records"):
        assert shown[row["term"]] == pytest.approx(row["worth"], rel=1e-3, abs=1e-9)


def test_findings_without_intervals_and_of_several_outputs(noise):
    _, X, X_test, _ = noise
    from xgboost import XGBClassifier

    classes = np.random.default_rng(0).integers(0, 3, len(X))
    model = XGBClassifier(n_estimators=30, max_depth=2, n_jobs=1).fit(X, classes)
    d = tp.purify(model, X, progress=False)
    truth = np.digitize(X_test[:, 0] * X_test[:, 1], [-0.5, 0.5])
    worth = tp.effect_worth(d, X_test, truth, n_bootstrap=0, absorb=False, progress=False)
    found = worthless(worth)
    assert found
    for finding in found:
        assert finding.numbers["worth"] <= 0
        assert "interval" not in finding.sentence
        shares = [d.components[finding.subset].variance[k] for k in range(3)]
        assert 0 <= finding.output < len(shares)


def test_without_held_out_rows_nothing_is_said_of_worth(noise):
    model, X, _, _ = noise
    found = tp.audit(model, X, n_bootstrap=0, measures=[], progress=False)
    assert found.worth is None
    assert not [finding for finding in found.findings if finding.kind == "no worth"]
    with pytest.raises(InvalidInputError, match="held_out must be rows"):
        tp.audit(model, X, held_out=X, n_bootstrap=0, measures=[], progress=False)


def test_the_report_shows_worth_and_the_path(noise, tmp_path):
    model, X, X_test, y_test = noise
    found = tp.audit(
        model, X, held_out=(X_test, y_test), n_bootstrap=0, measures=[], progress=False
    )
    simple = tp.simplify(found.decomposition, X_test, y_test, progress=False)
    path = tmp_path / "page.html"
    page = Page(tp.report.write_html(found.decomposition, path, top=1, audit=found, simple=simple))
    worth = found.worth.to_frame().set_index("term")["worth"]
    for row in page.rows("Worth on held-out rows")[:3]:
        assert number(row[1]) == pytest.approx(worth[row[0]], rel=1e-3)
    for line in simple.summary():
        assert line in page["Effects that can be left out"].text
    errors = [number(row[3]) for row in page.rows("Effects that can be left out")[1:] if row[3]]
    assert errors[0] == pytest.approx(simple.to_frame()["rise_error"].iloc[1], rel=6e-3)
    assert "The same 1850 rows chose the effects and measured the losses" in page.text


def test_an_interval_that_is_not_known_is_no_finding(noise):
    model, X, X_test, y_test = noise
    d = tp.purify(model, X, progress=False)
    worth = tp.effect_worth(d, X_test, y_test, n_bootstrap=20, absorb=False, progress=False)
    assert worthless(worth)
    unknown = replace(worth, low=np.full_like(worth.low, np.nan))
    assert worthless(unknown) == []


@pytest.mark.parametrize("is_noise", [False, True])
def test_the_summary_says_whether_the_model_predicts_held_out_rows(noise, is_noise):
    model, X, X_test, _ = noise
    rng = np.random.default_rng(1)
    # Nearly what the model predicts, or nothing that it could know.
    y = rng.normal(size=len(X_test)) + (0 if is_noise else model.predict(X_test))
    told = tp.audit(
        model, X, held_out=(X_test, y), n_bootstrap=0, measures=[], progress=False
    ).summary()
    (line,) = [line for line in told if line.startswith(f"On {len(y)} held-out rows")]
    error = np.mean((y - model.predict(X_test)) ** 2)
    assert f"squared error is {error:.4g} for the model" in line
    assert ("no better than a constant" in line) == is_noise


def test_without_held_out_rows_the_summary_says_what_is_not_known(noise):
    model, X, *_ = noise
    told = tp.audit(model, X, n_bootstrap=0, measures=[], progress=False).summary()
    assert "pass held_out=(rows, targets)" in told[-1]
