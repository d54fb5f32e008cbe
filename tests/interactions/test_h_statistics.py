"""H-statistics against their definition (Friedman and Popescu 2008), called row by row."""

import pickle
import re
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from xgboost import XGBRegressor

from tests.reference.ensembles import random_ensemble
from tests.reference.partial_dependence import dependence
from tests.reference.tables import tables_with_coarse_terms
from treepurify.errors import InvalidInputError, MemoryBudgetError, ModelMismatchError
from treepurify.interactions.h_statistics import h_statistics
from treepurify.models.ebm import raw_margin
from treepurify.models.parse import parse_model


def definition(f, rows, weights=None, largest=2):
    """Numerator and denominator of every H-statistic, from centred partial dependence."""
    p = rows.shape[1]

    def centred(values):
        return values - np.average(values, axis=0, weights=weights)

    def square(values):
        return np.average(values**2, axis=0, weights=weights)

    def pd(*features):
        return centred(dependence(f, rows, rows, features, weights))

    margin = centred(np.asarray(f(rows), dtype=float).reshape(len(rows), -1))
    single = [pd(j) for j in range(p)]
    double = {pair: pd(*pair) for pair in combinations(range(p), 2)}
    found = {(): (square(margin - sum(single)), square(margin))}
    for j in range(p):
        others = pd(*(k for k in range(p) if k != j))
        found[(j,)] = (square(margin - single[j] - others), square(margin))
    for (j, k), both in double.items():
        found[j, k] = (square(both - single[j] - single[k]), square(both))
    if largest > 2:
        for j, k, m in combinations(range(p), 3):
            three = pd(j, k, m)
            lower = double[j, k] + double[j, m] + double[k, m] - single[j] - single[k] - single[m]
            found[j, k, m] = (square(three - lower), square(three))
    for size in range(4, largest + 1):
        for subset in combinations(range(p), size):
            whole = pd(*subset)
            term = sum(
                (-1) ** (size - r) * pd(*part)
                for r in range(1, size + 1)
                for part in combinations(subset, r)
            )
            found[subset] = (square(term), square(whole))
    return found


def assert_equal_to_definition(h, truth, tolerance=1e-8):
    for subset, (numerator, denominator) in truth.items():
        own = h.interactions.get(subset)
        if own is None:
            assert np.max(numerator) < tolerance * np.max(h.variance)
            continue
        scale = tolerance * h.variance
        assert np.all(np.abs(own.numerator - numerator) <= scale), subset
        assert np.all(np.abs(own.denominator - denominator) <= scale), subset


@pytest.mark.parametrize("case", range(6))
def test_random_ensembles(case):
    rng = np.random.default_rng(case)
    ensemble = random_ensemble(
        rng,
        n_features=4,
        n_categorical=case % 2,
        n_trees=8,
        depth=4,
        n_outputs=1 + case % 2,
        vector_leaves=case > 3,
    )
    rows = rng.normal(size=(60, 4)) + rng.normal(size=(60, 1))
    if case % 2:
        rows[:, 3] = rng.integers(0, 4, size=60)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    weights = rng.random(60) if case < 3 else None
    order = 3 if case % 2 else 4
    h = h_statistics(ensemble, rows, order=order, sample_weight=weights, purified=False)
    assert_equal_to_definition(h, definition(ensemble.margin, rows, weights, order))
    assert max(len(subset) for subset in h.interactions) == order


