"""Main effects that another feature determines, against group means of pandas on the rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from tests.report.pages import Page
from treepurify.collinear import share_of_parts

QUIET = {"weights": "empirical", "progress": False}
N_ROWS = 900


def rows():
    """`b` is nearly `a`; `c` is by itself."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=N_ROWS)
    return pd.DataFrame(
        {"a": a, "b": np.exp(a + 0.05 * rng.normal(size=N_ROWS)), "c": rng.normal(size=N_ROWS)}
    )


def trained(X, y, max_depth=1):
    """A model that reads every feature: each split looks at one, by chance."""
    options = {"n_estimators": 200, "max_features": 1, "random_state": 0}
    return GradientBoostingRegressor(max_depth=max_depth, **options).fit(X, y)


@pytest.fixture(scope="module")
def planted():
    X = rows()
    model = trained(X, np.sin(X["a"]) + 0.5 * X["c"])
    return X, model, tp.purify(model, X, **QUIET)


def explained(values, groups):
    """R squared of the means of groups, adjusted for their number."""
    left = values - values.groupby(np.asarray(groups)).transform("mean")
    unadjusted = 1 - left.var(ddof=0) / values.var(ddof=0)
    return 1 - (1 - unadjusted) * (len(values) - 1) / (len(values) - len(np.unique(groups)))


def test_the_share_and_the_correlation_are_those_of_the_rows(planted):
    X, _, d = planted
    (found,) = d.collinear
    own, other = found.names
    assert {own, other} == {"a", "b"}
    assert found.reason == "copies"
    assert d[own].variance[0] > d[other].variance[0]
    effect = pd.Series(d[own].evaluate(X))
    parts = np.floor(30 * (X[other].rank() - 0.5) / N_ROWS)
    # Of the two directions the one that holds less.
    assert found.amount == pytest.approx(explained(effect, parts), abs=0.02)
    assert found.movable == pytest.approx(found.amount * d[own].variance[0], rel=0.02)
    together = d[own].evaluate(X) + d[other].evaluate(X)
    assert found.variance == pytest.approx(together.var())


def test_everything_that_lists_effects_names_them(planted, tmp_path):
    _, _, d = planted
    (found,) = d.collinear
    both = " and ".join(found.names)
    sentence = f"{both} are near copies: read them together (tp.plots.together)."
    assert found.sentence == sentence
    share = f"{100 * found.amount:.0f}%"
    assert found.reason_words == f"at least {share} of one effect could be that of another"
    page = Page(tp.report.write_html(d, tmp_path / "d.html", progress=False))
    assert sentence in page["What may mislead"].text
    for text in (repr(d), d._repr_html_()):
        assert sentence in text
    d.save(tmp_path / "d.tpz")
    assert tp.load(tmp_path / "d.tpz").collinear == d.collinear
    assert d.without("a").collinear == ()


def test_an_audit_finds_them(planted):
    X, model, d = planted
    options = {"n_bootstrap": 0, "measures": [], **QUIET}
    findings = tp.audit(model, X, **options).findings
    (finding,) = (f for f in findings if f.kind == "collinear effects")
    (found,) = d.collinear
    assert finding.sentence.startswith(f"{found.claim} ({found.reason_words}). ")
    assert finding.effects == found.members
    total = sum(d.covariances.values())[0]
    assert finding.severity == pytest.approx(found.movable / total)
    assert finding.numbers["share_together"] == pytest.approx(found.variance / total)


def test_one_thing_twice_is_one_finding():
    steps = np.floor(2 * rows()["a"]).clip(-3, 3)
    X = rows().assign(a=steps, b=np.exp(steps))
    model = trained(X, np.sin(steps) + 0.5 * X["c"])
    audit = tp.audit(model, X, n_bootstrap=0, measures=[], **QUIET)
    (found,) = audit.decomposition.collinear
    assert found.reason == "copies"
    assert [finding.kind for finding in audit.findings] == ["collinear effects"]


