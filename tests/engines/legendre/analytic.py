"""Cases whose decomposition is known in closed form (Ferrere et al., appendix D.4)."""

from collections.abc import Callable

import numpy as np
from scipy.special import eval_legendre

Function = Callable[[np.ndarray], np.ndarray]


def polynomial(degree: int, x: np.ndarray) -> np.ndarray:
    """Equation 17."""
    return np.sqrt((2 * degree + 1) / 2) * eval_legendre(degree, x)


def dependent_rows(n_rows: int, rho: float = 0.5, seed: int = 0) -> np.ndarray:
    """Rows of the density of equation 87, by rejection."""
    rng = np.random.default_rng(seed)
    kept = np.empty((0, 3))
    while len(kept) < n_rows:
        x = rng.uniform(-1, 1, size=(4 * n_rows, 3))
        ratio = 1 + rho * (x[:, 0] * x[:, 1] + x[:, 1] * x[:, 2] + x[:, 0] * x[:, 2])
        kept = np.vstack([kept, x[rng.uniform(0, 1 + 3 * rho, len(x)) < ratio]])
    return kept[:n_rows]


def components(rho: float = 0.5) -> dict[tuple[int, ...], Function]:
    """Equations 91 to 93, with the densities of equations 88 and 89."""

    def first(X):
        x = X[:, 0]
        numerator = np.sqrt(2 / 7) * polynomial(3, x) - np.sqrt(2 / 3) * polynomial(1, x)
        return numerator / 0.5

    def second(X):
        x = X[:, 1]
        numerator = np.sqrt(2 / 3) * polynomial(1, x) + np.sqrt(2 / 5) * polynomial(2, x)
        return numerator / 0.5

    def both(X):
        x, z = X[:, 0], X[:, 1]
        numerator = 2 / 9 * polynomial(4, x) * polynomial(4, z)
        numerator += 2 / 17 * polynomial(8, x) * polynomial(8, z)
        return numerator / (0.25 * (1 + rho * x * z))

    return {(0,): first, (1,): second, (0, 1): both}


def function(X: np.ndarray) -> np.ndarray:
    """Equation 14."""
    return sum(part(X) for part in components().values())
