"""Rows as normal scores given their levels: the latent form in which rows are smoothed.

A column of numbers becomes the normal scores of its ranks, apart from single values that many rows
share. Categories, and numbers of a few values, are levels, which have no order here. Given its
levels a row has normal scores whose means depend on the levels and whose correlations do not: the
general location model (Olkin & Tate 1961).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.rows.columns import Columns
from treepurify.rows.row_order import ordered_by_value
from treepurify.rows.row_weights import RowWeights, effective_rows, exceeds, row_shares
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["LatentRows", "latent_rows", "rank_positions"]

_MOST_LEVELS_OF_NUMBERS = 12
# A value of a larger share of the rows, such as no capital gain, is no part of a continuum.
_FREQUENT = 0.05
_SEVERAL_ROWS = 2.5
_MOST_INDICATORS = 1000
# With this number of rows, a level's mean lies half way between the overall mean and its own.
_PRIOR_ROWS = 4.0
# The correlations of a group of rows are its own if it has this many rows for each score, or if the
# mean square of a residual, which should be one, is as large as the second number.
_ROWS_A_SCORE, _LARGE_RESIDUAL = 10, 4.0
_LEAST_EIGENVALUE = 1e-6
_ADVICE = 'Pass fewer rows, or use weights="empirical".'
# Orders rows of equal value, so that the order of the table means nothing.
_SEED_OF_TIES = 20_211
# Numbers for each value, and those that find the ranks of one feature.
_TABLES, _COLUMNS = 13, 12
# Numbers for each pair of features that have scores, and for each pair of levels.
_CORRELATIONS, _GRAMS = 12, 4


@dataclass(frozen=True, eq=False)
class LatentRows:
    """Rows as levels and, given these, as normal scores.

    Parameters
    ----------
    columns : Columns
        The rows, see `ordered_by_value`.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights; None for equal weights.
    scored : tuple of int
        Positions of the columns that have scores.
    levelled : tuple of int
        Positions of the columns that have levels, more than one each.
    levels : tuple of ndarray of intp, shape (n_rows,)
        Level of each row in each of the latter; -1 where it is missing.
    known : ndarray of bool, shape (n_scored, n_rows)
        Where there is a score: not where a value is missing, or one that many rows share.
    positions : ndarray of float64, shape (n_scored, n_rows)
        Rank of each value among those with a score, between 0 and 1; 0 where there is none.
    centre : ndarray of float64, shape (n_scored, n_rows)
        Mean of the normal score given the levels of the row.
    spread : ndarray of float64, shape (n_scored,)
        Standard deviation of the score given the levels.
    scores : ndarray of float64, shape (n_scored, n_rows)
        Scores less their centre, in units of their spread; zero where there is none.
    correlation : ndarray of float64, shape (n_scored, n_scored)
        Their correlations: shrunk, and positive definite.
    level_effects : tuple of ndarray of float64, shape (n_scored, n_levels)
        What each level of each column of levels adds to `centre`, the missing one first.
    """

    columns: Columns
    weights: RowWeights
    scored: tuple[int, ...]
    levelled: tuple[int, ...]
    levels: tuple[Indices, ...]
    known: npt.NDArray[np.bool_]
    positions: Array
    centre: Array
    spread: Array
    scores: Array
    correlation: Array
    level_effects: tuple[Array, ...]

    def dependence_in(self, rows: Indices, scored: Indices) -> tuple[Array, Array]:
        """Return a factor of the correlations of some scores in some rows, and their spread there.

        The rows are those that have exactly these scores. Values that many rows share are not
        missing at random, so the correlations of pairs, each from other rows, may contradict each
        other, and residuals of a score given others can be far larger than these correlations say.
        Where there are many such rows, or such residuals, their own correlations are taken.
        """
        scores, shares = self.scores[np.ix_(scored, rows)], self.shares[rows]
        effective = self.effective_rows * float(shares.sum())
        shares = shares / shares.sum()
        overall = np.asarray(np.linalg.cholesky(self.correlation[np.ix_(scored, scored)]), float)
        residual = np.linalg.solve(overall, scores) ** 2 @ shares
        if effective < _ROWS_A_SCORE * len(scored) and residual.max(initial=0.0) < _LARGE_RESIDUAL:
            return overall, np.ones(len(scored))
        spread = np.sqrt(scores**2 @ shares)
        spread = np.where(spread > 0, spread, 1.0)
        known = np.ones(scores.shape, dtype=np.bool_)
        correlation = _correlation(scores / spread[:, None], known, shares, effective)
        return np.asarray(np.linalg.cholesky(correlation), float), spread

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.n_rows

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Number of levels of each column of levels, that of missing values included."""
        return tuple(int(level.max(initial=-1)) + 2 for level in self.levels)

    @cached_property
    def shares(self) -> Array:
        """Share of each row in all of them."""
        return row_shares(self.n_rows, self.weights)

    @cached_property
    def effective_rows(self) -> float:
        """How many rows of equal weight tell as much."""
        return effective_rows(self.n_rows, self.weights)


