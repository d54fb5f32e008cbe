"""How pure main effects and small pairs are, measured on many tables at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treepurify.grids.grid import Subset
from treepurify.purification.pair_batch import PairBatch
from treepurify.purification.solution import inverse_mass
from treepurify.typing import Array

__all__ = ["ROUNDING_NORM", "Mains", "PairPurity", "measure_mains", "measure_pairs"]

# Below this share of the scale, a norm is rounding.
ROUNDING_NORM = 1e-9


@dataclass(frozen=True, eq=False)
class Mains:
    """Main effects beside the intercept.

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
class PairPurity:
    """Some pairs beside the intercept, and beside the main effects of both their features.

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


def measure_mains(
    effects: Sequence[Array], mass: Sequence[Array], subsets: Sequence[Subset]
) -> Mains:
    """Measure main effects, given in the order of their subsets."""
    ends = np.cumsum([len(table) for table in mass])
    starts = ends - [len(table) for table in mass]
    all_mass, values = np.concatenate(mass), np.concatenate(effects)
    weighted = all_mass[:, None] * values
    norms = np.sqrt(np.add.reduceat(weighted * values, starts))
    means = np.add.reduceat(weighted, starts) / np.add.reduceat(all_mass, starts)[:, None]
    largest = np.abs(means).max(axis=1).tolist()
    return Mains(
        dict(zip(subsets, largest, strict=True)),
        dict(zip(subsets, norms, strict=True)),
        dict(zip(subsets, np.split(weighted, ends[:-1]), strict=True)),
    )


def measure_pairs(
    effects: Sequence[Array],
    mass: Sequence[Array],
    pairs: Sequence[Subset],
    mains: Mains,
    scale: float,
) -> PairPurity:
    """Measure pairs beside their main effects on the same cells.

    Parameters
    ----------
    effects : sequence of ndarray of shape (n_rows, n_columns, n_outputs)
        The pairs.
    mass : sequence of ndarray of shape (n_rows, n_columns)
        Mass of their cells.
    pairs : sequence of tuple of int
        Their features.
    mains : Mains
        The main effects, those of all these features among them.
    scale : float
        Norms below 1e-9 of it are rounding.
    """
    batch = PairBatch.of(effects, mass)
    cells, sides = batch.cell_starts[:-1], batch.sides
    # Columns are cells of the second feature.
    beside = [mains.weighted[part] for first, second in pairs for part in ((second,), (first,))]
    per_mass, ones = inverse_mass(batch.mass), np.ones(len(batch.mass))
    overall = np.zeros(len(pairs))
    largest = np.zeros(len(sides))
    norms = np.empty((len(pairs), len(batch.values)))
    products = np.empty((len(sides), len(batch.values)))
    total = np.add.reduceat(batch.cell_mass, cells)
    for k, (values, mains_of_slices) in enumerate(
        zip(batch.values, np.concatenate(beside).T, strict=True)
    ):
        weighted = batch.cell_mass * values
        means = batch.sums(weighted, ones) * per_mass
        norms[:, k] = np.sqrt(np.add.reduceat(weighted * values, cells))
        overall = np.maximum(overall, np.abs(np.add.reduceat(weighted, cells) / total))
        largest = np.maximum(largest, np.maximum.reduceat(np.abs(means), sides))
        products[:, k] = np.add.reduceat(means * mains_of_slices, sides)
    other = np.concatenate([mains.norm[part] for a, b in pairs for part in ((b,), (a,))])
    both = np.repeat(norms, 2, axis=0), other.reshape(products.shape)
    cosines = _cosines(products, *both, ROUNDING_NORM * scale)
    # The second feature of a pair comes first among its sides.
    of_sides = (largest, _largest_signed(products), cosines)
    given, inner, angles = (numbers.reshape(-1, 2)[:, ::-1] for numbers in of_sides)
    return PairPurity(pairs, norms, np.column_stack([overall, given]), inner, angles)


def _largest_signed(products: Array) -> Array:
    """Return the entry of each row that is the largest in absolute value."""
    largest = np.argmax(np.abs(products), axis=1)[:, None]
    return np.asarray(np.take_along_axis(products, largest, axis=1)[:, 0])


def _cosines(products: Array, first: Array, second: Array, smallest: float) -> Array:
    real = (first > smallest) & (second > smallest)
    cosines = np.divide(products, first * second, out=np.zeros_like(products), where=real)
    return np.where(real.any(axis=1), _largest_signed(cosines), np.nan)
