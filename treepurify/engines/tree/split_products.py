"""The functions that a tree is projected on: products of splits that are on one path.

A split sends some cells of a feature to the left. Under independent features, the components of a
tree are sums of products of such sets of cells, one of each feature, whose splits are on one path:
they are what a tree can say of few features. Products of other cells would be many times as many,
and fit the noise of the rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treepurify._kernels.split_products import (
    common_masses,
    list_products,
    mass_in_leaves,
    multiply_masses,
)
from treepurify.budget import check_budget
from treepurify.effects.conditional import run_probabilities
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.engines.tree.split_sides import (
    NO_SIDE,
    Margins,
    Sides,
    Splits,
    side_masses,
    sides_of,
)
from treepurify.typing import Array, Indices, Integers

__all__ = ["SplitProducts", "tree_products"]

# Its number, listed and sorted, and the digits of it.
_BYTES_PER_PRODUCT = 96


@dataclass(frozen=True, eq=False)
class SplitProducts:
    """Products of the sides of a tree's splits, of at most `order` features.

    Parameters
    ----------
    sides : Sides
        The sides that differ where there is mass.
    products : ndarray of int64, shape (n_products, order)
        Sides of each product, increasing, -1 beyond its last: first the one of no side, which is
        one everywhere, then by number of sides. With a product there is each part of it.
    keys : ndarray of int64, shape (n_products,)
        Numbers with the digits ``side + 1``, to the base ``n_sides + 1``; increasing.
    mass : ndarray of float64, shape (n_sides,)
        Probability of each side.
    """

    sides: Sides
    products: Integers
    keys: Integers
    mass: Array

    @cached_property
    def features(self) -> Integers:
        """The features of each product, shape (n_products, order); -1 beyond its last."""
        padded = np.append(self.sides.feature, -1)
        return padded[self.products]

    @cached_property
    def parts(self) -> Integers:
        """Number of each product without each of its sides; -1 beyond the last side."""
        base = len(self.sides.feature) + 1
        size = (self.products >= 0).sum(axis=1)
        parts = np.full(self.products.shape, NO_SIDE, dtype=np.int64)
        for k in range(self.products.shape[1]):
            has = size > k
            behind = base ** (size[has] - 1 - k)
            without = self.keys[has] // (behind * base) * behind + self.keys[has] % behind
            parts[has, k] = np.searchsorted(self.keys, without)
        return parts

    def independent_products(self, margins: Margins) -> Array:
        """Return the mass of every two products where features are independent."""
        sides = self.sides
        runs = sides.run_ptr, sides.run_start, sides.run_stop, sides.feature
        both = np.empty((len(sides.feature), len(sides.feature)))
        common_masses(*runs, *runs, margins, both)
        of_pairs = np.empty((len(self.products), len(self.products)))
        multiply_masses(self.products, sides.feature, both.diagonal().copy(), both, of_pairs)
        return of_pairs

    def in_leaves(self, boxes: LeafBoxes, leaves: Indices, margins: Margins) -> Array:
        """Return the mass of each product in each of some leaves, where features are independent.

        The leaves are neighbours. Shape (n_leaves, n_products).
        """
        sides = self.sides
        of_leaf = boxes.entry_ptr[leaves[0] : leaves[-1] + 2]
        entries = slice(of_leaf[0], of_leaf[-1])
        feature = boxes.entry_feature[entries].astype(np.int64)
        run_ptr = boxes.run_ptr[of_leaf[0] : of_leaf[-1] + 1]
        runs = run_ptr, boxes.run_start, boxes.run_stop, feature
        of_sides = sides.run_ptr, sides.run_start, sides.run_stop, sides.feature
        inside = np.empty((len(feature), len(sides.feature)))
        common_masses(*runs, *of_sides, margins, inside)
        of_entry = run_probabilities(boxes.entry_feature[entries], *runs[:3], *margins)
        sums = np.empty((len(leaves), len(self.products)))
        mass_in_leaves(
            self.products,
            sides.feature,
            side_masses(sides, margins),
            of_leaf - of_leaf[0],
            feature,
            of_entry,
            inside,
            sums,
        )
        sums[boxes.leaf_subset[leaves] < 0] = 0.0
        return sums


def tree_products(splits: Splits, tree: int, order: int, memory_budget: int) -> SplitProducts:
    """Return the products of at most `order` sides of a tree.

    Raises
    ------
    MemoryBudgetError
        If the products would take more bytes than `memory_budget`.
    """
    sides, of_node = sides_of(splits, splits.nodes(tree))
    given = *splits.children(tree), of_node, sides.feature, order
    n_listed = list_products(*given, np.empty(0, dtype=np.int64))
    check_budget(
        _BYTES_PER_PRODUCT * n_listed,
        memory_budget,
        f"the list of {n_listed} products of the splits of tree {tree}",
        'Ask for a smaller order, or for method="coarse".',
    )
    keys = np.empty(n_listed, dtype=np.int64)
    list_products(*given, keys)
    keys = np.append(0, np.unique(keys))
    base = len(sides.feature) + 1
    digits = np.stack([keys // base**k % base for k in reversed(range(order))], axis=1) - 1
    # Sides first, and nothing behind them.
    size = (digits >= 0).sum(axis=1)
    shifted = np.arange(order) + (order - size)[:, None]
    padded = np.concatenate([digits, np.full((len(digits), order), NO_SIDE)], axis=1)
    products = np.take_along_axis(padded, shifted, axis=1)
    return SplitProducts(sides, products, keys, side_masses(sides, splits.margins))
