"""Accumulated local effects against loops, PyALE and formulas for correlated Gaussians."""

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from tests.reference.ensembles import random_ensemble
from treepurify.engines.ale.anova import ale_anova
from treepurify.engines.ale.axes import accumulation_axes
from treepurify.engines.common.functions import read_called
from treepurify.errors import InvalidInputError


def smooth(rows):
    return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) + rows[:, 0] ** 2 * rows[:, 2]


def nodes_of(columns, weights, feature, bins=20):
    return accumulation_axes(columns, weights, (feature,), bins, {}, 1 << 30)[feature]


def at(feature, value, width=3):
    row = np.zeros((1, width))
    row[0, feature] = value
    return row


def slow_main_effect(f, rows, weights, feature, edges):
    """The definition for one feature, bin by bin and row by row."""
    steps, masses = [], []
    for low, high in pairwise(edges):
        inside = (rows[:, feature] > low) & (rows[:, feature] <= high)
        if low == edges[0]:
            inside |= rows[:, feature] == low
        total = mass = 0.0
        for row, weight in zip(rows[inside], weights[inside], strict=True):
            ends = np.stack([row, row])
            ends[:, feature] = low, high
            values = f(ends)
            total += weight * (values[1] - values[0])
            mass += weight
        steps.append(total / mass)
        masses.append(mass)
    accumulated = np.concatenate([[0.0], np.cumsum(steps)])
    middle = (accumulated[1:] + accumulated[:-1]) / 2
    return accumulated - np.average(middle, weights=masses)


@pytest.fixture(scope="module")
def gaussians():
    rng = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.7, 0.3], [0.7, 1.0, 0.0], [0.3, 0.0, 1.0]])
    return rng.multivariate_normal(np.zeros(3), covariance, size=300)


def test_main_effects_against_loops(gaussians):
    weights = np.random.default_rng(1).random(300)
    d = ale_anova(smooth, gaussians, order=1, bins=12, sample_weight=weights)
    for j in range(3):
        edges = d[j].axes[0].nodes
        assert len(edges) == 13
        expected = slow_main_effect(smooth, gaussians, weights, j, edges)
        got = np.concatenate([d[j].on_rows(at(j, edge)) for edge in edges])
        np.testing.assert_allclose(got[:, 0], expected, atol=1e-12)
    between = d[0].on_rows(at(0, edges[:2].mean()))
    assert between.shape == (1, 1)
    np.testing.assert_allclose(d.predict(gaussians), smooth(gaussians), atol=1e-12)
    assert d.importance()["share"].sum() == pytest.approx(1.0)


