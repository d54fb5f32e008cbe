"""Empirical weighting: the share of the rows in each cell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.threads import map_arrays
from treepurify.typing import Array
from treepurify.weights.cell_counts import CountedRows, RowsOnGrid, count_rows
from treepurify.weights.weighting import MassTables, Weighting, normalised

__all__ = ["Empirical"]


@dataclass(frozen=True)
class Empirical(Weighting):
    """The joint distribution of the rows (Lengerich et al. 2020, section 5.2).

    It includes the dependence between features. Sample weights, if given, are used.

    See Also
    --------
    treepurify.weights.Auto : Smooths few rows.
    treepurify.weights.Laplace : Adds mass to every cell.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Empirical().describe()
    'empirical'
    """

    name: ClassVar[str] = "empirical"
    needs_rows: ClassVar[bool] = True

    @property
    def share_of_rows(self) -> float:
        """One: the rows are the whole distribution."""
        return 1.0

    @property
    def counts_are_enough(self) -> bool:
        """True: only the cells of rows count."""
        return True

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        if rows is None:
            raise InvalidInputError('weights="empirical" needs rows: pass X')
        counts = count_rows(grid, rows, subsets)
        # What was counted before is not ours to change; what is new is often large.
        is_own, n_rows = not isinstance(rows, CountedRows), rows.n_rows
        is_counted = isinstance(rows, EncodedRows) and rows.weights is None and n_rows > 0

        def mass(_: Subset, table: Array) -> Array:
            if is_counted or (not is_own and _are_counts(table, n_rows)):
                return np.divide(table, n_rows, out=table if is_own else None)
            return normalised(table, "the weights of the rows", in_place=is_own)

        return map_arrays(mass, counts)


def _are_counts(table: Array, n_rows: int) -> bool:
    """Whether a table holds numbers of rows, whose sum is known."""
    return bool(table.sum() == n_rows > 0) and np.array_equal(table, np.rint(table))
