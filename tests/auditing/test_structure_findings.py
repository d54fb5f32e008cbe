"""Findings that exist for every model: each is found where it was planted, and nowhere else."""

from dataclasses import replace
from typing import get_args

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treepurify as tp
from tests.report.pages import Page
from treepurify.auditing.findings import Finding, FindingKind
from treepurify.auditing.kinds import KINDS, fold_findings, with_findings
from treepurify.auditing.ranked_findings import Audit
from treepurify.auditing.support import _fewest_cells, _jumps

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

N_ROWS = 1500
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(N_ROWS, 4)), columns=["a", "b", "c", "d"])


def audited(model, rows=X, weights="auto"):
    d = tp.purify(model, rows, weights=weights, progress=False)
    return with_findings(Audit(d))


def found(audit, kind):
    return {
        f.effects if len(f.effects) > 1 else f.subset: f for f in audit.findings if f.kind == kind
    }


def deep(y, rows=X, **options):
    return xgboost.XGBRegressor(n_jobs=1, **({"n_estimators": 30} | options)).fit(rows, y)


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "pipeline"])
def test_an_additive_model_of_deep_trees_has_no_finding(library, noise):
    y = X["a"] + np.sin(2 * X["b"]) + 0.5 * (X["c"] > 0) + 0.3 * X["d"] ** 2
    y += noise * y.std() * np.random.default_rng(1).normal(size=N_ROWS)
    if library == "lightgbm":
        model = lightgbm.LGBMRegressor(n_estimators=50, verbose=-1, n_jobs=1).fit(X, y)
    elif library == "pipeline":
        model = make_pipeline(StandardScaler(), xgboost.XGBRegressor(n_estimators=20, n_jobs=1))
        model.fit(X, y)
    else:
        model = deep(y, n_estimators=50)
    assert audited(model).findings == ()


def test_an_interaction_larger_than_its_main_effects():
    y = np.sign(X["a"]) * np.sign(X["b"]) + X["c"]
    audit = audited(deep(y), weights="empirical")
    (finding,) = found(audit, "dominant interaction").values()
    d = audit.decomposition
    assert finding.subset == (0, 1)
    variance = d.predict(X).var()
    assert finding.numbers["share"] == pytest.approx(
        d["a", "b"].evaluate(X).var() / variance, rel=0.05
    )
    assert finding.numbers["share_first"] < finding.numbers["share"] / 5
    # Each of the two acts only in the interaction that was found.
    assert not found(audit, "only in interactions")
    assert audit.findings[0].severity == max(f.severity for f in audit.findings)


def test_a_feature_that_acts_only_through_an_interaction():
    rows = X.assign(d=1.0 * (X["d"] > 0))
    y = 3 * (X["a"] > 0) + np.sign(X["a"]) * (2 * rows["d"] - 1) + X["b"]
    audit = audited(deep(y, rows), rows)
    (finding,) = found(audit, "only in interactions").values()
    assert finding.subset == (3,)
    assert finding.effects == ((0, 3), (3,))
    assert finding.sentence.startswith("The main effect of d has a size of")
    assert not found(audit, "dominant interaction")
    drawn = tp.plots.finding(audit, finding)
    assert {drawn.get_xlabel(), drawn.get_ylabel()} == {"a", "d"}
    plt.close("all")


def test_effects_that_cancel_come_first(tmp_path):
    own = np.random.default_rng(2)
    elsewhere = X.assign(b=own.permutation(X["a"]))
    rows = X.assign(b=X["a"] + 0.2 * own.normal(size=N_ROWS))
    audit = audited(deep(elsewhere["a"] - elsewhere["b"] + 0.5 * elsewhere["c"], elsewhere), rows)
    first = audit.findings[0]
    assert first.kind == "collinear effects"
    assert set(first.effects) == {(0,), (1,)}
    d = audit.decomposition
    apart = sum(d[name].variance[0] for name in "ab")
    (group,) = d.ranking.groups
    total = sum(d.covariances.values())[0]
    assert first.numbers["share_apart"] == pytest.approx(apart / total)
    assert first.severity == pytest.approx(min((apart - group.variance) / total, 1.0))
    drawn = tp.plots.finding(audit, first)
    assert drawn.get_title(loc="right") == "collinear effects"
    plt.close("all")
    page = Page(tp.report.write_html(d, tmp_path / "a.html", audit=audit, progress=False))
    assert "tp.plots.together" in page["Findings"].text
    assert page["Findings"].pictures[0] == first.sentence


