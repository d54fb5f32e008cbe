"""The mean of a table over its cells."""

import numpy as np

from treepurify.typing import Array

__all__ = ["mean_over_cells"]


def mean_over_cells(mass: Array, table: Array) -> Array:
    """Return the mean of a table under the mass of its cells.

    BLAS would start its threads for a table of ten thousand cells, which it adds up in
    microseconds: they then take processor time for a hundred times as long, waiting for more work.

    Parameters
    ----------
    mass : ndarray of float64, shape (cells...)
        Mass of each cell.
    table : ndarray of float64, shape (cells..., n_outputs)
        Values.

    Returns
    -------
    ndarray of float64, shape (n_outputs,)

    Examples
    --------
    >>> import numpy as np
    >>> mean_over_cells(np.array([0.25, 0.75]), np.array([[4.0], [8.0]]))
    array([7.])
    """
    flat = table.reshape(mass.size, -1)
    return np.asarray(np.einsum("i,ik->k", mass.reshape(-1), flat, optimize=False))
