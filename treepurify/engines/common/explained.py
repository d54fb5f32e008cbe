"""How much of a function its components explain on rows."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from treepurify.grids.grid import Subset
from treepurify.rows.row_weights import mean_square
from treepurify.typing import Array

__all__ = ["Explained", "measure_explained"]


@dataclass(frozen=True, eq=False)
class Explained:
    """How much of a function its components explain on rows.

    Parameters
    ----------
    covariances : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each component with the function; of what they leave under ().
    rest_variance : ndarray of float64, shape (n_outputs,)
        Variance of what they leave.
    share : ndarray of float64, shape (n_outputs,)
        Share of the variance of the function that they explain.
    """

    covariances: dict[Subset, Array]
    rest_variance: Array
    share: Array


def measure_explained(
    values: Array, shares: Array, intercept: Array, parts: Iterable[tuple[Subset, Array]]
) -> Explained:
    """Return how much of a function its components explain on rows.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_outputs)
        The function.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row in the measure.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    parts : iterable of (tuple of int, ndarray of float64 of shape (n_rows, n_outputs))
        The components.
    """
    # Sums rather than matrix products: for one column the threads of a BLAS only wait.
    weight = shares[:, None]
    centred = values - (weight * values).sum(axis=0)
    weighted = weight * centred
    rest = values - intercept
    covariances: dict[Subset, Array] = {}
    for subset, part in parts:
        rest -= part
        covariances[subset] = (weighted * part).sum(axis=0)
    covariances[()] = (weighted * rest).sum(axis=0)
    total = (weighted * centred).sum(axis=0)
    left = (weight * rest**2).sum(axis=0) / np.where(total > 0, total, 1.0)
    return Explained(covariances, mean_square(rest, shares), np.asarray(1.0 - left))
