"""The audit finds what was planted by hand, and nothing where nothing is."""

import warnings
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.report.pages import Page
from treepurify.auditing import audit as audit_module
from treepurify.auditing.audit import _drawn_again, audit
from treepurify.auditing.changes import instabilities
from treepurify.auditing.findings import FindingKind
from treepurify.auditing.kinds import with_findings
from treepurify.auditing.ranked_findings import Audit
from treepurify.comparing.apparent import model_variance
from treepurify.engines.tree import projection

glassbox = pytest.importorskip("interpret.glassbox")
xgboost = pytest.importorskip("xgboost")

N_ROWS = 1500


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.uniform(-1, 1, size=(N_ROWS, 4)), columns=["a", "b", "c", "d"])


def clean_ebm(X):
    """An EBM object whose terms are pure: two main effects and one true interaction."""
    from treepurify.export import to_ebm

    y = 2 * X["a"] + X["b"] + 1.5 * np.sign(X["c"]) * np.sign(X["d"])
    model = xgboost.XGBRegressor(
        n_estimators=40,
        max_depth=2,
        learning_rate=0.3,
        max_bin=8,
        interaction_constraints=[["a"], ["b"], ["c", "d"]],
        n_jobs=1,
    ).fit(X, y)
    # Missing cells have no mass and would not be part of the data.
    return to_ebm(tp.purify(model, X, progress=False))


def plant(ebm, X, share):
    """Move a part of the main effect of `a` into a new pair with `b`; predictions stay."""
    from treepurify.models.parse import parse_model

    main = ebm.term_features_.index((0,))
    b = ebm.term_features_.index((1,))
    moved = share * ebm.term_scores_[main]
    ebm.term_scores_[main] = ebm.term_scores_[main] - moved
    ebm.term_features_.append((0, 1))
    ebm.term_names_.append("a & b")
    n_b = len(ebm.term_scores_[b])
    ebm.term_scores_.append(np.repeat(moved[:, None], n_b, axis=1))
    ebm.bin_weights_.append(np.ones((len(moved), n_b)))
    ebm.standard_deviations_.append(None)
    ebm.bagged_scores_.append(ebm.term_scores_[-1][None])
    parse_model(ebm).margin(X)
    return ebm


@pytest.fixture(scope="module")
def X():
    return rows()


@pytest.fixture(autouse=True)
def _quiet_interpret():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="interpret")
        yield


def found(audited, kind):
    d = audited.decomposition
    return {d.term_name(e) for f in audited.findings if f.kind == kind for e in f.effects}


def test_planted_contradiction_in_an_ebm_is_found(X):
    ebm = clean_ebm(X)
    before = ebm.predict(X)
    clean = audit(ebm, X, n_bootstrap=3, progress=False)
    for kind in ("hidden effect", "contradiction", "spurious interaction", "identifiability"):
        assert found(clean, kind) == set(), clean
    planted = plant(ebm, X, share=1.5)
    np.testing.assert_allclose(planted.predict(X), before, atol=1e-12)
    audited = audit(planted, X, n_bootstrap=3, progress=False)
    assert found(audited, "hidden effect") == {"a"}
    assert found(audited, "contradiction") == {"a"}
    assert found(audited, "spurious interaction") == {"a & b"}
    hidden = next(f for f in audited.findings if f.kind == "hidden effect")
    d = audited.decomposition
    # 1.5 of the effect was taken away: -0.5 of it is left.
    assert hidden.numbers["deviation_apparent"] == pytest.approx(
        0.5 * hidden.numbers["deviation"], rel=1e-6
    )
    covered = sum(f.numbers["mass"] for f in audited.findings if f.kind == "contradiction")
    values = np.abs(d["a"].values[:, 0])
    assert covered > 0.9 * d["a"].mass @ (values > 0.1 * np.sqrt(d["a"].variance[0]))


def test_half_of_an_effect_moved_is_hidden_but_no_contradiction(X):
    audited = audit(plant(clean_ebm(X), X, share=0.5), X, n_bootstrap=0, progress=False)
    assert found(audited, "hidden effect") == {"a"}
    assert found(audited, "contradiction") == set()


