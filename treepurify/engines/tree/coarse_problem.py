"""The projection on coarse cells as least squares: its tables, in one array, and the problem."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from treepurify._kernels.family_tables import add_products, list_parts, sum_entries
from treepurify.grids.grid import Subset
from treepurify.typing import Array, Cells, Indices, Integers
from treepurify.weights.weighting import outer_product

__all__ = ["CoarseFit", "CoarseProblem", "CoarseTerms", "Indicators", "TableLayout", "coarse_terms"]


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


@dataclass(frozen=True, eq=False)
class CoarseTerms:
    """Tables of one and of two features over coarse cells.

    Parameters
    ----------
    subsets : tuple of tuple of int
        Features of each table, none contained in another.
    family : tuple of tuple of int
        These sets and all their subsets, the empty one included, by size, then by feature.
    coarse_cells : dict of int to ndarray of int
        For each feature, in increasing order, the coarse cell of each of its cells.
    """

    subsets: tuple[Subset, ...]
    family: tuple[Subset, ...]
    coarse_cells: dict[int, Indices]

    @cached_property
    def position(self) -> dict[int, int]:
        """The position of each feature among them."""
        return {j: i for i, j in enumerate(self.coarse_cells)}

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many coarse cells each feature has."""
        return tuple(int(cells.max()) + 1 for cells in self.coarse_cells.values())

    @cached_property
    def layout(self) -> TableLayout:
        """Where the tables of the family stand in one array that holds them all."""
        positions = [tuple(self.position[j] for j in subset) for subset in self.family]
        return _table_layout(positions, self.sizes)

    def family_tables(self, flat: Array) -> dict[Subset, Array]:
        """Return views of the tables of the family, of shape (cells..., n_outputs)."""
        return {
            subset: flat[first:last].reshape(*(self.sizes[self.position[j]] for j in subset), -1)
            for subset, (first, last) in zip(
                self.family, pairwise(self.layout.base.tolist()), strict=True
            )
        }

    def row_cells(self, codes: Cells) -> Cells:
        """Return the coarse cell of each row along each feature, shape (n_rows, n_features)."""
        largest = max(self.sizes)
        dtype = np.uint8 if largest <= 256 else np.uint16 if largest <= 65536 else np.uint32
        cells = np.empty((codes.shape[1], len(self.sizes)), dtype=dtype)
        for i, (j, coarse) in enumerate(self.coarse_cells.items()):
            cells[:, i] = coarse.astype(dtype)[codes[j]]
        return cells


def coarse_terms(coarse_cells: dict[int, Indices], subsets: Sequence[Subset]) -> CoarseTerms:
    """Return the tables of these sets of features; see `CoarseTerms`."""
    family = {part for s in subsets for size in range(len(s) + 1) for part in combinations(s, size)}
    ordered = tuple(sorted(family, key=lambda subset: (len(subset), subset)))
    return CoarseTerms(tuple(subsets), ordered, coarse_cells)


@dataclass(frozen=True, eq=False)
class CoarseProblem:
    """Fit a model by a sum of tables over coarse cells, in weighted least squares.

    Of all sums that fit equally well, the one of least norm is wanted: least mean square where
    features keep their margins and are independent. That norm is the same for all ways of
    writing a function as a sum of tables, whatever the order of rows and features.

    Parameters
    ----------
    terms : CoarseTerms
        The tables.
    cells : ndarray of int, shape (n_rows, n_features)
        Cell of each row along each feature; see `CoarseTerms.row_cells`.
    target : ndarray of float64, shape (n_rows, n_outputs)
        Margin of the rows, less its mean.
    weights : ndarray of float64, shape (n_rows,)
        Mass of each row; they sum to one.
    """

    terms: CoarseTerms
    cells: Cells
    target: Array
    weights: Array

    @cached_property
    def margins(self) -> tuple[Array, ...]:
        """The mass of the cells of each feature."""
        return tuple(
            np.bincount(self.cells[:, i], self.weights, size).astype(np.float64)
            for i, size in enumerate(self.terms.sizes)
        )

    @cached_property
    def masses(self) -> Array:
        """The probability of each cell of the family's tables where features are independent."""
        held = [[self.margins[self.terms.position[j]] for j in s] for s in self.terms.family]
        return np.concatenate([outer_product(margins) for margins in held], axis=None)


@dataclass(frozen=True, eq=False)
class CoarseFit:
    """The projection on coarse cells.

    Parameters
    ----------
    tables : dict of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        Tables whose sum is the projection, less the mean of the margin.
    undetermined : int
        Directions, apart from cells without rows, in which the rows do not determine the tables.
    error : float
        Estimated norm of the error of the tables.
    """

    tables: dict[Subset, Array]
    undetermined: int
    error: float


def _table_layout(family: list[tuple[int, ...]], n_cells: tuple[int, ...]) -> TableLayout:
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
