"""Numbers from 0 to 1 that fill space evenly, from which points of a measure are drawn."""

from collections.abc import Sequence

import numpy as np

from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array

__all__ = ["even_numbers", "numbers_of_features"]

# Points of a Sobol sequence are multiples of 2^-30, zero among them.
_HALF_A_STEP = 2.0**-31


def even_numbers(n_points: int, n_dimensions: int, rng: np.random.Generator) -> Array:
    """Return points in a cube, shape (n_points, n_dimensions), none on its sides.

    They are those of a scrambled Sobol sequence (Owen 1997), or independent ones where there are
    more dimensions than it has.
    """
    from scipy.stats import qmc

    if not n_points * n_dimensions or n_dimensions > qmc.Sobol.MAXDIM:
        return rng.random((n_points, n_dimensions))
    sequence = qmc.Sobol(n_dimensions, rng=rng)
    # It warns unless the first of its points are a power of two.
    first = 1 << (n_points.bit_length() - 1)
    points = np.empty((n_points, n_dimensions))
    points[:first] = sequence.random(first)
    if first < n_points:
        points[first:] = sequence.random(n_points - first)
    points += _HALF_A_STEP
    return points


def numbers_of_features(
    features: Sequence[FeatureSpec], n_points: int, rng: np.random.Generator
) -> Array:
    """Return even numbers for each feature by its name, shape (n_features, n_points).

    The two halves of the points are drawn independently of each other, so that
    their difference tells how far a draw is off.
    """
    first = (n_points + 1) // 2
    numbers = np.empty((len(features), n_points))
    by_name = sorted(range(len(features)), key=lambda j: features[j].name)
    numbers[by_name, :first] = even_numbers(first, len(features), rng).T
    numbers[by_name, first:] = even_numbers(n_points - first, len(features), rng).T
    return numbers
