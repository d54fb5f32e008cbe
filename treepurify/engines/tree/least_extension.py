"""Functions given on the cells with mass, extended to those without so that their norm is least."""

from dataclasses import dataclass

import numpy as np

from treepurify._kernels.family_tables import anova
from treepurify._kernels.lapack import substitute
from treepurify.engines.tree.arrowhead import Arrowhead, ArrowheadFactor, routines_of
from treepurify.engines.tree.coarse_problem import CoarseProblem, Indicators
from treepurify.engines.tree.normal_equations import CellCoding, Equations
from treepurify.typing import Array, Indices

__all__ = ["LeastExtension", "extend_least"]


@dataclass(frozen=True, eq=False)
class LeastExtension:
    """How functions extend from the cells with mass.

    The norm is the mean square where features are independent. Functions are rows of their
    coefficients, those of the equations, and become rows of tables: the functional ANOVA, whose
    components are orthogonal.

    Parameters
    ----------
    problem : CoarseProblem
        The projection, with the margins.
    kept : ndarray of int
        Entries of the unknowns with mass in the tables.
    scaling : ndarray of float64
        What each of them is multiplied with.
    empty : ndarray of int
        Entries of the unknowns without mass.
    indicators : Indicators
        The latter as functions.
    factor : ArrowheadFactor
        The factor of their products, scaled to a unit diagonal.
    """

    problem: CoarseProblem
    kept: Indices
    scaling: Array
    empty: Indices
    indicators: Indicators
    factor: ArrowheadFactor

    def tables(self, vectors: Array) -> Array:
        """Return the tables of functions extended with the least norm."""
        tables = self._spread(self.kept, self.scaling * vectors)
        if len(self.empty):
            sides = self.factor.solve(self._against_empty(tables).T).T
            per_root = 1 / np.sqrt(self.indicators.mass)
            tables -= self._spread(self.empty, per_root * sides)
        return tables

    def norms(self, vectors: Array) -> Array:
        """Return the inner products of functions extended with the least norm.

        They are those of the functions less those of what extends them.
        """
        tables = self._spread(self.kept, self.scaling * vectors)
        against = self._against_empty(tables)
        substitute(routines_of(np.float64), self.factor.parts.rest, np.bool_(False), against)
        tables *= np.sqrt(self.problem.masses)
        return np.asarray(tables @ tables.T - against @ against.T)

    def slopes(self, tables: Array) -> Array:
        """Return half the derivative of the square norm of extended functions, by coefficient."""
        layout, margins = self.problem.terms.layout, self.problem.margins
        kept = layout.indicators(self.kept, margins)
        return np.asarray(self.scaling * kept.mass * kept.sums(tables))

    def _spread(self, entries: Indices, values: Array) -> Array:
        terms, margins = self.problem.terms, np.concatenate(self.problem.margins)
        tables = np.zeros((len(values), int(terms.layout.base[-1])))
        tables[:, entries] = values
        anova(terms.layout, margins, tables)
        return tables

    def _against_empty(self, tables: Array) -> Array:
        return np.asarray(np.sqrt(self.indicators.mass) * self.indicators.sums(tables))


def extend_least(
    problem: CoarseProblem, coding: CellCoding, equations: Equations
) -> LeastExtension:
    """Return how functions of some equations extend.

    Raises
    ------
    LinAlgError
        If rounding leaves the norm of what extends them without a factorisation.
    """
    kept, empty = coding.entries[equations.kept], coding.entries[equations.empty]
    indicators = problem.terms.layout.indicators(empty, problem.margins)
    norm = Arrowhead.zeros(np.zeros(1, dtype=np.int64), len(empty), np.float64)
    indicators.add_products(norm.rest)
    scaling = 1 / np.sqrt(indicators.mass)
    norm.rest[:] *= scaling[:, None] * scaling
    factor = norm.factor(0.0)
    if factor is None:
        raise np.linalg.LinAlgError("the norm of empty cells is not positive definite")
    return LeastExtension(problem, kept, equations.scaling, empty, indicators, factor)
