"""Shapley residuals, against least squares on the hypercube of coalitions."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import treepurify as tp
from tests.shapley.test_values import purified
from tests.shapley.truth import all_values, decomposition_game, interventional_game
from treepurify.shapley.residuals import _check_size

GROUPS = [(0,), (3,), (0, 2), (1, 2, 3), (0, 1, 2, 3)]


def residuals_by_definition(game, n, groups):
    """Kumar et al. (2021): project what a group adds on each edge onto gradients of games."""
    value = all_values(game, n)
    position = {coalition: number for number, coalition in enumerate(value)}
    edges = [(s, tuple(sorted((*s, i))), i) for s in value for i in range(n) if i not in s]
    gradient = np.zeros((len(edges), len(value)))
    for number, (start, end, _) in enumerate(edges):
        gradient[number, position[start]], gradient[number, position[end]] = -1, 1
    worth = np.array([value[s] for s in value]).reshape(len(value), -1)
    added = gradient @ worth
    found = []
    for group in groups:
        own = added * np.array([[i in group] for _, _, i in edges])
        nearest = gradient @ np.linalg.lstsq(gradient, own, rcond=None)[0]
        found.append(np.linalg.norm(own - nearest, axis=0) / np.linalg.norm(own, axis=0))
    return np.stack(found, axis=-1)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_residuals_are_those_of_the_game_of_the_effects(n_outputs):
    d, X, _ = purified(n_outputs=n_outputs)
    rows = X[::61]
    found = d.shapley_residuals(rows, groups=GROUPS)
    expected = residuals_by_definition(decomposition_game(d, rows), 4, GROUPS)
    np.testing.assert_allclose(found.to_numpy(), expected.reshape(len(rows), -1), atol=1e-12)
    assert (found.to_numpy() > 0.01).any()


def test_a_booster_against_background_rows():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 5)), columns=list("abcde"))
    y = X.a * X.b + np.sin(2 * X.c) + X.d * (X.e > 0)
    model = xgboost.XGBRegressor(n_estimators=30, max_depth=5).fit(X, y)
    background, rows = X[:40], X[40:44]
    d = tp.partial_dependence_anova(model, background, order=None, progress=False)
    names = ["a", "e", "a & b", ("c", "d", "e")]
    found = d.shapley_residuals(rows, groups=names)

    def predict(values):
        return model.predict(values, output_margin=True).astype(float)

    game = interventional_game(predict, rows.to_numpy(), background.to_numpy())
    groups = [(0,), (4,), (0, 1), (2, 3, 4)]
    expected = residuals_by_definition(game, 5, groups)
    np.testing.assert_allclose(found.to_numpy(), expected, atol=1e-5)  # single precision
    assert list(found) == ["a", "e", "a & b", "c & d & e"]
    assert list(found.index) == list(rows.index)


def test_groups_that_add_up_have_none():
    def f(X):
        return X[:, 0] + 2 * X[:, 1] * X[:, 2]

    d = tp.partial_dependence_anova(f, np.zeros((1, 3)), order=None, progress=False)
    found = d.shapley_residuals([[1.0, 1.0, 1.0]], groups=[0, [1, 2], 1, [0, 1]])
    np.testing.assert_allclose(found.to_numpy()[0, :2], 0, atol=1e-15)
    # w of x1 is 1/2, those of x2, x3 and both are 1/2: half of what x2 adds is lost to x3.
    np.testing.assert_allclose(found.to_numpy()[0, 2:], [0.5, np.sqrt(1 / 6)])


def test_a_feature_that_adds_nothing_has_none():
    d = tp.purify_tensors({0: [-1.0, 1.0]}, feature_names=["a", "b"])
    assert d.shapley_residuals([[0, 1]]).to_numpy().tolist() == [[0.0, 0.0]]


def test_a_remainder_of_known_parts_counts():
    whole, X, _ = purified(method="mass-moving")
    d, _, _ = purified(method="mass-moving", order=1)
    rows = X[::41]
    pd.testing.assert_frame_equal(d.shapley_residuals(rows), whole.shapley_residuals(rows))


def test_sparse_rows_have_the_same():
    d, X, _ = purified()
    dense = d.shapley_residuals(X[:50])
    pd.testing.assert_frame_equal(d.shapley_residuals(csr_array(X[:50])), dense)


def test_refusals():
    d, X, _ = purified()
    with pytest.raises(tp.errors.InvalidInputError, match="list of features or groups"):
        d.shapley_residuals(X, groups="x0")
    with pytest.raises(tp.errors.InvalidInputError, match="at least one"):
        d.shapley_residuals(X, groups=[])
    with pytest.raises(tp.errors.UnknownComponentError, match="no feature at position 9"):
        d.shapley_residuals(X, groups=[9])
    with pytest.raises(tp.errors.MemoryBudgetError, match="fewer rows"):
        d.shapley_residuals(X, memory_budget=10_000)


def test_effects_of_many_features_are_refused_before_their_parts_are_listed():
    with pytest.raises(tp.errors.MemoryBudgetError, match="effects of up to 60 features"):
        _check_size([(0,), tuple(range(60))], 1, 1 << 30)
