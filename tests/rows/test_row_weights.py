"""Rows of weight zero change nothing, and whole-number weights are repeated rows."""

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.reference.ensembles import random_ensemble
from treepurify.engines.partial_dependence.background import outside_support
from treepurify.interactions.h_statistics_effects import HProblem, parsed_effects
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.row_weights import (
    equal_parts,
    first_reached,
    heaviest,
    row_quantiles,
)
from treepurify.rows.samples import sample_rows


def bent(rows):
    return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) + rows[:, 0] ** 2 * rows[:, 2]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 3)) + rng.normal(size=(60, 1))


@pytest.fixture(scope="module")
def ensemble():
    return random_ensemble(np.random.default_rng(1), n_features=3, n_trees=12, depth=3)


@pytest.fixture(scope="module")
def ebm(rows):
    glassbox = pytest.importorskip("interpret.glassbox")
    model = glassbox.ExplainableBoostingRegressor(
        interactions=2, max_rounds=10, n_jobs=1, outer_bags=1, max_bins=8
    )
    return tp.parse_model(model.fit(rows, bent(rows)))


def weightless(rows, n_more=300):
    """The rows among others of weight zero, which lie elsewhere, and the weights of all."""
    rng = np.random.default_rng(2)
    order = rng.permutation(len(rows) + n_more)
    more = np.concatenate([rows, 5 * rng.normal(size=(n_more, rows.shape[1]))])
    weights = np.concatenate([np.ones(len(rows)), np.zeros(n_more)])
    # In order among themselves, so that samples draw the same.
    order[np.isin(order, np.arange(len(rows)))] = np.arange(len(rows))
    return more[order], weights[order]


@pytest.fixture(scope="module")
def models(ensemble, ebm):
    return {"trees": ensemble, "tables": ebm, "function": bent}


KINDS = ["trees", "tables", "function"]


# H-statistics


@pytest.mark.parametrize("kind", KINDS)
def test_h_statistics_without_weightless_rows(models, rows, kind):
    more, weights = weightless(rows)
    options = {"sample_size": 50, "progress": False}
    alone = tp.h_statistics(models[kind], rows, **options)
    among = tp.h_statistics(models[kind], more, sample_weight=weights, **options)
    assert among.measure == alone.measure
    assert among.diagnostics["extrapolation"] == alone.diagnostics["extrapolation"]
    pd.testing.assert_frame_equal(among.pairs(), alone.pairs())
    pd.testing.assert_frame_equal(among.features(), alone.features())


def test_effects_say_how_many_rows_count(ensemble, rows):
    more, weights = weightless(rows)
    independent = tp.weights.Independent()
    problem = HProblem(
        ensemble, more, 2, None, weights, 500, 0, independent, 1 << 30, lambda *_: None
    )
    effects = parsed_effects(problem, ensemble)
    assert effects.diagnostics["rows"] == 60
    assert "over 60 background rows" in effects.measure


# Support


def columns_of(rows):
    return Columns(
        tuple(FeatureSpec(f"x{j}") for j in range(rows.shape[1])), tuple(rows.T), len(rows)
    )


def test_weighted_deciles_and_draws_of_the_support_are_those_of_repeated_rows():
    rng = np.random.default_rng(5)
    rows = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=400)
    weights = rng.integers(1, 9, size=400).astype(float) * (rows[:, 0] > 0) + 1
    own, repeated = columns_of(rows), columns_of(np.repeat(rows, weights.astype(int), axis=0))
    weighted = outside_support(own, own, (0, 1), weights=weights, point_weights=weights)
    counted = outside_support(repeated, repeated, (0, 1))
    assert abs(weighted["share"] - counted["share"]) < 4 * counted["standard_error"]
    unweighted = outside_support(own, own, (0, 1))
    assert abs(unweighted["share"] - counted["share"]) > 4 * counted["standard_error"]


