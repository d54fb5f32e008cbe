"""Chow-Liu weighting: a tree of tables of pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.coded_rows import binned_rows, rows_in_cells
from treepurify.weights.drawn_levels import Drawing, LevelsWeighting
from treepurify.weights.table_tree import TableTree, fit_table_tree
from treepurify.weights.weighting import MassTables

__all__ = ["ChowLiu"]

_BINS = (4, 8, 16, 32, 64)


@dataclass(frozen=True)
class ChowLiu(LevelsWeighting):
    """A tree of tables of pairs: each feature depends on one other, and through it on the rest.

    Few rows fill the table of two features, not that of all. Of all trees this takes the one whose
    tables foretell best a row that is left out (Chow & Liu 1968, with held-out log-mass in place of
    mutual information), and leaves out pairs that gain nothing by it. Every table is mixed with the
    product of its margins, so that every combination of levels that occur has mass, and keeps the
    margins of the rows. Take it for categories that each depend on few others. Numbers are put in
    bins of equal shares of the rows first, within which nothing depends.

    In `categorical_anova` levels are the model's own, and all masses are in closed form. Elsewhere
    the measure is that of points drawn from the tree with a fixed seed, four or more for each row.

    Parameters
    ----------
    prior_count : float, optional
        How many rows the product of the margins counts for in each table. By default the share,
        table by table, that foretells best a row that is left out, and at least one row.
    bins : int, optional
        Bins of a number; by default 4, 8, 16, 32 or 64, by the same judge.
    n_points : int
        How many points are drawn; see above.

    Examples
    --------
    >>> ChowLiu().describe()
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
        """Return the mass of each subset's cells, with cells as levels."""
        tree = fit_table_tree(rows_in_cells(grid, rows, self.name), self.prior_count)
        return {subset: tree.mass(subset) for subset in subsets}


def _facts(tree: TableTree, columns: Columns) -> dict[str, object]:
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
