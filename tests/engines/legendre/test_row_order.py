"""What rows leave open is settled by one rule, whatever their order and the unit of weights."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import treepurify as tp

QUIET = {"progress": False}


def rows_in_blocks(seed, n_features=3):
    """Levels of which some occur only together: -5 in all features, 6 in the first two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, n_features)) + rng.normal(size=(300, 1))
    X = X.round(0).clip(-3, 3)
    X[:6] = -5
    X[6:12, :2] = 6
    return X, rng.integers(1, 4, 300).astype(float)


def response(X):
    return X[:, 0] * X[:, 1] * X[:, 2] + np.sin(X[:, 1]) * X[:, 0]


@pytest.mark.parametrize(
    ("selection", "order"), [("bic", 2), ("bic", 3), ("aic", 2), ("all", 2), ("all", 3)]
)
def test_effects_do_not_depend_on_the_order_of_rows(selection, order):
    for seed in range(3):
        X, weights = rows_in_blocks(seed)
        model = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=3)
        model.fit(X, response(X))
        options = {"selection": selection, "order": order, **QUIET}
        d = tp.legendre_anova(model, X, sample_weight=weights, **options)
        for unit in (1.0, 0.1, 1e-7):
            mixed = np.random.default_rng(seed).permutation(len(X))
            own = weights[mixed] * unit
            other = tp.legendre_anova(model, X[mixed], sample_weight=own, **options)
            assert set(other) == set(d)
            for subset, component in d.components.items():
                np.testing.assert_allclose(
                    other[subset].on_rows(X), component.on_rows(X), atol=1e-9
                )
            for number in ("unidentified", "fit_unidentified"):
                assert getattr(other.certificate, number) == getattr(d.certificate, number)


def test_main_effects_are_those_of_least_norm():
    """Among all pairs of main effects that fit as well, found by dense least squares."""
    X, weights = rows_in_blocks(1, n_features=2)
    values = X[:, 0] ** 2 - X[:, 0] * X[:, 1]
    scaling = {"x0": "levels", "x1": "levels"}
    d = tp.legendre_anova(
        values, X, sample_weight=weights, selection="all", scaling=scaling, **QUIET
    )
    shares = weights / weights.sum()
    columns, roots, starts = [], [], [0]
    for column in X.T:
        levels, place = np.unique(column, return_inverse=True)
        indicators = np.eye(len(levels))[place]
        roots.append(np.sqrt(shares @ indicators))
        columns.append((indicators - shares @ indicators) / roots[-1])
        starts.append(starts[-1] + len(levels))
    design = np.hstack(columns)
    root = np.sqrt(shares)[:, None]
    found = np.linalg.lstsq(root * design, root[:, 0] * (values - shares @ values), rcond=1e-10)[0]
    for j in range(2):
        part = slice(starts[j], starts[j + 1])
        np.testing.assert_allclose(d[j].on_rows(X)[:, 0], design[:, part] @ found[part], atol=1e-9)


def test_functions_that_can_move_are_counted():
    """Two blocks beside the others for the first two features, one for the other pairs."""
    X, weights = rows_in_blocks(2)
    d = tp.legendre_anova(response(X), X, sample_weight=weights, selection="all", **QUIET)
    assert d.certificate.unidentified == 2 + 1 + 1
    loose = np.arange(len(X)) >= 12
    d = tp.legendre_anova(response(X)[loose], X[loose], order=1, selection="all", **QUIET)
    assert d.certificate.unidentified == 0
    copies = np.column_stack([X[:, 0], X[:, 0]])
    d = tp.legendre_anova(response(X), copies, order=1, selection="all", **QUIET)
    assert d.certificate.unidentified == len(np.unique(X[:, 0])) - 1
    np.testing.assert_allclose(d[0].on_rows(copies), d[1].on_rows(copies), atol=1e-10)


@pytest.mark.parametrize("order", [2, 3])
def test_counts_are_those_of_dense_ranks(order):
    X, weights = rows_in_blocks(3)
    d = tp.legendre_anova(
        response(X), X, order=order, sample_weight=weights, selection="all", **QUIET
    )
    indicators = [np.eye(9)[np.unique(column, return_inverse=True)[1]] for column in X.T]

    def rank(subsets):
        tables = [np.ones((len(X), 1))]
        for subset in subsets:
            table = np.ones((len(X), 1))
            for j in subset:
                table = (table[:, :, None] * indicators[j][:, None]).reshape(len(X), -1)
            tables.append(table)
        return np.linalg.matrix_rank(np.hstack(tables)) - 1

    mains, pairs = [(0,), (1,), (2,)], list(combinations(range(3), 2))
    pure = {main: rank([main]) for main in mains}
    pure |= {(j, k): rank([(j, k)]) - rank([(j,), (k,)]) for j, k in pairs}
    expected = sum(pure[j,] + pure[k,] - rank([(j,), (k,)]) for j, k in pairs)
    if order == 3:
        expected = max(expected, sum(pure.values()) - rank(pairs))
    assert d.certificate.unidentified == expected
