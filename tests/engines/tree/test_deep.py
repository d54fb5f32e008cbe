"""Deep ensembles: the closed form and the projection, against dense truths."""

from itertools import combinations

import numpy as np
import pytest

import treepurify as tp
from tests.engines.tree.test_purify import WEIGHTINGS, assert_equal_components, scene, truth
from tests.reference.ensembles import complete_ensemble, values_in_cells
from tests.reference.projection import paths_of, products_of
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.engines.tree.closed_form import BoxComponent
from treepurify.grids.grid import make_grid

PRODUCTS = ("independent", "uniform", "uniform by length", "uniform with missing")
DEEP = {"n_features": 4, "depth": 6, "n_categorical": 1, "n_codes": 3}


def purify(ensemble, X, **options):
    return tp.purify(ensemble, X, progress=False, **{"weights": "empirical", **options})


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(
    "options",
    [DEEP, {"n_features": 3, "depth": 6, "n_outputs": 2, "vector_leaves": True, "missing": True}],
)
def test_closed_form_equals_the_dense_anova(name, options):
    if name.startswith("uniform") and name != "uniform with missing":
        # The dense truth says nothing about cells without mass.
        options = options | {"missing": False}
    ensemble, X = scene(3, n_trees=12, **options)
    expected, _, _ = truth(ensemble, X, WEIGHTINGS[name])
    scale = max(np.abs(values).max() for values in expected.values())
    d = purify(ensemble, X, weights=WEIGHTINGS[name], order=None, method="closed-form")
    assert d.remainder is None
    assert max(len(subset) for subset in d) > 2
    assert_equal_components(d, expected, atol=1e-12 * scale)
    assert d.certificate.conditional_mean <= 1e-13
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-10 * scale)


@pytest.mark.parametrize("name", PRODUCTS[:2])
def test_larger_components_are_evaluated_without_tables(name, monkeypatch):
    from treepurify.engines.tree import closed_form

    ensemble, X = scene(4, n_trees=10, **DEEP)
    tables = purify(ensemble, X, weights=WEIGHTINGS[name], order=None)
    fits = closed_form.check_memory

    def small(axes, n_outputs, memory_budget):
        axes = list(axes)
        if axes and len(axes[0]) > 2:
            raise tp.errors.MemoryBudgetError("too large for this test")
        fits(axes, n_outputs, memory_budget)

    monkeypatch.setattr(closed_form, "check_memory", small)
    rows = purify(ensemble, X, weights=WEIGHTINGS[name], order=None)
    assert set(rows) == set(tables)
    boxes = [subset for subset in rows if isinstance(rows.components[subset], BoxComponent)]
    assert {len(subset) for subset in boxes} == {3, 4}
    for subset in boxes:
        own, other = rows.components[subset], tables.components[subset]
        np.testing.assert_allclose(own.on_rows(X), other.on_rows(X), atol=1e-12)
        np.testing.assert_allclose(own.variance, other.variance, atol=1e-13)
    np.testing.assert_allclose(rows.on_rows(X), ensemble.margin(X), atol=1e-10)
    three = purify(ensemble, X, weights=WEIGHTINGS[name], order=3)
    assert isinstance(three.components[boxes[0]], BoxComponent)
    np.testing.assert_allclose(three.on_rows(X), ensemble.margin(X), atol=1e-10)
    parts = three.contributions(X)
    np.testing.assert_allclose(parts["remainder"], three.remainder.on_rows(X)[:, 0], atol=1e-12)


