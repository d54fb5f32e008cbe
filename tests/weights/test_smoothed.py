"""Smoothed measures: what is kept, how much is smoothed, and what that does to effects."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.table_reader import read_columns
from treepurify.weights.latent_rows import latent_rows, moved_copies
from treepurify.weights.smoothing import (
    LEVEL_SHARES,
    best_amount,
    best_bandwidths,
    best_level_shares,
    held_out_bandwidths,
    held_out_level_shares,
    smoothings,
)

BUDGET = 1 << 30
NUMBERS = tuple(FeatureSpec(name) for name in "abcd")
COPULA = tp.weights.Smoothed(np.inf, 0.0)


def gaussian(n_rows: int, seed: int = 0, correlation: float = 0.6, size: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    covariance = np.full((size, size), correlation) + (1 - correlation) * np.eye(size)
    return rng.multivariate_normal(np.zeros(size), covariance, size=n_rows, method="cholesky")


def latent(X: np.ndarray, features=NUMBERS, weights=None):
    return latent_rows(read_columns(X, features), weights, BUDGET)


def in_order(rows):
    """Return the rows in the order that they have in their latent form."""
    return np.stack(rows.columns.values, axis=1)


def mixed(n_rows: int = 300, seed: int = 0):
    """Return a number, a category, a number of few values, and a number with a frequent value."""
    rng = np.random.default_rng(seed)
    X = gaussian(n_rows, seed)
    X[:, 1] = np.digitize(X[:, 1], [-0.5, 0.5])
    X[:, 2] = np.round(X[:, 2])
    X[:, 3] = np.where(X[:, 3] < 0.3, 0.0, X[:, 3])
    X[rng.random(n_rows) < 0.1, 0] = np.nan
    X[rng.random(n_rows) < 0.1, 1] = np.nan
    return X, (NUMBERS[0], FeatureSpec("b", "categorical", n_codes=3), NUMBERS[2], NUMBERS[3])


@pytest.mark.parametrize("bandwidth", [0.0, 0.2, 1.0, np.inf])
def test_copies_keep_margins_and_correlations(bandwidth):
    X = gaussian(2000)
    X[:, 3] = np.exp(X[:, 3])
    rows = latent(X)
    copies = moved_copies(rows, np.full(4, bandwidth), np.zeros(0), 1 << 15, BUDGET)
    for column, values in zip(copies.values, X.T, strict=True):
        np.testing.assert_array_equal(
            np.sort(column), np.sort(np.tile(values, copies.n_rows // rows.n_rows))
        )
    again = latent(np.stack(copies.values, axis=1))
    np.testing.assert_allclose(again.correlation, rows.correlation, atol=0.02)


@pytest.mark.parametrize("n_rows", [304, 1000, 2504])
def test_tables_of_the_copula_are_nearer_than_those_of_independent_draws(n_rows):
    rows = latent(gaussian(n_rows))
    copies = moved_copies(rows, np.full(4, np.inf), np.zeros(0), 1 << 15, BUDGET)
    n_points, ends = copies.n_rows, np.arange(1, 8) / 8
    cells = [
        np.searchsorted(np.quantile(values, ends), values, side="right") for values in copies.values
    ]
    corners = np.array([-9.0, *ndtri(ends), 9.0])
    grid = np.stack(np.meshgrid(corners, corners, indexing="ij"), axis=-1)
    distance, expected = 0.0, 0.0
    for i, j in combinations(range(4), 2):
        counts = np.bincount(8 * cells[i] + cells[j], minlength=64).reshape(8, 8)
        normal = multivariate_normal([0, 0], rows.correlation[np.ix_((i, j), (i, j))])
        mass = np.diff(np.diff(normal.cdf(grid), axis=0), axis=1)
        distance += np.sum((counts / n_points - mass) ** 2)
        expected += np.sum(mass * (1 - mass)) / n_points
    assert distance < 0.4 * expected


def test_bandwidths_of_their_own_keep_correlations():
    X = gaussian(2000)
    rows = latent(X)
    copies = moved_copies(rows, np.array([0.05, np.inf, 0.4, 0.1]), np.zeros(0), 1 << 15, BUDGET)
    again = latent(np.stack(copies.values, axis=1))
    np.testing.assert_allclose(again.correlation, rows.correlation, atol=0.02)
    X = in_order(rows)
    first, moved = np.tile(X[:, 0], copies.n_rows // rows.n_rows), copies.values[0]
    assert 0.99 < np.corrcoef(first, moved)[0, 1] < 1
    drawn = np.corrcoef(np.tile(X[:, 1], copies.n_rows // rows.n_rows), copies.values[1])[0, 1]
    # What is left of the dependence is what the other features bring with them.
    assert drawn < np.corrcoef(X[:, 0], X[:, 1])[0, 1]


def test_frequent_values_do_not_change_correlations_of_other_columns():
    """Most values of s4 are shared by many rows, and bandwidths are finite and infinite."""
    X, _ = load_diabetes(return_X_y=True)
    features = tuple(FeatureSpec(f"x{j}") for j in range(X.shape[1]))
    rows = latent(X, features)
    assert rows.known.mean(axis=1).min() < 0.2
    bandwidths = best_amount(rows).bandwidths
    assert np.isfinite(bandwidths).any()
    assert np.isinf(bandwidths).any()
    copies = moved_copies(rows, bandwidths, np.zeros(1), 1 << 15, BUDGET)
    found = np.corrcoef(np.stack(copies.values))
    np.testing.assert_allclose(found, np.corrcoef(X.T), atol=0.05)


def test_missing_levels_and_frequent_values_stay():
    X, features = mixed()
    rows = latent(X, features)
    assert rows.scored == (0, 3)
    assert rows.levelled == (1, 2)
    copies = moved_copies(rows, np.full(2, 0.5), np.zeros(2), 1 << 12, BUDGET)
    before = np.tile(in_order(rows), (copies.n_rows // rows.n_rows, 1))
    after = np.stack(copies.values, axis=1)
    np.testing.assert_array_equal(after[:, 1:3], before[:, 1:3])
    np.testing.assert_array_equal(np.isnan(after[:, 0]), np.isnan(before[:, 0]))
    np.testing.assert_array_equal(after[:, 3] == 0, before[:, 3] == 0)
    assert np.mean(after[:, 3] != before[:, 3]) > 0.2


def test_levels_are_drawn_from_their_margin():
    X, features = mixed(2000)
    rows = latent(X, features)
    copies = moved_copies(rows, np.zeros(2), np.ones(2), 1 << 16, BUDGET)
    after = np.stack(copies.values, axis=1)
    before = np.tile(in_order(rows), (copies.n_rows // rows.n_rows, 1))
    np.testing.assert_array_equal(np.isnan(after[:, 1]), np.isnan(before[:, 1]))
    known = ~np.isnan(before[:, 1])
    shares = [np.mean(table[known, 1] == 2) for table in (after, before)]
    assert shares[0] == pytest.approx(shares[1], abs=0.005)
    assert abs(np.corrcoef(after[known, 1], before[known, 1])[0, 1]) < 0.01


def test_weights_are_those_of_the_rows():
    X = gaussian(500)
    weights = np.random.default_rng(1).exponential(size=500)
    weighting, columns = tp.weights.Smoothed(0.3), read_columns(X, NUMBERS)
    copies = weighting.fitted(columns, weights, BUDGET)
    for column, values in zip(copies.columns.values, X.T, strict=True):
        mean = np.average(column, weights=copies.row_weights)
        assert mean == pytest.approx(np.average(values, weights=weights), abs=0.01)
    scaled = weighting.fitted(columns, weights * 2.0**40, BUDGET)
    np.testing.assert_array_equal(scaled.columns.values, copies.columns.values)


@pytest.mark.parametrize("kind", ["numbers", "levels", "both"])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("n_rows", "size"), [(20_000, 1), (20_000, 4), (40, 200)])
def test_what_takes_more_than_the_budget_is_refused(n_rows, size, is_weighted, kind):
    rng = np.random.default_rng(0)
    weights = rng.exponential(size=n_rows) if is_weighted else None
    features = tuple(FeatureSpec(f"x{j}") for j in range(size))
    numbers = rng.normal(size=(n_rows, size))
    levels = rng.integers(0, 5, size=(n_rows, size)).astype(float)
    is_level = {"numbers": 0.0, "levels": 1.0, "both": 0.4}[kind]
    X = np.where(rng.random((n_rows, size)) < is_level, levels, numbers)
    columns = read_columns(X, features)

    def smoothed(rows, budget):
        bandwidths, shares = np.ones(len(rows.scored)), np.full(len(rows.levelled), 0.5)
        return moved_copies(rows, bandwidths, shares, 1 << 15, budget)

    def peak_of(work):
        work()
        tracemalloc.start()
        work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    rows = latent_rows(columns, weights, BUDGET)
    peak = peak_of(lambda: latent_rows(columns, weights, BUDGET))
    with pytest.raises(MemoryBudgetError, match="normal scores"):
        latent_rows(columns, weights, peak)
    peak = peak_of(lambda: smoothed(rows, BUDGET))
    with pytest.raises(MemoryBudgetError, match="copies"):
        smoothed(rows, peak)


def test_rows_of_weight_zero_tell_nothing():
    """Also where only they have the values that would be smoothed."""
    X = gaussian(500)
    weights = np.random.default_rng(1).integers(0, 2, size=500).astype(float)
    X[weights > 0, 3] = np.round(X[weights > 0, 3])
    rows, without = latent(X, weights=weights), latent(X[weights > 0])
    assert rows.scored == without.scored == (0, 1, 2)
    np.testing.assert_array_equal(rows.scores, without.scores)
    model = GradientBoostingRegressor(n_estimators=10, max_depth=2).fit(X, X[:, 0] * X[:, 3])
    d = tp.purify(model, X, sample_weight=weights, weights="auto", progress=False)
    alone = tp.purify(model, X[weights > 0], weights="auto", progress=False)
    for subset, component in d.components.items():
        np.testing.assert_allclose(
            component.on_rows(X), alone.components[subset].on_rows(X), atol=1e-12
        )


def test_log_mass_of_bandwidths_is_that_of_leaving_each_row_out():
    X = gaussian(60, size=2)
    X[:, 1] += X[:, 0] ** 2
    rows = latent(X, NUMBERS[:2])
    found = held_out_bandwidths(rows)
    rho = rows.correlation[0, 1]
    one = rows.scores[0]
    other = (rows.scores[1] - rho * one) / np.sqrt(1 - rho**2)
    ends = ndtri(np.arange(1, 32) / 32)
    cells = [np.searchsorted(ends, values) for values in (one, other)]
    for k, smoothing in enumerate(smoothings()):
        np.testing.assert_allclose(smoothing.sum(axis=0), 1)
        total = 0.0
        for row in range(60):
            counts = np.zeros((32, 32))
            others = np.arange(60) != row
            np.add.at(counts, (cells[0][others], cells[1][others]), 1 / 59)
            mass = (smoothing @ counts @ smoothing.T)[cells[0][row], cells[1][row]]
            total += np.log(mass * 32**2) / 60 if mass > 1e-12 else -np.inf
        assert found.log_mass[0, k] == pytest.approx(total, abs=1e-9)


def test_log_mass_of_level_shares_is_that_of_leaving_each_row_out():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(80, 2)).astype(float)
    X[:40, 1] = X[:40, 0]
    found = held_out_level_shares(latent(X, NUMBERS[:2]))
    codes = X.astype(int)
    totals = []
    for share in LEVEL_SHARES:
        total = 0.0
        for row in range(80):
            others = codes[np.arange(80) != row]
            counts = np.zeros((3, 3))
            np.add.at(counts, tuple(others.T), 1 / 79)
            apart = np.outer(counts.sum(axis=1), counts.sum(axis=0))
            mass = (1 - share) * counts + share * apart
            here = mass[tuple(codes[row])]
            total += np.log(here) / 80 if here > 1e-12 else -np.inf
        totals.append(total)
    np.testing.assert_allclose(found.log_mass[0], np.array(totals) - totals[-1], atol=1e-9)


def test_level_shares_are_those_of_best_summed_likelihood():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, size=(300, 3)).astype(float)
    X[:200, 1] = X[:200, 0]
    found = held_out_level_shares(latent(X, NUMBERS[:3]))
    assert found.pairs == [(0, 1), (0, 2), (1, 2)]
    total = np.empty((len(LEVEL_SHARES),) * 3)
    for place in np.ndindex(total.shape):
        keep = 1 - np.array(LEVEL_SHARES)[list(place)]
        total[place] = sum(
            np.interp(1 - keep[i] * keep[j], LEVEL_SHARES, np.maximum(log_mass, -1e6))
            for (i, j), log_mass in zip(found.pairs, found.log_mass, strict=True)
        )
    shares = 2 * best_level_shares(found, ["a", "b", "c"])
    reached = total[tuple(LEVEL_SHARES.index(share) for share in shares)]
    assert reached == pytest.approx(total.max(), abs=1e-4)
    assert shares[2] > max(shares[:2])


def test_scores_follow_a_level_that_is_drawn_anew():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 1000)
    X = np.column_stack([group, rng.normal(size=1000) + 3 * group]).astype(float)
    rows = latent(X, NUMBERS[:2])
    assert (rows.levelled, rows.scored) == ((0,), (1,))
    copies = moved_copies(rows, np.zeros(1), np.ones(1), 1 << 15, BUDGET)
    drawn, followed = copies.values
    before = np.tile(in_order(rows)[:, 0], copies.n_rows // rows.n_rows)
    assert abs(np.corrcoef(drawn, before)[0, 1]) < 0.02
    apart = np.mean(followed[drawn == 1]) - np.mean(followed[drawn == 0])
    assert apart == pytest.approx(np.mean(X[group == 1, 1]) - np.mean(X[group == 0, 1]), abs=0.25)


def test_bandwidths_follow_the_data():
    assert np.all(np.isinf(best_bandwidths(latent(gaussian(500)))))
    X = gaussian(500)
    X[:, 1] = np.sin(4 * X[:, 0]) + 0.1 * X[:, 1]
    best = best_bandwidths(latent(X))
    assert best[0] < 0.2
    assert best[1] < 0.2
    assert best[2] > 0.5


def test_rare_pairs_say_nothing():
    X = gaussian(400)
    X[20:, 0] = np.nan
    found = held_out_bandwidths(latent(X))
    assert found.pairs == [(1, 2), (1, 3), (2, 3)]


def test_without_smoothing_effects_are_empirical():
    X = gaussian(300)
    model = GradientBoostingRegressor(max_depth=3, n_estimators=20, random_state=0).fit(
        X, X[:, 0] * X[:, 1]
    )
    rows, copies = (
        tp.purify(model, X, weights=weights, method="exact")
        for weights in ("empirical", tp.weights.Smoothed(0.0, 0.0))
    )
    assert set(rows.components) == set(copies.components)
    for subset in rows.components:
        np.testing.assert_allclose(copies[subset].values, rows[subset].values, atol=1e-10)


def test_copula_is_nearer_to_the_population_than_the_rows():
    X = gaussian(300, size=2)
    model = RandomForestRegressor(3, max_depth=4, random_state=0).fit(X, X[:, 0] * X[:, 1])
    truth = multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]])

    def error(weights):
        mass = tp.purify(model, X, weights=weights, method="exact")[0, 1].mass
        below = mass.cumsum(axis=0).cumsum(axis=1)
        margins = [ndtri(np.clip(m, 1e-9, 1 - 1e-9)) for m in (below[:-1, -1], below[-1, :-1])]
        at = np.stack(np.meshgrid(*margins, indexing="ij"), axis=-1)
        return np.abs(below[:-1, :-1] - truth.cdf(at)).mean()

    assert error(COPULA) < 0.6 * error("empirical")


@pytest.mark.parametrize("method", ["exact", "projection"])
def test_auto_brings_effects_nearer_to_the_population(method):
    X, fresh = gaussian(300, 1), gaussian(20_000, 2)
    y = X[:, 0] * X[:, 1] + X[:, 2]
    model = GradientBoostingRegressor(max_depth=3, n_estimators=30, random_state=0).fit(X, y)
    population = tp.purify(model, fresh, weights="empirical", method="exact")

    def error(weights):
        d = tp.purify(model, X, weights=weights, method=method)
        assert d.certificate.is_accurate
        return sum(
            np.mean((d[s].on_rows(fresh) - population[s].on_rows(fresh)) ** 2)
            for s in population.components
        )

    assert error("auto") < 0.4 * error("empirical")


def test_auto_says_what_it_took():
    X = gaussian(400)
    X[:, 1] = X[:, 0] ** 2 + 0.3 * X[:, 1]
    y = X[:, 0] * X[:, 1] + X[:, 3]
    model = GradientBoostingRegressor(max_depth=1, n_estimators=60, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="auto")
    facts = d.diagnostics["measure"]
    assert d.origin.n_rows == 400
    assert facts["picked"] == "smoothed"
    assert facts["copies_of_each_row"] * 400 == facts["points"]
    assert set(facts["bandwidths"]) == {"x0", "x1", "x3"}
    assert facts["bandwidths"]["x0"] < facts["bandwidths"]["x3"]
    assert d.measure == "smoothed rows"
    assert "Smoothed by the amount" in str(d)
    assert "(fixed seed)" in d.certificate.note
    same = tp.purify(model, X, weights="auto")
    np.testing.assert_array_equal(same["x0"].values, d["x0"].values)


def test_auto_leaves_many_rows_alone():
    X = np.random.default_rng(0).normal(size=(1 << 15, 2))
    model = GradientBoostingRegressor(max_depth=2, n_estimators=2).fit(X[:999], X[:999, 0])
    d = tp.purify(model, X, weights="auto")
    assert d.measure == "empirical"
    rows = tp.purify(model, X, weights="empirical")
    for subset in rows.components:
        np.testing.assert_array_equal(d[subset].values, rows[subset].values)


def test_a_function_is_fitted_at_the_copies():
    X = gaussian(300)
    d = tp.hooker_anova(lambda rows: rows[:, 0] * rows[:, 1], X, weights="smoothed", bins=8)
    assert d.diagnostics["fit"]["points"] == d.diagnostics["measure"]["points"] > 10_000
    assert d.origin.n_rows == 300
    assert "0.5" not in d.certificate.note
    assert "(fixed seed)" in d.certificate.note


@pytest.mark.parametrize("weights", ["auto", "smoothed", COPULA, tp.weights.Smoothed(0.3, 0.2)])
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 4)),
        gaussian(1),
        gaussian(2),
        gaussian(13),
        np.full((40, 4), np.nan),
        np.repeat(gaussian(20)[:, :1], 4, axis=1),
        np.where(gaussian(50) > 1, np.inf, gaussian(50)),
        mixed(60)[0],
    ],
    ids=["constant", "one", "two", "few", "missing", "collinear", "infinite", "mixed"],
)
def test_odd_rows(weights, X):
    from tests.reference.ensembles import random_ensemble

    ensemble = random_ensemble(
        np.random.default_rng(0), n_features=4, n_trees=5, depth=2, n_outputs=1
    )
    d = tp.purify(ensemble, X, weights=weights)
    assert d.certificate.conditional_mean < 1e-10
    assert d.certificate.additivity < 1e-12


def test_what_is_refused():
    with pytest.raises(InvalidInputError, match="bandwidth must be a finite number"):
        tp.weights.Smoothed(-0.1)
    with pytest.raises(InvalidInputError, match="level_share must be a finite number from 0 to 1"):
        tp.weights.Smoothed(0.1, 2.0)
    with pytest.raises(InvalidInputError, match="n_points must be a whole number"):
        tp.weights.Smoothed(n_points=0)
    X = gaussian(100)
    model = GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0])
    with pytest.raises(MemoryBudgetError, match="copies of 100 rows of 4 features"):
        tp.purify(model, X, weights=COPULA, memory_budget=100_000)
    with pytest.raises(InvalidInputError, match="needs rows that represent the distribution"):
        tp.purify(model, weights="auto")
    grid = tp.purify(model, X, weights="empirical")[0].axes
    with pytest.raises(InvalidInputError, match="needs the values of the rows"):
        tp.weights.Smoothed().tables(grid, None, [(0,)])


@pytest.mark.parametrize(
    "weighting", [tp.weights.Smoothed(), COPULA, tp.weights.Smoothed(0.4, 0.3)]
)
def test_the_order_of_rows_and_features_does_not_matter(weighting):
    rng = np.random.default_rng(5)
    n = 300
    table = rng.normal(size=(4, n))
    table[1] += 0.8 * table[0]
    table[2] = rng.integers(0, 3, n)
    table[3, ::7] = np.nan
    features = tuple(FeatureSpec(name) for name in "dbca")
    columns = Columns(features, tuple(table), n)
    weights = rng.exponential(size=n)
    rows, places = rng.permutation(n), rng.permutation(4)
    moved = Columns(tuple(features[j] for j in places), tuple(table[j][rows] for j in places), n)
    found = weighting.fitted(columns, weights, 1 << 30)
    again = weighting.fitted(moved, weights[rows], 1 << 30)
    for place, j in enumerate(places):
        np.testing.assert_array_equal(found.columns.values[j], again.columns.values[place])
    np.testing.assert_array_equal(found.row_weights, again.row_weights)


def test_a_smoothing_names_the_amount_that_was_given():
    X = gaussian(300)
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0)
    d = tp.purify(model.fit(X, X[:, 0] + X[:, 1]), X, weights="smoothed")
    bandwidths = d.diagnostics["measure"]["bandwidths"].values()
    assert all(np.isinf(value) for value in bandwidths)
    assert d.measure == "smoothed"
    asked = tp.purify(model, X, weights=COPULA)
    assert asked.measure == COPULA.describe() == "smoothed (Gaussian copula)"
    fixed = tp.purify(model, X, weights=tp.weights.Smoothed(0.3))
    assert fixed.measure == "smoothed (bandwidth 0.3)"


def test_few_rows_and_little_memory_leave_the_rows_as_they_are():
    X = gaussian(300)
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1])
    small = tp.purify(model, X, memory_budget=1_000_000, progress=False)
    assert small.measure == "empirical"
    assert "because of the memory budget" in small.certificate.note
    assert tp.purify(model, X[:29], progress=False).measure == "empirical"
    assert tp.purify(model, X[:40], progress=False).measure == "smoothed rows"
