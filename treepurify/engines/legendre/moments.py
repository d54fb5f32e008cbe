"""Second moments of the columns and of the function, over rows in memory."""

from collections.abc import Sequence

import numpy as np

from treepurify.engines.legendre.design import (
    Basis,
    Moments,
    ScaledRows,
    centred_values,
    design_blocks,
    mirror_upper,
)
from treepurify.engines.legendre.grouped_moments import features_to_group, grouped_moments
from treepurify.typing import Array

__all__ = ["measure_moments"]


def measure_moments(basis: Basis, rows: ScaledRows, values: Array) -> Moments:
    """Return the moments in one pass over blocks of rows.

    Inner products of features with few distinct values are summed value by value, where that is
    cheaper and loses no digits.
    """
    found = _by_values(basis, rows, values, features_to_group(basis, rows))
    return _of_columns(basis, rows, values) if found is None else found


def _by_values(
    basis: Basis, rows: ScaledRows, values: Array, features: Sequence[int]
) -> Moments | None:
    """Return the moments with the columns of some features summed value by value."""
    if not features:
        return _of_columns(basis, rows, values)
    feature, *later = features
    others = [subset for subset in basis.densities if feature not in subset]
    smaller = Basis(basis.axes, {s: basis.densities[s] for s in others}, basis.degree)
    inner = _by_values(smaller, rows, values, later)
    if inner is None:
        return None
    _, centred = centred_values(values, rows.weights)
    own = grouped_moments(basis, rows, centred, feature, others, inner.means)
    if own is None:
        return None
    left = np.setdiff1d(np.arange(basis.n_columns), own.columns)
    gram = np.empty((basis.n_columns, basis.n_columns))
    gram[np.ix_(own.columns, own.columns)] = own.own
    gram[np.ix_(own.columns, left)] = own.others
    gram[np.ix_(left, own.columns)] = own.others.T
    gram[np.ix_(left, left)] = inner.gram
    means = np.empty(basis.n_columns)
    means[own.columns], means[left] = own.means, inner.means
    covariances = np.empty((basis.n_columns, values.shape[1]))
    covariances[own.columns], covariances[left] = own.covariances, inner.covariances
    return Moments(gram, means, covariances, inner.value_means, inner.value_squares)


def _of_columns(basis: Basis, rows: ScaledRows, values: Array) -> Moments:
    """Return the moments from the product of all columns with themselves.

    The columns are centred at their mean over the first rows before they are multiplied,
    and at their mean over all rows afterwards, which is exact and loses no digits where a
    column's mean is large beside its spread.
    """
    from scipy.linalg.blas import dsyr, dsyrk

    value_means, centred = centred_values(values, rows.weights)
    squares = rows.weights @ centred**2
    n_columns = basis.n_columns
    gram = np.zeros((n_columns, n_columns), order="F")
    means = np.zeros(n_columns)
    covariances = np.zeros((n_columns, values.shape[1]))
    if n_columns == 0:
        return Moments(gram, means, covariances, value_means, squares)
    shift: Array | None = None
    equal = float(rows.weights[0]) if np.ptp(rows.weights) == 0 else None
    for start, stop, block in design_blocks(basis, rows):
        weights = rows.weights[start:stop]
        if shift is None:
            shift = weights @ block / max(float(weights.sum()), np.finfo(float).tiny)
        np.subtract(block, shift, out=block)
        means += weights @ block
        covariances += block.T @ (weights[:, None] * centred[start:stop])
        if equal is None:
            np.multiply(block, np.sqrt(weights)[:, None], out=block)
        scale = 1.0 if equal is None else equal
        gram = dsyrk(scale, block, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)
    if shift is None:
        shift = np.zeros(n_columns)
    gram = dsyr(-1.0, means, lower=1, a=gram, overwrite_a=1)
    # The transpose of the lower triangle in Fortran order is an upper one in C order.
    filled = gram.T
    mirror_upper(filled)
    covariances -= np.outer(means, rows.weights @ centred)
    return Moments(filled, means + shift, covariances, value_means, squares)
