"""Empirical weighting: the share of the rows in each cell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treepurify._kernels.histogram import count_pairs, weigh_pairs
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.threads import map_threads
from treepurify.typing import Array
from treepurify.weights.weighting import MassTables, Weighting, normalised

__all__ = ["Empirical", "count_rows"]

_PAIRS_A_PIECE = 8


@dataclass(frozen=True)
class Empirical(Weighting):
    """The joint distribution of the rows (Lengerich et al. 2020, section 5.2).

    Keeps the dependence between features. Sample weights, where given, multiply the rows.

    Examples
    --------
    >>> Empirical().describe()
    'empirical'
    """

    name: ClassVar[str] = "empirical"
    needs_rows: ClassVar[bool] = True

    @property
    def share_of_rows(self) -> float:
        """One: the rows are the whole measure."""
        return 1.0

    def tables(self, grid: Grid, rows: EncodedRows | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of each subset's cells."""
        if rows is None:
            raise InvalidInputError('weights="empirical" need the rows: pass X')
        counts = count_rows(grid, rows, subsets)
        return {
            subset: normalised(table, "the weights of the rows") for subset, table in counts.items()
        }


def count_rows(grid: Grid, rows: EncodedRows, subsets: Sequence[Subset]) -> MassTables:
    """Return the number, or the summed weight, of the rows in each cell of each subset.

    Counts are sums over rows: those of two batches add up to those of both together.
    """
    pairs = [subset for subset in subsets if len(subset) == 2]
    tables: MassTables = {}
    pieces = [pairs[i : i + _PAIRS_A_PIECE] for i in range(0, len(pairs), _PAIRS_A_PIECE)]
    for piece in map_threads(lambda piece: _count_pair_tables(grid, rows, piece), pieces):
        tables.update(piece)
    for subset in subsets:
        if len(subset) != 2:
            tables[subset] = _count_table(grid, rows, subset)
    return {subset: tables[subset] for subset in subsets}


def _count_pair_tables(grid: Grid, rows: EncodedRows, pairs: Sequence[Subset]) -> MassTables:
    shapes = [grid.shape(pair) for pair in pairs]
    sizes = [height * width for height, width in shapes]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    first = np.array([pair[0] for pair in pairs], dtype=np.int64)
    second = np.array([pair[1] for pair in pairs], dtype=np.int64)
    widths = np.array([width for _, width in shapes], dtype=np.int64)
    if rows.weights is None:
        counts = np.zeros(offsets[-1], dtype=np.int64)
        count_pairs(first, second, rows.codes, widths, offsets, counts)
        mass = counts.astype(np.float64)
    else:
        mass = np.zeros(offsets[-1])
        weigh_pairs(first, second, rows.codes, rows.weights, widths, offsets, mass)
    return {
        pair: mass[offsets[t] : offsets[t + 1]].reshape(shapes[t]) for t, pair in enumerate(pairs)
    }


def _count_table(grid: Grid, rows: EncodedRows, subset: Subset) -> Array:
    shape = grid.shape(subset)
    cell = np.zeros(rows.n_rows, dtype=np.int64)
    for j, size in zip(subset, shape, strict=True):
        cell = cell * size + rows.codes[j]
    counts = np.bincount(cell, weights=rows.weights, minlength=int(np.prod(shape)))
    return counts.astype(np.float64).reshape(shape)
