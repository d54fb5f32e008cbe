"""Second moments of an ensemble from pairs of leaves."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify._kernels.leaf_pairs import leaf_pair_moments
from treepurify.engines.tree.independent_leaves import (
    IndependentLeaves,
    OutputLeaves,
    SecondMoments,
    exact_moments,
)
from treepurify.threads import map_threads

__all__ = ["moments_of_pairs", "pair_work"]

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]

_LEAVES_IN_A_PIECE = 64


@dataclass(frozen=True, eq=False)
class _Part:
    """What some leaves add: by order, at pairs of features (flat), and by feature."""

    orders: Array
    places: Positions
    pairs: Array
    mains: Array


def pair_work(own: OutputLeaves) -> int:
    """Return the work of all pairs, in pairs of leaves with paths of six features.

    A pair takes time with the square of the features of one leaf, and pairs without a common
    feature are passed over.
    """
    width = np.diff(own.leaf_ptr).astype(np.float64)
    together = np.diff(own.feature_ptr).astype(np.float64) ** 2
    share = min(together.sum() / max(len(width), 1) ** 2, 1.0)
    return int(share * len(width) * np.sum(width * (width + 4.0)) / 60.0)


def moments_of_pairs(
    leaves: IndependentLeaves, own: OutputLeaves, n_strips: int, pairs: Array
) -> SecondMoments:
    """Return the second moments of one output, from every pair of its leaves.

    Parameters
    ----------
    leaves : IndependentLeaves
        The leaves of all outputs.
    own : OutputLeaves
        Those of the output.
    n_strips : int
        Tables of pairs that may be filled at a time.
    pairs : ndarray of float64, shape (n_features, n_features)
        Zeros; becomes the variances of the components that contain two features.
    """
    lefts = np.arange(len(own.leaves))
    pieces = [lefts[i : i + _LEAVES_IN_A_PIECE] for i in range(0, len(lefts), _LEAVES_IN_A_PIECE)]

    def parts(strip: list[Positions]) -> list[_Part]:
        table = np.zeros_like(pairs)
        return [_part(own, leaves.depth, piece, table) for piece in strip]

    by_strip = map_threads(parts, [pieces[i::n_strips] for i in range(n_strips)])
    orders, mains = np.zeros(leaves.depth + 1), np.zeros(len(pairs))
    # In the order of the leaves: sums do not depend on the number of threads.
    for i in range(len(pieces)):
        part = by_strip[i % n_strips][i // n_strips]
        orders += part.orders
        mains += part.mains
        pairs.ravel()[part.places] += part.pairs
    pairs += pairs.T
    return exact_moments(orders[1:], mains)


def _part(own: OutputLeaves, depth: int, lefts: Positions, table: Array) -> _Part:
    """Return what some leaves add; `table` is room for pairs, full of zeros before and after."""
    orders, mains = np.zeros(depth + 1), np.zeros(len(table))
    leaf_pair_moments(
        lefts,
        own.amplitude,
        own.leaf_ptr,
        own.leaf_feature,
        own.leaf_interval,
        own.feature_ptr,
        own.feature_leaf,
        own.feature_interval,
        own.interval_ptr,
        own.interval_leaf,
        own.interval_probability,
        own.run_ptr,
        own.low,
        own.high,
        orders,
        table,
        mains,
    )
    flat = table.ravel()
    places = np.flatnonzero(flat)
    found = _Part(orders, places, flat[places], mains)
    flat[places] = 0.0
    return found
