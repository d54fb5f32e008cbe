"""The cells of main effects on rows, and neighbouring cells in groups of about equal mass."""

from dataclasses import dataclass

import numpy as np

from treepurify.components import locate_cells
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis, group_neighbours
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices


@dataclass(frozen=True, eq=False)
class LocatedRows:
    """The cell of each row along one feature.

    Parameters
    ----------
    axis : FeatureAxis
        The cells of the main effect of the feature.
    cells : ndarray of int, shape (n_rows,)
        The cell of each row.
    """

    axis: FeatureAxis
    cells: Indices

    def mass(self, shares: Array) -> Array:
        """Return the share of the rows in each cell, shape (n_cells,)."""
        counted = np.bincount(self.cells, shares, self.axis.n_cells)
        return np.asarray(counted, dtype=np.float64)


def locate_main_effects(d: Decomposition, columns: Columns, what: str) -> dict[int, LocatedRows]:
    """Return the cells of rows along each feature whose main effect is a table.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    columns : Columns
        The rows.
    what : str
        What needs them, for the message.

    Raises
    ------
    InvalidInputError
        If no main effect is a table, or a value has no cell.
    """
    located = {
        subset[0]: LocatedRows(table.axes[0], locate_cells(columns, subset[0], table.axes[0]))
        for subset, table in d.tensor_components().items()
        if len(subset) == 1
    }
    if not located:
        raise InvalidInputError(
            f"{what} needs main effects that are tables, and this decomposition has none"
        )
    return located


def group_cells(axis: FeatureAxis, mass: Array, most: int) -> Indices:
    """Return the group of each cell along one axis; categories and special cells stay apart.

    Parameters
    ----------
    axis : FeatureAxis
        The axis.
    mass : ndarray of float64, shape (n_cells,)
        Mass of its cells.
    most : int
        Most groups of intervals.
    """
    if axis.is_categorical or axis.n_regular <= most:
        return np.arange(axis.n_cells, dtype=np.intp)
    regular = group_neighbours(mass[: axis.n_regular], most)
    special = regular.max() + 1 + np.arange(axis.n_cells - axis.n_regular)
    return np.concatenate([regular, special]).astype(np.intp)
