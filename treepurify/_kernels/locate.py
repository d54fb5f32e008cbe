"""Find the cell of each value along several axes."""

import numpy as np

from treepurify._kernels.compiling import kernel

# Rows at a time: enough for loops without branches, few enough that the lines of memory that hold
# one column of a table by rows are in the cache when the next column is read.
ROWS_A_TILE = 512
LANES = 32
# Up to so many cuts, comparing with all of them is faster than a search, and with some at a time.
_FEW_CUTS, _CUTS_AT_A_TIME = 48, 4


@kernel
def locate(
    table, start, stop, places, cuts, cut_starts, numbers, codes, low, high, n_missing, tile, cell
):
    """Write the cell of the rows ``start:stop`` along each axis to ``codes[numbers[axis]]``.

    The axis stands for the column ``places[axis]`` of `table`, and its cuts for
    ``cuts[cut_starts[axis]:cut_starts[axis + 1]]``. A cell is the number of cuts <= x; NaN is in
    the one behind the last. `low` and `high`, of shape (n_axes, `LANES`), begin as inf and -inf,
    and become the smallest and the largest finite value, each in lanes of its own, because a
    compiler may not reorder the minimum of floats. `n_missing`, of shape (n_axes,), begins as 0 and
    becomes the number of NaN. `tile` and `cell` are room for `ROWS_A_TILE` rows.
    """
    for first in range(start, stop, ROWS_A_TILE):
        n = stop - first if stop - first < ROWS_A_TILE else ROWS_A_TILE
        for axis in range(len(places)):
            # No index from the end, which would be looked for at every read.
            place = np.uint64(places[axis])
            for row in range(n):
                tile[row] = table[np.uint64(first + row), place]
            # Neither a finite value nor a missing one.
            for row in range(n, ROWS_A_TILE):
                tile[row] = -np.inf
            for group in range(0, ROWS_A_TILE, LANES):
                for lane in range(LANES):
                    x, least, most = tile[group + lane], low[axis, lane], high[axis, lane]
                    # NaN, which is neither less nor more, where x is infinite.
                    finite = x + 0 * x
                    low[axis, lane] = finite if finite < least else least
                    high[axis, lane] = finite if finite > most else most
            begin, end = cut_starts[axis], cut_starts[axis + 1]
            if end - begin <= _FEW_CUTS:
                for row in range(ROWS_A_TILE):
                    cell[row] = 0
                rest = end - (end - begin) % _CUTS_AT_A_TIME
                for c in range(begin, rest, _CUTS_AT_A_TIME):
                    c1, c2, c3, c4 = cuts[c], cuts[c + 1], cuts[c + 2], cuts[c + 3]
                    for row in range(ROWS_A_TILE):
                        x = tile[row]
                        cell[row] += (c1 <= x) + (c2 <= x) + (c3 <= x) + (c4 <= x)
                for c in range(rest, end):
                    cut = cuts[c]
                    for row in range(ROWS_A_TILE):
                        cell[row] += cut <= tile[row]
            else:
                # A search of fixed length, each step for all rows: what one row waits for is
                # done beside others, and there is no branch for random data to mispredict.
                for row in range(ROWS_A_TILE):
                    cell[row] = begin
                length = end - begin
                while length > 1:
                    half = length >> 1
                    before = cuts[half - 1 :]
                    for row in range(ROWS_A_TILE):
                        at = cell[row]
                        cell[row] = at + half if before[np.uint64(at)] <= tile[row] else at
                    length -= half
                for row in range(ROWS_A_TILE):
                    at = cell[row]
                    cell[row] = at - begin + (cuts[np.uint64(at)] <= tile[row])
            behind = end - begin + 1
            found = codes[numbers[axis], first : first + n]
            missing = 0
            for row in range(n):
                is_missing = tile[row] != tile[row]
                found[row] = behind if is_missing else cell[row]
                missing += is_missing
            n_missing[axis] += missing
