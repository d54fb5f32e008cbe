"""Effects of strongly dependent features, against their closed forms; and what a fit misses."""

import warnings

import numpy as np
import pytest

import treepurify as tp

QUIET = {"progress": False}


def pair_of(correlation: float, n_rows: int, seed: int) -> np.ndarray:
    normal = np.random.default_rng(seed).normal(size=(n_rows, 2))
    normal[:, 1] = correlation * normal[:, 0] + np.sqrt(1 - correlation**2) * normal[:, 1]
    return normal


def product_effects(X: np.ndarray, correlation: float) -> dict[tuple[int, ...], np.ndarray]:
    """The functional ANOVA of x1 x2 for standard normal features: parabolas, and the rest."""
    share = correlation / (1 + correlation**2)
    first, second = (share * (X[:, j] ** 2 - 1) for j in (0, 1))
    rest = X[:, 0] * X[:, 1] - correlation - first - second
    return {(0,): first, (1,): second, (0, 1): rest}


def distance(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - truth) ** 2)) / truth.std())


@pytest.mark.parametrize(("correlation", "most"), [(0.5, 0.2), (0.9, 0.25)])
def test_the_interaction_of_dependent_features_is_found_and_holds_on_new_rows(correlation, most):
    X, new = pair_of(correlation, 5000, 0), pair_of(correlation, 20_000, 1)
    d = tp.legendre_anova(X[:, 0] * X[:, 1], X, **QUIET)
    for rows in (X, new):
        for subset, truth in product_effects(rows, correlation).items():
            assert distance(d[subset].on_rows(rows)[:, 0], truth) < most, subset
    assert max(np.ravel(list(d.diagnostics["left_over"].values()))) < 1e-3


def test_an_effect_in_the_remainder_is_announced():
    """Polynomials of ranks over densities do not follow tails; R2 alone is 0.99."""
    X = pair_of(0.9, 5000, 0)
    values = X[:, 0] * X[:, 1]
    with pytest.warns(tp.errors.FitWarning, match=r"x0 & x1 \(\d+%\)") as caught:
        d = tp.legendre_anova(values, X, scaling="rank", density="legendre", **QUIET)
    assert caught[0].filename == __file__
    assert d.diagnostics["fit"]["f"]["r_squared"] > 0.99
    truth = product_effects(X, 0.9)[0, 1]
    missed = np.mean((d[0, 1].on_rows(X)[:, 0] - truth) ** 2)
    assert 0.2 * missed < d.diagnostics["left_over"]["x0 & x1"][0] < 2 * missed


def test_noise_is_no_effect_that_was_left_over():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error", tp.errors.FitWarning)
        d = tp.legendre_anova(rng.normal(size=2000), X, degree=4, **QUIET)
    assert max(np.ravel(list(d.diagnostics["left_over"].values())), default=0.0) < 0.02


def test_scores_follow_tails_that_ranks_flatten():
    X = np.random.default_rng(4).standard_t(3, size=(4000, 2))
    values = X[:, 0] ** 2
    r_squared = {
        scaling: tp.legendre_anova(values, X, order=1, scaling=scaling, **QUIET).diagnostics["fit"][
            "f"
        ]["r_squared"]
        for scaling in ("score", "rank")
    }
    assert r_squared["score"] > 0.9
    assert r_squared["rank"] < 0.8


def test_scores_are_taken_for_functions_with_tails_and_ranks_for_trees():
    X = pair_of(0.5, 3000, 6)
    step = (X[:, 0] > 0.3) * 1.0 + (X[:, 1] > -0.5) * (X[:, 0] > -1.0)
    kinds = {
        name: tp.legendre_anova(values, X, selection="all", **QUIET).diagnostics["scaling"]["x0"]
        for name, values in {"product": X[:, 0] * X[:, 1], "step": step}.items()
    }
    assert kinds == {"product": "score", "step": "rank"}


def test_functions_of_scores_are_orthonormal():
    values = np.sort(np.random.default_rng(5).normal(size=3000))
    X = np.column_stack([values, np.zeros(3000)])
    d = tp.legendre_anova(values, X, order=1, degree=8, scaling="score", **QUIET)
    axis = d[0].axes[0]
    points, weights = np.polynomial.legendre.leggauss(2000)
    functions = np.column_stack([np.full(2000, np.sqrt(0.5)), axis.functions(points, 8)])
    gram = functions.T @ (weights[:, None] * functions)
    np.testing.assert_allclose(gram[:, :7], np.eye(9)[:, :7], atol=1e-4)
    np.testing.assert_allclose(np.diag(gram), 1.0, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"orthogonal": False}, "orthogonal=False needs densities"),
        ({"density_degree": 4}, "density_degree does not apply to density='none'"),
        ({"density_clip": 0.1}, "density_clip does not apply to density='none'"),
        ({"density": "kernel", "density_degree": 4}, "density_degree does not apply"),
    ],
)
def test_options_without_meaning_are_refused(options, message):
    X = pair_of(0.0, 100, 0)
    with pytest.raises(tp.errors.InvalidInputError, match=message):
        tp.legendre_anova(X[:, 0], X, degree=2, **options, **QUIET)
