"""How many functions of a fit can move between its components with nothing changed on the rows."""

from functools import cache
from itertools import combinations

from treepurify.engines.legendre.design import Basis, Moments
from treepurify.engines.legendre.least_squares import (
    Coefficients,
    Split,
    Subset,
    columns_of,
    rank_of,
)

__all__ = ["fit_directions", "moving_directions"]


def moving_directions(basis: Basis, moments: Moments, split: Split) -> int:
    """Return how many functions can be part of one component or of another.

    For two features it is the dimension of the functions that both main effects have, such as a
    constant on each of two blocks of levels that no row connects. For three features it is that
    of the pure effects of two and one of them, less the dimension of their sum; what two features
    share is not counted again.
    """

    @cache
    def rank(subsets: tuple[Subset, ...]) -> int:
        return rank_of(moments.gram, columns_of(basis, subsets))

    def below(subset: Subset) -> tuple[Subset, ...]:
        sizes = range(1, len(subset))
        parts = (part for size in sizes for part in combinations(subset, size))
        return tuple(part for part in parts if part in basis.slices)

    def open_in(subset: Subset) -> int:
        pure = sum(rank((*below(part), part)) - rank(below(part)) for part in below(subset))
        return pure - rank(below(subset))

    used = sorted({j for subset in split for j in subset})
    shared = {pair: open_in(pair) for pair in combinations(used, 2)}
    larger = (subset for subset in split if len(subset) > 2)
    beyond = (open_in(s) - sum(shared[pair] for pair in combinations(s, 2)) for s in larger)
    return sum(shared.values()) + sum(max(number, 0) for number in beyond)


def fit_directions(coefficients: Coefficients, moving: int) -> int:
    """Return how many directions of the selected columns the rows leave open, beside those."""
    return max(max(coefficients.open_directions, default=0) - moving, 0)
