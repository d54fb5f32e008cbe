"""What every weighting offers: the mass of any marginal table."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Grid, Subset

__all__ = ["MassTables", "Weighting", "normalised", "outer_product"]

MassTables = dict[Subset, npt.NDArray[np.float64]]

_SMALLEST = 1e-280


class Weighting(ABC):
    """A distribution over the cells of a grid, the measure of the functional ANOVA.

    The tables of one weighting must be margins of one joint mass: an ANOVA refers to one
    distribution of all features.
    """

    name: ClassVar[str]
    needs_rows: ClassVar[bool] = False
    is_product: ClassVar[bool] = False

    @abstractmethod
    def tables(self, grid: Grid, rows: EncodedRows | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of each subset's cells.

        Parameters
        ----------
        grid : Grid
            The cells.
        rows : EncodedRows or None
            The data on that grid.
        subsets : sequence of tuple of int
            The marginal tables wanted.

        Returns
        -------
        dict of tuple of int to ndarray of float64, shape (cells...)
            Tables that sum to one.
        """

    def describe(self) -> str:
        """Return the measure in words, as it stands in a `Decomposition`."""
        return self.name


def normalised(table: npt.NDArray[np.float64], what: str) -> npt.NDArray[np.float64]:
    """Return `table` divided by its sum.

    Masses below 1e-280 of the largest become zero: their products with effects would lose
    digits at the lower end of double precision.

    Raises
    ------
    InvalidInputError
        If an entry is negative or not finite, or all are zero.
    """
    if not np.all(np.isfinite(table)) or np.any(table < 0):
        raise InvalidInputError(
            f"{what} must be finite and not negative; got values from {np.min(table)} to "
            f"{np.max(table)}"
        )
    # Scaled first: sums of very small or very large weights would lose digits or overflow.
    largest = table.max(initial=0.0)
    if largest == 0:
        raise InvalidInputError(f"{what} sum to zero; at least one must be positive")
    scaled = table / largest
    scaled[scaled < _SMALLEST] = 0.0
    return np.asarray(scaled / scaled.sum())


def outer_product(vectors: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Return the joint mass of independent features with these margins."""
    table = np.ones(())
    for vector in vectors:
        table = np.multiply.outer(table, vector)
    return np.asarray(table)
