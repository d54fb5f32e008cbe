"""Terms of partial dependence of an ensemble, from its leaves: at any order, or as tables."""

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.partial_dependence_terms import add_terms, term_factors
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.components import ModelInputs, OnRows, TensorComponent, locate_on_grid
from treepurify.engines.partial_dependence.pattern_shares import PatternShares, term_table
from treepurify.errors import SavedFileError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.saving import savable
from treepurify.terms import effect_title
from treepurify.threads import map_threads
from treepurify.typing import Array, Integers
from treepurify.weights import Empirical

_ROWS_A_BLOCK = 2048
_NUMBERS_OF_A_TABLE = 1 << 22
# What adding the corners of a leaf to a table takes, in rows that are compared with it.
_ROWS_FOR_CORNERS = 64
# Fewer comparisons than this take less time than starting threads does.
_LEAST_FOR_THREADS = 1 << 23
_LARGEST_TABLE = 2
# A table of more cells for each row is not built to be averaged.
_CELLS_A_ROW = 64
_NARROWEST = ((8, np.uint8), (16, np.uint16))


@dataclass(frozen=True, eq=False, repr=False)
class PatternComponent(OnRows):
    """The Moebius inverse of partial dependence at one subset of features.

    It needs no table over the cells of its features, so there is one for every subset that
    occurs on a path, at any order.

    Parameters
    ----------
    features : tuple of int
        Positions of the features, increasing.
    grid : Grid
        The union grid.
    shares : PatternShares
        The leaves and what the background says about them.
    background : EncodedRows
        The background rows on the grid.
    n_outputs : int
        Number of outputs.
    measured : tuple of two ndarray of float64, shape (n_outputs,), optional
        Variance and mean absolute value over the background rows, where they are known.
    """

    features: Subset
    grid: Grid
    shares: PatternShares
    background: EncodedRows
    n_outputs: int
    measured: tuple[Array, Array] | None = None

    def __repr__(self) -> str:
        """Return the features."""
        return effect_title(self.grid.axes[j].name for j in self.features)

    @property
    def variance(self) -> Array:
        """Variance over the background rows, shape (n_outputs,)."""
        return self._spread[0]

    @property
    def mean_absolute(self) -> Array:
        """Mean absolute value over the background rows, shape (n_outputs,)."""
        return self._spread[1]

    @cached_property
    def _spread(self) -> tuple[Array, Array]:
        if self.measured is not None:
            return self.measured
        values = self.on_background()
        weights = self.background.weights
        mean = np.average(values, axis=0, weights=weights)
        absolute = np.average(np.abs(values), axis=0, weights=weights)
        values -= mean
        values *= values
        return np.asarray(np.average(values, axis=0, weights=weights)), np.asarray(absolute)

    def on_background(self, rows: slice = slice(None)) -> Array:
        """Return the values on some of the background rows, shape (n_rows, n_outputs)."""
        codes = self.background.codes[list(self.features), rows]
        return self.on_cells(np.ascontiguousarray(codes))

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs).

        Raises
        ------
        InvalidInputError
            If a value is missing or unseen and the grid has no cell for it.
        """
        return self.on_cells(locate_on_grid(X, self.grid, self.features))

    @property
    def axes(self) -> tuple[FeatureAxis, ...]:
        """One axis per feature."""
        return self.grid.subset_axes(self.features)

    def on_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in cells (n_features, n_rows), shape (n_rows, n_outputs)."""
        leaves = self.shares.boxes.leaves_with(self.features)
        n_rows = cells.shape[1]
        if len(self.features) <= _LARGEST_TABLE:
            step = self.rows_of_a_table(n_rows)
            n_numbers = self.n_outputs * step ** len(self.features)
            if len(leaves) * (step - _ROWS_FOR_CORNERS) > n_numbers:
                return self._from_tables(cells, step)
        return self._from_leaves(cells, leaves)

    def rows_of_a_table(self, n_rows: int) -> int:
        """Return the number of rows whose cells are tabulated together."""
        return min(n_rows, isqrt(_NUMBERS_OF_A_TABLE // self.n_outputs))

    def _from_tables(self, cells: npt.NDArray[Any], step: int) -> Array:
        """Return the values from tables over the levels that some rows at a time have."""
        total = np.empty((cells.shape[1], self.n_outputs))

        def look_up(start: int) -> None:
            levels, places = zip(
                *(np.unique(own[start : start + step], return_inverse=True) for own in cells),
                strict=True,
            )
            table = term_table(
                self.shares, self.grid, self.features, self.n_outputs, DEFAULT_BUDGET, levels
            )
            total[start : start + step] = table[places]

        map_threads(look_up, range(0, cells.shape[1], step))
        return total

    def _from_leaves(self, cells: npt.NDArray[Any], leaves: Integers) -> Array:
        """Return the values by comparing each row with each leaf."""
        boxes = self.shares.boxes
        size = len(self.features)
        check_budget(
            len(leaves) * 8 << size,
            DEFAULT_BUDGET,
            f"evaluating an effect of {size} features",
            "Pass a smaller order.",
        )
        entries, factor = term_factors(
            leaves,
            np.array(self.features, dtype=np.int64),
            boxes.entry_ptr,
            boxes.entry_feature,
            self.shares.choose,
            self.shares.slot_ptr,
            self.shares.share,
        )
        n_rows = cells.shape[1]
        total = np.zeros((n_rows, self.n_outputs))
        kind = next((dtype for bits, dtype in _NARROWEST if size <= bits), np.uint32)

        def add_block(start: int) -> None:
            block = slice(start, start + _ROWS_A_BLOCK)
            block_cells = np.ascontiguousarray(cells[:, block])
            add_terms(
                block_cells,
                leaves,
                entries,
                factor,
                boxes.run_ptr,
                boxes.run_start,
                boxes.run_stop,
                boxes.values,
                boxes.output,
                np.empty(block_cells.shape[1], dtype=kind),
                total[block],
            )

        starts = range(0, n_rows, _ROWS_A_BLOCK)
        if len(leaves) * size * n_rows < _LEAST_FOR_THREADS:
            for start in starts:
                add_block(start)
        else:
            map_threads(add_block, starts)
        return total


def _check(loaded: "PatternTensor") -> None:
    """Refuse background rows outside the grid, which compiled code would count elsewhere."""
    rows, grid = loaded.term.background, loaded.term.grid
    fits = (
        rows.codes.ndim == 2
        and rows.codes.dtype.kind == "u"
        and len(rows.codes) == grid.n_features
        and all(rows.codes[j].max(initial=0) < grid.axes[j].n_cells for j in loaded.features)
        and (rows.weights is None or rows.weights.shape == (rows.n_rows,))
    )
    if not fits:
        raise SavedFileError("the file is damaged: its background rows do not match its grid")


@savable("table of leaves", arguments=("term", "inputs"), check=_check)
class PatternTensor(TensorComponent):
    """A term of partial dependence as a table, summed from the leaves each time it is read.

    All tables of a deep ensemble together can take more memory than its leaves and the values
    of its terms on the rows, so none is kept. `stored` keeps those of one term that are read
    often.

    Parameters
    ----------
    term : PatternComponent
        The leaves and the background.
    inputs : ModelInputs
        How the columns of a table are read.
    memory_budget : int
        Bytes that a table may take.
    """

    term: PatternComponent
    memory_budget: int

    def __init__(
        self, term: PatternComponent, inputs: ModelInputs, memory_budget: int = DEFAULT_BUDGET
    ) -> None:
        inherited = {"features": term.features, "axes": term.axes, "inputs": inputs, "raw": None}
        self.__dict__.update(inherited, term=term, memory_budget=memory_budget)

    @property
    def values(self) -> Array:
        """Effect on the margin scale, shape (cells..., n_outputs); a new array every time."""
        term = self.term
        return term_table(term.shares, term.grid, term.features, term.n_outputs, self.memory_budget)

    @property
    def mass(self) -> Array:
        """Share of the background rows in each cell, shape (cells...); a new array every time."""
        term = self.term
        tables = Empirical().tables(term.grid, term.background, [term.features])
        return tables[term.features]

    @property
    def is_mostly_empty(self) -> bool:
        """Whether the table has far more cells than there are background rows."""
        return self.n_cells > _CELLS_A_ROW * self.term.background.n_rows

    @cached_property
    def variance(self) -> Array:
        """Variance under the distribution, in squared units of the margin, shape (n_outputs,)."""
        return self.term.variance if self.is_mostly_empty else super().variance

    @cached_property
    def mean_absolute(self) -> Array:
        """Mean absolute value under the distribution, on the margin scale, shape (n_outputs,)."""
        return self.term.mean_absolute if self.is_mostly_empty else super().mean_absolute

    def stored(self) -> TensorComponent:
        """Return the same term with its tables in memory."""
        return TensorComponent(self.features, self.axes, self.values, self.mass, self.inputs)

    def on_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in cells (n_features, n_rows), shape (n_rows, n_outputs).

        Few rows are less work than the whole table is: for the leaves, or in tables of the cells
        that some of them at a time have.
        """
        n_leaves = len(self.term.shares.boxes.leaves_with(self.features))
        n_numbers = cells.shape[1] * min(n_leaves, self.term.rows_of_a_table(cells.shape[1]))
        if n_numbers < self.n_cells:
            return self.term.on_cells(cells)
        return super().on_cells(cells)
