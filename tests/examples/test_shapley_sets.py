"""What the example of the paper prints, and the measures that it takes."""

import doctest
from importlib import import_module
from itertools import permutations

import numpy as np
import pytest

import treepurify as tp
from examples import paper_shapley_sets as paper
from examples import paper_shapley_sets_examples as examples
from examples.paper_shapley_sets_measures import (
    attribution_error,
    deletion,
    deletion_curve,
    sensitivity,
)
from examples.paper_shapley_sets_published import (
    PublishedWorth,
    published_groups,
    published_shapley,
    published_values,
)


def cells(table, label):
    (entry,) = (own for own in table.entries if own.label == label)
    return entry.ours["ours"]


def test_worked_examples():
    table = examples.example_1()
    groups, values = cells(table, "with x2")
    without, _ = cells(table, "without x2")
    assert values == "x1 0.50, x2 0.25, x3 0.25"
    # The paper: conditional Shapley halves x3's part once x2 is there, Shapley Sets do not.
    assert groups.split("{x2 & x3} ")[1] == without.split("{x3} ")[1]
    table = examples.example_2()
    groups, values, base = cells(table, "independent, off the manifold")
    assert groups == "{x1} 1.00, {x2 & x3} 2.00"
    assert values == "1.00 1.00 1.00"
    assert base == pytest.approx(0.0)
    groups, _, base = cells(table, "x1 = x2 / 2, on the manifold")
    assert groups == f"{{x1 & x2 & x3}} {3 - base:.2f}"


def test_sources_of_the_examples():
    for entry in examples.sources().entries:
        for own, implied in zip(entry.ours["ours"], entry.paper, strict=True):
            assert implied in (None, own)


@pytest.mark.parametrize("name", paper.FUNCTIONS)
def test_table_1(name):
    for seed in range(3):
        right, ours = paper.sets_errors(name, seed, 5)
        assert right
        assert np.all(ours < 1e-12)


def test_shapley_values_of_a_pair_by_the_library():
    f, groups, parts = paper.FUNCTIONS["f1"]
    row, reference = np.random.default_rng(0).uniform(-1, 1, size=(2, 1, 7))
    game = tp.shapley_sets(f, row, value="baseline", baseline=reference, groups=[], progress=False)
    phi = paper.exact_shapley(game.value_function, row)
    truth = paper.of_groups(groups, parts, row, reference)
    np.testing.assert_allclose(paper.value_errors("f1", row, reference), np.abs(phi - truth))
    assert truth[0, 1] == truth[0, 4] != 0
    assert phi.sum() == pytest.approx((f(row) - f(reference))[0])


def test_printed_error_of_f2_is_one_change_of_sign_in_each_group():
    row = np.ones((1, 7))
    reference = np.array([[1.0, -1, 1, 1, 1, 1, -1]])
    errors = paper.value_errors("f2", row, reference)
    assert errors.mean() == pytest.approx(8 / 7)
    assert errors.std() == pytest.approx(np.sqrt(48) / 7)


def test_measures_by_hand():
    X = np.array([[0.0, 0.0], [2.0, 4.0]])
    rows = np.array([[1.0, 1.0], [3.0, 0.0]])
    found = tp.shapley_sets(
        lambda X: X[:, 0] + X[:, 0] * X[:, 1],
        X,
        value="baseline",
        baseline=[0.0, 0.0],
        groups=[(0,), (1,)],
        progress=False,
    )
    given = np.array([[2.0, 1.0], [0.0, 5.0]])
    # Row 0 loses feature 0: f(0, 1) = 0. Row 1 loses feature 1: f(3, 0) = 3.
    np.testing.assert_allclose(deletion(found, rows, given), [0.0, 3.0])
    np.testing.assert_allclose(sensitivity(found, rows, given), [1.0, 2.0])
    # Row 0 loses feature 0, then 1; row 1 feature 1, then 0.
    np.testing.assert_allclose(deletion_curve(found, rows, given), [[2, 0, 0], [3, 3, 0]])
    # By default groups have what they are worth: 1 and 0, 3 and 0.
    np.testing.assert_allclose(deletion(found, rows), [0.0, 0.0])
    np.testing.assert_allclose(sensitivity(found, rows), [1.0, 0.0])
    np.testing.assert_allclose(deletion(found, rows, [[1.0], [1.0]], groups=[[0, 1]]), [0.0, 0.0])
    np.testing.assert_allclose(attribution_error(given, np.zeros((2, 2))), [1.5, 2.5])
    with pytest.raises(tp.errors.InvalidInputError, match="one shape"):
        attribution_error(given, given[:1])
    with pytest.raises(tp.errors.InvalidInputError, match="one column for each group"):
        deletion(found, rows, given[:, :1])
    with pytest.raises(tp.errors.InvalidInputError, match="pass attributions too"):
        deletion(found, rows, groups=[])


@pytest.mark.parametrize("name", ["measures", "owen", "products", "sources"])
def test_docstrings(name):
    module = import_module(f"examples.paper_shapley_sets_{name}")
    tried = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried.failed == 0 < tried.attempted


def test_published_conditional_means_follow_the_first_feature_only():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) @ np.array([[1.0, 0.5, 0.2], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]])
    worth = PublishedWorth(lambda rows: rows[:, 0] + rows[:, 1] * rows[:, 2], X)
    mean, covariance = X.mean(axis=0), np.cov(X.T)
    filled = worth.filled(X[0], [1, 0])
    expected = mean[2] + covariance[2, 0] * covariance[0, 0] * (X[0, 0] - mean[0])
    np.testing.assert_allclose(filled, [X[0, 0], X[0, 1], expected])
    np.testing.assert_array_equal(worth.filled(X[0], []), mean)


def test_published_groups_of_independent_features_are_those_of_the_function():
    X = np.random.default_rng(0).uniform(-1, 1, (2000, 5))
    worth = PublishedWorth(lambda rows: rows[:, 0] * rows[:, 3] + rows[:, 1] + rows[:, 4], X)
    groups = published_groups(worth, 0.05, np.random.default_rng(0), probes=30)
    assert sorted(map(sorted, groups)) == [[0, 3], [1], [2], [4]]
    values = published_values(worth, X[0], groups)
    assert values.shape == (len(groups),)


def test_published_shapley_values_by_the_definition():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) @ np.array([[1.0, 0.5, 0.2], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]])
    worth = PublishedWorth(lambda rows: rows[:, 0] + rows[:, 1] * rows[:, 2], X)
    expected = np.zeros(3)
    for order in permutations(range(3)):
        filled = [worth.mean, *(worth.filled(X[0], order[:k], order[0]) for k in (1, 2, 3))]
        expected[list(order)] += np.diff(worth.f(np.stack(filled))) / 6
    found = published_shapley(worth, X[:2])
    np.testing.assert_allclose(found[0], expected)
    whole = worth.f(X[:2]) - worth.f(X.mean(axis=0)[None])
    np.testing.assert_allclose(found.sum(axis=1), whole)


@pytest.mark.parametrize("name", ["g2", "g3"])
def test_the_notebook_has_the_printed_errors_of_table_2(name):
    of_text, marginal, conditional, searched = paper.notebook_errors(name, 0)
    assert of_text.shape == searched.shape == (10,)
    for found, (printed, deviation) in zip(
        (of_text, marginal, conditional), paper.TABLE_2[name], strict=True
    ):
        assert found.mean() == pytest.approx(printed, abs=1.2 * deviation)
