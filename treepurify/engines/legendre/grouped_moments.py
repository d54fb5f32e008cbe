"""Inner products of the columns of a feature with few distinct values, summed value by value.

Where rows have the same value of a feature, its functions are constants. So what the other factors
of its columns have in common with all columns is summed once for each value, and only then
multiplied by the functions: as many times fewer multiplications as the feature has functions. This
holds with densities, too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treepurify.engines.legendre.design import (
    Basis,
    ScaledRows,
    fill_design,
    mirror_upper,
    rows_a_block,
)
from treepurify.typing import Array, Indices

__all__ = ["GroupedMoments", "features_to_group", "grouped_moments"]

Subset = tuple[int, ...]

# In multiplications: writing a column's value on a row, adding to a sum of a value, and writing a
# product of two functions of a value.
_FILL_COST = 80
_GROUP_COST = 30
_SQUARE_COST = 10
_LEAST_COST = 2e9
_CLEARLY_LESS = 0.9
# Where less of a mean square is left, too many digits are lost with the mean.
_LEAST_SHARE = 1e-4
_BATCH_BYTES = 32 << 20
_MOST_GROUPS = 64


@dataclass(frozen=True, eq=False)
class GroupedMoments:
    """Moments of the columns of one feature about their means.

    Parameters
    ----------
    columns : ndarray of int, shape (n_own,)
        Positions of the columns that depend on the feature.
    own : ndarray of float64, shape (n_own, n_own)
        Their covariances.
    others : ndarray of float64, shape (n_own, n_others)
        Their covariances with other columns.
    means : ndarray of float64, shape (n_own,)
        Their means.
    covariances : ndarray of float64, shape (n_own, n_outputs)
        Their covariances with the function.
    """

    columns: Indices
    own: Array
    others: Array
    means: Array
    covariances: Array


def features_to_group(basis: Basis, rows: ScaledRows) -> list[int]:
    """Return the features whose columns are summed value by value, one after the other.

    Those of each are multiplied with the columns of features that come later, or do not come.
    """
    left = {subset: int(np.prod(basis.shape(subset))) for subset in basis.densities}
    if 0.5 * rows.n_rows * basis.n_columns**2 < _LEAST_COST:
        return []
    sizes = {j: basis.axes[j].n_functions(basis.degree) for subset in left for j in subset}
    values = {j: len(np.unique(rows.coordinates[j])) for j in sizes}
    chosen: list[int] = []
    while left:
        n_columns = sum(left.values())
        costs = {}
        for j, size in sizes.items():
            own = sum(count for subset, count in left.items() if j in subset)
            factors, others = own / size, n_columns - own
            each = factors * (factors + others)
            by_value = values[j] / rows.n_rows
            costs[j] = each * (1.0 + by_value * (size + _GROUP_COST))
            # Products of two functions of each value are written, and multiplied.
            costs[j] += by_value * size**2 * (_SQUARE_COST + factors**2)
            costs[j] += _FILL_COST * n_columns + 0.5 * others**2
        best = min(costs, key=lambda j: (costs[j], j))
        if costs[best] >= _CLEARLY_LESS * 0.5 * n_columns**2:
            break
        chosen.append(best)
        left = {subset: count for subset, count in left.items() if best not in subset}
        del sizes[best]
    return chosen


def grouped_moments(
    basis: Basis,
    rows: ScaledRows,
    centred: Array,
    feature: int,
    others: Sequence[Subset],
    means: Array,
) -> GroupedMoments | None:
    """Return the moments of the columns of a feature, or None where too many digits would cancel.

    Parameters
    ----------
    basis : Basis
        The columns: those of the feature and of `others`.
    rows : ScaledRows
        The rows.
    centred : ndarray of float64, shape (n_rows, n_outputs)
        The function about its mean.
    feature : int
        The feature.
    others : sequence of tuple of int
        Subsets without it, with which its columns are multiplied.
    means : ndarray of float64, shape (n_others,)
        The means of their columns.
    """
    own = [s for s in basis.densities if feature in s]
    places = _places(basis, feature, own)
    n_functions, n_factors = places.shape
    values, number = np.unique(rows.coordinates[feature], return_inverse=True)
    functions = basis.axes[feature].functions(values, basis.degree)
    n_table = n_factors + len(means) + centred.shape[1] + 1
    with_all = np.zeros((n_functions, n_factors * n_table))
    among = np.zeros((n_functions**2, n_factors**2))
    # A feature with many levels has many more products of functions than sums.
    of_value = 8 * max(n_factors * n_table, n_functions**2)
    n_batch = int(np.clip(_BATCH_BYTES // of_value, 1, _MOST_GROUPS))
    batch = np.empty((n_batch, n_factors, n_table))
    of_values: list[int] = []
    tables = _sorted_tables(basis, rows, centred, own, others, means, feature, number)
    for codes, table in tables:
        edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for start, stop in pairwise(edges):
            part = table[:, start:stop]
            np.matmul(part[:n_factors], part.T, out=batch[len(of_values)])
            of_values.append(int(codes[start]))
            if len(of_values) == n_batch:
                _add_batch(functions[of_values], batch, with_all, among)
                of_values.clear()
    if of_values:
        _add_batch(functions[of_values], batch[: len(of_values)], with_all, among)
    return _finished(places, with_all, among, len(means))


def _places(basis: Basis, feature: int, own: Sequence[Subset]) -> Indices:
    """Return the columns of a feature, shape (n_functions, n_factors) of their other factors."""
    every = np.arange(basis.n_columns)
    parts = []
    for subset in own:
        shaped = every[basis.slices[subset]].reshape(basis.shape(subset))
        moved = np.moveaxis(shaped, subset.index(feature), 0)
        parts.append(moved.reshape(len(moved), -1))
    return np.hstack(parts)


def _sorted_tables(
    basis: Basis,
    rows: ScaledRows,
    centred: Array,
    own: Sequence[Subset],
    others: Sequence[Subset],
    means: Array,
    feature: int,
    number: Indices,
) -> Iterator[tuple[Indices, Array]]:
    """Yield the number of each row's value, increasing, and what is multiplied on these rows.

    That is, times the root of the weights, one row each: the other factors of the feature's
    columns, the other columns and the function about their means, and the constant.
    """
    sizes = [int(np.prod([*_factor_shape(basis, subset, feature), 1])) for subset in own]
    n_factors, n_outputs = sum(sizes), centred.shape[1]
    n_table = n_factors + len(means) + n_outputs + 1
    order = np.argsort(number, kind="stable")
    height = min(rows_a_block(n_table), rows.n_rows)
    memory = np.empty((n_table, height))
    for start in range(0, rows.n_rows, height):
        chosen = order[start : start + height]
        table = memory[:, : len(chosen)]
        coordinates = {j: values[chosen] for j, values in rows.coordinates.items()}
        fill_design(basis, coordinates, own, table[:n_factors], without=feature)
        columns = table[n_factors : n_factors + len(means)]
        fill_design(basis, coordinates, others, columns)
        np.subtract(columns, means[:, None], out=columns)
        table[n_factors + len(means) : -1] = centred[chosen].T
        table[-1] = 1.0
        np.multiply(table, np.sqrt(rows.weights[chosen]), out=table)
        yield number[chosen], table


def _factor_shape(basis: Basis, subset: Subset, feature: int) -> list[int]:
    return [size for j, size in zip(subset, basis.shape(subset), strict=True) if j != feature]


def _add_batch(functions: Array, batch: Array, with_all: Array, among: Array) -> None:
    """Multiply sums over the rows of each value by the functions of the value, and add them up."""
    n_values, n_factors = batch.shape[:2]
    np.add(with_all, functions.T @ batch.reshape(n_values, -1), out=with_all)
    squares = (functions[:, :, None] * functions[:, None]).reshape(n_values, -1)
    inner = batch[:, :, :n_factors].reshape(n_values, -1)
    np.add(among, squares.T @ inner, out=among)


def _finished(
    places: Indices, with_all: Array, among: Array, n_others: int
) -> GroupedMoments | None:
    n_functions, n_factors = places.shape
    n_own = n_functions * n_factors
    table = with_all.reshape(n_own, -1)
    means = table[:, -1]
    pairs = among.reshape(n_functions, n_functions, n_factors, n_factors)
    own = pairs.transpose(0, 2, 1, 3).reshape(n_own, n_own)
    squares = np.diag(own).copy()
    own -= np.outer(means, means)
    if np.any(np.diag(own) < _LEAST_SHARE * squares):
        return None
    # Sums of the same products may round differently on either side of the diagonal.
    mirror_upper(own)
    others = table[:, n_factors : n_factors + n_others]
    return GroupedMoments(places.ravel(), own, others, means, table[:, n_factors + n_others : -1])
