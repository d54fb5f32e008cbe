"""The closed form for categories against dense truths and the algorithm as printed."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import treepurify as tp
from tests.cases import data_path
from tests.reference.categorical import greedy_selection, largest_overlap, projection
from tests.reference.dense import functional_anova
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.engines.categorical import categorical_anova
from treepurify.engines.categorical.greedy_selection import select_in_order
from treepurify.engines.categorical.observations import observe
from treepurify.engines.categorical.routes import candidate_subsets

BUDGET = 1 << 30


def quiet(*args, **kwargs):
    return categorical_anova(*args, progress=False, **kwargs)


def full_grid(shape):
    return np.indices(shape).reshape(len(shape), -1).T


def every_pair_of(d, X, weights=None):
    """Largest overlap of a component with functions of fewer of its features."""
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in np.asarray(X).T], 1)
    mass = np.full(len(codes), 1 / len(codes)) if weights is None else weights / weights.sum()
    return max(
        largest_overlap(codes, mass, component.on_rows(X)[:, k], subset)
        for subset, component in d.components.items()
        for k in range(d.n_outputs)
    )


def analytical_case():
    free = full_grid((3, 3, 3))
    X = np.column_stack([free[:, 0], free[:, 1], free[:, 1], free[:, 2], np.ones(27, int)])
    return X, np.sign(X[:, 0] - X[:, 1] + 0.5 * X[:, 2])


def test_table_1_of_the_paper():
    X, values = analytical_case()
    d = quiet(values, X, feature_names=["X1", "X2", "X3", "X4", "X5"])
    norms = {d.term_name(s): round(float(c.variance[0]), 3) for s, c in d.components.items()}
    assert round(float(d.intercept[0] ** 2), 3) == 0.111
    assert norms == {
        "X1": 0.519,  # 14/27 = 0.5185; the paper cuts to 0.518
        "X2": 0.074,
        "X4": 0.0,
        "X1 & X2": 0.074,
        "X1 & X4": 0.0,
        "X2 & X4": 0.0,
        "X1 & X2 & X4": 0.0,
    }
    assert d["X1"].variance[0] == pytest.approx(14 / 27)
    report = d.diagnostics["identifiability"]
    assert report["constant"] == ["X5"]
    assert report["determined"] == {"X3": "X2"}
    assert report["rank"] == 27
    assert d.remainder is None


@pytest.mark.parametrize("seed", range(6))
def test_full_support_agrees_with_the_dense_solution(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, size=rng.integers(2, 5)))
    mass = rng.dirichlet(np.full(int(np.prod(shape)), 0.5)).reshape(shape) + 1e-6
    mass /= mass.sum()
    values = rng.normal(size=(*shape, 2))
    d = quiet(values.reshape(-1, 2), full_grid(shape), sample_weight=mass.ravel())
    truth = functional_anova(values, mass)
    assert d.diagnostics["method"] == "Gram system"
    assert d.diagnostics["identifiability"]["unique"]
    np.testing.assert_allclose(d.intercept, truth[()], atol=1e-10)
    for subset, component in d.components.items():
        np.testing.assert_allclose(component.values, truth[subset], atol=1e-9)
        np.testing.assert_allclose(component.mass.sum(), 1.0)
    assert set(d.components) == set(truth) - {()}


def test_independent_features_take_the_closed_form_of_conditional_means():
    shape = (3, 2, 4)
    rng = np.random.default_rng(1)
    margins = [rng.dirichlet(np.ones(n)) for n in shape]
    mass = np.einsum("i,j,k->ijk", *margins)
    values = rng.normal(size=(*shape, 1))
    d = quiet(values.reshape(-1, 1), full_grid(shape), sample_weight=mass.ravel())
    truth = functional_anova(values, mass)
    assert d.diagnostics["method"].startswith("conditional means")
    report = d.diagnostics["identifiability"]
    assert (report["rank"], report["unique"], report["support"]) == (24, True, 24)
    assert report["inflation"] == pytest.approx(1.0)
    for subset, component in d.components.items():
        np.testing.assert_allclose(component.values, truth[subset], atol=1e-12)
    by_gram = quiet(values.reshape(-1, 1), full_grid(shape), sample_weight=mass.ravel(), rank=24)
    for subset, component in by_gram.components.items():
        np.testing.assert_allclose(component.values, truth[subset], atol=1e-12)


def test_uniform_bits_give_parity_functions():
    X = full_grid((2, 2, 2))
    d = quiet((-1.0) ** X.sum(axis=1), X)
    assert d[0, 1, 2].variance[0] == pytest.approx(1.0)
    others = [c.variance[0] for s, c in d.components.items() if len(s) < 3]
    np.testing.assert_allclose(others, 0.0, atol=1e-15)


def test_order_leaves_the_rest_to_the_remainder():
    rng = np.random.default_rng(2)
    X = full_grid((3, 3, 2))
    values = rng.normal(size=18)
    d = quiet(values, X, order=2)
    assert max(len(s) for s in d.components) == 2
    np.testing.assert_allclose(d.predict(X), values, atol=1e-12)
    assert d.remainder.features == (0, 1, 2)
    assert d.remainder.variance[0] == pytest.approx(quiet(values, X)[0, 1, 2].variance[0])


def random_support(seed):
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(2, 6))
    X = np.column_stack([rng.integers(0, rng.integers(2, 5), 60) for _ in range(n_features)])
    X[:, -1] = np.where(rng.random(60) < 0.7, X[:, 0] % 2, X[:, -1])
    X = X[: int(rng.integers(12, 60))]
    return X, rng.normal(size=(len(X), 2))


def points_of(X):
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in X.T], 1)
    points, row_point = np.unique(codes, axis=0, return_inverse=True)
    mass = np.bincount(row_point.reshape(-1)) / len(X)
    return points, mass


def selected_by_us(X, rank, order=None, tolerance=1e-4):
    points, mass = points_of(np.asarray(X))
    sizes = tuple(points.max(axis=0) + 1)
    values = np.zeros((len(points), 1))
    observations = observe(points.T, values, mass, sizes)
    active = [j for j, n in enumerate(sizes) if n > 1]
    order = len(active) if order is None else order
    basis = select_in_order(
        observations,
        candidate_subsets(active, order, None),
        min(rank, len(points)),
        tolerance,
        BUDGET,
        lambda *_: None,
    )
    return [
        (subset, tuple(int(i) for i in z))
        for subset, own in basis.chosen.items()
        for z in (np.argwhere(own.kept) if subset else [()])
    ]


def selected_as_printed(X, rank, order=None):
    points, mass = points_of(np.asarray(X))
    active = [j for j in range(points.shape[1]) if points[:, j].max() > 0]
    subsets = candidate_subsets(active, order or len(active), None)
    return greedy_selection(points, mass, subsets, min(rank, len(points)))[0]


@pytest.mark.parametrize("seed", range(12))
def test_sparse_support_selects_what_the_printed_algorithm_selects(seed):
    X, _ = random_support(seed)
    points, _ = points_of(X)
    for rank in (len(points), max(len(points) // 2, 2)):
        assert selected_by_us(X, rank) == selected_as_printed(X, rank)


@pytest.mark.parametrize("seed", range(6))
def test_a_last_level_that_is_the_most_frequent_selects_the_same(seed):
    """As where it stands for missing values: its indicator is one minus all others."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 7, size=(60, 3))
    X[rng.random(X.shape) < 0.4] = 7
    points, _ = points_of(X)
    for rank in (len(points), len(points) // 2):
        assert selected_by_us(X, rank) == selected_as_printed(X, rank)


@pytest.mark.parametrize("seed", range(12))
def test_sparse_support_projects_on_the_selected_span(seed):
    X, values = random_support(seed)
    points, mass = points_of(X)
    rank = max(len(points) // 2, 2)
    subsets = candidate_subsets(
        [j for j in range(X.shape[1]) if points[:, j].max() > 0], X.shape[1], None
    )
    _, functions = greedy_selection(points, mass, subsets, rank)
    d = quiet(values, X, rank=rank)
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in X.T], 1)
    means = np.stack([values[(codes == point).all(axis=1)].mean(axis=0) for point in points])
    rows = np.stack([X[(codes == point).all(axis=1)][0] for point in points])
    fitted = d.intercept + sum(component.on_rows(rows) for component in d.components.values())
    np.testing.assert_allclose(fitted, projection(functions, mass, means), atol=1e-9)
    assert every_pair_of(d, X) < 1e-12
    assert d.certificate.conditional_mean < 1e-12


