"""Simplified decompositions: what each step of the path holds, and which step is taken."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.metrics import mean_squared_error, roc_auc_score

import treepurify as tp
from treepurify.errors import InvalidInputError


def decomposition(n_features=4, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, n_features)).round(1)
    X[:, 1] += X[:, 0]
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X))
    model = GradientBoostingRegressor(max_depth=2, n_estimators=60, random_state=0)
    d = tp.purify(
        model.fit(X[:400], y[:400]), X[:400], progress=False, **{"weights": "empirical", **options}
    )
    return d, X[400:], y[400:]


@pytest.mark.parametrize("absorb", [False, "main", True])
@pytest.mark.parametrize("hierarchical", [True, False])
def test_each_step_is_the_decomposition_with_what_it_keeps(absorb, hierarchical):
    d, X, y = decomposition(3)
    simple = tp.simplify(d, X, y, absorb=absorb, hierarchical=hierarchical, progress=False)
    assert simple.steps[0].kept == tuple(d)
    assert simple.steps[-1].kept == ()
    for before, step in zip(simple.steps, simple.steps[1:], strict=False):
        assert set(before.kept) == {*step.kept, *step.left_out}
        edited = d.only(*map(d.term_name, step.kept), absorb=absorb)
        assert step.loss == pytest.approx(mean_squared_error(y, edited.predict(X)), abs=1e-7)
        if hierarchical:
            assert all((j,) in step.kept for subset in step.kept for j in subset)


def test_the_fewest_effects_within_the_tolerance_are_taken():
    d, X, y = decomposition()
    for tolerance in (0.0, 0.01, 0.5, 100.0):
        simple = tp.simplify(d, X, y, tolerance=tolerance, progress=False)
        frame = simple.to_frame()
        within = frame[frame["loss"] <= simple.model_loss * (1 + tolerance)]
        assert len(simple.decomposition) == within["n_effects"].min()
        loss = mean_squared_error(y, simple.decomposition.predict(X))
        assert loss == pytest.approx(simple.steps[simple.chosen].loss, abs=1e-7)
    assert len(simple.decomposition) == 0
    assert set(simple.at(2)) == set(next(s.kept for s in simple.steps if len(s.kept) <= 2))


def test_a_step_leaves_out_what_costs_least():
    d, X, y = decomposition()
    simple = tp.simplify(d, X, y, absorb=False, hierarchical=False, progress=False)
    kept = set(d)
    for step in simple.steps[1:]:
        losses = {
            subset: mean_squared_error(y, d.only(*map(d.term_name, kept - {subset})).predict(X))
            for subset in kept
        }
        assert step.left_out == (min(losses, key=losses.get),)
        kept -= set(step.left_out)


def test_many_effects_go_by_tenths():
    d, X, y = decomposition(9)
    simple = tp.simplify(d, X, y, progress=False)
    assert len(d) > 30
    sizes = [len(step.left_out) for step in simple.steps]
    assert sizes[1] == len(d) // 10
    assert sum(sizes) == len(d)
    assert {
        size for step, size in zip(simple.steps, sizes, strict=True) if len(step.kept) < 26
    } == {1}
    assert {(0,), (2,)} <= set(simple.decomposition)
    assert len(simple.decomposition) < len(d) / 2


def test_what_others_absorb_costs_nothing():
    """Of two copies of a feature one can go, though each alone is worth much."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    X = np.stack([x, x + 1e-9 * rng.normal(size=600), rng.normal(size=600)], axis=1)
    y = x + 0.5 * X[:, 2] + 0.1 * rng.normal(size=600)
    model = GradientBoostingRegressor(max_depth=1, max_features=1, random_state=0)
    d = tp.purify(model.fit(X[:300], y[:300]), X[:300], weights="empirical", progress=False)
    simple = tp.simplify(d, X[300:], y[300:], tolerance=0.1, progress=False)
    alone = tp.simplify(d, X[300:], y[300:], tolerance=0.1, absorb=False, progress=False)
    assert len(simple.decomposition) == 2
    assert len(alone.decomposition) == 3


def test_any_loss_and_weights():
    d, X, y = decomposition(3)
    weights = np.random.default_rng(2).uniform(0.5, 2, size=len(y))

    def loss(y, predicted, sample_weight):
        return 1 - roc_auc_score(y > 0, predicted, sample_weight=sample_weight)

    simple = tp.simplify(d, X, y, loss=loss, sample_weight=weights, progress=False)
    assert simple.loss == "loss"
    expected = loss(y, simple.decomposition.predict(X), weights)
    assert simple.steps[simple.chosen].loss == pytest.approx(expected, abs=1e-6)
    assert np.isnan(simple.steps[0].rise_error)


