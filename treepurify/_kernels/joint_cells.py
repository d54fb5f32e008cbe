"""Second moments of an ensemble under independent features, from its joint cells."""

import numpy as np

from treepurify._kernels.compiling import kernel
from treepurify._kernels.corners import add_corners


@kernel
def add_joint_corners(
    leaves,
    entry_ptr,
    entry_feature,
    axis_of_feature,
    run_ptr,
    run_start,
    run_stop,
    extents,
    values,
    table,
):
    """Add the corners of each leaf's box to the difference table over all axes.

    Features without an axis are skipped; ``extents`` ends with 1, the number of outputs.
    """
    order = len(extents) - 1
    entries = np.zeros(order, dtype=np.int64)
    corner = np.zeros(order, dtype=np.int64)
    n_corners = np.zeros(order, dtype=np.int64)
    for leaf in leaves:
        entries[:] = -1
        for entry in range(entry_ptr[leaf], entry_ptr[leaf + 1]):
            axis = axis_of_feature[entry_feature[entry]]
            if axis >= 0:
                entries[axis] = entry
        add_corners(
            order,
            entries,
            run_ptr,
            run_start,
            run_stop,
            extents,
            0,
            1.0,
            values[leaf],
            0,
            table,
            corner,
            n_corners,
        )


@kernel
def split_mean(table, n_outer, n_cells, n_inner, mass):
    """Replace each line along an axis by its mean and its coordinates about it, in place.

    The coordinates are those of Helmert's contrasts, weighted: a cell minus the mean of the
    cells before it. Under the mass they are orthonormal, so that the sum of their squares is
    the variance along the line; the mean comes first. The shape of `table` is
    (n_outer, n_cells, n_inner), flat, and every mass is positive.
    """
    length = np.zeros(n_cells)
    part = np.zeros(n_cells)
    before = mass[0]
    for k in range(1, n_cells):
        whole = before + mass[k]
        length[k] = np.sqrt(mass[k] * (before / whole))
        part[k] = mass[k] / whole
        before = whole
    for outer in range(n_outer):
        start = outer * n_cells * n_inner
        mean = table[start : start + n_inner]
        for k in range(1, n_cells):
            own = table[start + k * n_inner : start + (k + 1) * n_inner]
            for i in range(n_inner):
                difference = own[i] - mean[i]
                mean[i] += part[k] * difference
                own[i] = length[k] * difference
