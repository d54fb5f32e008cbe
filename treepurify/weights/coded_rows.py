"""Rows as levels of each feature, the tables of pairs of features, and values within levels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.grids.axis import quantile_cuts
from treepurify.grids.grid import EncodedRows, Grid
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights, effective_rows, row_shares
from treepurify.typing import Array, Indices
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.held_out import INDEPENDENT_SHARES, first_best, held_out_mixtures

__all__ = [
    "CodedRows",
    "PairTable",
    "binned_rows",
    "dependent_pairs",
    "rows_in_cells",
    "spread_draws",
]

_MOST_LEVELS_OF_NUMBERS = 12


@dataclass(frozen=True, eq=False)
class CodedRows:
    """The level of each row in each feature.

    Parameters
    ----------
    codes : sequence of ndarray of int, shape (n_rows,)
        Levels of each feature.
    sizes : tuple of int
        Number of levels of each feature.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    effective_rows : float
        How many rows of equal weight tell as much.
    """

    codes: Sequence[npt.NDArray[np.integer]]
    sizes: tuple[int, ...]
    shares: Array
    effective_rows: float

    def margin(self, feature: int) -> Array:
        """Return the share of the rows in each level of a feature."""
        counts = np.bincount(self.codes[feature], self.shares, self.sizes[feature])
        return np.asarray(counts / counts.sum())

    def table(self, first: int, second: int) -> Array:
        """Return the share of the rows in each cell of two features."""
        shape = self.sizes[first], self.sizes[second]
        cells = self.codes[first].astype(np.intp) * shape[1] + self.codes[second]
        counts = np.bincount(cells, self.shares, shape[0] * shape[1])
        return np.asarray((counts / counts.sum()).reshape(shape))


@dataclass(frozen=True, eq=False)
class PairTable:
    """The joint mass of two features: rows, mixed with the product of their margins.

    Parameters
    ----------
    pair : tuple of int
        The features.
    mass : ndarray of float64, shape (n_first, n_second)
        The mass; its margins are those of the rows.
    share_apart : float
        Share of the product in it.
    gain : float
        Leave-one-out log-likelihood above that of independent features, in nats: zero where no
        dependence improves it.
    """

    pair: tuple[int, int]
    mass: Array
    share_apart: float
    gain: float


def dependent_pairs(
    rows: CodedRows, prior_count: float | None, *, one_share: bool
) -> list[PairTable]:
    """Return the table of every pair of features.

    Parameters
    ----------
    rows : CodedRows
        The rows.
    prior_count : float, optional
        Weight of the product of the margins, in rows. By default the share
        of best leave-one-out likelihood; at least that of one row.
    one_share : bool
        Whether that share is the same for all pairs, so that all tables are margins of the
        mixture of the joint mass of the rows with independent features; else each has its own.
    """
    pairs = list(combinations(range(len(rows.sizes)), 2))
    if not pairs:
        return []
    tried: tuple[float, ...] = INDEPENDENT_SHARES
    if prior_count is not None:
        tried = (prior_count / (rows.effective_rows + prior_count), 1.0)
    own = min(1.0 / rows.effective_rows, 0.5)
    least = 1.0 / (rows.effective_rows + 1.0) if prior_count is None else 0.0
    counted = [rows.table(*pair) for pair in pairs]
    gains = np.array([held_out_mixtures(table, own, tried) for table in counted])
    best = first_best(gains)
    if one_share:
        best[:] = first_best(gains.sum(axis=0, keepdims=True))
    if prior_count is not None:
        best[:] = 0
    tables = []
    for pair, table, of_pair, place in zip(pairs, counted, gains, best, strict=True):
        share = max(tried[place], least)
        apart = np.outer(table.sum(axis=1), table.sum(axis=0))
        mass = (1 - share) * table + share * apart
        tables.append(PairTable(pair, mass, share, float(of_pair[place])))
    return tables


def binned_rows(columns: Columns, row_weights: RowWeights, bins: int) -> CodedRows:
    """Return rows with numbers in bins of equal shares of the rows.

    Categories and numbers of up to twelve values keep their values as levels; missing values are a
    level of their own.
    """
    codes = [
        _codes(values, row_weights, bins, is_category=spec.is_categorical)
        for spec, values in zip(columns.features, columns.values, strict=True)
    ]
    return CodedRows(
        codes,
        tuple(int(code.max(initial=0)) + 1 for code in codes),
        row_shares(columns.n_rows, row_weights),
        effective_rows(columns.n_rows, row_weights),
    )


def _codes(
    values: npt.NDArray[np.floating], weights: RowWeights, bins: int, *, is_category: bool
) -> Indices:
    known = ~np.isnan(values)
    levels, level = np.unique(values[known], return_inverse=True)
    if not is_category and len(levels) > max(_MOST_LEVELS_OF_NUMBERS, bins):
        level = np.searchsorted(quantile_cuts(values, bins, weights), values[known], side="right")
    codes = np.full(len(values), int(level.max(initial=-1)) + 1, dtype=np.intp)
    codes[known] = level
    return codes


def rows_in_cells(grid: Grid, rows: RowsOnGrid | None, name: str) -> CodedRows:
    """Return rows with the cells of a grid as levels.

    Raises
    ------
    InvalidInputError
        If the rows are not there one by one.
    """
    if not isinstance(rows, EncodedRows):
        raise InvalidInputError(
            f"weights={name!r} needs all rows in memory: pass X as a table, not in batches"
        )
    return CodedRows(
        list(rows.codes),
        tuple(axis.n_cells for axis in grid.axes),
        rows.shares,
        effective_rows(rows.n_rows, rows.weights),
    )


def spread_draws(masses: Array, n_points: int, rng: np.random.Generator) -> Indices:
    """Return places drawn with these masses, in random order.

    Each place occurs as often as its mass says, to less than one.
    """
    reached = masses.cumsum()
    at = (np.arange(n_points) + rng.random()) * (reached[-1] / max(n_points, 1))
    places = np.searchsorted(reached, at, side="right")
    # Rounding must lead neither beyond the last place nor to one without mass.
    return rng.permutation(np.minimum(places, np.flatnonzero(masses)[-1]))
