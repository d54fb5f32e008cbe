"""Slow truths: Shapley values of a game by its definition, and games from models and tables."""

from collections.abc import Callable
from itertools import combinations
from math import comb, factorial

import numpy as np

Game = Callable[[tuple[int, ...]], np.ndarray]


def all_values(game: Game, n: int) -> dict[tuple[int, ...], np.ndarray]:
    return {s: game(s) for size in range(n + 1) for s in combinations(range(n), size)}


def shapley_by_definition(game: Game, n: int) -> np.ndarray:
    """Equation 1 of Sivill and Flach; features first."""
    value = all_values(game, n)
    phi = []
    for i in range(n):
        total = 0.0
        for s in value:
            if i not in s:
                weight = factorial(len(s)) * factorial(n - len(s) - 1) / factorial(n)
                total = total + weight * (value[tuple(sorted((*s, i)))] - value[s])
        phi.append(total)
    return np.stack(phi)


def interaction_by_definition(game: Game, n: int, subset: tuple[int, ...]) -> np.ndarray:
    """The Shapley interaction index: the weighted mean of discrete derivatives."""
    value = all_values(game, n)
    size = len(subset)
    total = 0.0
    for s in value:
        if set(s) & set(subset):
            continue
        weight = factorial(len(s)) * factorial(n - len(s) - size) / factorial(n - size + 1)
        for k in range(size + 1):
            for part in combinations(subset, k):
                total = total + (-1) ** (size - k) * weight * value[tuple(sorted((*s, *part)))]
    return total


def interventional_game(f, rows: np.ndarray, background: np.ndarray, weights=None) -> Game:
    """Mean prediction when the features of a coalition come from the row."""

    def value(coalition: tuple[int, ...]) -> np.ndarray:
        found = []
        for row in rows:
            mixed = background.copy()
            mixed[:, list(coalition)] = row[list(coalition)]
            found.append(np.average(f(mixed), axis=0, weights=weights))
        return np.array(found)

    return value


def decomposition_game(d, X) -> Game:
    """Sum of the components on subsets of the coalition."""
    values = {s: c.on_rows(X) for s, c in d.components.items()}
    if d.remainder is not None:
        values |= {p.features: p.on_rows(X) for p in d.remainder.parts}

    def value(coalition: tuple[int, ...]) -> np.ndarray:
        inside = [v for s, v in values.items() if set(s) <= set(coalition)]
        return sum(inside, np.zeros((len(X), d.n_outputs)))

    return value


def derivative(value: dict[tuple[int, ...], np.ndarray], subset, given) -> np.ndarray:
    """The discrete derivative of a game by a subset where others are given."""
    total = 0.0
    for k in range(len(subset) + 1):
        for part in combinations(subset, k):
            total = total + (-1) ** (len(subset) - k) * value[tuple(sorted((*given, *part)))]
    return total


def mean_over_coalitions(game: Game, n: int, subset) -> np.ndarray:
    """Mean derivative of a group over the coalitions of others, by Shapley's weights."""
    value = all_values(game, n)
    total = 0.0
    for others in value:
        if set(others) & set(subset):
            continue
        given, size = len(others), len(subset)
        weight = factorial(given) * factorial(n - size - given) / factorial(n - size + 1)
        total = total + weight * derivative(value, subset, others)
    return total


def faithful_approximation(game: Game, n: int, order: int) -> dict[tuple[int, ...], np.ndarray]:
    """Moebius coefficients of the nearest game of an order, by dense weighted least squares.

    By Shapley's weights the values of no feature and of all are met, by constraints.
    """
    value = all_values(game, n)
    groups = [s for size in range(order + 1) for s in combinations(range(n), size)]
    design = np.array([[set(g) <= set(s) for g in groups] for s in value], dtype=float)
    target = np.array([np.ravel(v) for v in value.values()])
    sizes = np.array([len(s) for s in value])
    inner = (sizes > 0) & (sizes < n)
    weight = np.array([1.0 / comb(n - 2, s - 1) if 0 < s < n else 0.0 for s in sizes])
    left = design[inner].T * weight[inner]
    fixed = design[~inner]
    zeros = np.zeros((len(fixed), len(fixed)))
    system = np.block([[left @ design[inner], fixed.T], [fixed, zeros]])
    right = np.vstack([left @ target[inner], target[~inner]])
    found = np.linalg.lstsq(system, right, rcond=None)[0][: len(groups)]
    shape = next(iter(value.values())).shape
    return {g: row.reshape(shape) for g, row in zip(groups, found, strict=True)}
