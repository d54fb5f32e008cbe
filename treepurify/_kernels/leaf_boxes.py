"""The box of cells that each leaf of an ensemble covers."""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@kernel
def mark_pairs(tree_ptr, feature, left, right, together):
    """Mark which features occur on a path below which: ``together[above, below]``.

    ``feature`` is -1 for leaves.
    """
    # The node to visit, and how many features stand above it.
    stack = np.empty(len(feature) + 1, dtype=np.int64)
    depth = np.empty(len(feature) + 1, dtype=np.int64)
    above = np.empty(len(feature) + 1, dtype=np.int64)
    for tree in range(len(tree_ptr) - 1):
        stack[0], depth[0], height = tree_ptr[tree], 0, 1
        while height > 0:
            height -= 1
            node, length = stack[height], depth[height]
            if feature[node] < 0:
                continue
            for k in range(length):
                together[above[k], feature[node]] = True
            above[length] = feature[node]
            for child in (left[node], right[node]):
                stack[height], depth[height] = child, length + 1
                height += 1


@part
def _narrow(
    box,
    low,
    high,
    has_missing,
    cell_ptr,
    parent,
    feature,
    left,
    first_right,
    missing_left,
    category_ptr,
    category_left,
    n_cells,
    n_regular,
    missing_cell,
    leaf,
    path,
):
    """Find the cells that reach `leaf`; return its features in `path` and their number.

    Along a numeric feature they are the intervals ``low:high`` and, if `has_missing`, the
    missing cell, whatever the number of cuts. Along a categorical one, where ``low`` is -1,
    they are marked in `box`.
    """
    n_path = 0
    node = leaf
    while parent[node] >= 0:
        above = parent[node]
        goes_left = left[above] == node
        j = feature[above]
        start = cell_ptr[j]
        known = False
        for k in range(n_path):
            if path[k] == j:
                known = True
        if not known:
            k = n_path
            while k > 0 and path[k - 1] > j:
                path[k] = path[k - 1]
                k -= 1
            path[k] = j
            n_path += 1
            low[j] = 0
            high[j] = n_regular[j]
            has_missing[j] = missing_cell[j] >= 0
            if category_ptr[above] >= 0:
                low[j] = -1
                for cell in range(n_cells[j]):
                    box[start + cell] = True
        table = category_ptr[above]
        if table >= 0:
            for cell in range(n_cells[j]):
                if cell == missing_cell[j]:
                    inside = missing_left[above] == goes_left
                else:
                    inside = category_left[table + cell] == goes_left
                box[start + cell] &= inside
        else:
            bound = first_right[above]
            if goes_left and bound < high[j]:
                high[j] = bound
            elif not goes_left and bound > low[j]:
                low[j] = bound
            has_missing[j] &= missing_left[above] == goes_left
        node = above
    return n_path


@part
def _interval_runs(low, high, has_missing, n_regular, write, first_run, run_start, run_stop):
    """Like `_marked_runs`, for the cells ``low:high`` and the missing cell `n_regular`."""
    n_runs = 0
    if low < high:
        if write:
            run_start[first_run] = low
            run_stop[first_run] = high
        n_runs = 1
    if has_missing:
        if n_runs and high == n_regular:
            if write:
                run_stop[first_run] = n_regular + 1
        else:
            if write:
                run_start[first_run + n_runs] = n_regular
                run_stop[first_run + n_runs] = n_regular + 1
            n_runs += 1
    return n_runs


@part
def _marked_runs(box, start, n_cells, write, first_run, run_start, run_stop):
    """Return the number of runs of marked cells; write them from `first_run` if `write`."""
    n_runs = 0
    inside = False
    for cell in range(n_cells):
        if box[start + cell] and not inside:
            if write:
                run_start[first_run + n_runs] = cell
            n_runs += 1
            inside = True
        elif inside and not box[start + cell]:
            if write:
                run_stop[first_run + n_runs - 1] = cell
            inside = False
    if inside and write:
        run_stop[first_run + n_runs - 1] = n_cells
    return n_runs


@part
def _cells_reached(box, start, n_cells, low, high, has_missing):
    """Return how many cells of a feature reach the leaf."""
    if low >= 0:
        return (high - low if high > low else 0) + has_missing
    n_reached = 0
    for cell in range(start, start + n_cells):
        n_reached += box[cell]
    return n_reached


@kernel
def add_runs(
    leaves, splits, cells, work, keep_all, write, reachable, entry_ptr, entry_feature, runs
):
    """Find the runs of cells of every leaf; fill `entry_ptr` and `reachable`.

    Returns the number of runs. Only if `write`, entries and runs are written as well. `work` is
    work space: nothing is allocated here, which would take longer to compile than all the rest.
    Tuples are taken apart once: reading them for every leaf takes twice as long.
    """
    parent, feature, left, first_right, missing_left, category_ptr, category_left = splits
    cell_ptr, n_cells, n_regular, missing_cell = cells
    box, low, high, has_missing, n_reached, path = work
    run_ptr, run_start, run_stop = runs
    n_entries = entry_ptr[0]
    n_runs = run_ptr[0]
    for i in range(len(leaves)):
        n_path = _narrow(
            box,
            low,
            high,
            has_missing,
            cell_ptr,
            parent,
            feature,
            left,
            first_right,
            missing_left,
            category_ptr,
            category_left,
            n_cells,
            n_regular,
            missing_cell,
            leaves[i],
            path,
        )
        reachable[i] = True
        for k in range(n_path):
            j = path[k]
            n_reached[j] = _cells_reached(
                box, cell_ptr[j], n_cells[j], low[j], high[j], has_missing[j]
            )
            if n_reached[j] == 0:
                reachable[i] = False
        for k in range(n_path):
            j = path[k]
            start = cell_ptr[j]
            if not keep_all and (not reachable[i] or n_reached[j] == n_cells[j]):
                continue
            if low[j] >= 0:
                n_runs += _interval_runs(
                    low[j],
                    high[j],
                    has_missing[j],
                    n_regular[j],
                    write,
                    n_runs,
                    run_start,
                    run_stop,
                )
            else:
                n_runs += _marked_runs(box, start, n_cells[j], write, n_runs, run_start, run_stop)
            n_entries += 1
            if write:
                entry_feature[n_entries - 1] = j
                run_ptr[n_entries] = n_runs
        entry_ptr[i + 1] = n_entries
    return n_runs
