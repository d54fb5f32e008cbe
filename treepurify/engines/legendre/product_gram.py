"""Moments of main effects and pairs without densities, from the sums of a `ProductPlan`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from treepurify.engines.legendre.design import mirror_upper
from treepurify.engines.legendre.product_plan import Product, ProductPlan
from treepurify.engines.legendre.product_sums import ProductSums
from treepurify.typing import Array

__all__ = ["CentralMoments", "central_moments"]

Subset = tuple[int, ...]
Range = tuple[int, int]
Axis = tuple[int, int]

# Where less than this is left of what a variance is added up from, too many digits are lost.
_LEAST_SHARE = 1e-3
_BLOCK = 512


@dataclass(frozen=True, eq=False)
class CentralMoments:
    """Moments of the columns about their means.

    Parameters
    ----------
    gram : ndarray of float64, shape (n_columns, n_columns)
        Covariances of the columns.
    means : ndarray of float64, shape (n_columns,)
        Their means.
    covariances : ndarray of float64, shape (n_columns, n_outputs)
        Their covariances with the function.
    """

    gram: Array
    means: Array
    covariances: Array


def central_moments(plan: ProductPlan, sums: ProductSums) -> CentralMoments | None:
    """Return the moments of the columns, or None where too many digits would cancel."""
    basis, means_of = plan.basis, _Means(plan, sums)
    # Blocks of the lower triangle are not filled, but means are taken off some of them.
    gram = np.zeros((basis.n_columns, basis.n_columns))
    for (one, rows), (other, columns) in combinations_with_replacement(basis.slices.items(), 2):
        gram[rows, columns] = _block(means_of, one, other)
    means = np.concatenate([_column_means(means_of, s) for s in basis.slices])
    sizes = np.concatenate([_summed_sizes(means_of, s) for s in basis.slices])
    for start in range(0, basis.n_columns, _BLOCK):
        rows = slice(start, start + _BLOCK)
        gram[rows, start:] -= np.outer(means[rows], means[start:])
    if np.any(np.diag(gram) < _LEAST_SHARE * sizes):
        return None
    mirror_upper(gram)
    outputs = 1, 1 + plan.n_outputs
    with_values = np.concatenate(
        [
            means_of.third(s, outputs)
            if len(s) == 2
            else means_of.second(plan.functions[s[0]], outputs)
            for s in basis.slices
        ]
    )
    covariances = with_values - np.outer(means, means_of.second((0, 1), outputs)[0])
    return CentralMoments(gram, means, covariances)


@dataclass(frozen=True, eq=False)
class _Means:
    """Sums over rows, looked up and divided by the weight of all rows."""

    plan: ProductPlan
    sums: ProductSums

    def second(self, rows: Range, columns: Range) -> Array:
        """Return the means of products of two ranges of the first table."""
        return np.asarray(self.sums.seconds[slice(*rows), slice(*columns)] / self._weight)

    def third(self, pair: Subset, columns: Range) -> Array:
        """Return the means of products of a pair with a range of the first table."""
        plan = self.plan
        at = plan.third_of[pair]
        return self._found(plan.thirds, self.sums.thirds, at, plan.pairs[pair], columns)

    def fourth(self, pair: Subset, other: Subset) -> Array:
        """Return the means of products of two pairs."""
        plan = self.plan
        at = plan.fourth_of[pair]
        rows, columns = plan.pairs[pair], plan.pairs[other]
        return self._found(plan.fourths, self.sums.fourths, at, rows, columns)

    def with_products(self, j: int, columns: Range) -> Array:
        """Return means of what products of two functions of a feature are sums of, times others.

        Shape (1 + n_functions + n_extras, n_columns).
        """
        parts = (0, 1), self.plan.functions[j], self.plan.extras[j]
        return np.concatenate([self.second(rows, columns) for rows in parts])

    def of_products(self, j: int, k: int) -> Array:
        """Return the means of what products are sums of, for two features."""
        parts = (0, 1), self.plan.functions[k], self.plan.extras[k]
        return np.concatenate([self.with_products(j, columns) for columns in parts], axis=1)

    @property
    def _weight(self) -> float:
        return float(self.sums.seconds[0, 0])

    def _found(
        self,
        products: Sequence[Product],
        sums: Sequence[Array],
        at: Sequence[int],
        rows: Range,
        columns: Range,
    ) -> Array:
        for position in at:
            product = products[position]
            if product.right[0] <= columns[0] and columns[1] <= product.right[1]:
                part = sums[position][
                    rows[0] - product.left[0] : rows[1] - product.left[0],
                    columns[0] - product.right[0] : columns[1] - product.right[0],
                ]
                return np.asarray(part / self._weight)
        raise AssertionError("no product of these rows was planned")


def _column_means(means: _Means, subset: Subset) -> Array:
    ranges = [means.plan.functions[j] for j in subset]
    return means.second((0, 1), ranges[0])[0] if len(subset) == 1 else means.second(*ranges).ravel()


def _summed_sizes(means: _Means, subset: Subset) -> Array:
    """Return the mean square of each column with all that is added up to it taken positive."""
    if len(subset) == 1:
        return np.diag(means.second(*[means.plan.functions[subset[0]]] * 2))
    one, other = (np.abs(np.einsum("aam->am", means.plan.coefficients[j])) for j in subset)
    return np.asarray((one @ np.abs(means.of_products(*subset)) @ other.T).ravel())


def _block(means: _Means, one: Subset, other: Subset) -> Array:
    """Return the mean products of the columns of two subsets."""
    if len(one) > len(other):
        return _block(means, other, one).T
    shared = [j for j in one if j in other]
    if len(other) == 1:
        return means.second(means.plan.functions[one[0]], means.plan.functions[other[0]])
    if one == other:
        found, axes = _of_same(means, one)
    elif shared:
        found, axes = _of_sharing(means, one, other, shared[0])
    else:
        found, axes = _of_different(means, one, other)
    # Each axis of the tensor is the function of one feature in one of the two columns.
    wanted = [(0, j) for j in one] + [(1, j) for j in other]
    found = found.transpose([axes.index(axis) for axis in wanted])
    return found.reshape(int(np.prod(found.shape[: len(one)])), -1)


def _of_same(means: _Means, pair: Subset) -> tuple[Array, list[Axis]]:
    """Return the mean products of the columns of a pair with each other."""
    j, k = pair
    found = np.tensordot(means.plan.coefficients[j], means.of_products(j, k), axes=(2, 0))
    found = np.tensordot(found, means.plan.coefficients[k], axes=(2, 2))
    return found, [(0, j), (1, j), (0, k), (1, k)]


def _of_sharing(means: _Means, one: Subset, other: Subset, shared: int) -> tuple[Array, list[Axis]]:
    """Return the mean products of a pair with one of its features, or with a pair that has one."""
    functions = means.plan.functions
    rest = [(0, j) for j in one if j != shared] + [(1, j) for j in other if j != shared]
    rest.sort(key=lambda axis: axis[1])
    if len(rest) == 1:
        among = means.with_products(shared, functions[rest[0][1]])
    else:
        pair = rest[0][1], rest[1][1]
        alone = means.second(*(functions[j] for j in pair)).reshape(-1, 1)
        ranges = functions[shared], means.plan.extras[shared]
        among = np.hstack([alone, *(means.third(pair, columns) for columns in ranges)]).T
    found = np.tensordot(means.plan.coefficients[shared], among, axes=(2, 0))
    sizes = [functions[j][1] - functions[j][0] for _, j in rest]
    return found.reshape(*found.shape[:2], *sizes), [(0, shared), (1, shared), *rest]


def _of_different(means: _Means, one: Subset, other: Subset) -> tuple[Array, list[Axis]]:
    """Return the mean products of columns without a common feature, the other ones of a pair."""
    functions = means.plan.functions
    if len(one) == 1:
        found, features = means.third(other, functions[one[0]]), other + one
    else:
        first, second = means.plan.halves[frozenset(one + other)]
        found, features = means.fourth(first, second), first + second
    sizes = [functions[j][1] - functions[j][0] for j in features]
    return found.reshape(sizes), [(int(j in other), j) for j in features]
