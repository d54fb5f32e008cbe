"""Normal equations of a projection on coarse cells: how they are summed, scaled and factored."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.gram_right_side import add_right_side
from treepurify._kernels.gram_rows import add_rows, scale_equations
from treepurify._kernels.gram_tables import add_tables
from treepurify.engines.tree.arrowhead import Arrowhead, ArrowheadFactor, GappedFactor
from treepurify.engines.tree.cell_coding import CellCoding
from treepurify.engines.tree.coarse_problem import CoarseProblem
from treepurify.engines.tree.ranked_sets import largest_table, rank_rows, rank_sets
from treepurify.typing import Array, Indices

__all__ = ["Equations", "Unknowns", "count_unknowns", "normal_equations"]

# Tables of the target over three features have at most so many cells, which stay near the
# processor.
_MOST_TARGET_CELLS = 8192


class Unknowns(NamedTuple):
    """How many unknowns there are, and how much of them a row meets on average.

    Parameters
    ----------
    number : int
        Cells of all sets of features, without cells of reference.
    on_a_row : float
        How many of them are one on a row.
    features_on_a_row : float
        How many features have a row in a cell with unknowns.
    """

    number: int
    on_a_row: float
    features_on_a_row: float


def count_unknowns(problem: CoarseProblem) -> Unknowns:
    """Return the number of unknowns, as if features were independent where rows are concerned."""
    layout, margins = problem.terms.layout, np.concatenate(problem.margins)
    first = layout.start[:-1]
    # Behind the last feature of a set stands one that changes nothing.
    sizes = np.append(np.add.reduceat(margins > 0, first, dtype=np.float64) - 1, 1.0)
    beside = np.append(1 - np.maximum.reduceat(margins, first), 1.0)
    number, active = (x[layout.features].prod(axis=1).sum() for x in (sizes, beside))
    return Unknowns(int(number), float(active), float(beside[:-1].sum()))


@dataclass(frozen=True, eq=False)
class Equations:
    """Normal equations of the unknowns with mass, scaled to a unit diagonal.

    `kept` and `empty` are the unknowns with and without mass, `scaling` what each of the
    former is multiplied with. `right` is not scaled. Neither is `sums`, the matrix of all
    unknowns, which is to be multiplied by `unit`.
    """

    kept: Indices
    empty: Indices
    scaling: Array
    sums: Arrowhead
    unit: float
    right: Array

    def image(self, vectors: Array) -> Array:
        """Return the scaled matrix times vectors."""
        factors = np.sqrt(self.unit) * self.scaling[:, None]
        unscaled = np.zeros((len(self.kept) + len(self.empty), vectors.shape[1]))
        unscaled[self.kept] = factors * vectors
        return np.asarray(factors * self.sums.image(unscaled)[self.kept])

    def factor(
        self, ridge: float, dtype: type[np.floating[Any]] = np.float64
    ) -> ArrowheadFactor | None:
        """Factor the scaled matrix with `ridge` added to its diagonal, if it is positive."""
        return self._scaled(dtype).factor(ridge)

    def factor_with_gaps(self, least: float) -> GappedFactor:
        """Factor the scaled matrix without the equations whose pivot is below `least`."""
        return self._scaled(np.float64).factor_with_gaps(least)

    def _scaled(self, dtype: type[np.floating[Any]]) -> Arrowhead:
        bounds = np.searchsorted(self.kept, self.sums.bounds)
        scaled = Arrowhead.zeros(bounds, len(self.kept), dtype)
        factors = np.sqrt(self.unit) * self.scaling
        parts = *self.sums.parts(), *scaled.parts()
        scale_equations(self.kept, self.sums.bounds, bounds, factors, *parts)
        return scaled


def normal_equations(problem: CoarseProblem, coding: CellCoding) -> Equations:
    """Sum the normal equations over the rows."""
    right = np.zeros((len(coding.entries), problem.target.shape[1]))
    unit, weights = _weights_in_units(problem.weights)
    sums = Arrowhead.zeros(coding.bounds, len(coding.entries), weights.dtype)
    if _are_tables_cheaper(problem):
        _add_by_tables(problem, coding, weights, sums, right)
    else:
        _add_row_by_row(problem, coding, weights, sums, right)
    mass = unit * sums.diagonal()
    kept, empty = np.flatnonzero(mass > 0), np.flatnonzero(mass == 0)
    return Equations(kept, empty, 1 / np.sqrt(mass[kept]), sums, unit, right[kept])


def _weights_in_units(weights: Array) -> tuple[float, npt.NDArray[np.generic]]:
    """Return a unit and the weights in it; where all rows weigh the same, these are counts.

    Counts are small integers, so that what a row writes to stays near the processor.
    """
    if np.ptp(weights) == 0:
        return float(weights[0]), np.ones(len(weights), dtype=np.int32)
    return 1.0, weights


def _are_tables_cheaper(problem: CoarseProblem) -> bool:
    """Return whether tables of joint cells give the equations sooner than one row at a time.

    Rows add to each pair of unknowns that are one on them, and there are as many tables as pairs of
    sets. The work is in nanoseconds of one core, as measured.
    """
    unknowns, n_rows = count_unknowns(problem), len(problem.cells)
    n_sets = len(problem.terms.subsets)
    on_a_row = 3.1 * unknowns.features_on_a_row**2 + 0.18 * unknowns.on_a_row**2
    by_rows = n_rows * (28.0 + on_a_row)
    by_tables = 750.0 * n_sets**2 + 2.5 * n_rows * n_sets + 0.18 * unknowns.number**2
    return by_tables < by_rows


def _add_by_tables(
    problem: CoarseProblem,
    coding: CellCoding,
    weights: npt.NDArray[np.generic],
    sums: Arrowhead,
    right: Array,
) -> None:
    """Add the rows by way of tables of joint cells of up to four features."""
    sets, ranked = rank_sets(coding, problem.margins)
    codes = rank_rows(problem.cells, coding, sets, ranked)
    add_tables(codes, weights, sets, largest_table(sets), *sums.parts())
    target = problem.weights[:, None] * problem.target
    add_right_side(codes, target, sets, _MOST_TARGET_CELLS, right)


def _add_row_by_row(
    problem: CoarseProblem,
    coding: CellCoding,
    weights: npt.NDArray[np.generic],
    sums: Arrowhead,
    right: Array,
) -> None:
    """Add each row to the matrix directly."""
    add_rows(
        problem.cells,
        weights,
        problem.weights,
        problem.target,
        coding.arrays,
        coding.bounds,
        *sums.parts(),
        right,
    )
