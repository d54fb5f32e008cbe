"""The projection of many-leaved trees on coarse cells, against dense least squares."""

from itertools import combinations

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.engines.tree.coarse_projection import coarse_cuts, pairs_on_paths
from treepurify.engines.tree.table_fit import merge_cells
from treepurify.grids.axis import FeatureAxis


def rows(n_rows, n_features=4, seed=0):
    """Dependent features, one of them with few values."""
    rng = np.random.default_rng(seed)
    X = 0.7 * rng.normal(size=(n_rows, 1)) + 0.7 * rng.normal(size=(n_rows, n_features))
    X[:, -1] = np.round(X[:, -1])
    return X


def response(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * X[:, 0] * X[:, 3]


@pytest.fixture(scope="module")
def forest():
    X = rows(1500)
    return RandomForestRegressor(20, random_state=0).fit(X, response(X)), X


def indicators(cells):
    return np.eye(cells.max() + 1)[cells]


def assert_same(d, other):
    assert set(d.components) == set(other.components)
    np.testing.assert_allclose(d.intercept, other.intercept, atol=1e-8)
    for subset, component in d.components.items():
        np.testing.assert_allclose(component.values, other[subset].values, atol=1e-7)


def design(d, X, n_pair_cells):
    """Return indicators of the cells of main effects and of the coarse cells of pairs."""
    fine, coarse = {}, {}
    for j in range(X.shape[1]):
        axis, mass = d[j].axes[0], d[j].mass
        fine[j] = np.searchsorted(axis.cuts, X[:, j], side="right")
        coarse[j] = merge_cells(axis, mass, np.zeros(len(mass)), n_pair_cells)[fine[j]]
    pairs = [indicators(coarse[j] * 100 + coarse[k]) for j, k in combinations(range(X.shape[1]), 2)]
    return np.column_stack([*map(indicators, fine.values()), *pairs])


@pytest.mark.parametrize("pair_cells", [3, 6])
def test_components_add_up_to_the_least_squares_fit(forest, pair_cells):
    model, X = forest
    d = tp.purify(
        model,
        X,
        weights="empirical",
        method=tp.options.CoarseProjection(main_cells=12, pair_cells=pair_cells),
        progress=False,
    )
    cells = design(d, X, pair_cells)
    margin = model.predict(X)
    fitted = cells @ np.linalg.lstsq(cells, margin, rcond=None)[0]
    ours = d.intercept[0] + sum(part.on_rows(X)[:, 0] for part in d.components.values())
    np.testing.assert_allclose(ours, fitted, atol=1e-7)
    share = 1 - np.var(margin - fitted) / np.var(margin)
    np.testing.assert_allclose(d.diagnostics["projection"]["r_squared"], [share], atol=1e-9)
    np.testing.assert_allclose(d.predict(X), margin, atol=1e-10)


def test_pairs_are_orthogonal_to_main_effects_on_their_fine_cells(forest):
    model, X = forest
    d = tp.purify(model, X, weights="empirical", method="coarse", progress=False)
    for pair in [subset for subset in d.components if len(subset) == 2]:
        for j in pair:
            cells = np.searchsorted(d[j].axes[0].cuts, X[:, j], side="right")
            sums = np.bincount(cells, d[pair].on_rows(X)[:, 0])
            np.testing.assert_allclose(sums / len(X), 0, atol=1e-9)
    assert d.certificate.cosine < 1e-10
    assert not d.certificate.is_exact


def test_the_order_of_rows_and_repeated_rows_do_not_matter(forest):
    model, X = forest
    X = X[:400]
    order = np.random.default_rng(1).permutation(len(X))
    settings = tp.options.CoarseProjection(main_cells=10, pair_cells=4)
    d = tp.purify(model, X, weights="empirical", method=settings, progress=False)
    shuffled = tp.purify(model, X[order], weights="empirical", method=settings, progress=False)
    assert_same(d, shuffled)
    twice = np.where(np.arange(len(X)) < 100, 2.0, 1.0)
    weighted = tp.purify(
        model, X, weights="empirical", sample_weight=twice, method=settings, progress=False
    )
    repeated = tp.purify(
        model, np.vstack([X, X[:100]]), weights="empirical", method=settings, progress=False
    )
    assert_same(weighted, repeated)


@pytest.mark.parametrize("weight", [1e-300, 1e-20])
def test_rows_that_weigh_next_to_nothing_change_nothing(forest, weight):
    model, X = forest
    X = X[:400]
    is_light = np.random.default_rng(2).uniform(size=len(X)) < 0.5
    settings = tp.options.CoarseProjection(main_cells=10, pair_cells=6)
    light, without = (
        tp.purify(
            model,
            X,
            weights="empirical",
            sample_weight=np.where(is_light, small, 1.0),
            method=settings,
            progress=False,
        )
        for small in (weight, 0.0)
    )
    assert (
        light.diagnostics["projection"]["undetermined"]
        == (without.diagnostics["projection"]["undetermined"])
    )
    for subset, component in without.components.items():
        found = light[subset].on_rows(X[~is_light])
        np.testing.assert_allclose(found, component.on_rows(X[~is_light]), atol=1e-7)


@pytest.mark.parametrize(("seed", "decades"), [(0, 16), (42, 24), (32, 300)])
def test_weights_of_very_different_size_leave_a_fit(seed, decades):
    X = np.round(2 * rows(300))
    model = RandomForestRegressor(5, random_state=0).fit(X, response(X))
    weights = 10.0 ** np.random.default_rng(seed).uniform(-decades, 0, len(X))
    settings = tp.options.CoarseProjection(pair_cells=25)
    d = tp.purify(
        model, X, weights="empirical", sample_weight=weights, method=settings, progress=False
    )
    assert d.diagnostics["projection"]["r_squared"][0] > 0.9
    np.testing.assert_allclose(d.predict(X), model.predict(X), atol=1e-9)


def test_coarse_cells_are_taken_where_trees_have_many_leaves(forest):
    model, X = forest
    assert (
        tp.purify(model, X, weights="empirical", progress=False).diagnostics["method"] == "coarse"
    )
    shallow = RandomForestRegressor(5, max_depth=6, random_state=0).fit(X, response(X))
    assert (
        tp.purify(shallow, X, weights="empirical", progress=False).diagnostics["method"]
        == "projection"
    )


def test_main_effects_alone_are_fitted_on_the_fine_cells(forest):
    model, X = forest
    d = tp.purify(
        model,
        X,
        weights="empirical",
        order=1,
        method=tp.options.CoarseProjection(main_cells=9),
        progress=False,
    )
    cells = np.column_stack(
        [indicators(np.searchsorted(d[j].axes[0].cuts, X[:, j], side="right")) for j in range(4)]
    )
    fitted = cells @ np.linalg.lstsq(cells, model.predict(X), rcond=None)[0]
    ours = d.intercept[0] + sum(part.on_rows(X)[:, 0] for part in d.components.values())
    np.testing.assert_allclose(ours, fitted, atol=1e-8)


def test_classes_missing_values_and_categories():
    rng = np.random.default_rng(3)
    n = 4000
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(size=n)),
            "c": pd.Categorical(rng.choice(list("pqrstuvwxyz"), size=n)),
        }
    )
    y = (X["a"] * X["b"].fillna(1) + X["c"].cat.codes / 3 > 1.5).astype(int) + (X["a"] > 1)
    model = lightgbm.LGBMClassifier(
        n_estimators=3, num_leaves=400, min_child_samples=2, verbose=-1
    ).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    assert d.diagnostics["method"] == "coarse"
    assert d.n_outputs == 3
    raw = model.predict(X, raw_score=True)
    np.testing.assert_allclose(d.predict(X), raw, atol=1e-9)
    assert min(d.diagnostics["projection"]["r_squared"]) > 0.8
    assert d.certificate.cosine < 1e-9


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_forest_of_classes(n_classes):
    X = rows(1200, 5)
    y = np.digitize(response(X), np.quantile(response(X), np.arange(1, n_classes) / n_classes))
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical", method="coarse", progress=False)
    expected = model.predict_proba(X)
    expected = expected[:, 1] if n_classes == 2 else expected
    np.testing.assert_allclose(d.predict(X), expected, atol=1e-9)


