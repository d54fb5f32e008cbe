"""Measure how pure a family of purified tensors is."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.purification.solution import largest_entry
from treepurify.typing import Array

__all__ = ["Purity", "SubsetPair", "measure_purity", "subset_pairs"]

Tables = Mapping[Subset, Array]
Axes = Mapping[Subset, tuple[FeatureAxis, ...]]

_ROUNDING_NORM = 1e-9


@dataclass(frozen=True)
class SubsetPair:
    """A component beside one on a subset of its features.

    Parameters
    ----------
    subset, inside : tuple of int
        The two subsets; `inside` is part of `subset`, () for the intercept.
    inner_product : float
        Expectation of the product, the largest in absolute value over the outputs.
    cosine : float
        The same over the norms of both; NaN where a norm is rounding.
    conditional_mean : float
        Largest mean of the component of `subset` given the features `inside`.
    """

    subset: Subset
    inside: Subset
    inner_product: float
    cosine: float
    conditional_mean: float


@dataclass(frozen=True)
class Purity:
    """The largest deviations from orthogonality over all components."""

    conditional_mean: float
    inner_product: float
    cosine: float


def measure_purity(effects: Tables, mass: Tables, axes: Axes, scale: float) -> Purity:
    """Return the largest deviations, relative to `scale`."""
    pairs = subset_pairs(effects, mass, axes, scale)
    divisor = scale if scale > 0 else 1.0
    return Purity(
        max((pair.conditional_mean for pair in pairs), default=0.0) / divisor,
        # Divided twice: the square of a very large or small scale has no double.
        max((abs(pair.inner_product) for pair in pairs), default=0.0) / divisor / divisor,
        max((abs(pair.cosine) for pair in pairs if not np.isnan(pair.cosine)), default=0.0),
    )


def subset_pairs(effects: Tables, mass: Tables, axes: Axes, scale: float) -> list[SubsetPair]:
    """Return every component beside every component on a subset of its features.

    Tables may be built when they are asked for, and those of most features are asked for once.

    Where the axes of the smaller subset are finer, the two are taken to be independent
    within a cell of the coarser axes; with the same axes nothing is assumed.
    """
    norms: dict[Subset, Array] = {}
    # Of one feature, which all its interactions ask for; larger ones would take much memory.
    weighted: dict[Subset, Array] = {}
    pairs = []
    for subset in sorted(effects, key=len):
        effect, cell_mass = effects[subset], mass[subset]
        norms[subset] = np.sqrt(np.einsum("i,ik->k", cell_mass.ravel(), _flat(effect) ** 2))
        total_effect = cell_mass[..., None] * effect
        if len(subset) == 1:
            weighted[subset] = total_effect
        totals = _partial_sums(total_effect, len(subset))
        parts = _partial_sums(cell_mass, len(subset))
        for kept, total in totals.items():
            part = parts[kept]
            means = total / np.where(part > 0, part, 1.0)[..., None]
            inside = tuple(subset[k] for k in kept)
            product, cosine = 0.0, float("nan")
            if inside in effects:
                coarse = tuple(axes[subset][k] for k in kept)
                other = weighted.get(inside)
                if other is None:
                    other = mass[inside][..., None] * effects[inside]
                other = _summed(other, axes[inside], coarse)
                products = _flat(means * other).sum(axis=0)
                product = float(products[np.argmax(np.abs(products))])
                cosine = _cosine(products, norms[subset], norms[inside], scale)
            largest = largest_entry(means)
            pairs.append(SubsetPair(subset, inside, product, cosine, largest))
    return pairs


def _flat(table: Array) -> Array:
    return table.reshape(-1, table.shape[-1])


def _partial_sums(table: Array, order: int) -> dict[Subset, Array]:
    """Sum a table over every non-empty set of its first `order` axes, by the axes kept."""
    sums = {tuple(range(order)): table}
    for size in range(order - 1, -1, -1):
        for kept in combinations(range(order), size):
            dropped = next(k for k in range(order) if k not in kept)
            larger = tuple(sorted((*kept, dropped)))
            sums[kept] = sums[larger].sum(axis=larger.index(dropped))
    del sums[tuple(range(order))]
    return dict(sorted(sums.items(), key=lambda item: (len(item[0]), item[0])))


def _cosine(products: Array, first: Array, second: Array, scale: float) -> float:
    smallest = _ROUNDING_NORM * scale
    real = (first > smallest) & (second > smallest)
    if not real.any():
        return float("nan")
    cosines = products[real] / (first[real] * second[real])
    return float(cosines[np.argmax(np.abs(cosines))])


def _summed(
    weighted: Array, fine: tuple[FeatureAxis, ...], coarse: tuple[FeatureAxis, ...]
) -> Array:
    """Sum mass times effect over the fine cells within each coarse cell."""
    for position, (new, old) in enumerate(zip(fine, coarse, strict=True)):
        if new is not old:
            shape = list(weighted.shape)
            shape[position] = old.n_cells
            total = np.zeros(shape)
            moved = np.moveaxis(weighted, position, 0)
            np.add.at(np.moveaxis(total, position, 0), new.cells_in(old), moved)
            weighted = total
    return np.asarray(weighted)