def test_all_features_and_pairs_of_a_boosted_model_on_500_rows():
    import xgboost

    rng = np.random.default_rng(0)
    rows = rng.multivariate_normal(np.zeros(8), 0.5 + 0.5 * np.eye(8), size=500)
    y = rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) + (rows[:, 3] > 0) * rows[:, 4] * rows[:, 5]
    model = xgboost.XGBRegressor(n_estimators=12, max_depth=3).fit(rows, y)
    ensemble = parse_model(model)
    h = h_statistics(model, rows)

    def margin(own):
        return ensemble.margin(own, precision="float64")

    assert_equal_to_definition(h, definition(margin, rows))
    assert len(h.features()) == 8
    assert len(h.pairs()) == 28
    top = h.pairs().iloc[0]
    assert (top["first"], top["second"]) in {("x0", "x1"), ("x4", "x5")}
    shares = [own.purified for own in h.interactions.values()]
    assert np.all((np.array(shares) >= 0) & (np.array(shares) <= 1))


def test_independent_rows_give_the_purified_share():
    """On a full factorial design partial dependence is the functional ANOVA."""
    cells = np.linspace(-1.5, 2.0, 8)
    rows = np.stack([axis.ravel() for axis in np.meshgrid(cells, cells, cells)], axis=1)
    ensemble = random_ensemble(np.random.default_rng(1), n_features=3, n_trees=12, depth=4)
    h = h_statistics(ensemble, rows, order=3)
    for subset, own in h.interactions.items():
        np.testing.assert_allclose(own.h_squared, own.purified, atol=1e-10, err_msg=str(subset))


def test_uniform_expectations_do_not_depend_on_where_rows_are():
    """Under the uniform measure the shares are those of a full factorial design."""
    rng = np.random.default_rng(1)
    cells = np.linspace(-1.5, 2.0, 8)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(cells, cells, cells)], axis=1)
    target = grid[:, 0] * grid[:, 1] + grid.prod(axis=1) + grid[:, 2]
    tree = DecisionTreeRegressor(random_state=0).fit(grid, target)
    even = h_statistics(tree, grid, order=3)
    dense = rng.permutation(grid)[:100]
    uneven = h_statistics(tree, np.concatenate([dense, grid[[0, -1]]]), order=3, weights="uniform")
    for subset, own in even.interactions.items():
        # Grown to the last row, the tree has a cell for every value.
        np.testing.assert_allclose(
            uneven.interactions[subset].purified, own.h_squared, atol=1e-10, err_msg=str(subset)
        )
    assert uneven.diagnostics["purified"]["measure"] == "uniform"
    with pytest.raises(InvalidInputError, match="independent features"):
        h_statistics(tree, grid, weights="empirical")


def test_sets_of_any_size_are_listed():
    rows = np.random.default_rng(4).normal(size=(40, 4))
    h = h_statistics(lambda X: X.prod(axis=1), rows, order=4, sample_size=40)
    frame = h.sets(4)
    assert list(frame.columns[:4]) == [f"feature {k}" for k in range(1, 5)]
    assert frame["h_squared"][0] == pytest.approx(float(h.interactions[0, 1, 2, 3].h_squared[0]))
    assert len(h.sets(3)) == 4
    pairs = h.pairs().rename(columns={"first": "feature 1", "second": "feature 2"})
    pd.testing.assert_frame_equal(h.sets(2), pairs)


def test_a_function_is_called_as_the_definition_says():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(70, 3)) + rng.normal(size=(70, 1))
    weights = rng.random(70)
    machine = SVR().fit(rows, rows[:, 0] * rows[:, 1] + rows[:, 2])
    h = h_statistics(machine, rows, order=3, sample_weight=weights)
    assert_equal_to_definition(h, definition(machine.predict, rows, weights, 3), 1e-10)
    assert np.isnan(h.pairs()["purified_share"]).all()
    assert h.diagnostics["exact"]
    part = h_statistics(machine, rows, sample_size=30)
    assert not part.diagnostics["exact"]
    assert "30 of 70 rows" in part.measure


def test_a_tree_and_the_same_tree_as_a_function_agree():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(80, 3))
    ensemble = random_ensemble(rng, n_features=3, n_trees=10, depth=3)
    exact = h_statistics(ensemble, rows)
    called = h_statistics(ensemble.margin, rows)
    for subset, own in exact.interactions.items():
        other = called.interactions[subset]
        np.testing.assert_allclose(own.numerator, other.numerator, atol=1e-12)