def test_what_the_forest_adds_on_new_rows_is_explained():
    """Fitted on its own cells a full tree describes single rows, and new rows tell."""
    X, new = rows(3000, 6), rows(3000, 6, seed=1)
    model = ExtraTreesRegressor(30, random_state=0).fit(X, response(X))
    d = tp.purify(model, X, weights="empirical", progress=False)
    assert d.diagnostics["method"] == "coarse"
    assert d.r_squared(new)[0] > 0.9
    assert d.diagnostics["projection"]["unknowns"] < len(X) / 3


def test_few_rows_fit_few_unknowns():
    """Three cells of a feature in pairs would be 227 unknowns: R-squared on new rows 0.2."""
    X, y = load_diabetes(return_X_y=True)
    forest = RandomForestRegressor(50, random_state=0).fit(X[:400], y[:400])
    d = tp.purify(forest, X[:400], weights="empirical", method="coarse")
    assert d.diagnostics["projection"]["unknowns"] <= 110
    assert d.r_squared(X[400:]) > 0.6


def test_a_model_without_splits_has_no_effects():
    model = DecisionTreeRegressor().fit(np.zeros((5, 2)), np.full(5, 3.0))
    d = tp.purify(model, np.zeros((5, 2)), weights="empirical", method="coarse", progress=False)
    assert not d.components
    np.testing.assert_allclose(d.intercept, [3.0])


