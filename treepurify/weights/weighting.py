"""What every weighting offers: the mass of any marginal table, and how it can be used."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights, within_range
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid

__all__ = ["FittedMeasure", "MassTables", "Weighting", "normalised", "outer_product"]

MassTables = dict[Subset, Array]

_SMALLEST = 1e-280


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
    plenty : int, optional
        Effective number of rows from which on `fitted` need not see them; None if it always must.

    See Also
    --------
    treepurify.purify : Takes one as `weights`.
    treepurify.weights.Auto : The default.
    """

    name: ClassVar[str]
    needs_rows: ClassVar[bool] = False
    is_product: ClassVar[bool] = False
    plenty: ClassVar[int | None] = None

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
        """Whether `tables` also takes rows that were counted, in batches or by feature."""
        return not self.needs_rows

    def fitted(
        self, columns: Columns | None, row_weights: RowWeights, memory_budget: int
    ) -> "FittedMeasure":
        """Return the weighting fitted to the rows; by default the rows are not changed.

        Parameters
        ----------
        columns : Columns, optional
            The rows; None where there are none, or more than `plenty`.
        row_weights : ndarray of float64, shape (n_rows,), optional
            Their weights; None for equal weights.
        memory_budget : int
            Bytes that other rows may take.
        """
        return FittedMeasure(self, columns, row_weights)


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


def normalised(table: Array, what: str) -> Array:
    """Return `table` divided by its sum.

    Masses below 1e-280 of the largest become zero: their products with effects would lose
    digits at the lower end of double precision.

    Raises
    ------
    InvalidInputError
        If an entry is negative or not finite, or all are zero.
    """
    # A comparison with NaN is false.
    if not (table.min(initial=np.inf) >= 0 and table.max(initial=0.0) < np.inf):
        raise InvalidInputError(
            f"{what} must be finite and not negative; got values from {np.min(table)} to "
            f"{np.max(table)}"
        )
    if not table.any():
        raise InvalidInputError(f"{what} sum to zero; at least one must be positive")
    scaled = within_range(table)
    scaled[scaled < _SMALLEST] = 0.0
    scaled /= scaled.sum()
    return scaled


def outer_product(vectors: Sequence[Array]) -> Array:
    """Return the joint mass of independent features with these margins."""
    table = np.ones(())
    for vector in vectors:
        table = np.multiply.outer(table, vector)
    return np.asarray(table)
