"""Populations that can be drawn from again, and functions whose exact components are known."""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

Effects = dict[tuple[int, ...], np.ndarray]
Rows = Callable[[np.random.Generator, int], np.ndarray]


def gaussian_rows(correlation: float, n_features: int) -> Rows:
    """Normal features, all with the same correlation."""

    def rows(rng: np.random.Generator, n_rows: int) -> np.ndarray:
        common, own = rng.normal(size=(n_rows, 1)), rng.normal(size=(n_rows, n_features))
        return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own

    return rows


def product_response(X: np.ndarray) -> np.ndarray:
    """One main effect and two interactions."""
    return 2 * X[:, 0] + X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]


def product_effects(X: np.ndarray, correlation: float) -> Effects:
    """The exact components of that response under normal features of one correlation.

    The best additive approximation of `a b` has effects `rho / (1 + rho^2) (a^2 - 1)`.
    """
    slope = correlation / (1 + correlation**2)
    mains = [slope * (X[:, j] ** 2 - 1) for j in range(4)]
    effects: Effects = {(j,): mains[j] for j in range(4)}
    for i, j in ((0, 1), (2, 3)):
        effects[(i, j)] = X[:, i] * X[:, j] - correlation - mains[i] - mains[j]
    effects[(0,)] = effects[(0,)] + 2 * X[:, 0]
    return effects


def skewed_rows(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """A Gaussian copula with margins that are log-normal, of whole numbers, and heavy-tailed."""
    X = gaussian_rows(0.5, 5)(rng, n_rows)
    X[:, 0] = np.exp(X[:, 0])
    X[:, 1] = np.floor(2 * X[:, 1])
    X[:, 2] = np.sign(X[:, 2]) * X[:, 2] ** 2
    return X


def joint_tails_rows(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Tails that come together, and one feature that is the size of another with noise."""
    X = gaussian_rows(0.5, 5)(rng, n_rows)
    X /= np.sqrt(rng.chisquare(2, size=(n_rows, 1)) / 2)
    X = np.sign(X) * np.abs(X) ** 0.3
    X[:, 3] = np.abs(X[:, 2]) + 0.3 * rng.normal(size=n_rows)
    return X


def cluster_rows(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Three groups of people, independent features within each."""
    centres = np.array([[-2, -2, 0, 1, 0], [0, 2, 2, -1, 0], [2, 0, -2, 0, 0]], dtype=float)
    return centres[rng.integers(0, 3, n_rows)] + 0.7 * rng.normal(size=(n_rows, 5))


def category_rows(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Six features of four levels; neighbours in a chain are alike: a log-linear model of pairs."""
    X = np.empty((n_rows, 6))
    X[:, 0] = rng.integers(0, 4, n_rows)
    for j in range(1, 6):
        stays = rng.random(n_rows) < 0.6
        X[:, j] = np.where(stays, X[:, j - 1], rng.integers(0, 4, n_rows))
    return X


def clipped_response(X: np.ndarray) -> np.ndarray:
    """The products within bounds, so that heavy tails do not decide alone."""
    return product_response(np.clip(X, -3, 3))


def friedman_response(X: np.ndarray) -> np.ndarray:
    """Friedman's first function, of normal features turned to the unit interval."""
    unit = ndtr(X)
    pair = 10 * np.sin(np.pi * unit[:, 0] * unit[:, 1])
    return pair + 20 * (unit[:, 2] - 0.5) ** 2 + 10 * unit[:, 3] + 5 * unit[:, 4]


def category_response(X: np.ndarray) -> np.ndarray:
    """Effects of levels, and of equal neighbours."""
    return X[:, 0] - (X[:, 1] == 2) + 1.0 * (X[:, 2] == X[:, 3]) + X[:, 4] * (X[:, 5] > 1)


POPULATIONS: dict[str, tuple[Rows, Callable[[np.ndarray], np.ndarray]]] = {
    "normal, correlation 0": (gaussian_rows(0.0, 5), product_response),
    "normal, correlation 0.5": (gaussian_rows(0.5, 5), product_response),
    "normal, correlation 0.9": (gaussian_rows(0.9, 5), product_response),
    "Friedman, correlation 0.5": (gaussian_rows(0.5, 5), friedman_response),
    "20 features, correlation 0.5": (gaussian_rows(0.5, 20), product_response),
    "skewed, whole, heavy-tailed": (skewed_rows, clipped_response),
    "joint tails, no copula": (joint_tails_rows, clipped_response),
    "three clusters": (cluster_rows, clipped_response),
    "categories in a chain": (category_rows, category_response),
}