def test_nothing_is_found_in_an_additive_model(X):
    y = X["a"] + np.sin(3 * X["b"])
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=1, n_jobs=1).fit(X, y)
    audited = audit(model, X, n_bootstrap=4, progress=False)
    assert audited.findings == ()
    assert "Nothing was found in 2 effects" in repr(audited)


def test_structure_of_an_xgboost_model_is_found(X):
    rng = np.random.default_rng(1)
    y = 2 * (X["a"] > 0) * (X["b"] > 0) + 0.01 * rng.normal(size=N_ROWS)
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=2, learning_rate=0.3, n_jobs=1)
    audited = audit(model.fit(X, y), X, n_bootstrap=2, progress=False)
    # An AND is two main effects and an interaction: the trees show the interaction only.
    assert found(audited, "hidden effect") == {"a", "b"}
    d = audited.decomposition
    table = d.importance().set_index("effect")
    assert set(table.index[:3]) == {"a", "b", "a & b"}
    severities = [finding.severity for finding in audited.findings]
    assert severities == sorted(severities, reverse=True)


def test_dependence_on_the_measure_and_the_rows():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=N_ROWS)})
    X["b"] = X["a"] + 0.15 * rng.normal(size=N_ROWS)
    model = GradientBoostingRegressor(n_estimators=40, max_depth=2, random_state=0)
    audited = audit(model.fit(X, X["a"] * X["b"]), X, n_bootstrap=2, progress=False)
    assert found(audited, "distribution") >= {"a & b"}
    named = {f.measure for f in audited.findings if f.kind == "distribution"}
    assert named <= {"laplace", "uniform", "independent"}
    # The product is large and of the other sign where the two disagree: no row does.
    assert found(audited, "extrapolation") == {"a & b"}
    numbers = next(f for f in audited.findings if f.kind == "extrapolation").numbers
    pair = audited.decomposition["a", "b"]
    empty = pair.mass == 0
    assert numbers["largest_without_data"] == np.abs(pair.values[empty]).max()
    assert numbers["cells_without_data"] == pytest.approx(empty.mean())


def test_unidentified_directions_are_findings():
    rng = np.random.default_rng(3)
    block = np.repeat([0.0, 1.0], 100)
    X = np.column_stack([block + 0.4 * rng.random(200), block + 0.4 * rng.random(200)])
    model = GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1])
    options = {"n_bootstrap": 0, "measures": [], "progress": False}
    audited = audit(model, X, weights="empirical", **options)
    # Smoothed rows fill the cells between the blocks.
    assert not found(audit(model, X, **options), "identifiability")
    assert found(audited, "identifiability") == {"x0 & x1"}
    d = audited.decomposition
    finding = next(f for f in audited.findings if f.kind == "identifiability")
    assert finding.numbers["directions"] == d.certificate.unidentified


def test_instability_is_that_of_the_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    model = GradientBoostingRegressor(n_estimators=60, max_depth=2, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1])
    few = audit(model, X, n_bootstrap=5, progress=False)
    assert found(few, "instability")
    assert len([f for f in few.findings if f.kind == "instability"]) == 1
    again = audit(model, X, n_bootstrap=5, progress=False)
    assert [f.sentence for f in again.findings] == [f.sentence for f in few.findings]
    other = audit(model, X, n_bootstrap=5, seed=1, progress=False)
    assert any(
        not np.array_equal(other.spread[subset], few.spread[subset]) for subset in few.spread
    )
    assert audit(model, X, n_bootstrap=0, progress=False).spread == {}


def test_spread_is_the_change_over_resampled_rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    model = GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1])
    audited = audit(model, X, n_bootstrap=1, seed=7, measures=[], progress=False)
    counts = np.random.default_rng(7).multinomial(60, np.full(60, 1 / 60))
    drawn = tp.purify(model, X, sample_weight=counts.astype(float))
    d = audited.decomposition
    change = drawn["x0"].values - d["x0"].values
    expected = np.abs(change - d["x0"].mass @ change)
    np.testing.assert_allclose(audited.spread[(0,)], expected, atol=1e-14)


