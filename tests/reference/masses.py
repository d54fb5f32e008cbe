"""Masses that are hard to purify under."""

import numpy as np
from scipy.stats import norm


def sampled_copula(shape: tuple[int, ...], correlation: float, n_rows: int, seed: int = 0):
    """Histogram of Gaussian rows over cells of equal probability a feature."""
    d = len(shape)
    rng = np.random.default_rng(seed)
    covariance = np.full((d, d), correlation) + (1 - correlation) * np.eye(d)
    rows = rng.multivariate_normal(np.zeros(d), covariance, size=n_rows, method="cholesky")
    cells = [
        np.minimum((norm.cdf(rows[:, i]) * size).astype(int), size - 1)
        for i, size in enumerate(shape)
    ]
    mass = np.zeros(shape)
    np.add.at(mass, tuple(cells), 1.0)
    return mass / mass.sum()


def analytic_copula(shape: tuple[int, ...], correlation: float) -> np.ndarray:
    """Density of the Gaussian copula at the middle of cells of equal probability.

    Corners hold masses down to 1e-280, below which a weighting sets them to zero.
    """
    d = len(shape)
    middles = [norm.ppf((np.arange(size) + 0.5) / size) for size in shape]
    points = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, d)
    covariance = np.full((d, d), correlation) + (1 - correlation) * np.eye(d)
    precision = np.linalg.inv(covariance)
    exponent = -0.5 * ((points @ precision) * points).sum(axis=1) + 0.5 * (points**2).sum(axis=1)
    mass = np.exp(exponent - exponent.max()).reshape(shape)
    mass[mass < 1e-280] = 0.0
    return mass / mass.sum()


def two_clusters(shape: tuple[int, ...], n_links: int, n_rows: int, seed: int = 0) -> np.ndarray:
    """Rows in two opposite corners of a table, and a handful between them."""
    rng = np.random.default_rng(seed)
    mass = np.zeros(shape)
    for _ in range(n_rows):
        high = rng.random() < 0.5
        cell = tuple(rng.integers(s // 2, s) if high else rng.integers(0, s // 2) for s in shape)
        mass[cell] += 1.0
    for _ in range(n_links):
        upper = rng.permutation(len(shape)) == 0
        cell = tuple(
            rng.integers(s // 2, s) if up else rng.integers(0, s // 2)
            for s, up in zip(shape, upper, strict=True)
        )
        mass[cell] += 1.0
    return mass / mass.sum()


def blocks(sizes: list[tuple[int, int]], seed: int = 0) -> np.ndarray:
    """Block-diagonal pair table with full blocks of random mass."""
    rng = np.random.default_rng(seed)
    height, width = np.sum(sizes, axis=0)
    mass = np.zeros((height, width))
    row = column = 0
    for rows, columns in sizes:
        mass[row : row + rows, column : column + columns] = rng.uniform(0.2, 1, (rows, columns))
        row, column = row + rows, column + columns
    return mass / mass.sum()
