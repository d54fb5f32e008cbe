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
    corner,
    n_corners,
):
    """Add the signed corners of each leaf's box to the table of its group.

    ``group_extents[g]`` holds the cells along each axis of group g and then the number of
    outputs; see `add_corners`. `entries`, `corner` and `n_corners` are work space, one entry per
    axis.
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
            corner,
            n_corners,
        )


@kernel
def cumulate(tables, offsets, shapes, orders, n_outputs):
    """Replace difference tables by their cumulative sums along every axis, in place.

    Table t stands from ``offsets[t]`` to ``offsets[t + 1]``, and has the first ``orders[t]`` of
    ``shapes[t]`` as its cells.
    """
    for t in range(len(orders)):
        inner = n_outputs
        for axis in range(orders[t] - 1, -1, -1):
            step = inner
            inner = step * shapes[t, axis]
            for start in range(offsets[t], offsets[t + 1], inner):
                if step == 1:
                    total = 0.0
                    for at in range(start, start + inner):
                        total += tables[at]
                        tables[at] = total
                else:
                    for at in range(start + step, start + inner):
                        tables[at] += tables[at - step]
