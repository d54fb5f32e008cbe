"""Add leaf boxes into tables: corners of a difference array, then cumulative sums."""

from treepurify._kernels.compiling import kernel
from treepurify._kernels.corners import add_corners


@kernel
def add_box_corners(
    leaves,
    entry_ptr,
    run_ptr,
    run_start,
    run_stop,
    leaf_group,
    group_offset,
    group_extents,
    group_order,
    values,
    output,
    tables,
    entries,
    run,
    end,
):
    """Add the signed corners of each leaf's box to the table of its group.

    ``group_extents[g]`` holds the cells along each axis of group g and then the number of
    outputs; see `add_corners`. `entries`, `run` and `end` are work space, one entry per axis.
    """
    for position in range(len(leaves)):
        leaf = leaves[position]
        group = leaf_group[position]
        order = group_order[group]
        for k in range(order):
            entries[k] = entry_ptr[leaf] + k
        add_corners(
            order,
            entries,
            run_ptr,
            run_start,
            run_stop,
            group_extents[group],
            group_offset[group],
            1.0,
            values[leaf],
            output[leaf],
            tables,
            run,
            end,
        )


@kernel
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
