"""Smoothed effects against dense minimisers."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

import treepurify as tp
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.evidence.smoothing import smoother_of_degrees


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3)).round(1)
    X[::9, 0] = np.nan
    y = np.nan_to_num(X[:, 0]) + X[:, 1] * X[:, 2] + rng.normal(size=800)
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(max_depth=2, max_iter=60, random_state=0).fit(X, y)
    return tp.purify(model, X, weights="empirical", progress=False), X


def random_line(seed, n_cells=9):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n_cells).cumsum(), rng.uniform(0.1, 2, size=n_cells)


@pytest.mark.parametrize("degrees", [2.0, 3.5, 7.0])
def test_a_smoother_has_its_degrees_and_minimises_the_penalised_distance(degrees):
    values, weights = random_line(0, 12)
    at = np.sort(np.random.default_rng(1).uniform(size=12))
    smoother = smoother_of_degrees(at, weights, degrees)
    assert np.trace(smoother) == pytest.approx(degrees, abs=1e-8)
    np.testing.assert_allclose(smoother @ at, at, atol=1e-8)
    np.testing.assert_allclose(smoother @ np.ones(12), 1, atol=1e-8)
    smooth = smoother @ values
    assert weights @ smooth == pytest.approx(weights @ values)
    if degrees > 2:
        # The gradient of the distance is a multiple of that of one and the same penalty.
        gaps = np.diff(at)
        second = np.diff(np.diff(np.eye(12), axis=0) / gaps[:, None], axis=0)
        middle = (gaps[1:] + gaps[:-1]) / 2
        penalty = second.T @ (second / middle[:, None])
        pull, push = weights * (values - smooth), penalty @ smooth
        factor = (pull @ push) / (push @ push)
        np.testing.assert_allclose(pull, factor * push, atol=1e-7)
    else:
        line = np.polyfit(at, values, 1, w=np.sqrt(weights))
        np.testing.assert_allclose(smooth, np.polyval(line, at), atol=1e-8)
    np.testing.assert_array_equal(smoother_of_degrees(at, weights, 12), np.eye(12))


@pytest.mark.parametrize("kind", ["places far apart", "empty cells", "many cells"])
def test_lines_stay_where_places_or_weights_differ_widely(kind):
    rng = np.random.default_rng(0)
    n = 1500 if kind == "many cells" else 300
    at, weights = np.arange(n, dtype=float), np.ones(n)
    if kind == "places far apart":
        at = np.sort(rng.lognormal(0, 2, n))
    if kind == "empty cells":
        weights[rng.random(n) < 0.5] = 1e-9
    smoother = smoother_of_degrees(at, weights, 6.0)
    line = (at - at.mean()) / at.std()
    assert np.trace(smoother) == pytest.approx(6.0, abs=1e-7)
    np.testing.assert_allclose(smoother @ line, line, atol=1e-8)
    np.testing.assert_allclose(smoother @ np.ones(n), 1, atol=1e-8)


def test_a_smoother_is_that_of_exact_arithmetic():
    """Against the penalised equations in rational numbers, at the penalty that was found."""
    from fractions import Fraction

    at = np.array([0.0, 2.0**-20, 0.25, 0.5, 0.5 + 2.0**-12, 1.0])
    weights = np.array([1.0, 2.0**-30, 1.0, 2.0, 2.0**-30, 1.0])
    smoother = smoother_of_degrees(at, weights, 3.0)
    x = [Fraction(value) for value in at]
    n = len(x)
    slopes = [[(Fraction(j == k + 1) - (j == k)) / (x[k + 1] - x[k]) for j in range(n)]
              for k in range(n - 1)]  # fmt: skip
    bends = [[b - a for a, b in zip(slopes[k], slopes[k + 1], strict=True)] for k in range(n - 2)]
    widths = [(x[k + 2] - x[k]) / 2 for k in range(n - 2)]
    penalty = [[sum(r[i] * r[j] / w for r, w in zip(bends, widths, strict=True)) for j in range(n)]
               for i in range(n)]  # fmt: skip
    values = [Fraction(k % 3) for k in range(n)]
    smooth = smoother @ np.array(values, dtype=float)

    def exact(log_penalty):
        factor = Fraction(float(np.exp(log_penalty)))
        rows = [
            [factor * penalty[i][j] + (Fraction(weights[i]) if i == j else 0) for j in range(n)]
            + [Fraction(weights[i]) * values[i]]
            + [Fraction(weights[i]) if i == j else Fraction(0) for j in range(n)]
            for i in range(n)
        ]
        for i in range(n):
            rows[i] = [entry / rows[i][i] for entry in rows[i]]
            for k in range(n):
                if k != i:
                    rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
        trace = float(sum(rows[i][n + 1 + i] for i in range(n)))
        return np.array([float(row[n]) for row in rows]), trace

    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exact(middle)[1] > 3.0 else (low, middle)
    np.testing.assert_allclose(smooth, exact(low)[0], atol=1e-8)


def test_a_smoother_that_would_not_fit_is_refused(world):
    d, _ = world
    with pytest.raises(MemoryBudgetError, match="the smoother of the"):
        tp.smooth_effect(d, "x0", memory_budget=1000)


@pytest.mark.parametrize(
    ("method", "amount"),
    [("degrees", 4), ("increasing", None), ("monotone", None)],
)
def test_smoothed_decompositions_stay_pure_and_say_what_changed(world, method, amount):
    d, X = world
    before = d["x0"].values.copy()
    smooth = tp.smooth_effect(d, "x0", method=method, amount=amount)
    np.testing.assert_array_equal(d["x0"].values, before)
    assert smooth.certificate.conditional_mean < 1e-10
    assert not smooth.certificate.is_exact
    change = np.sqrt(np.mean((smooth.predict(X) - d.predict(X)) ** 2))
    said = smooth.diagnostics["difference_from_model"]["value"]
    assert said[0] == pytest.approx(change, abs=1e-10)
    assert change > 0
    # The missing cell stays, up to the mean that moves to the intercept.
    np.testing.assert_allclose(smooth["x0"].values[-1], d["x0"].values[-1], atol=1e-10)
    if method != "degrees":
        assert np.all(np.diff(smooth["x0"].values[:-1, 0]) >= -1e-12)
    edit = smooth.origin.edits[0].facts
    assert edit["edit"] == "smooth_effect"
    assert edit["method"] == method


def test_an_increasing_effect_is_an_isotonic_regression(world):
    d, _ = world
    smooth = tp.smooth_effect(d, "x1", method="increasing")
    main = d["x1"]
    expected = isotonic_regression(main.values[:, 0], weights=np.maximum(main.mass, 1e-12)).x
    np.testing.assert_allclose(smooth["x1"].values[:, 0], expected, atol=1e-7)


def test_a_monotone_effect_takes_the_nearer_direction(world):
    d, _ = world
    flipped = d.with_effect("x0", -d["x0"].values)
    found = tp.smooth_effect(flipped, "x0", method="monotone").origin.edits[-1].facts
    assert found["direction"] == "decreasing"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "splines"}, "method must be"),
        ({"amount": 1.0}, "degrees of freedom"),
        ({"method": "monotone", "amount": 1.0}, "leave it out"),
    ],
)
def test_what_cannot_be_used_is_refused(world, options, message):
    with pytest.raises(InvalidInputError, match=message):
        tp.smooth_effect(world[0], "x0", **options)


def test_only_main_effects_of_numbers_are_smoothed(world):
    tables = {(0, 1): np.random.default_rng(0).normal(size=(3, 4))}
    d = tp.purify_tensors(tables, progress=False)
    with pytest.raises(InvalidInputError, match="is not numeric"):
        tp.smooth_effect(d, "x0")
    with pytest.raises(InvalidInputError, match="only main effects can be smoothed"):
        tp.smooth_effect(world[0], ("x1", "x2"))
