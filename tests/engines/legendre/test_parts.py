"""Scaling, densities and the split into orthogonal components, each on its own."""

import numpy as np
import pytest
from scipy.special import eval_legendre

from treepurify.engines.legendre import TermSelection, legendre_anova
from treepurify.engines.legendre.axis_fitting import fit_axes
from treepurify.engines.legendre.densities import contract, grid_density, series_densities
from treepurify.engines.legendre.design import LegendreBasis, ScaledRows, scaled_rows
from treepurify.engines.legendre.moments import measure_moments
from treepurify.engines.legendre.scaling import ContinuousAxis, LevelAxis, legendre_table
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Columns, FeatureSpec

# Few functions are fitted here, which is what the warning is about.
pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")


def columns_of(*values):
    features = tuple(FeatureSpec(f"x{j}") for j in range(len(values)))
    arrays = tuple(np.asarray(v, dtype=float) for v in values)
    return Columns(features, arrays, len(arrays[0]))


def even(n_rows):
    return np.full(n_rows, 1.0 / n_rows)


def axes_of(*values, scaling="minmax"):
    columns = columns_of(*values)
    axes, _ = fit_axes(columns, even(columns.n_rows), scaling, "rank")
    return axes, scaled_rows(axes, columns, even(columns.n_rows))


def test_polynomials_equal_those_of_scipy():
    x = np.linspace(-1, 1, 101)
    table = legendre_table(x, 30)
    for m in range(31):
        np.testing.assert_allclose(
            table[:, m], np.sqrt((2 * m + 1) / 2) * eval_legendre(m, x), atol=1e-11
        )
    nodes, weights = np.polynomial.legendre.leggauss(40)
    gram = legendre_table(nodes, 30).T @ (weights[:, None] * legendre_table(nodes, 30))
    np.testing.assert_allclose(gram, np.eye(31), atol=1e-12)


@pytest.mark.parametrize("scaling", ["tanh", "minmax", "rank"])
def test_scaling_is_increasing_and_stays_inside(scaling):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_cauchy(3000), np.zeros(500), [1e8, -1e12]])
    axes, rows = axes_of(values, scaling=scaling)
    scaled = rows.coordinates[0]
    assert np.all(np.abs(scaled) <= 1.0)
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(scaled[order]) >= 0)
    beyond = axes[0].coordinates(np.array([-1e300, 1e300]))
    np.testing.assert_allclose(beyond, [-1, 1])
    if scaling == "rank":
        # Even, but for the values that are repeated.
        shares = np.histogram(scaled[values != 0], bins=10, range=(-1, 1))[0] / 3000
        assert np.all(shares < 0.13)


def test_auto_scaling_takes_levels_for_few_values():
    rng = np.random.default_rng(1)
    columns = columns_of(rng.integers(0, 4, 200), rng.normal(size=200), np.zeros(200))
    axes, constant = fit_axes(columns, even(200), "auto", "rank")
    assert isinstance(axes[0], LevelAxis)
    assert isinstance(axes[1], ContinuousAxis)
    assert constant == ["x2"]
    named, _ = fit_axes(columns, even(200), {"x0": "rank", "x1": "tanh"}, "rank")
    assert [axis.scaling for axis in named.values()] == ["rank", "tanh"]


def test_levels_know_missing_values_and_refuse_new_ones():
    axes, rows = axes_of([1.0, np.nan, 3.0, 3.0, np.nan], scaling="levels")
    np.testing.assert_array_equal(rows.coordinates[0], [0, 2, 1, 1, 2])
    table = axes[0].functions(rows.coordinates[0], 9)
    assert table.shape == (5, 2)
    # Over the levels, not over the rows, each function sums to zero.
    np.testing.assert_allclose(axes[0].functions(np.arange(3.0), 9).sum(axis=0), 0.0)
    with pytest.raises(InvalidInputError, match="1 such rows"):
        axes[0].coordinates(np.array([2.0, 1.0]))
    strict, _ = axes_of([1.0, 2.0], scaling="levels")
    with pytest.raises(InvalidInputError, match="level"):
        strict[0].coordinates(np.array([np.nan]))


