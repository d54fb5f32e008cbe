"""A ridge that grows with the degree, its size by cross-validation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.legendre.design import LegendreBasis, ScaledRows, design_blocks
from treepurify.engines.legendre.least_squares import Coefficients
from treepurify.engines.legendre.moments import Moments
from treepurify.engines.legendre.scaling import Axis, GappedAxis, LevelAxis
from treepurify.rows.columns import Columns
from treepurify.rows.row_order import distinct_numbers
from treepurify.typing import Array, Indices

__all__ = ["PENALTIES", "fold_of_rows", "penalised_least_squares", "penalty_weights"]

PENALTIES = (0.0, *(10.0 ** np.arange(-9.0, 1.25, 0.5)).tolist())
"""Sizes of the ridge that are tried, relative to the variance of a column."""

_FOLDS = 5
_SMALLEST = 1e-13


def fold_of_rows(columns: Columns) -> Indices:
    """Return which of five parts each row belongs to, by its values alone.

    Equal rows are in one part: what is held out is not known from a copy.
    """
    return distinct_numbers(columns) % _FOLDS


def penalty_weights(basis: LegendreBasis, columns: Indices) -> Array:
    """Return the square of the total degree of some columns; contrasts of levels have one."""
    degree = np.empty(basis.n_columns)
    for subset, part in basis.slices.items():
        of_each = [
            _degrees(basis.axes[j], size)
            for j, size in zip(subset, basis.shape(subset), strict=True)
        ]
        degree[part] = np.sum(np.meshgrid(*of_each, indexing="ij"), axis=0).ravel()
    return np.asarray(degree[columns] ** 2)


def _degrees(axis: Axis, size: int) -> Array:
    if isinstance(axis, LevelAxis):
        return np.ones(size)
    if isinstance(axis, GappedAxis):
        return np.append(np.arange(1.0, size), 1.0)
    return np.arange(1.0, size + 1)


def penalised_least_squares(
    plain: Coefficients,
    basis: LegendreBasis,
    rows: ScaledRows,
    values: Array,
    moments: Moments,
    selected: Sequence[Indices],
    columns: Columns,
    memory_budget: int,
) -> Coefficients:
    r"""Return the coefficients that minimise squared error plus a ridge (equation 101).

    The paper leaves the penalty of its equation 101 to be defined. Here it is
    :math:`\lambda \sum_k d_k^2 s_k^2 \beta_k^2` with the total degree `d` of a column and its
    standard deviation `s`, so that what is not determined by many rows is smooth. `lambda` is the
    one of least squared error in five parts of the rows, each predicted from the other four; zero,
    which is plain least squares, is among those tried.

    Parameters
    ----------
    plain : Coefficients
        Those of least squares.
    basis, rows, values, moments, selected
        See `least_squares`.
    columns : Columns
        The rows, for their parts.
    memory_budget : int
        Bytes that second moments of the parts may take.

    Raises
    ------
    MemoryBudgetError
        If the second moments of the parts would not fit.
    """
    every = np.unique(np.concatenate(selected))
    if not len(every):
        return replace(plain, penalty=[0.0] * len(selected))
    check_budget(
        8 * len(every) ** 2 * (_FOLDS + 3),
        memory_budget,
        f"second moments of {len(every)} columns in {_FOLDS} parts of the rows",
        'Select fewer columns, or pass penalty="none".',
    )
    folds = _fold_moments(basis, rows, values, moments, every, fold_of_rows(columns))
    deviation = np.sqrt(np.maximum(np.diag(moments.gram)[every], 0.0))
    scale = np.sqrt(penalty_weights(basis, every)) * np.where(deviation > 0, deviation, 1.0)
    coefficients, penalties = plain.values.copy(), []
    for k, choice in enumerate(selected):
        kept = np.searchsorted(every, choice)
        penalty, found = _cross_validated(folds, kept, k, scale[kept])
        penalties.append(penalty)
        if penalty > 0:
            coefficients[choice, k] = found
    return replace(plain, values=coefficients, penalty=penalties)


@dataclass(frozen=True, eq=False)
class _FoldMoments:
    """Summed second moments of the columns and of the function in each part of the rows."""

    weight: Array
    gram: Array
    covariances: Array
    value_squares: Array


def _fold_moments(
    basis: LegendreBasis,
    rows: ScaledRows,
    values: Array,
    moments: Moments,
    columns: Indices,
    fold: Indices,
) -> _FoldMoments:
    size, n_outputs = len(columns), values.shape[1]
    gram = np.zeros((_FOLDS, size, size))
    covariances = np.zeros((_FOLDS, size, n_outputs))
    squares = np.zeros((_FOLDS, n_outputs))
    weight = np.bincount(fold, rows.weights, _FOLDS).astype(np.float64)
    for start, stop, block in design_blocks(basis, rows):
        centred = block[:, columns] - moments.means[columns]
        rest = values[start:stop] - moments.value_means
        for part in range(_FOLDS):
            inside = fold[start:stop] == part
            weights = rows.weights[start:stop][inside, None]
            weighted = weights * centred[inside]
            gram[part] += weighted.T @ centred[inside]
            covariances[part] += weighted.T @ rest[inside]
            squares[part] += (weights * rest[inside] ** 2).sum(axis=0)
    return _FoldMoments(weight, gram, covariances, squares)


def _cross_validated(
    folds: _FoldMoments, kept: Indices, output: int, scale: Array
) -> tuple[float, Array]:
    """Return the penalty of least held-out error, and the coefficients under it."""
    gram = folds.gram[:, kept[:, None], kept] / scale / scale[:, None]
    right = folds.covariances[:, kept, output] / scale
    errors = np.zeros(len(PENALTIES))
    for part in range(_FOLDS):
        others = 1.0 - folds.weight[part]
        solutions = _solutions(
            (gram.sum(axis=0) - gram[part]) / others, (right.sum(axis=0) - right[part]) / others
        )
        errors += folds.value_squares[part, output] - 2.0 * (solutions @ right[part])
        errors += np.einsum("li,ij,lj->l", solutions, gram[part], solutions)
    # Of equal ones the least.
    best = int(np.argmin(errors))
    return PENALTIES[best], _solutions(gram.sum(axis=0), right.sum(axis=0))[best] / scale


def _solutions(gram: Array, right: Array) -> Array:
    """Return the coefficients under each penalty, shape (n_penalties, n_columns)."""
    values, vectors = np.linalg.eigh(gram)
    # Directions that are rounding have no coefficient without a penalty.
    values = np.maximum(values, 0.0)
    along = vectors.T @ right
    shifted = values + np.array(PENALTIES)[:, None]
    real = shifted > _SMALLEST * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    solutions = np.divide(along, shifted, out=np.zeros_like(shifted), where=real)
    return np.asarray(solutions @ vectors.T)