@pytest.fixture(scope="module")
def ebm():
    from interpret.glassbox import ExplainableBoostingRegressor

    rng = np.random.default_rng(4)
    rows = rng.normal(size=(150, 3)) + 0.5 * rng.normal(size=(150, 1))
    y = rows[:, 0] * rows[:, 1] + rows[:, 2]
    model = ExplainableBoostingRegressor(
        interactions=2, max_rounds=30, n_jobs=1, outer_bags=2, max_bins=12
    )
    return model.fit(rows, y), rows


def test_ebm(ebm):
    model, rows = ebm
    weights = np.random.default_rng(5).random(150)
    h = h_statistics(model, rows, sample_weight=weights)
    assert_equal_to_definition(h, definition(model.predict, rows, weights), 1e-9)
    assert np.isfinite(h.pairs()["purified_share"]).all()


def test_an_ebm_is_checked_against_its_library(ebm, monkeypatch):
    model, rows = ebm
    h = h_statistics(model, rows, purified=False)
    assert h.diagnostics["margin_error"] < 1e-9
    assert h.diagnostics["note"] == ""
    known = raw_margin

    def shifted(model, X):
        return known(model, X) + 1.0

    def refusing(model, X):
        raise RuntimeError("no such device")

    monkeypatch.setattr("treepurify.models.ebm.raw_margin", shifted)
    with pytest.raises(ModelMismatchError, match="differs from the library"):
        h_statistics(model, rows, purified=False)
    monkeypatch.setattr("treepurify.models.ebm.raw_margin", refusing)
    h = h_statistics(model, rows, purified=False)
    assert h.diagnostics["margin_error"] is None
    assert "RuntimeError: no such device" in h.diagnostics["note"]
    assert "RuntimeError: no such device" in repr(h)
    # Of a parsed model that was stored everyone knows that there is no library.
    parsed = pickle.loads(pickle.dumps(parse_model(model)))
    parsed = h_statistics(parsed, rows, purified=False)
    assert "no library" in parsed.diagnostics["note"]
    assert "no library" not in parsed.measure


def test_values_of_the_terms_of_an_ebm_are_counted(ebm):
    model, rows = ebm
    many = np.tile(rows, (20, 1))
    needed = 8 * 3000 * (5 + 6 + 6)
    h_statistics(model, many, purified=False, memory_budget=needed)
    with pytest.raises(MemoryBudgetError, match="5 effects of up to 2 features on 3000 rows"):
        h_statistics(model, many, purified=False, memory_budget=needed - 1)


def test_a_model_of_tables_needs_no_pairs_on_the_cuts_of_its_main_effects():
    rng = np.random.default_rng(0)
    model = tables_with_coarse_terms(rng, 4, (300, 5))
    X = rng.normal(size=(60, 4))
    h = h_statistics(model, X, memory_budget=8 << 20, progress=False)
    assert_equal_to_definition(h, definition(model.margin, X))


def test_shares_of_pairs_are_left_out_where_their_tables_do_not_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = RandomForestRegressor(n_estimators=20, random_state=0).fit(X, X[:, 0] * X[:, 1])
    whole = h_statistics(model, X, memory_budget=1 << 32, progress=False)
    h = h_statistics(model, X, memory_budget=10 << 20, progress=False)
    pairs = h.pairs()
    assert pairs["purified_share"].isna().all()
    np.testing.assert_array_equal(pairs["h_squared"], whole.pairs()["h_squared"])
    np.testing.assert_allclose(h.features()["purified_share"], whole.features()["purified_share"])
    assert "would take" in h.left_out
    assert "purified_share of pairs not computed" in repr(h)
    assert "not computed" not in repr(whole)


