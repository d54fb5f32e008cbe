"""Count rows in the cells of pair tables."""

import numpy as np

from treepurify._kernels.compiling import kernel

# Number of additions that the compiler writes out: a loop that often meets the cell it has just
# written would wait for itself on some processors.
_AT_A_TIME = 8
# Rows whose cells are found at a time.
ROWS_AT_A_TIME = 1024
# Small tables are counted in several copies in turn, for the same reason.
_SHIFT, N_COPIES = 2, 1 << 14
_COPIES = 1 << _SHIFT


@kernel
def count_pairs(first, second, codes, n_second, offsets, counts, copies, cells):
    """Add one for each row to its cell, for the pairs ``(first[t], second[t])``.

    Table ``t`` is the slice of `counts` from ``offsets[t]``, of shape (n_first, n_second[t]).
    `copies`, zeros of shape (`N_COPIES`,), and `cells`, of shape (`ROWS_AT_A_TIME`,), are
    workspace: allocated here, they would take long to compile.
    """
    for table in range(len(first)):
        rows, columns = codes[first[table]], codes[second[table]]
        in_table, width = counts[offsets[table] : offsets[table + 1]], np.uint64(n_second[table])
        n_copied = _COPIES * len(in_table)
        is_copied = n_copied <= len(copies) and n_copied <= len(rows)
        target, shift = (copies, np.uint64(_SHIFT)) if is_copied else (in_table, np.uint64(0))
        turn = (np.uint64(1) << shift) - np.uint64(1)
        for start in range(0, len(rows), ROWS_AT_A_TIME):
            of_first, of_second = rows[start : start + ROWS_AT_A_TIME], columns[start:]
            for k in range(len(of_first)):
                cell = np.uint64(of_first[k]) * width + np.uint64(of_second[k])
                cells[k] = (cell << shift) + (np.uint64(k) & turn)
            # An index without a sign is not looked at for one from the end.
            n_grouped = len(of_first) - len(of_first) % _AT_A_TIME
            for group in range(0, n_grouped, _AT_A_TIME):
                for k in range(group, group + _AT_A_TIME):
                    target[cells[np.uint64(k)]] += 1
            for k in range(n_grouped, len(of_first)):
                target[cells[k]] += 1
        if is_copied:
            for i in range(len(in_table)):
                for k in range(_COPIES * i, _COPIES * (i + 1)):
                    in_table[i] += copies[k]
                    copies[k] = 0


@kernel
def weigh_pairs(first, second, codes, weights, n_second, offsets, mass):
    """Like `count_pairs`, adding the weight of each row."""
    for table in range(len(first)):
        rows = codes[first[table]]
        columns = codes[second[table]]
        stride = n_second[table]
        in_table = mass[offsets[table] : offsets[table + 1]]
        n_grouped = len(rows) - len(rows) % _AT_A_TIME
        for start in range(0, n_grouped, _AT_A_TIME):
            for row in range(start, start + _AT_A_TIME):
                at = np.uint64(row)
                in_table[np.uint64(rows[at] * stride + columns[at])] += weights[at]
        for row in range(n_grouped, len(rows)):
            in_table[np.uint64(rows[row] * stride + columns[row])] += weights[row]


@kernel
def group_neighbours(mass, n_groups, tie):
    """Return a group of about equal mass for each of some neighbouring cells, from 0 on.

    A group ends where it is nearest to an equal share of the mass that is left, so that a heavy
    cell costs no other group. Cells without mass join the group before them; differences below
    `tie` count as none.
    """
    group = np.empty(len(mass), dtype=np.int64)
    left, of_group, number = mass.sum(), 0.0, 0
    for cell in range(len(mass)):
        share = left / (n_groups - number)
        nearer_without = 2 * (share - of_group) < mass[cell] - tie
        if of_group > 0 and mass[cell] > 0 and number < n_groups - 1 and nearer_without:
            left -= of_group
            of_group = 0.0
            number += 1
        of_group += mass[cell]
        group[cell] = number
    return group
