"""Densities that are known, beside dense least squares, quadrature and the population."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gaussian_kde, multivariate_normal, multivariate_t
from sklearn.mixture import GaussianMixture

from treepurify.engines.legendre import legendre_anova
from treepurify.engines.legendre.axis_fitting import fit_axes
from treepurify.engines.legendre.densities import grid_density
from treepurify.engines.legendre.supplied_densities import as_marginal, copula_densities
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.rows.columns import Columns, FeatureSpec

# The densities matter here, not how much of the function is fitted.
pytestmark = [
    pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning"),
    pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning"),
]

DEPENDENCE = 0.9


def bounded_rows(n_rows: int, seed: int = 0) -> np.ndarray:
    """Return rows of density ``(1 + a x y) / 4`` on the square."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (3 * n_rows, 2))
    kept = rng.uniform(0, 1 + DEPENDENCE, len(X)) < 1 + DEPENDENCE * X[:, 0] * X[:, 1]
    return X[kept][:n_rows]


def bounded_density(points: np.ndarray, features: tuple[int, ...]) -> np.ndarray:
    if len(features) == 1:
        return np.full(len(points), 0.5)
    return (1 + DEPENDENCE * points[:, 0] * points[:, 1]) / 4


def function(X: np.ndarray) -> np.ndarray:
    return X[:, 0] * X[:, 1] + np.sin(3 * X[:, 0]) * X[:, 1]


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


KNOWN = {"density": bounded_density, "scaling": "minmax", "orthogonal": False, "progress": False}


def test_all_columns_equal_dense_least_squares():
    X = np.vstack([bounded_rows(1500), [[-1, -1], [1, 1]]])  # so that scaled values are the values
    values = np.exp(X[:, 0] * X[:, 1])
    d = legendre_anova(values, X, degree=4, selection="all", **KNOWN)
    tables = [np.polynomial.legendre.legvander(column, 4)[:, 1:] for column in X.T]
    pairs = np.einsum("na,nb->nab", *tables).reshape(len(X), -1)
    columns = [np.ones((len(X), 1)), 2 * tables[0], 2 * tables[1]]
    columns.append(pairs / bounded_density(X, (0, 1))[:, None])
    design = np.hstack(columns)
    coefficients = np.linalg.lstsq(design, values, rcond=None)[0]
    for subset, start, stop in (((0,), 1, 5), ((1,), 5, 9), ((0, 1), 9, 25)):
        part = design[:, start:stop] @ coefficients[start:stop]
        np.testing.assert_allclose(
            d[subset].on_rows(X)[:, 0], part - part.mean(), atol=1e-8, err_msg=str(subset)
        )


def test_a_known_density_gives_the_effects_of_the_population():
    X, fresh = bounded_rows(3000), bounded_rows(100_000, 1)
    tables = [np.polynomial.legendre.legvander(column, 9) for column in fresh.T]
    additive = np.hstack([tables[0], tables[1][:, 1:]])
    truth = additive @ np.linalg.lstsq(additive, function(fresh), rcond=None)[0]
    pair = function(fresh) - truth
    by_rows = legendre_anova(function, X, scaling="minmax", progress=False)
    known = legendre_anova(function, X, **KNOWN)
    errors = [rms(d[0, 1].on_rows(fresh)[:, 0] - pair) for d in (by_rows, known)]
    assert errors[1] < 0.5 * errors[0]
    assert known.diagnostics["density"] == "given (bounded_density)"


def normal_mixture() -> GaussianMixture:
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(200, 2)), rng.normal(size=(100, 2)) @ [[1, 0.5], [0, 1]] + 2])
    return GaussianMixture(2, random_state=0).fit(X)


def tied_mixture() -> GaussianMixture:
    return GaussianMixture(2, covariance_type="tied", random_state=0).fit(bounded_rows(300))


def diagonal_mixture() -> GaussianMixture:
    return GaussianMixture(2, covariance_type="diag", random_state=0).fit(bounded_rows(300))


