"""The continuous closed form exactly as Ferrere et al. describe it in their appendices C and D.

Nothing here is fast or careful: SciPy evaluates the polynomials, scikit-learn walks the LARS
path, NumPy solves, and the whole design matrix is in memory.
"""

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.special import eval_legendre
from sklearn.linear_model import LassoLarsIC
from sklearn.preprocessing import StandardScaler

Subset = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PipelineFit:
    """What the pipeline finds on its rows.

    Parameters
    ----------
    intercept : float
        Mean of the fit, after recentring.
    components : dict of Subset to ndarray of shape (n_rows,)
        Recentred components of the subsets with a selected column.
    selected : tuple of (Subset, degrees)
        The columns that LARS with BIC kept.
    r_squared, max_correlation : float
        Section D.7; equation 94.
    """

    intercept: float
    components: dict[Subset, np.ndarray]
    selected: tuple[tuple[Subset, tuple[int, ...]], ...]
    r_squared: float
    max_correlation: float


def normalised_legendre(x: np.ndarray, degree: int) -> np.ndarray:
    """Equation 17 for degrees 0 to `degree`, shape (degree + 1, n_rows)."""
    return np.stack([np.sqrt((2 * m + 1) / 2) * eval_legendre(m, x) for m in range(degree + 1)])


def tanh_scaled(X: np.ndarray) -> np.ndarray:
    """Equation 78: standardise, then tanh."""
    return np.tanh(StandardScaler().fit_transform(X))


def clipped_density(scaled: np.ndarray, subset: Subset, degree: int, clip: float) -> np.ndarray:
    """Equations 79 and 80 and remark C.2, at the rows themselves."""
    tables = [normalised_legendre(scaled[:, j], degree) for j in subset]
    density = np.zeros(len(scaled))
    for degrees in product(range(degree + 1), repeat=len(subset)):
        term = np.prod([table[m] for table, m in zip(tables, degrees, strict=True)], axis=0)
        density += term.mean() * term
    return np.maximum(density, clip)


def design(
    scaled: np.ndarray,
    order: int,
    degree: int,
    density_degree: int,
    density_clip: float,
    *,
    normalised: bool = True,
) -> tuple[np.ndarray, list[tuple[Subset, tuple[int, ...]]]]:
    """Equation 81 without the constant column and without the factor of equation 7.

    Where `normalised` is False the numerators are SciPy's polynomials as they are. The columns
    span the same functions, but LARS prefers long columns, so the selection differs.
    """
    tables = [normalised_legendre(column, degree) for column in scaled.T]
    if not normalised:
        lengths = np.sqrt((2 * np.arange(degree + 1) + 1) / 2)
        tables = [table / lengths[:, None] for table in tables]
    columns, index = [], []
    for size in range(1, order + 1):
        for subset in combinations(range(scaled.shape[1]), size):
            density = clipped_density(scaled, subset, density_degree, density_clip)
            for degrees in product(range(1, degree + 1), repeat=size):
                numerator = np.prod([tables[j][m] for j, m in zip(subset, degrees, strict=True)], 0)
                columns.append(numerator / density)
                index.append((subset, degrees))
    return np.column_stack(columns), index


def max_correlation(components: dict[Subset, np.ndarray], values: np.ndarray) -> float:
    """Equation 94: over components of at least 1% of the variance and their subsets."""
    worst = 0.0
    for subset, component in components.items():
        if component.var() < 0.01 * values.var():
            continue
        for size in range(1, len(subset)):
            for part in combinations(subset, size):
                if part in components:
                    other = components[part]
                    scale = np.sqrt(np.mean(component**2) * np.mean(other**2))
                    worst = max(worst, abs(np.mean(component * other)) / scale)
    return float(worst)


def legendre_pipeline(
    values: np.ndarray,
    X: np.ndarray,
    *,
    order: int = 2,
    degree: int = 10,
    density_degree: int = 4,
    density_clip: float = 0.01,
    max_iter: int = 500,
    normalised: bool = True,
) -> PipelineFit:
    """Decompose the values of a function at the rows of X.

    `max_iter` is the limit of `LassoLarsIC`; 500 is scikit-learn's own default. `normalised` is
    that of `design`; with False the paper's own figures come out most closely.
    """
    matrix, index = design(
        tanh_scaled(X), order, degree, density_degree, density_clip, normalised=normalised
    )
    lars = LassoLarsIC(criterion="bic", max_iter=max_iter).fit(matrix, values)
    kept = np.flatnonzero(lars.coef_)
    reduced = np.column_stack([np.ones(len(values)), matrix[:, kept]])
    coefficients = np.linalg.lstsq(reduced, values, rcond=None)[0]
    selected = tuple(index[k] for k in kept)
    components: dict[Subset, np.ndarray] = {}
    for column, (subset, _) in enumerate(selected, start=1):
        part = coefficients[column] * reduced[:, column]
        components[subset] = components.get(subset, 0.0) + part
    intercept = float(coefficients[0]) + sum(float(c.mean()) for c in components.values())
    components = {subset: c - c.mean() for subset, c in components.items()}
    residual = values - intercept - sum(components.values(), np.zeros(len(values)))
    return PipelineFit(
        intercept,
        components,
        selected,
        float(1 - residual.var() / values.var()),
        max_correlation(components, values),
    )
