"""The columns that a regression chooses from: all, or the best where they are too many."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import comb

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.legendre.densities import Density
from treepurify.engines.legendre.design import (
    Basis,
    Moments,
    ScaledRows,
    count_columns,
    design_blocks,
)
from treepurify.engines.legendre.least_squares import explained_variances, least_squares
from treepurify.engines.legendre.moments import measure_moments
from treepurify.engines.legendre.scaling import Axis
from treepurify.engines.legendre.selection import Selected, TermSelection
from treepurify.progress import ProgressReport
from treepurify.typing import Array

__all__ = ["candidate_columns"]

Subset = tuple[int, ...]
Densities = Callable[[Sequence[Subset]], dict[Subset, Density]]

_SCREENING_DEGREE = 4
# What a tuple of features takes in the list of all of them.
_BYTES_A_SUBSET = 400


def candidate_columns(
    axes: Mapping[int, Axis],
    rows: ScaledRows,
    values: Array,
    make: Densities,
    order: int,
    degree: int,
    selection: TermSelection,
    report: ProgressReport,
    memory_budget: int,
) -> tuple[Basis, int]:
    """Return the columns to choose from, and how many were left out before.

    Parameters
    ----------
    axes : mapping of int to Axis
        The scaled features.
    rows : ScaledRows
        The rows.
    values : ndarray of float64, shape (n_rows, n_outputs)
        Values of the function.
    make : callable
        Returns the densities of some subsets.
    order, degree : int
        Most features of a column, and the largest degree of a polynomial.
    selection : TermSelection
        How many columns there may be.
    report : callable
        Progress.
    memory_budget : int
        Bytes that the regression may take.

    Raises
    ------
    MemoryBudgetError
        If the regression would not fit.
    """
    total = count_columns(axes, order, degree)
    n_mains = count_columns(axes, 1, degree)
    n_subsets = sum(comb(len(axes), size) for size in range(1, order + 1))
    n_columns = min(total, max(selection.max_candidates, n_mains))
    # A component has a column or more.
    n_values = values.shape[1] * min(n_subsets, n_columns)
    check_budget(
        8 * (4 * n_columns**2 + rows.n_rows * (n_values + 2 * len(axes)))
        + _BYTES_A_SUBSET * n_subsets,
        memory_budget,
        f"inner products of {n_columns} columns and components on {rows.n_rows} rows",
        "Lower the degree, the order or max_candidates of TermSelection, use fewer rows, or raise "
        "memory_budget.",
    )
    others = [s for size in range(2, order + 1) for s in combinations(axes, size)]
    basis = Basis(axes, make([(j,) for j in axes]), degree)
    if total > selection.max_candidates:
        others = _screened(basis, others, rows, values, make, selection.max_candidates, report)
    basis = Basis(axes, {**basis.densities, **make(others)}, degree)
    return basis, total - basis.n_columns


def _screened(
    basis: Basis,
    subsets: Sequence[Subset],
    rows: ScaledRows,
    values: Array,
    make: Densities,
    max_candidates: int,
    report: ProgressReport,
) -> list[Subset]:
    """Return the main effects and the interactions that explain most of what these leave.

    Each interaction is fitted on its own, with polynomials of degree up to 4, to the residual
    of all main effects; those with the largest explained share in any output are taken as
    long as their columns at the full degree fit into `max_candidates`.
    """
    residual = values - _fitted(basis, rows, values)
    gains = np.zeros(len(subsets))
    degree = min(basis.degree, _SCREENING_DEGREE)
    for i, subset in enumerate(subsets):
        report("screening interactions", i, len(subsets))
        alone = Basis(basis.axes, make([subset]), degree)
        gains[i] = _gain(measure_moments(alone, rows, residual))
    left = max_candidates - basis.n_columns
    chosen = []
    for i in np.argsort(-gains, kind="stable"):
        size = int(np.prod(basis.shape(subsets[i])))
        if size <= left:
            chosen.append(subsets[i])
            left -= size
    return sorted(chosen, key=lambda s: (len(s), s))


def _fitted(basis: Basis, rows: ScaledRows, values: Array) -> Array:
    moments = measure_moments(basis, rows, values)
    every = Selected(np.arange(basis.n_columns), 0, False, float("nan"), 0)
    coefficients = least_squares(basis, rows, values, moments, [every] * values.shape[1])
    fitted = np.tile(moments.value_means, (rows.n_rows, 1))
    for start, stop, block in design_blocks(basis, rows):
        fitted[start:stop] += (block - moments.means) @ coefficients.values
    return fitted


def _gain(moments: Moments) -> float:
    """Return the largest share of an output's variance that the columns explain."""
    explained = explained_variances(moments.gram, moments.covariances)
    return float(np.max(explained / np.where(moments.value_squares > 0, moments.value_squares, 1)))