COVARIANCE = [[1.0, 0.6], [0.6, 2.0]]
OBJECTS = {
    "normal": lambda: multivariate_normal([0, 1], COVARIANCE),
    "t": lambda: multivariate_t([0, 1], COVARIANCE, df=5),
    "kernel estimate": lambda: gaussian_kde(bounded_rows(100).T),
    "mixture": normal_mixture,
    "tied mixture": tied_mixture,
    "diagonal mixture": diagonal_mixture,
}


@pytest.mark.parametrize("name", OBJECTS)
def test_margins_are_integrals_of_the_joint_density(name):
    known = OBJECTS[name]()
    marginal = as_marginal(known, 2)
    points = np.array([[0.3, -0.2], [1.5, 0.4]])
    joint = marginal(points, (0, 1))
    if hasattr(known, "score_samples"):
        expected = np.exp(known.score_samples(points))
    else:
        expected = known.pdf(points.T if name == "kernel estimate" else points)
    np.testing.assert_allclose(joint, expected, rtol=1e-10)
    for feature in (0, 1):

        def along(value, feature=feature):
            point = np.array([[0.3, value]] if feature == 0 else [[value, 0.3]])
            return marginal(point, (0, 1))[0]

        total = quad(along, -60, 60, points=[-2, 0, 2], limit=400)[0]
        found = marginal(np.array([[0.3]]), (feature,))
        assert found.shape == (1,)
        assert found[0] == pytest.approx(total, rel=1e-5)


def test_the_copula_has_kernel_margins_and_the_density_of_normal_scores():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 4000)
    specs = (FeatureSpec("a"), FeatureSpec("b"))
    columns = Columns(specs, tuple(X.T), len(X))
    weights = np.full(len(X), 1 / len(X))
    axes, _ = fit_axes(columns, weights, "rank", "rank")
    coordinates = {j: axis.coordinates(X[:, j]) for j, axis in axes.items()}
    densities = copula_densities(axes, coordinates, weights, [(0,), (0, 1)], 0.01)
    one = grid_density(axes, coordinates, weights, (0,), 0.01)
    inner = np.linspace(-0.9, 0.9, 50)
    np.testing.assert_allclose(
        densities[0,].raw(axes, {0: inner}), one.raw(axes, {0: inner}), rtol=0.02
    )
    # In ranks the joint density is that of the copula.
    some = X[np.abs(X).max(axis=1) < 1.5][:500]
    at = {j: axis.coordinates(some[:, j]) for j, axis in axes.items()}
    joint = multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]]).pdf(some)
    apart = multivariate_normal([0, 0], np.eye(2)).pdf(some)
    found = densities[0, 1].raw(axes, at)
    np.testing.assert_allclose(found, 0.25 * joint / apart, rtol=0.15)


def test_a_copula_and_mixtures_fit():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 2000)
    for density in ("copula", GaussianMixture(1, random_state=0).fit(X)):
        d = legendre_anova(
            lambda X: X[:, 0] + X[:, 1] ** 2, X, density=density, degree=6, progress=False
        )
        assert next(iter(d.diagnostics["fit"].values()))["r_squared"] > 0.95
        assert d["x0"].variance[0] > 0.5


def test_what_is_no_density_is_refused():
    X = bounded_rows(300)
    options = {"progress": False, "scaling": "minmax"}
    for density, reason in (
        (None, "object with logpdf"),
        ("gauss", "object with logpdf"),
        (3.0, "object with logpdf"),
        (multivariate_normal([0, 0, 0]), "the density has 3 features"),
        (lambda points, features: np.ones(2), "finite numbers that are not negative"),
        (lambda points, features: -np.ones(len(points)), "finite numbers that are not negative"),
    ):
        with pytest.raises(InvalidInputError, match=reason):
            legendre_anova(function, X, density=density, **options)
    with pytest.raises(InvalidInputError, match="density_degree does not apply"):
        legendre_anova(function, X, density=bounded_density, density_degree=3, **options)
    with pytest.raises(InvalidInputError, match="has levels"):
        legendre_anova(lambda X: X[:, 0], np.round(3 * X), density=bounded_density, progress=False)
    with pytest.raises(MemoryBudgetError, match="densities of up to 2"):
        legendre_anova(function, X, density="copula", memory_budget=100_000, **options)
