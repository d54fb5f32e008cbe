"""Measure how pure a family of purified tensors is, small tables many at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.purification.small_pairs import SEVERAL_PAIRS, PairBatch, some_at_a_time
from treepurify.purification.solution import inverse_mass, largest_entry
from treepurify.threads import map_threads
from treepurify.typing import Array

__all__ = ["Purity", "SubsetPair", "cosine", "measure_purity", "subset_pairs"]

Tables = Mapping[Subset, Array]
Axes = Mapping[Subset, tuple[FeatureAxis, ...]]

# Numbers in a pair that is measured faster together with others than alone.
_SMALL = 1 << 16
_NAN = float("nan")

# Below this share of the scale, a norm is rounding.
_ROUNDING_NORM = 1e-9


@dataclass(frozen=True)
class SubsetPair:
    """A component and one on a subset of its features.

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
    measured = _measure(effects, mass, axes, scale)
    means, products, cosines = [*measured.mains.mean.values(), 0.0], [0.0], [0.0]
    for some in measured.small:
        means.append(float(some.means.max()))
        products.append(float(np.abs(some.products).max()))
        # Without those that are NaN.
        cosines.append(float(np.fmax.reduce(np.abs(some.cosines), axis=None, initial=0.0)))
    for pair in chain.from_iterable(measured.others.values()):
        means.append(pair.conditional_mean)
        products.append(abs(pair.inner_product))
        cosines.append(0.0 if np.isnan(pair.cosine) else abs(pair.cosine))
    divisor = scale if scale > 0 else 1.0
    # Divided twice: the square of a very large or small scale has no double.
    return Purity(max(means) / divisor, max(products) / divisor / divisor, max(cosines))


def subset_pairs(effects: Tables, mass: Tables, axes: Axes, scale: float) -> list[SubsetPair]:
    """Return every component with every component on a subset of its features.

    Tables may be built when they are requested, and those of most features are requested once or
    twice.

    Where the axes of the smaller subset are finer, the two are taken to be independent
    within a cell of the coarser axes; with the same axes nothing is assumed.
    """
    measured = _measure(effects, mass, axes, scale)
    pairs = dict(measured.others)
    for subset, mean in measured.mains.mean.items():
        pairs[subset] = [SubsetPair(subset, (), 0.0, _NAN, mean)]
    for some in measured.small:
        rows = (some.means.tolist(), some.products.tolist(), some.cosines.tolist())
        for pair, means, products, cosines in zip(some.pairs, *rows, strict=True):
            insides = ((), pair[:1], pair[1:])
            figures = zip(insides, (0.0, *products), (_NAN, *cosines), means, strict=True)
            pairs[pair] = [SubsetPair(pair, *row) for row in figures]
    return [pair for subset in sorted(effects, key=len) for pair in pairs[subset]]


@dataclass(frozen=True, eq=False)
class _Mains:
    """Main effects compared with the intercept.

    Parameters
    ----------
    mean : dict of tuple of int to float
        Largest absolute mean of each over the outputs.
    norm, weighted : dict of tuple of int to ndarray
        Its norms, shape (n_outputs,), and mass times effect, shape (n_cells, n_outputs).
    """

    mean: dict[Subset, float]
    norm: dict[Subset, Array]
    weighted: dict[Subset, Array]


@dataclass(frozen=True, eq=False)
class _PairPurity:
    """Some pairs compared with the intercept, and with the main effects of both features.

    Parameters
    ----------
    pairs : sequence of tuple of int
        The pairs.
    norms : ndarray of float64, shape (n_pairs, n_outputs)
        Their norms.
    means : ndarray of float64, shape (n_pairs, 3)
        Largest absolute mean of each: of all cells, given the first feature, given the second.
    products, cosines : ndarray of float64, shape (n_pairs, 2)
        The largest inner product with the main effect of the first and of the second feature, and
        the largest cosine; NaN where a norm is rounding.
    """

    pairs: Sequence[Subset]
    norms: Array
    means: Array
    products: Array
    cosines: Array


@dataclass(frozen=True, eq=False)
class _PurityByOrder:
    """Main effects, small pairs, and each other component with those on subsets of it."""

    mains: _Mains
    small: list[_PairPurity]
    others: dict[Subset, list[SubsetPair]]


def _measure(effects: Tables, mass: Tables, axes: Axes, scale: float) -> _PurityByOrder:
    subsets = sorted(effects, key=len)
    mains = _measure_mains(effects, mass, [subset for subset in subsets if len(subset) == 1])
    small = _measure_small_pairs(effects, mass, axes, mains, scale)
    norms = dict(mains.norm)
    for some in small:
        norms.update(zip(some.pairs, some.norms, strict=True))
    others: dict[Subset, list[SubsetPair]] = {}
    for subset in subsets:
        if subset in norms:
            continue
        effect, cell_mass = effects[subset], mass[subset]
        norms[subset] = np.sqrt(np.einsum("i,ik->k", cell_mass.ravel(), _flat(effect) ** 2))
        total = cell_mass[..., None] * effect
        others[subset] = []
        for kept, largest, means in _conditional_means(total, cell_mass):
            inside = tuple(subset[k] for k in kept)
            product, angle = 0.0, _NAN
            if inside in effects:
                coarse = tuple(axes[subset][k] for k in kept)
                # Of larger ones than main effects it would take much memory to keep this.
                other = mains.weighted.get(inside)
                if other is None:
                    other = mass[inside][..., None] * effects[inside]
                products = _flat(means * _summed(other, axes[inside], coarse)).sum(axis=0)
                product = float(products[np.argmax(np.abs(products))])
                angle = cosine(products, norms[subset], norms[inside], scale)
            others[subset].append(SubsetPair(subset, inside, product, angle, largest))
    return _PurityByOrder(mains, small, others)


