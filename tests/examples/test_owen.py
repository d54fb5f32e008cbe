"""Owen values against their definition by orders of arrival, and what they reduce to."""

from itertools import permutations

import numpy as np
import pytest

import treepurify as tp
from examples.paper_shapley_sets_owen import owen_values


def wavy(X):
    return X[:, 0] * X[:, 1] + np.sin(X[:, 2] + X[:, 3]) * X[:, 4] + X[:, 0] * X[:, 4]


def by_orders(worth, groups, n_features, n_rows):
    """The mean marginal contribution over all orders in which groups arrive whole."""
    total, count = np.zeros((n_rows, n_features)), 0
    for order_of_groups in permutations(groups):
        for inside in _orders_inside(order_of_groups):
            present, before = [], np.zeros(n_rows)
            for feature in inside:
                present.append(feature)
                now = worth(tuple(sorted(present)))
                total[:, feature] += now - before
                before = now
            count += 1
    return total / count


def _orders_inside(groups):
    if not groups:
        yield []
        return
    for own in permutations(groups[0]):
        for rest in _orders_inside(groups[1:]):
            yield [*own, *rest]


@pytest.mark.parametrize("value", ["marginal", "mean"])
def test_values_are_means_over_orders_of_arrival(value):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    groups = [[0, 1], [2, 3], [4]]
    sets = tp.shapley_sets(wavy, X, value=value, groups=groups, progress=False)
    rows = X[:4]
    truth = by_orders(
        lambda s: sets.value_function(rows, s)[:, 0] if s else np.zeros(4), sets.groups, 5, 4
    )
    found = owen_values(sets, rows)
    np.testing.assert_allclose(found[:, :, 0], truth, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1)[:, 0], wavy(rows) - sets.base[0], atol=1e-12)


def test_one_group_and_single_features_are_shapley_values():
    X = np.random.default_rng(1).normal(size=(50, 5))
    rows = X[:3]
    single, whole = (
        owen_values(tp.shapley_sets(wavy, X, groups=groups, progress=False), rows)
        for groups in ([], [[0, 1, 2, 3, 4]])
    )
    np.testing.assert_allclose(single, whole, atol=1e-12)


def test_other_groups_change_nothing_where_the_function_adds_up():
    def f(X):
        return X[:, 0] * X[:, 1] + X[:, 2] ** 2 * X[:, 3]

    X = np.random.default_rng(2).normal(size=(50, 4))
    sets = tp.shapley_sets(f, X, progress=False)
    assert sets.groups == ((0, 1), (2, 3))
    within = owen_values(sets, X[:5], others="none")
    np.testing.assert_allclose(within, owen_values(sets, X[:5]), atol=1e-12)
    worth = np.stack([sets.value_function(X[:5], group) for group in sets.groups], axis=1)
    own = np.stack([within[:, list(group)].sum(axis=1) for group in sets.groups], axis=1)
    np.testing.assert_allclose(own, worth, atol=1e-12)


def test_too_many_coalitions_are_refused():
    X = np.random.default_rng(3).normal(size=(30, 20))
    sets = tp.shapley_sets(lambda X: X.sum(axis=1), X, groups=[], progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="most_coalitions"):
        owen_values(sets, X[:1])
    assert owen_values(sets, X[:1], others="none").shape == (1, 20, 1)
    wide = np.random.default_rng(3).normal(size=(30, 200))
    sets = tp.shapley_sets(lambda X: X.sum(axis=1), wide, groups=[list(range(200))], progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match=r"2\*\*200"):
        owen_values(sets, wide[:1])
