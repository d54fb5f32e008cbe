"""Second moments of the columns and of the function, summed over rows however they come.

Where rows in memory have the same value of a feature, its functions are constants. So what the
other factors of its columns have in common with all columns is summed once for each value, and only
then multiplied by the functions: fewer multiplications by the number of functions of the feature.
This holds with densities, too, and is done where it is cheaper and loses no digits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from treepurify.engines.legendre.design import (
    LegendreBasis,
    ScaledRows,
    design_blocks,
    fill_design,
    rows_a_block,
)
from treepurify.engines.legendre.problem import EvaluatedRows, RowParts
from treepurify.grids.grid import Subset
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array, Indices

__all__ = [
    "GramSums",
    "Moments",
    "centred_values",
    "features_to_group",
    "measure_moments",
    "moments_from",
]

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


@dataclass(eq=False)
class GramState:
    """Weighted sums over rows of columns and function, about fixed numbers, and of products.

    Parameters
    ----------
    weight : float
        Sum of the weights.
    values, squares, largest : ndarray of float64, shape (n_outputs,)
        The function, its square, and the largest absolute value of the function itself.
    columns : ndarray of float64, shape (n_plain,)
        The columns that are in no group.
    products : ndarray of float64, shape (n_plain, n_plain)
        Their products; the lower triangle counts.
    with_values : ndarray of float64, shape (n_plain, n_outputs)
        Products of them and the function.
    groups : list of tuple of ndarray of float64
        For each group the products of functions and factors with everything, and those of two
        functions with two factors.
    about : ndarray of float64, shape (n_columns,), optional
        What was taken off the columns; None before the first rows.
    """

    weight: float
    values: Array
    squares: Array
    largest: Array
    columns: Array
    products: Array
    with_values: Array
    groups: list[tuple[Array, Array]]
    about: Array | None


@dataclass(frozen=True, eq=False)
class GramSums:
    """The statistic of the products of columns with each other and with the function.

    Both are centred before they are multiplied, and at their means over all rows afterwards,
    which is exact and loses no digits where a mean is large compared with the spread.

    Parameters
    ----------
    basis : LegendreBasis
        The columns.
    rows : EvaluatedRows
        How rows are read.
    about_values : ndarray of float64, shape (n_outputs,)
        Is taken off the function.
    about_columns : ndarray of float64, shape (n_columns,), optional
        Is taken off the columns; their means over the first rows of a table by default.
    grouped : tuple of int
        Features whose columns are summed value by value; see `features_to_group`.
    """

    basis: LegendreBasis
    rows: EvaluatedRows
    about_values: Array
    about_columns: Array | None = None
    grouped: tuple[int, ...] = ()

    @cached_property
    def groups(self) -> list[_Group]:
        """The columns of each feature that is grouped."""
        groups = []
        left = list(self.basis.densities)
        for feature in self.grouped:
            subsets = tuple(s for s in left if feature in s)
            left = [s for s in left if feature not in s]
            places = _places(self.basis, feature, subsets)
            at_others = self.basis.columns_of(left)
            groups.append(_Group(feature, subsets, tuple(left), places, at_others))
        return groups

    @cached_property
    def plain(self) -> list[Subset]:
        """The subsets whose columns are in no group."""
        return [s for s in self.basis.densities if not set(s) & set(self.grouped)]

    def zero(self) -> GramState:
        """Return the sums over no rows."""
        n_plain, n_outputs = len(self.basis.columns_of(self.plain)), len(self.about_values)
        values, squares, largest = np.zeros((3, n_outputs))
        groups = []
        for group in self.groups:
            n_functions, n_factors = group.places.shape
            n_table = n_factors + len(group.at_others) + n_outputs + 1
            with_all = np.zeros((n_functions, n_factors * n_table))
            groups.append((with_all, np.zeros((n_functions**2, n_factors**2))))
        return GramState(
            0.0,
            values,
            squares,
            largest,
            np.zeros(n_plain),
            np.zeros((n_plain, n_plain), order="F"),
            np.zeros((n_plain, n_outputs)),
            groups,
            self.about_columns,
        )

    def add(self, state: GramState, batch: RowBatch) -> GramState:
        """Return the sums with those over a batch."""
        return self.added(state, self.rows.parts(batch))

    def added(self, state: GramState, parts: RowParts) -> GramState:
        """Return the sums with those over scaled rows."""
        for rows, values in parts:
            centred = values - self.about_values
            weighted = rows.weights[:, None] * centred
            state.weight += float(rows.weights.sum())
            state.values += weighted.sum(axis=0)
            state.squares += (weighted * centred).sum(axis=0)
            np.maximum(state.largest, np.abs(values).max(axis=0, initial=0.0), out=state.largest)
            if self.groups:
                if state.about is None:
                    state.about = _first_means(self.basis, rows, self.groups[0].others)
                for group, sums in zip(self.groups, state.groups, strict=True):
                    self._add_values(group, sums, rows, centred, state.about)
            if self.plain:
                self._add_columns(state, rows, weighted)
        return state

    def _add_columns(self, state: GramState, rows: ScaledRows, weighted: Array) -> None:
        # NumPy and SciPy each have threads for BLAS, which slow each other down when both are used.
        from scipy.linalg.blas import dgemm, dsyrk

        at = self.basis.columns_of(self.plain)
        for start, stop, block in design_blocks(self.basis, rows, self.plain):
            weights = rows.weights[start:stop]
            if state.about is None:
                state.about = _mean(block, weights)
            np.subtract(block, state.about[at], out=block)
            multiplied = np.column_stack((weighted[start:stop], weights))
            sums = dgemm(1.0, block, multiplied, trans_a=True)
            state.with_values += sums[:, :-1]
            state.columns += sums[:, -1]
            np.multiply(block, np.sqrt(weights)[:, None], out=block)
            state.products = dsyrk(
                1.0, block, beta=1.0, c=state.products, trans=1, lower=1, overwrite_c=1
            )

    def _add_values(
        self,
        group: _Group,
        sums: tuple[Array, Array],
        rows: ScaledRows,
        centred: Array,
        about: Array,
    ) -> None:
        """Add the sums of the rows of each value, a few values at a time."""
        n_functions, n_factors = group.places.shape
        values, number = np.unique(rows.coordinates[group.feature], return_inverse=True)
        functions = self.basis.axes[group.feature].functions(values, self.basis.degree)
        n_table = sums[0].shape[1] // n_factors
        # A feature with many levels has many more products of functions than sums.
        of_value = 8 * max(n_factors * n_table, n_functions**2)
        n_batch = int(np.clip(_BATCH_BYTES // of_value, 1, _MOST_GROUPS))
        batch = np.empty((n_batch, n_factors, n_table))
        of_values: list[int] = []
        for codes, table in self._sorted_tables(group, rows, centred, about, number):
            edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
            for start, stop in pairwise(edges):
                part = table[:, start:stop]
                np.matmul(part[:n_factors], part.T, out=batch[len(of_values)])
                of_values.append(int(codes[start]))
                if len(of_values) == n_batch:
                    _add_batch(functions[of_values], batch, *sums)
                    of_values.clear()
        if of_values:
            _add_batch(functions[of_values], batch[: len(of_values)], *sums)

    def _sorted_tables(
        self, group: _Group, rows: ScaledRows, centred: Array, about: Array, number: Indices
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
            fill_design(self.basis, coordinates, group.subsets, factors, without=group.feature)
            fill_design(self.basis, coordinates, group.others, columns)
            np.subtract(columns, about[group.at_others, None], out=columns)
            table[last:-1] = centred[chosen].T
            table[-1] = 1.0
            np.multiply(table, np.sqrt(rows.weights[chosen]), out=table)
            yield number[chosen], table

    def merge(self, state: GramState, other: GramState) -> GramState:
        """Return the sums over the rows of both, about the same numbers."""
        state.weight += other.weight
        state.values += other.values
        state.squares += other.squares
        np.maximum(state.largest, other.largest, out=state.largest)
        state.columns += other.columns
        state.products += other.products
        state.with_values += other.with_values
        for sums, more in zip(state.groups, other.groups, strict=True):
            for total, added in zip(sums, more, strict=True):
                np.add(total, added, out=total)
        return state

    def moments(self, state: GramState) -> Moments | None:
        """Return the moments about the means of all rows; None where groups lose too many digits.

        The state is no longer used.
        """
        columns, values = state.columns / state.weight, state.values / state.weight
        squares = state.squares / state.weight - values**2
        is_constant = np.sqrt(np.maximum(squares, 0.0)) <= _ROUNDING * state.largest
        products = state.products
        if len(columns):
            from scipy.linalg.blas import dsyr

            products /= state.weight
            products = dsyr(-1.0, columns, lower=1, a=products, overwrite_a=1)
        # The transpose of the lower triangle in Fortran order is an upper one in C order.
        gram = products.T
        covariances = state.with_values / state.weight - np.outer(columns, values)
        means = columns
        if self.groups:
            found = self._with_groups(state, gram, columns, covariances, values)
            if found is None:
                return None
            gram, means, covariances = found
        elif state.about is not None:
            means = columns + state.about
        _mirror_upper(gram)
        return Moments(
            gram,
            means,
            np.where(is_constant, 0.0, covariances),
            values + self.about_values,
            np.where(is_constant, 0.0, squares),
        )

    def _with_groups(
        self, state: GramState, plain: Array, columns: Array, with_plain: Array, values: Array
    ) -> tuple[Array, Array, Array] | None:
        """Return the upper triangle of the covariances of all columns, means, and covariances.

        `columns` and `values` are means about what was taken off.
        """
        n_columns, about = self.basis.n_columns, np.asarray(state.about)
        at = self.basis.columns_of(self.plain)
        gram = np.zeros((n_columns, n_columns))
        gram[np.ix_(at, at)] = plain
        means = about.copy()
        means[at] += columns
        covariances = np.empty((n_columns, len(values)))
        covariances[at] = with_plain
        tables = []
        for group, (with_all, _) in zip(self.groups, state.groups, strict=True):
            tables.append(with_all.reshape(group.places.size, -1))
            tables[-1] /= state.weight
            means[group.places.ravel()] = tables[-1][:, -1]
        for group, table, (_, among) in zip(self.groups, tables, state.groups, strict=True):
            n_functions, n_factors = group.places.shape
            at_own, others = group.places.ravel(), group.at_others
            np.divide(among, state.weight, out=among)
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
            covariances[at_own] = table[:, last:-1] - np.outer(means[at_own], values)
        return gram, means, covariances


def moments_from(sums: GramSums, reduce: Callable[[GramSums], GramState]) -> Moments:
    """Return the moments after all rows, in a second pass where groups would lose digits.

    Parameters
    ----------
    sums : GramSums
        The statistic.
    reduce : callable
        Returns the state of a statistic after all rows.
    """
    found = sums.moments(reduce(sums))
    if found is None:
        plain = replace(sums, grouped=())
        found = plain.moments(reduce(plain))
    if found is None:
        raise AssertionError("columns in no group lose no digits")
    return found


def measure_moments(basis: LegendreBasis, rows: ScaledRows, values: Array) -> Moments:
    """Return the moments over rows in memory.

    Parameters
    ----------
    basis : LegendreBasis
        The columns.
    rows : ScaledRows
        The rows.
    values : ndarray of float64, shape (n_rows, n_outputs)
        The function.
    """
    evaluated = EvaluatedRows(basis.axes, None, (rows, values))
    grouped = tuple(features_to_group(basis, rows))
    sums = GramSums(basis, evaluated, rows.weights @ values, grouped=grouped)
    return moments_from(sums, lambda one: one.added(one.zero(), [(rows, values)]))


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
