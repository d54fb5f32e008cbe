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
    corner,
    n_corners,
):
    """Add ``weight * values`` at the signed corners of a box.

    The box is the product of the runs of cells of ``entries[:order]``; each corner takes the
    start (plus) or the stop (minus) of one run along each axis, and corners outside the
    table add nothing. Where an entry is -1, the box covers the whole axis: one corner, at cell
    0. Where an entry has no run, there is no box. One number of `values` feeds output
    ``output >= 0``, else all of them feed theirs; the output axis is the last of the C-ordered
    table at `offset`. `corner` and `n_corners` are workspace.
    """
    n_outputs = extents[order]
    first, stop = (output, output + 1) if output >= 0 else (0, n_outputs)
    for k in range(order):
        entry = entries[k]
        corner[k] = 0
        n_corners[k] = 2 * (run_ptr[entry + 1] - run_ptr[entry]) if entry >= 0 else 1
        if n_corners[k] == 0:
            return
    while True:
        cell = 0
        sign = weight
        inside = True
        for k in range(order):
            at = 0
            if entries[k] >= 0:
                run = run_ptr[entries[k]] + (corner[k] >> 1)
                if corner[k] & 1:
                    at = run_stop[run]
                    sign = -sign
                else:
                    at = run_start[run]
            inside &= at < extents[k]
            cell = cell * extents[k] + at
        if inside:
            start = offset + cell * n_outputs
            for m in range(first, stop):
                tables[start + m] += sign * values[m - first]
        k = order - 1
        while k >= 0 and corner[k] == n_corners[k] - 1:
            corner[k] = 0
            k -= 1
        if k < 0:
            return
        corner[k] += 1
