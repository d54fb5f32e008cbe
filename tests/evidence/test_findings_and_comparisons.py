"""Several trainings in an audit and in a comparison."""

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp

QUIET = {"progress": False}


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    X = rng.integers(4, size=(400, 3)).astype(float)
    y = 2 * X[:, 0] + X[:, 1] * (X[:, 1] > 1) + 3 * rng.normal(size=400)
    estimator = GradientBoostingRegressor(max_depth=2, n_estimators=20)
    return X, y, tp.refit(estimator, X, y, n=6, **QUIET)


def test_an_audit_says_which_effects_depend_on_the_training(world):
    X, _, models = world
    audit = tp.audit(models, X, n_bootstrap=2, measures=["uniform"], threshold=0.002, **QUIET)
    found = {finding.subset: finding for finding in audit.findings if finding.kind == "training"}
    d = audit.decomposition
    total = sum(d.covariances.values())
    for subset in d:
        between = d.spread.training_variance(subset)[0]
        variance = d[subset].variance[0]
        is_large = max(between, variance) >= 0.002 * total[0]
        is_unsure = between >= 0.09 * variance or (subset, 0) in d.spread.no_clear_sign()
        missing = d.spread.present()[subset][0] < 1
        assert (subset in found) == bool(is_large and (is_unsure or missing))
        if subset in found:
            relative = found[subset].numbers["relative_change"]
            np.testing.assert_allclose(relative, np.sqrt(between / variance))
            assert "depends on the training: 6" in found[subset].sentence
    # What is made of noise is found, and the strong main effect is not.
    assert found
    assert (0,) not in found
    assert "training" in str(audit)


def test_a_single_model_has_no_such_findings(world):
    X, _, models = world
    audit = tp.audit(models[0], X, n_bootstrap=0, measures=[], **QUIET)
    assert not [finding for finding in audit.findings if finding.kind == "training"]
    assert audit.trainings is None


def test_a_comparison_has_the_spread_of_each_side(world):
    X, y, models = world
    more = tp.refit(GradientBoostingRegressor(max_depth=1), X, y, n=4, seed=1, **QUIET)
    a, b = (
        tp.purify(models, X, weights="empirical", **QUIET),
        tp.purify(more, X, weights="empirical", **QUIET),
    )
    compared = tp.compare(a, b, X)
    for row, subset in zip(compared.terms.to_dict("records"), compared.subsets, strict=True):
        first = a.spread.training_variance(subset)[0]
        second = b.spread.training_variance(subset)[0] if subset in b.spread.stacked else np.nan
        np.testing.assert_allclose(row["spread_first"], np.sqrt(first))
        np.testing.assert_allclose(row["spread_second"], np.sqrt(second))
        expected = row["distance"] / np.sqrt(np.nansum([first, second]))
        np.testing.assert_allclose(row["distance_in_spreads"], expected)
    n_beyond = int((compared.terms["distance_in_spreads"] > 1).sum())
    assert f"{n_beyond} of {len(compared.terms)} effects differ by more than the spread" in str(
        compared
    )


def test_a_comparison_of_single_models_has_none(world):
    X, _, models = world
    a, b = (tp.purify(model, X, weights="empirical", **QUIET) for model in models[:2])
    assert "spread_first" not in tp.compare(a, b, X).terms
    apparent = tp.purify(models, X, weights="empirical", **QUIET).as_trained()
    assert apparent.spread is None


def test_the_figure_of_a_finding_shows_the_band(world):
    pytest.importorskip("matplotlib", reason="draws figures")
    X, _, models = world
    audit = tp.audit(models, X, n_bootstrap=0, measures=[], threshold=1e-5, **QUIET)
    for finding in audit.findings:
        if finding.kind == "training" and len(finding.subset) == 1:
            legend = tp.plots.finding(audit, finding).get_legend()
            assert "90% band for one more training" in [
                text.get_text() for text in legend.get_texts()
            ]
            return
    raise AssertionError("no main effect depends on the training")


def test_a_bootstrap_holds_one_more_of_its_kind_and_its_standard_error_does_not():
    """Fifty small trainings, at rates far enough from one another that chance cannot turn them."""
    rng = np.random.default_rng(0)
    tree = DecisionTreeRegressor(max_depth=2)
    held, held_by_error = [], []
    for seed in range(50):
        X = rng.integers(3, size=(150, 2)).astype(float)
        y = X[:, 0] + rng.normal(size=150)
        d = tp.purify(
            tp.refit(tree, X, y, n=9, seed=seed, **QUIET), X, weights="empirical", **QUIET
        )
        values = d.spread.values(0)[..., 0]
        one, others = values[-1], values[:-1]
        deviation = others.std(axis=0, ddof=1)
        half = stats.t.ppf(0.95, 7) * deviation
        inside = np.abs(one - others.mean(axis=0)) <= half * np.sqrt(1 + 1 / 8)
        held.append(np.mean(inside))
        held_by_error.append(np.mean(np.abs(one - others.mean(axis=0)) <= half / np.sqrt(8)))
    error = np.std(held, ddof=1) / np.sqrt(50)
    assert abs(np.mean(held) - 0.9) <= 3 * error
    assert np.mean(held_by_error) < 0.7