def test_variance_by_order_and_total_indices_are_those_of_the_components():
    ensemble, X = scene(6, n_trees=10, n_features=4, depth=5, n_outputs=2)
    d = purify(ensemble, X, weights="independent", order=None)
    indices = tp.interaction_indices(ensemble, X, progress=False)
    assert indices.sampled_rows == 0
    _, joint, grid = truth(ensemble, X, WEIGHTINGS["independent"])
    values = values_in_cells(ensemble, grid)
    mean = np.tensordot(joint, values, axes=4)
    whole = np.tensordot(joint, (values - mean) ** 2, axes=4)
    np.testing.assert_allclose(indices.variance, whole, rtol=1e-12)
    variance = {subset: component.variance for subset, component in d.components.items()}
    for k in range(2):
        for order in range(1, indices.variance_by_order.shape[1] + 1):
            own = sum(v[k] for s, v in variance.items() if len(s) == order)
            assert indices.variance_by_order[k, order - 1] == pytest.approx(own, abs=1e-12)
        for i, j in combinations(range(4), 2):
            total = sum(v[k] for s, v in variance.items() if {i, j} <= set(s))
            assert indices.pair_total[k, i, j] == pytest.approx(total, abs=1e-12)
            assert indices.pair_total[k, j, i] == indices.pair_total[k, i, j]
        for i in range(4):
            total = sum(v[k] for s, v in variance.items() if i in s)
            assert indices.feature_total[k, i] == pytest.approx(total, abs=1e-12)
    table = indices.pairs(output=1)
    assert table.total.is_monotonic_decreasing
    assert set(zip(table["first"], table["second"], strict=True)) <= {
        (f"x{i}", f"x{j}") for i, j in combinations(range(4), 2)
    }


def test_remainder_holds_what_lies_above_and_gives_it_out():
    ensemble, X = scene(3, n_trees=12, **DEEP)
    everything = purify(ensemble, X, weights="independent", order=None)
    d = purify(ensemble, X, weights="independent")
    assert max(len(subset) for subset in d) == 2
    above = [s for s in everything if len(s) > 2]
    total = sum(everything.components[s].variance for s in above)
    np.testing.assert_allclose(d.remainder.variance, total, rtol=1e-9)
    expected = sum(everything.components[s].on_rows(X) for s in above)
    np.testing.assert_allclose(d.remainder.on_rows(X), expected, atol=1e-11)
    subset = above[0]
    np.testing.assert_allclose(
        d[subset].on_rows(X), everything.components[subset].on_rows(X), atol=1e-12
    )
    assert d.diagnostics["variance"]["exact"]
    assert d.importance().share.sum() == pytest.approx(1)
    share = 1 - d.remainder.on_rows(X).var() / ensemble.margin(X).var()
    assert d.r_squared(X)[0] == pytest.approx(share, abs=0.1)


def test_interactions_on_request():
    ensemble, X = scene(3, n_trees=12, **DEEP)
    everything = purify(ensemble, X, weights="independent", order=None)
    d = purify(ensemble, X, weights="independent", interactions=[("x1", "x0"), (0, 1, 2)], order=3)
    assert {s for s in d if len(s) > 1} == {(0, 1), (0, 1, 2)}
    for subset in d:
        np.testing.assert_allclose(
            d.components[subset].values, everything.components[subset].values, atol=1e-12
        )
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-11)
    with pytest.raises(tp.errors.InvalidInputError, match="two or more different features"):
        purify(ensemble, X, weights="empirical", interactions=["x0"])
    with pytest.raises(tp.errors.InvalidInputError, match="no feature 'age'; the model has 'x0'"):
        purify(ensemble, X, weights="empirical", interactions=[("age", "x0")])


@pytest.mark.parametrize("weights", ["independent", "empirical"])
def test_the_strongest_pairs_on_request(weights):
    ensemble, X = scene(8, n_trees=20, n_features=5, depth=4, n_outputs=2, vector_leaves=True)
    indices = tp.interaction_indices(ensemble, X, progress=False)
    share = np.max(indices.pair_total / indices.variance[:, None, None], axis=0)
    pairs = sorted(zip(*np.triu_indices(5, 1), strict=True), key=lambda pair: -share[pair])
    d = purify(ensemble, X, weights=weights, interactions=3)
    assert {subset for subset in d if len(subset) == 2} == {tuple(map(int, p)) for p in pairs[:3]}
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-10)
    with pytest.raises(tp.errors.InvalidInputError, match="positive number of pairs"):
        purify(ensemble, X, weights="empirical", interactions=0)