def test_an_effect_of_few_rows():
    rare = np.zeros(N_ROWS)
    rare[:9] = 1.0
    rows = X.assign(c=rare)
    audit = audited(deep(X["a"] + 4 * rare, rows, min_child_weight=1), rows, weights="empirical")
    (finding,) = found(audit, "few rows").values()
    assert finding.subset == (2,)
    assert finding.numbers["mass"] == pytest.approx(9 / N_ROWS)
    assert "(about 9 of 1500)" in finding.sentence
    assert finding.where.startswith("c ")
    often = X.assign(c=1.0 * (np.arange(N_ROWS) < 150))
    assert not found(audited(deep(X["a"] + 4 * often["c"], often), often), "few rows")


def test_the_fewest_cells_are_those_of_the_definition():
    own = np.random.default_rng(3)
    mass, squares = own.dirichlet(np.ones(9)), own.exponential(size=9) ** 3
    few = _fewest_cells(mass, squares)
    held = mass * squares
    assert held[few].sum() >= 0.5 * held.sum()
    assert held[few[:-1]].sum() < 0.5 * held.sum()
    assert squares[few].min() >= np.delete(squares, few).max()


@pytest.mark.parametrize("planted", ["identifier", "special days"])
def test_jumps_of_an_identifier_and_of_a_calendar(planted):
    own = np.random.default_rng(4)
    if planted == "identifier":
        # Rows of one person follow each other and have one outcome.
        code = np.repeat(np.arange(N_ROWS // 5), 5) + 0.0
        extra = 2 * own.normal(size=N_ROWS // 5)[code.astype(int)]
    else:
        code = own.integers(0, 365, N_ROWS) + 0.0
        extra = 3.0 * np.isin(code, [10, 55, 121, 190, 250, 300, 359])
        extra += np.sin(code / 58)
    rows = X.assign(c=code)
    y = X["a"] + extra
    audit = audited(deep(y, rows, n_estimators=60), rows)
    (finding,) = found(audit, "jumps").values()
    assert finding.subset == (2,)
    assert audit.findings[0].kind == "jumps" or planted == "special days"
    if planted == "special days":
        assert finding.numbers["jump"] > 1.0
    assert len(finding.cells) > 3
    drawn = tp.plots.finding(audit, finding)
    assert len(drawn.patches) > 1
    plt.close("all")


def test_trends_steps_and_common_values_do_not_jump():
    mass = np.full(200, 1 / 200)
    place = np.arange(200)
    assert not _jumps(place.astype(float), mass).any()
    assert not _jumps(1.0 * (place > 90), mass).any()
    spike = 1.0 * (place == 90)
    np.testing.assert_array_equal(_jumps(spike, mass), spike)
    # Cells without mass, and the end cells, are no places to compare with.
    empty = np.where((place > 85) & (place < 90), 0.0, mass)
    np.testing.assert_array_equal(_jumps(spike, empty / empty.sum()), spike)
    assert not _jumps(1.0 * (place == 0), mass).any()
    # An hour of the day has rows of its own.
    hours = X.assign(c=np.random.default_rng(5).integers(0, 24, N_ROWS) + 0.0)
    audit = audited(deep(X["a"] + 3 * (hours["c"] == 8), hours), hours)
    assert not found(audit, "jumps")


def test_a_single_row_that_nothing_determines_is_no_finding():
    rows = X.copy()
    rows.loc[3, ["a", "b"]] = np.nan
    y = np.where(
        rows["a"].isna(), 5, rows["a"].fillna(0) * rows["b"].fillna(0) + rows["a"].fillna(0)
    )
    d = tp.purify(deep(y, rows, max_depth=2), rows, weights="empirical", progress=False)
    assert d.origin.open_directions[0, 1] > 0
    audit = with_findings(Audit(d))
    assert not found(audit, "identifiability")
    (check,) = [check for check in audit.checks if check.kind == "identifiability"]
    assert "with an ambiguity below the threshold" in check.among


def test_halves_that_share_no_value_weigh_what_their_main_effects_have():
    own = np.random.default_rng(3)
    half = np.repeat([0.0, 1.0], 100)
    rows = pd.DataFrame({name: half + 0.4 * own.random(200) for name in "ab"})
    model = GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0)
    model.fit(rows, rows["a"] * rows["b"])
    d = tp.purify(model, rows, weights="empirical", progress=False)
    (finding,) = found(with_findings(Audit(d)), "identifiability").values()
    mains = d["a"].variance[0] + d["b"].variance[0]
    expected = min(mains / sum(d.covariances.values())[0], 1.0)
    assert finding.severity == pytest.approx(expected)
    assert finding.numbers["outside_largest"] == pytest.approx(0.5)


@pytest.mark.parametrize("chosen", [True, False])
def test_measures_that_nobody_chose_come_last_and_as_one_finding_each(chosen):
    a = rng.normal(size=N_ROWS)
    rows = pd.DataFrame({"a": a, "b": a + 0.3 * rng.normal(size=N_ROWS), "c": X["c"]})
    model = deep(rows["a"] * rows["b"] + rows["a"] * rows["c"], rows, max_depth=3)
    d = tp.purify(model, rows, progress=False)
    others = {
        name: tp.purify(model, rows, weights=name, progress=False)
        for name in ("uniform", "independent")
    }
    compared = {name: tp.compare(d, other) for name, other in others.items()}
    audit = with_findings(Audit(d, comparisons=compared, measures_chosen=chosen))
    of_measures = [finding for finding in audit.findings if finding.kind == "distribution"]
    assert len({finding.measure for finding in of_measures}) == len(of_measures) > 0
    for finding in of_measures:
        share = finding.numbers["share"]
        assert finding.severity == (share if chosen else 0.01 * min(share, 1.0))
        for effect in finding.effects:
            assert d.term_name(effect) in finding.sentence
    if not chosen:
        assert audit.findings[0].kind != "distribution"


def test_what_follows_and_what_to_do_is_said_once_of_each_kind():
    y = np.sign(X["a"]) * np.sign(X["b"]) + np.sign(X["c"]) * np.sign(X["d"])
    audit = audited(deep(y))
    first = next(f for f in audit.findings if f.kind == "dominant interaction")
    assert set(first.effects) == {(0, 1), (2, 3)}
    # Finders that are not folded: each contradiction has a region of its own.
    advice = KINDS["contradiction"].to_do
    several = [
        replace(first, kind="contradiction", subset=(j,), effects=(), to_do=advice)
        for j in range(2)
    ]
    audit = replace(audit, findings=(first, *several))
    assert str(audit).count(several[0].to_do) == 1
    assert str(audit).count(first.to_do) == 1
    table = audit.to_frame()
    assert (table["to_do"] != "").all()
    assert set(get_args(FindingKind)) == {check.kind for check in audit.checks}
    assert [*KINDS] == [*get_args(FindingKind)]
    assert all(kind.follows and kind.to_do for kind in KINDS.values())


def test_findings_of_one_kind_become_one():
    d = audited(deep(X["a"])).decomposition
    one = Finding("instability", (0,), 0, 1.0, "It changes.")
    several = [replace(one, subset=(j,), effects=(), severity=1.0 - 0.1 * j) for j in range(4)]
    (folded,) = fold_findings(d, several[::-1])
    assert folded.effects == ((0,), (1,), (2,), (3,))
    assert folded.sentence.endswith("The same holds for 3 other effects: b, c, d.")
    assert fold_findings(d, [one]) == [one]
    apart = [replace(each, kind="contradiction") for each in several]
    assert fold_findings(d, apart) == apart


def test_folded_findings_name_their_interaction_and_their_measure():
    d = audited(deep(X["a"])).decomposition
    one = Finding("only in interactions", (0,), 0, 1.0, "It does.", effects=((0, 1), (0,)))
    other = replace(one, subset=(2,), severity=0.5, effects=((1, 2), (2,)))
    (folded,) = fold_findings(d, [one, other])
    assert folded.sentence == "It does. The same holds for 1 other feature: c (in b & c)."
    assert folded.effects == ((0, 1), (0,), (1, 2), (2,))
    assert folded.numbers["features"] == 2
    one = Finding("distribution", (0,), 0, 1.0, "It does.", measure="uniform")
    other = replace(one, subset=(2,), severity=0.5, effects=(), measure="laplace")
    assert len(fold_findings(d, [one, other])) == 2
    (folded,) = fold_findings(d, [one, other], by_measure=False)
    assert folded.sentence.endswith("1 other effect: c (under 'laplace').")


def test_an_effect_on_several_outputs_is_named_once():
    d = audited(deep(X["a"])).decomposition
    on_outputs = [Finding("jumps", (j,), k, 1.0 - k, "It jumps.") for j in (0, 1) for k in (0, 1)]
    (folded,) = fold_findings(d, on_outputs)
    assert folded.effects == ((0,), (1,))
    assert folded.sentence == "It jumps. The same holds for 1 other effect: b."


def test_the_summary_says_what_part_of_the_model_was_audited():
    y = np.sign(X["a"]) * np.sign(X["b"]) * np.sign(X["c"]) + X["d"]
    audit = audited(deep(y), weights="empirical")
    d = audit.decomposition
    share = 1 - d.covariances[()][0] / sum(d.covariances.values())[0]
    assert f"These effects explain {100 * share:.2f}% of the model's variance" in str(audit)
    assert share < 0.95
    assert "not audited" not in str(audited(deep(X["a"], max_depth=1)))