def test_draws_side_by_side_are_those_one_by_one(X, monkeypatch):
    model = GradientBoostingRegressor(n_estimators=20, max_depth=4, random_state=0)
    model.fit(X, X["a"] * X["b"] + X["c"])
    found = [audit(model, X, measures=[], n_bootstrap=5, progress=False)]
    monkeypatch.setattr("treepurify.threads.available_threads", lambda: 1)
    found.append(audit(model, X, measures=[], n_bootstrap=5, progress=False))
    side_by_side, one_by_one = (report.spread for report in found)
    assert side_by_side.keys() == one_by_one.keys()
    assert len(one_by_one) > 3
    for subset, spread in one_by_one.items():
        np.testing.assert_array_equal(side_by_side[subset], spread)


def test_row_weights_reach_the_measures_that_count_rows(X):
    weights = np.random.default_rng(0).uniform(0.1, 1, len(X))
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0)
    model.fit(X, X["a"] * X["b"])
    options = {"n_bootstrap": 0, "progress": False}
    weighted = audit(model, X, sample_weight=weights, **options)
    d = tp.purify(model, X, sample_weight=weights, progress=False)
    assert set(weighted.comparisons) == {"laplace", "uniform", "independent"}
    for name, comparison in weighted.comparisons.items():
        own = None if name == "uniform" else weights
        other = tp.purify(model, X, weights=name, sample_weight=own, progress=False)
        pd.testing.assert_frame_equal(comparison.terms, tp.compare(d, other).terms)


def test_tables_are_listed_once_for_all_effects(X, monkeypatch):
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1).fit(X, X["a"] * X["b"])
    d = tp.purify(model, X, progress=False)
    spread = {s: np.ones(c.mass.shape)[..., None] for s, c in d.tensor_components().items()}
    total = model_variance(d)
    listed, known = [], tp.Decomposition.tensor_components
    monkeypatch.setattr(
        tp.Decomposition, "tensor_components", lambda d: listed.append(1) or known(d)
    )
    assert len([*instabilities(Audit(d, spread=spread, n_bootstrap=5), total)]) == len(spread)
    assert len(listed) == 1


def test_findings_as_a_table(X):
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1).fit(X, X["a"] * X["b"])
    audited = audit(model, X, n_bootstrap=0, progress=False)
    table = audited.to_frame()
    assert len(table) == len(audited.findings)
    assert set(table["kind"]) <= set(get_args(FindingKind))
    assert list(audited.comparisons) == ["laplace", "uniform", "independent"]
    assert len(audited.findings) > 1
    ranked = [line for line in audited.summary(most=1) if line.startswith("1. ")]
    assert len(ranked) == 1
    assert audited.findings[0].sentence in ranked[0]
    assert not any(line.startswith("2. ") for line in audited.summary(most=1))


def test_deep_models_are_audited_through_order_two(X):
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1)
    model.fit(X, X["a"] * X["b"] * X["c"] + X["d"])
    audited = audit(model, X, n_bootstrap=0, measures=["laplace"], progress=False)
    assert audited.decomposition.remainder is not None
    assert max(map(len, audited.decomposition)) == 2
    assert not found(audited, "hidden effect")


def test_effects_above_the_order_of_the_audit_are_left_out(X):
    """Components of every order, and a finding only where the measure of the rows has one."""
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1)
    model.fit(X, X["a"] * X["b"] * X["c"] + X["d"])
    audited = audit(model, X, order=None, n_bootstrap=0, measures=["independent"], progress=False)
    d = audited.decomposition
    assert max(map(len, audited.comparisons["independent"].subsets)) > 2
    assert {finding.subset for finding in audited.findings} <= set(d.components)


