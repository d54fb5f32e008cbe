"""Find the cell of each value along several axes."""

import numpy as np

from treepurify._kernels.compiling import kernel

# Rows at a time: enough for loops without branches, few enough that the lines of memory that hold
# one column of a table by rows are in the cache when the next column is read.
ROWS_A_TILE = 512
LANES = 32
# Up to so many cuts, comparing with all of them is faster than a search.
_FEW_CUTS = 16


@kernel
def locate(
    table, start, stop, places, cuts, cut_starts, numbers, codes, met, tile, cell, low, high
):
    """Write the cell of the rows ``start:stop`` along each axis to ``codes[numbers[axis]]``.

    The axis stands for the column ``places[axis]`` of `table`, and its cuts for
    ``cuts[cut_starts[axis]:cut_starts[axis + 1]]``. A cell is the number of cuts <= x; NaN is in
    the one behind the last. ``met[axis]`` begins as (inf, -inf, 0) and becomes the smallest and
    largest finite value and the number of NaN. `tile` and `cell` are room for `ROWS_A_TILE` rows,
    `low` and `high` for `LANES`.
    """
    for first in range(start, stop, ROWS_A_TILE):
        n = min(ROWS_A_TILE, stop - first)
        for axis in range(len(places)):
            place = places[axis]
            for row in range(n):
                tile[row] = table[first + row, place]
            for row in range(n, ROWS_A_TILE):
                tile[row] = tile[0]
            n_missing = 0
            for row in range(n):
                n_missing += 1 if tile[row] != tile[row] else 0
            # Lanes of their own, because a compiler may not reorder the minimum of floats.
            for lane in range(LANES):
                low[lane], high[lane] = np.inf, -np.inf
            for group in range(0, ROWS_A_TILE, LANES):
                for lane in range(LANES):
                    x = tile[group + lane]
                    low[lane] = x if (x > -np.inf) & (x < low[lane]) else low[lane]
                    high[lane] = x if (x < np.inf) & (x > high[lane]) else high[lane]
            for lane in range(LANES):
                met[axis, 0] = low[lane] if low[lane] < met[axis, 0] else met[axis, 0]
                met[axis, 1] = high[lane] if high[lane] > met[axis, 1] else met[axis, 1]
            met[axis, 2] += n_missing
            begin, end = cut_starts[axis], cut_starts[axis + 1]
            if end - begin <= _FEW_CUTS:
                for row in range(ROWS_A_TILE):
                    cell[row] = 0
                for c in range(begin, end):
                    cut = cuts[c]
                    for row in range(ROWS_A_TILE):
                        cell[row] += 1 if cut <= tile[row] else 0
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
                    cell[row] = at - begin + (1 if cuts[np.uint64(at)] <= tile[row] else 0)
            if n_missing > 0:
                for row in range(n):
                    if tile[row] != tile[row]:
                        cell[row] = end - begin + 1
            number = numbers[axis]
            for row in range(n):
                codes[number, first + row] = cell[row]
