"""What a comparison is made of: sums over rows or cells of two components, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from treepurify.comparing.shared_cells import SideBySide, Sides
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.typing import Array

__all__ = ["PairSums", "SideSums", "merged", "opposed", "side_sums", "value_sums"]


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums by mass of two components, each less its mean.

    Parameters
    ----------
    subset : tuple of int
        The features, as positions in the first decomposition.
    axis : FeatureAxis, optional
        The axis of a main effect whose values are known in cells.
    squares : ndarray of float64, shape (5, n_outputs)
        The squared difference, both squares, their product, and the mass where their signs
        are opposed.
    in_cells : ndarray of float64, shape (n_cells, 1 + 2 * n_outputs)
        The mass, and both values, in each cell of the axis; no cells without one.
    """

    subset: Subset
    axis: FeatureAxis | None
    squares: Array
    in_cells: Array


@dataclass(frozen=True, eq=False)
class SideSums:
    """What a comparison is made of.

    Parameters
    ----------
    pairs : tuple of PairSums
        The components.
    shapley : mapping of int to ndarray of float64, shape (n_outputs,)
        Squared difference of the Shapley values of each feature; none where components are not
        given on the same rows.
    """

    pairs: tuple[PairSums, ...]
    shapley: Mapping[int, Array]


def value_sums(sides: Sides) -> Array:
    """Return the sums of all values on rows by mass, shape (n_sums, n_outputs).

    Those of each component, of the first and of the second, and of each part of the remainders.
    """
    weights = np.zeros(0) if sides.weights is None else sides.weights
    of_pairs = [values for pair in sides.pairs for values in pair.sums]
    return np.array([*of_pairs, *(weights @ values for _, values in sides.remainders)])


def side_sums(sides: Sides, smallest: Array, means: Array | None = None) -> SideSums:
    """Return the sums of a comparison.

    Parameters
    ----------
    sides : Sides
        The components side by side.
    smallest : ndarray of float64, shape (n_outputs,)
        Effects have a sign from here on.
    means : ndarray of float64, shape (n_sums, n_outputs), optional
        The means of all values, as `value_sums` orders them, where the sides hold some of the
        rows only. Otherwise they are found.
    """
    known = None if means is None else iter(means)
    pairs: list[PairSums] = []
    shapley: dict[int, Array] = {}
    for pair in sides.pairs:
        centred = pair.less(pair.sums if known is None else np.stack([next(known), next(known)]))
        pairs.append(_pair_sums(centred, smallest))
        if sides.on_rows:
            _split(pair.subset, centred.first - centred.second, shapley)
    weights = sides.weights
    if weights is None or not sides.on_rows:
        return SideSums(tuple(pairs), {})
    for subset, values in sides.remainders:
        _split(subset, values - (weights @ values if known is None else next(known)), shapley)
    return SideSums(tuple(pairs), {j: weights @ difference**2 for j, difference in shapley.items()})


def merged(sums: SideSums, other: SideSums) -> SideSums:
    """Return the sums over the rows of both."""
    pairs = (
        PairSums(one.subset, one.axis, one.squares + two.squares, one.in_cells + two.in_cells)
        for one, two in zip(sums.pairs, other.pairs, strict=True)
    )
    return SideSums(
        tuple(pairs), {j: square + other.shapley[j] for j, square in sums.shapley.items()}
    )


def opposed(first: Array, second: Array, smallest: Array) -> Array:
    """Return 1 where two effects have opposite signs, both beyond what is worth the name."""
    beyond = np.minimum(np.abs(first), np.abs(second)) > smallest
    return np.asarray((first * second < 0) & beyond, dtype=np.float64)


def _pair_sums(pair: SideBySide, smallest: Array) -> PairSums:
    first, second, weights = pair.first, pair.second, pair.weights
    products = (
        (first - second) ** 2,
        first**2,
        second**2,
        first * second,
        opposed(first, second, smallest),
    )
    squares = np.stack([weights @ values for values in products])
    if len(pair.axes) != 1:
        return PairSums(pair.subset, None, squares, np.empty((0, 1 + 2 * first.shape[1])))
    (axis,), (cells,) = pair.axes, pair.cells
    of_rows = (np.ones_like(weights), *first.T, *second.T)
    in_cells = [np.bincount(cells, weights * one, minlength=axis.n_cells) for one in of_rows]
    return PairSums(pair.subset, axis, squares, np.stack(in_cells, axis=1))


def _split(subset: Subset, difference: Array, shapley: dict[int, Array]) -> None:
    """Add an equal share of an effect's difference to each of its features."""
    share = difference / len(subset)
    for j in subset:
        shapley[j] = shapley[j] + share if j in shapley else share