def test_measures_under_which_effects_cannot_be_had_are_named(X, monkeypatch):
    # More combinations of cells than can stand for rows: each tree is projected.
    X = X.head(300)
    model = xgboost.XGBRegressor(n_estimators=30, max_depth=4, n_jobs=1)
    model.fit(X, X["a"] * X["b"] * X["c"] * X["d"] + X["d"])
    complete = audit(model, X, order=3, n_bootstrap=0, progress=False)
    assert list(complete.comparisons) == ["laplace", "uniform", "independent"]
    assert "measures_left_out" not in complete.decomposition.diagnostics
    read = projection._read_task

    def refuse(problem, *options):
        if problem.weighting.share_of_rows < 1.0:
            raise tp.errors.InvalidInputError("only under the rows alone")
        return read(problem, *options)

    monkeypatch.setattr(projection, "_read_task", refuse)
    audited = audit(model, X, order=3, n_bootstrap=1, progress=False)
    assert list(audited.comparisons) == ["uniform", "independent"]
    left_out = audited.measures_left_out
    assert left_out == {"laplace": "only under the rows alone"}
    with pytest.raises(tp.errors.InvalidInputError, match="only under the rows alone"):
        audit(model, X, order=3, n_bootstrap=0, measures=["laplace"], progress=False)


def test_a_feature_may_be_called_like_an_interaction():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 600))
    rows = np.stack([a, b, a + 0.2 * rng.normal(size=600)], axis=1)
    model = GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0)
    model.fit(rows, a * b + 2 * a * rows[:, 2])
    plain, same = (
        audit(model, rows, feature_names=["a", "b", name], n_bootstrap=0, progress=False).findings
        for name in ("c", "a & b")
    )
    of_distributions = (finding for finding in plain if finding.kind == "distribution")
    assert any((2,) in finding.effects for finding in of_distributions)
    for first, second in zip(plain, same, strict=True):
        assert (first.kind, first.subset, first.output) == (
            second.kind,
            second.subset,
            second.output,
        )


def test_options_that_cannot_be(X):
    model = xgboost.XGBRegressor(n_estimators=2, max_depth=2, n_jobs=1).fit(X, X["a"])
    with pytest.raises(
        tp.errors.InvalidInputError,
        match=r"n_bootstrap must be a whole number of at least 0, got -1",
    ):
        audit(model, X, n_bootstrap=-1)
    with pytest.raises(tp.errors.InvalidInputError, match=r"of at least 0, got 2\.5"):
        audit(model, X, n_bootstrap=2.5)
    with pytest.raises(
        tp.errors.InvalidInputError, match="seed must be a whole number of at least 0"
    ):
        audit(model, X, seed=-1)
    with pytest.raises(
        tp.errors.InvalidInputError, match="sample_weight must have one number per row"
    ):
        audit(model, X, sample_weight=["one"] * len(X))
    with pytest.raises(tp.errors.InvalidInputError, match="pass X"):
        audit(model, None)
    with pytest.raises(tp.errors.InvalidInputError, match=r"threshold must be .* between 0 and 1"):
        audit(model, X, threshold=0.0, n_bootstrap=0, measures=[], progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="weights must be one of"):
        audit(model, X, measures=["mean"], n_bootstrap=0, progress=False)


def test_every_argument_is_checked_before_the_model_is_purified(X, monkeypatch):
    monkeypatch.setattr(audit_module, "purify", lambda *_, **__: pytest.fail("purified"))
    y = (X["a"] > 0).to_numpy()
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X, y.astype(int))
    words = np.where(y, "yes", "no")
    for options, message in (
        ({"held_out": (X, words)}, "y must contain 0 and 1"),
        ({"held_out": (X, y[:-1])}, "one observation per row"),
        ({"held_out": (X[["a"]], y)}, "columns"),
        ({"held_out": (X, y, np.full(len(y), -1.0))}, "weight"),
        ({"held_out": X}, "held_out must be rows and their targets"),
        ({"measures": ["laplas"]}, "weights must be one of"),
        ({"threshold": 2.0}, "threshold"),
        ({"memory_budget": 0}, "memory_budget"),
    ):
        with pytest.raises(tp.errors.InvalidInputError, match=message):
            audit(model, X, progress=False, **options)

    def batches():
        return (X.assign(bought=y)[start : start + 500] for start in range(0, N_ROWS, 500))

    with pytest.raises(tp.errors.InvalidInputError, match="pass its name, got 'sold'"):
        audit(model, lambda: (X[i : i + 500] for i in (0, 500)), held_out=(batches, "sold"))


