"""Fit a sum of tables to a function by weighted least squares: all cells at once, on rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.cell_equations import add_rows
from treepurify.grids.axis import FeatureAxis, group_neighbours
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.rows.row_weights import heaviest, mean_square
from treepurify.typing import Array, Indices, Integers

_MOST_STEPS, _CONVERGED = 100, 1e-10
# If the rows do not determine an unknown, given those before, its pivot is at most a few times the
# share of the ridge in the diagonal. If it depends on them under any distribution, it is rounding.
_OF_RIDGE, _ROUNDING = 4.0, 100 * np.finfo(float).eps


class LeastNorm(NamedTuple):
    """The solution of least norm.

    Parameters
    ----------
    solution : ndarray of float64, shape (n_unknowns, n_outputs)
        The solution.
    error : float
        Size of the last step on the rows: the root of its mean square, summed over the outputs.
    undetermined : int
        About how many unknowns with rows these do not determine, given the others.
    scale : ndarray of float64, shape (n_unknowns,)
        Multiplied by it, the regularised matrix has a unit diagonal.
    factor : ndarray of float64, shape (n_unknowns, n_unknowns)
        The upper triangular factor of this scaled matrix.
    """

    solution: Array
    error: float
    undetermined: int
    scale: Array
    factor: Array

    def solve_regularised(self, right: Array) -> Array:
        """Solve the scaled regularised equations."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self.factor, False), right, check_finite=False))


def least_norm(gram: Array, regularised: Array, right: Array) -> LeastNorm:
    """Return the solution of least norm of ``gram @ x = right``.

    Parameters
    ----------
    gram : ndarray of float64, shape (n_unknowns, n_unknowns)
        Inner products on the rows; it is overwritten by the scaled matrix.
    regularised : ndarray of float64, shape (n_unknowns, n_unknowns)
        The same, with a small multiple of the inner products that define the norm added; it is
        overwritten.
    right : ndarray of float64, shape (n_unknowns, n_outputs)
        Right sides.
    """
    scale = 1.0 / np.sqrt(regularised.diagonal())
    gram *= scale[:, None]
    gram *= scale
    regularised *= scale[:, None]
    regularised *= scale
    factor = _factor(regularised)
    in_rows, pivots = gram.diagonal(), factor.diagonal() ** 2
    is_small = (pivots > _ROUNDING * len(gram)) & (pivots <= _OF_RIDGE * (1.0 - in_rows))
    is_open = is_small & (in_rows > 0)
    found = LeastNorm(np.zeros_like(right), 0.0, int(is_open.sum()), scale, factor)
    residual = scale[:, None] * right
    size, error = float(np.linalg.norm(residual)), 0.0
    for _ in range(_MOST_STEPS):
        step = found.solve_regularised(residual)
        found.solution[:] += step
        explained = gram @ step
        residual -= explained
        error = float(np.sqrt(max(np.sum(step * explained), 0.0)))
        if error <= _CONVERGED * size:
            break
    return found._replace(solution=scale[:, None] * found.solution, error=error)


def _factor(matrix: Array) -> Array:
    """Return the upper triangular factor of a matrix, whose diagonal may be raised by rounding."""
    raised = np.finfo(float).eps * len(matrix)
    while True:
        try:
            # By NumPy: it lets other threads run meanwhile.
            return np.asarray(np.linalg.cholesky(matrix).T, dtype=np.float64)
        except np.linalg.LinAlgError:
            matrix[np.diag_indices_from(matrix)] += raised
            raised *= 4.0


FOLDS = 5
# In units in which each cell by itself has a mean square of one. A direction counts as determined
# above the rank tolerance; the ridge is small enough that a few steps solve for all of these.
_RIDGE, _RANK_TOLERANCE = 1e-10, 1e-9
_FIRST_DIRECTIONS, _INVERSE_STEPS = 8, 3

Axis = tuple[int, int]
"""A feature on the grid of tables of one size: (size, feature)."""
Places = npt.NDArray[np.int32]
"""The place of each row along each axis, shape (n_rows, n_axes)."""


class Tables(NamedTuple):
    """Tables over sets of features, each cell of which is an unknown.

    Parameters
    ----------
    subsets : tuple of tuple of int
        The features of each table.
    axes : tuple of (int, int)
        The axes of all tables.
    places : tuple of ndarray of int
        For each axis, where each cell of the grid is among those with unknowns; -1 for none.
    sets : ndarray of int64, shape (n_tables, most axes of a table)
        The axes of each table, -1 behind the last.
    sizes : ndarray of int64, shape (n_axes,)
        Number of cells with unknowns along each axis.
    first : ndarray of int64, shape (n_tables + 1,)
        First unknown of each table, and the number of all.
    """

    subsets: tuple[Subset, ...]
    axes: tuple[Axis, ...]
    places: tuple[Integers, ...]
    sets: Integers
    sizes: Integers
    first: Integers

    @property
    def n_unknowns(self) -> int:
        """Number of unknowns."""
        return int(self.first[-1])


