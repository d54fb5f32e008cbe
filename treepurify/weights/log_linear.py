"""Log-linear weighting: all pairs of features as in the rows, and no more dependence than that.

The mass is found by iterative proportional fitting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import ClassVar

import numpy as np

from treepurify.budget import DEFAULT_BUDGET, check_budget, rounded_count
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.typing import Array, Indices
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.coded_rows import (
    CodedRows,
    PairTable,
    binned_rows,
    dependent_pairs,
    rows_in_cells,
    spread_draws,
)
from treepurify.weights.drawn_levels import Drawing, LevelsWeighting
from treepurify.weights.weighting import MassTables

__all__ = ["LogLinear"]

_BINS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_MOST_CELLS = 1 << 22
# Cells times pairs in one step, where bins are chosen.
_MOST_WORK = 1 << 22
_TABLES = 3

_TOLERANCE = 1e-9
_STEPS = 200


@dataclass(frozen=True)
class LogLinear(LevelsWeighting):
    """The maximum-entropy distribution that matches the two-way tables of the rows.

    Use it for few rows of a few categories. Each two-way table is first mixed with the product of
    its margins, so that every combination of levels that occur has mass. One joint distribution
    with these tables is then found by iterative proportional fitting (Deming & Stephan 1940). It
    must fit in memory; if there are too many features, use `ChowLiu`. Numbers are divided into
    bins of equal shares of the rows, within which features count as independent.

    `categorical_anova` uses the levels of the model, and the distribution itself. Other engines
    use points drawn from it with a fixed seed, at least four for each row.

    Parameters
    ----------
    prior_count : float, optional
        Weight of the product of the margins, in rows. By default the
        weight with the best leave-one-out likelihood over all pairs, and at least one row.
    bins : int, optional
        Number of bins of a number; by default from 2 to 32, by the same criterion, if the
        joint table stays small.
    n_points : int
        Number of points that are drawn; see above.

    See Also
    --------
    treepurify.weights.ChowLiu : A tree of pairs.
    treepurify.weights.Empirical : The rows as they are.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.LogLinear().describe()
    'log-linear'
    """

    name: ClassVar[str] = "log-linear"

    def _fit(self, columns: Columns, row_weights: RowWeights, memory_budget: int) -> Drawing:
        coded, gain = self._binned(columns, row_weights)
        joint = _joint(coded, self.prior_count, memory_budget)
        cells = joint.mass.ravel()

        def draw(n_points: int, rng: np.random.Generator) -> Sequence[Indices]:
            return np.unravel_index(spread_draws(cells, n_points, rng), joint.mass.shape)

        facts = {"cells": cells.size, "gain": gain, "error": joint.error, "steps": joint.steps}
        return Drawing(coded, draw, facts)

    def _binned(self, columns: Columns, row_weights: RowWeights) -> tuple[CodedRows, float]:
        """Return the rows in the bins of best leave-one-out likelihood, and their gain."""
        best: CodedRows | None = None
        most = 0.0
        for bins in _BINS if self.bins is None else (self.bins,):
            coded = binned_rows(columns, row_weights, bins)
            work = prod(coded.sizes) * comb(len(coded.sizes), 2)
            if best is not None and (work > _MOST_WORK or coded.sizes == best.sizes):
                continue
            pairs = dependent_pairs(coded, self.prior_count, one_share=True)
            gain = sum(pair.gain for pair in pairs)
            if best is None or gain > most:
                best, most = coded, gain
        if best is None:
            raise InvalidInputError("X has no rows; pass the rows that represent the distribution")
        return best, most

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset; each cell counts as one level."""
        joint = _joint(rows_in_cells(grid, rows, self.name), self.prior_count, DEFAULT_BUDGET).mass
        every = range(joint.ndim)
        return {
            subset: joint.sum(axis=tuple(j for j in every if j not in subset)).transpose(
                np.argsort(np.argsort(subset))
            )
            for subset in subsets
        }


@dataclass(frozen=True, eq=False)
class _FittedJoint:
    """A joint mass, and how near its tables come to the required ones.

    Parameters
    ----------
    mass : ndarray of float64, shape (n_levels...)
        The joint mass over all levels of all features.
    error : float
        Largest sum of absolute differences between its tables and the required ones.
    steps : int
        How often all tables were fitted.
    """

    mass: Array
    error: float
    steps: int


def _joint(rows: CodedRows, prior_count: float | None, memory_budget: int) -> _FittedJoint:
    """Return the fitted joint mass.

    Raises
    ------
    InvalidInputError
        If it has too many cells.
    MemoryBudgetError
        If it would not fit.
    """
    n_cells = prod(rows.sizes)
    if n_cells > _MOST_CELLS:
        raise InvalidInputError(
            f"the {len(rows.sizes)} features have {rounded_count(n_cells)} combinations of "
            f'values, but weights="log-linear" allows at most {_MOST_CELLS}; use "chow-liu", which '
            "needs only tables of pairs, or fewer features or bins"
        )
    check_budget(
        8 * _TABLES * n_cells,
        memory_budget,
        f"a joint distribution of {n_cells} combinations of values",
        'Use weights="chow-liu".',
    )
    pairs = dependent_pairs(rows, prior_count, one_share=True)
    return _fit_proportionally([rows.margin(j) for j in range(len(rows.sizes))], pairs)


def _fit_proportionally(margins: Sequence[Array], tables: Sequence[PairTable]) -> _FittedJoint:
    """Return the joint mass of the log-linear model of all pairs (Deming & Stephan 1940).

    Starting from independent features, the joint mass is scaled to each table in turn. The tables
    must be margins of some joint mass. What is returned is one, whose margins are consistent
    however far the scaling came.

    Parameters
    ----------
    margins : sequence of ndarray of float64
        Mass of the levels of each feature.
    tables : sequence of PairTable
        Tables with these margins.
    """
    size = len(margins)
    joint = np.ones((1,) * size)
    for j, margin in enumerate(margins):
        joint = joint * margin.reshape([-1 if k == j else 1 for k in range(size)])
    error, steps = 0.0, 0
    while tables and steps < _STEPS:
        error, steps = 0.0, steps + 1
        for table in tables:
            others = tuple(k for k in range(size) if k not in table.pair)
            found = joint.sum(axis=others)
            error = max(error, float(np.abs(found - table.mass).sum()))
            scale = np.divide(table.mass, found, out=np.zeros_like(found), where=found > 0)
            joint *= np.expand_dims(scale, others)
        if error <= _TOLERANCE:
            break
    return _FittedJoint(joint / joint.sum(), error, steps)