def test_missing_cells_do_not_break_orthogonality():
    """The pair function of the paper's example (equation 19) has mean -1 under its support."""
    X = np.array([[0, 0], [0, 1], [1, 0], [0, 0], [2, 1], [2, 2], [1, 2]])
    d = quiet(np.arange(7.0) ** 2, X)
    assert d.diagnostics["selection"]["made_orthogonal"] > 0
    assert every_pair_of(d, X) < 1e-12


REAL = {
    "car_evaluation": ("class", 6, 500),
    "nursery": ("class", 8, 120),
    "mushroom": ("class", 2, 250),
    "poker_hand_train": ("CLASS", 2, 200),
    "connect4": ("class", 2, 150),
    "dota2_test": ("win", 1, 200),
}


@pytest.mark.parametrize("name", REAL)
def test_real_data_select_what_the_printed_algorithm_selects(name):
    target, order, rank = REAL[name]
    X = pd.read_parquet(data_path(name)).drop(columns=target)
    X = X.sample(min(len(X), 8000), random_state=0)
    codes = X.apply(lambda column: pd.factorize(column, sort=True)[0]).to_numpy()
    assert selected_by_us(codes, rank, order) == selected_as_printed(codes, rank, order)


def test_mushrooms_need_86_main_effects():
    table = pd.read_parquet(data_path("mushroom"))
    values = (table["class"] == "p").to_numpy(float)
    d = quiet(values, table.drop(columns="class"), order=1)
    assert d.diagnostics["identifiability"]["rank"] == 86
    assert d.diagnostics["identifiability"]["constant"] == ["veil_type"]
    assert d.diagnostics["fit"]["f"]["r_squared"] > 0.999


