"""An order of rows that depends on their values alone."""

from zlib import crc32

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import hash_rows
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights

__all__ = ["mixed_bits", "ordered_by_value"]


def ordered_by_value(columns: Columns, weights: RowWeights) -> tuple[Columns, RowWeights]:
    """Return the rows in an order that is as good as random and depends on their values alone.

    What is drawn for each row of it is then the same whatever the order of rows and features.
    Equal rows stand together, by weight.
    """
    matrix = columns.matrix()
    matrix += 0.0  # no negative zeros
    matrix[np.isnan(matrix)] = np.nan
    keys = np.array([crc32(spec.name.encode()) for spec in columns.features], dtype=np.uint64)
    hashes = np.empty(columns.n_rows, dtype=np.uint64)
    hash_rows(matrix.view(np.uint64), mixed_bits(keys), hashes)
    hashes = mixed_bits(hashes)
    order = np.argsort(hashes, kind="stable") if weights is None else np.lexsort((weights, hashes))
    return columns.take(order), None if weights is None else weights[order]


def mixed_bits(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread what tells numbers apart over all their bits (the finaliser of SplitMix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)
