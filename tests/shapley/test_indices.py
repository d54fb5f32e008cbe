"""Interaction indices against their definitions as games."""

from itertools import combinations

import numpy as np
import pytest

from tests.shapley.test_values import purified
from tests.shapley.truth import (
    all_values,
    decomposition_game,
    faithful_approximation,
    mean_over_coalitions,
)
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.shapley.interactions import INDICES


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
def test_means_over_coalitions(game, order):
    d, rows, value = game
    truth = {group: mean_over_coalitions(value, 4, group) for group in groups_of(order)}
    assert_groups(d.shapley_interactions(rows, order=order, index="SII"), truth, order)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_faithful_indices_are_the_nearest_game_of_their_order(game, order):
    d, rows, value = game
    truth = faithful_approximation(value, 4, order)
    assert_groups(d.shapley_interactions(rows, order=order, index="FSII"), truth, order)
    np.testing.assert_allclose(truth[()], value(()), atol=1e-11)


@pytest.mark.parametrize("index", INDICES)
def test_every_index_has_a_frame_and_a_matrix(game, index):
    d, rows, _ = game
    found = d.shapley_interactions(rows, index=index)
    assert found.to_frame().shape == (len(rows), 1 + len(found.values))
    assert found.matrix().shape == (len(rows), 4, 4)
    assert index in repr(found)


@pytest.mark.parametrize("index", ["k-SII", "STII", "FSII"])
def test_rows_of_the_frame_add_up_to_the_prediction(game, index):
    d, rows, _ = game
    for output in (0, 1):
        frame = d.shapley_interactions(rows, index=index).to_frame(output)
        assert frame.columns[0] == "base"
        np.testing.assert_allclose(frame.sum(axis=1), d.predict(rows)[:, output], atol=1e-11)


def test_what_does_not_exist_or_fit_is_refused(game):
    d, rows, _ = game
    with pytest.raises(InvalidInputError, match="FSII"):
        d.shapley_interactions(rows, index="k-ADD")
    with pytest.raises(MemoryBudgetError, match="order 4"):
        d.shapley_interactions(rows, order=4, memory_budget=1000)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning:shapiq")
def test_shapiq_agrees_by_name(game, index, order):
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