def test_weak_effects_are_flagged():
    """A pair that is almost all interaction but has hardly any effect, beside a strong one."""
    rng = np.random.default_rng(5)
    rows = np.sign(rng.normal(size=(400, 4)))

    def f(own):
        return 10 * own[:, 0] + 0.01 * own[:, 1] * own[:, 2] + 5 * own[:, 0] * own[:, 3]

    h = h_statistics(f, rows)
    table = h.pairs().set_index(["first", "second"])
    weak, strong = table.loc[("x1", "x2")], table.loc[("x0", "x3")]
    assert weak["h_squared"] > 0.9
    assert weak["unstable"]
    assert weak["strength"] < 0.02
    assert not strong["unstable"]
    assert strong["strength"] == pytest.approx(5.0, rel=0.05)
    assert h.pairs().iloc[0]["second"] == "x3"
    assert "x0 & x3" in repr(h)


def test_models_without_interactions_and_without_effects():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(50, 3))
    additive = h_statistics(lambda X: X[:, 0] + X[:, 1] ** 2, rows)
    assert additive.overall()["h_squared"][0] < 1e-20
    constant = h_statistics(random_ensemble(rng, n_trees=0), rows)
    assert (constant.pairs()["h_squared"] == 0).all()
    assert not constant.pairs()["unstable"].any()
    assert constant.overall()["h_squared"][0] == 0


def test_several_outputs_have_their_own_rows():
    rng = np.random.default_rng(7)
    ensemble = random_ensemble(rng, n_features=3, n_trees=9, n_outputs=2)
    h = h_statistics(ensemble, rng.normal(size=(60, 3)))
    assert list(h.overall()["output"]) in (["y0", "y1"], ["y1", "y0"])
    assert len(h.features()) == 6


@pytest.mark.parametrize("library", [XGBRegressor, HistGradientBoostingRegressor])
def test_what_is_printed_is_sorted_by_a_number_that_is_shown(library):
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(300, 4))
    # The weaker pair is nearly all interaction.
    target = 3 * (rows[:, 0] + rows[:, 1]) + rows[:, 0] * rows[:, 1] + rows[:, 2] * rows[:, 3] / 2
    h = h_statistics(library().fit(rows, target), rows)
    assert not h.pairs()["h_squared"].is_monotonic_decreasing
    shown = re.findall(r"(\w+) & (\w+) ([\d.e-]+) \(H² ([\d.e-]+)\)", repr(h))
    strengths = [float(strength) for _, _, strength, _ in shown]
    assert len(shown) == 3
    assert strengths == sorted(strengths, reverse=True)
    top = h.pairs().head(3)
    assert [(first, second) for first, second, _, _ in shown] == list(
        zip(top["first"], top["second"], strict=True)
    )
    np.testing.assert_allclose(strengths, top["strength"], rtol=5e-3)
    np.testing.assert_allclose([float(s[3]) for s in shown], top["h_squared"], rtol=5e-3)


def test_bad_input():
    rows = np.random.default_rng(0).normal(size=(30, 3))
    ensemble = random_ensemble(np.random.default_rng(0))
    wrong_options = (
        {"order": 1},
        {"order": 9},
        {"sample_size": 1},
        {"sample_size": 20.0},
        {"seed": -1},
        {"seed": "a"},
        {"sample_weight": ["one"] * 30},
    )
    for wrong in wrong_options:
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            h_statistics(ensemble, rows, **wrong)
    complex_rows = csr_array(rows.astype(complex))
    with pytest.raises(InvalidInputError, match="real numbers, got sparse values"):
        h_statistics(ensemble, complex_rows)
    with pytest.raises(MemoryBudgetError):
        h_statistics(ensemble, rows, memory_budget=100)
    with pytest.raises(MemoryBudgetError):
        h_statistics(lambda X: X[:, 0], rows, memory_budget=1000)
    with pytest.raises(InvalidInputError, match="NaN"):
        h_statistics(lambda X: X[:, 0] * np.nan, rows)
