"""Count rows in the cells of marginal tables: all at once, or batch by batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.histogram import (
    N_COPIES,
    ROWS_AT_A_TIME,
    count_pairs,
    weigh_pairs,
)
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
from treepurify.typing import Array, Integers

__all__ = ["CellCounts", "CountState", "CountedRows", "RowsOnGrid", "count_rows", "counted_rows"]

_PIECES, _MOST_PAIRS_A_PIECE = 16, 32
# NumPy counts this number of rows in some milliseconds, less than compiling a kernel. The calls for
# a pair take as long as the work on some rows.
_FEW_ROWS, _ROWS_OF_A_CALL = 1 << 19, 1 << 12

Counts = npt.NDArray[Any]


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
    positions = {j: j for j in range(grid.n_features)}
    n_pairs = sum(len(subset) == 2 for subset in subsets)
    use_kernel = n_pairs * (rows.n_rows + _ROWS_OF_A_CALL) > _FEW_ROWS
    pieces = _pieces(grid, subsets, positions) if use_kernel else []

    def count(piece: "_SomePairs") -> dict[Subset, Array]:
        cells = _zeros(int(piece.offsets[-1]), is_weighted=rows.weights is not None)
        _add_pairs(piece, rows, cells)
        return piece.tables(cells.astype(np.float64, copy=False))

    tables: dict[Subset, Array] = {}
    for of_piece in map_threads(count, pieces):
        tables.update(of_piece)
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    # Whole numbers, which add up to the same in any order; sums of weights do not.
    within = _smallest_pairs(tables) if rows.weights is None else {}
    for subset in subsets:
        if subset in within:
            pair = within[subset]
            tables[subset] = tables[pair].sum(axis=1 if pair[0] == subset[0] else 0)
        elif subset not in tables:
            cell = _cell_numbers(grid.shape(subset), [rows.codes[j] for j in subset], rows.n_rows)
            table = np.bincount(cell, weights=weights, minlength=prod(grid.shape(subset)))
            tables[subset] = np.asarray(table, dtype=np.float64).reshape(grid.shape(subset))
    return {subset: tables[subset] for subset in subsets}


def _smallest_pairs(tables: Mapping[Subset, Array]) -> dict[Subset, Subset]:
    """Return the smallest of the pair tables whose margin is that of a feature."""
    smallest: dict[Subset, Subset] = {}
    for pair, table in tables.items():
        for feature in pair:
            best = smallest.get((feature,))
            if best is None or table.size < tables[best].size:
                smallest[(feature,)] = pair
    return smallest


@dataclass(frozen=True, eq=False)
class _SomePairs:
    """Some pairs of features, whose tables stand one after the other in one array."""

    pairs: Sequence[Subset]
    shapes: Sequence[Sequence[int]]
    first: Integers
    second: Integers
    widths: Integers
    offsets: Integers

    def tables(self, cells: Counts) -> dict[Subset, Counts]:
        """Return the table of each pair, a view."""
        return {
            pair: cells[self.offsets[t] : self.offsets[t + 1]].reshape(self.shapes[t])
            for t, pair in enumerate(self.pairs)
        }


def _pieces(grid: Grid, subsets: Sequence[Subset], position: Mapping[int, int]) -> list[_SomePairs]:
    """Divide the pairs; `position` is where each feature stands among the codes."""
    pairs = [subset for subset in subsets if len(subset) == 2]
    of_pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    shapes = np.array([axis.n_cells for axis in grid.axes], dtype=np.int64)[of_pairs]
    places = np.array([position.get(j, -1) for j in range(grid.n_features)], dtype=np.int64)
    first, second = np.ascontiguousarray(places[of_pairs].T)
    widths, sizes = np.ascontiguousarray(shapes[:, 1]), shapes.prod(axis=1)
    # A few pieces for each of several threads, whatever their number: states of one grid merge.
    length = min(max(len(pairs) // _PIECES, 1), _MOST_PAIRS_A_PIECE)
    pieces = []
    for start in range(0, len(pairs), length):
        some = slice(start, start + length)
        offsets = np.concatenate([[0], np.cumsum(sizes[some])])
        given = first[some], second[some], widths[some], offsets
        pieces.append(_SomePairs(pairs[some], shapes[some].tolist(), *given))
    return pieces


def _zeros(n_cells: int, *, is_weighted: bool) -> Counts:
    # Whole numbers, so that no count depends on the order of the rows.
    return np.zeros(n_cells, dtype=np.float64 if is_weighted else np.int64)


def _add_pairs(piece: _SomePairs, rows: EncodedRows, cells: Counts) -> None:
    """Add rows to the tables of some pairs."""
    given = (piece.first, piece.second, rows.codes)
    if rows.weights is None:
        copies = np.zeros(N_COPIES, dtype=cells.dtype)
        workspace = np.empty(ROWS_AT_A_TIME, dtype=np.uint64)
        count_pairs(*given, piece.widths, piece.offsets, cells, copies, workspace)
    else:
        weigh_pairs(*given, rows.weights, piece.widths, piece.offsets, cells)


def _cell_numbers(shape: tuple[int, ...], codes: Sequence[Counts], n_rows: int) -> Integers:
    """Return the cell of each row in a table, in C order."""
    cell = codes[0].astype(np.int64) if codes else np.zeros(n_rows, dtype=np.int64)
    for along_axis, size in zip(codes[1:], shape[1:], strict=True):
        cell = cell * size + along_axis
    return cell


@dataclass(eq=False)
class CountState:
    """State of `CellCounts`: tables of pairs by piece, other tables, and the observed range."""

    pairs: list[Counts]
    others: dict[Subset, Counts]
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
    is_weighted : bool
        Whether rows have weights.
    """

    grid: Grid
    subsets: Sequence[Subset]
    used: tuple[int, ...]
    is_weighted: bool

    @cached_property
    def _pieces(self) -> list[_SomePairs]:
        return _pieces(self.grid, self.subsets, {j: i for i, j in enumerate(self.used)})

    def zero(self) -> CountState:
        """Return no counts."""
        others = {}
        for subset in self.subsets:
            if len(subset) != 2:
                shape = self.grid.shape(subset)
                others[subset] = _zeros(prod(shape), is_weighted=self.is_weighted).reshape(shape)
        pairs = [
            _zeros(int(piece.offsets[-1]), is_weighted=self.is_weighted) for piece in self._pieces
        ]
        return CountState(pairs, others, ObservedRange.empty(self.grid.n_features))

    def add(self, state: CountState, rows: RowBatch) -> CountState:
        """Return the counts with those of a batch."""
        encoded, observed = encode_batch(rows, self.grid, self.used)
        state.observed = state.observed.merge(observed, self.grid, rows.where)

        def add_piece(item: tuple[_SomePairs, Counts]) -> None:
            _add_pairs(item[0], encoded, item[1])

        map_threads(add_piece, zip(self._pieces, state.pairs, strict=True))
        position = {j: i for i, j in enumerate(self.used)}
        for subset, table in state.others.items():
            codes = [encoded.codes[position[j]] for j in subset]
            cell = _cell_numbers(table.shape, codes, encoded.n_rows)
            counts = np.bincount(cell, weights=encoded.weights, minlength=table.size)
            np.add(table, counts.reshape(table.shape), out=table)
        return state

    def merge(self, state: CountState, other: CountState) -> CountState:
        """Return the counts of both."""
        for cells, more in zip(state.pairs, other.pairs, strict=True):
            np.add(cells, more, out=cells)
        for subset, table in state.others.items():
            np.add(table, other.others[subset], out=table)
        state.observed = state.observed.merge(other.observed, self.grid)
        return state

    def tables(self, state: CountState) -> dict[Subset, Array]:
        """Return the tables on the grid of the statistic."""
        tables = dict(state.others)
        for piece, cells in zip(self._pieces, state.pairs, strict=True):
            tables |= piece.tables(cells)
        return {subset: tables[subset].astype(np.float64) for subset in self.subsets}


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
    tables = {}
    for subset, table in counts.tables(state).items():
        is_whole = table.shape == grid.shape(subset)
        tables[subset] = table if is_whole else table[np.ix_(*(kept[j] for j in subset))]
    return CountedRows(grid, tables, state.observed.n_rows, state.observed.n_counted)
