"""Boxes of cells, which are products of runs: their corners, and whether they hold a cell."""

from treepurify._kernels.compiling import part


@part
def holds_cell(entry, cell, run_ptr, run_start, run_stop):
    """Return whether a cell lies in one of the runs of an entry."""
    for run in range(run_ptr[entry], run_ptr[entry + 1]):
        if run_start[run] <= cell < run_stop[run]:
            return True
    return False


@part
def add_corners(
    order,
    entries,
    run_ptr,
    run_start,
    run_stop,
    extents,
    offset,
    weight,
    values,
    output,
    tables,
    run,
    end,
):
    """Add ``weight * values`` at the signed corners of a box.

    The box is the product of the runs of cells of ``entries[:order]``; each corner takes the
    start (plus) or the stop (minus) of one run along each axis, and corners outside the
    table add nothing. Where an entry is -1, the box covers the whole axis: one corner, at cell
    0. Where an entry has no run, there is no box. One number of `values` feeds output
    ``output >= 0``, else all of them feed theirs; the output axis is the last of the C-ordered
    table at `offset`. `run` and `end` are work space.
    """
    n_outputs = extents[order]
    for k in range(order):
        run[k] = run_ptr[entries[k]] if entries[k] >= 0 else -1
        end[k] = 0
        if run[k] >= 0 and run[k] == run_ptr[entries[k] + 1]:
            return
    while True:
        cell = 0
        sign = weight
        outside = False
        for k in range(order):
            at = 0
            if run[k] >= 0:
                at = run_stop[run[k]] if end[k] else run_start[run[k]]
            if at >= extents[k]:
                outside = True
            cell = cell * extents[k] + at
            if end[k]:
                sign = -sign
        if not outside:
            start = offset + cell * n_outputs
            if output >= 0:
                tables[start + output] += sign * values[0]
            else:
                for m in range(n_outputs):
                    tables[start + m] += sign * values[m]
        k = order - 1
        while k >= 0:
            if run[k] < 0:
                k -= 1
                continue
            if end[k] == 0:
                end[k] = 1
                break
            end[k] = 0
            run[k] += 1
            if run[k] < run_ptr[entries[k] + 1]:
                break
            run[k] = run_ptr[entries[k]]
            k -= 1
        if k < 0:
            break
