"""Chow-Liu weighting: a tree of tables of pairs, along whose edges features depend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.typing import Array, Indices
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.coded_rows import (
    CodedRows,
    PairTable,
    binned_rows,
    dependent_pairs,
    rows_in_cells,
    spread_draws,
)
from treepurify.weights.drawn_levels import Drawing, LevelsWeighting
from treepurify.weights.weighting import MassTables

__all__ = ["ChowLiu", "fit_table_tree"]

_BINS = (4, 8, 16, 32, 64)

# In nats, over all rows: less may be chance, since the best of several shares is taken.
_LEAST_GAIN = 2.0

_Factor = tuple[tuple[int, ...], Array]


@dataclass(frozen=True)
class ChowLiu(LevelsWeighting):
    """A tree of tables of pairs: each feature depends on others only through one of them.

    A few rows can fill the tables of pairs, but not the joint table of all features. Among all
    trees, this uses the one with the best leave-one-out log-likelihood (Chow & Liu 1968, with that
    in place of mutual information), and leaves out pairs that do not improve it. Every table is
    mixed with the product of its margins, so that every combination of levels that occur has mass;
    margins remain those of the rows. Use it for categories that each depend on few others. Numbers
    are first divided into bins of equal shares of the rows, within which features count as
    independent.

    `categorical_anova` uses the levels of the model, and all masses in closed form. Other engines
    use points drawn from the tree with a fixed seed, at least four for each row.

    Parameters
    ----------
    prior_count : float, optional
        Weight of the product of the margins, in rows in each table. By default the weight with
        the best leave-one-out likelihood, table by table, and at least one row.
    bins : int, optional
        Number of bins of a number; by default 4, 8, 16, 32 or 64, by the same criterion.
    n_points : int
        Number of points that are drawn; see above.

    See Also
    --------
    treepurify.weights.LogLinear : From the tables of all pairs.
    treepurify.weights.Independent : Without dependence.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.ChowLiu().describe()
    'chow-liu'
    """

    name: ClassVar[str] = "chow-liu"

    def _fit(self, columns: Columns, row_weights: RowWeights, memory_budget: int) -> Drawing:
        del memory_budget
        binned = {
            bins: binned_rows(columns, row_weights, bins)
            for bins in (_BINS if self.bins is None else (self.bins,))
        }
        trees = {bins: fit_table_tree(rows, self.prior_count) for bins, rows in binned.items()}
        bins = max(trees, key=lambda bins: trees[bins].gain)
        facts = {"bins": bins, **_facts(trees[bins], columns)}
        return Drawing(binned[bins], trees[bins].draw, facts)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset; each cell counts as one level."""
        tree = fit_table_tree(rows_in_cells(grid, rows, self.name), self.prior_count)
        return {subset: tree.mass(subset) for subset in subsets}


@dataclass(frozen=True, eq=False)
class _TableTree:
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
        """Leave-one-out log-likelihood above that of independent features, in nats."""
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


def _facts(tree: _TableTree, columns: Columns) -> dict[str, object]:
    names = [spec.name for spec in columns.features]
    edges = [
        {
            "features": [names[j] for j in edge.pair],
            "gain": edge.gain,
            "share_apart": edge.share_apart,
        }
        for edge in tree.edges
    ]
    return {"edges": edges, "gain": tree.gain}


def fit_table_tree(rows: CodedRows, prior_count: float | None) -> _TableTree:
    """Return the tree of tables of best leave-one-out likelihood (Chow & Liu 1968).

    Chow and Liu's tree has the largest sum of mutual informations of the rows. Here it is that of
    leave-one-out log-likelihoods above independence, which noise does not raise. Pairs that gain
    less than two nats over all rows are left out, so that it may be a forest.
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
    return _TableTree(margins, tuple(_from_roots(kept, len(margins))))


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
