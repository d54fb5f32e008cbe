"""Second moments of the columns and of the function over rows.

Where rows have the same value of a feature, its functions are constants. So what the other
factors of its columns have in common with all columns is summed once for each value, and only then
multiplied by the functions: fewer multiplications by the number of functions of the feature.
This holds with densities, too, and is done where it is cheaper and loses no digits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treepurify.engines.legendre.design import (
    LegendreBasis,
    ScaledRows,
    design_blocks,
    fill_design,
    rows_a_block,
)
from treepurify.grids.grid import Subset
from treepurify.typing import Array, Indices

# The upper triangle of the covariances of columns, their means, and covariances with the function.
_Found = tuple[Array, Array, Array]

# A standard deviation of so much of the largest value is rounding.
_ROUNDING = 1e-14
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
class Moments:
    """Second moments of the columns and of the function, about their means.

    Parameters
    ----------
    gram : ndarray of float64, shape (n_columns, n_columns)
        Covariances of the columns, symmetric.
    means : ndarray of float64, shape (n_columns,)
        Means of the columns.
    covariances : ndarray of float64, shape (n_columns, n_outputs)
        Covariances of the columns with the function.
    value_means, value_squares : ndarray of float64, shape (n_outputs,)
        Mean and variance of the function; a variance that is rounding counts as zero.
    """

    gram: Array
    means: Array
    covariances: Array
    value_means: Array
    value_squares: Array


@dataclass(frozen=True, eq=False)
class _Group:
    """The columns of a feature, which are summed value by value, and the other columns.

    `places` are the positions of its columns, shape (n_functions, n_factors), with the products of
    functions of their other features as factors.
    """

    feature: int
    subsets: tuple[Subset, ...]
    others: tuple[Subset, ...]
    places: Indices
    at_others: Indices


def measure_moments(basis: LegendreBasis, rows: ScaledRows, values: Array) -> Moments:
    """Return the moments over rows, column by column where groups of values would lose digits.

    Parameters
    ----------
    basis : LegendreBasis
        The columns.
    rows : ScaledRows
        The rows.
    values : ndarray of float64, shape (n_rows, n_outputs)
        The function.
    """
    found = grouped_moments(basis, rows, values, features_to_group(basis, rows))
    found = grouped_moments(basis, rows, values, ()) if found is None else found
    if found is None:
        raise AssertionError("columns in no group lose no digits")
    return found


def grouped_moments(
    basis: LegendreBasis, rows: ScaledRows, values: Array, grouped: Sequence[int]
) -> Moments | None:
    """Return the moments over rows; None where groups lose too many digits.

    Columns and function are centred before they are multiplied, columns at their means over the
    first rows, and at their means over all rows afterwards, which is exact and loses no digits
    where a mean is large compared with the spread.

    Parameters
    ----------
    basis, rows, values
        See `measure_moments`.
    grouped : sequence of int
        Features whose columns are summed value by value; see `features_to_group`.
    """
    about_values = rows.weights @ values
    centred = values - about_values
    weighted = rows.weights[:, None] * centred
    value_means = weighted.sum(axis=0)
    squares = (weighted * centred).sum(axis=0) - value_means**2
    largest = np.abs(values).max(axis=0, initial=0.0)
    is_constant = np.sqrt(np.maximum(squares, 0.0)) <= _ROUNDING * largest
    groups = _groups_of(basis, grouped)
    if groups:
        found = _with_groups(basis, groups, rows, centred, weighted)
        if found is None:
            return None
    else:
        found = _plain_moments(basis, list(basis.densities), rows, weighted, None)
    gram, means, covariances = found
    _mirror_upper(gram)
    return Moments(
        gram,
        means,
        np.where(is_constant, 0.0, covariances),
        value_means + about_values,
        np.where(is_constant, 0.0, squares),
    )


def _groups_of(basis: LegendreBasis, grouped: Sequence[int]) -> list[_Group]:
    """Return the columns of each feature that is grouped."""
    groups = []
    left = list(basis.densities)
    for feature in grouped:
        subsets = tuple(s for s in left if feature in s)
        left = [s for s in left if feature not in s]
        places = _places(basis, feature, subsets)
        groups.append(_Group(feature, subsets, tuple(left), places, basis.columns_of(left)))
    return groups


def _plain_moments(
    basis: LegendreBasis,
    subsets: Sequence[Subset],
    rows: ScaledRows,
    weighted: Array,
    about: Array | None,
) -> _Found:
    """Return what is found of some columns; means are about `about`, where it is given."""
    # NumPy and SciPy each have threads for BLAS, which slow each other down when both are used.
    from scipy.linalg.blas import dgemm, dsyr, dsyrk

    at = basis.columns_of(subsets)
    if not len(at):
        return np.zeros((0, 0)), np.zeros(0), np.zeros((0, weighted.shape[1]))
    columns, with_values = np.zeros(len(at)), np.zeros((len(at), weighted.shape[1]))
    products = np.zeros((len(at), len(at)), order="F")
    own = None if about is None else about[at]
    for start, stop, block in design_blocks(basis, rows, subsets):
        weights = rows.weights[start:stop]
        own = _mean(block, weights) if own is None else own
        np.subtract(block, own, out=block)
        multiplied = np.column_stack((weighted[start:stop], weights))
        sums = dgemm(1.0, block, multiplied, trans_a=True)
        with_values += sums[:, :-1]
        columns += sums[:, -1]
        np.multiply(block, np.sqrt(weights)[:, None], out=block)
        products = dsyrk(1.0, block, beta=1.0, c=products, trans=1, lower=1, overwrite_c=1)
    products = dsyr(-1.0, columns, lower=1, a=products, overwrite_a=1)
    covariances = with_values - np.outer(columns, weighted.sum(axis=0))
    # The transpose of the lower triangle in Fortran order is an upper one in C order.
    return products.T, columns if about is not None else columns + np.asarray(own), covariances


def _means_by_value(
    basis: LegendreBasis,
    group: _Group,
    rows: ScaledRows,
    centred: Array,
    about: Array,
) -> tuple[Array, Array]:
    """Return means of products of functions and factors with everything, and of two of each.

    The rows of each value are summed first, a few values at a time.
    """
    n_functions, n_factors = group.places.shape
    n_table = n_factors + len(group.at_others) + centred.shape[1] + 1
    with_all = np.zeros((n_functions, n_factors * n_table))
    among = np.zeros((n_functions**2, n_factors**2))
    values, number = np.unique(rows.coordinates[group.feature], return_inverse=True)
    functions = basis.axes[group.feature].functions(values, basis.degree)
    # A feature with many levels has many more products of functions than sums.
    of_value = 8 * max(n_factors * n_table, n_functions**2)
    n_batch = int(np.clip(_BATCH_BYTES // of_value, 1, _MOST_GROUPS))
    batch = np.empty((n_batch, n_factors, n_table))
    of_values: list[int] = []
    for codes, table in _sorted_tables(basis, group, rows, centred, about, number):
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
    return with_all, among


def _sorted_tables(
    basis: LegendreBasis,
    group: _Group,
    rows: ScaledRows,
    centred: Array,
    about: Array,
    number: Indices,
) -> Iterator[tuple[Indices, Array]]:
    """Yield the number of each row's value, increasing, and what is multiplied on these rows.

    That is, times the root of the weights, one row each: the other factors of the feature's
    columns, the other columns and the function centred, and the constant.
    """
    n_factors, n_outputs = group.places.shape[1], centred.shape[1]
    last = n_factors + len(group.at_others)
    n_table = last + n_outputs + 1
    order = np.argsort(number, kind="stable")
    height = min(rows_a_block(n_table), rows.n_rows)
    memory = np.empty((n_table, height))
    for start in range(0, rows.n_rows, height):
        chosen = order[start : start + height]
        table = memory[:, : len(chosen)]
        coordinates = {j: values[chosen] for j, values in rows.coordinates.items()}
        factors, columns = table[:n_factors], table[n_factors:last]
        fill_design(basis, coordinates, group.subsets, factors, without=group.feature)
        fill_design(basis, coordinates, group.others, columns)
        np.subtract(columns, about[group.at_others, None], out=columns)
        table[last:-1] = centred[chosen].T
        table[-1] = 1.0
        np.multiply(table, np.sqrt(rows.weights[chosen]), out=table)
        yield number[chosen], table


def _with_groups(
    basis: LegendreBasis,
    groups: Sequence[_Group],
    rows: ScaledRows,
    centred: Array,
    weighted: Array,
) -> _Found | None:
    """Return what is found of all columns; None where groups lose too many digits."""
    about = _first_means(basis, rows, groups[0].others)
    by_value = [_means_by_value(basis, group, rows, centred, about) for group in groups]
    subsets = groups[-1].others
    plain = _plain_moments(basis, subsets, rows, weighted, about)
    n_columns, at, value_means = basis.n_columns, basis.columns_of(subsets), weighted.sum(axis=0)
    gram, means = np.zeros((n_columns, n_columns)), about.copy()
    covariances = np.empty((n_columns, len(value_means)))
    gram[np.ix_(at, at)], covariances[at] = plain[0], plain[2]
    means[at] += plain[1]
    tables = []
    for group, (with_all, _) in zip(groups, by_value, strict=True):
        tables.append(with_all.reshape(group.places.size, -1))
        means[group.places.ravel()] = tables[-1][:, -1]
    for group, table, (_, among) in zip(groups, tables, by_value, strict=True):
        n_functions, n_factors = group.places.shape
        at_own, others = group.places.ravel(), group.at_others
        pairs = among.reshape(n_functions, n_functions, n_factors, n_factors)
        inside = pairs.transpose(0, 2, 1, 3).reshape(len(at_own), len(at_own))
        mean_squares = np.diag(inside).copy()
        inside -= np.outer(means[at_own], means[at_own])
        if np.any(np.diag(inside) < _LEAST_SHARE * mean_squares):
            return None
        gram[np.ix_(at_own, at_own)] = inside
        last = n_factors + len(others)
        across = table[:, n_factors:last]
        across -= np.outer(means[at_own], means[others] - about[others])
        gram[np.ix_(at_own, others)] = across
        gram[np.ix_(others, at_own)] = across.T
        covariances[at_own] = table[:, last:-1] - np.outer(means[at_own], value_means)
    return gram, means, covariances


def features_to_group(basis: LegendreBasis, rows: ScaledRows) -> list[int]:
    """Return the features whose columns are summed value by value, one after the other.

    Those of each are multiplied with the columns of later features, and of features that are not
    among them.
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
            n_own = sum(count for subset, count in left.items() if j in subset)
            factors, others = n_own / size, n_columns - n_own
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


