"""Main effects on finer bins than the interactions of their features: how far these are pure there.

The terms of an EBM have bins of their own. An interaction that is pure against functions on its own
bins can be correlated with a main effect on finer ones, where features depend on each other.
"""

from collections.abc import Mapping

import numpy as np

from treepurify.components import Component, values_on_rows, with_finer_mains
from treepurify.grid_rows import LOOKED_ROWS, rows_on_grids
from treepurify.grids.grid import Subset
from treepurify.moments import MeasureRows

__all__ = ["finer_cosine"]

_ROUNDING_NORM = 1e-9


def finer_cosine(
    components: Mapping[Subset, Component], rows: MeasureRows | None, scale: float
) -> float | None:
    """Return the largest cosine of an interaction with a main effect on finer bins.

    Parameters
    ----------
    components : mapping of tuple of int to Component
        All effects.
    rows : mapping of int to EncodedRows, or RowStream, optional
        The rows, where they are the measure; of batches a sample is looked at.
    scale : float
        The largest effect: components of a norm below `1e-9` of it are rounding.

    Returns
    -------
    float or None
        NaN where there are no rows; None where no main effect has finer bins.
    """
    pairs = list(with_finer_mains(components))
    if not pairs:
        return None
    tables = [component for pair in pairs for component in pair]
    on_grids = None if rows is None else rows_on_grids(rows, tables, LOOKED_ROWS)
    if on_grids is None:
        return float("nan")
    shares, largest = on_grids.shares[:, None], 0.0
    for larger, main in pairs:
        one, other = (values_on_rows(table, on_grids.by_order) for table in (larger, main))
        norms = [np.sqrt((shares * values**2).sum(axis=0)) for values in (one, other)]
        counts = np.minimum(*norms) > _ROUNDING_NORM * scale
        products = np.abs((shares * one * other).sum(axis=0))
        cosines = products[counts] / (norms[0] * norms[1])[counts]
        largest = max(largest, float(cosines.max(initial=0.0)))
    return largest
