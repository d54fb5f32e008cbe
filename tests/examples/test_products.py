"""Factors of groups that a function multiplies."""

import numpy as np
import pytest

import treepurify as tp
from examples.paper_shapley_sets_products import product_groups

ROWS = np.random.default_rng(0).normal(size=(400, 6))


def found_for(f, X=ROWS, **options):
    sets = tp.shapley_sets(f, X, progress=False)
    return {own.features: own for own in product_groups(sets, X, **options)}


def test_a_product_of_three_is_split_into_three():
    own = found_for(lambda X: X[:, 0] * X[:, 1] * X[:, 2])[0, 1, 2]
    assert own.factors == ((0,), (1,), (2,))
    assert own.is_product
    assert own.constant == pytest.approx(0.0, abs=1e-9)


def test_factors_keep_their_features_and_the_constant_is_found():
    def f(X):
        return 5 + X[:, 4] + np.exp(X[:, 0] * X[:, 1]) * (2 + np.sin(X[:, 2] + X[:, 3]))

    found = found_for(f)
    own = found[0, 1, 2, 3]
    assert own.factors == ((0, 1), (2, 3))
    # Outside the group stands the first row.
    assert own.constant == pytest.approx(5 + ROWS[0, 4], abs=1e-8)
    assert own.residual < 1e-8
    assert (4,) not in found


@pytest.mark.parametrize(
    "f",
    [
        lambda X: X[:, 0] * X[:, 1] + X[:, 1] * X[:, 2],
        lambda X: X[:, 0] * X[:, 1] + X[:, 0] + X[:, 1] ** 2,
        lambda X: np.sin(X[:, 0] * X[:, 1] + X[:, 2]),
    ],
)
def test_what_is_no_product_stays_together(f):
    for features, own in found_for(f).items():
        if features == (0, 1, 2) and own.is_product:
            # x1 (x0 + x2) is a product of x1 and of the two others.
            assert own.factors == ((0, 2), (1,))
        else:
            assert not own.is_product
            assert np.isnan(own.constant)


def test_a_large_group_of_factors():
    X = np.random.default_rng(1).normal(size=(300, 24))

    def f(X):
        pairs = 2 + np.tanh(X[:, ::2] * X[:, 1::2])
        return pairs.prod(axis=1)

    sets = tp.shapley_sets(f, X, groups=[list(range(24))], progress=False)
    (own,) = product_groups(sets, X)
    assert own.factors == tuple((k, k + 1) for k in range(0, 24, 2))


def test_one_row_is_refused():
    sets = tp.shapley_sets(lambda X: X[:, 0] * X[:, 1], ROWS, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="two rows"):
        product_groups(sets, ROWS[:1])
