"""Cuts of a numeric column at quantiles of its rows."""

import numpy as np
import numpy.typing as npt

from treepurify.rows.row_weights import RowWeights, row_quantiles
from treepurify.typing import Array

__all__ = ["quantile_cuts"]


def quantile_cuts(values: npt.NDArray[np.floating], bins: int, weights: RowWeights = None) -> Array:
    """Return sorted cuts between at most `bins` cells with about as many rows each.

    A column with at most `bins` different values is cut between them.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        The column; what is not finite counts for nothing.
    bins : int
        Largest number of cells.
    weights : ndarray of float64, shape (n_rows,), optional
        Weights of the rows; those of weight zero count for nothing.
    """
    counts = np.isfinite(values) if weights is None else np.isfinite(values) & (weights > 0)
    finite = values[counts].astype(np.float64)
    levels = np.unique(finite)
    if len(levels) <= bins:
        return np.asarray((levels[1:] + levels[:-1]) / 2)
    inner = np.arange(1, bins) / bins
    counted = None if weights is None else weights[counts]
    cuts = np.unique(row_quantiles(finite, counted, inner))
    return np.asarray(cuts[cuts > levels[0]])
