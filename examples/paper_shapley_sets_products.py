"""Groups of features that a function multiplies: finer than groups that it adds up over.

Part of ``paper_shapley_sets.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from treepurify.errors import InvalidInputError
from treepurify.results import ShapleySets

__all__ = ["ProductGroup", "product_groups"]

Array = npt.NDArray[np.float64]
Subset = tuple[int, ...]

_TOLERANCE = 1e-8
# Below this part of the values, a mixed difference is too small to divide by.
_SMALL = 1e-6
# Constants that differ by less, relative to the largest value, are one.
_SAME_CONSTANT = 1e-6


@dataclass(frozen=True)
class ProductGroup:
    """A group of features, as a product of functions of fewer of them where it is one.

    Parameters
    ----------
    features : tuple of int
        The group.
    factors : tuple of tuple of int
        The features of each factor; the whole group where it is no product.
    constant : float
        The constant c in ``f(x) = c + f_1(x_1) f_2(x_2) ...``, the features outside the group
        being those of the first row; NaN where there is no product.
    residual : float
        Largest deviation from a product over all probes, relative to the squared values.
    """

    features: Subset
    factors: tuple[Subset, ...]
    constant: float
    residual: float

    @property
    def is_product(self) -> bool:
        """Whether there is more than one factor."""
        return len(self.factors) > 1


def product_groups(
    sets: ShapleySets,
    X: Any,
    *,
    probes: int = 100,
    tolerance: float = _TOLERANCE,
    output: int = 0,
    seed: int = 0,
) -> tuple[ProductGroup, ...]:
    r"""Split each group that cannot be separated by addition into factors, where it is a product.

    Shapley Sets leave ``x1 x2 x3`` in one group, which says little (Sivill and Flach 2023,
    section 7). If a group is a constant plus a product over parts, its values over two values
    of a feature and two of another are a table with

    .. math:: (f_{11} - c)(f_{22} - c) = (f_{12} - c)(f_{21} - c),

    so that every table gives the constant,
    ``c = (f11 f22 - f12 f21) / (f11 + f22 - f12 - f21)``, and it is the same in all tables if and
    only if the two features are in different factors. Factors are the connected components of the
    pairs for which it is not. The factors are then tested against each other as a whole.

    Parameters
    ----------
    sets : ShapleySets
        The groups and the function. Where it does not add up over the groups, what is found
        holds for the other features at the first row of `X`.
    X : array_like or table of shape (n_rows, n_features)
        Rows that the probes are drawn from.
    probes : int
        Tables for each pair of features, and for each factor with all others.
    tolerance : float
        Largest deviation from a product that counts as rounding, relative to the squared sum of
        absolute values. Trees learn products only roughly: this is for functions.
    output : int
        The output, by position.
    seed : int
        Seed of the probes.

    Returns
    -------
    tuple of ProductGroup
        One per group of two and more features, in the order of `sets.groups`. A factor that no
        probe shows to be inseparable may be split; more probes show more.

    Raises
    ------
    InvalidInputError
        If rows or options cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import treepurify as tp
    >>> from examples.paper_shapley_sets_products import product_groups
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> def f(X):
    ...     return X[:, 0] + np.exp(X[:, 1]) * np.sin(X[:, 2] + X[:, 3])
    >>> sets = tp.shapley_sets(f, X)
    >>> sets.groups
    ((0,), (1, 2, 3))
    >>> product_groups(sets, X)[0].factors
    ((1,), (2, 3))
    """
    function = sets.value_function.function
    rows = function.read(X)
    if len(rows) < 2:
        raise InvalidInputError(
            f"X must have two rows at least to exchange values, got {len(rows)}"
        )
    rng = np.random.default_rng(seed)
    prober = _Prober(function, rows, probes, output, rng)
    return tuple(_split(prober, group, tolerance) for group in sets.groups if len(group) > 1)


@dataclass(frozen=True, eq=False)
class _Prober:
    """Draws tables of two by two values of a function."""

    function: Any
    rows: Array
    probes: int
    output: int
    rng: np.random.Generator

    def tables(self, first: Sequence[int], second: Sequence[int], group: Subset) -> Array:
        """Return tables over two sets of features, shape (4, probes): f11, f12, f21, f22.

        The group's other features are drawn anew for each table; those outside it stay.
        """
        drawn = self.rng.integers(len(self.rows), size=(3, self.probes))
        here, there, rest = (self.rows[own] for own in drawn)
        base = np.tile(self.rows[0], (self.probes, 1))
        base[:, list(group)] = rest[:, list(group)]
        corners = []
        for of_first in (here, there):
            for of_second in (here, there):
                corner = base.copy()
                corner[:, list(first)] = of_first[:, list(first)]
                corner[:, list(second)] = of_second[:, list(second)]
                corners.append(corner)
        values = self.function(np.concatenate(corners))[:, self.output]
        return values.reshape(4, self.probes)


def _split(prober: _Prober, group: Subset, tolerance: float) -> ProductGroup:
    tables = {pair: prober.tables([pair[0]], [pair[1]], group) for pair in combinations(group, 2)}
    best = ProductGroup(group, (group,), np.nan, np.inf)
    for constant in _candidates(list(tables.values()), len(group)):
        joined = [p for p, own in tables.items() if _deviation(own, constant) > tolerance]
        label = {feature: k for k, feature in enumerate(group)}
        edges = [(label[i], label[j]) for i, j in joined]
        first, second = np.array(edges, dtype=np.intp).reshape(-1, 2).T
        graph = coo_array((np.ones(len(first)), (first, second)), shape=(len(group),) * 2)
        count, part = connected_components(graph, directed=False)
        factors = tuple(tuple(np.array(group)[part == k].tolist()) for k in range(count))
        if len(factors) <= len(best.factors):
            continue
        deviations = [
            _deviation(prober.tables(own, [j for j in group if j not in own], group), constant)
            for own in factors
        ]
        if max(deviations) <= tolerance:
            best = ProductGroup(group, factors, float(constant), float(max(deviations)))
    return best


def _mixed_difference(tables: Array) -> tuple[Array, Array]:
    """Return the mixed difference of each table, and the scale of its values."""
    return tables[0] - tables[1] - tables[2] + tables[3], np.abs(tables).sum(axis=0)


def _candidates(tables: list[Array], n_features: int) -> list[float]:
    """Return the constants that at least ``n_features - 1`` pairs imply.

    Two factors of a and n - a features have a (n - a) pairs between them, which is no less.
    """
    implied = sorted(found for own in tables if (found := _constant(own)) is not None)
    width = _SAME_CONSTANT * max((np.abs(own).max() for own in tables), default=0.0)
    clusters: list[list[tuple[float, float]]] = []
    for constant, condition in implied:
        if clusters and constant - clusters[-1][-1][0] <= width:
            clusters[-1].append((constant, condition))
        else:
            clusters.append([(constant, condition)])
    return [
        max(cluster, key=lambda found: found[1])[0]
        for cluster in clusters
        if len(cluster) >= n_features - 1
    ]


def _constant(tables: Array) -> tuple[float, float] | None:
    """Return the constant that the table with the largest mixed difference implies, and how well.

    None where nothing mixes.
    """
    mixed, scale = _mixed_difference(tables)
    condition = np.divide(np.abs(mixed), scale, out=np.zeros_like(scale), where=scale > 0)
    best = int(np.argmax(condition))
    if condition[best] <= _SMALL:
        return None
    f11, f12, f21, f22 = tables[:, best]
    return float((f11 * f22 - f12 * f21) / mixed[best]), float(condition[best])


def _deviation(tables: Array, constant: float) -> float:
    """Return the largest deviation of tables from a product; infinite where nothing mixes."""
    mixed, scale = _mixed_difference(tables)
    if np.all(np.abs(mixed) <= _SMALL * scale):
        return np.inf
    f11, f12, f21, f22 = tables - constant
    size = (scale + abs(constant)) ** 2
    off = np.abs(f11 * f22 - f12 * f21)
    return float(np.max(np.divide(off, size, out=np.zeros_like(off), where=size > 0)))
