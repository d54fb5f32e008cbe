"""The box of cells that each leaf of an ensemble covers."""

import numpy as np
from numba import njit


@njit(cache=True)
def parents_of(left, right):
    """Return the parent of each node; -1 for roots."""
    parent = np.full(len(left), -1, dtype=np.int32)
    for node in range(len(left)):
        if left[node] >= 0:
            parent[left[node]] = node
            parent[right[node]] = node
    return parent


@njit(cache=True)
def _narrow(
    box,
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
    """Mark the cells that reach `leaf` in `box`; return its features in `path` and their number."""
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
            for cell in range(n_cells[j]):
                box[start + cell] = True
        table = category_ptr[above]
        if table >= 0:
            for cell in range(n_cells[j]):
                if cell != missing_cell[j] and category_left[table + cell] != goes_left:
                    box[start + cell] = False
        elif goes_left:
            for cell in range(first_right[above], n_regular[j]):
                box[start + cell] = False
        else:
            for cell in range(first_right[above]):
                box[start + cell] = False
        if missing_cell[j] >= 0 and missing_left[above] != goes_left:
            box[start + missing_cell[j]] = False
        node = above
    return n_path


@njit(cache=True)
def _runs_of(box, start, n_cells, write, first_run, run_start, run_stop):
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


@njit(cache=True)
def leaf_runs(
    leaves,
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
):
    """Return each leaf's box as runs of cells along the features that restrict it.

    Returns
    -------
    entry_ptr : (n_leaves + 1,)
        The entries of leaf i are ``entry_ptr[i]:entry_ptr[i + 1]``, one a feature.
    entry_feature : (n_entries,)
        Features, increasing within a leaf.
    run_ptr : (n_entries + 1,)
        The runs of an entry.
    run_start, run_stop : (n_runs,)
        Half-open runs of cells.
    reachable : (n_leaves,)
        False where no cell reaches the leaf.
    """
    n_leaves = len(leaves)
    cell_ptr = np.zeros(len(n_cells) + 1, dtype=np.int64)
    for j in range(len(n_cells)):
        cell_ptr[j + 1] = cell_ptr[j] + n_cells[j]
    box = np.zeros(cell_ptr[-1], dtype=np.bool_)
    path = np.zeros(len(n_cells) + 1, dtype=np.int64)
    entry_ptr = np.zeros(n_leaves + 1, dtype=np.int64)
    reachable = np.ones(n_leaves, dtype=np.bool_)
    entry_feature = np.zeros(0, dtype=np.int32)
    run_ptr = np.zeros(1, dtype=np.int64)
    run_start = np.zeros(0, dtype=np.int32)
    run_stop = np.zeros(0, dtype=np.int32)
    n_entries = 0
    n_runs = 0
    for sweep in range(2):
        write = sweep == 1
        if write:
            entry_feature = np.zeros(n_entries, dtype=np.int32)
            run_ptr = np.zeros(n_entries + 1, dtype=np.int64)
            run_start = np.zeros(n_runs, dtype=np.int32)
            run_stop = np.zeros(n_runs, dtype=np.int32)
            n_entries = 0
            n_runs = 0
        for i in range(n_leaves):
            n_path = _narrow(
                box,
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
            for k in range(n_path):
                j = path[k]
                found = _runs_of(box, cell_ptr[j], n_cells[j], False, 0, run_start, run_stop)
                if found == 0:
                    reachable[i] = False
            for k in range(n_path):
                j = path[k]
                whole = True
                for cell in range(cell_ptr[j], cell_ptr[j + 1]):
                    if not box[cell]:
                        whole = False
                if whole or not reachable[i]:
                    continue
                found = _runs_of(box, cell_ptr[j], n_cells[j], write, n_runs, run_start, run_stop)
                n_runs += found
                n_entries += 1
                if write:
                    entry_feature[n_entries - 1] = j
                    run_ptr[n_entries] = n_runs
            entry_ptr[i + 1] = n_entries
    return entry_ptr, entry_feature, run_ptr, run_start, run_stop, reachable
