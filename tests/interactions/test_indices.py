"""Interaction indices from pairs of leaves and on sampled rows, against dense truths."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.engines.tree.test_purify import WEIGHTINGS, scene, truth
from tests.reference.ensembles import complete_ensemble
from treepurify.engines.tree import second_moments

SCENES = [
    {"n_features": 4, "depth": 5, "n_outputs": 2},
    {"n_features": 4, "depth": 6, "n_categorical": 2, "n_codes": 5},
    {"n_features": 3, "depth": 6, "n_outputs": 2, "vector_leaves": True, "missing": True},
    {"n_features": 4, "depth": 4, "n_categorical": 4, "n_codes": 4, "n_outputs": 3},
]


def ask(ensemble, X=None, **options):
    return tp.interaction_indices(ensemble, X, progress=False, **options)


def dense_variances(ensemble, X, weighting):
    """Variance of every component, from the values in all cells of the full grid."""
    components, joint, _ = truth(ensemble, X, weighting)
    found = {}
    for subset, values in components.items():
        others = tuple(j for j in range(joint.ndim) if j not in subset)
        mass = joint.sum(axis=others)
        found[subset] = np.tensordot(mass, values**2, axes=mass.ndim)
    return found


def assert_close(found, variances, atol):
    n_outputs, n_features = found.feature_total.shape
    zero = np.zeros(n_outputs)
    for order in range(1, found.variance_by_order.shape[1] + 1):
        own = sum((v for s, v in variances.items() if len(s) == order), zero)
        np.testing.assert_allclose(found.variance_by_order[:, order - 1], own, atol=atol)
    for i in range(n_features):
        own = sum((v for s, v in variances.items() if i in s), zero)
        np.testing.assert_allclose(found.feature_total[:, i], own, atol=atol)
    for i, j in combinations(range(n_features), 2):
        own = sum((v for s, v in variances.items() if {i, j} <= set(s)), zero)
        np.testing.assert_allclose(found.pair_total[:, i, j], own, atol=atol)
    np.testing.assert_array_equal(found.pair_total, found.pair_total.transpose(0, 2, 1))
    assert not found.pair_total[:, range(n_features), range(n_features)].any()


def force(monkeypatch, n_rows):
    """Sample so many rows; none for exact numbers."""
    monkeypatch.setattr(second_moments, "_n_rows", lambda *_: n_rows)


@pytest.mark.parametrize("weighting", ["independent", "uniform with missing"])
@pytest.mark.parametrize("options", SCENES)
def test_exact_indices_equal_the_dense_anova(weighting, options):
    ensemble, X = scene(5, n_trees=15, **options)
    found = ask(ensemble, X, weights=WEIGHTINGS[weighting])
    assert (found.method, found.sampled_rows) == ("pairs", 0)
    variances = dense_variances(ensemble, X, WEIGHTINGS[weighting])
    assert_close(found, variances, 1e-12 * found.variance.max())
    for errors in (found.standard_error, found.pair_standard_error, found.feature_standard_error):
        assert not errors.any()
    assert not found.variance_standard_error.any()


def test_cells_without_mass_and_constant_columns_change_nothing():
    ensemble, X = scene(7, n_features=4, depth=5, n_trees=15)
    few = X[:6].copy()
    few[:, 3] = few[0, 3]
    found = ask(ensemble, few)
    variances = dense_variances(ensemble, few, WEIGHTINGS["independent"])
    assert_close(found, variances, 1e-12 * found.variance.max())
    np.testing.assert_allclose(found.feature_total[:, 3], 0, atol=1e-13)
    one = ask(ensemble, few[:1])
    np.testing.assert_allclose(one.variance, 0, atol=1e-13)


def test_features_of_which_rows_show_one_cell_add_nothing():
    rng = np.random.default_rng(0)
    ensemble = complete_ensemble(rng, n_features=90, depth=3, n_trees=60)
    X = np.zeros((4, 90))
    X[:, :2] = [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    found = ask(ensemble, X)
    margin = ensemble.margin(X)[:, 0]
    assert found.variance[0] == pytest.approx(margin.var())
    interaction = (margin * [1, -1, -1, 1]).mean()
    assert found.pair_total[0, 0, 1] == pytest.approx(interaction**2, abs=1e-14)


@pytest.mark.parametrize("options", SCENES[:3])
def test_every_sampled_number_lies_within_its_errors(monkeypatch, options):
    ensemble, X = scene(6, n_trees=15, **options)
    exact = ask(ensemble, X)
    force(monkeypatch, 4000)
    deviations = []
    for seed in range(30):
        found = ask(ensemble, X, seed=seed)
        assert (found.method, found.sampled_rows) == ("rows", 4000)
        triples = [
            (found.variance, exact.variance, found.variance_standard_error),
            (found.variance_by_order, exact.variance_by_order, found.standard_error),
            (found.pair_total, exact.pair_total, found.pair_standard_error),
            (found.feature_total, exact.feature_total, found.feature_standard_error),
        ]
        columns = zip(*triples, strict=True)
        estimate, expected, error = (np.concatenate([own.ravel() for own in c]) for c in columns)
        known = error == 0
        np.testing.assert_allclose(estimate[known], expected[known], atol=1e-12)
        deviations.append((estimate - expected)[~known] / error[~known])
    scores = np.array(deviations)
    # Unbiased: the mean over 30 seeds has a thirtieth of the variance of one.
    assert np.abs(scores.mean(axis=0)).max() < 5 / np.sqrt(30)
    spread = scores.std(axis=0)
    assert spread.min() > 0.6
    assert spread.max() < 1.6


def test_rows_are_sampled_where_exact_numbers_are_too_much_work():
    rng = np.random.default_rng(1)
    ensemble = complete_ensemble(rng, n_features=8, depth=5, n_trees=20)
    X = rng.normal(size=(400, 8))
    n_pairs = 640**2
    exact, sampled = ask(ensemble, X, most_pairs=n_pairs), ask(ensemble, X, most_pairs=n_pairs // 8)
    assert exact.method == "pairs"
    assert (sampled.method, sampled.sampled_rows) == ("rows", 1000)
    again = ask(ensemble, X, most_pairs=n_pairs // 8)
    np.testing.assert_array_equal(sampled.pair_total, again.pair_total)
    frame = sampled.pairs()
    assert (frame["standard_error"] > 0).all()
    deviation = np.abs(sampled.pair_total - exact.pair_total)
    assert np.all(deviation <= 5 * sampled.pair_standard_error)


@pytest.mark.parametrize(
    ("option", "value"), [("most_pairs", 0), ("most_pairs", 1.5), ("seed", -1)]
)
def test_options_are_checked(option, value):
    ensemble, X = scene(1)
    with pytest.raises(tp.errors.InvalidInputError, match=option):
        ask(ensemble, X, **{option: value})


def test_h_statistics_say_how_their_shares_were_computed(monkeypatch):
    ensemble, X = scene(6, n_trees=15, n_features=4, depth=5)
    exact = tp.h_statistics(ensemble, X, progress=False)
    assert exact.diagnostics["purified"]["sampled_rows"] == 0
    force(monkeypatch, 20_000)
    sampled = tp.h_statistics(ensemble, X, progress=False)
    facts = sampled.diagnostics["purified"]
    assert facts["method"] == "rows"
    assert facts["sampled_rows"] > 0
    assert min(facts["feature_standard_error"][0]) > 0
    one, other = (h.features()["purified_share"].to_numpy() for h in (exact, sampled))
    np.testing.assert_allclose(one, other, atol=0.02)


@pytest.mark.parametrize("weights", ["independent", "uniform"])
def test_an_ebm_has_the_indices_of_the_trees_that_it_equals(weights):
    """The tables of the machine against the leaves of the ensemble that it was made from."""
    pytest.importorskip("interpret")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 1] += X[:, 0]
    model = GradientBoostingRegressor(n_estimators=12, max_depth=2, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    ebm = tp.export.to_ebm(tp.purify(model, X, weights="empirical", progress=False))
    weight = rng.uniform(0.5, 2.0, size=len(X)) if weights == "independent" else None
    options = {"weights": weights, "sample_weight": weight, "progress": False}
    expected = tp.interaction_indices(model, X, **options)
    found = tp.interaction_indices(ebm, X, **options)
    assert found.method == "tables"
    for name in ("variance_by_order", "feature_total", "pair_total"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)
    assert not found.standard_error.any()
    assert found.pairs()["total"].max() > 0
    with pytest.raises(tp.errors.InvalidInputError, match="independent features"):
        tp.interaction_indices(ebm, X, weights="empirical")


def test_indices_say_what_they_found_in_lines():
    x = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    model = GradientBoostingRegressor(max_depth=2, n_estimators=20, random_state=0)
    found = ask(model.fit(x, x[:, 0] * x[:, 1] + x[:, 2]), x)
    _, orders, pairs = repr(found).splitlines()
    first = found.pairs().iloc[0]
    assert f"{first['first']} & {first['second']} {first['share']:.2%}" in pairs
    assert f"{found.variance_by_order[0, 1] / found.variance[0]:.2%}" in orders