def _places(basis: LegendreBasis, feature: int, subsets: Sequence[Subset]) -> Indices:
    """Return the columns of a feature, shape (n_functions, n_factors) of their other factors."""
    every = np.arange(basis.n_columns)
    parts = []
    for subset in subsets:
        shaped = every[basis.slices[subset]].reshape(basis.shape(subset))
        moved = np.moveaxis(shaped, subset.index(feature), 0)
        parts.append(moved.reshape(len(moved), -1))
    return np.hstack(parts)


def _add_batch(functions: Array, batch: Array, with_all: Array, among: Array) -> None:
    """Multiply sums over the rows of each value by the functions of the value, and add them up."""
    n_values, n_factors = batch.shape[:2]
    np.add(with_all, functions.T @ batch.reshape(n_values, -1), out=with_all)
    squares = (functions[:, :, None] * functions[:, None]).reshape(n_values, -1)
    inner = batch[:, :, :n_factors].reshape(n_values, -1)
    np.add(among, squares.T @ inner, out=among)


def _first_means(basis: LegendreBasis, rows: ScaledRows, subsets: Sequence[Subset]) -> Array:
    """Return the means of the columns of some subsets over the first rows; zero for others."""
    means = np.zeros(basis.n_columns)
    _, stop, block = next(design_blocks(basis, rows, subsets))
    means[basis.columns_of(subsets)] = _mean(block, rows.weights[:stop])
    return means


def _mean(block: Array, weights: Array) -> Array:
    return np.asarray(weights @ block / weights.sum())


def centred_values(values: Array, weights: Array) -> Array:
    """Return values about their means; zero where they differ by rounding only."""
    centred = values - weights @ values
    scale = np.abs(values).max(axis=0, initial=0.0)
    is_constant = np.sqrt(weights @ centred**2) <= _ROUNDING * scale
    return np.where(is_constant, 0.0, centred)


def _mirror_upper(matrix: Array, block: int = 512) -> None:
    """Copy the upper triangle of a square matrix onto the lower one, block by block."""
    n = len(matrix)
    for start in range(0, n, block):
        stop = min(start + block, n)
        diagonal = matrix[start:stop, start:stop]
        diagonal[np.tril_indices(stop - start, -1)] = diagonal.T[np.tril_indices(stop - start, -1)]
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
