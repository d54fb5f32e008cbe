"""A tree of tables of pairs: the joint mass under which features depend along its edges only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treepurify.grids.grid import Subset
from treepurify.typing import Array, Indices
from treepurify.weights.coded_rows import CodedRows, PairTable, dependent_pairs, spread_draws

__all__ = ["TableTree", "fit_table_tree"]


# In nats, over all rows: less may be chance, since the best of several shares is taken.
_LEAST_GAIN = 2.0

_Factor = tuple[tuple[int, ...], Array]


@dataclass(frozen=True, eq=False)
class TableTree:
    """The mass of a forest of tables of pairs.

    Parameters
    ----------
    margins : tuple of ndarray of float64
        Mass of the levels of each feature.
    edges : tuple of PairTable
        The tables, whose margins are these; they form no circle. Each comes after the one that
        leads to its first feature, which is its parent.
    """

    margins: tuple[Array, ...]
    edges: tuple[PairTable, ...]

    @property
    def gain(self) -> float:
        """Held-out log-mass above that of independent features, in nats."""
        return sum(edge.gain for edge in self.edges)

    def mass(self, subset: Subset) -> Array:
        """Return the mass of the cells of some features: the others are summed out one by one."""
        edges = _edges_between(self.edges, subset)
        children = {edge.pair[1] for edge in edges}
        features = set(subset).union(*(edge.pair for edge in edges))
        factors: list[_Factor] = [((j,), self.margins[j]) for j in sorted(features - children)]
        factors += [(edge.pair, self._given_parent(edge)) for edge in edges]
        for edge in reversed(edges):
            factors = _summed_out(factors, edge.pair[1], subset)
        for j in sorted(features - children):
            factors = _summed_out(factors, j, subset)
        return _product(factors, tuple(subset))

    def _given_parent(self, edge: PairTable) -> Array:
        margin = self.margins[edge.pair[0]][:, None]
        return np.divide(edge.mass, margin, out=np.zeros_like(edge.mass), where=margin > 0)

    def draw(self, n_points: int, rng: np.random.Generator) -> list[Indices]:
        """Return the level of each feature of points that are drawn from parents to children."""
        parents = {edge.pair[1]: edge for edge in self.edges}
        levels = [np.zeros(n_points, dtype=np.intp) for _ in self.margins]
        for j, margin in enumerate(self.margins):
            if j not in parents:
                levels[j] = spread_draws(margin, n_points, rng)
        for edge in self.edges:
            parent, child = edge.pair
            given = self._given_parent(edge)
            for level in range(len(given)):
                places = np.flatnonzero(levels[parent] == level)
                if len(places):
                    levels[child][places] = spread_draws(given[level], len(places), rng)
        return levels


def fit_table_tree(rows: CodedRows, prior_count: float | None) -> TableTree:
    """Return the tree of tables that foretells best a row that is left out (Chow & Liu 1968).

    Chow and Liu's tree has the largest sum of mutual informations of the rows. Here it is that of
    held-out log-masses above independence, which noise does not raise. Pairs that gain less than
    two nats over all rows are left out, so that it may be a forest.
    """
    tables = dependent_pairs(rows, prior_count, one_share=False)
    least = _LEAST_GAIN / rows.effective_rows
    kept: list[PairTable] = []
    group = list(range(len(rows.sizes)))
    for table in sorted(tables, key=lambda table: (-table.gain, table.pair)):
        first, second = (group[j] for j in table.pair)
        if table.gain > least and first != second:
            kept.append(table)
            group = [first if g == second else g for g in group]
    margins = tuple(rows.margin(j) for j in range(len(rows.sizes)))
    return TableTree(margins, tuple(_from_roots(kept, len(margins))))


def _from_roots(tables: list[PairTable], n_features: int) -> list[PairTable]:
    """Return the tables from parents to children, each with its parent first."""
    ordered: list[PairTable] = []
    reached: set[int] = set()
    for root in range(n_features):
        if root in reached:
            continue
        waiting = [root]
        reached.add(root)
        while waiting:
            parent = waiting.pop(0)
            for table in tables:
                if parent not in table.pair:
                    continue
                child = table.pair[1] if table.pair[0] == parent else table.pair[0]
                if child in reached:
                    continue
                reached.add(child)
                waiting.append(child)
                mass = table.mass if table.pair[0] == parent else table.mass.T
                ordered.append(PairTable((parent, child), mass, table.share_apart, table.gain))
    return ordered


def _edges_between(edges: Sequence[PairTable], subset: Subset) -> list[PairTable]:
    """Return the edges on the paths between the features of a subset."""
    kept = list(edges)
    while True:
        ends = [j for edge in kept for j in edge.pair]
        inner = [edge for edge in kept if all(ends.count(j) > 1 or j in subset for j in edge.pair)]
        if len(inner) == len(kept):
            return kept
        kept = inner


def _summed_out(factors: list[_Factor], feature: int, subset: Subset) -> list[_Factor]:
    """Return the factors without a feature, unless it is wanted."""
    if feature in subset:
        return factors
    with_it = [factor for factor in factors if feature in factor[0]]
    others = tuple(sorted({j for features, _ in with_it for j in features} - {feature}))
    without = [factor for factor in factors if feature not in factor[0]]
    return [*without, (others, _product(with_it, others))]


def _product(factors: list[_Factor], features: tuple[int, ...]) -> Array:
    """Return the product of factors, summed over all but some features."""
    letter = {j: k for k, j in enumerate(sorted({j for js, _ in factors for j in js}))}
    operands: list[object] = []
    for of_factor, table in factors:
        operands += [table, [letter[j] for j in of_factor]]
    return np.asarray(np.einsum(*operands, [letter[j] for j in features], optimize="greedy"))  # type: ignore[call-overload]
