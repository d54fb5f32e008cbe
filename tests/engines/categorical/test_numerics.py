"""The closed form for categories where numbers are hard."""

import numpy as np
import pytest

import treepurify as tp
from tests.engines.categorical.test_anova import every_pair_of, quiet
from tests.reference.categorical import projection
from treepurify.engines.categorical.observations import observe
from treepurify.errors import MemoryBudgetError
from treepurify.plots.row_parts import row_effects


def rare_levels():
    """Levels with probabilities down to 1e-6, the last among them."""
    rng = np.random.default_rng(0)
    X = np.array([[i, j, k] for i in range(4) for j in range(4) for k in range(2)])
    weights = 10.0 ** -rng.integers(0, 7, len(X))
    weights[X[:, 0] == 3] = 1e-6
    return X, weights, rng.normal(size=len(X))


def near_copies():
    """A column that copies another in all but one of 100 000 rows."""
    rng = np.random.default_rng(1)
    first = rng.integers(0, 5, 100_000)
    second = first.copy()
    second[7] = (second[7] + 1) % 5
    third = rng.integers(0, 3, 100_000)
    X = np.column_stack([first, second, third])
    return X, None, first * third + 0.5 * second


def many_levels():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.integers(0, 50, 3000), rng.integers(0, 50, 3000)])
    return X, None, rng.normal(size=3000)


@pytest.mark.parametrize("case", [rare_levels, near_copies, many_levels])
def test_hard_cases_stay_finite_pure_and_exact(case):
    X, weights, values = case()
    d = quiet(values, X, sample_weight=weights, bins=50)
    assert all(np.isfinite(c.values).all() for c in d.components.values())
    sample = np.random.default_rng(3).permutation(len(X))[:2000]
    fitted = d.predict(X[sample])
    spread = np.abs(values).max()
    assert every_pair_of(d, X, weights) < 1e-12 * spread
    # Rows that share all levels share one value: their mean, which is what is reproduced.
    if d.remainder is None:
        np.testing.assert_allclose(fitted, values[sample], atol=1e-8 * spread)
    choice = d.diagnostics["selection"]
    assert choice["smallest_kept"] > 10 * d.diagnostics["tolerance"]
    assert choice["largest_rejected"] < d.diagnostics["tolerance"] / 10


def test_a_near_copy_is_told_apart_by_its_one_row():
    X, _, values = near_copies()
    d = quiet(values, X, order=1)
    assert d.diagnostics["identifiability"]["rank"] == 1 + 4 + 1 + 2
    rejected = d.diagnostics["identifiability"]["rejected"]
    assert rejected == {"x1": "3 of 4"}


def test_counts_and_products_of_masses_agree():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.integers(0, 3, 400), rng.integers(0, 4, 400), rng.integers(0, 2, 400)])
    values = rng.normal(size=400)
    by_bits = quiet(values, X, order=2)
    weights = np.full(400, 0.5)
    weights[0] = 0.5 + 1e-9
    by_products = quiet(values, X, order=2, sample_weight=weights)
    for subset, component in by_bits.components.items():
        np.testing.assert_allclose(
            component.values, by_products.components[subset].values, atol=1e-6
        )


def test_residual_is_orthogonal_to_what_was_selected():
    rng = np.random.default_rng(6)
    X = rng.integers(0, 4, size=(300, 4))
    values = rng.normal(size=(300, 2))
    d = quiet(values, X, rank=40)
    residual = values - d.intercept - sum(c.on_rows(X) for c in d.components.values())
    for j in range(4):
        for level in range(4):
            np.testing.assert_allclose(residual[X[:, j] == level].sum(axis=0), 0.0, atol=1e-10)
    squares = (residual**2).mean(axis=0)
    np.testing.assert_allclose(d.remainder.variance, squares, rtol=1e-10)
    table = d.diagnostics["fit"]
    for k, name in enumerate(d.output_names):
        assert table[name]["mean_squared_error"] == pytest.approx(squares[k])
        assert table[name]["r_squared"] == pytest.approx(1 - squares[k] / values[:, k].var())
        assert table[name]["relative_error"] == pytest.approx(
            squares[k] / (values[:, k] ** 2).mean()
        )


