"""Effects that another feature determines, against group means of pandas on the rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from tests.report.pages import Page
from treepurify.near_copies import NearCopy, _determined
from treepurify.ranking import near_copy_claim, near_copy_words

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
    (found,) = d.near_copies
    own, other = d.feature_names[found.feature], d.feature_names[found.other]
    assert {own, other} == {"a", "b"}
    assert d[own].variance[0] > d[other].variance[0]
    effect = pd.Series(d[own].evaluate(X))
    parts = np.floor(30 * (X[other].rank() - 0.5) / N_ROWS)
    assert found.share == pytest.approx(explained(effect, parts), abs=0.02)
    assert found.correlation == pytest.approx(spearmanr(X["a"], X["b"]).statistic, abs=0.005)


def test_everything_that_lists_effects_names_them(planted, tmp_path):
    _, _, d = planted
    (found,) = d.near_copies
    own, other = d.feature_names[found.feature], d.feature_names[found.other]
    sentence = (
        f"{100 * found.share:.0f}% of the effect of {own} could be an effect of {other} instead "
        f"(their rank correlation is {found.correlation:.2f}). Small details decide how it is "
        "split; look at them together."
    )
    page = Page(tp.report.write_html(d, tmp_path / "d.html", progress=False))
    assert sentence in page["What may mislead"].text
    for text in (repr(d), d._repr_html_()):
        assert sentence in text
    # Only where its row is shown.
    assert d.ranking.sentences([(2,)], d.term_name) == []
    d.save(tmp_path / "d.tpz")
    assert tp.load(tmp_path / "d.tpz").near_copies == d.near_copies
    assert d.without("a").near_copies == ()


def test_an_audit_finds_them(planted):
    X, model, d = planted
    options = {"n_bootstrap": 0, "measures": [], **QUIET}
    (finding,) = (f for f in tp.audit(model, X, **options).findings if f.kind == "near copies")
    (found,) = d.near_copies
    sentences = d.ranking.sentences(d.ranking.order, d.term_name)
    assert any(sentence.startswith(finding.sentence) for sentence in sentences)
    assert finding.effects == ((found.feature,), (found.other,))
    own, total = d.components[finding.subset].variance[0], sum(d.covariances.values())[0]
    assert finding.severity == pytest.approx(found.share * own / total)


def test_effects_that_the_rows_leave_open_are_one_finding():
    steps = np.floor(2 * rows()["a"]).clip(-3, 3)
    X = rows().assign(a=steps, b=np.exp(steps))
    model = trained(X, np.sin(steps) + 0.5 * X["c"])
    audit = tp.audit(model, X, n_bootstrap=0, measures=[], **QUIET)
    assert audit.decomposition.near_copies
    assert {finding.kind for finding in audit.findings} == {"identifiability"}


def test_the_figure_of_importance_names_them_where_there_is_space(planted):
    plt = pytest.importorskip("matplotlib.pyplot")
    _, _, d = planted
    claim = near_copy_claim(d.near_copies, d.term_name)
    assert near_copy_words(d.near_copies, d.term_name).startswith(f"{claim}. ")
    assert claim in tp.plots.importance(d).get_xlabel().replace("\n", " ")
    assert "could be" not in tp.plots.importance(d, sort_by="variance").get_xlabel()
    _, axes = plt.subplots(1, 3, figsize=(7.2, 2.4))
    assert "could be" not in tp.plots.importance(d, ax=axes[0]).get_xlabel()
    plt.close("all")


def test_several_are_one_sentence():
    found = [NearCopy(0, 1, 0.97, 0.99), NearCopy(2, 3, 0.95, None)]
    assert near_copy_words(found, lambda subset: "abcd"[subset[0]]) == (
        "At least 90% of each of these effects could be an effect of the feature in brackets "
        "instead: a (b) and c (d). "
        "Small details decide how it is split; look at them together."
    )


def test_smoothed_rows_and_other_measures(planted):
    X, model, _ = planted
    smoothed = tp.purify(model, X, progress=False)
    assert smoothed.certificate.measure_copies > 1
    (found,) = smoothed.near_copies
    assert {found.feature, found.other} == {0, 1}
    for weights in ("independent", "uniform"):
        assert tp.purify(model, X, weights=weights, progress=False).near_copies == ()


def test_a_category_that_determines_a_number():
    X = rows().assign(b=lambda X: np.floor(3 * X["a"]).clip(-5, 5))
    X["b"] = pd.Categorical(X["b"].map(lambda value: f"level {value:.0f}"))
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBRegressor(
        n_estimators=60, max_depth=1, enable_categorical=True, colsample_bytree=0.4, n_jobs=1
    ).fit(X, np.sin(X["a"]) + 0.5 * X["c"])
    d = tp.purify(model, X, **QUIET)
    (found,) = (each for each in d.near_copies if each.feature == 0)
    assert (found.other, found.correlation) == (1, None)
    effect = pd.Series(d["a"].evaluate(X))
    assert found.share == pytest.approx(explained(effect, X["b"].cat.codes))


def test_several_outputs_are_added_up_and_missing_values_are_a_part():
    X = rows()
    X.loc[::10, "b"] = np.nan
    y = np.column_stack([np.sin(X["a"]), X["c"]])
    model = RandomForestRegressor(20, max_depth=4, max_features=1, random_state=0).fit(X, y)
    d = tp.purify(model, X, **QUIET)
    total = sum(d.covariances.values()).sum()
    assert d["b"].variance.sum() > 0.001 * total
    # A tenth of the rows has nothing that says what `a` is.
    assert not [each for each in d.near_copies if each.feature == 0]
    assert all(each.share > 0.9 for each in d.near_copies)


def test_groups_of_few_rows_determine_nothing():
    rng = np.random.default_rng(1)
    values, shares = rng.normal(size=(1, 600)), np.full(600, 1 / 600)
    weighted = shares * (values - values.mean())
    total = float((weighted * values).sum())
    groups = rng.integers(0, 400, 600)
    assert abs(_determined(weighted, total, groups, shares, 600)) < 0.2
    assert _determined(weighted, total, np.arange(600), shares, 600) == 0
    # Copies of rows are no further rows.
    assert _determined(weighted, total, groups, shares, 300) == 0


def test_independent_features_and_effects_that_cancel_are_not_named():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(N_ROWS, 3)), columns=list("abc"))
    assert tp.purify(trained(X, X.sum(axis=1), 2), X, **QUIET).near_copies == ()
    elsewhere = X.assign(b=rng.permutation(X["b"]))
    model = trained(elsewhere, elsewhere["a"] - 0.9 * elsewhere["b"] + elsewhere["c"])
    d = tp.purify(model, X.assign(b=X["a"] + 0.02 * rng.normal(size=N_ROWS)), **QUIET)
    assert len(d.near_copies) == len(d.ranking.groups) == 1
    assert d.ranking.near_copies == ()
