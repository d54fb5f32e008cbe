"""Hooker's weighted ANOVA against dense least squares, the ANOVA of a full grid, and purify."""

import numpy as np
import pandas as pd
import pytest

from tests.reference.dense import functional_anova
from tests.reference.ensembles import random_ensemble
from treepurify import purify
from treepurify.engines.hooker.anova import hooker_anova
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.weights import Laplace


def smooth(rows):
    return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) + rows[:, 0] ** 2 * rows[:, 2]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(500, 3)) + 0.8 * rng.normal(size=(500, 1))


def dense_fit(values, codes, weights, pairs, sizes):
    """Fitted values of a weighted least-squares fit by indicators of the cells of pairs."""
    blocks = [np.ones((len(values), 1))]
    for i, j in pairs:
        number = codes[i] * sizes[j] + codes[j]
        blocks.append((number[:, None] == np.arange(sizes[i] * sizes[j])).astype(float))
    design = np.hstack(blocks)
    root = np.sqrt(weights)[:, None]
    found = np.linalg.lstsq(root * design, root[:, 0] * values, rcond=1e-12)[0]
    return design @ found


def test_the_fit_is_that_of_dense_least_squares(rows):
    weights = np.random.default_rng(1).random(500)
    d = hooker_anova(smooth, rows, bins=5, sample_weight=weights)
    codes = [np.searchsorted(d[j].axes[0].cuts, rows[:, j], side="right") for j in range(3)]
    expected = dense_fit(smooth(rows), codes, weights, [(0, 1), (0, 2), (1, 2)], [5, 5, 5])
    fitted = d.intercept + sum(c.on_rows(rows) for c in d.components.values())
    np.testing.assert_allclose(fitted[:, 0], expected, atol=1e-8)
    rest = smooth(rows) - expected
    share = 1 - np.average(rest**2, weights=weights) / np.average(
        (smooth(rows) - np.average(smooth(rows), weights=weights)) ** 2, weights=weights
    )
    assert d.diagnostics["fit"]["r_squared"][0] == pytest.approx(share, rel=1e-8)
    np.testing.assert_allclose(d.predict(rows), smooth(rows), atol=1e-12)
    assert d.certificate.conditional_mean < 1e-9
    assert "stopped" not in d.certificate.note
    assert d.importance()["share"].sum() == pytest.approx(1.0)


def test_a_function_on_a_full_grid_has_the_components_of_its_anova():
    """All orders, dependent masses: the definition, solved as one dense system."""
    rng = np.random.default_rng(2)
    cells = np.indices((3, 2, 4)).reshape(3, -1).T.astype(float)
    mass = rng.random((3, 2, 4)) + 0.1
    table = rng.normal(size=(3, 2, 4))

    def f(own):
        return table[tuple(own.astype(int).T)]

    d = hooker_anova(f, cells, order=3, sample_weight=mass.ravel())
    truth = functional_anova(table[..., None], mass / mass.sum())
    np.testing.assert_allclose(d.intercept, truth[()].ravel(), atol=1e-9)
    for subset, component in d.components.items():
        np.testing.assert_allclose(component.values, truth[subset], atol=1e-8)
    assert d.diagnostics["fit"]["r_squared"][0] == pytest.approx(1.0)


@pytest.mark.parametrize("weights", ["empirical", "laplace", "independent", "uniform"])
def test_a_depth_2_model_agrees_with_purify(weights):
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_features=3, n_trees=25, depth=2, n_outputs=2, n_categorical=1)
    own = rng.normal(size=(3000, 3)) + rng.normal(size=(3000, 1))
    own[:, 2] = np.clip(np.round(own[:, 2]) + 1, 0, 2)
    own[rng.random(own.shape) < 0.15] = np.nan
    chosen = Laplace(0.3) if weights == "laplace" else weights
    exact = purify(ensemble, own, weights=chosen)
    fitted = hooker_anova(ensemble, own, weights=chosen)
    assert fitted.diagnostics["fit"]["r_squared"] == pytest.approx([1.0, 1.0])
    np.testing.assert_allclose(fitted.intercept, exact.intercept, atol=1e-8)
    for subset in exact:
        filled = exact[subset].mass > 0
        np.testing.assert_allclose(
            fitted[subset].values[filled], exact[subset].values[filled], atol=1e-7
        )
    assert fitted.measure == exact.measure


def test_measures_that_points_are_drawn_from(rows):
    """A product of centred features under independence is pure; drawn points are few."""

    def f(own):
        return own[:, 0] + own[:, 1] * own[:, 2]

    d = hooker_anova(f, rows, weights="independent", bins=12, n_points=40_000)
    main = d[0].on_rows(rows)[:, 0]
    assert np.corrcoef(main, rows[:, 0])[0, 1] > 0.97
    assert d.certificate.conditional_mean < 1e-9
    again = hooker_anova(f, rows, weights="independent", bins=12, n_points=40_000)
    np.testing.assert_array_equal(again[0].values, d[0].values)
    other = hooker_anova(f, rows, weights="independent", bins=12, n_points=40_000, seed=1)
    assert not np.array_equal(other[0].values, d[0].values)
    assert "drawn from the distribution" in d.certificate.note


def test_tables_with_categories_and_chosen_interactions():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["a", "b", "c"], size=600),
            "rooms": rng.integers(1, 5, size=600),
            "size": rng.normal(size=600),
        }
    )

    def f(table):
        level = table["town"].map({"a": 0.0, "b": 1.0, "c": 4.0})
        return (level * table["rooms"] + table["rooms"]).to_numpy()

    d = hooker_anova(f, frame, interactions=[("town", "rooms")])
    assert set(d) == {(0,), (1,), (2,), (0, 1)}
    fitted = d.intercept + sum(c.on_rows(frame) for c in d.components.values())
    np.testing.assert_allclose(fitted[:, 0], f(frame), atol=1e-9)
    assert d["size"].variance[0] < 1e-16


@pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")
def test_main_effects_alone(rows):
    d = hooker_anova(lambda X: 2 * X[:, 0] + np.sign(X[:, 1]), rows, order=1, bins=400)
    assert set(d) == {(0,), (1,), (2,)}
    assert d.diagnostics["fit"]["r_squared"][0] > 0.99
    with pytest.raises(KeyError):
        d["x0", "x1"]


def test_bad_input(rows):
    with pytest.raises(InvalidInputError, match="order"):
        hooker_anova(smooth, rows, order=4)
    with pytest.raises(InvalidInputError, match="bins"):
        hooker_anova(smooth, rows, bins=1)
    with pytest.raises(InvalidInputError, match="interactions"):
        hooker_anova(smooth, rows, interactions=[("x0", "nope")])
    with pytest.raises(InvalidInputError, match="cannot be drawn"):
        hooker_anova(smooth, rows, weights=Laplace(variant="plus-one"))
    with pytest.raises(MemoryBudgetError):
        hooker_anova(smooth, rows, memory_budget=1000)
    with pytest.raises(InvalidInputError, match="one value"):
        hooker_anova(lambda X: np.zeros(2), rows)
    constant = hooker_anova(lambda X: np.ones(len(X)), np.zeros((10, 2)))
    assert len(constant) == 0
    np.testing.assert_allclose(constant.predict(np.zeros((3, 2))), 1.0)