def test_the_remainder_is_one_of_the_effects():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X[:, 0] + rng.normal(size=600)
    model = GradientBoostingRegressor(max_depth=3, n_estimators=20, random_state=0)
    d = tp.purify(model.fit(X[:300], y[:300]), X[:300], weights="empirical", progress=False)
    simple = tp.simplify(d, X[300:], y[300:], progress=False)
    assert () in {subset for step in simple.steps for subset in step.left_out}
    assert simple.decomposition.remainder is None
    loss = mean_squared_error(y[300:], simple.decomposition.predict(X[300:]))
    assert loss == pytest.approx(simple.steps[simple.chosen].loss, abs=1e-9)
    assert "remainder" in " ".join(simple.to_frame()["left_out"])


def test_a_feature_called_remainder_is_not_the_remainder():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X.prod(axis=1) + X[:, 0]
    model = GradientBoostingRegressor(max_depth=4, n_estimators=20, random_state=0).fit(X, y)
    names = ["remainder", "b", "c"]
    d = tp.purify(model, X, weights="empirical", order=2, feature_names=names, progress=False)
    assert d.remainder is not None
    simple = tp.simplify(d, X, y, tolerance=0.3, progress=False)
    for step in simple.steps:
        found = simple.at(len(step.kept))
        assert {*found, *([()] if found.remainder is not None else [])} == set(step.kept)
    chosen = simple.steps[simple.chosen]
    assert {*simple.decomposition} == {subset for subset in chosen.kept if subset}
    other = X.copy()
    other[:, 1] = rng.permutation(X[:, 1])
    without = tp.without_features(d, "b")
    np.testing.assert_array_equal(without.predict(other), without.predict(X))
    assert (0,) in without


def test_independent_effects_and_measures_without_rows():
    for weights, absorb in (("independent", True), ("laplace", "auto")):
        d, X, y = decomposition(3, weights=weights)
        simple = tp.simplify(d, X, y, absorb=absorb, progress=False)
        loss = mean_squared_error(y, simple.decomposition.predict(X))
        assert loss == pytest.approx(simple.steps[simple.chosen].loss)
    with pytest.raises(InvalidInputError, match="purify the model under its rows"):
        tp.simplify(d, X, y, absorb=True, progress=False)


def test_the_summary_names_what_is_kept():
    d, X, y = decomposition(3)
    simple = tp.simplify(d, X, y, tolerance=0.02, progress=False)
    text = str(simple)
    assert f"{len(simple.decomposition)} of {len(d)} effects are within 2.00%" in text
    assert "Kept: x0" in text
    best = min(step.loss for step in simple.steps)
    assert best == simple.model_loss
    assert simple.summary()[0] == (
        f"Removing effects does not improve the squared error on 500 held-out rows: {best:.4g}."
    )
    assert "<table" in simple._repr_html_()


def test_a_step_of_the_path_keeps_to_the_budget_and_says_what_was_absorbed():
    d, X, y = decomposition(3)
    said = {}
    for absorb in (False, "main", True):
        simple = tp.simplify(d, X, y, absorb=absorb, tolerance=1.0, progress=False)
        (said[absorb],) = (line for line in simple.summary() if "adjusted" in line)
        if absorb:
            with pytest.raises(tp.errors.MemoryBudgetError):
                simple.at(2, memory_budget=1)
    assert said[False] == "The remaining effects were not adjusted."
    assert said["main"].startswith("The remaining main effects were adjusted")
    assert said[True].startswith("The remaining effects were adjusted")


def test_what_matters_most_is_said_first():
    """Trained on noise, the model is better without most of its effects."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] + 2 * rng.normal(size=400)
    model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X[:150], y[:150])
    simple = tp.simplify(tp.purify(model, X[:150]), X[150:], y[150:], progress=False)
    best = min(simple.steps, key=lambda step: step.loss)
    first = simple.summary()[0]
    assert best.loss < simple.model_loss
    assert "improves the squared error on 250 held-out rows" in first
    assert f"from {simple.model_loss:.4g} to {best.loss:.4g}, with {len(best.kept)} of" in first