@pytest.mark.parametrize("weights", ["independent", "empirical", "laplace"])
@pytest.mark.parametrize("method", ["auto", "exact"])
def test_too_large_a_model_is_refused_before_work_starts(weights, method):
    """Paths of twelve features have millions of subsets: nothing may list them."""
    rng = np.random.default_rng(0)
    ensemble = complete_ensemble(rng, n_features=500, depth=12, n_trees=20)
    X = rng.normal(size=(200, 500))
    for budget, order in [(1 << 23, 1), (1 << 27, 2 if weights == "laplace" else 3)]:
        with pytest.raises(tp.errors.MemoryBudgetError, match="more than the memory budget"):
            purify(ensemble, X, weights=weights, method=method, order=order, memory_budget=budget)


def test_a_wide_forest_has_its_main_effects():
    """Paths of many features: no route may list all their subsets first."""
    rng = np.random.default_rng(1)
    ensemble = complete_ensemble(rng, n_features=60, depth=11, n_trees=4)
    X = rng.normal(size=(300, 60))
    for weights, method in [
        ("empirical", "coarse"),
        ("laplace", "projection"),
        ("independent", "closed-form"),
    ]:
        d = purify(ensemble, X, weights=weights, order=1)
        assert d.diagnostics["method"] == method
        np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-10)


@pytest.mark.parametrize("weights", ["empirical", "laplace"])
@pytest.mark.parametrize("missing", [False, True])
def test_projection_of_a_shallow_ensemble_is_the_exact_result(weights, missing):
    ensemble, X = scene(
        8, n_trees=30, n_features=4, depth=2, n_categorical=1, n_outputs=2, missing=missing
    )
    sample_weight = np.random.default_rng(0).exponential(size=len(X))
    exact = purify(ensemble, X, weights=weights, sample_weight=sample_weight, method="exact")
    projected = purify(
        ensemble,
        X,
        weights=weights,
        sample_weight=sample_weight,
        method=tp.options.TreeProjection(1e-13),
    )
    assert projected.diagnostics["method"] == "projection"
    scale = exact.certificate.scale
    np.testing.assert_allclose(projected.intercept, exact.intercept, atol=1e-9 * scale)
    for subset in exact:
        found = projected.components[subset].values
        np.testing.assert_allclose(found, exact.components[subset].values, atol=1e-9 * scale)
    assert np.abs(projected.remainder.on_rows(X)).max() <= 1e-9 * scale
    np.testing.assert_allclose(projected.on_rows(X), ensemble.margin(X), atol=1e-12 * scale)


def dense_projection(ensemble, X, order):
    """Least squares of one tree on the products of its splits."""
    columns = ensemble.columns(X)
    grid, rows = make_grid(columns, ensemble.features, ensemble_cuts(ensemble), match_names=False)
    margins = [
        np.bincount(rows.codes[j], minlength=axis.n_cells) / len(X)
        for j, axis in enumerate(grid.axes)
    ]
    products = products_of(paths_of(ensemble, 0, grid, margins), order)
    design = np.ones((len(X), len(products)))
    for u, product in enumerate(products):
        for j, side in product:
            design[:, u] *= side[rows.codes[j]]
    return design @ np.linalg.lstsq(design, ensemble.margin(X), rcond=1e-12)[0]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_projection_of_one_tree_is_least_squares_on_its_products(order):
    # One tree: its own grid is the union grid.
    rng = np.random.default_rng(0)
    ensemble, X = scene(7, n_trees=1, n_features=5, depth=7, n_categorical=1, missing=True)
    assert len(ensemble.feature) > 10
    X = X[rng.integers(0, len(X), 300)]
    d = purify(
        ensemble, X, weights="empirical", order=order, method=tp.options.TreeProjection(1e-12)
    )
    fitted = d.on_rows(X) - d.remainder.on_rows(X)
    expected = dense_projection(ensemble, X, order)
    np.testing.assert_allclose(fitted, expected, atol=1e-9)
    r_squared = 1 - ((ensemble.margin(X) - expected) ** 2).mean() / ensemble.margin(X).var()
    assert d.diagnostics["projection"]["r_squared"][0] == pytest.approx(r_squared, abs=1e-9)


