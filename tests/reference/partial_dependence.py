"""Partial dependence by its definition: the mean over copies of the background."""

from collections.abc import Callable
from itertools import combinations

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


def subsets_of(features, largest: int | None = None) -> list[tuple[int, ...]]:
    features = tuple(features)
    top = len(features) if largest is None else largest
    return [s for size in range(top + 1) for s in combinations(features, size)]


def dependence(
    f: Function, X: np.ndarray, background: np.ndarray, features, weights: np.ndarray | None = None
) -> np.ndarray:
    """Mean of `f` over the background with the columns `features` set to each row of `X`."""
    found = []
    for x in X:
        rows = background.copy()
        rows[:, list(features)] = x[list(features)]
        values = np.asarray(f(rows), dtype=float).reshape(len(background), -1)
        found.append(np.average(values, axis=0, weights=weights))
    return np.array(found)


def moebius_terms(
    f: Function,
    X: np.ndarray,
    background: np.ndarray,
    largest: int | None = None,
    weights: np.ndarray | None = None,
) -> dict[tuple[int, ...], np.ndarray]:
    """All terms of up to `largest` features at the rows of `X`, shape (n_rows, n_outputs)."""
    every = subsets_of(range(X.shape[1]), largest)
    known = {s: dependence(f, X, background, s, weights) for s in every}
    return {s: sum((-1) ** (len(s) - len(t)) * known[t] for t in subsets_of(s)) for s in every}