def test_evidence_without_other_measures(X):
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1).fit(X, X["a"] * X["b"])
    d = tp.purify(model, X)
    audited = with_findings(Audit(d))
    assert audited.comparisons == {}
    assert {finding.kind for finding in audited.findings} >= {"hidden effect"}


def test_checks_say_what_was_looked_for_and_not_found(X, tmp_path):
    y = (X["a"] * X["b"]).to_numpy()
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=2, n_jobs=1).fit(X, y)
    audited = audit(
        model, X, measures=["uniform"], n_bootstrap=3, seed=5, held_out=(X, y), progress=False
    )
    d = audited.decomposition
    assert [check.kind for check in audited.checks] == list(get_args(FindingKind))
    for check in audited.checks:
        assert check.n_found == sum(f.kind == check.kind for f in audited.findings)
    by_kind = {check.kind: check for check in audited.checks}
    assert by_kind["distribution"].among == f"{len(d)} effects under uniform"
    assert by_kind["instability"].among.endswith("3 draws of the rows")
    assert by_kind["no worth"].among.endswith(f"{len(X)} held-out rows")
    assert by_kind["training"].result == "not checked: one training was passed"
    page = tp.report.write_html(d, tmp_path / "a.html", top=0, audit=audited)
    section = Page(page)["Checks made"]
    facts = dict(section.facts)
    assert (facts["Draws of the rows"], facts["Draws of these rows"]) == (
        "3, seed 5",
        "200, seed 5",
    )
    assert audited.worth.rows_fingerprint in facts["Held-out rows"]
    assert "nothing found" in section.text
    changed = audit(model, X, measures=[], n_bootstrap=0, held_out=(X, y + 1), progress=False)
    assert changed.worth.rows_fingerprint != audited.worth.rows_fingerprint


def test_findings_keep_the_rules_that_are_stated():
    """Each finding of a model of few rows satisfies the rule of its kind, in its numbers."""
    rng = np.random.default_rng(0)
    few = rng.normal(size=(150, 4))
    y = few[:, 0] * few[:, 1] + few[:, 2] + rng.normal(size=150)
    model = xgboost.XGBRegressor(n_estimators=40, max_depth=2, n_jobs=1).fit(few, y)
    threshold = 0.02
    options = {"n_bootstrap": 4, "threshold": threshold, "progress": False}
    audited = audit(model, few, weights="empirical", **options)
    least = {
        "hidden effect": threshold,
        "collinear effects": threshold,
        "dominant interaction": threshold,
        "only in interactions": threshold,
        "few rows": threshold,
        "jumps": threshold,
        "distribution": threshold**2,
        "contradiction": 0.1 * threshold,
        "instability": 0.09 * threshold,
        "spurious interaction": threshold * 0.9,
        "extrapolation": threshold**2,
        "identifiability": threshold,
    }
    assert len({finding.kind for finding in audited.findings}) > 3
    for finding in audited.findings:
        assert finding.severity >= least[finding.kind] - 1e-12
    d = audited.decomposition
    places = tp.compare(d.as_trained(), d).places
    for finding in audited.findings:
        if finding.kind == "contradiction":
            assert finding.where in set(places["where"])


def test_a_pair_that_depends_on_the_measure_is_drawn_under_both(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=400)
    rows = np.column_stack([a, a + 0.3 * rng.normal(size=400)])
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1)
    model.fit(rows, rows[:, 0] * rows[:, 1])
    audited = audit(model, rows, measures=["uniform"], n_bootstrap=0, progress=False)
    (what,) = [f for f in audited.findings if f.kind == "distribution" and len(f.subset) == 2]
    page = tp.report.write_html(audited.decomposition, tmp_path / "a.html", top=9, audit=audited)
    text = Page(page)["Findings"].text
    for measure in ("smoothed rows", "uniform"):
        assert f"x0 & x1 under {measure}." in text
    assert tp.plots.finding(audited, what).get_title(loc="right") == "distribution: under uniform"


