"""Find the cell of each value along an axis, and count rows in the cells of pairs."""

import numpy as np

from treepurify._kernels.compiling import kernel

# Small tables are added up in several copies in turn: a loop that often meets the cell it has just
# written would wait for itself.
_SHIFT, N_COPIES = 2, 1 << 14
_COPIES = 1 << _SHIFT


@kernel
def weigh_pair(rows, columns, weights, n_columns, mass, copies):
    """Add the weight of each row to its cell of a table of shape (n_rows, n_columns), in C order.

    `copies`, zeros of shape (`N_COPIES`,), is workspace: allocated here, it would take long to
    compile.
    """
    n_copied, width = _COPIES * len(mass), np.uint64(n_columns)
    is_copied = n_copied <= len(copies) and n_copied <= len(rows)
    target, shift = (copies, np.uint64(_SHIFT)) if is_copied else (mass, np.uint64(0))
    turn = (np.uint64(1) << shift) - np.uint64(1)
    for row in range(len(rows)):
        # An index without a sign is not looked at for one from the end.
        at = np.uint64(row)
        cell = np.uint64(rows[at]) * width + np.uint64(columns[at])
        target[(cell << shift) + (at & turn)] += weights[at]
    if is_copied:
        for i in range(len(mass)):
            for k in range(_COPIES * i, _COPIES * (i + 1)):
                mass[i] += copies[k]
                copies[k] = 0.0


# Rows at a time: enough for loops without branches, few enough to stay in the cache.
ROWS_A_TILE = 512
# Cuts come in groups of this size, which are compared with at a time; up to this number of groups,
# comparing with all of them is faster than a search.
CUTS_AT_A_TIME, _FEW_GROUPS = 4, 12


@kernel
def locate(column, cuts, behind, codes, cell):
    """Write the cell of each row to `codes`; returns the finite ends and the number of NaN.

    A cell is the number of `cuts` <= x; NaN is in the cell `behind`. There is a multiple of
    `CUTS_AT_A_TIME` of cuts, but not 0, with NaN behind the last. Without a finite value the ends
    are inf and -inf. `cell` is workspace for `ROWS_A_TILE` rows.
    """
    low, high, n_missing = np.inf, -np.inf, 0
    n_cuts = len(cuts)
    for first in range(0, len(column), ROWS_A_TILE):
        tile = column[first : first + ROWS_A_TILE]
        found = codes[first : first + ROWS_A_TILE]
        n = len(tile)
        # Few tiles reach beyond those before them, and that takes no chain of comparisons, in
        # which each waits for the one before.
        outside = 0
        for row in range(n):
            outside += (tile[row] < low) | (tile[row] > high)
        if outside > 0:
            for row in range(n):
                # NaN, which is neither less nor more, where x is infinite.
                x = tile[row] + 0 * tile[row]
                low = x if x < low else low
                high = x if x > high else high
        for row in range(n):
            cell[row] = 0
        if n_cuts <= _FEW_GROUPS * CUTS_AT_A_TIME:
            for c in range(0, n_cuts, CUTS_AT_A_TIME):
                c1, c2, c3, c4 = cuts[c], cuts[c + 1], cuts[c + 2], cuts[c + 3]
                for row in range(n):
                    x = tile[row]
                    cell[row] += (c1 <= x) + (c2 <= x) + (c3 <= x) + (c4 <= x)
        else:
            # A search of fixed length, each step for all rows: while one row waits, the others go
            # on, and there is no branch for random data to mispredict.
            length = n_cuts
            while length > 1:
                half = length >> 1
                before = cuts[half - 1 :]
                for row in range(n):
                    # An index without a sign is not looked at for one from the end.
                    at = cell[row]
                    cell[row] = at + half if before[np.uint64(at)] <= tile[row] else at
                length -= half
            for row in range(n):
                at = cell[row]
                cell[row] = at + (cuts[np.uint64(at)] <= tile[row])
        for row in range(n):
            is_missing = tile[row] != tile[row]
            found[row] = behind if is_missing else cell[row]
            n_missing += is_missing
    return low, high, n_missing
