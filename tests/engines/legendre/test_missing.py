"""Missing values have a separate level beside the polynomials: compared with dense algebra."""

import numpy as np
import pytest
from numpy.polynomial.legendre import legvander

import treepurify as tp
from treepurify import plots

DEGREE = 3


def rows(n=1500, share=0.2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    # Values are missing more often where the other feature is large.
    X[rng.uniform(size=n) < 2 * share / (1 + np.exp(-2 * X[:, 1])), 0] = np.nan
    return X


def function(X):
    missing = np.isnan(X[:, 0])
    a = np.where(missing, 0.0, X[:, 0])
    return np.where(missing, 1.5 - X[:, 1], 0.7 * a - a**2 + a * X[:, 1]) + 0.5 * X[:, 1] ** 2


def scaled(values):
    low, high = np.nanmin(values), np.nanmax(values)
    return (2 * values - low - high) / (high - low)


def functions_of(X):
    """The functions of each feature that least squares may use, the constant apart."""
    missing = np.isnan(X[:, 0])
    first = legvander(np.where(missing, 0.0, scaled(X[:, 0])), DEGREE)[:, 1:]
    second = legvander(scaled(X[:, 1]), DEGREE)[:, 1:]
    return np.column_stack([np.where(missing[:, None], 0.0, first), missing]), second


@pytest.fixture(scope="module")
def found():
    X = rows()
    d = tp.legendre_anova(
        function, X, degree=DEGREE, scaling="minmax", selection="all", progress=False
    )
    return d, X


def test_components_are_those_of_dense_least_squares(found):
    d, X = found
    values = function(X)
    first, second = functions_of(X)
    mains = np.column_stack([np.ones(len(X)), first, second])
    solution = np.linalg.lstsq(mains, values, rcond=None)[0]
    own = first @ solution[1 : 1 + first.shape[1]]
    other = second @ solution[1 + first.shape[1] :]
    np.testing.assert_allclose(d["x0"].on_rows(X)[:, 0], own - own.mean(), atol=1e-8)
    np.testing.assert_allclose(d["x1"].on_rows(X)[:, 0], other - other.mean(), atol=1e-8)
    # The function lies in the space of the pair: what the main effects leave is the pair.
    np.testing.assert_allclose(d["x0", "x1"].on_rows(X)[:, 0], values - mains @ solution, atol=1e-8)
    np.testing.assert_allclose(d.predict(X), values, atol=1e-8)


def test_missing_values_are_one_level(found):
    d, X = found
    effect = d["x0"].on_rows(X)[:, 0]
    missing = np.isnan(X[:, 0])
    assert np.ptp(effect[missing]) < 1e-12
    assert np.ptp(effect[~missing]) > 0.1
    assert d.diagnostics["scaling"]["x0"] == "minmax, with a separate level for missing values"
    pair = d["x0", "x1"].on_rows(X)[:, 0]
    for j, component in ((0, effect), (1, d["x1"].on_rows(X)[:, 0])):
        assert abs(np.mean(pair * component)) < 1e-10, j


def test_they_are_saved_and_drawn(found, tmp_path):
    d, X = found
    d.save(tmp_path / "d.tpz")
    again = tp.load(tmp_path / "d.tpz", function=function)
    np.testing.assert_array_equal(again["x0"].on_rows(X), d["x0"].on_rows(X))
    axes, mass = d["x0"].drawing_cells()
    assert axes[0].cuts is not None
    assert mass.sum() == pytest.approx(1.0)
    plots.main_effect(d, "x0")
    plots.pair(d, ("x0", "x1"))


@pytest.mark.parametrize("scaling", ["auto", "rank", "score", "tanh"])
def test_every_scaling_and_weights(scaling):
    X = rows(800)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    d = tp.legendre_anova(
        function, X, degree=5, scaling=scaling, sample_weight=weights, progress=False
    )
    assert d.diagnostics["fit"]["prediction"]["r_squared"] > 0.9
    repeated = np.repeat(X, weights.astype(int), axis=0)
    np.testing.assert_allclose(weights @ d["x0"].on_rows(X), 0.0, atol=1e-8 * len(repeated))


def test_what_has_no_level_is_refused():
    X = rows(300)
    with pytest.raises(tp.errors.InvalidInputError, match="separate level"):
        tp.legendre_anova(function, X, density="legendre", progress=False)
    infinite = X.copy()
    infinite[0, 0] = np.inf
    with pytest.raises(tp.errors.InvalidInputError, match="infinite"):
        tp.legendre_anova(function(X), infinite, progress=False)
    # Where none were missing, there is no level for them.
    d = tp.legendre_anova(function, np.nan_to_num(X), progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="missing or infinite"):
        d["x0"].on_rows(X)
