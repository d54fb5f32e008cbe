"""A term of partial dependence of any order, evaluated from leaf boxes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.partial_dependence_terms import add_terms, term_factors
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.engines.partial_dependence.pattern_shares import PatternShares
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, Subset, check_special_cells, encode_rows
from treepurify.rows.columns import Columns
from treepurify.rows.table_reader import read_columns
from treepurify.threads import map_threads

__all__ = ["PatternComponent"]

Array = npt.NDArray[np.float64]

_ROWS_A_BLOCK = 2048
# Fewer comparisons than this take less time than starting threads does.
_LEAST_FOR_THREADS = 1 << 23
_NARROWEST = ((8, np.uint8), (16, np.uint16))


@dataclass(frozen=True, eq=False, repr=False)
class PatternComponent:
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
    """

    features: Subset
    grid: Grid
    shares: PatternShares
    background: EncodedRows
    n_outputs: int

    def __repr__(self) -> str:
        """Return the features."""
        names = " & ".join(self.grid.axes[j].name for j in self.features)
        return f"PatternComponent({names})"

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

    def evaluate(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs).

        Raises
        ------
        InvalidInputError
            If a value is missing or unknown and the grid has no cell for it.
        """
        columns = read_columns(
            X, self.grid.features, match_names=self.grid.match_names, only=self.features
        )
        own = Columns(
            tuple(columns.features[j] for j in self.features),
            tuple(columns.values[j] for j in self.features),
            columns.n_rows,
        )
        rows, reached = encode_rows(own, self.axes)
        for axis, wider in zip(self.axes, reached, strict=True):
            check_special_cells(axis, wider)
        return self.on_cells(rows.codes)

    @property
    def axes(self) -> tuple[FeatureAxis, ...]:
        """One axis a feature."""
        return self.grid.subset_axes(self.features)

    def on_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in cells (n_features, n_rows), shape (n_rows, n_outputs)."""
        boxes = self.shares.boxes
        leaves = boxes.leaves_with(self.features)
        size = len(self.features)
        check_budget(
            len(leaves) * 8 << size,
            DEFAULT_BUDGET,
            f"evaluating a term of {size} features",
            "Ask for a smaller order.",
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
            own = np.ascontiguousarray(cells[:, block])
            add_terms(
                own,
                leaves,
                entries,
                factor,
                boxes.run_ptr,
                boxes.run_start,
                boxes.run_stop,
                boxes.values,
                boxes.output,
                np.empty(own.shape[1], dtype=kind),
                total[block],
            )

        starts = range(0, n_rows, _ROWS_A_BLOCK)
        if len(leaves) * size * n_rows < _LEAST_FOR_THREADS:
            for start in starts:
                add_block(start)
        else:
            map_threads(add_block, starts)
        return total
