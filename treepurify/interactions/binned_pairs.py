"""Columns in a few cells each, and an additive fit of a target on them."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify._kernels.quadrants import add_pair_sums
from treepurify.budget import check_budget
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.quantile_cuts import quantile_cuts
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.numeric_cells import numeric_cells
from treepurify.rows.row_weights import equal_parts
from treepurify.typing import Array, Indices

__all__ = ["AdditiveFit", "BinnedColumn", "bin_columns", "fit_additive", "pair_table"]

_MOST_STEPS = 5000
_TOLERANCE = 1e-12
_MOST_NAMED = 8


@dataclass(frozen=True, eq=False)
class BinnedColumn:
    """A column whose rows stand in ordered cells.

    Parameters
    ----------
    cells : ndarray of intp, shape (n_rows,)
        Cell of each row. Numbers come by size and missing values last, categories by the mean
        of the target.
    n_cells : int
        Number of cells.
    cuts : ndarray of float64, optional
        Cuts between the cells of numbers; None for categories.
    categories : tuple of tuple of hashable
        Labels in each cell of categories.
    """

    cells: Indices
    n_cells: int
    cuts: Array | None = None
    categories: tuple[tuple[Hashable, ...], ...] = ()

    def below(self, cut: int) -> str:
        """Return the cells before a cut, in words."""
        if self.cuts is None:
            labels = [str(label) for cell in self.categories[:cut] for label in cell]
            more = f", and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
            return f"one of {', '.join(labels[:_MOST_NAMED])}{more}"
        if cut > len(self.cuts):
            return "not missing"
        return FeatureAxis("", self.cuts[cut - 1 : cut]).labels()[0]


def bin_column(
    values: npt.NDArray[np.floating], spec: FeatureSpec, bins: int, weights: Array, target: Array
) -> BinnedColumn:
    """Return a column in at most `bins` cells of about equal weight, and one for the missing.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        The column; codes where it is categorical.
    spec : FeatureSpec
        What it is.
    bins : int
        Largest number of cells.
    weights : ndarray of float64, shape (n_rows,)
        Weights of the rows, all positive.
    target : ndarray of float64, shape (n_rows,)
        By whose means categories are ordered.
    """
    missing = np.isnan(values)
    if not spec.is_categorical:
        cuts = quantile_cuts(values, bins, weights)
        cells = numeric_cells(values, cuts)
        return BinnedColumn(cells, len(cuts) + 1 + int(missing.any()), cuts)
    labels: list[Hashable] = [*spec.labels, "other", "missing"]
    codes = np.where(missing, len(labels) - 1, np.minimum(values, spec.n_codes)).astype(np.intp)
    weight = np.bincount(codes, weights, minlength=len(labels))
    total = np.bincount(codes, weights * target, minlength=len(labels))
    met = np.flatnonzero(weight)
    order = met[np.argsort(total[met] / weight[met], kind="stable")]
    # The middle of a category on a line of all weights says in which cell it belongs.
    middle = weight[order].cumsum() - weight[order] / 2
    cell_of_place = np.arange(len(order))
    if len(order) > bins:
        parts = equal_parts(middle / weight.sum(), bins)
        cell_of_place = np.unique(parts, return_inverse=True)[1]
    cell = np.zeros(len(labels), dtype=np.intp)
    cell[order] = cell_of_place
    n_cells = int(cell_of_place[-1]) + 1
    named = tuple(
        tuple(labels[code] for code in order[cell_of_place == k].tolist()) for k in range(n_cells)
    )
    return BinnedColumn(cell[codes], n_cells, None, named)


def pair_table(first: BinnedColumn, second: BinnedColumn, values: Array) -> Array:
    """Return the sum of the values of the rows in each pair of cells."""
    table = np.zeros((first.n_cells, second.n_cells))
    add_pair_sums(first.cells, second.cells, values, table)
    return table


@dataclass(frozen=True, eq=False)
class AdditiveFit:
    """The best sum of one number per cell of each column, by weighted least squares.

    Parameters
    ----------
    fitted : ndarray of float64, shape (n_rows,)
        The sum on the rows.
    residual_norm : float
        Norm of the gradient that the solve leaves, relative to the first.
    """

    fitted: Array
    residual_norm: float


def fit_additive(
    columns: list[BinnedColumn], weights: Array, target: Array, memory_budget: int
) -> AdditiveFit:
    """Fit a target by a sum of one function per column, constant in its cells.

    The normal equations are the tables of all pairs of columns; they are solved by conjugate
    gradients, which take the solution of least norm where columns determine each other.

    Raises
    ------
    MemoryBudgetError
        If the equations would not fit.
    """
    from scipy.sparse.linalg import cg

    start = np.concatenate([[0], np.cumsum([column.n_cells for column in columns])])
    size = int(start[-1])
    check_budget(
        16 * size**2,
        memory_budget,
        f"the additive fit of {len(columns)} columns with {size} cells together",
        "Use fewer bins or columns, pass the predictions of an additive model, or raise "
        "memory_budget.",
    )
    mean = np.average(target, weights=weights)
    centred = weights * (target - mean)
    gram = np.zeros((size, size))
    right = np.zeros(size)
    for i, column in enumerate(columns):
        own = slice(start[i], start[i + 1])
        right[own] = np.bincount(column.cells, centred, minlength=column.n_cells)
        for j in range(i + 1):
            other = slice(start[j], start[j + 1])
            gram[own, other] = pair_table(column, columns[j], weights)
            gram[other, own] = gram[own, other].T
    scale = 1.0 / np.sqrt(np.diagonal(gram))
    gram *= scale[:, None] * scale
    right *= scale
    solution, _ = cg(gram, right, rtol=_TOLERANCE, atol=0.0, maxiter=_MOST_STEPS)
    left = float(np.linalg.norm(right - gram @ solution))
    coefficients = scale * solution
    fitted = np.full(len(target), mean)
    for i, column in enumerate(columns):
        fitted += coefficients[start[i] : start[i + 1]][column.cells]
    return AdditiveFit(fitted, left / max(float(np.linalg.norm(right)), 1e-300))


def bin_columns(columns: Columns, bins: int, weights: Array, target: Array) -> list[BinnedColumn]:
    """Return every column in cells; see `bin_column`."""
    return [
        bin_column(values, spec, bins, weights, target)
        for values, spec in zip(columns.values, columns.features, strict=True)
    ]
