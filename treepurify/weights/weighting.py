"""What every weighting offers: the mass of any marginal table, and how it can be used."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np

from treepurify.budget import rounded_count
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.typing import Array, Indices
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.points import (
    MeasurePoints,
    mixed_points,
    numbers_of_features,
    points_in_cells,
)

__all__ = ["FittedMeasure", "MassTables", "Weighting", "normalised", "outer_product"]

MassTables = dict[Subset, Array]

_SMALLEST = 1e-280
_MOST_CELLS_DRAWN_FROM = 1 << 22


class Weighting(ABC):
    """A distribution of the features, over the cells of a grid.

    A cell is a combination of one interval or category of each feature. The tables of a weighting
    must be margins of one joint distribution, because a functional ANOVA refers to one
    distribution of all features. A subclass needs a `name` and `tables`; the other
    members declare how an engine may use it.

    Attributes
    ----------
    name : str
        The name of the distribution, one word.
    needs_rows : bool
        Whether rows are required.
    is_product : bool
        Whether features are independent, which allows the closed form for deep trees.

    See Also
    --------
    treepurify.purify : Takes one as `weights`.
    treepurify.weights.Auto : The default.
    """

    name: ClassVar[str]
    needs_rows: ClassVar[bool] = False
    is_product: ClassVar[bool] = False

    @abstractmethod
    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset.

        Parameters
        ----------
        grid : Grid
            The cells.
        rows : EncodedRows, CountedRows or None
            The data on that grid, row by row or counted; see `counts_are_enough`.
        subsets : sequence of tuple of int
            The subsets whose tables are returned.

        Returns
        -------
        dict of tuple of int to ndarray of float64, shape (cells...)
            Tables that sum to one.
        """

    def describe(self) -> str:
        """Return the distribution in words, as in `Decomposition.measure`."""
        return self.name

    @property
    def share_of_rows(self) -> float | None:
        """Share of the rows, if the distribution is a mixture of them with independent features.

        The other part of the mixture is `beside_rows`. None if the distribution is not such a
        mixture. Deep trees can be projected under one.
        """
        return None

    @property
    def beside_rows(self) -> "Weighting":
        """The distribution of independent features with which the rows are mixed.

        It is required only if `share_of_rows` is a number.
        """
        raise NotImplementedError(
            f"{type(self).__name__} defines share_of_rows, so it must define beside_rows as well"
        )

    @property
    def counts_are_enough(self) -> bool:
        """Whether counts of rows per cell are enough (values within a cell do not matter).

        If so, `tables` also takes rows that `count_rows` counted batch by batch.
        """
        return not self.needs_rows

    @property
    def needs_values(self) -> bool:
        """Whether `tables` works only after `fitted`, because it needs the values of the rows."""
        return False

    @property
    def plenty(self) -> int | None:
        """Effective number of rows from which on the rows are used unchanged; None if never."""
        return None

    def of_many_rows(self) -> "FittedMeasure":
        """Return the weighting to use with at least `plenty` rows, when counts per cell are enough.

        It is required only if `plenty` is a number.
        """
        raise NotImplementedError(f"{type(self).__name__} has plenty, so it needs of_many_rows")

    def without_rows(self) -> "Weighting":
        """Return the weighting to use if the bin weights of an EBM replace the rows."""
        return self

    def fitted(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> "FittedMeasure":
        """Return the weighting fitted to the rows; by default the rows are not changed.

        Parameters
        ----------
        columns : Columns
            The rows.
        row_weights : ndarray of float64, shape (n_rows,), optional
            Their weights; None for equal weights.
        memory_budget : int
            Bytes that other rows may take.
        """
        return FittedMeasure(self, columns, row_weights)

    def sample_points(
        self, rows: MeasurePoints, grid: Grid, n_points: int, rng: np.random.Generator
    ) -> MeasurePoints:
        """Return points drawn from the distribution, at which a function can be called.

        A distribution of rows returns these rows. Otherwise cells are drawn, separately for each
        feature if features are independent, else from the joint table of all features, and then
        values of the rows within each cell. Points do not depend on the order of the rows.

        Parameters
        ----------
        rows : MeasurePoints
            The rows, with their cells and weights.
        grid : Grid
            The cells.
        n_points : int
            Number of points to draw.
        rng : Generator
            Generator of the draws.

        Raises
        ------
        InvalidInputError
            If the distribution is not one from which points can be drawn.
        """
        share = self.share_of_rows
        if share is not None:
            if share == 1.0:
                return rows
            others = self.beside_rows.sample_points(rows, grid, n_points, rng)
            return mixed_points(rows, others, share)
        sizes = [axis.n_cells for axis in grid.axes]
        if self.is_product:
            margins = self.tables(grid, rows.encoded, [(j,) for j in range(len(sizes))])
            numbers = numbers_of_features(rows.columns.features, n_points, rng)
            # One feature after the other, as the points within their cells are drawn.
            cells: Iterable[Indices] = (
                _drawn_cells(margins[(j,)], own) for j, own in enumerate(numbers)
            )
            return points_in_cells(cells, rows, grid, numbers)
        split = tuple(j for j, size in enumerate(sizes) if size > 1)
        n_cells = prod(sizes)
        if n_cells > _MOST_CELLS_DRAWN_FROM:
            raise InvalidInputError(
                f"points cannot be drawn from weights={self.describe()!r}: the features have "
                f"{rounded_count(n_cells)} combinations of values, and the limit is "
                f'{_MOST_CELLS_DRAWN_FROM}; use "empirical", "laplace", "independent" or '
                '"uniform", or fewer bins'
            )
        joint = self.tables(grid, rows.encoded, [split])[split]
        drawn = rng.choice(joint.size, size=n_points, p=joint.ravel())
        numbers = numbers_of_features(rows.columns.features, n_points, rng)
        cell_of = dict(zip(split, np.unravel_index(drawn, joint.shape), strict=True))
        nowhere = np.zeros(n_points, dtype=np.intp)
        cells = [cell_of.get(j, nowhere) for j in range(len(sizes))]
        return points_in_cells(cells, rows, grid, numbers)


@dataclass(frozen=True, eq=False)
class FittedMeasure:
    """What a weighting makes of the rows.

    Parameters
    ----------
    weighting : Weighting
        The weighting that holds from here on.
    columns : Columns, optional
        The rows that it refers to; None where there are none.
    row_weights : ndarray of float64, shape (n_rows,), optional
        Their weights; None for equal weights.
    facts : mapping of str to object
        What was chosen and why, for `Decomposition.diagnostics`.
    note : str
        What a reader of the certificate must know.
    copies : int
        How often each of the rows that were given is among `columns`, moved: all rows come once,
        then all of them again.
    """

    weighting: Weighting
    columns: Columns | None
    row_weights: RowWeights
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    copies: int = 1


def normalised(table: Array, what: str, *, in_place: bool = False) -> Array:
    """Return `table` divided by its sum, which replaces it if requested.

    Masses below 1e-280 of the largest become zero: their products with effects would lose
    digits at the lower end of double precision.

    Raises
    ------
    InvalidInputError
        If an entry is negative or not finite, or all are zero.
    """
    # A comparison with NaN is false.
    lowest, largest = table.min(initial=np.inf), table.max(initial=0.0)
    if not (lowest >= 0 and largest < np.inf):
        raise InvalidInputError(
            f"{what} must be finite and not negative; got values from {np.min(table)} to "
            f"{np.max(table)}"
        )
    # Scaled first: sums of very small or very large weights would lose digits or overflow.
    if largest == 0:
        raise InvalidInputError(f"{what} sum to zero; at least one must be positive")
    scaled = np.divide(table, largest, out=table if in_place else None)
    np.copyto(scaled, 0.0, where=scaled < _SMALLEST)
    scaled /= scaled.sum()
    return np.asarray(scaled)


def _drawn_cells(margin: Array, numbers: Array) -> Indices:
    """Return the cells in which the distribution function reaches these numbers.

    Each number becomes where it stands in its cell, in place.
    """
    ends = np.concatenate([[0.0], margin.cumsum()])
    numbers *= ends[-1]
    cell = np.searchsorted(ends[1:], numbers, side="right")
    cell = np.minimum(cell, np.flatnonzero(margin)[-1])
    numbers -= ends[cell]
    numbers /= margin[cell]
    return np.asarray(cell, dtype=np.intp)


def outer_product(vectors: Sequence[Array]) -> Array:
    """Return the joint mass of independent features with these margins."""
    table = np.ones(())
    for vector in vectors:
        table = np.multiply.outer(table, vector)
    return np.asarray(table)
