"""Fit the residual of effects once more, on few intervals, where left-out rows show that it helps.

First all pairs of features are looked at: their mean residual in 6 x 6 intervals on one half of the
given rows predicts that of the other half. If this explains enough, the best pairs are fitted
together by ridge regression, and the gain on rows that were left out decides.
"""

from collections.abc import Collection, Mapping
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify.engines.common.explained import ExplainedVariance
from treepurify.engines.common.problem import Problem
from treepurify.engines.tree.table_fit import (
    FOLDS,
    Equations,
    equations_of_folds,
    expand,
    join_cells,
    lay_out,
    places_of_rows,
    ridge,
)
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import CopiedRows
from treepurify.rows.row_weights import (
    RowWeights,
    distinct_numbers,
    effective_rows,
    mean_square,
    telling_numbers,
)
from treepurify.typing import Array, Indices, Integers

_PAIR = 2
# Share of the variance below which nothing is gained.
_NOTHING = 1e-3
# Intervals of a feature in pairs and in main effects, and unknowns of all pairs.
_PAIR_CELLS, _MAIN_CELLS, _PAIR_UNKNOWNS = 6, 16, 900
# In the search for pairs: rows without effect that are added to each cell, features, and additions.
_PRIOR_ROWS, _MOST_FEATURES, _MOST_ADDITIONS = 4.0, 60, 2e8
_PENALTIES = (1.0, 10.0, 100.0)
_STANDARD_ERRORS = 2.0