def test_the_figure_of_importance_names_them_where_there_is_space(planted):
    plt = pytest.importorskip("matplotlib.pyplot")
    _, _, d = planted
    (found,) = d.collinear
    assert found.claim in tp.plots.importance(d).get_xlabel().replace("\n", " ")
    _, axes = plt.subplots(1, 3, figsize=(7.2, 2.4))
    assert "near copies" not in tp.plots.importance(d, ax=axes[0]).get_xlabel()
    plt.close("all")


def test_several_copies_are_one_group():
    rng = np.random.default_rng(0)
    a = rng.normal(size=N_ROWS)
    near = {name: np.round(2 * (a + 0.05 * rng.normal(size=N_ROWS))) for name in "abc"}
    X = pd.DataFrame(near).clip(-4, 4)
    (found,) = tp.purify(trained(X, X.sum(axis=1)), X, **QUIET).collinear
    assert set(found.names) == {"a", "b", "c"}
    first, second, third = found.names
    assert found.claim.startswith(f"{first}, {second} and {third} are near copies")


def test_smoothed_rows_and_other_measures(planted):
    X, model, _ = planted
    smoothed = tp.purify(model, X, progress=False)
    assert smoothed.origin.copies > 1
    (found,) = smoothed.collinear
    assert set(found.names) == {"a", "b"}
    for weights in ("independent", "uniform"):
        assert tp.purify(model, X, weights=weights, progress=False).collinear == ()


def test_a_category_that_determines_a_number():
    X = rows().assign(b=lambda X: np.floor(3 * X["a"]).clip(-5, 5))
    X["b"] = pd.Categorical(X["b"].map(lambda value: f"level {value:.0f}"))
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(
        n_estimators=60, max_depth=1, enable_categorical=True, colsample_bytree=0.4, n_jobs=1
    ).fit(X, np.sin(X["a"]) + 0.5 * X["c"])
    d = tp.purify(model, X, **QUIET)
    (found,) = d.collinear
    assert found.names == ("a", "b")
    effect = pd.Series(d["a"].evaluate(X))
    assert found.amount == pytest.approx(explained(effect, X["b"].cat.codes))


def test_several_outputs_are_added_up_and_missing_values_are_a_part():
    X = rows()
    X.loc[::10, "b"] = np.nan
    y = np.column_stack([np.sin(X["a"]), X["c"]])
    model = RandomForestRegressor(20, max_depth=4, max_features=1, random_state=0).fit(X, y)
    d = tp.purify(model, X, **QUIET)
    total = sum(d.covariances.values()).sum()
    assert d["b"].variance.sum() > 0.001 * total
    # A tenth of the rows has nothing that says what `a` is.
    assert not [each for each in d.collinear if each.members[0] == (0,)]
    assert all(each.amount > 0.9 for each in d.collinear)


def test_groups_of_few_rows_determine_nothing():
    rng = np.random.default_rng(1)
    values, shares = rng.normal(size=(1, 600)), np.full(600, 1 / 600)
    weighted = shares * (values - values.mean())
    total = float((weighted * values).sum())
    groups = rng.integers(0, 400, 600)
    assert abs(share_of_parts(weighted, total, groups, shares, 600)) < 0.2
    assert share_of_parts(weighted, total, np.arange(600), shares, 600) == 0
    # Copies of rows are no further rows.
    assert share_of_parts(weighted, total, groups, shares, 300) == 0


def test_independent_features_are_not_named_and_effects_that_cancel_once():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(N_ROWS, 3)), columns=list("abc"))
    assert tp.purify(trained(X, X.sum(axis=1), 2), X, **QUIET).collinear == ()
    elsewhere = X.assign(b=rng.permutation(X["b"]))
    model = trained(elsewhere, elsewhere["a"] - 0.9 * elsewhere["b"] + elsewhere["c"])
    d = tp.purify(model, X.assign(b=X["a"] + 0.02 * rng.normal(size=N_ROWS)), **QUIET)
    (found,) = d.collinear
    assert found.reason == "cancel"
    assert d.ranking.groups == [found]