class Equations(NamedTuple):
    """Normal equations: the matrix, the right side, and the weighted square sum of the target."""

    gram: Array
    right: Array
    square: Array

    def without(self, other: "Equations") -> "Equations":
        """Return the equations of the rows that are not among those of `other`."""
        return Equations(*(one - two for one, two in zip(self, other, strict=True)))

    def gain(self, solution: Array) -> float:
        """Return the share of the target's square sum that a solution explains, over outputs."""
        explained = 2 * np.sum(self.right * solution) - np.sum(solution * (self.gram @ solution))
        return float(explained / max(self.square.sum(), np.finfo(float).tiny))


class Fit(NamedTuple):
    """A least-squares solution without a part that the rows do not determine.

    Parameters
    ----------
    solution : ndarray of float64, shape (n_unknowns, n_outputs)
        The solution.
    directions : ndarray of float64, shape (n_unknowns, n_directions)
        What the rows do not determine: sums of tables that vanish on all of them.
    error : float
        Norm on the rows of the last step to the solution.
    """

    solution: Array
    directions: Array
    error: float


def lay_out(subsets: Sequence[Subset], places: Mapping[Axis, Integers]) -> Tables:
    """Return tables over sets of features, given the place of each cell along each axis."""
    axes = tuple(dict.fromkeys((len(subset), j) for subset in subsets for j in subset))
    number = {axis: i for i, axis in enumerate(axes)}
    sizes = np.array([int(places[axis].max(initial=-1)) + 1 for axis in axes], dtype=np.int64)
    sets = np.full((len(subsets), max(map(len, subsets), default=1)), -1, dtype=np.int64)
    for table, subset in enumerate(subsets):
        sets[table, : len(subset)] = [number[len(subset), j] for j in subset]
    cells = np.where(sets >= 0, np.append(sizes, 1)[sets], 1).prod(axis=1)
    first = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)
    return Tables(tuple(subsets), axes, tuple(places[axis] for axis in axes), sets, sizes, first)


def all_cells(
    rows: Mapping[int, EncodedRows], features: Sequence[int], grids: Mapping[int, Grid]
) -> Tables:
    """Return the tables of all sets of features on all cells that have rows.

    `rows` are on the grid of each size of sets. The heaviest cell along each axis has no unknowns,
    and a constant has one. So no two sums of tables are the same function on all combinations of
    cells.
    """
    places = {}
    for size, own in rows.items():
        for j in features:
            every = np.arange(grids[size].axes[j].n_cells)
            places[size, j] = without_heaviest(every, own.codes[j], own.shares)
    return lay_out([s for size in [0, *rows] for s in combinations(features, size)], places)


def join_cells(
    grid: Grid, rows: EncodedRows, features: Iterable[int], margin: Array, n_cells: int
) -> dict[int, Indices]:
    """Return the coarse cell of each cell of some features; see `merge_cells`.

    Categories are joined in the order of the mean of the output that varies most.
    """
    shares = rows.shares
    leading = margin[:, heaviest(mean_square(margin, shares))]
    joined = {}
    for j in features:
        axis = grid.axes[j]
        mass, sums = (
            np.bincount(rows.codes[j], weights, axis.n_cells).astype(np.float64)
            for weights in (shares, shares * leading)
        )
        means = np.divide(sums, mass, out=np.full(len(mass), -np.inf), where=mass > 0)
        joined[j] = merge_cells(axis, mass, means, n_cells)
    return joined


def merge_cells(axis: FeatureAxis, mass: Array, means: Array, n_cells: int) -> Indices:
    """Return the coarse cell of each cell of an axis, at most `n_cells`, special ones aside.

    Numbers keep their order; categories are ordered by the mean margin of their rows.

    Parameters
    ----------
    axis : FeatureAxis
        The axis.
    mass, means : ndarray of float64, shape (axis.n_cells,)
        Mass of each cell, and the mean margin of its rows.
    n_cells : int
        Most coarse cells.
    """
    n = axis.n_regular
    order = np.argsort(means[:n], kind="stable") if axis.is_categorical else np.arange(n)
    coarse = np.empty(axis.n_cells, dtype=np.intp)
    alone = np.arange(n)
    coarse[order] = alone if n <= n_cells else group_neighbours(mass[order], n_cells)
    coarse[n:] = coarse[:n].max(initial=-1) + 1 + np.arange(axis.n_cells - n)
    return coarse