def latent_rows(columns: Columns, weights: RowWeights, memory_budget: int) -> LatentRows:
    """Return rows in their latent form, in an order that depends on their values alone.

    Rows of weight zero are left out.

    Raises
    ------
    MemoryBudgetError
        If the scores would not fit.
    """
    n_bytes = 8 * columns.n_rows * (_TABLES * len(columns.values) + _COLUMNS)
    what = f"the normal scores of {columns.n_rows} rows of {len(columns.values)} features"
    check_budget(n_bytes, memory_budget, what, _ADVICE)
    from scipy.special import ndtri

    columns, weights = ordered_by_value(*_with_weight(columns, weights))
    n_rows, shares = columns.n_rows, row_shares(columns.n_rows, weights)
    effective = effective_rows(n_rows, weights)
    scored: list[int] = []
    kept: list[Indices] = []
    levelled: list[int] = []
    levels: list[Indices] = []
    for j, (spec, values) in enumerate(zip(columns.features, columns.values, strict=True)):
        n_different, level = _levels(values)
        stays = level if spec.is_categorical else _kept_values(level, shares, effective)
        if not spec.is_categorical and n_different > _MOST_LEVELS_OF_NUMBERS and np.any(stays < 0):
            scored.append(j)
            kept.append(stays)
        elif n_different > 1:
            levelled.append(j)
            levels.append(level)
    known = np.array([stays < 0 for stays in kept]).reshape(-1, n_rows)
    positions = np.zeros((len(scored), n_rows))
    for position, there, j in zip(positions, known, scored, strict=True):
        ties = np.random.default_rng(_SEED_OF_TIES).permutation(int(there.sum()))
        position[there] = rank_positions(columns.values[j][there], shares[there], ties)
    scores = ndtri(np.where(known, positions, 0.5))
    indicators, meant = _indicators([*levels, *kept], n_rows)
    n_bytes += 8 * (_CORRELATIONS * len(scored) ** 2 + _GRAMS * indicators.shape[1] ** 2)
    check_budget(n_bytes, memory_budget, f"{what}, with their correlations", _ADVICE)
    effects = _effects_of_levels(scores, known, indicators, shares * effective)
    centre = np.ascontiguousarray((indicators @ effects).T)
    scores = np.where(known, scores - centre, 0.0)
    mass = known @ shares
    spread = np.sqrt((scores**2 @ shares) / np.where(mass > 0, mass, 1.0))
    spread = np.where(spread > 0, spread, 1.0)
    scores /= spread[:, None]
    correlation = _correlation(scores, known, shares, effective)
    return LatentRows(
        columns,
        weights,
        tuple(scored),
        tuple(levelled),
        tuple(levels),
        known,
        positions,
        centre,
        spread,
        scores,
        correlation,
        _by_column(effects, meant, levels),
    )


def _with_weight(columns: Columns, weights: RowWeights) -> tuple[Columns, RowWeights]:
    """Return the rows that have weight: the others tell nothing."""
    if weights is None or np.all(weights > 0):
        return columns, weights
    has_weight = np.flatnonzero(weights > 0)
    return columns.take(has_weight), weights[has_weight]


def rank_positions(values: npt.NDArray[np.floating], shares: Array, ties: Indices) -> Array:
    """Return where each value stands in the distribution, above zero and below one.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
        The values, none missing.
    shares : ndarray of float64, shape (n,)
        Their weights, on any scale.
    ties : ndarray of intp, shape (n,)
        A permutation, which orders equal values.
    """
    order = ties[np.argsort(values[ties], kind="stable")]
    in_order = shares[order]
    reached = in_order.cumsum()
    positions = np.empty(len(values))
    # The middle of the row's own share; rounding must not reach the ends.
    positions[order] = (reached - in_order / 2) / reached[-1]
    return np.clip(positions, 1e-12, 1 - 1e-12)


def _levels(values: npt.NDArray[np.floating]) -> tuple[int, Indices]:
    """Return how many values there are, and which of them each row has; -1 where it is missing."""
    known = ~np.isnan(values)
    level = np.full(len(values), -1, dtype=np.intp)
    different, level[known] = np.unique(values[known], return_inverse=True)
    return len(different), level