def test_series_density_equals_its_definition():
    """Equations 79 and 80, term by term."""
    rng = np.random.default_rng(2)
    x, z = rng.uniform(-1, 1, 400), rng.uniform(-1, 1, 400) ** 3
    axes, rows = axes_of(x, z)
    found = series_densities(axes, rows.coordinates, rows.weights, [(0,), (0, 1)], 3, 0.01)
    u, v = rows.coordinates[0], rows.coordinates[1]
    tables = [legendre_table(u, 3), legendre_table(v, 3)]
    expected = np.zeros(400)
    for a in range(4):
        for b in range(4):
            term = tables[0][:, a] * tables[1][:, b]
            expected += term.mean() * term
    np.testing.assert_allclose(found[0, 1].raw(axes, rows.coordinates), expected, atol=1e-12)
    single = sum(t.mean() * t for t in tables[0].T)
    np.testing.assert_allclose(found[0,].raw(axes, rows.coordinates), single, atol=1e-12)


@pytest.mark.parametrize("make", ["series", "kernel"])
def test_densities_integrate_to_one_over_mixed_features(make):
    rng = np.random.default_rng(3)
    level = rng.integers(0, 3, 3000)
    x = rng.beta(1.0 + level, 2.0, 3000)
    z = rng.uniform(-1, 1, 3000)
    columns = columns_of(x, level, z)
    axes, _ = fit_axes(columns, even(3000), {"x0": "minmax", "x2": "minmax"}, "rank")
    rows = scaled_rows(axes, columns, even(3000))
    subset = (0, 1, 2)
    if make == "series":
        made = series_densities(axes, rows.coordinates, rows.weights, [subset], 4, 0.01)
        density = made[subset]
    else:
        density = grid_density(axes, rows.coordinates, rows.weights, subset, 0.01)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    a, lev, b = np.meshgrid(nodes, np.arange(3.0), nodes, indexing="ij")
    mass = weights[:, None, None] * np.ones(3)[None, :, None] * weights[None, None, :]
    points = {0: a.ravel(), 1: lev.ravel(), 2: b.ravel()}
    values = density.raw(axes, points)
    # The quadrature does not know where a density on a grid has its kinks.
    assert values @ mass.ravel() == pytest.approx(1.0, abs=1e-10 if make == "series" else 1e-3)
    by_level = (values * mass.ravel()).reshape(60, 3, 60).sum(axis=(0, 2))
    # A kernel estimate is corrected towards evenness of rows over density, not of its mass.
    tolerance = 1e-10 if make == "series" else 0.03
    np.testing.assert_allclose(by_level, np.bincount(level) / 3000, atol=tolerance)
    assert make == "series" or np.all(values > 0)


def test_contraction_equals_einsum():
    rng = np.random.default_rng(4)
    tables = [rng.normal(size=(50, k)) for k in (3, 4, 2)]
    coefficients = rng.normal(size=(3, 4, 2, 5))
    expected = np.einsum("na,nb,nc,abck->nk", *tables, coefficients)
    np.testing.assert_allclose(contract(tables, coefficients), expected, atol=1e-12)


