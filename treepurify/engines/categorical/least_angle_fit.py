"""Choose functions by least angle regression instead of in canonical order.

All functions up to an order are put into one system, and the LASSO with an information
criterion discards what is redundant: the direction that the paper names as future work
(Ferrere et al. 2026, section 6). Every candidate is orthogonal to all functions of fewer of
its features, so whatever is selected is hierarchically orthogonal, also where the functions
below were not selected.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.categorical.cells import NumberedCells, start_numbering
from treepurify.engines.categorical.indicators import SparseRows
from treepurify.engines.categorical.observations import Observations
from treepurify.engines.categorical.selected_functions import (
    SubsetFunctions,
    check_rows,
    selected_functions,
)
from treepurify.engines.categorical.solution import CategoricalFit
from treepurify.engines.common.least_angle import FullFit, TooFewRowsError, full_fit, lars_path
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.typing import Array, Indices, Mask

Functions = dict[Subset, SubsetFunctions]

_FUNCTIONS_A_BLOCK = 512
_MOST_REFINEMENTS = 6
# Share of a function's norm that must be left once it is orthogonal to fewer features.
_LEFT = 1e-7
# Share of a column's square that earlier columns must leave for it to be independent.
_PIVOT_SHARE = 1e-11
# A mean over rows is known to about so much of the largest value.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Sparse:
    """What least angle regression selected.

    Parameters
    ----------
    fit : CategoricalFit
        The least-squares fit by the selected functions.
    mass : dict
        Mass of each cell of each subset with a selected function.
    rank : int
        Number of selected functions, the constant included.
    candidates, independent : int
        Number of functions tried, and of those independent of each other.
    criterion : str
        ``"bic"``, or ``"rank"`` where a number of functions was given.
    noise_variance : tuple of float
        What the criterion takes for the noise of each output: the variance that all
        candidates together leave. Empty without a criterion.
    """

    fit: CategoricalFit
    mass: dict[Subset, Array]
    rank: int
    candidates: int
    independent: int
    criterion: str
    noise_variance: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class _UnitColumns:
    """Candidates as columns of norm one."""

    functions: Functions
    rows: SparseRows
    lengths: Array
    gram: Array


def fit_by_least_angle(
    observations: Observations,
    subsets: Iterable[Subset],
    rank: int | None,
    n_rows: float,
    memory_budget: int,
    progress: ProgressReport,
) -> Sparse:
    """Select functions of the given subsets on the LASSO path, and fit them by least squares.

    Parameters
    ----------
    observations : Observations
        The support, its mass and the values.
    subsets : iterable of tuple of int
        Candidates; every subset after all of its own subsets.
    rank : int, optional
        Number of functions to stop at, the constant included; else the support of least BIC.
        For several outputs the union of their supports is taken.
    n_rows : float
        Number of rows, for the criterion.
    memory_budget : int
        Bytes that tables may take.
    progress : callable
        Called with a word, and how far the work is.

    Raises
    ------
    InvalidInputError
        If there are as many independent functions as rows, and no rank is given.
    MemoryBudgetError
        If the system would not fit.
    """
    known, functions = _candidates(observations, subsets, memory_budget, progress)
    system = _system(known, functions, memory_budget, progress)
    centred = observations.values - observations.mass @ observations.values
    total = np.asarray(observations.mass @ centred**2 + observations.within)
    # What is constant but for rounding has no effects to select.
    varies = np.sqrt(total) > _ROUNDING * np.abs(observations.values).max(axis=0, initial=0.0)
    centred, total = np.where(varies, centred, 0.0), np.where(varies, total, 0.0)
    right = _inner_products(observations, known, system, centred)
    _, independent = _factor(system.gram)
    noise: tuple[float, ...] = ()
    if rank is not None:
        kept = _first_on_path(system, right, total, rank - 1)
    else:
        kept, noise = _best_on_path(system, right, total, n_rows, progress)
    chosen = _only(functions, kept, known, memory_budget)
    fit, used = _least_squares(observations, known, chosen, memory_budget, progress)
    return Sparse(
        fit,
        {subset: known.mass[subset] for subset in fit.effects},
        1 + used,
        system.rows.n_rows,
        len(independent),
        "bic" if rank is None else "rank",
        noise,
    )


def _candidates(
    observations: Observations,
    subsets: Iterable[Subset],
    memory_budget: int,
    progress: ProgressReport,
) -> tuple[NumberedCells, Functions]:
    """Number all cells and make all functions orthogonal to those of fewer features."""
    known = start_numbering(observations, memory_budget)
    wanted, count, entries = [], 0, 0
    for subset in subsets:
        shape = observations.shape(subset)
        n_functions = int(np.prod([size - 1 for size in shape]))
        count += n_functions
        # The system, its factors and the path's; and functions given cell by cell.
        entries += n_functions * int(np.prod(shape))
        check_budget(
            32 * count**2 + 8 * entries,
            memory_budget,
            f"a system of at least {count} functions",
            'Pass a smaller order, fewer bins, neighbours=, or selection="greedy" with a rank.',
        )
        wanted.append(subset)
    functions: Functions = {}
    for position, subset in enumerate(wanted):
        known.add(observations, subset)
        kept = np.ones(tuple(size - 1 for size in observations.shape(subset)), dtype=np.bool_)
        functions[subset] = selected_functions(known.mass[subset], kept, memory_budget)
        progress("preparing functions: effect", position, len(wanted))
    known.joint.count()
    return known, functions


def _system(
    known: NumberedCells, functions: Functions, memory_budget: int, progress: ProgressReport
) -> _UnitColumns:
    """Inner products of all functions, from the joint mass of two cells."""
    rows = _rows(known, functions, memory_budget)
    joint = known.joint
    n_cells, n_functions = joint.n_cells, rows.n_rows
    check_budget(
        32 * n_functions**2 + 16 * _FUNCTIONS_A_BLOCK * n_cells + known.n_bytes + rows.n_bytes,
        memory_budget,
        f"a system of {n_functions} functions",
        'Pass a smaller order or fewer bins, or use selection="greedy" with a rank.',
    )
    joint_mass = joint.table[:n_cells, :n_cells]
    gram = np.empty((n_functions, n_functions))
    for first in range(0, n_functions, _FUNCTIONS_A_BLOCK):
        last = min(first + _FUNCTIONS_A_BLOCK, n_functions)
        with_cells = np.empty((last - first, n_cells))
        rows.take(np.arange(first, last)).multiply(joint_mass, with_cells)
        rows.multiply(np.ascontiguousarray(with_cells.T) * joint.scale, gram[:, first:last])
        progress("building the system: function", first, n_functions)
    squares = np.diagonal(gram)
    full = np.concatenate(
        [np.zeros(0), *(_full_squares(of_subset) for of_subset in functions.values())]
    )
    has_own = squares > _LEFT**2 * full
    lengths = np.where(has_own, np.sqrt(np.where(has_own, squares, 1.0)), np.inf)
    gram /= lengths
    gram /= lengths[:, None]
    return _UnitColumns(functions, rows, lengths, gram)


def _rows(known: NumberedCells, functions: Functions, memory_budget: int) -> SparseRows:
    """Return all functions as combinations of indicators."""
    parts = [SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    held = known.n_bytes + sum(of_subset.n_bytes for of_subset in functions.values())
    for subset, of_subset in functions.items():
        reference = known.references(subset)
        check_rows(of_subset, reference, memory_budget, held)
        parts.append(of_subset.rows(reference, known.numbers, subset))
        # They are held once more when they are stacked.
        held += 2 * parts[-1].n_bytes
    return SparseRows.stack(parts)


def _full_squares(functions: SubsetFunctions) -> Array:
    """Mean square of each function before it was made orthogonal."""
    squares = functions.inverse
    for axis in range(squares.ndim):
        last = np.take(squares, [-1], axis=axis)
        squares = np.delete(squares, -1, axis=axis) + last
    return np.asarray(squares[functions.kept])


def _inner_products(
    observations: Observations, known: NumberedCells, system: _UnitColumns, values: Array
) -> Array:
    """Inner products of values at the points with the columns, shape (n_columns, n_outputs)."""
    weighted = observations.mass[:, None] * values
    with_cells = np.zeros((known.joint.n_cells, values.shape[1]))
    with_cells[0] = weighted.sum(axis=0)
    below = {
        part
        for subset in system.functions
        for size in range(1, len(subset) + 1)
        for part in combinations(subset, size)
    }
    needed = sorted(below)
    for subset, sums in zip(needed, observations.sums_each(needed, weighted), strict=True):
        numbers = known.numbers[subset]
        with_cells[numbers[numbers >= 0]] = sums[numbers >= 0]
    products = np.empty((system.rows.n_rows, values.shape[1]))
    system.rows.multiply(with_cells, products)
    return np.asarray(products / system.lengths[:, None])


def _best_on_path(
    system: _UnitColumns, right: Array, total: Array, n_rows: float, progress: ProgressReport
) -> tuple[Mask, tuple[float, ...]]:
    """Return the union over outputs of the supports of least BIC, and the noise behind it."""
    kept = np.zeros(len(right), dtype=np.bool_)
    noise = []
    gram = system.gram * n_rows
    for k, right_side in enumerate(right.T):
        progress("following the path: output", k, right.shape[1])
        if total[k] <= 0:
            noise.append(0.0)
            continue
        full = _full_fit(gram, right_side * n_rows, total[k] * n_rows, n_rows)
        path = lars_path(gram, right_side * n_rows, total[k] * n_rows, stop=("bic", n_rows, full))
        best = int(np.argmin(path.criterion("bic", n_rows, full.noise_variance)))
        kept[path.support(best)] = True
        noise.append(full.noise_variance)
    return kept, tuple(noise)


def _full_fit(gram: Array, right: Array, total: float, n_rows: float) -> FullFit:
    try:
        return full_fit(gram, right, total, n_rows)
    except TooFewRowsError as error:
        raise TooFewRowsError(
            'selection="lars" selects by BIC, which needs more rows than independent functions '
            f"(there are {n_rows:.0f} rows): pass a smaller order, or a rank"
        ) from error


def _first_on_path(system: _UnitColumns, right: Array, total: Array, most: int) -> Mask:
    """Return the union over outputs of the largest supports that together have `most` columns."""
    kept = np.zeros(len(right), dtype=np.bool_)
    paths = [
        lars_path(system.gram, right_side, square, max_terms=most)
        for right_side, square in zip(right.T, total, strict=True)
        if square > 0 and most > 0
    ]
    for each in range(most, 0, -1):
        kept[:] = False
        for path in paths:
            step = int(np.flatnonzero(path.n_terms <= each)[-1])
            kept[path.support(step)] = True
        if kept.sum() <= most:
            break
    return kept


def _only(functions: Functions, kept: Mask, known: NumberedCells, memory_budget: int) -> Functions:
    """Return the kept functions of each subset that has any."""
    chosen: Functions = {}
    first = 0
    for subset, of_subset in functions.items():
        last = first + of_subset.n_functions
        mask = np.zeros(of_subset.kept.shape, dtype=np.bool_)
        mask[of_subset.kept] = kept[first:last]
        if mask.any():
            chosen[subset] = selected_functions(known.mass[subset], mask, memory_budget)
        first = last
    return chosen


def _factor(gram: Array) -> tuple[Array, Indices]:
    """Return the upper Cholesky factor with pivoting, and the independent columns in its order."""
    from scipy.linalg.lapack import dpstrf

    if len(gram) == 0:
        return np.zeros((0, 0)), np.zeros(0, np.intp)
    factor, pivots, rank, _ = dpstrf(gram, lower=0, tol=_PIVOT_SHARE)
    return factor[:rank, :rank], np.asarray(pivots[:rank] - 1, dtype=np.intp)


def _least_squares(
    observations: Observations,
    known: NumberedCells,
    chosen: Functions,
    memory_budget: int,
    progress: ProgressReport,
) -> tuple[CategoricalFit, int]:
    """Fit the chosen functions; the residual is projected again until nothing is left.

    Returns
    -------
    fit : CategoricalFit
    n_used : int
        Number of functions used. Where the supports of several outputs depend on each other,
        some of them are not.
    """
    from scipy.linalg import cho_solve

    system = _system(known, chosen, memory_budget, progress)
    factor, used = _factor(system.gram)
    norm = float(np.sqrt(observations.mass @ (observations.values**2).sum(axis=1)))
    intercept = observations.mass @ observations.values
    residual = observations.values - intercept
    ends = np.cumsum([of_subset.n_functions for of_subset in chosen.values()], dtype=np.intp)
    effects = {
        subset: np.zeros((*of_subset.inverse.shape, observations.n_outputs))
        for subset, of_subset in chosen.items()
    }
    error = np.inf
    for _ in range(_MOST_REFINEMENTS):
        right = _inner_products(observations, known, system, residual)
        before, error = error, float(np.abs(right).max(initial=0.0)) / norm if norm > 0 else 0.0
        if error < 1e-15 or error > before / 2:
            break
        coefficients = np.zeros_like(right)
        coefficients[used] = cho_solve((factor, False), right[used])
        parts = np.split(coefficients / system.lengths[:, None], ends[:-1])
        for (subset, of_subset), part in zip(chosen.items(), parts, strict=False):
            table = of_subset.combine(part)
            effects[subset] = effects[subset] + table
            observations.add(subset, -table, residual)
    replaced = sum(
        of_subset.n_functions for of_subset in chosen.values() if of_subset.lower is not None
    )
    return CategoricalFit(np.asarray(intercept), effects, residual, error, replaced), len(used)
