"""Sums over rows of the products of a `ProductPlan`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from treepurify.engines.legendre.design import rows_a_block
from treepurify.engines.legendre.linearisation import functions_and_extras
from treepurify.engines.legendre.product_plan import Product, ProductPlan
from treepurify.typing import Array

__all__ = ["ProductSums", "RowPart", "add_rows", "no_rows", "rows_a_part"]

RowPart = tuple[Mapping[int, Array], Array, Array]


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Weighted sums over rows; added to in place.

    Parameters
    ----------
    seconds : ndarray of float64, shape (n_table, n_table)
        Products of the first table of a plan with itself.
    thirds, fourths : tuple of ndarray of float64
        Its other products.
    """

    seconds: Array
    thirds: tuple[Array, ...]
    fourths: tuple[Array, ...]

    def merge(self, other: "ProductSums") -> None:
        """Add the sums over other rows."""
        np.add(self.seconds, other.seconds, out=self.seconds)
        for own, more in zip(self.thirds + self.fourths, other.thirds + other.fourths, strict=True):
            np.add(own, more, out=own)


def no_rows(plan: ProductPlan) -> ProductSums:
    """Return the sums over no rows."""
    return ProductSums(
        np.zeros((plan.n_table, plan.n_table)),
        tuple(np.zeros(product.shape) for product in plan.thirds),
        tuple(np.zeros(product.shape) for product in plan.fourths),
    )


def rows_a_part(plan: ProductPlan) -> int:
    """Return how many rows should be added at a time."""
    return rows_a_block(plan.n_pairs + plan.n_table)


def add_rows(plan: ProductPlan, sums: ProductSums, parts: Iterable[RowPart]) -> None:
    """Add parts of the rows to the sums.

    Parameters
    ----------
    plan : ProductPlan
        What is summed.
    sums : ProductSums
        Is added to.
    parts : iterable of (mapping of int to ndarray, ndarray, ndarray)
        Scaled values or levels of each feature; weights, not negative; and the function about its
        mean or something near it, shape (n_rows, n_outputs). At most `rows_a_part` rows each.
    """
    memory: tuple[Array, ...] = ()
    for coordinates, weights, values in parts:
        n_rows = len(weights)
        if not memory or n_rows > memory[0].shape[1]:
            memory = np.empty((plan.n_table, n_rows)), np.empty((plan.n_pairs, n_rows))
        table, pairs = (array[:, :n_rows] for array in memory)
        _fill(plan, coordinates, weights, values, table, pairs)
        np.add(sums.seconds, table @ table.T, out=sums.seconds)
        _add_products(plan.thirds, pairs, table, sums.thirds)
        _add_products(plan.fourths, pairs, pairs, sums.fourths)


def _fill(
    plan: ProductPlan,
    coordinates: Mapping[int, Array],
    weights: Array,
    values: Array,
    table: Array,
    pairs: Array,
) -> None:
    # With the root of the weights in each factor, their products have the weights.
    root = np.sqrt(weights)
    table[0] = root
    np.multiply(values.T, root, out=table[1 : 1 + plan.n_outputs])
    plain = {}
    for j, rows in plan.functions.items():
        axis, degree = plan.basis.axes[j], plan.basis.degree
        if j in plan.extras:
            functions, extras = functions_and_extras(axis, coordinates[j], degree)
            np.multiply(extras.T, root, out=table[slice(*plan.extras[j])])
        else:
            functions = axis.functions(coordinates[j], degree)
        plain[j] = np.ascontiguousarray(functions.T)
        np.multiply(plain[j], root, out=table[slice(*rows)])
    for (j, k), rows in plan.pairs.items():
        target = pairs[slice(*rows)].reshape(len(plain[j]), len(plain[k]), -1)
        np.multiply(table[slice(*plan.functions[j]), None], plain[k], out=target)


def _add_products(
    products: tuple[Product, ...], pairs: Array, other: Array, sums: tuple[Array, ...]
) -> None:
    for product, total in zip(products, sums, strict=True):
        np.add(total, pairs[slice(*product.left)] @ other[slice(*product.right)].T, out=total)
