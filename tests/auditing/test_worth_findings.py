"""Interactions that carry variance without helping held-out predictions are found."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.auditing.worth_findings import worthless_interactions
from treepurify.errors import InvalidInputError


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
    named = {f.subset: f for f in found.findings if f.kind == "no worth"}
    assert (2, 3) in named
    assert (0, 1) not in named
    worth = found.worth.of(("x2", "x3"))
    finding = named[2, 3]
    assert finding.numbers["worth"] == worth["worth"]
    assert f"{worth['worth']:+.2g}" in finding.sentence
    assert finding.severity >= 0.01
    assert "1850 held-out rows" in finding.sentence


def test_findings_without_intervals_and_of_several_outputs(noise):
    _, X, X_test, _ = noise
    from xgboost import XGBClassifier

    classes = np.random.default_rng(0).integers(0, 3, len(X))
    model = XGBClassifier(n_estimators=30, max_depth=2, n_jobs=1).fit(X, classes)
    d = tp.purify(model, X, progress=False)
    truth = np.digitize(X_test[:, 0] * X_test[:, 1], [-0.5, 0.5])
    worth = tp.effect_worth(d, X_test, truth, n_bootstrap=0, absorb=False, progress=False)
    found = worthless_interactions(worth, 0.001)
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
    tp.report.write_html(found.decomposition, path, top=1, audit=found, simple=simple)
    page = path.read_text(encoding="utf-8")
    assert "Worth on held-out rows" in page
    assert "What can go" in page
    for row in found.worth.to_frame().head(3).to_dict("records"):
        assert f"{row['worth']:.4g}".replace("-", "\N{MINUS SIGN}") in page
    for line in simple.summary():
        assert line.replace("&", "&amp;") in page


def test_an_interval_that_is_not_known_is_no_finding(noise):
    model, X, X_test, y_test = noise
    d = tp.purify(model, X, progress=False)
    worth = tp.effect_worth(d, X_test, y_test, n_bootstrap=20, absorb=False, progress=False)
    assert worthless_interactions(worth, 0.001)
    unknown = replace(worth, low=np.full_like(worth.low, np.nan))
    assert worthless_interactions(unknown, 0.001) == []
