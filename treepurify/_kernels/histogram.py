"""Count rows in the cells of pair tables."""

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