class SourceRows(NamedTuple):
    """Which of the rows that were given each row is, or is a copy of.

    Parameters
    ----------
    number : ndarray of int, shape (n_rows,)
        Number of the given row. Equal rows have one number, which is as good as random.
    effective : float
        Effective number of rows.
    telling : float
        The same of distinct rows; see `telling_numbers`.
    """

    number: Indices
    effective: float
    telling: float

    @property
    def fold(self) -> Integers:
        """One of five folds for each row."""
        return np.asarray(self.number % FOLDS, dtype=np.int64)

    @property
    def half(self) -> Integers:
        """One of two halves for each row."""
        return np.asarray(self.number // FOLDS % 2, dtype=np.int64)


def source_rows(
    columns: Columns, weights: RowWeights, copied: CopiedRows | None, used: Collection[int]
) -> SourceRows:
    """Return which of the given rows the rows of a measure are.

    Parameters
    ----------
    columns, weights : Columns, ndarray or None
        The rows of the measure.
    copied : CopiedRows, optional
        The rows that were given, where the former are copies of them, in the order of their values.
    used : collection of int
        Features that the model uses.
    """
    if copied is not None:
        # Of rows in batches, a sample was copied, which the stream keeps.
        rows = copied.rows.whole or next(iter(copied.rows.drawn.values()))
        columns, weights = rows.columns, rows.weights
        if weights is not None:
            columns, weights = columns.take(np.flatnonzero(weights > 0)), weights[weights > 0]
    number = distinct_numbers(columns.only(sorted(used)))
    effective, telling = effective_rows(columns.n_rows, weights), telling_numbers(number, weights)
    if copied is not None:
        number = np.tile(np.sort(number), copied.copies)
    return SourceRows(number, effective, telling)


def fit_residual(
    problem: Problem,
    rows: Mapping[int, EncodedRows],
    margin: Array,
    explained: ExplainedVariance,
    given: SourceRows,
) -> tuple[float, dict[Subset, Array]]:
    """Return the residual of effects fitted on few intervals, where this helps.

    Parameters
    ----------
    problem : Problem
        The model on its grids.
    rows : mapping of int to EncodedRows
        The rows of the first fit on the grid of each order.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Margin of these rows.
    explained : ExplainedVariance
        How much of it the effects explain, and their residual.
    given : SourceRows
        Which of the given rows the rows are.

    Returns
    -------
    float
        Share of the model's variance that effects of this order may explain beyond what they then
        do, as estimated on rows that were left out.
    dict of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        The tables of the fit; empty where it does not help.
    """
    shares, residual = rows[1].shares, explained.rest
    weights = shares * given.telling
    whole = max(float(mean_square(margin, shares).sum()), np.finfo(float).tiny)
    unexplained = float(explained.rest_variance.sum()) / whole
    features = _leading_features(problem, explained)
    if unexplained <= _NOTHING or not features:
        return 0.0, {}
    problem.report("looking at the residual of the effects", 0, 0)
    size, grids = min(problem.kept_terms.order or 1, _PAIR), problem.layout.grids
    coarse = join_cells(grids[size], rows[size], features, margin, _PAIR_CELLS)
    cells = {j: own[rows[size].codes[j]] for j, own in coarse.items()}
    gains = _gains(list(combinations(features, size)), cells, weights, residual, given)
    hoped_for = unexplained * sum(gain for gain in gains.values() if gain > 0)
    if hoped_for <= _NOTHING:
        return hoped_for, {}
    main = join_cells(grids[1], rows[1], features, margin, _MAIN_CELLS)
    places_of = {(1, j): main[j] for j in features} | {(_PAIR, j): coarse[j] for j in features}
    pairs = _best_pairs(gains, coarse) if size == _PAIR else []
    tables = lay_out([*((j,) for j in features), *pairs], places_of)
    data = places_of_rows(tables, rows), weights, residual
    folds = list(equations_of_folds(tables, *data, given.fold))
    total = Equations(*(np.sum(parts, axis=0) for parts in zip(*folds, strict=True)))
    gain_of = {
        penalty: unexplained
        * np.array([part.gain(ridge(total.without(part), penalty)) for part in folds])
        for penalty in _PENALTIES
    }
    best = max(_PENALTIES, key=lambda penalty: float(gain_of[penalty].mean()))
    gain = float(gain_of[best].mean())
    error = _STANDARD_ERRORS * float(gain_of[best].std(ddof=1)) / FOLDS**0.5
    if gain <= max(_NOTHING, error):
        return max(gain + error, 0.0), {}
    return error, expand(tables, ridge(total, best))


def _leading_features(problem: Problem, explained: ExplainedVariance) -> list[int]:
    """Return the features of the largest effects, of which there are few enough for all pairs."""
    size = {j: 0.0 for j in problem.model.used_features if problem.grid.axes[j].n_cells > 1}
    for subset, covariances in explained.covariances.items():
        for j in size.keys() & set(subset):
            size[j] += float(np.abs(covariances).sum())
    return sorted(sorted(size, key=lambda j: -size[j])[:_MOST_FEATURES])


def _gains(
    subsets: list[Subset],
    cells: Mapping[int, Indices],
    weights: Array,
    residual: Array,
    given: SourceRows,
) -> dict[Subset, float]:
    """Return the share of the residual that each set of features explains.

    The mean residual of a cell on one half of the given rows predicts that of the other half.
    """
    step = 1 + int(len(subsets) * residual.size // _MOST_ADDITIONS)
    own = np.flatnonzero(given.number % step == 0)
    half, weights, residual = given.half[own], weights[own], residual[own]
    cells = {j: of_feature[own] for j, of_feature in cells.items()}
    weighted = (weights[:, None] * residual).T
    whole = max(float((weighted.T * residual).sum()), np.finfo(float).tiny)
    gains = {}
    for subset in subsets:
        shape = (2, *(int(cells[j].max()) + 1 for j in subset))
        code = np.ravel_multi_index((half, *(cells[j] for j in subset)), shape)
        mass = np.bincount(code, weights, prod(shape)).reshape(2, -1)
        gain = 0.0
        for of_output in weighted:
            sums = np.bincount(code, of_output, prod(shape)).reshape(2, -1)
            mean = (sums / (mass + _PRIOR_ROWS))[::-1]
            gain += float((2 * mean * sums - mass * mean**2).sum())
        gains[subset] = gain / whole
    return gains


def _best_pairs(gains: Mapping[Subset, float], cells: Mapping[int, Indices]) -> list[Subset]:
    """Return the pairs that explain most, of at most 900 cells together."""
    chosen, n_cells = [], 0
    for pair in sorted(gains, key=lambda pair: -gains[pair]):
        n_cells += prod(int(cells[j].max()) + 1 for j in pair)
        if n_cells > _PAIR_UNKNOWNS:
            break
        chosen.append(pair)
    return sorted(chosen)
