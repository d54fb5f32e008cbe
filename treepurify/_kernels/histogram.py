"""Count rows in the cells of pair tables."""

from numba import njit


@njit(cache=True, nogil=True)
def count_pairs(first, second, codes, n_second, offsets, counts):
    """Add one for each row to its cell, for the pairs ``(first[t], second[t])``.

    Table ``t`` is the slice of `counts` from ``offsets[t]``, of shape (n_first, n_second[t]).
    """
    for table in range(len(first)):
        rows = codes[first[table]]
        columns = codes[second[table]]
        stride = n_second[table]
        start = offsets[table]
        for row in range(len(rows)):
            counts[start + rows[row] * stride + columns[row]] += 1


@njit(cache=True, nogil=True)
def weigh_pairs(first, second, codes, weights, n_second, offsets, mass):
    """Like `count_pairs`, adding the weight of each row."""
    for table in range(len(first)):
        rows = codes[first[table]]
        columns = codes[second[table]]
        stride = n_second[table]
        start = offsets[table]
        for row in range(len(rows)):
            mass[start + rows[row] * stride + columns[row]] += weights[row]