def _measure_mains(effects: Tables, mass: Tables, subsets: list[Subset]) -> _Mains:
    """Measure main effects, given in the order of their subsets."""
    if not subsets:
        return _Mains({}, {}, {})
    sizes = [len(mass[subset]) for subset in subsets]
    ends = np.cumsum(sizes)
    starts = np.append(0, ends[:-1])
    all_mass = np.concatenate([mass[subset] for subset in subsets])
    values = np.concatenate([effects[subset] for subset in subsets])
    weighted = all_mass[:, None] * values
    norms = np.sqrt(np.add.reduceat(weighted * values, starts))
    means = np.add.reduceat(weighted, starts) / np.add.reduceat(all_mass, starts)[:, None]
    largest = np.abs(means).max(axis=1).tolist()
    return _Mains(
        dict(zip(subsets, largest, strict=True)),
        dict(zip(subsets, norms, strict=True)),
        dict(zip(subsets, np.split(weighted, ends[:-1]), strict=True)),
    )


def _measure_small_pairs(
    effects: Tables, mass: Tables, axes: Axes, mains: _Mains, scale: float
) -> list[_PairPurity]:
    """Measure the small pairs that have the same axes as their main effects."""
    main_axes = {subset[0]: axes[subset] for subset in mains.norm}
    n_outputs = next((len(norm) for norm in mains.norm.values()), 1)
    small, sizes = [], []
    for pair, own in axes.items():
        if len(pair) != 2 or pair not in effects:
            continue
        if own == main_axes.get(pair[0], ()) + main_axes.get(pair[1], ()):
            size = own[0].n_cells * own[1].n_cells * n_outputs
            if size <= _SMALL:
                small.append(pair)
                sizes.append(size)
    if len(small) < SEVERAL_PAIRS:
        return []

    def measure(some: list[Subset]) -> _PairPurity:
        tables = ([effects[pair] for pair in some], [mass[pair] for pair in some])
        return _measure_pairs(*tables, some, mains, scale)

    return map_threads(measure, some_at_a_time(small, sizes))


def _measure_pairs(
    effects: Sequence[Array],
    mass: Sequence[Array],
    pairs: Sequence[Subset],
    mains: _Mains,
    scale: float,
) -> _PairPurity:
    """Compare pairs with their main effects on the same cells.

    Parameters
    ----------
    effects : sequence of ndarray of shape (n_rows, n_columns, n_outputs)
        The pairs.
    mass : sequence of ndarray of shape (n_rows, n_columns)
        Mass of their cells.
    pairs : sequence of tuple of int
        Their features.
    mains : _Mains
        The main effects, those of all these features among them.
    scale : float
        Norms below 1e-9 of it are rounding.
    """
    batch = PairBatch.of(effects, mass)
    cells, sides = batch.cell_starts[:-1], batch.sides
    # Columns are cells of the second feature.
    of_mains = [mains.weighted[part] for first, second in pairs for part in ((second,), (first,))]
    per_mass, ones = inverse_mass(batch.mass), np.ones(len(batch.mass))
    overall = np.zeros(len(pairs))
    largest = np.zeros(len(sides))
    norms = np.empty((len(pairs), len(batch.values)))
    products = np.empty((len(sides), len(batch.values)))
    total = np.add.reduceat(batch.cell_mass, cells)
    for k, (values, mains_of_slices) in enumerate(
        zip(batch.values, np.concatenate(of_mains).T, strict=True)
    ):
        weighted = batch.cell_mass * values
        means = batch.sums(weighted, ones) * per_mass
        norms[:, k] = np.sqrt(np.add.reduceat(weighted * values, cells))
        overall = np.maximum(overall, np.abs(np.add.reduceat(weighted, cells) / total))
        largest = np.maximum(largest, np.maximum.reduceat(np.abs(means), sides))
        products[:, k] = np.add.reduceat(means * mains_of_slices, sides)
    other = np.concatenate([mains.norm[part] for a, b in pairs for part in ((b,), (a,))])
    both = np.repeat(norms, 2, axis=0), other.reshape(products.shape)
    cosines = _cosines(products, *both, _ROUNDING_NORM * scale)
    # The second feature of a pair comes first among its sides.
    of_sides = (largest, _largest_signed(products), cosines)
    given, inner, angles = (numbers.reshape(-1, 2)[:, ::-1] for numbers in of_sides)
    return _PairPurity(pairs, norms, np.column_stack([overall, given]), inner, angles)


def _largest_signed(products: Array) -> Array:
    """Return the entry of each row that is the largest in absolute value."""
    largest = np.argmax(np.abs(products), axis=1)[:, None]
    return np.asarray(np.take_along_axis(products, largest, axis=1)[:, 0])


def _cosines(products: Array, first: Array, second: Array, smallest: float) -> Array:
    real = (first > smallest) & (second > smallest)
    cosines = np.divide(products, first * second, out=np.zeros_like(products), where=real)
    return np.where(real.any(axis=1), _largest_signed(cosines), np.nan)


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


def cosine(products: Array, first: Array, second: Array, scale: float) -> float:
    """Return the largest cosine over the outputs; NaN where a norm is rounding."""
    smallest = _ROUNDING_NORM * scale
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
