"""The closed form under measures of full support: unique where the rows leave effects open."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.reference.dense import functional_anova
from treepurify.errors import InvalidInputError


def sparse_rows(n_rows: int = 40) -> np.ndarray:
    """Return levels of three features, of whose combinations the rows have few."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (n_rows, 3))
    X[:, 1] = np.where(rng.random(n_rows) < 0.8, X[:, 0], X[:, 1])
    X[:, 2] = np.where(rng.random(n_rows) < 0.8, X[:, 1], X[:, 2])
    return X


def response(X: np.ndarray) -> np.ndarray:
    return X[:, 0] * X[:, 1] - (X[:, 2] == 1) + (X[:, 0] == X[:, 1]) * (X[:, 2] == 2)


FULL = ["independent", "laplace", "uniform"]


@pytest.mark.parametrize("weights", FULL, ids=str)
def test_full_support_makes_effects_unique(weights):
    X = sparse_rows()
    by_rows = tp.categorical_anova(response, X)
    assert by_rows.certificate.unidentified > 0
    d = tp.categorical_anova(response, X, weights=weights)
    assert d.certificate.unidentified == 0
    assert d.certificate.is_exact
    assert d.origin.n_rows == 40
    # Beside the dense truth, whose joint mass is that of the largest component.
    cells = np.indices((3, 3, 3)).reshape(3, -1).T
    values = response(cells).reshape(3, 3, 3, 1).astype(float)
    truth = functional_anova(values, d[0, 1, 2].mass)
    for subset, component in d.components.items():
        np.testing.assert_allclose(component.values, truth[subset], atol=1e-9)
    # Other orders of features select other functions first, and find the same effects.
    other = tp.categorical_anova(lambda X: response(X[:, ::-1]), X[:, ::-1], weights=weights)
    np.testing.assert_allclose(other[1, 2].values, d[0, 1].values.swapaxes(0, 1), atol=1e-9)


def test_the_joint_mass_is_that_of_the_measure():
    X = sparse_rows()
    d = tp.categorical_anova(response, X, weights="independent")
    margins = [np.bincount(column) / 40 for column in X.T]
    expected = np.einsum("i,j,k->ijk", *margins)
    np.testing.assert_allclose(d[0, 1, 2].mass, expected, atol=1e-14)
    assert d.measure == "independent"
    table = np.random.default_rng(1).uniform(size=(3, 3, 3))
    d = tp.categorical_anova(response, X, weights=tp.weights.JointTable(table))
    np.testing.assert_allclose(d[0, 1, 2].mass, table / table.sum(), atol=1e-14)


def test_trees_agree_with_purify_under_the_same_masses():
    X = sparse_rows(200)
    model = GradientBoostingRegressor(max_depth=2, n_estimators=30, random_state=0)
    model.fit(X, response(X))
    for weights in ("laplace", "independent"):
        closed = tp.categorical_anova(model, X, weights=weights)
        purified = tp.purify(model, X, weights=weights)
        for subset in purified.components:
            np.testing.assert_allclose(
                closed[subset].on_rows(X), purified[subset].on_rows(X), atol=1e-8
            )


@pytest.mark.parametrize("weights", ["smoothed", "auto"])
def test_moved_rows(weights):
    X = pd.DataFrame(sparse_rows(300), columns=["a", "b", "c"]).astype(str)
    d = tp.categorical_anova(lambda X: (X["a"] == X["b"]).to_numpy(float), X, weights=weights)
    facts = d.diagnostics["measure"]
    assert d.measure.startswith("smoothed rows" if weights == "auto" else weights)
    assert facts.get("points", 300) >= 300
    assert d.certificate.is_exact
    assert d["a"].mass.sum() == pytest.approx(1)


def test_values_alone_do_where_all_combinations_are_known():
    cells = np.indices((3, 2)).reshape(2, -1).T
    X = np.concatenate([cells, cells[:2]])
    values = X[:, 0] * X[:, 1]
    given = tp.categorical_anova(values, X, weights="uniform")
    called = tp.categorical_anova(lambda X: X[:, 0] * X[:, 1], X, weights="uniform")
    np.testing.assert_allclose(given[0, 1].values, called[0, 1].values, atol=1e-12)
    with pytest.raises(InvalidInputError, match="pass the function itself"):
        tp.categorical_anova(values[1:4], X[1:4], weights="uniform")


def test_what_cannot_be_is_refused():
    X = sparse_rows()
    with pytest.raises(InvalidInputError, match="sample_weight would be ignored"):
        tp.categorical_anova(response, X, weights="uniform", sample_weight=np.ones(40))
    many = np.random.default_rng(0).integers(0, 20, (200, 8))
    with pytest.raises(tp.errors.MemoryBudgetError, match="combinations of the levels"):
        tp.categorical_anova(lambda X: X[:, 0], many, weights="independent")


@pytest.mark.parametrize("weights", ["empirical", "independent", "laplace", "uniform"])
def test_combinations_of_levels_are_not_taken_for_a_sample(weights):
    X = np.random.default_rng(0).integers(0, 3, (200, 3))

    def f(X):
        return X[:, 0] * X[:, 1] + X[:, 2]

    d = tp.categorical_anova(f, X, weights=weights, progress=False)
    assert d.origin.measure_rows == (200 if weights == "empirical" else 0)
