"""One tree's projection as a least-squares problem, and what solves of it return."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.engines.tree.tree_terms import TreeTerms
from treepurify.grids.grid import Subset

__all__ = ["TreeFit", "TreeProblem", "along_axes", "independent_anova"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TreeProblem:
    """Fit a tree by a sum of tables over its own cells, in weighted least squares.

    The measure mixes weighted rows with `share` of the uniform distribution. Of all sums that
    fit equally well, the one of least norm is wanted: least mean square where features keep
    their margins and are independent. That norm is the same for all ways of writing a
    function as a sum of tables, whatever the order of rows and features.

    Parameters
    ----------
    terms : TreeTerms
        The tables.
    cells : ndarray of int, shape (n_rows, n_features)
        Cell of each row along each of the tree's features.
    target : ndarray of float64, shape (n_rows, n_outputs)
        Values of the tree, less their mean under the measure.
    weights : ndarray of float64, shape (n_rows,)
        Mass of each row; with `share` they sum to one.
    margins : tuple of ndarray
        Mass of the cells of each feature under the measure.
    share : float
        Mass of the uniform distribution.
    uniform : tuple of ndarray
        Mass of the cells of each feature under the uniform distribution.
    uniform_products : ndarray of float64, shape (entries of all tables, n_outputs)
        `share` times the inner products of the tree with the cells of each table under the
        uniform distribution; no entries where the share is zero.
    """

    terms: TreeTerms
    cells: npt.NDArray[np.integer[Any]]
    target: Array
    weights: Array
    margins: tuple[Array, ...]
    share: float
    uniform: tuple[Array, ...]
    uniform_products: Array

    def margins_of(self, subset: Subset) -> list[Array]:
        """Return the margin of each feature of a subset."""
        return [self.margins[self.terms.position[j]] for j in subset]

    def spread(self) -> float:
        """Return the largest standard deviation of the tree over the rows and outputs."""
        variance = (self.weights[:, None] * self.target**2).sum(axis=0)
        return float(np.sqrt(variance.max(initial=0.0)))


@dataclass(frozen=True, eq=False)
class TreeFit:
    """The projection of one tree.

    Parameters
    ----------
    tables : dict of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        Tables whose sum is the projection, less the mean of the tree.
    undetermined : int
        Directions, beside cells without rows, in which the rows do not determine the tables.
    error : float
        Estimated norm of the error of the tables.
    steps : int
        Conjugate-gradient steps; 0 for a direct solve.
    converged : bool
        Whether the tolerance was met.
    """

    tables: dict[Subset, Array]
    undetermined: int
    error: float
    steps: int = 0
    converged: bool = True


def along_axes(values: Array, margins: list[Array], position: int) -> Array:
    """Return the mean of a table along one axis, which is kept with length one."""
    shape = [1] * values.ndim
    shape[position] = -1
    return np.asarray((values * margins[position].reshape(shape)).sum(axis=position, keepdims=True))


def independent_anova(problem: TreeProblem, tables: dict[Subset, Array]) -> dict[Subset, Array]:
    """Write a sum of tables as its functional ANOVA where features are independent.

    Many families of tables have the same sum. Where rows leave effects undetermined, what is
    reported for them depends on the tables, so that these must have one stated form.
    """
    n_outputs = problem.target.shape[1]
    pure = {
        subset: tables[subset].copy()
        if subset in tables
        else np.zeros((*problem.terms.shape(subset), n_outputs))
        for subset in problem.terms.family
    }
    for subset in reversed(problem.terms.family):
        margins = problem.margins_of(subset)
        for axis in range(len(subset)):
            mean = along_axes(pure[subset], margins, axis)
            pure[subset] -= mean
            pure[subset[:axis] + subset[axis + 1 :]] += mean.squeeze(axis)
    return pure
