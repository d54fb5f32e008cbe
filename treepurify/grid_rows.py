"""The rows of a measure in the cells of components: all of them, or a sample of batches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import TensorComponent
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset, place_rows
from treepurify.moments import MeasureRows
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import RowStream
from treepurify.rows.stream_sample import sample_stream
from treepurify.typing import Array

__all__ = [
    "GRID_SEED",
    "LOOKED_ROWS",
    "MOST_GRID_ROWS",
    "Codes",
    "GridRows",
    "cells_of_columns",
    "rows_on_grids",
    "weights_in_cells",
]

MOST_GRID_ROWS = 100_000
"""Most rows that are drawn from batches where the cells of single rows are needed."""
LOOKED_ROWS = 1 << 14
"""Most that are drawn where a look is enough: a larger sample would cost more than counting."""
GRID_SEED = 0
"""Seed of these draws."""

Codes = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class GridRows:
    """Rows in the cells of each order.

    Parameters
    ----------
    by_order : mapping of int to EncodedRows
        The rows on the grid of each order; larger orders share the grid of the largest.
    words : str
        How many rows of how many they are; empty for all.
    """

    by_order: Mapping[int, EncodedRows]
    words: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._first.n_rows

    @property
    def weights(self) -> Array | None:
        """Weight of each row, shape (n_rows,); None for equal weights."""
        return self._first.weights

    @property
    def shares(self) -> Array:
        """Share of each row in all of them, shape (n_rows,)."""
        return self._first.shares

    @property
    def finest(self) -> Codes:
        """Cells on the grid of the largest order, shape (n_features, n_rows)."""
        return self.by_order[max(self.by_order)].codes

    def cells(self, features: Subset) -> Codes:
        """Return the cell of each row along some features, on the grid of terms of their number."""
        of_order = self.by_order.get(len(features), self.by_order[max(self.by_order)])
        return np.asarray(of_order.codes[list(features)])

    @property
    def _first(self) -> EncodedRows:
        return next(iter(self.by_order.values()))


def rows_on_grids(
    rows: MeasureRows, components: Iterable[TensorComponent], most: int = MOST_GRID_ROWS
) -> GridRows | None:
    """Return rows in the cells of components; of batches a sample of at most `most`.

    None where no component is a table.

    Raises
    ------
    InvalidInputError
        If rows in batches cannot be read.
    MemoryBudgetError
        If a sample of them would not fit.
    """
    if not isinstance(rows, RowStream):
        return GridRows(rows) if rows else None
    axes: dict[int, dict[int, FeatureAxis]] = {}
    for component in components:
        of_order = axes.setdefault(len(component.features), {})
        of_order |= dict(zip(component.features, component.axes, strict=True))
    if not axes:
        return None
    report = progress_report(rows.progress)
    sample = sample_stream(rows, most, GRID_SEED, DEFAULT_BUDGET, report)
    n_sampled = sample.columns.n_rows
    words = "" if n_sampled == sample.n_rows else f"a sample of {n_sampled} of {sample.n_rows} rows"
    encoded = {
        size: EncodedRows(cells_of_columns(sample.columns, of_order), sample.weights)
        for size, of_order in sorted(axes.items())
    }
    return GridRows(encoded, words)


def cells_of_columns(columns: Columns, axes: Mapping[int, FeatureAxis]) -> Codes:
    """Return the cell of each row along some axes; rows are in the first cell of all others."""
    placed = place_rows(columns, [*axes], [*axes.values()])
    codes = np.zeros((len(columns.features), columns.n_rows), dtype=placed.dtype)
    codes[[*axes]] = placed
    return codes


def weights_in_cells(axes: Sequence[FeatureAxis], cells: Sequence[Codes], weights: Array) -> Array:
    """Return the summed weights of rows in each cell of a table."""
    shape = tuple(axis.n_cells for axis in axes)
    numbers = np.ravel_multi_index(tuple(of_axis.astype(np.intp) for of_axis in cells), shape)
    return np.asarray(np.bincount(numbers, weights, prod(shape)).reshape(shape))
