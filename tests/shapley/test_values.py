"""Shapley values and interactions of a decomposition, against their definitions."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.reference.ensembles import random_ensemble, rows_in_all_cells
from tests.shapley.truth import (
    decomposition_game,
    interaction_by_definition,
    interventional_game,
    shapley_by_definition,
)
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.grids.grid import make_grid
from treepurify.shapley.values import shapley_values


def purified(*, n_outputs=1, weights="empirical", order=None, n_features=4, seed=3, method="auto"):
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(
        rng, n_features=n_features, n_categorical=1, n_trees=8, depth=4, n_outputs=n_outputs
    )
    grid, _ = make_grid(None, ensemble.features, ensemble_cuts(ensemble), match_names=False)
    X = rows_in_all_cells(rng, ensemble, grid, 300)
    options = {"weights": weights, "order": order, "method": method, "progress": False}
    return tp.purify(ensemble, X, **options), X, ensemble


@pytest.mark.parametrize("weights", ["empirical", "independent", "uniform"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_values_are_those_of_the_game_of_the_components(weights, n_outputs):
    d, X, ensemble = purified(n_outputs=n_outputs, weights=weights)
    rows = X[::37]
    found = d.shapley_values(rows)
    expected = shapley_by_definition(decomposition_game(d, rows), 4).transpose(1, 0, 2)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    np.testing.assert_allclose(found.total(), ensemble.margin(rows), atol=1e-10)


def test_independent_values_are_those_of_independent_features():
    """Brute force: every combination of the cells, with the product of the shares."""
    _, X, ensemble = purified(n_features=3)
    X = X[:: len(X) // 25]
    d = tp.purify(ensemble, X, weights="independent", order=None, progress=False)
    columns = [np.unique(X[:, j], return_counts=True) for j in range(3)]
    grids = np.meshgrid(*[values for values, _ in columns], indexing="ij")
    background = np.stack([g.ravel() for g in grids], axis=1)
    shares = np.meshgrid(*[counts for _, counts in columns], indexing="ij")
    weights = np.prod([s.ravel() for s in shares], axis=0)
    keep = np.random.default_rng(0).permutation(len(X))[:4]
    game = interventional_game(ensemble.margin, X[keep], background, weights)
    expected = shapley_by_definition(game, 3).transpose(1, 0, 2)
    np.testing.assert_allclose(d.shapley_values(X[keep]).values, expected, atol=1e-10)


def test_a_remainder_of_known_parts_is_split():
    whole, X, _ = purified(method="mass-moving")
    d, _, _ = purified(method="mass-moving", order=1)
    assert d.remainder is not None
    rows = X[::41]
    found = d.shapley_values(rows)
    assert found.remainder is None
    np.testing.assert_allclose(found.values, whole.shapley_values(rows).values, atol=1e-12)


@dataclass(frozen=True)
class Unsplit:
    """A remainder whose features are not told apart."""

    inside: object

    @property
    def features(self):
        return self.inside.features

    @property
    def variance(self):
        return self.inside.variance

    def on_rows(self, X):
        return self.inside.on_rows(X)


def test_a_remainder_of_unknown_parts_stands_apart():
    d, X, ensemble = purified(order=1)
    d = replace(d, remainder=Unsplit(d.remainder))
    rows = X[::41]
    found = d.shapley_values(rows)
    np.testing.assert_array_equal(found.remainder, d.remainder.on_rows(rows))
    np.testing.assert_allclose(found.total(), ensemble.margin(rows), atol=1e-10)
    frame = found.to_frame()
    assert list(frame.columns) == ["base", "x0", "x1", "x2", "x3", "remainder"]
    np.testing.assert_allclose(frame.sum(axis=1), ensemble.margin(rows)[:, 0], atol=1e-10)
    assert d.shapley_interactions(rows).remainder is not None


@pytest.mark.parametrize("order", [1, 2, 3])
def test_interaction_index_by_definition(order):
    d, X, _ = purified()
    rows = X[::53]
    game = decomposition_game(d, rows)
    found = d.shapley_interactions(rows, order=order, index="SII")
    assert max(len(s) for s in found.values) == order
    for subset, values in found.values.items():
        expected = interaction_by_definition(game, 4, subset)
        np.testing.assert_allclose(values, expected, atol=1e-11)


@pytest.mark.parametrize("index", ["k-SII", "STII"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_efficient_indices_sum_to_the_margin(index, order):
    d, X, ensemble = purified()
    rows = X[::53]
    found = d.shapley_interactions(rows, order=order, index=index)
    total = found.base + sum(found.values.values())
    np.testing.assert_allclose(total, ensemble.margin(rows), atol=1e-10)
    if order == 1:
        flat = np.stack([found.values[j,][:, 0] for j in range(4)], axis=1)
        np.testing.assert_allclose(flat, d.shapley_values(rows).values[:, :, 0], atol=1e-12)


def test_rows_of_a_matrix_sum_to_shapley_values():
    d, X, _ = purified(n_outputs=2)
    rows = X[::53]
    for output in range(2):
        matrix = d.shapley_interactions(rows).matrix(output)
        expected = d.shapley_values(rows).values[:, :, output]
        np.testing.assert_allclose(matrix.sum(axis=2), expected, atol=1e-12)
        np.testing.assert_array_equal(matrix, matrix.transpose(0, 2, 1))


@pytest.mark.parametrize("index", ["k-SII", "SII", "STII"])
def test_indices_of_shapiq(index):
    """The same game, given to shapiq as a table of coalition values."""
    shapiq = pytest.importorskip("shapiq")
    d, X, _ = purified()
    rows = X[[5]]
    game = decomposition_game(d, rows)

    def of_coalitions(coalitions):
        return np.array([game(tuple(np.flatnonzero(c)))[0, 0] for c in coalitions])

    computer = shapiq.ExactComputer(of_coalitions, n_players=4)
    for order in (2, 3):
        expected = computer(index=index, order=order)
        found = d.shapley_interactions(rows, order=order, index=index)
        for subset, values in found.values.items():
            assert values[0, 0] == pytest.approx(expected[subset], abs=1e-10)


def test_tables_of_several_outputs():
    d, X, ensemble = purified(n_outputs=2)
    rows = pd.DataFrame(X[:5], columns=d.feature_names, index=list("abcde"))
    found = d.shapley_values(rows)
    frame = found.to_frame()
    assert list(frame.index) == list("abcde")
    for k, name in enumerate(d.output_names):
        np.testing.assert_allclose(frame[name].sum(axis=1), ensemble.margin(X[:5])[:, k])
    importance = found.importance()
    assert importance.groupby("output")["share"].sum().tolist() == pytest.approx([1.0, 1.0])
    assert importance["mean_absolute"].is_monotonic_decreasing


def test_no_rows_and_bad_requests():
    d, X, _ = purified()
    assert d.shapley_values(X[:0]).values.shape == (0, 4, 1)
    with pytest.raises(tp.errors.InvalidInputError, match='index must be "SII", "k-SII"'):
        d.shapley_interactions(X, index="banzhaf")
    with pytest.raises(tp.errors.InvalidInputError, match="order must be a whole number from 1"):
        d.shapley_interactions(X, order=0)
    with pytest.raises(tp.errors.InvalidInputError, match="order=2"):
        d.shapley_interactions(X[:2], order=1).matrix()
    # Four features: their values, and the rows as they are read and as they are shown.
    needed = 8 * len(X) * 4 * (d.n_outputs + 2)
    assert shapley_values(d, X, memory_budget=needed).values.shape == (len(X), 4, d.n_outputs)
    with pytest.raises(tp.errors.MemoryBudgetError, match=f"Shapley values of {len(X)} rows"):
        shapley_values(d, X, memory_budget=needed - 1)


def test_a_constant_model_and_one_feature():
    rng = np.random.default_rng(0)
    flat = random_ensemble(rng, n_features=2, n_trees=3, depth=0)
    d = tp.purify(flat, rng.normal(size=(10, 2)), weights="empirical", order=None, progress=False)
    assert not d.shapley_values(np.zeros((2, 2))).values.any()
    one = random_ensemble(rng, n_features=1, n_trees=3, depth=3)
    X = rng.normal(size=(50, 1))
    d = tp.purify(one, X, weights="empirical", order=None, progress=False)
    found = d.shapley_values(X)
    np.testing.assert_allclose(found.values[:, 0], one.margin(X) - d.intercept, atol=1e-12)


def test_one_row_of_a_table_has_a_frame():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    model = GradientBoostingRegressor(max_depth=2).fit(X, X["a"] * X["b"] + X["c"])
    d = tp.purify(model, X, weights="empirical", progress=False)
    for one, table in (
        (d.shapley_values(X.iloc[7]), d.shapley_values(X.iloc[[7]])),
        (
            tp.interventional_shapley_values(model, X.iloc[7], X, progress=False),
            tp.interventional_shapley_values(model, X.iloc[[7]], X, progress=False),
        ),
    ):
        np.testing.assert_array_equal(one.to_frame(), table.to_frame())
        assert table.to_frame().index.tolist() == [7]