def _kept_values(level: Indices, shares: Array, effective: float) -> Indices:
    """Return a number for each value that stays as it is, missing or frequent; -1 for others."""
    mass = np.bincount(level + 1, shares).astype(np.float64)
    stays = np.zeros(len(mass), dtype=bool)
    stays[0] = True
    several = exceeds(mass, _SEVERAL_ROWS / effective)
    while True:
        # Frequent among those that are left: round numbers may hide behind one large value.
        frequent = ~stays & several & exceeds(mass, _FREQUENT * mass[~stays].sum())
        if not frequent.any():
            return np.where(stays[level + 1], level + 1, -1)
        stays |= frequent


def _indicators(columns: list[Indices], n_rows: int) -> tuple["csr_array", Indices]:
    """Return one indicator for each level of each column of levels, the rarest left out.

    Beside the matrix there is what each indicator means: a column, and a level counted from the
    missing one, shape (n_indicators, 2).
    """
    from scipy.sparse import csr_array, hstack

    blocks, meant = [], [np.empty((0, 2), dtype=np.intp)]
    for column, level in enumerate(columns):
        shifted = level + 1
        # What all rows have says nothing.
        if not np.any(shifted != shifted[:1]):
            continue
        ones = (np.ones(n_rows), (np.arange(n_rows), shifted))
        block = csr_array(ones, shape=(n_rows, int(shifted.max(initial=0)) + 1))
        there = np.unique(shifted)
        blocks.append(block[:, there])
        meant.append(np.column_stack([np.full(len(there), column), there]))
    if not blocks:
        return csr_array((n_rows, 0)), meant[0]
    together, pairs = csr_array(hstack(blocks, format="csr")), np.concatenate(meant)
    if together.shape[1] > _MOST_INDICATORS:
        count: Array = together.sum(axis=0)
        frequent = np.sort(np.argsort(-count, kind="stable")[:_MOST_INDICATORS])
        together, pairs = together[:, frequent], pairs[frequent]
    return together, pairs


def _effects_of_levels(
    scores: Array, known: npt.NDArray[np.bool_], indicators: "csr_array", rows: Array
) -> Array:
    """Return what each level adds to each score, shape (n_indicators, n_scored): ridge."""
    if indicators.shape[1] == 0:
        return np.zeros((0, len(scores)))
    weighted = indicators * rows[:, None]
    gram = (indicators.T @ weighted).toarray()
    gram[np.diag_indices_from(gram)] += _PRIOR_ROWS
    # Where a score is missing it is zero, the mean of all: it does not move a level.
    found = np.linalg.solve(gram, weighted.T @ np.where(known, scores, 0.0).T)
    return np.asarray(found)


def _by_column(effects: Array, meant: Indices, levels: list[Indices]) -> tuple[Array, ...]:
    """Return the effects of each column's levels; zero for a level that has no indicator."""
    found = []
    for column, level in enumerate(levels):
        table = np.zeros((effects.shape[1], int(level.max(initial=-1)) + 2))
        own = meant[:, 0] == column
        table[:, meant[own, 1]] = effects[own].T
        found.append(table)
    return tuple(found)


def _correlation(
    scores: Array, known: npt.NDArray[np.bool_], shares: Array, effective: float
) -> Array:
    """Return correlations of the rows where both are known, shrunk towards none.

    The share by which they shrink is the noise in them over their size (Schäfer & Strimmer
    2005), so that many unrelated features add up to no dependence.
    """
    size = len(scores)
    if size < 2:
        return np.eye(size)
    weighted = scores * shares
    both = (known * shares) @ known.T
    square = (scores**2 * shares) @ known.T
    scale = np.sqrt(square * square.T)
    found = np.divide(weighted @ scores.T, scale, out=np.zeros_like(scale), where=scale > 0)
    found = np.clip(found, -1.0, 1.0)
    np.fill_diagonal(found, 0.0)
    noise = np.where(both > 0, (1 - found**2) ** 2 / np.maximum(both * effective, 1.0), 0.0)
    np.fill_diagonal(noise, 0.0)
    total = float((found**2).sum())
    found *= 1.0 - min(1.0, float(noise.sum()) / total) if total > 0 else 0.0
    np.fill_diagonal(found, 1.0)
    values, vectors = np.linalg.eigh(found)
    positive = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    diagonal = np.sqrt(np.diag(positive))
    return np.asarray(positive / np.outer(diagonal, diagonal))
