"""Where the mass of cells of normal scores goes when scores are smoothed."""

from functools import cache

import numpy as np

from treepurify.typing import Array

__all__ = ["BANDWIDTHS", "inner_ends", "smoothings"]

BANDWIDTHS = (0.0, 0.02, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.5, np.inf)
"""Bandwidths that are tried: zero leaves the rows, infinity the Gaussian copula."""

_POINTS_A_CELL = 8


@cache
def inner_ends(n_cells: int) -> Array:
    """Return the scores between cells that are equally likely under the normal distribution."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.arange(1, n_cells) / n_cells))


@cache
def smoothings(n_cells: int) -> Array:
    """Return where the mass of each cell goes, shape (n_bandwidths, n_cells, n_cells).

    There is one column per cell, which sums to one.
    """
    return np.stack([_smoothing(bandwidth, n_cells) for bandwidth in BANDWIDTHS])


def _smoothing(bandwidth: float, n_cells: int) -> Array:
    """Return where the mass of each cell goes under one bandwidth."""
    from scipy.special import ndtr, ndtri

    if bandwidth == 0.0:
        return np.eye(n_cells)
    keep = 1.0 / np.hypot(1.0, bandwidth)
    inner = n_cells * _POINTS_A_CELL
    points = ndtri((np.arange(inner) + 0.5) / inner)
    ends = np.concatenate([[-np.inf], inner_ends(n_cells), [np.inf]])
    below = ndtr((ends[:, None] - keep * points) / np.sqrt(1.0 - keep**2))
    mass = np.diff(below, axis=0)
    return np.asarray(mass.reshape(n_cells, n_cells, _POINTS_A_CELL).mean(axis=2))
