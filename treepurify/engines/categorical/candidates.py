"""The order in which subsets of features are tried."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from treepurify.arguments import brief, check_whole
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.typing import Array

__all__ = ["Ranking", "candidate_subsets", "check_neighbours", "ranked_features"]

Ranking = Literal["position", "variance"]
Neighbours = dict[int, frozenset[int]]


def check_neighbours(
    neighbours: Mapping[int, Sequence[int]] | None, n_features: int
) -> Neighbours | None:
    """Return the neighbours of each feature, made mutual.

    Raises
    ------
    InvalidInputError
        If a position is not that of a feature.
    """
    if neighbours is None:
        return None
    if not isinstance(neighbours, Mapping):
        raise InvalidInputError(
            "neighbours must be a mapping from the position of a feature to positions of others, "
            f"such as {{0: [1, 2]}}; got {brief(neighbours)}"
        )
    mutual: dict[int, set[int]] = {j: set() for j in range(n_features)}
    for feature, others in neighbours.items():
        check_whole("a feature of neighbours", feature, 0, n_features - 1)
        if not isinstance(others, Iterable):
            raise InvalidInputError(
                f"neighbours of feature {feature} must be positions of features, got "
                f"{brief(others)}"
            )
        for other in others:
            check_whole(f"a neighbour of feature {feature}", other, 0, n_features - 1)
            if feature != other:
                mutual[int(feature)].add(int(other))
                mutual[int(other)].add(int(feature))
    return {j: frozenset(others) for j, others in mutual.items()}


def ranked_features(margins: Sequence[Array], ranking: Ranking) -> list[int]:
    """Return the features with more than one level, in the order in which they are tried.

    By position, or by the variance of their indicators, ``1 - sum(p**2)``, the largest first
    (Ferrere et al. 2026, section 5, binarised MNIST).
    """
    active = [j for j, margin in enumerate(margins) if len(margin) > 1]
    if ranking == "variance":
        active.sort(key=lambda j: float(np.sum(margins[j] ** 2)))
    return active


def candidate_subsets(
    features: Sequence[int], order: int, neighbours: Neighbours | None
) -> Iterator[Subset]:
    """Yield subsets by size, then by rank of their features: Algorithm 1's canonical order.

    With `neighbours`, larger subsets hold features that are all neighbours of each other.
    """
    for size in range(1, min(order, len(features)) + 1):
        if neighbours is None or size == 1:
            subsets: Iterator[Subset] = combinations(features, size)
        else:
            subsets = _cliques((), list(features), size, neighbours)
        for subset in subsets:
            yield tuple(sorted(subset))


def _cliques(
    begun: Subset, rest: list[int], missing: int, neighbours: Neighbours
) -> Iterator[Subset]:
    if missing == 0:
        yield begun
        return
    for position, feature in enumerate(rest):
        near = neighbours[feature]
        later = [other for other in rest[position + 1 :] if other in near]
        if len(later) >= missing - 1:
            yield from _cliques((*begun, feature), later, missing - 1, neighbours)
