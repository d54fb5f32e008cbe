"""The projection on coarse cells as least squares: the tables, and the problem."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np

from treepurify.engines.tree.family_tables import TableLayout, table_layout
from treepurify.grids.grid import Subset
from treepurify.typing import Array, Cells, Indices
from treepurify.weights.weighting import outer_product

__all__ = ["CoarseFit", "CoarseProblem", "CoarseTerms", "coarse_terms"]


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
        return table_layout(positions, self.sizes)

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
