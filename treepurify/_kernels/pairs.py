"""The equations of a pair table: its columns eliminated."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel(error_model="numpy")
def eliminate_columns(coupling, start, stop, mass, weakest, shares, pivots, leads):
    """Eliminate ``start:stop`` of the columns, whose equations are a Laplacian.

    ``coupling[p, k]`` holds column `p` to the later column `k`. When `p` goes, its coupling and its
    `mass` pass to the later columns in `shares`: sums and products of positive numbers, so that
    every entry keeps its digits, however small it is (Grassmann, Taksar and Heyman 1985). Rows of
    `coupling` from `stop` on are left as they were. `leads` becomes the column that holds `p` most.

    A column is held too weakly if the block that went into it and the rest would have an
    eigenvalue below `weakest`: it ends a block, and its pivot is infinite. Returns how many end a
    block though something holds them.
    """
    n, n_weak = len(coupling), 0
    for p in range(start, stop):
        row, of_row = coupling[p], shares[p]
        total, later, most, lead = 0.0, 0.0, 0.0, p
        for k in range(p + 1, n):
            total += row[k]
            later += mass[k]
            if row[k] > most:
                most, lead = row[k], k
        if total == 0 or total / mass[p] + total / later < weakest:
            n_weak += total > 0
            pivots[p], leads[p] = np.inf, p
            continue
        pivots[p], leads[p] = total, lead
        inverse, own = 1 / total, mass[p]
        for k in range(p + 1, n):
            of_row[k] = row[k] * inverse
            mass[k] += own * of_row[k]
        for j in range(p + 1, stop):
            other, share = coupling[j], of_row[j]
            for k in range(j + 1, n):
                other[k] += share * row[k]
    return n_weak
