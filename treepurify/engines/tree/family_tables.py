"""Where the tables of all sets of features of a projection stand in one array."""

from typing import NamedTuple

import numpy as np

from treepurify._kernels.family_tables import add_products, list_parts, sum_entries
from treepurify.typing import Array, Indices, Integers

__all__ = ["Indicators", "TableLayout", "table_layout"]


class TableLayout(NamedTuple):
    """The tables of a family of sets of features, each in C order, one after the other.

    With every set the family holds all its subsets. They stand in front of it.

    Parameters
    ----------
    base : ndarray of int64, shape (n_sets + 1,)
        First entry of each table, and the end of the last.
    features : ndarray of int64, shape (n_sets, most features of a set)
        Positions of the features of each set, -1 behind the last.
    sizes : ndarray of int64, shape (n_sets, most features of a set)
        How many cells each has; 1 behind the last.
    parts : ndarray of int64, shape (n_sets, most features of a set)
        The set without each of its features.
    start : ndarray of int64, shape (n_features + 1,)
        Where the cells of each feature begin in an array of the cells of all.
    """

    base: Integers
    features: Integers
    sizes: Integers
    parts: Integers
    start: Integers

    def cells(self, entries: Indices) -> tuple[Indices, Integers]:
        """Return the set of each entry, and its cell of each of the set's features."""
        owner = np.searchsorted(self.base, entries, side="right") - 1
        rest = entries - self.base[owner]
        cells = np.zeros((len(entries), self.sizes.shape[1]), dtype=np.int64)
        for slot in range(cells.shape[1] - 1, -1, -1):
            rest, cells[:, slot] = np.divmod(rest, self.sizes[owner, slot])
        return owner, cells

    def indicators(self, entries: Indices, margins: tuple[Array, ...]) -> "Indicators":
        """Return the indicators of some entries of the tables."""
        owner, cells = self.cells(entries)
        # Behind the last feature of a set stands the end of the margins, with nothing to ask for.
        flat = np.append(np.concatenate(margins), 1.0)
        mass = flat[self.start[self.features[owner]] + cells].prod(axis=1)
        return Indicators(self, owner, cells, np.asarray(mass), flat)


def table_layout(family: list[tuple[int, ...]], n_cells: tuple[int, ...]) -> TableLayout:
    """Lay out the tables of sets of positions of features, ordered by size."""
    index = {positions: i for i, positions in enumerate(family)}
    shape = len(family), max(1, *map(len, family))
    features, parts = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    sizes = np.ones(shape, dtype=np.int64)
    for i, positions in enumerate(family):
        features[i, : len(positions)] = positions
        sizes[i, : len(positions)] = [n_cells[f] for f in positions]
        parts[i, : len(positions)] = [
            index[positions[:slot] + positions[slot + 1 :]] for slot in range(len(positions))
        ]
    base = np.concatenate([[0], np.cumsum(sizes.prod(axis=1))])
    return TableLayout(base, features, sizes, parts, np.concatenate([[0], np.cumsum(n_cells)]))


class Indicators(NamedTuple):
    """Functions that are one in one cell of a table and zero elsewhere, for independent features.

    Parameters
    ----------
    layout : TableLayout
        The tables.
    owner : ndarray of int64, shape (n,)
        The set of each.
    cells : ndarray of int64, shape (n, most features of a set)
        Its cell of each of the set's features.
    mass : ndarray of float64, shape (n,)
        Mean of each.
    margins : ndarray of float64
        Probability of each cell of each feature, and a one.
    """

    layout: TableLayout
    owner: Indices
    cells: Integers
    mass: Array
    margins: Array

    def add_products(self, gram: Array) -> None:
        """Add the mean products of every two to the upper triangle of a matrix."""
        add_products(*self, gram)

    def sums(self, tables: Array) -> Array:
        """Return the sum of the tables of the set and all its subsets in the cells of each.

        Of tables of shape (n_vectors, n_entries), shape (n_vectors, n).
        """
        sums = np.empty((len(tables), len(self.owner)))
        entries = np.empty((len(self.owner), 1 << self.cells.shape[1]), dtype=np.int64)
        list_parts(self.layout, self.owner, self.cells, entries)
        sum_entries(entries, tables, sums)
        return sums