def rows_in_every_cell(rng, model, n_features):
    """Rows that reach every cell of the model's grid, unevenly."""
    cuts = ensemble_cuts(tp.parse_model(model))
    places = [
        np.concatenate([[own[0] - 1], (own[1:] + own[:-1]) / 2, [own[-1] + 1]]) for own in cuts
    ]
    cells = np.array(list(product(*places)))
    return np.repeat(cells, rng.integers(1, 6, len(cells)), axis=0)


def test_full_support_agrees_with_purified_trees():
    rng = np.random.default_rng(3)
    train = rng.normal(size=(300, 3))
    target = train[:, 0] * train[:, 1] + np.sin(train[:, 2]) + (train[:, 0] > 0.2)
    model = GradientBoostingRegressor(n_estimators=4, max_depth=3, random_state=0)
    model.fit(train, target)
    X = rows_in_every_cell(rng, model, 3)
    ours = quiet(model, X)
    purified = tp.purify(model, X, weights="empirical", order=None, progress=False)
    assert ours.diagnostics["identifiability"]["unique"]
    assert set(purified.components) <= set(ours.components)
    scale = np.abs(model.predict(X)).max()
    for subset, component in ours.components.items():
        expected = purified.components[subset].values if subset in purified else 0.0
        np.testing.assert_allclose(component.values, expected, atol=1e-9 * scale)
    np.testing.assert_allclose(ours.intercept, purified.intercept, atol=1e-9 * scale)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_compare_finds_no_difference_to_purified_trees(is_sparse):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 4, size=(2000, 4)).astype(float)
    target = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) * X[:, 3]
    model = GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0).fit(X, target)
    if is_sparse:
        # Staircase: cells are missing, but every pair of features stays connected.
        X = X[(X[:, 0] <= X[:, 1]) | (X[:, 2] == 0)]
    ours = quiet(model, X, order=2)
    purified = tp.purify(model, X, weights="empirical", progress=False)
    assert ours.diagnostics["identifiability"]["unique"]
    assert tp.compare(purified, ours).terms["distance"].max() < 1e-9


def test_forest_probabilities_by_class():
    rng = np.random.default_rng(4)
    X = rng.integers(0, 3, size=(400, 3))
    y = np.array(["a", "b", "c"])[(X[:, 0] + X[:, 1] * (X[:, 2] > 0)) % 3]
    model = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y)
    d = quiet(model.predict_proba, X)
    assert d.n_outputs == 3
    np.testing.assert_allclose(d.predict(X), model.predict_proba(X), atol=1e-12)
    total = sum(c.values.sum(axis=-1) for s, c in d.components.items() if s == (0,))
    np.testing.assert_allclose(total, 0.0, atol=1e-12)
