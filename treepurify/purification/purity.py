"""Measure how pure a family of purified tensors is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.purification.pair_batch import some_at_a_time
from treepurify.purification.small_purity import (
    ROUNDING_NORM,
    Mains,
    PairPurity,
    measure_mains,
    measure_pairs,
)
from treepurify.purification.solution import largest_entry
from treepurify.typing import Array

__all__ = ["Purity", "SubsetPair", "measure_purity", "subset_pairs"]

Tables = Mapping[Subset, Array]
Axes = Mapping[Subset, tuple[FeatureAxis, ...]]

# Numbers in a pair that is measured faster beside others than alone.
_SMALL = 1 << 14
_NAN = float("nan")


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

    Tables may be built when they are asked for, and those of most features are asked for once or
    twice.

    Where the axes of the smaller subset are finer, the two are taken to be independent
    within a cell of the coarser axes; with the same axes nothing is assumed.
    """
    subsets = sorted(effects, key=len)
    mains = _measure_mains(effects, mass, [subset for subset in subsets if len(subset) == 1])
    known = _measure_small_pairs(effects, mass, axes, mains, scale)
    norms = mains.norm | {pair: measured.norm for pair, measured in known.items()}
    pairs = []
    for subset in subsets:
        if len(subset) == 1:
            pairs.append(SubsetPair(subset, (), 0.0, _NAN, mains.mean[subset]))
        elif subset in known:
            pairs += _of_small_pair(subset, known[subset])
        else:
            effect, cell_mass = effects[subset], mass[subset]
            norms[subset] = np.sqrt(np.einsum("i,ik->k", cell_mass.ravel(), _flat(effect) ** 2))
            total = cell_mass[..., None] * effect
            for kept, largest, means in _conditional_means(total, cell_mass):
                inside = tuple(subset[k] for k in kept)
                product, cosine = 0.0, _NAN
                if inside in effects:
                    coarse = tuple(axes[subset][k] for k in kept)
                    # Of larger ones than main effects it would take much memory to keep this.
                    other = mains.weighted.get(inside)
                    if other is None:
                        other = mass[inside][..., None] * effects[inside]
                    products = _flat(means * _summed(other, axes[inside], coarse)).sum(axis=0)
                    product = float(products[np.argmax(np.abs(products))])
                    cosine = _cosine(products, norms[subset], norms[inside], scale)
                pairs.append(SubsetPair(subset, inside, product, cosine, largest))
    return pairs


def _measure_mains(effects: Tables, mass: Tables, subsets: list[Subset]) -> Mains:
    if not subsets:
        return Mains({}, {}, {})
    return measure_mains([effects[s] for s in subsets], [mass[s] for s in subsets], subsets)


def _measure_small_pairs(
    effects: Tables, mass: Tables, axes: Axes, mains: Mains, scale: float
) -> dict[Subset, PairPurity]:
    """Measure the small pairs that have the same axes as their main effects."""
    small, sizes = [], []
    for pair in effects:
        if len(pair) != 2 or not all((j,) in mains.norm for j in pair):
            continue
        if all(axes[pair][k] is axes[(j,)][0] for k, j in enumerate(pair)):
            size = axes[pair][0].n_cells * axes[pair][1].n_cells * len(mains.norm[pair[:1]])
            if size <= _SMALL:
                small.append(pair)
                sizes.append(size)
    known: dict[Subset, PairPurity] = {}
    for some in some_at_a_time(small, sizes):
        tables = ([effects[pair] for pair in some], [mass[pair] for pair in some])
        known |= measure_pairs(*tables, some, mains, scale)
    return known


def _of_small_pair(pair: Subset, found: PairPurity) -> list[SubsetPair]:
    insides = ((), pair[:1], pair[1:])
    figures = zip(insides, (0.0, *found.products), (_NAN, *found.cosines), found.means, strict=True)
    return [SubsetPair(pair, *row) for row in figures]


def _conditional_means(total: Array, cell_mass: Array) -> Iterator[tuple[Subset, float, Array]]:
    """Yield the axes kept, and the largest and all of the means given the cells along them."""
    parts = _partial_sums(cell_mass, cell_mass.ndim)
    for kept, of_slices in _partial_sums(total, cell_mass.ndim).items():
        means = of_slices / np.where(parts[kept] > 0, parts[kept], 1.0)[..., None]
        yield kept, largest_entry(means), means


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
    smallest = ROUNDING_NORM * scale
    real = (first > smallest) & (second > smallest)
    if not real.any():
        return _NAN
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