def test_points_and_background_rows_are_drawn_by_weight():
    """On a diagonal a point is inside where both rows have the same code."""
    codes = np.arange(10.0)
    specs = tuple(FeatureSpec(name, "categorical", n_codes=10) for name in "ab")
    columns = Columns(specs, (codes, codes), 10)
    weights = np.array([91.0, *[1.0] * 9])
    for of_background, of_points, same in (
        (weights, weights, 0.91**2 + 9 * 0.01**2),
        (weights, None, 0.1),
        (None, None, 0.1),
        (weights[::-1], weights, 2 * 0.91 * 0.01 + 8 * 0.01**2),
    ):
        facts = outside_support(
            columns, columns, (0, 1), weights=of_background, point_weights=of_points
        )
        assert facts["share"] == pytest.approx(1 - same, abs=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_weightless_background_rows_are_no_support(models, rows, kind):
    more, weights = weightless(rows)
    alone = tp.partial_dependence_anova(models[kind], rows[:20], background=rows, progress=False)
    among = tp.partial_dependence_anova(
        models[kind], rows[:20], background=more, sample_weight=weights, progress=False
    )
    assert among.measure == alone.measure
    assert "60 " in among.measure
    assert among.diagnostics["background_rows"] == 60
    assert among.diagnostics["extrapolation"] == alone.diagnostics["extrapolation"]


# Partial dependence


@pytest.mark.parametrize("kind", KINDS)
def test_partial_dependence_without_weightless_rows(models, rows, kind):
    more, weights = weightless(rows)
    options = {"background_size": 40, "progress": False}
    alone = tp.partial_dependence_anova(models[kind], rows, **options)
    among = tp.partial_dependence_anova(models[kind], more, sample_weight=weights, **options)
    np.testing.assert_allclose(among.intercept, alone.intercept, rtol=1e-12)
    for subset, component in alone.components.items():
        other = among.components[subset]
        np.testing.assert_allclose(other.on_rows(rows), component.on_rows(rows), atol=1e-12)
    left, right = alone.importance(), among.importance()
    pd.testing.assert_frame_equal(left, right)
    for key in ("standard_error", "intercept_standard_error"):
        assert among.diagnostics.get(key) == alone.diagnostics.get(key)


def test_a_few_heavy_rows_are_always_in_the_sample():
    """Five thousand rows of which thirty count: their mean, with next to no error."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(5000, 2))
    heavy = rng.choice(5000, size=30, replace=False)
    for light in (0.0, 1e-6):
        weights = np.full(5000, light)
        weights[heavy] = 1.0
        d = tp.partial_dependence_anova(
            lambda X: X[:, 0] + X[:, 1] ** 2,
            rows,
            sample_weight=weights,
            background_size=60,
            order=1,
            progress=False,
        )
        truth = np.average(rows[:, 0] + rows[:, 1] ** 2, weights=weights)
        (error,) = d.diagnostics["intercept_standard_error"]
        assert (error == 0) == (light == 0)
        assert abs(d.intercept[0] - truth) <= 4 * error + 1e-12
        assert error < 1e-3


@pytest.mark.parametrize("name", ["exponential", "heavy tails", "of the values", "certain"])
def test_standard_errors_under_unequal_weights_are_the_spread_over_seeds(name):
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(800, 2))
    weights = {
        "exponential": rng.exponential(size=800),
        "heavy tails": rng.lognormal(0, 2, size=800),
        "of the values": np.exp(rows[:, 0]),
        "certain": np.where(rows[:, 0] > 1.8, 300.0, 1.0),
    }[name]
    truth = np.average(rows[:, 0] * rows[:, 1] + rows[:, 0] ** 2, weights=weights)
    found, errors = [], []
    for seed in range(60):
        d = tp.partial_dependence_anova(
            lambda X: X[:, 0] * X[:, 1] + X[:, 0] ** 2,
            rows,
            background=rows,
            sample_weight=weights,
            background_size=80,
            order=1,
            seed=seed,
            progress=False,
        )
        found.append(d.intercept[0] - truth)
        errors.append(d.diagnostics["intercept_standard_error"][0])
    spread = np.sqrt(np.mean(np.square(found)))
    assert 0.75 < np.sqrt(np.mean(np.square(errors))) / spread < 1.33
    assert abs(np.mean(found)) < 3 * spread / np.sqrt(60)


def test_rows_are_drawn_in_proportion_to_their_weights():
    weights = np.array([0.5, 1.0, 1.5, 2.0, 100.0, 3.0])
    drawn = np.zeros(6)
    for seed in range(2000):
        sample = sample_rows(6, weights, 3, seed)
        assert len(sample.picked) == 3
        assert sample.shares.sum() == pytest.approx(1)
        drawn[sample.picked] += 1
    # The heavy row is certain; two more places are for the other five.
    chance = np.minimum(2 * weights / (weights.sum() - 100), 1)
    np.testing.assert_allclose(drawn / 2000, chance, atol=0.04)
    chance[4] = 1.0
    np.testing.assert_allclose(sample.unseen, 1 - chance[sample.picked], atol=1e-12)


# Accumulated local effects


@pytest.mark.parametrize("n_rows", [1, 7, 60, 300])
@pytest.mark.parametrize("bins", [3, 10, 20])
def test_weighted_quantiles_are_those_of_repeated_rows(n_rows, bins):
    rng = np.random.default_rng(n_rows)
    values = rng.normal(size=n_rows).round(1)
    weights = rng.integers(1, 6, size=n_rows).astype(float)
    levels = np.linspace(0, 1, bins + 1)
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    # In whole numbers: levels are rounded, and those of NumPy's quantiles are taken as they are.
    whole = np.arange(bins + 1)
    truth = repeated[np.maximum(-(-whole * len(repeated) // bins), 1) - 1]
    np.testing.assert_array_equal(row_quantiles(values, weights, levels), truth)
    plain = row_quantiles(values, None, levels)
    truth = np.sort(values)[np.maximum(-(-whole * n_rows // bins), 1) - 1]
    np.testing.assert_array_equal(plain, truth)


@pytest.mark.parametrize("unit", [0.1, 0.3, 1e-7, 1e6])
def test_quantiles_depend_neither_on_the_unit_of_weights_nor_on_the_order_of_rows(unit):
    """Whole-number weights of few rows reach many levels exactly, and rounding decides nothing."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=20).round(1)
        weights = rng.integers(1, 4, size=20).astype(float)
        levels = np.linspace(0, 1, 11)
        truth = row_quantiles(values, weights, levels)
        order = rng.permutation(20)
        own = row_quantiles(values[order], weights[order] * unit, levels)
        np.testing.assert_array_equal(own, truth)


def test_the_largest_value_is_the_last_quantile_whatever_it_weighs():
    found = row_quantiles(np.arange(3.0), np.array([1.0, 1.0, 1e-12]), np.array([0.0, 0.5, 1.0]))
    np.testing.assert_array_equal(found, [0.0, 0.0, 2.0])


def test_parts_and_heaviest_cells_do_not_depend_on_rounding():
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    sums = shares.cumsum()  # 0.6000000000000001
    assert first_reached(sums, np.array([0.3, 0.6, 1.0])).tolist() == [1, 2, 3]
    assert equal_parts(np.array([0.3, 0.6 - 1e-16, 0.6 + 1e-16, 1.0]), 10).tolist() == [3, 6, 6, 9]
    assert heaviest(np.array([0.1, 0.3, 0.1 + 0.2])) == 1


def assert_same_effects(first, second, X):
    assert set(first.components) == set(second.components)
    np.testing.assert_allclose(first.intercept, second.intercept, rtol=1e-12)
    for subset, component in first.components.items():
        other = second.components[subset]
        np.testing.assert_allclose(component.on_rows(X), other.on_rows(X), atol=1e-11)
        np.testing.assert_allclose(component.variance, other.variance, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_local_effects_and_weights(models, rows, kind):
    more, zeros = weightless(rows)
    weights = np.random.default_rng(8).integers(1, 5, size=60)
    plain = tp.ale_anova(models[kind], rows, bins=7, progress=False)
    among = tp.ale_anova(models[kind], more, bins=7, sample_weight=zeros, progress=False)
    assert among.measure == plain.measure
    assert_same_effects(among, plain, rows)
    weighted = tp.ale_anova(models[kind], rows, bins=7, sample_weight=weights, progress=False)
    repeated = tp.ale_anova(models[kind], np.repeat(rows, weights, axis=0), bins=7, progress=False)
    assert_same_effects(weighted, repeated, rows)


def test_weightless_rows_do_not_order_categories():
    rng = np.random.default_rng(9)
    latent = rng.uniform(size=400)
    town = np.array(["c", "a", "e", "b", "d"])[(5 * latent).astype(int)]
    frame = pd.DataFrame({"town": town, "size": latent + 0.05 * rng.normal(size=400)})
    # Elsewhere the towns are the other way round, and one of them has sizes of its own.
    turned = pd.DataFrame({"town": town, "size": np.where(town == "e", 9.0, -latent)})
    both = pd.concat([frame, *[turned] * 3], ignore_index=True)
    weights = np.repeat([1.0, 0.0, 0.0, 0.0], 400)

    def f(table):
        return (
            table["town"].map(dict(zip("caebd", range(5), strict=True))) * table["size"]
        ).to_numpy()

    alone = tp.ale_anova(f, frame, bins=5, progress=False)
    among = tp.ale_anova(f, both, bins=5, sample_weight=weights, progress=False)
    np.testing.assert_array_equal(among["town"].axes[0].nodes, alone["town"].axes[0].nodes)
    assert_same_effects(among, alone, frame)
