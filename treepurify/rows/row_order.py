"""Rows identified by their values alone: their order, and the effective number of them."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import hash_rows
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights, effective_rows, row_shares
from treepurify.typing import Indices

__all__ = ["distinct_numbers", "mixed_bits", "ordered_by_value", "telling_numbers", "telling_rows"]


def ordered_by_value(columns: Columns, weights: RowWeights) -> tuple[Columns, RowWeights]:
    """Return the rows in an order that is as good as random and depends on their values alone.

    What is drawn for each row of it is then the same whatever the order of rows and features.
    Equal rows stand together, by weight.
    """
    hashes = _hashes(columns)
    order = np.argsort(hashes, kind="stable") if weights is None else np.lexsort((weights, hashes))
    return columns.take(order), None if weights is None else weights[order]


def telling_rows(columns: Columns, weights: RowWeights, features: Sequence[int]) -> float:
    """Return how many rows of equal weight tell as much about a function of some features.

    It is the number of Kish (1965) over the distinct rows, each with the weight of all that are
    equal to it: a function has one value on them, so that another row of the same values tells
    nothing new. It depends neither on the unit of the weights nor on the order of the rows, and
    a row of weight two is two rows; over all rows the number could not do both.
    """
    kept = Columns(
        tuple(columns.features[j] for j in features),
        tuple(columns.values[j] for j in features),
        columns.n_rows,
    )
    return telling_numbers(distinct_numbers(kept), weights)


def telling_numbers(numbers: Indices, weights: RowWeights) -> float:
    """Return the same for rows that `distinct_numbers` has numbered."""
    mass = np.bincount(numbers, row_shares(len(numbers), weights)).astype(np.float64)
    # Rounding of equal masses must not make a fraction of a row.
    return round(effective_rows(len(mass), mass), 6)


def distinct_numbers(columns: Columns) -> Indices:
    """Return a number from 0 on for each row, the same for equal rows, else as good as random."""
    return np.unique(_hashes(columns), return_inverse=True)[1]


def _hashes(columns: Columns) -> npt.NDArray[np.uint64]:
    """Return a number for each row that tells its values from others, in any order of columns."""
    matrix = columns.matrix()
    matrix += 0.0  # no negative zeros
    matrix[np.isnan(matrix)] = np.nan
    keys = np.array([crc32(spec.name.encode()) for spec in columns.features], dtype=np.uint64)
    hashes = np.empty(columns.n_rows, dtype=np.uint64)
    hash_rows(matrix.view(np.uint64), mixed_bits(keys), hashes)
    return mixed_bits(hashes)


def mixed_bits(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread what distinguishes numbers over all their bits (the finaliser of SplitMix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)
