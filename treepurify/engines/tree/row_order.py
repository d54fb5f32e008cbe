"""An order of rows by the joint cells that they are in."""

import numpy as np

from treepurify.typing import Cells, Indices

__all__ = ["order_by_cells"]

_ORDER_BITS, _BITS_OF_A_FEATURE = 32, 3


def order_by_cells(codes: Cells, features: Indices) -> Indices:
    """Return an order of rows in which neighbours are near each other along many features.

    What they read and write is then near too, and stays near the processor. It is the order of
    Morton (1966) on halves, quarters and eighths of the rows along each feature.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_rows)
        Cells of the rows.
    features : ndarray of int
        Features; of more than 32 the first are taken.
    """
    n_rows, ordered = codes.shape[1], features[:_ORDER_BITS]
    n_bits = min(_BITS_OF_A_FEATURE, _ORDER_BITS // max(len(ordered), 1))
    parts = []
    for j in ordered:
        counts = np.bincount(codes[j])
        middle = np.cumsum(counts) - counts / 2
        parts.append((middle * (1 << n_bits) / max(n_rows, 1)).astype(np.uint32))
    key = np.zeros(n_rows, dtype=np.uint32)
    for bit in reversed(range(n_bits)):
        for j, part in zip(ordered, parts, strict=True):
            key = 2 * key + (part >> bit & 1)[codes[j]]
    return np.argsort(key, kind="stable")