def test_what_cannot_be_projected_on_coarse_cells_is_refused(forest):
    model, X = forest
    for options, words in (
        ({"order": 3}, "computes only main effects and pairs"),
        ({"order": None}, "computes only main effects and pairs"),
        ({"weights": "laplace"}, "averages over rows"),
        ({"weights": "uniform"}, "averages over rows"),
    ):
        with pytest.raises(tp.errors.InvalidInputError, match=words):
            tp.purify(
                model, X, method="coarse", progress=False, **{"weights": "empirical", **options}
            )
    with pytest.raises(tp.errors.MemoryBudgetError, match="unknowns"):
        tp.purify(
            model, X, weights="empirical", method="coarse", progress=False, memory_budget=1 << 20
        )
    with pytest.raises(tp.errors.InvalidInputError, match="pair_cells of a coarse projection"):
        tp.options.CoarseProjection(pair_cells=1)


def test_cuts_are_kept_where_rows_are():
    columns = tp.parse_model(
        DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0.0, 1.0])
    ).columns(np.repeat([[0.0], [1.0], [2.0], [3.0]], [70, 10, 10, 10], axis=0))
    cuts = np.linspace(0.25, 2.75, 11)
    (chosen,) = coarse_cuts((cuts,), columns, np.full(100, 0.01), 4)
    # One cell has most rows; the others have cells of their own none the less.
    np.testing.assert_array_equal(np.digitize([0, 1, 2, 3], chosen), [0, 1, 2, 3])
    (all_cuts,) = coarse_cuts((cuts,), columns, np.full(100, 0.01), 12)
    assert all_cuts is cuts


def test_merged_cells_keep_the_order_of_numbers_and_of_means():
    axis = FeatureAxis("x", np.arange(9.0), has_missing=True)
    mass = np.array([1, 1, 4, 1, 1, 2, 2, 0, 3, 1, 4]) / 20
    merged = merge_cells(axis, mass, np.zeros(11), 4)
    assert len(set(merged)) == 5
    assert np.all(np.diff(merged[:10]) >= 0)
    assert merged[10] == 4
    levels = FeatureAxis("c", None, tuple("abcd"))
    by_mean = merge_cells(levels, np.full(4, 0.25), np.array([3.0, 0.0, 4.0, 1.0]), 2)
    np.testing.assert_array_equal(by_mean, [1, 0, 1, 0])


def test_pairs_are_those_on_a_path():
    X = rows(500, 5)
    model = tp.parse_model(RandomForestRegressor(6, max_depth=3, random_state=0).fit(X, X[:, 0]))
    expected = set()

    def walk(node, above):
        j = model.feature[node]
        if j >= 0:
            expected.update(tuple(sorted((j, k))) for k in above if k != j)
            walk(model.left[node], {*above, j})
            walk(model.right[node], {*above, j})

    for root in model.tree_ptr[:-1]:
        walk(root, set())
    assert pairs_on_paths(model) == sorted(expected)


@pytest.mark.parametrize("n_rows", [120, 900])
def test_cells_are_chosen_by_what_rows_tell(forest, n_rows):
    """Twice a row is a row of weight two, in any unit of the weights and order of the rows."""
    model, X = forest
    rng = np.random.default_rng(n_rows)
    X = X[:n_rows]
    weights = rng.integers(1, 4, n_rows).astype(float)
    order = rng.permutation(n_rows)
    options = {"method": "coarse", "progress": False}
    d = tp.purify(model, X, sample_weight=weights, **{"weights": "empirical", **options})
    again = np.repeat(X, weights.astype(int), axis=0)
    for other in (
        tp.purify(model, again, **{"weights": "empirical", **options}),
        tp.purify(
            model,
            X[order],
            sample_weight=weights[order] * 1e-7,
            **{"weights": "empirical", **options},
        ),
    ):
        facts = d.diagnostics["projection"], other.diagnostics["projection"]
        assert facts[0]["cells"] == facts[1]["cells"]
        assert facts[0]["telling_rows"] == facts[1]["telling_rows"] < n_rows
        assert_same(d, other)