def test_against_pyale_in_one_and_two_dimensions():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("PyALE", reason="the peer is not a dependency")
        from PyALE import ale
        from PyALE._src.ALE_2D import aleplot_2D_continuous

    rng = np.random.default_rng(2)
    place = rng.normal(size=4000)
    # Few distinct values, so that the bins of both end at the same ones.
    rows = np.stack(
        [np.clip(np.round(2 * place + rng.normal(size=4000)), -3, 3) for _ in range(2)], axis=1
    )
    frame = pd.DataFrame(rows, columns=["a", "b"])

    class Model:
        def predict(self, table):
            table = np.asarray(table, dtype=float)
            return table[:, 0] * table[:, 1] + np.sin(table[:, 0])

    d = ale_anova(Model().predict, rows, bins=60)
    nodes = np.arange(-3.0, 4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = ale(frame, Model(), ["a"], grid_size=60, feature_type="continuous", plot=False)
        both = aleplot_2D_continuous(frame, Model(), ["a", "b"], grid_size=60)
    np.testing.assert_array_equal(d[0].axes[0].nodes, nodes)
    np.testing.assert_allclose(d[0].values[:, 0], single["eff"], atol=1e-10)
    np.testing.assert_array_equal(both.index, nodes)
    np.testing.assert_allclose(d[0, 1].values[..., 0], both.to_numpy(), atol=1e-10)


def test_formulas_for_correlated_gaussians():
    """E(x1 | x0 = t) = r t, so the main effect of x0 in x0 x1 is r (t^2 - 1) / 2."""
    r = 0.8
    rng = np.random.default_rng(3)
    rows = rng.multivariate_normal(np.zeros(2), [[1, r], [r, 1]], size=60_000)
    d = ale_anova(lambda X: X[:, 0] * X[:, 1], rows, bins=60)
    t = np.linspace(-1.5, 1.5, 13)
    points = np.stack([t, np.zeros(13)], axis=1)
    main = d[0].on_rows(points)[:, 0]
    np.testing.assert_allclose(main - main[6], r * t**2 / 2, atol=0.02)
    # The mean is taken at the ends of bins, which stretches the two outer ones.
    np.testing.assert_allclose(main, r * (t**2 - 1) / 2, atol=0.06)
    near = rows[np.abs(rows).max(axis=1) < 1.2][:200]
    pair = near[:, 0] * near[:, 1] - r * (near**2).sum(axis=1) / 2
    got = d[0, 1].on_rows(near)[:, 0]
    assert np.max(np.abs(got - got.mean() - pair + pair.mean())) < 0.06


def test_an_additive_function_has_its_own_effects_and_no_pairs(gaussians):
    d = ale_anova(lambda X: 3 * X[:, 0] - X[:, 1] + np.abs(X[:, 2]), gaussians, bins=10)
    for edge in d[0].axes[0].nodes[[2, 7]]:
        slope = d[0].on_rows(at(0, edge)) - d[0].on_rows(at(0, 0.0))
        assert slope[0, 0] == pytest.approx(3 * edge)
    for pair in [(0, 1), (0, 2), (1, 2)]:
        assert np.max(np.abs(d[pair].values)) < 1e-12
    assert d.remainder.variance[0] < 0.01


def test_categories_are_ordered_by_similarity():
    rng = np.random.default_rng(6)
    latent = rng.uniform(size=3000)
    town = np.array(["c", "a", "e", "b", "d"])[(5 * latent).astype(int)]
    frame = pd.DataFrame(
        {"town": town, "size": latent + 0.1 * rng.normal(size=3000), "noise": rng.normal(size=3000)}
    )

    def f(table):
        level = table["town"].map({"c": 0.0, "a": 1.0, "e": 2.0, "b": 3.0, "d": 4.0})
        return (level * table["size"]).to_numpy()

    _, columns = read_called(f, frame)
    shares = np.full(3000, 1 / 3000)
    order = nodes_of(columns, shares, 0).nodes.astype(int)
    named = "".join(columns.features[0].categories[code] for code in order)
    assert named in ("caebd", "dbeac")
    d = ale_anova(f, frame)
    effect = {t: d["town"].on_rows(frame[town == t].iloc[:1])[0, 0] for t in "abcde"}
    levels = [effect[t] for t in "caebd"]
    for k, (low, high) in enumerate(zip("caeb", "aebd", strict=True)):
        both = np.isin(town, [low, high])
        step = frame["size"][both].mean()
        assert levels[k + 1] - levels[k] == pytest.approx(step)
    counts = frame["town"].value_counts(normalize=True)
    assert sum(effect[t] * counts[t] for t in "abcde") == pytest.approx(0, abs=1e-12)
    assert d["town", "size"].values.shape[0] == 5
    np.testing.assert_allclose(d.predict(frame), f(frame), atol=1e-12)


def test_the_band_covers():
    """The standard error of the effect at a fixed quantile, against repeated samples."""
    found, errors = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(400, 2))
        d = ale_anova(lambda X: X[:, 0] * (1 + X[:, 1]), rows, order=1, bins=10)
        nodes = d[0].axes[0].nodes
        span = d[0].values[-2, 0] - d[0].values[1, 0]
        found.append(span / (nodes[-2] - nodes[1]))
        errors.append(d[0].standard_error[[1, -2], 0] / (nodes[-2] - nodes[1]))
    spread = np.std(found)
    # The two ends are on different sides of the centre: their errors nearly add up.
    assert 0.6 < np.mean(np.sum(errors, axis=1)) / spread < 1.7
    low, high = d[0].band()
    assert np.all(low <= d[0].values)
    assert np.all(d[0].values <= high)


def test_missing_values_have_no_local_effect(gaussians):
    rows = gaussians.copy()
    rows[:40, 0] = np.nan
    d = ale_anova(lambda X: np.where(np.isnan(X[:, 0]), 7.0, X[:, 0] * X[:, 1]), rows)
    assert np.all(d[0].on_rows(rows[:5]) == 0)
    assert d.diagnostics["missing_values_without_effect"] == {"x0": 40}
    np.testing.assert_allclose(d.on_rows(rows[40:])[:, 0], rows[40:, 0] * rows[40:, 1])
    ensemble = random_ensemble(np.random.default_rng(0), n_features=3)
    d = ale_anova(ensemble, rows)
    assert np.all(d[0].on_rows(rows[:5]) == 0)
    np.testing.assert_allclose(d.on_rows(rows), ensemble.margin(rows), atol=1e-12)


def test_cells_without_rows_are_counted():
    x = np.linspace(0, 1, 50)
    d = ale_anova(lambda X: X[:, 0] * X[:, 1], np.stack([x, x], axis=1), bins=5)
    assert d.diagnostics["cells_without_rows"] == {"x0 & x1": 20}
    assert "accumulated local effects" in d.measure