def test_projection_is_orthogonal_deterministic_and_kept():
    ensemble, X = scene(12, n_trees=40, n_features=5, depth=6, n_outputs=2, vector_leaves=True)
    first = purify(ensemble, X, weights="empirical", method="projection")
    again = purify(ensemble, X, weights="empirical", method="projection")
    assert first.certificate.cosine <= 1e-10
    assert first.certificate.conditional_mean <= 1e-12
    for subset in first:
        np.testing.assert_array_equal(
            first.components[subset].values, again.components[subset].values
        )
    turned = purify(ensemble, X[::-1], weights="empirical", method="projection")
    np.testing.assert_allclose(turned.on_rows(X[:50]), first.on_rows(X[:50]), atol=1e-12)
    table = first.importance(details=True)
    assert np.allclose(table.groupby("output").share.sum(), 1)


def test_deep_results_are_saved_with_their_remainder(tmp_path):
    ensemble, X = scene(12, n_trees=15, n_features=5, depth=5, n_categorical=1)
    for weights in ("empirical", "independent"):
        method = "projection" if weights == "empirical" else "closed-form"
        d = purify(ensemble, X, weights=weights, method=method)
        d.save(tmp_path / "deep.tpz")
        again = tp.load(tmp_path / "deep.tpz")
        np.testing.assert_array_equal(again.on_rows(X), d.on_rows(X))
        np.testing.assert_array_equal(again.remainder.variance, d.remainder.variance)


def test_routes_are_chosen_and_said():
    ensemble, X = scene(12, n_trees=15, n_features=5, depth=5)
    shallow, rows = scene(13, n_trees=15, n_features=3, depth=2)
    assert purify(shallow, rows, weights="empirical").diagnostics["method"] == "exact"
    assert purify(ensemble, X, weights="uniform").diagnostics["method"] == "closed-form"
    dense = purify(ensemble, np.tile(X, (8, 1)), weights="empirical")
    assert dense.diagnostics["method"] == "joint"
    assert purify(ensemble, X[:60], weights="empirical").diagnostics["method"] == "projection"
    # All orders are on the union grid only, however few rows there are.
    whole = purify(ensemble, X[:60], weights="empirical", order=None)
    assert whole.diagnostics["method"] == "exact"
    assert whole.remainder is None
    assert max(map(len, whole)) > 3
    with pytest.raises(tp.errors.InvalidInputError, match="all orders"):
        purify(ensemble, X, weights="empirical", method="projection", order=None)
    with pytest.raises(tp.errors.InvalidInputError, match="needs independent features"):
        purify(ensemble, X, weights="empirical", method="closed-form")
    with pytest.raises(tp.errors.InvalidInputError, match="needs rows"):
        purify(ensemble, X, weights="uniform", method="projection")
    with pytest.raises(tp.errors.InvalidInputError, match=r"order=4 is too high.*up to 3 features"):
        purify(ensemble, X, weights="empirical", method="projection", order=4)
    with pytest.raises(tp.errors.InvalidInputError, match="between 0 and 1"):
        tp.options.TreeProjection(0.0)


@pytest.mark.parametrize("weights", ["empirical", "independent"])
def test_deep_routes_say_how_far_the_model_is_from_its_library(weights):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 5))
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=5)
    model.fit(X, X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3])
    method = "projection" if weights == "empirical" else "closed-form"
    held = purify(model, X, weights=weights, method=method).certificate
    assert held.margin_error is not None
    assert held.margin_error <= 1e-6
    whole = purify(model, X, weights="independent", method="closed-form", order=None).certificate
    assert whole.additivity is not None
    assert whole.additivity <= 1e-12


def test_indices_need_independence():
    ensemble, X = scene(12, n_trees=3, n_features=3, depth=3)
    with pytest.raises(tp.errors.InvalidInputError, match="need independent features"):
        tp.interaction_indices(ensemble, X, weights="empirical")
