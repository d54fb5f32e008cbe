"""The numbers of a spread against their formulas, and bands against a fresh draw."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from treepurify.components import TensorComponent
from treepurify.errors import InvalidInputError, UnknownComponentError
from treepurify.spread import Spread, one_more_training


@pytest.fixture(scope="module")
def d():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 3))
    y = X[:, 0] + rng.normal(size=300)
    estimator = GradientBoostingRegressor(max_depth=2, n_estimators=8)
    return tp.purify(
        tp.refit(estimator, X, y, n=6, progress=False), X, weights="empirical", progress=False
    )


def test_deviation_and_error(d):
    values = np.stack(list(d.spread.values("x0")))
    np.testing.assert_allclose(d.spread.standard_deviation("x0"), np.std(values, axis=0, ddof=1))
    expected = stats.sem(values, axis=0)
    np.testing.assert_allclose(d.spread.standard_error("x0"), expected)


def test_the_band_is_the_prediction_interval_of_one_more_draw(d):
    values = d.spread.values("x0")
    for level in (0.5, 0.9):
        half = stats.t.ppf(0.5 + level / 2, 5) * values.std(axis=0, ddof=1) * np.sqrt(1 + 1 / 6)
        lower, upper = d.spread.band("x0", level)
        np.testing.assert_allclose(lower, values.mean(axis=0) - half)
        np.testing.assert_allclose(upper, values.mean(axis=0) + half)
        lower, _ = d.spread.band("x0", level, other_rows=True)
        wider = half * np.sqrt(2 + 1 / 6) / np.sqrt(1 + 1 / 6)
        np.testing.assert_allclose(lower, values.mean(axis=0) - wider)


def test_the_band_holds_a_fresh_draw_at_its_rate():
    """Of normal refits exactly; here refits are drawn, not trained, so that many are cheap."""
    rng = np.random.default_rng(0)
    n_models, repetitions = 5, 4000
    inside = 0
    for _ in range(repetitions):
        draws = rng.normal(size=n_models + 1)
        lower, upper = one_more_training(draws[:-1], 0.8)
        inside += lower <= draws[-1] <= upper
    rate = inside / repetitions
    assert abs(rate - 0.8) <= 3 * np.sqrt(0.8 * 0.2 / repetitions)


def test_signs(d):
    spread = d.spread
    lower, upper = spread.band("x0", 0.9)
    np.testing.assert_array_equal(spread.covers_zero("x0"), (lower <= 0) & (upper >= 0))
    without = {subset for subset, _ in spread.no_clear_sign()}
    assert (0,) not in without
    assert (1, 2) in without or (1, 2) not in d
    # The wider the band, the fewer effects have a sign.
    assert len(spread.no_clear_sign(0.999)) >= len(spread.no_clear_sign(0.5))


def test_noise_has_no_clear_sign_however_few_the_trainings(d):
    rng = np.random.default_rng(0)
    (axis,), (mass,) = d["x0"].axes, [np.full(d["x0"].n_cells, 1.0 / d["x0"].n_cells)]
    for n_models in (6, 20):
        for _ in range(20):
            values = rng.normal(size=(axis.n_cells, n_models))
            table = TensorComponent((0,), (axis,), values, mass, d.inputs)
            spread = Spread(n_models, "", np.zeros((n_models, 1)), {(0,): table}, ("x0",), ("y",))
            assert spread.no_clear_sign() == [((0,), 0)]
            # The sign is clear where the effect is as large as ten of its standard deviations.
            clear = replace(table, values=values + 10.0)
            assert replace(spread, stacked={(0,): clear}).no_clear_sign() == []


def test_importance(d):
    table = d.spread.importance()
    for row, subset in zip(table.to_dict("records"), d.spread.stacked, strict=True):
        values, mass = d.spread.values(subset)[..., 0], d[subset].mass
        variances = [np.sum(mass * v**2) - np.sum(mass * v) ** 2 for v in values]
        np.testing.assert_allclose(d.spread.variances(subset)[:, 0], variances, atol=1e-14)
        size = np.sqrt(variances)
        half = stats.t.ppf(0.95, 5) * size.std(ddof=1) * np.sqrt(1 + 1 / 6)
        np.testing.assert_allclose(row["size_upper"], size.mean() + half, atol=1e-14)
        lower = max(size.mean() - half, 0)
        np.testing.assert_allclose(row["size_lower"], lower, atol=1e-14)
        off = np.sum(mass * values.var(axis=0, ddof=1))
        np.testing.assert_allclose(row["training_size"] ** 2, off, atol=1e-14)
        assert row["present"] == np.mean(np.array(variances) > 1e-18)


def test_a_pair_that_only_some_refits_have():
    X = np.random.default_rng(0).integers(3, size=(200, 2)).astype(float)
    pair = GradientBoostingRegressor(max_depth=2, n_estimators=1).fit(X, X[:, 0] * X[:, 1])
    stumps = GradientBoostingRegressor(max_depth=1, n_estimators=1).fit(X, X[:, 0])
    d = tp.purify([pair, stumps, stumps, stumps], X, weights="empirical", progress=False)
    table = d.spread.importance().set_index("effect")
    assert table.loc["x0 & x1", "present"] == 0.25
    assert table.loc["x0", "present"] == 1.0


def test_what_is_not_there(d):
    with pytest.raises(UnknownComponentError):
        d.spread.values("x9")
    with pytest.raises(UnknownComponentError, match="the spread of the effect"):
        d.spread.band((0, 1, 2))
    with pytest.raises(InvalidInputError, match="level"):
        d.spread.band("x0", 1.0)
    assert "x0" in d.spread
    assert ("x0", "x1", "x2") not in d.spread
    for key in (None, 1.5, (), ("x0", "x0"), (("x0",),), ["x0"], {"x0": 1}, b"x0", True, object()):
        assert key not in d.spread
    assert "6 models (bootstrap)" in repr(d.spread)


def test_importance_of_the_decomposition_has_the_same_numbers(d):
    table = d.importance(details=True).set_index("effect")
    of_spread = d.spread.importance().set_index("effect")
    for name in ("size_lower", "size_upper", "training_size", "present"):
        np.testing.assert_array_equal(table.loc[of_spread.index, name], of_spread[name])
    assert "6 trainings (bootstrap)" in repr(d)


def test_the_remainder_has_no_interval():
    X = np.random.default_rng(0).uniform(size=(200, 3))
    models = [
        GradientBoostingRegressor(max_depth=3, n_estimators=3, random_state=0).fit(
            X, X.prod(axis=1)
        )
        for _ in range(2)
    ]
    d = tp.purify(models, X, weights="empirical", progress=False)
    table = d.importance(details=True).set_index("effect")
    assert np.isnan(table.loc["remainder", "size_upper"])
    assert table.loc["x0", "training_size"] == 0.0


def test_the_size_of_all_outputs_together():
    X = np.random.default_rng(0).uniform(size=(200, 2))
    models = tp.refit(RandomForestRegressor(n_estimators=2, max_depth=2), X, X, n=4, progress=False)
    spread = tp.purify(models, X, weights="empirical", progress=False).spread
    size = np.sqrt(spread.variances("x0").mean(axis=1))
    half = stats.t.ppf(0.95, 3) * size.std(ddof=1) * np.sqrt(1.25)
    _, upper = spread.size_interval("x0", together=True)
    np.testing.assert_allclose(upper, [size.mean() + half])
