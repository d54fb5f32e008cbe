"""The cells between cuts that numbers are in."""

from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.typing import Array, Indices

__all__ = ["numeric_cells"]


def numeric_cells(values: npt.NDArray[np.floating[Any]], cuts: Array) -> Indices:
    """Return the number of cuts <= each value; NaN is in a cell behind all others.

    Examples
    --------
    >>> import numpy as np
    >>> numeric_cells(np.array([-1.0, 0.0, 7.0, np.nan]), np.array([0.0, 5.0]))
    array([0, 1, 2, 3])
    """
    cells = np.searchsorted(cuts, values, side="right")
    cells[np.isnan(values)] = len(cuts) + 1
    return cells
