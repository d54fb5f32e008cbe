"""Which sums over rows give all inner products of main effects and pairs without densities.

The inner products of pairs ij and kl are means of products of functions of four features. So are
those of ik and jl, and of il and jk: one set of sums serves all three. Where two columns share a
feature, the product of their functions of it is a sum of few functions: pairs ij and ik need means
of products of three functions, and a pair with itself, or with its own features, of two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

from treepurify.engines.legendre.design import Basis
from treepurify.engines.legendre.linearisation import n_extras, product_coefficients
from treepurify.typing import Array

__all__ = ["Product", "ProductPlan", "product_plan"]

Subset = tuple[int, ...]
Range = tuple[int, int]

# A product of tables with few rows takes as long as if each had so many more.
_MORE_ROWS = 20
# How much faster one symmetric product goes than many, and what putting one block of the matrix in
# its place costs, in multiplications.
_SLOWER = 1.1
_BLOCK_COST = 5e5
_LEAST_COST = 1e9


@dataclass(frozen=True)
class Product:
    """Products of some rows of pairs with some rows of another table, summed over rows.

    Parameters
    ----------
    left, right : tuple of int
        First row and end.
    """

    left: Range
    right: Range

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sums."""
        return self.left[1] - self.left[0], self.right[1] - self.right[0]


@dataclass(frozen=True, eq=False)
class ProductPlan:
    """What is summed over rows.

    There are two tables of functions, one row each: one of the constant, the outputs of the
    function, the functions of single features and what their products need beside these; and one of
    the products of two features. All products within the first are summed.

    Parameters
    ----------
    basis : Basis
        The columns.
    n_outputs : int
        Number of outputs.
    functions, extras : dict of int to (int, int)
        Rows of the first table, by feature.
    n_table : int
        Number of its rows.
    pairs : dict of tuple of int to (int, int)
        Rows of the second table; those of the basis first, then others that help.
    thirds, fourths : tuple of Product
        Products of pairs with the first table, and of pairs with pairs.
    third_of, fourth_of : dict of tuple of int to tuple of int
        Positions of the products of each pair among these.
    halves : dict of frozenset to (Subset, Subset)
        The two pairs whose product serves each four features.
    coefficients : dict of int to ndarray
        See `product_coefficients`, of the features in pairs.
    """

    basis: Basis
    n_outputs: int
    functions: dict[int, Range]
    extras: dict[int, Range]
    n_table: int
    pairs: dict[Subset, Range]
    thirds: tuple[Product, ...]
    fourths: tuple[Product, ...]
    third_of: dict[Subset, tuple[int, ...]]
    fourth_of: dict[Subset, tuple[int, ...]]
    halves: dict[frozenset[int], tuple[Subset, Subset]]
    coefficients: dict[int, Array]

    @property
    def n_pairs(self) -> int:
        """Number of rows of the table of pairs."""
        return max((stop for _, stop in self.pairs.values()), default=0)


def product_plan(basis: Basis, n_rows: int, n_outputs: int) -> ProductPlan | None:
    """Return what to sum, or None where one product of all columns with themselves is cheaper.

    Parameters
    ----------
    basis : Basis
        The columns.
    n_rows, n_outputs : int
        Number of rows, and of outputs of the function.
    """
    given = [s for s in basis.densities if len(s) == 2]
    plain = 0.5 * basis.n_columns**2
    of_blocks = 0.5 * len(basis.densities) ** 2 * _BLOCK_COST / max(n_rows, 1)
    if len(given) < 2 or n_rows * plain < _LEAST_COST or 2.0 * of_blocks > plain:
        return None
    if not all(len(s) <= 2 and s in basis.without_density for s in basis.densities):
        return None
    plan = _plan(basis, given, n_outputs)
    cost = 0.5 * plan.n_table**2 + of_blocks
    cost += sum(_cost(product.left, [product.right]) for product in plan.thirds + plan.fourths)
    return plan if _SLOWER * cost < plain else None


def _plan(basis: Basis, given: Sequence[Subset], n_outputs: int) -> ProductPlan:
    features = sorted({j for subset in basis.densities for j in subset})
    in_pairs = sorted({j for subset in given for j in subset})
    sizes = {j: basis.axes[j].n_functions(basis.degree) for j in features}
    functions, n_main = _laid_out(1 + n_outputs, {j: sizes[j] for j in features})
    more = {j: n_extras(basis.axes[j], basis.degree) for j in in_pairs}
    extras, n_table = _laid_out(n_main, more)
    halves: dict[frozenset[int], tuple[Subset, Subset]] = {}
    wanted: dict[Subset, set[Range]] = {subset: {(0, n_main)} for subset in given}
    for one, other in combinations_with_replacement(given, 2):
        shared = set(one) & set(other)
        rest = sorted(set(one) ^ set(other))
        if not shared:
            halves.setdefault(frozenset(rest), (one, other))
        elif rest:
            (j,) = shared
            ranges = wanted.setdefault((rest[0], rest[1]), set())
            ranges |= {functions[j], extras[j]}
    pairs, _ = _laid_out(0, {(j, k): sizes[j] * sizes[k] for j, k in wanted})
    others: dict[Subset, set[Range]] = {}
    for one, other in halves.values():
        others.setdefault(one, set()).add(pairs[other])
    thirds = _products(pairs, wanted)
    fourths = _products(pairs, others)
    return ProductPlan(
        basis,
        n_outputs,
        functions,
        extras,
        n_table,
        pairs,
        thirds,
        fourths,
        _positions(pairs, thirds),
        _positions(pairs, fourths),
        halves,
        {j: product_coefficients(basis.axes[j], basis.degree) for j in in_pairs},
    )


def _laid_out(start: int, sizes: Mapping[Any, int]) -> tuple[dict[Any, Range], int]:
    """Return consecutive ranges of given sizes, and where the last one ends."""
    ranges = {}
    for key, size in sizes.items():
        ranges[key] = (start, start + size)
        start += size
    return ranges, start


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Join ranges with little between them."""
    joined: list[Range] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1] + _MORE_ROWS:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _products(pairs: dict[Subset, Range], wanted: dict[Subset, set[Range]]) -> tuple[Product, ...]:
    """Return the products; neighbouring pairs are multiplied together where that is cheaper."""
    groups: list[tuple[Range, list[Range]]] = []
    for left, ranges in sorted((pairs[subset], _joined(wanted[subset])) for subset in wanted):
        if groups and groups[-1][0][1] == left[0]:
            before, rights = groups[-1]
            both, union = (before[0], left[1]), _joined(rights + ranges)
            if _cost(both, union) <= _cost(before, rights) + _cost(left, ranges):
                groups[-1] = both, union
                continue
        groups.append((left, ranges))
    return tuple(Product(left, right) for left, rights in groups for right in rights)


def _cost(left: Range, rights: Sequence[Range]) -> int:
    height = left[1] - left[0] + _MORE_ROWS
    return height * sum(stop - start + _MORE_ROWS for start, stop in rights)


def _positions(
    pairs: dict[Subset, Range], products: tuple[Product, ...]
) -> dict[Subset, tuple[int, ...]]:
    return {
        subset: tuple(
            at for at, p in enumerate(products) if p.left[0] <= start and stop <= p.left[1]
        )
        for subset, (start, stop) in pairs.items()
    }
