"""Count rows in the cells of marginal tables: all at once, or batch by batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treepurify._kernels.locate import N_COPIES, weigh_pair
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.grids.observed_range import (
    ObservedRange,
    bounded_grid,
    encode_batch,
    kept_cells,
    narrowed_grid,
)
from treepurify.rows.source_reader import RowBatch
from treepurify.threads import map_threads
from treepurify.typing import Array, Cells

# A few for each of several threads.
_PIECES = 16
# NumPy counts this number of rows in some milliseconds, less than compiling a kernel. The calls for
# a pair take as long as the work on some rows.
_FEW_ROWS, _ROWS_OF_A_CALL = 1 << 19, 1 << 12


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Rows that were counted in the cells of a grid, in place of their cells one by one.

    Parameters
    ----------
    grid : Grid
        The cells.
    tables : mapping of tuple of int to ndarray of float64, shape (cells...)
        Number, or summed weight, of the rows in each cell of each subset.
    n_rows, n_counted : int
        Number of rows, and of those of positive weight.
    """

    grid: Grid
    tables: Mapping[Subset, Array]
    n_rows: int
    n_counted: int = 0


RowsOnGrid = EncodedRows | CountedRows


def count_rows(grid: Grid, rows: RowsOnGrid, subsets: Sequence[Subset]) -> dict[Subset, Array]:
    """Return the number, or the summed weight, of the rows in each cell of each subset.

    Counts are sums over rows: those of two batches add up to those of both together.
    """
    if isinstance(rows, CountedRows):
        return {subset: rows.tables[subset] for subset in subsets}
    tables = {subset: np.zeros(grid.shape(subset)) for subset in subsets}
    _add_rows(tables, dict(enumerate(rows.codes)), rows.weights, rows.n_rows)
    return tables


def _add_rows(
    tables: Mapping[Subset, Array],
    codes: Mapping[int, Cells],
    weights: Array | None,
    n_rows: int,
) -> None:
    """Add rows to tables; `codes` has the cell of each row along the axis of each feature."""
    pairs = [subset for subset in tables if len(subset) == 2]
    if len(pairs) * (n_rows + _ROWS_OF_A_CALL) <= _FEW_ROWS:
        pairs = []
    given = np.ones(n_rows) if weights is None else weights

    def add_pairs(piece: Sequence[Subset]) -> None:
        copies = np.zeros(N_COPIES)
        for first, second in piece:
            table = tables[first, second]
            cells = table.reshape(-1)
            weigh_pair(codes[first], codes[second], given, table.shape[1], cells, copies)

    map_threads(add_pairs, [pairs[start::_PIECES] for start in range(min(_PIECES, len(pairs)))])
    for subset in tables.keys() - set(pairs):
        table = tables[subset]
        cell = np.zeros(n_rows, dtype=np.int64)
        for feature, size in zip(subset, table.shape, strict=True):
            cell = cell * size + codes[feature]
        table += np.bincount(cell, weights, table.size).reshape(table.shape)


@dataclass(eq=False)
class CountState:
    """State of `CellCounts`: the tables, and the observed range."""

    tables: dict[Subset, Array]
    observed: ObservedRange


@dataclass(frozen=True, eq=False)
class CellCounts:
    """The statistic of rows in the cells of marginal tables.

    Parameters
    ----------
    grid : Grid
        The cells. Its axes have cells for missing and unseen values everywhere, since later
        batches may have such values.
    subsets : sequence of tuple of int
        The tables.
    used : tuple of int
        The features of these tables.
    """

    grid: Grid
    subsets: Sequence[Subset]
    used: tuple[int, ...]

    def zero(self) -> CountState:
        """Return no counts."""
        tables = {subset: np.zeros(self.grid.shape(subset)) for subset in self.subsets}
        return CountState(tables, ObservedRange.empty(self.grid.n_features))

    def add(self, state: CountState, rows: RowBatch) -> CountState:
        """Return the counts with those of a batch."""
        encoded, observed = encode_batch(rows, self.grid, self.used)
        state.observed = state.observed.merge(observed, self.grid, rows.where)
        codes = dict(zip(self.used, encoded.codes, strict=True))
        _add_rows(state.tables, codes, encoded.weights, encoded.n_rows)
        return state

    def merge(self, state: CountState, other: CountState) -> CountState:
        """Return the counts of both."""
        for subset, table in state.tables.items():
            np.add(table, other.tables[subset], out=table)
        state.observed = state.observed.merge(other.observed, self.grid)
        return state


def counted_rows(counts: CellCounts, state: CountState, *, keep_special: bool) -> CountedRows:
    """Return all rows as counts, on a grid with the special cells that are needed.

    Parameters
    ----------
    counts : CellCounts
        The statistic.
    state : CountState
        Its state after all rows.
    keep_special : bool
        Whether cells for missing and unseen values stay everywhere.

    Raises
    ------
    InvalidInputError
        If there are no rows, all have weight zero, or a model knows no value of a category.
    """
    if not state.observed.n_rows:
        raise InvalidInputError("there are no rows; pass the rows that represent the distribution")
    if not state.observed.total_weight > 0:
        raise InvalidInputError(
            "sample_weight is zero for every row; at least one must be positive"
        )
    narrow = narrowed_grid(counts.grid, state.observed)
    grid = bounded_grid(counts.grid if keep_special else narrow, state.observed)
    kept = [kept_cells(*axes) for axes in zip(counts.grid.axes, grid.axes, strict=True)]
    tables = {
        subset: table
        if table.shape == grid.shape(subset)
        else table[np.ix_(*(kept[j] for j in subset))]
        for subset, table in state.tables.items()
    }
    return CountedRows(grid, tables, state.observed.n_rows, state.observed.n_counted)
