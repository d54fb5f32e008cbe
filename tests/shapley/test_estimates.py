"""Estimates of interventional Shapley values, against the definition, exact values and shap."""

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.reference.ensembles import random_ensemble
from tests.shapley.truth import interventional_game, shapley_by_definition
from treepurify.engines.common.functions import response_function
from treepurify.shapley import coalitions
from treepurify.shapley.interventional import interventional_shapley_values


def bent(rows):
    """A function of all orders and two outputs."""
    sums = rows @ np.cos(1.0 + np.arange(rows.shape[1]))
    return np.stack([1 / (1 + np.exp(-2 * sums)), np.sin(3 * sums) * rows[:, 0]], axis=1)


def estimated(f, *rows, **options):
    return interventional_shapley_values(
        f, *rows, estimate="permutations", progress=False, **options
    )


def test_standard_errors_cover_the_exact_values():
    rng = np.random.default_rng(3)
    rows, background = rng.normal(size=(40, 11)), rng.normal(size=(9, 11))
    weights = rng.uniform(0.2, 2.0, 9)
    exact = interventional_shapley_values(
        bent, rows, background, sample_weight=weights, progress=False
    )
    assert exact.estimate is None
    assert exact.standard_error is None
    found = estimated(bent, rows, background, sample_weight=weights, permutations=200)
    assert found.estimate == "permutations"
    assert "estimated from 200 permutations" in repr(found)
    assert np.all(found.standard_error > 0)
    z = (found.values - exact.values) / found.standard_error
    assert 0.8 < np.mean(z**2) < 1.25
    assert 0.93 < np.mean(np.abs(z) < 2) < 0.98
    np.testing.assert_allclose(found.total(), bent(rows), atol=1e-12)
    # Four times as many orders, half the error.
    more = estimated(bent, rows, background, sample_weight=weights, permutations=800)
    ratio = np.mean(more.standard_error) / np.mean(found.standard_error)
    assert 0.4 < ratio < 0.6


def test_values_do_not_depend_on_the_order_or_number_of_rows():
    rng = np.random.default_rng(4)
    rows, background = rng.normal(size=(4, 18)), rng.normal(size=(12, 18))
    weights = rng.uniform(0.5, 1.5, 12)
    found = estimated(bent, rows, background, sample_weight=weights)
    order, others = rng.permutation(4), rng.permutation(12)
    again = estimated(bent, rows[order], background[others], sample_weight=weights[others])
    np.testing.assert_allclose(again.values, found.values[order], atol=1e-13)
    np.testing.assert_allclose(again.standard_error, found.standard_error[order], atol=1e-13)
    alone = estimated(bent, rows[2:3], background, sample_weight=weights)
    np.testing.assert_allclose(alone.values, found.values[2:3], atol=1e-13)
    # A background row that comes twice weighs twice as much.
    twice = estimated(
        bent,
        rows,
        np.vstack([background, background[:1]]),
        sample_weight=np.append(weights, weights[0]) * np.r_[0.5, np.ones(11), 0.5],
    )
    np.testing.assert_allclose(twice.values, found.values, atol=1e-13)


def test_blocks_of_orders_and_pairs_do_not_matter(monkeypatch):
    rng = np.random.default_rng(5)
    rows, background = rng.normal(size=(3, 19)), rng.normal(size=(4, 19))
    found = estimated(bent, rows, background)
    monkeypatch.setattr(coalitions, "_ROWS_A_BLOCK", 50)
    monkeypatch.setattr("treepurify.shapley.coalitions._STEPS_AT_ONCE", 200)
    again = estimated(bent, rows, background)
    np.testing.assert_allclose(again.values, found.values, atol=1e-13)
    np.testing.assert_allclose(again.standard_error, found.standard_error, atol=1e-13)


def test_pairs_that_differ_in_few_features_stay_exact():
    rng = np.random.default_rng(6)
    background = np.repeat(rng.normal(size=(1, 24)), 6, axis=0)
    background[:, 4:6] = rng.normal(size=(6, 2))
    rows = np.repeat(background[:1], 2, axis=0)
    rows[0, :4] += 1.0
    rows[1] += rng.normal(size=24)
    found = estimated(bent, rows, background)
    assert found.estimate == "permutations"
    assert not found.standard_error[0].any()
    assert np.all(found.standard_error[1] > 0)

    def of_six(few):
        return bent(np.hstack([few, np.repeat(background[:1, 6:], len(few), axis=0)]))

    game = interventional_game(of_six, rows[:1, :6], background[:, :6])
    expected = shapley_by_definition(game, 6).transpose(1, 0, 2)
    np.testing.assert_allclose(found.values[:1, :6], expected, atol=1e-12)
    assert estimated(bent, rows[:1], background).estimate is None


def test_main_effects_and_pairs_are_exact_but_for_rounding():
    """Of an order and its reverse, the mean has no error for effects of two features."""
    rng = np.random.default_rng(7)
    rows, background = rng.normal(size=(2, 30)), rng.normal(size=(5, 30))
    linear, pairs = rng.normal(size=30), np.triu(rng.normal(size=(30, 30)), 1)

    def f(rows):
        return rows @ linear + np.einsum("ij,jk,ik->i", rows, pairs, rows)

    found = estimated(f, rows, background)
    # What two features add together, split evenly, for each background row.
    expected = np.zeros((2, 30))
    for b in background:
        moved, both = rows - b, pairs + pairs.T
        expected += moved * (linear + b @ both + moved @ both / 2) / 5
    np.testing.assert_allclose(found.values[:, :, 0], expected, atol=1e-10)
    assert np.max(found.standard_error) < 1e-10


def boosted(n_features=30, **options):
    from xgboost import XGBClassifier

    rng = np.random.default_rng(9)
    X = rng.normal(size=(400, n_features)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + X[:, 2:].sum(axis=1) / 3 + rng.normal(size=400) > 0
    model = XGBClassifier(n_jobs=1, n_estimators=40, max_depth=5, **options).fit(X, y)
    return model, pd.DataFrame(X, columns=[f"x{j}" for j in range(n_features)])


def test_the_refusal_names_lines_that_work():
    model, X = boosted()
    response = response_function(model)
    with pytest.raises(tp.errors.InvalidInputError, match="in 30 features") as refused:
        tp.interventional_shapley_values(response, X[:1], X[10:20], progress=False)
    names = {"tp": tp, "model": response, "X": X[:1], "background": X[10:20]}
    line = 'tp.interventional_shapley_values(model, X, background, estimate="permutations")'
    assert line in str(refused.value)
    assert eval(line, names).estimate == "permutations"


def test_exact_values_remain_exact():
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=20)
    rows = rng.normal(size=(4, 20))
    exact = interventional_shapley_values(ensemble, rows, progress=False)
    found = estimated(ensemble, rows)
    assert found.estimate is None
    np.testing.assert_array_equal(found.values, exact.values)


def test_bad_input():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 20))
    with pytest.raises(tp.errors.InvalidInputError, match="estimate must be"):
        interventional_shapley_values(bent, rows, estimate="kernel")
    with pytest.raises(tp.errors.InvalidInputError, match="permutations must be"):
        interventional_shapley_values(bent, rows, estimate="permutations", permutations=1)
    many = rng.normal(size=(1000, 40))
    with pytest.raises(tp.errors.InvalidInputError, match="or fewer permutations"):
        estimated(bent, many, many[:4], permutations=10**5)
    with pytest.raises(tp.errors.MemoryBudgetError, match="permutations of 20 features for 4"):
        estimated(bent, rows, permutations=10**8)
