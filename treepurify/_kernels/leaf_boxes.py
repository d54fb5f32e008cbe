"""The box of cells that each leaf of an ensemble covers."""

from treepurify._kernels.compiling import kernel, part

# What `add_runs` knows of the edge from a node up to its parent, and of the cells of a feature.
PARENT, FEATURE, LOW, HIGH, TAKES_MISSING, TABLE = range(6)
START, SIZE, N_PRESENT = range(3)
# What it finds out of a feature on the way up from one leaf, in addition to `LOW` and `HIGH`.
_LEAF, _HAS_MISSING = 0, 1


@part
def _narrow(leaf, number, edges, category_left, cells, marked, found, path):
    """Find the cells that reach `leaf`; return its features in `path` and their number.

    Along a numeric feature they are an interval, whatever the number of cuts. Along a categorical
    one, where ``LOW`` is -1, they are `marked`. The missing cell, the last one, is among them if
    that `_HAS_MISSING`.
    """
    n_path = 0
    node = leaf
    while edges[node, PARENT] >= 0:
        j, table = edges[node, FEATURE], edges[node, TABLE]
        is_first = found[j, _LEAF] != number
        if is_first:
            k = n_path
            while k > 0 and path[k - 1] > j:
                path[k] = path[k - 1]
                k -= 1
            path[k] = j
            n_path += 1
            found[j, _LEAF] = number
            found[j, LOW] = 0 if table < 0 else -1
            found[j, HIGH] = cells[j, N_PRESENT]
            found[j, _HAS_MISSING] = cells[j, SIZE] - cells[j, N_PRESENT]
        found[j, _HAS_MISSING] &= edges[node, TAKES_MISSING]
        if category_left is not None and table >= 0:
            goes_left, start = edges[node, LOW] == 1, cells[j, START]
            for cell in range(cells[j, N_PRESENT]):
                inside = category_left[table + cell] == goes_left
                marked[start + cell] = inside & (is_first | marked[start + cell])
        elif edges[node, LOW] > found[j, LOW]:
            found[j, LOW] = edges[node, LOW]
        elif edges[node, HIGH] < found[j, HIGH]:
            found[j, HIGH] = edges[node, HIGH]
        node = edges[node, PARENT]
    return n_path


@kernel
def add_runs(
    first_leaf,
    leaves,
    edges,
    category_left,
    cells,
    keep_all,
    marked,
    found,
    path,
    reachable,
    n_entries_of_leaf,
    entry_feature,
    n_runs_of_entry,
    runs,
):
    """Find the runs of cells of every leaf from `first_leaf` on, until the arrays are full.

    Returns the leaf to go on with, the number of entries and that of runs. `marked`, `found` and
    `path` are workspace: nothing is allocated here, which would take long to compile. Without
    categories, `category_left` is None, and what they need is not compiled.
    """
    n_entries, n_runs = 0, 0
    for i in range(first_leaf, len(leaves)):
        # A leaf has at most one entry for each feature, and one run for each cell.
        if n_entries + len(cells) > len(entry_feature) or n_runs + len(marked) > runs.shape[1]:
            return i, n_entries, n_runs
        n_path = _narrow(leaves[i], i, edges, category_left, cells, marked, found, path)
        before_entries, before_runs = n_entries, n_runs
        for k in range(n_path):
            j, first, n_reached = path[k], n_runs, 0
            low, n_present = found[j, LOW], cells[j, N_PRESENT]
            # The categories one by one, or the interval, and then the missing cell.
            n_parts = n_present if low < 0 else 1
            for number in range(n_parts + 1):
                if number == n_parts:
                    start, stop = n_present, n_present + found[j, _HAS_MISSING]
                elif low < 0:
                    start, stop = number, number + marked[cells[j, START] + number]
                else:
                    start, stop = low, found[j, HIGH]
                if start < stop:
                    if n_runs == first or runs[1, n_runs - 1] < start:
                        runs[0, n_runs] = start
                        n_runs += 1
                    runs[1, n_runs - 1] = stop
                    n_reached += stop - start
            if n_reached == 0:
                reachable[i] = False
            if n_reached == cells[j, SIZE] and not keep_all:
                n_runs = first
                continue
            entry_feature[n_entries] = j
            n_runs_of_entry[n_entries] = n_runs - first
            n_entries += 1
        if not reachable[i] and not keep_all:
            n_entries, n_runs = before_entries, before_runs
        n_entries_of_leaf[i] = n_entries - before_entries
    return len(leaves), n_entries, n_runs