def test_chosen_nodes_against_loops(gaussians):
    weights = np.random.default_rng(1).random(300)
    chosen = {"x0": [-1.0, 0.0, 0.25, 1.0], 2: [-9.0, 0.0, 9.0]}
    d = ale_anova(smooth, gaussians, order=1, bins=12, sample_weight=weights, nodes=chosen)
    ends = [gaussians[:, 0].min(), gaussians[:, 0].max()]
    for j, edges in ((0, [ends[0], *chosen["x0"], ends[1]]), (2, chosen[2])):
        np.testing.assert_array_equal(d[j].axes[0].nodes, edges)
        expected = slow_main_effect(smooth, gaussians, weights, j, np.array(edges))
        np.testing.assert_allclose(d[j].values[:, 0], expected, atol=1e-12)
    assert len(d[1].axes[0].nodes) == 13
    ensemble = random_ensemble(np.random.default_rng(4), n_features=3, n_trees=20, depth=3)
    d = ale_anova(ensemble, gaussians, order=1, nodes=chosen, sample_weight=weights)
    edges = np.array([ends[0], *chosen["x0"], ends[1]])
    expected = slow_main_effect(lambda X: ensemble.margin(X)[:, 0], gaussians, weights, 0, edges)
    got = np.concatenate([d[0].on_rows(at(0, edge)) for edge in edges])[:, 0]
    np.testing.assert_allclose(got - got[0], expected - expected[0], atol=1e-12)


@pytest.mark.parametrize("wrong", [[0.0], [1.0, 0.0], [0.0, np.nan], "ab", [[0.0, 1.0]], None])
def test_nodes_are_increasing_numbers(gaussians, wrong):
    with pytest.raises(InvalidInputError, match="nodes of 'x0' must be two or more finite"):
        ale_anova(smooth, gaussians, order=1, nodes={"x0": wrong})


def test_nodes_are_by_feature(gaussians):
    with pytest.raises(InvalidInputError, match="nodes must map features to numbers"):
        ale_anova(smooth, gaussians, order=1, nodes=[0.0, 1.0])
    frame = pd.DataFrame({"a": gaussians[:, 0], "town": pd.Categorical(["x", "y", "z"] * 100)})
    with pytest.raises(InvalidInputError, match=r"leave out 'town', which is categorical"):
        ale_anova(lambda X: X["a"], frame, order=1, nodes={"town": [0, 1]})


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_trees_and_functions_have_the_same_effects(gaussians, n_outputs):
    rng = np.random.default_rng(4)
    ensemble = random_ensemble(rng, n_features=3, n_trees=20, depth=3, n_outputs=n_outputs)
    weights = rng.random(300)
    d = ale_anova(ensemble, gaussians, bins=6, sample_weight=weights)
    called = ale_anova(ensemble.margin, gaussians, bins=6, sample_weight=weights)
    assert len(d) == 6
    for subset, effect in d.components.items():
        other = called[subset]
        np.testing.assert_allclose(effect.values, other.values, atol=1e-12)
        np.testing.assert_allclose(effect.standard_error, other.standard_error, atol=1e-12)
    np.testing.assert_allclose(d.on_rows(gaussians), ensemble.margin(gaussians), atol=1e-12)


def test_bad_input(gaussians):
    with pytest.raises(InvalidInputError, match="order"):
        ale_anova(smooth, gaussians, order=3)
    for wrong in (0, 2.5, "x", True):
        with pytest.raises(InvalidInputError, match="bins must be a whole number of at least 1"):
            ale_anova(smooth, gaussians, bins=wrong)
    with pytest.raises(InvalidInputError, match="sample_weight must have one number per row"):
        ale_anova(smooth, gaussians, sample_weight=["one"] * 300)
    with pytest.raises(InvalidInputError, match="real numbers, got sparse values"):
        ale_anova(smooth, csr_array(gaussians.astype(complex)))
    with pytest.raises(InvalidInputError, match=r"interactions=3: only purify accepts a number"):
        ale_anova(smooth, gaussians, interactions=3)
    with pytest.raises(InvalidInputError, match="interactions"):
        ale_anova(smooth, gaussians, interactions=[("x0", "y")])
    with pytest.raises(InvalidInputError, match="NaN"):
        ale_anova(lambda X: np.full(len(X), np.nan), gaussians)
    with pytest.raises(InvalidInputError, match="no rows"):
        ale_anova(smooth, gaussians[:0])
    constant = np.zeros((5, 2))
    d = ale_anova(lambda X: X[:, 0] + 1.0, constant)
    assert len(d) == 0
    np.testing.assert_allclose(d.predict(constant), 1.0)
    only = ale_anova(smooth, gaussians, interactions=[("x0", 1)])
    assert [s for s in only if len(s) == 2] == [(0, 1)]
