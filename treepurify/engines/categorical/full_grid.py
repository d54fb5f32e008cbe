"""The decomposition on a full grid of independent features: conditional means, centred."""

import math
from itertools import combinations, pairwise

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.categorical.observations import Observations
from treepurify.grids.grid import Subset
from treepurify.typing import Array

__all__ = ["independent_effects", "is_independent"]

_EQUAL = 1e-12


def is_independent(observations: Observations) -> bool:
    """Whether every combination of levels is observed with the product of its margins."""
    if observations.n_points != np.prod([float(n) for n in observations.n_levels]):
        return False
    product = np.ones(observations.n_points)
    for margin, codes in zip(observations.level_mass, observations.codes, strict=True):
        product *= margin[codes]
    return bool(np.all(np.abs(observations.mass - product) <= _EQUAL * product))


def independent_effects(
    observations: Observations, order: int, memory_budget: int
) -> tuple[Array, dict[Subset, Array]]:
    """Return the mean and the effects of up to `order` features (Ferrere et al. 2026, eq. 3).

    Each axis is split into its mean and what is left; the Gram matrix of the closed form is
    block diagonal (remark 3.8), and this is its solution.

    Raises
    ------
    MemoryBudgetError
        If the tables would not fit.
    """
    shape = observations.n_levels
    n_cells = _most_cells(shape, order)
    check_budget(
        8 * (observations.n_outputs + 1) * n_cells,
        memory_budget,
        f"conditional means in {n_cells} cells of up to {order} features",
        "Pass a smaller order.",
    )
    margins = observations.level_mass
    values = np.empty((observations.n_points, observations.n_outputs))
    values[np.ravel_multi_index(tuple(observations.codes), shape)] = observations.values
    active = [j for j, n in enumerate(shape) if n > 1]
    parts: dict[Subset, Array] = {(): values.reshape(*shape, -1)}
    for position, j in enumerate(range(len(shape))):
        split: dict[Subset, Array] = {}
        for subset, table in parts.items():
            # Axes before this one are gone where they were averaged over.
            axis = len(subset)
            mean = np.tensordot(margins[position], table, axes=(0, axis))
            split[subset] = mean
            if j in active and len(subset) < order:
                split[(*subset, j)] = table - np.expand_dims(mean, axis)
        parts = split
    intercept = parts.pop(())
    wanted = [s for size in range(1, order + 1) for s in combinations(active, size)]
    return intercept, {subset: parts[subset] for subset in wanted}


def _most_cells(shape: tuple[int, ...], order: int) -> int:
    """Return how many cells there are at the widest step: tables before and after a split."""
    kept = [1, *[0] * order]
    rest = math.prod(shape)
    widest = before = rest
    for n_levels in shape:
        rest //= n_levels
        split = n_levels if n_levels > 1 else 0
        kept = [1, *(same + split * fewer for fewer, same in pairwise(kept))]
        after = rest * sum(kept)
        widest, before = max(widest, before + after), after
    return widest
