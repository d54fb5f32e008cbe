"""Columns that stand beside each other in memory, as one table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.typing import Integers

__all__ = ["ColumnTable", "tables_of_columns"]

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Some columns, read through one table.

    Parameters
    ----------
    table : ndarray of float, shape (n_rows, n_places)
        The table. Only the places of the columns may be read.
    numbers, places : ndarray of int64, shape (n_columns,)
        Which columns they are, and where each stands in the table.
    """

    table: Floats
    numbers: Integers
    places: Integers


def tables_of_columns(columns: Sequence[Floats], numbers: Sequence[int]) -> list[ColumnTable]:
    """Return the chosen columns as tables: one table where they are those of one array by rows.

    Walking through such an array column by column reads all of its memory once for each.
    """
    chosen = [columns[number] for number in numbers]
    beside = _places(chosen)
    if beside is None:
        here = np.zeros(1, dtype=np.int64)
        return [
            ColumnTable(column[:, None], np.array([number]), here)
            for number, column in zip(numbers, chosen, strict=True)
        ]
    first = chosen[int(np.argmin(beside))]
    shape = (len(first), int(beside.max()) + 1)
    table = np.lib.stride_tricks.as_strided(first, shape, (first.strides[0], first.itemsize))
    return [ColumnTable(table, np.array(numbers, dtype=np.int64), beside)]


def _places(columns: Sequence[Floats]) -> Integers | None:
    """Return where each column stands in a row of the array of all; None without such an array."""
    if len(columns) < 2:
        return None
    first = columns[0]
    step, size = first.strides[0], first.itemsize
    if any(column.dtype != first.dtype or column.strides[0] != step for column in columns):
        return None
    address = np.array([column.__array_interface__["data"][0] for column in columns])
    distance = address - address.min()
    # Columns within one row of each other, row after row, can only be of one array.
    if np.any(distance % size) or int(distance.max()) >= step:
        return None
    return np.asarray(distance // size, dtype=np.int64)
