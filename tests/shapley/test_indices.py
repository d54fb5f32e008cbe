"""Interaction indices of every family against their definitions as games."""

from itertools import combinations

import numpy as np
import pytest

from tests.shapley.test_values import purified
from tests.shapley.truth import (
    all_values,
    decomposition_game,
    derivative,
    faithful_approximation,
    mean_over_coalitions,
)
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.shapley.interactions import INDICES

FAMILIES = {
    "SII": ("Shapley", False),
    "BII": ("Banzhaf", False),
    "CHII": ("chaining", False),
    "SGV": ("Shapley", True),
    "BGV": ("Banzhaf", True),
    "CHGV": ("chaining", True),
}


@pytest.fixture(scope="module")
def game():
    d, X, _ = purified(n_outputs=2)
    rows = X[::50]
    return d, rows, decomposition_game(d, rows)


def groups_of(order, n=4):
    return [s for size in range(1, order + 1) for s in combinations(range(n), size)]


def assert_groups(found, truth, order):
    for group in groups_of(order):
        zero = np.zeros_like(truth[group])
        got = found.values.get(group, zero)
        np.testing.assert_allclose(got, truth[group], atol=1e-11, err_msg=str(group))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("index", FAMILIES)
def test_means_over_coalitions(game, index, order):
    d, rows, value = game
    family, joint = FAMILIES[index]
    truth = {
        group: mean_over_coalitions(value, 4, group, family, joint=joint)
        for group in groups_of(order)
    }
    assert_groups(d.shapley_interactions(rows, order=order, index=index), truth, order)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize(("index", "family"), [("FSII", "Shapley"), ("FBII", "Banzhaf")])
def test_faithful_indices_are_the_nearest_game_of_their_order(game, index, family, order):
    d, rows, value = game
    truth = faithful_approximation(value, 4, order, family)
    found = d.shapley_interactions(rows, order=order, index=index)
    assert_groups(found, truth, order)
    beyond = truth[()] - value(())
    np.testing.assert_allclose(beyond, found.values.get((), 0 * beyond), atol=1e-11)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_additive_indices_are_those_of_the_faithful_game(game, order):
    d, rows, value = game
    near = faithful_approximation(value, 4, order, "Shapley")

    def approximation(given):
        return sum(term for group, term in near.items() if set(group) <= set(given))

    truth = {
        g: mean_over_coalitions(approximation, 4, g, "Shapley", joint=False)
        for g in groups_of(order)
    }
    assert_groups(d.shapley_interactions(rows, order=order, index="kADD-SHAP"), truth, order)


def test_moebius_and_co_moebius_are_derivatives_without_and_with_all_others(game):
    d, rows, value = game
    table = all_values(value, 4)
    inner = {g: derivative(table, g, ()) for g in groups_of(4)}
    assert_groups(d.shapley_interactions(rows, order=4, index="Moebius"), inner, 4)
    outer = {
        g: derivative(table, g, tuple(j for j in range(4) if j not in g)) for g in groups_of(4)
    }
    assert_groups(d.shapley_interactions(rows, order=4, index="Co-Moebius"), outer, 4)


@pytest.mark.parametrize(("index", "family"), [("SV", "Shapley"), ("BV", "Banzhaf")])
def test_values_are_of_single_features(game, index, family):
    d, rows, value = game
    found = d.shapley_interactions(rows, order=2, index=index)
    truth = {(j,): mean_over_coalitions(value, 4, (j,), family, joint=False) for j in range(4)}
    assert set(found.values) <= set(truth)
    assert_groups(found, truth, 1)
    if index == "SV":
        by_feature = np.stack([found.values[j,] for j in range(4)], axis=1)
        np.testing.assert_allclose(by_feature, d.shapley_values(rows).values, atol=1e-12)


@pytest.mark.parametrize("index", INDICES)
def test_every_index_has_a_frame_and_a_matrix(game, index):
    d, rows, _ = game
    found = d.shapley_interactions(rows, index=index)
    assert found.to_frame().shape == (len(rows), 1 + len(found.values))
    assert found.matrix().shape == (len(rows), 4, 4)
    assert index in repr(found)


@pytest.mark.parametrize("index", ["SV", "k-SII", "STII", "FSII"])
def test_rows_of_the_frame_add_up_to_the_prediction(game, index):
    d, rows, _ = game
    for output in (0, 1):
        frame = d.shapley_interactions(rows, index=index).to_frame(output)
        assert frame.columns[0] == "base"
        np.testing.assert_allclose(frame.sum(axis=1), d.predict(rows)[:, output], atol=1e-11)


def test_what_does_not_exist_or_fit_is_refused(game):
    d, rows, _ = game
    with pytest.raises(InvalidInputError, match="kADD-SHAP"):
        d.shapley_interactions(rows, index="k-ADD")
    with pytest.raises(MemoryBudgetError, match="order 4"):
        d.shapley_interactions(rows, index="SGV", order=4, memory_budget=1000)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("index", [i for i in INDICES if i != "components"])
@pytest.mark.filterwarnings("ignore:CHII is not defined")
@pytest.mark.filterwarnings("ignore::RuntimeWarning:shapiq")
def test_shapiq_agrees_by_name(game, index, order):
    if index in ("SV", "BV") and order > 1:
        pytest.skip("single features only")
    exact = pytest.importorskip("shapiq.game_theory.exact", reason="the peer is not a dependency")
    d, rows, value = game
    row = 2
    table = all_values(value, 4)

    def worth(coalitions):
        keys = [tuple(np.flatnonzero(c).tolist()) for c in np.asarray(coalitions)]
        return np.array([table[key][row, 1] for key in keys])

    theirs = exact.ExactComputer(worth, n_players=4)(index, order)
    ours = d.shapley_interactions(rows, order=order, index=index).values
    for group in groups_of(order):
        # Their least squares meet the ends by large weights, not by constraints.
        assert ours[group][row, 1] == pytest.approx(theirs[group], abs=1e-5), group