def test_moments_in_blocks_equal_those_of_the_whole_design(monkeypatch):
    rng = np.random.default_rng(5)
    axes, rows = axes_of(*rng.normal(size=(3, 700)))
    rows = ScaledRows(rows.coordinates, rng.dirichlet(np.ones(700)))
    subsets = [(0,), (1,), (2,), (0, 1), (0, 1, 2)]
    made = series_densities(axes, rows.coordinates, rows.weights, subsets, 2, 0.05)
    basis = LegendreBasis(axes, made, 3)
    values = rng.normal(size=(700, 2))
    monkeypatch.setattr("treepurify.engines.legendre.design._LEAST_ROWS", 64)
    monkeypatch.setattr("treepurify.engines.legendre.design._BLOCK_BYTES", 1)
    moments = measure_moments(basis, rows, values)
    design = []
    for subset in subsets:
        density = np.maximum(made[subset].raw(axes, rows.coordinates), 0.05)
        tables = [legendre_table(rows.coordinates[j], 3)[:, 1:] for j in subset]
        product = tables[0]
        for table in tables[1:]:
            product = np.einsum("na,nb->nab", product, table).reshape(700, -1)
        design.append(product / density[:, None])
    columns = np.hstack(design)
    expected = np.cov(columns.T, aweights=rows.weights, ddof=0)
    np.testing.assert_allclose(moments.gram, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(moments.gram, moments.gram.T)
    np.testing.assert_allclose(moments.means, rows.weights @ columns, atol=1e-12)
    centred = values - rows.weights @ values
    np.testing.assert_allclose(
        moments.covariances, (columns * rows.weights[:, None]).T @ centred, atol=1e-12
    )


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("scaling", ["tanh", "rank", "minmax"])
def test_projection_makes_components_orthogonal_and_keeps_the_fit(order, scaling):
    rng = np.random.default_rng(6)
    common = rng.normal(size=(1500, 1))
    X = 0.8 * common + 0.6 * rng.normal(size=(1500, 4))
    X[:, 3] = rng.integers(0, 3, 1500) + (common[:, 0] > 0)
    values = X[:, 0] * X[:, 1] + X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] * np.sin(X[:, 2])
    options = {
        "order": order,
        "degree": 4,
        "scaling": {f"x{j}": scaling for j in range(3)},
        "density": "legendre",
        "density_clip": 1e-3,
        "progress": False,
    }
    plain = legendre_anova(values, X, orthogonal=False, **options)
    d = legendre_anova(values, X, **options)
    before, after = plain.diagnostics["fit"]["f"], d.diagnostics["fit"]["f"]
    assert before["max_correlation"] > 0.05
    assert after["max_correlation"] < 1e-8
    assert d.certificate.cosine < 1e-8
    assert after["r_squared"] == pytest.approx(before["r_squared"], abs=1e-10)
    parts = {s: c.on_rows(X)[:, 0] for s, c in d.components.items()}
    total = sum(parts.values())
    old = sum(c.on_rows(X)[:, 0] for c in plain.components.values())
    np.testing.assert_allclose(total, old, atol=1e-9 * np.abs(total).max())
    for subset, values_of in parts.items():
        assert abs(values_of.mean()) < 1e-10
        for inside, other in parts.items():
            if set(inside) < set(subset):
                scale = np.sqrt(np.mean(values_of**2) * np.mean(other**2))
                assert abs(np.mean(values_of * other)) < 1e-8 * scale


def test_a_pair_is_orthogonal_to_all_fitted_functions_of_its_features():
    """Not only to the main effect that happens to be there."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1000, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]])
    d = legendre_anova(X[:, 0] * X[:, 1], X, scaling="tanh", degree=5, progress=False)
    pair = d[0, 1].on_rows(X)[:, 0]
    columns = d.inputs.columns(X)
    for j in range(2):
        axis = d[j].axes[j]
        density = d[j].terms[0].density
        u = {j: axis.coordinates(columns.values[j])}
        functions = axis.functions(u[j], 5) / np.maximum(
            density.raw({j: axis}, u), density.floor
        ).reshape(-1, 1)
        cosines = (pair @ (functions - functions.mean(axis=0))) / (
            np.linalg.norm(pair) * np.linalg.norm(functions - functions.mean(axis=0), axis=0)
        )
        assert np.abs(cosines).max() < 1e-10


@pytest.mark.parametrize(
    "options",
    [
        {"criterion": "cp"},
        {"column_scale": "long"},
        {"max_steps": 0},
        {"max_candidates": 1.5},
    ],
)
def test_wrong_selections_are_refused(options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        TermSelection(**options)