def test_rows_of_weight_zero_change_no_instability(X):
    few = X[:100]
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=2, n_jobs=1)
    model.fit(few, few["a"] * few["b"] + few["c"])
    more = pd.concat([few, X[100:1000]], ignore_index=True)
    weights = np.repeat([1.0, 0.0], [100, 900])
    options = {"weights": "empirical", "measures": [], "n_bootstrap": 3, "progress": False}
    alone = audit(model, few, **options)
    among = audit(model, more, sample_weight=weights, **options)
    assert found(alone, "instability")
    assert found(among, "instability") == found(alone, "instability")
    spread = {f.subset: f.numbers for f in alone.findings if f.kind == "instability"}
    for finding in among.findings:
        if finding.kind == "instability":
            assert finding.numbers == pytest.approx(spread[finding.subset])


def test_a_resample_draws_rows_with_the_same_chance():
    # As many draws by weight would be the heavy row nearly always, and no effect would move.
    weights = np.ones(100)
    weights[3] = 1e6
    drawn = _drawn_again(np.random.default_rng(0), weights)
    times = np.random.default_rng(0).multinomial(100, np.full(100, 0.01))
    np.testing.assert_array_equal(drawn, times * weights)


def test_another_leading_effect_under_another_measure_is_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"a": rng.choice([0.0, 1.0], 1000, p=[0.95, 0.05]), "b": rng.normal(size=1000)}
    ).assign(c=rng.normal(size=1000))
    # The main effect of `b` is 1.65 b, and 3 b where `a` is as often 1 as 0; that of `c` is 2 c.
    y = 3 * (X["a"] + 0.5) * X["b"] + 2 * X["c"]
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=2, n_jobs=1).fit(X, y)
    audited = audit(model, X, n_bootstrap=0, measures=["uniform"], progress=False)
    (what,) = [finding for finding in audited.findings if finding.kind == "distribution"]
    assert "The largest effect is c here, but b under 'uniform'." in what.sentence


def test_features_that_identify_rows_are_findings(X):
    few = X[:400].assign(
        number=np.random.default_rng(1).permutation(400) + 7,
        label=pd.Categorical([f"row {i}" for i in range(400)]),
        unused=np.arange(400),
        year=np.arange(400) // 2,
    )
    noise = np.random.default_rng(2).normal(size=400)
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1, enable_categorical=True)
    names = ["a", "number", "label", "year", "unused"]
    model.set_params(interaction_constraints=[["a"], ["number"], ["label"], ["year"]])
    y = few["a"] + noise
    audited = audit(model.fit(few[names], y), few[names], n_bootstrap=0, measures=[])
    (finding,) = [found for found in audited.findings if found.kind == "identifier"]
    d = audited.decomposition
    used = {name for subset in d.components for name in np.array(d.feature_names)[list(subset)]}
    assert found(audited, "identifier") == {"number", "label"} & used != set()
    assert finding.to_do in str(audited)
    # A tenth of the rows counts: these values differ, too, but are too few to say so.
    weights = np.where(np.arange(400) < 40, 1.0, 0.0)
    small = audit(model, few[names], sample_weight=weights, n_bootstrap=0, measures=[])
    assert not found(small, "identifier")


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_the_first_line_says_whether_stored_pairs_are_pure(X, share):
    ebm = plant(clean_ebm(X), X, share=share)
    audited = audit(ebm, X, weights="empirical", n_bootstrap=0, measures=[], progress=False)
    first = audited.summary()[0]
    if not share:
        assert first.startswith("The stored pairs are pure")
        return
    # The planted pair is a main effect of `a`, and nothing else.
    assert first == (
        "The stored pairs are not pure: up to 100% of a pair's variance is a main effect of one "
        "side (a in a & b)."
    )
