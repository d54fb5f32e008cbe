"""Normal equations of a fit of tables, one row at a time."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def add_rows(places, sets, sizes, first, weights, target, gram, right):
    """Add rows to the upper triangle of normal equations, and to their right side.

    Each cell of each table is an unknown, which is one on the rows in the cell and zero elsewhere.
    ``places`` (n_rows, n_axes) is the cell of each row along each axis, -1 for a cell without
    unknowns; ``sets`` (n_tables, most axes of a table) are the axes of each table, -1 behind the
    last; ``sizes`` the number of cells of each axis, and ``first`` the first unknown of each table.
    """
    n_tables, most = sets.shape
    listed = np.empty(n_tables, dtype=np.int64)
    for row in range(len(places)):
        weight = weights[row]
        if weight == 0.0:
            continue
        n_listed = 0
        for table in range(n_tables):
            cell = 0
            for slot in range(most):
                axis = sets[table, slot]
                if axis < 0:
                    break
                place = places[row, axis]
                if place < 0:
                    cell = -1
                    break
                cell = cell * sizes[axis] + place
            # Written in any case and kept if it is one: a branch is often guessed wrong.
            listed[n_listed] = first[table] + cell
            n_listed += cell >= 0
        for i in range(n_listed):
            one = listed[i]
            for k in range(i, n_listed):
                gram[one, listed[k]] += weight
            for output in range(target.shape[1]):
                right[one, output] += weight * target[row, output]
