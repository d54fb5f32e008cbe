"""Add leaf boxes into tables: corners of a difference array, then cumulative sums."""

import numpy as np
from numba import njit


@njit(cache=True)
def add_box_corners(
    leaves,
    entry_ptr,
    run_ptr,
    run_start,
    run_stop,
    leaf_group,
    group_offset,
    group_shape,
    group_order,
    values,
    output,
    n_outputs,
    tables,
):
    """Add the signed corners of each leaf's box to the table of its group.

    `values[i]` holds the leaf's value, one number for ``output[i] >= 0``, else one an output.
    Tables are C-ordered with the output axis last.
    """
    most = group_shape.shape[1] + 1
    run = np.zeros(most, dtype=np.int64)
    end = np.zeros(most, dtype=np.int64)
    for position in range(len(leaves)):
        i = leaves[position]
        group = leaf_group[position]
        order = group_order[group]
        first = entry_ptr[i]
        for k in range(order):
            run[k] = run_ptr[first + k]
            end[k] = 0
        while True:
            # One corner: the start or the stop of one run along each axis.
            cell = 0
            sign = 1.0
            outside = False
            for k in range(order):
                size = group_shape[group, k]
                at = run_stop[run[k]] if end[k] else run_start[run[k]]
                if at >= size:
                    outside = True
                cell = cell * size + at
                if end[k]:
                    sign = -sign
            if not outside:
                start = group_offset[group] + cell * n_outputs
                if output[i] >= 0:
                    tables[start + output[i]] += sign * values[i, 0]
                else:
                    for m in range(n_outputs):
                        tables[start + m] += sign * values[i, m]
            k = order - 1
            while k >= 0:
                if end[k] == 0:
                    end[k] = 1
                    break
                end[k] = 0
                run[k] += 1
                if run[k] < run_ptr[first + k + 1]:
                    break
                run[k] = run_ptr[first + k]
                k -= 1
            if k < 0:
                break


@njit(cache=True)
def cumulate(tables, offset, shape, order, n_outputs):
    """Replace a difference table by its cumulative sums along every axis, in place."""
    n_cells = 1
    for k in range(order):
        n_cells *= shape[k]
    inner = n_outputs
    for k in range(order - 1, -1, -1):
        size = shape[k]
        step = inner
        inner = step * size
        for start in range(0, n_cells * n_outputs, inner):
            first = offset + start
            for at in range(first + step, first + inner):
                tables[at] += tables[at - step]
