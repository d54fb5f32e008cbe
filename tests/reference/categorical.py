"""The closed form for categories as printed: one function, one Gram-Schmidt step at a time."""

from collections.abc import Iterable
from itertools import product

import numpy as np

# Share of a function's own norm that must be left for it to be independent.
INDEPENDENT = 1e-8


def inverse_likelihood(
    codes: np.ndarray, mass: np.ndarray, subset: tuple[int, ...], z: tuple[int, ...]
) -> np.ndarray:
    """Definition 3.1 at each point: codes has shape (n_points, n_features), levels 0 ... N-1."""
    numerator = np.ones(len(codes))
    for j, level in zip(subset, z, strict=True):
        last = codes[:, j].max()
        numerator *= (codes[:, j] == level).astype(float) - (codes[:, j] == last)
    number = np.zeros(len(codes), dtype=np.int64)
    for j in subset:
        number = number * (codes[:, j].max() + 1) + codes[:, j]
    return numerator / np.bincount(number, weights=mass)[number]


def greedy_selection(
    codes: np.ndarray, mass: np.ndarray, subsets: Iterable[tuple[int, ...]], rank: int
) -> tuple[list[tuple[tuple[int, ...], tuple[int, ...]]], np.ndarray]:
    """Algorithm 1: the selected (A, z), and the functions at the points, (n_points, rank).

    The constant comes first. Gram-Schmidt twice a candidate.
    """
    root = np.sqrt(mass)
    directions = np.empty((len(mass), rank))
    directions[:, 0] = root
    selected: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    functions = [np.ones(len(mass))]
    for subset in subsets:
        for z in product(*(range(int(codes[:, j].max())) for j in subset)):
            if len(selected) == rank:
                return selected, np.stack(functions, axis=1)
            values = inverse_likelihood(codes, mass, subset, z)
            rest = root * values
            norm = np.linalg.norm(rest)
            for _ in range(2):
                own = directions[:, : len(selected)]
                rest = rest - own @ (own.T @ rest)
            if norm > 0 and np.linalg.norm(rest) > INDEPENDENT * norm:
                directions[:, len(selected)] = rest / np.linalg.norm(rest)
                selected.append((subset, z))
                functions.append(values)
    return selected, np.stack(functions, axis=1)


def projection(functions: np.ndarray, mass: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weighted least-squares fit of values by functions, at the points."""
    root = np.sqrt(mass)[:, None]
    scale = np.sqrt(mass @ functions**2)
    solution = np.linalg.lstsq(root * functions / scale, root * values, rcond=None)[0]
    return (functions / scale) @ solution


def largest_overlap(
    codes: np.ndarray, mass: np.ndarray, effect: np.ndarray, subset: tuple[int, ...]
) -> float:
    """Largest absolute sum of mass times effect over a slice that fixes all features but one."""
    largest = 0.0
    for left_out in subset:
        rest = [j for j in subset if j != left_out]
        _, number = np.unique(codes[:, rest], axis=0, return_inverse=True)
        sums = np.bincount(number.reshape(-1), weights=mass * effect)
        largest = max(largest, float(np.abs(sums).max()))
    return largest