def without_heaviest(
    coarse: Indices, codes: npt.NDArray[np.integer[Any]], shares: Array
) -> Integers:
    """Return the place of each cell of an axis: -1 where there are no rows, or the most.

    `coarse` joins cells, which `codes` of rows number.
    """
    n_coarse = int(coarse.max(initial=-1)) + 1
    mass = np.bincount(coarse[codes], shares, n_coarse).astype(np.float64)
    has_unknowns = mass > 0
    has_unknowns[heaviest(mass)] = False
    return np.where(has_unknowns, np.cumsum(has_unknowns) - 1, -1)[coarse]


def places_of_rows(tables: Tables, rows: Mapping[int, EncodedRows]) -> Places:
    """Return the place of each row along each axis."""
    n_rows = next(iter(rows.values())).n_rows
    places = np.empty((n_rows, len(tables.axes)), dtype=np.int32)
    for i, ((size, j), own) in enumerate(zip(tables.axes, tables.places, strict=True)):
        places[:, i] = own.astype(np.int32)[rows[size].codes[j]]
    return places


def add_up(tables: Tables, places: Places, weights: Array, target: Array) -> Equations:
    """Return the normal equations of rows."""
    gram = np.zeros((tables.n_unknowns,) * 2)
    right = np.zeros((tables.n_unknowns, target.shape[1]))
    add_rows(places, tables.sets, tables.sizes, tables.first, weights, target, gram, right)
    gram += np.triu(gram, 1).T
    return Equations(gram, right, weights @ target**2)


def equations_of_folds(
    tables: Tables, places: Places, weights: Array, target: Array, fold: Indices
) -> Iterator[Equations]:
    """Yield the normal equations of the rows of each fold."""
    for number in range(FOLDS):
        own = np.flatnonzero(fold == number)
        yield add_up(tables, places[own], weights[own], target[own])


def ridge(equations: Equations, penalty: float) -> Array:
    """Return the solution with a penalty on the squares of the unknowns."""
    from scipy.linalg import solve

    gram = equations.gram.copy()
    gram[np.diag_indices_from(gram)] += penalty
    return np.asarray(solve(gram, equations.right, assume_a="pos", overwrite_a=True))


def solve(equations: Equations) -> Fit:
    """Return the solution of least norm, in which each cell by itself has its mean square."""
    mass = np.diagonal(equations.gram)
    # Cells of several features without a row have no equation, and stay zero.
    kept = np.flatnonzero(mass > 0)
    gram = equations.gram[np.ix_(kept, kept)]
    regularised = gram.copy()
    regularised[np.diag_indices_from(gram)] *= 1.0 + _RIDGE
    fit = least_norm(gram, regularised, equations.right[kept])
    scale = fit.scale[:, None]
    found, own = _undetermined(fit, gram), fit.solution / scale
    solution = np.zeros_like(equations.right)
    solution[kept] = scale * (own - found @ (found.T @ own))
    directions = np.zeros((len(mass), found.shape[1]))
    directions[kept] = scale * found
    return Fit(solution, directions, fit.error)


def _undetermined(fit: LeastNorm, gram: Array) -> Array:
    """Return orthonormal directions that the rows do not determine, of the scaled unknowns."""
    n = len(gram)
    rng = np.random.default_rng(0)
    n_directions = min(_FIRST_DIRECTIONS, n)
    found = np.zeros((n, 0))
    while n_directions:
        vectors = rng.normal(size=(n, n_directions))
        for _ in range(_INVERSE_STEPS):
            vectors = np.linalg.qr(fit.solve_regularised(vectors))[0]
        squares, along = np.linalg.eigh(vectors.T @ (gram @ vectors))
        found = vectors @ along[:, squares < _RANK_TOLERANCE]
        if found.shape[1] < n_directions or n_directions == n:
            break
        n_directions = min(2 * n_directions, n)
    return found


def expand(tables: Tables, solution: Array) -> dict[Subset, Array]:
    """Return each table on the cells of the grid, shape (cells..., n_outputs)."""
    found = {}
    for table, subset in enumerate(tables.subsets):
        axes = tables.sets[table, : len(subset)]
        values = solution[tables.first[table] : tables.first[table + 1]]
        # One more cell along each axis, of zeros, for what has no unknowns: place -1.
        padded = np.zeros((*(tables.sizes[axes] + 1), solution.shape[1]))
        padded[tuple(slice(0, int(size)) for size in tables.sizes[axes])] = values.reshape(
            *tables.sizes[axes], -1
        )
        found[subset] = padded[np.ix_(*(tables.places[axis] for axis in axes))]
    return found
