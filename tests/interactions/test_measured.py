"""Interactions measured in data, against dense least squares and planted ones."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from treepurify.engines.common.table_form import read_table
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.interactions.measured import bin_columns, fit_additive


def measure(X, y, **options):
    return tp.measure_interactions(X, y, progress=False, **options)


def dummies(cells):
    return np.concatenate([np.eye(column.max() + 1)[column] for column in cells.T], axis=1)


def squares_left(design, values, weights):
    root = np.sqrt(weights)
    solution = np.linalg.lstsq(root[:, None] * design, root * values, rcond=None)[0]
    return float(weights @ (values - design @ solution) ** 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_strengths_are_those_of_least_squares_over_every_crossing(weighted):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 4, size=(120, 3))
    y = cells[:, 0] * (cells[:, 1] > 1) + rng.normal(size=120)
    weights = rng.uniform(0.2, 3, size=120) if weighted else np.ones(120)
    found = measure(cells.astype(float), y, sample_weight=weights, least_rows=1)
    weights = weights / weights.mean()
    design = dummies(cells)
    root = np.sqrt(weights)
    solution = np.linalg.lstsq(root[:, None] * design, root * y, rcond=None)[0]
    rest = y - design @ solution
    for pair, strength in zip(found.pairs, found.strength, strict=True):
        best = 0.0
        for a, b in product(range(1, 4), repeat=2):
            low = (cells[:, pair[0]] < a).astype(float)
            other = (cells[:, pair[1]] < b).astype(float)
            sums = np.stack([np.ones(120), low, other], axis=1)
            whole = np.column_stack([sums, low * other])
            least = min(
                weights[(low == s) & (other == t)].sum() for s, t in product((0, 1), repeat=2)
            )
            if least >= 1:
                best = max(
                    best, squares_left(sums, rest, weights) - squares_left(whole, rest, weights)
                )
        assert strength**2 * weights.sum() == pytest.approx(best, rel=1e-8)
    total = weights @ (y - np.average(y, weights=weights)) ** 2
    assert found.additive_share == pytest.approx(1 - (weights @ rest**2) / total)
    np.testing.assert_allclose(found.share, found.strength**2 * weights.sum() / total)


def test_planted_interactions_come_first_and_main_effects_do_not_count():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(3000, 6))
    y = 2 * X[:, 0] ** 2 + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3] + (X[:, 4] > 0) * X[:, 5]
    found = measure(X, y + rng.normal(size=3000))
    assert found.pairs[:2] == ((2, 3), (4, 5))
    # The rest is noise, however large main effects are.
    assert np.all(found.chi_square[2:] < 20)
    assert found.chi_square[1] > 50
    assert found.solve_error < 1e-10
    additive = measure(X, 2 * X[:, 0] ** 2 + np.sin(3 * X[:, 1]) + rng.normal(size=3000))
    assert np.all(additive.chi_square < 20)


def test_main_effects_of_dependent_features_are_fitted_together():
    rng = np.random.default_rng(2)
    x = rng.normal(size=4000)
    X = np.column_stack([x, x + 0.3 * rng.normal(size=4000), rng.normal(size=4000)])
    found = measure(X, X[:, 0] ** 2 + X[:, 1])
    assert np.all(found.share < 0.01)
    columns = read_table(X, None)[1]
    binned = bin_columns(columns, 8, np.ones(4000), x)
    fit = fit_additive(binned, np.ones(4000), X[:, 0] ** 2, 1 << 30)
    design = dummies(np.stack([column.cells for column in binned], axis=1))
    solution = np.linalg.lstsq(design, X[:, 0] ** 2, rcond=None)[0]
    np.testing.assert_allclose(fit.fitted, design @ solution, atol=1e-8)


def test_residuals_of_purified_stumps_are_measured_as_they_are():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 4))
    y = X[:, 0] + X[:, 1] ** 2 + X[:, 2] * X[:, 3]
    stumps = xgboost.XGBRegressor(max_depth=1, n_estimators=200).fit(X, y)
    d = tp.purify(stumps, X, weights="empirical", progress=False)
    found = measure(X, y, prediction=d.predict(X))
    assert found.pairs[0] == (2, 3)
    assert np.isnan(found.solve_error)
    rest = y - d.predict(X)
    assert found.additive_share == pytest.approx(1 - rest.var() / y.var())


def test_categories_missing_values_and_names():
    rng = np.random.default_rng(4)
    kind = rng.choice(["ash", "beech", "fir", "oak"], 2000)
    height = rng.normal(size=2000)
    y = np.where(np.isin(kind, ["fir", "oak"]), height, -height)
    height[::5] = np.nan
    frame = pd.DataFrame(
        {"height": height, "kind": pd.Categorical(kind), "noise": rng.random(2000)}
    )
    found = measure(frame, np.where(np.isnan(height), kind == "fir", y))
    table = found.to_frame()
    assert table.loc[0, ["first", "second"]].tolist() == ["height", "kind"]
    named = set(table.loc[0, "second_side"].removeprefix("one of ").split(", "))
    assert named in ({"ash", "beech"}, {"fir", "oak"})
    assert table.loc[0, "first_side"].startswith("<")
    assert "height & kind" in repr(found)


def test_many_categories_share_cells():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 300, size=5000)
    frame = pd.DataFrame({"a": pd.Categorical(labels.astype(str)), "b": rng.normal(size=5000)})
    found = measure(frame, (labels % 2) * frame["b"] + labels % 2, bins=8)
    assert found.share[0] > 0.1
    assert "more" in found.to_frame().loc[0, "first_side"]


def test_named_pairs_and_rows_of_weight_zero():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] * X[:, 1]
    some = measure(X, y, interactions=[("x0", "x1"), (2, 3)])
    assert set(some.pairs) == {(0, 1), (2, 3)}
    every = measure(X, y)
    assert len(every.pairs) == len([*combinations(range(5), 2)])
    more = np.vstack([X, 100 * X])
    weights = np.repeat([1.0, 0.0], 400)
    again = measure(more, np.concatenate([y, -y]), sample_weight=weights)
    np.testing.assert_array_equal(again.strength, every.strength)


def test_a_constant_target_has_no_interactions():
    X = np.random.default_rng(7).normal(size=(50, 3))
    found = measure(X, np.ones(50))
    assert not found.strength.any()
    assert np.all(np.isfinite(found.share))
    few = measure(X[:4], X[:4, 0])
    assert few.crossings == ((), (), ())


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones(9), "one finite number per row"),
        (["a"] * 10, "for classes, pass 0 and 1, or two labels"),
        (["a", "b", "c", "a", "b"] * 2, "for classes, pass 0 and 1, or two labels"),
        (["a", "b", None, "a", "b"] * 2, "for classes, pass 0 and 1, or two labels"),
        (["a", None] * 5, "for classes, pass 0 and 1, or two labels"),
        ([["a"], ["b", "c"]] * 5, "for classes, pass 0 and 1, or two labels"),
        (np.full(10, np.nan), "missing or infinite"),
    ],
)
def test_targets_that_cannot_be_used(y, message):
    X = np.random.default_rng(8).normal(size=(10, 2))
    with pytest.raises(InvalidInputError, match=message):
        measure(X, y)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pd.Categorical])
def test_two_labels_are_zero_and_one(kind):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] * X[:, 1] > 0
    labels = kind([("no", "yes")[k] for k in y.astype(int)])
    found, numbers = measure(X, labels), measure(X, y.astype(float))
    assert found.pairs == numbers.pairs
    np.testing.assert_array_equal(found.strength, numbers.strength)
    assert found.crossings == numbers.crossings


def test_an_additive_fit_that_does_not_fit_is_refused():
    X = np.random.default_rng(9).normal(size=(500, 20))
    with pytest.raises(MemoryBudgetError, match="additive fit"):
        measure(X, X[:, 0], memory_budget=10_000)


def test_the_strongest_pairs_are_those_of_interpret():
    utils = pytest.importorskip("interpret.utils", reason="the peer is not a dependency")
    rng = np.random.default_rng(10)
    X = rng.normal(size=(3000, 5))
    y = X[:, 0] * X[:, 1] + 0.6 * X[:, 2] * X[:, 3] + 0.3 * X[:, 0] * X[:, 4]
    theirs = utils.measure_interactions(X, y)
    ours = measure(X, y)
    assert [pair for pair, _ in theirs[:3]] == list(ours.pairs[:3])
