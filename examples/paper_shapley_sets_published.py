"""
Conditional values as they were published
=========================================

The authors' code conditions on one feature of a coalition only, the first, and multiplies by its
variance where the formula divides. On features scaled to [0, 1] variances are small, so that the
other features stay next to their means. Part of ``paper_shapley_sets.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class PublishedWorth:
    """What a coalition is worth, before the prediction at the means is taken off.

    Parameters
    ----------
    f : callable
        The model.
    X : ndarray of shape (n_rows, n_features)
        The data, which means and covariances come from.
    """

    f: Function
    X: np.ndarray

    def __post_init__(self) -> None:
        """Compute the means and covariances once."""
        object.__setattr__(self, "mean", self.X.mean(axis=0))
        object.__setattr__(self, "covariance", np.cov(self.X.T))

    def filled(
        self, row: np.ndarray, coalition: Sequence[int], first: int | None = None
    ) -> np.ndarray:
        """Return the row with the features outside the coalition at their published means.

        They are conditioned on `first`, by default the first feature of the coalition in the table.
        """
        if not coalition:
            return self.mean
        first = min(coalition) if first is None else first
        slope = self.covariance[:, first] * self.covariance[first, first]
        values = self.mean + slope * (row[first] - self.mean[first])
        values[list(coalition)] = row[list(coalition)]
        return values

    def interacts(
        self, rows: np.ndarray, some: Sequence[int], others: Sequence[int], tolerance: float
    ) -> bool:
        """Return whether two groups add something else together than alone (definition 3.1)."""
        coalitions = ([*some, *others], list(others), list(some), [])
        filled = np.stack([self.filled(row, c) for c in coalitions for row in rows])
        both, second, first, none = self.f(filled).reshape(len(coalitions), -1)
        return bool((np.abs((both - second) - (first - none)) > tolerance).any())


def published_groups(
    worth: PublishedWorth, tolerance: float, rng: np.random.Generator, probes: int
) -> list[list[int]]:
    """Return groups by algorithms 1 and 2, none lost at the end; each test draws its own rows.

    The published code draws one row for each test.
    """

    def joined(some: list[int], others: list[int]) -> list[int]:
        rows = worth.X[rng.integers(len(worth.X), size=probes)]
        if not worth.interacts(rows, some, others, tolerance):
            return some
        if len(others) == 1:
            return [*some, *others]
        half = len(others) // 2
        found = [*joined(some, others[:half]), *joined(some, others[half:])]
        return list(dict.fromkeys(found))

    groups, group, left = [], [0], list(range(1, worth.X.shape[1]))
    while left:
        larger = joined(group, left)
        if larger == group:
            groups.append(group)
            group, left = left[:1], left[1:]
        else:
            group, left = larger, [j for j in left if j not in larger]
    return [*groups, group]


def published_values(
    worth: PublishedWorth, row: np.ndarray, groups: Sequence[Sequence[int]]
) -> np.ndarray:
    """Return the worth of each group less the prediction at the means, shape (n_groups,)."""
    filled = np.stack([worth.filled(row, group) for group in [*groups, []]])
    *values, base = worth.f(filled)
    return np.asarray(values) - base


def published_shapley(worth: PublishedWorth, rows: np.ndarray) -> np.ndarray:
    """Return Shapley values over all orders of the features, shape (n_rows, n_features).

    Each order conditions on its first feature.
    """
    n = rows.shape[1]
    keys = [
        (first, subset)
        for size in range(1, n + 1)
        for subset in combinations(range(n), size)
        for first in subset
    ]
    filled = [worth.filled(row, subset, first) for first, subset in keys for row in rows]
    values = dict(zip(keys, worth.f(np.stack(filled)).reshape(len(keys), -1), strict=True))
    base = worth.f(worth.mean[None])
    found = np.zeros(rows.shape)
    orders = list(permutations(range(n)))
    for order in orders:
        before = base
        for size, feature in enumerate(order, start=1):
            after = values[order[0], tuple(sorted(order[:size]))]
            found[:, feature] += after - before
            before = after
    return found / len(orders)