@pytest.mark.parametrize(("n_features", "n_levels"), [(3, 2), (90, 3), (9, 300), (2, 1)])
def test_distinct_rows_are_found_whatever_their_number_of_digits(n_features, n_levels):
    rng = np.random.default_rng(11)
    few = rng.integers(0, n_levels, size=(40, n_features))
    few[:2] = 0
    few[1, -1] = n_levels - 1
    rows = few[rng.integers(0, 40, 500)]
    values = rng.normal(size=(500, 1))
    weights = rng.integers(0, 3, 500).astype(float)
    found = observe(rows.T.astype(np.uint16), values, weights, (n_levels,) * n_features)
    seen = weights > 0
    truth, point = np.unique(rows[seen], axis=0, return_inverse=True)
    back = np.stack(
        [cells[own] for cells, own in zip(found.cell_of_level, found.codes, strict=True)], axis=1
    )
    turn = np.lexsort(back.T[::-1])
    np.testing.assert_array_equal(back[turn], truth)
    mass = np.bincount(point.reshape(-1), weights[seen])
    np.testing.assert_allclose(found.mass[turn], mass / mass.sum())
    sums = np.bincount(point.reshape(-1), weights[seen] * values[seen, 0])
    np.testing.assert_allclose(found.values[turn, 0], sums / mass)
    np.testing.assert_array_equal(back[found.point_of_row], rows[seen])


@pytest.mark.parametrize("selection", ["greedy", "lars"])
def test_shapley_values_split_the_residual_evenly(selection):
    """Ferrere et al. 2026, equation 23."""
    rng = np.random.default_rng(10)
    X = rng.integers(0, 4, size=(300, 4))
    values = rng.normal(size=(300, 2))
    d = quiet(values, X, rank=20, selection=selection)
    expected = np.zeros((300, 4, 2))
    residual = d.on_rows(X) - d.intercept
    for subset, component in d.components.items():
        residual -= component.on_rows(X)
        for j in subset:
            expected[:, j] += component.on_rows(X) / len(subset)
    expected += residual[:, None, :] / 4
    assert np.abs(residual).max() > 0.1
    found = d.shapley_values(X)
    assert found.remainder is None
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    _, _, by_rows = row_effects(d, X, "shapley")
    np.testing.assert_allclose(by_rows, expected, atol=1e-12)


def test_global_importance_is_the_mean_absolute_effect():
    """Ferrere et al. 2026, equation 22."""
    X, weights, values = rare_levels()
    d = quiet(values, X, order=1, sample_weight=weights)
    table = d.importance(details=True).set_index("effect")["mean_absolute"]
    for j, name in enumerate(d.feature_names):
        expected = np.average(np.abs(d[j].on_rows(X)[:, 0]), weights=weights)
        assert table[name] == pytest.approx(expected, rel=1e-12)


def test_the_fit_is_the_least_squares_one():
    rng = np.random.default_rng(7)
    X = rng.integers(0, 3, size=(200, 3))
    values = rng.normal(size=(200, 1))
    d = quiet(values, X, order=1)
    design = np.hstack([np.ones((200, 1)), *[X[:, [j]] == np.arange(2) for j in range(3)]])
    expected = projection(design.astype(float), np.full(200, 1 / 200), values)
    fitted = d.intercept + sum(c.on_rows(X) for c in d.components.values())
    np.testing.assert_allclose(fitted, expected, atol=1e-12)


def test_the_answer_does_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(8)
    X = rng.integers(0, 4, size=(100, 3))
    values = rng.normal(size=100)
    turn = rng.permutation(100)
    a, b = quiet(values, X), quiet(values[turn], X[turn])
    for subset, component in a.components.items():
        np.testing.assert_allclose(component.values, b.components[subset].values, atol=1e-9)


def test_memory_is_refused_before_it_is_taken():
    rng = np.random.default_rng(9)
    X = rng.integers(0, 20, size=(3000, 6))
    with pytest.raises(MemoryBudgetError, match="rank or order"):
        quiet(np.arange(3000.0), X, memory_budget=1 << 20)


@pytest.mark.filterwarnings("error")
def test_levels_may_have_more_combinations_than_any_float(tmp_path):
    rows = np.random.default_rng(0).integers(0, 8, (100, 400))
    values = rows[:, 0] + 1.0 * rows[:, 1]
    d = tp.categorical_anova(values, rows, rank=50, progress=False)
    assert d.diagnostics["identifiability"]["grid"] == np.inf
    d.save(tmp_path / "d.tp")
    assert repr(tp.load(tmp_path / "d.tp")) == repr(d)
    with pytest.raises(MemoryBudgetError, match="2e361 combinations of the levels of all"):
        tp.categorical_anova(lambda x: x[:, 0], rows, weights="laplace", progress=False)
