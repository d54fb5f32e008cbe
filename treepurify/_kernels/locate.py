"""Find the cell of each value along several axes."""

import numpy as np

from treepurify._kernels.compiling import kernel

# Rows at a time: enough for loops without branches, few enough that the lines of memory that hold
# one column of a table by rows are in the cache when the next column is read.
ROWS_A_TILE = 512
# Cuts come in groups of this size, which are compared with at a time; up to this number of groups,
# comparing with all of them is faster than a search.
CUTS_AT_A_TIME, _FEW_GROUPS = 4, 12


@kernel
def locate(
    table,
    start,
    stop,
    places,
    cuts,
    starts,
    numbers,
    behind,
    codes,
    low,
    high,
    n_missing,
    tile,
    cell,
):
    """Write the cell of the rows ``start:stop`` along each axis to ``codes[numbers[axis]]``.

    The axis stands for the column ``places[axis]`` of `table`, and its cuts for
    ``cuts[starts[axis]:starts[axis + 1]]``: a multiple of `CUTS_AT_A_TIME`, but not 0, with NaN
    behind the cuts. A cell is the number of cuts <= x; NaN is in the cell ``behind[axis]``. `low`
    and `high`, of shape (n_axes,), begin as inf and -inf, and become the smallest and the largest
    finite value. `n_missing`, of shape (n_axes,), begins as 0 and becomes the number of NaN. `tile`
    and `cell` are workspace for `ROWS_A_TILE` rows.
    """
    for first in range(start, stop, ROWS_A_TILE):
        n = stop - first if stop - first < ROWS_A_TILE else ROWS_A_TILE
        for axis in range(len(places)):
            # No index from the end, which would be looked for at every read.
            place = np.uint64(places[axis])
            for row in range(n):
                tile[row] = table[np.uint64(first + row), place]
            # Few tiles reach beyond those before them, and that takes no chain of comparisons, in
            # which each waits for the one before.
            least, most, outside = low[axis], high[axis], 0
            for row in range(n):
                x = tile[row]
                outside += (x < least) | (x > most)
            if outside > 0:
                for row in range(n):
                    x = tile[row]
                    # NaN, which is neither less nor more, where x is infinite.
                    x += 0 * x
                    least = x if x < least else least
                    most = x if x > most else most
                low[axis], high[axis] = least, most
            begin, end = starts[axis], starts[axis + 1]
            if end - begin <= _FEW_GROUPS * CUTS_AT_A_TIME:
                for row in range(n):
                    cell[row] = 0
                for c in range(begin, end, CUTS_AT_A_TIME):
                    c1, c2, c3, c4 = cuts[c], cuts[c + 1], cuts[c + 2], cuts[c + 3]
                    for row in range(n):
                        x = tile[row]
                        cell[row] += (c1 <= x) + (c2 <= x) + (c3 <= x) + (c4 <= x)
            else:
                # A search of fixed length, each step for all rows: while one row waits, the
                # others go on, and there is no branch for random data to mispredict.
                for row in range(n):
                    cell[row] = begin
                length = end - begin
                while length > 1:
                    half = length >> 1
                    before = cuts[half - 1 :]
                    for row in range(n):
                        at = cell[row]
                        cell[row] = at + half if before[np.uint64(at)] <= tile[row] else at
                    length -= half
                for row in range(n):
                    at = cell[row]
                    cell[row] = at - begin + (cuts[np.uint64(at)] <= tile[row])
            found = codes[numbers[axis], first : first + n]
            missing, of_missing = 0, behind[axis]
            for row in range(n):
                is_missing = tile[row] != tile[row]
                found[row] = of_missing if is_missing else cell[row]
                missing += is_missing
            n_missing[axis] += missing
