"""How far trees move at a step of one feature, over all leaves that meet on the other features."""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@part
def _meet(first, second, moved, entry_ptr, entry_feature, run_ptr, run_start, run_stop):
    """Return whether two leaves share a cell along every feature but `moved`."""
    i, j = entry_ptr[first], entry_ptr[second]
    end_i, end_j = entry_ptr[first + 1], entry_ptr[second + 1]
    while i < end_i and j < end_j:
        if entry_feature[i] < entry_feature[j]:
            i += 1
            continue
        if entry_feature[j] < entry_feature[i]:
            j += 1
            continue
        if entry_feature[i] != moved:
            run_i, run_j = run_ptr[i], run_ptr[j]
            overlap = False
            while run_i < run_ptr[i + 1] and run_j < run_ptr[j + 1] and not overlap:
                if run_stop[run_i] <= run_start[run_j]:
                    run_i += 1
                elif run_stop[run_j] <= run_start[run_i]:
                    run_j += 1
                else:
                    overlap = True
            if not overlap:
                return False
        i += 1
        j += 1
    return True


@kernel
def smallest_differences(
    moved,
    leaf,
    value,
    first,
    middle,
    last,
    most_pairs,
    entry_ptr,
    entry_feature,
    run_ptr,
    run_start,
    run_stop,
    smallest,
):
    """Find the smallest difference of two leaves that meet, for each step of each tree.

    Leaves ``leaf[first[g]:middle[g]]`` are left at step g, by falling value, and
    ``leaf[middle[g]:last[g]]`` are reached by it, by rising value; ``value`` stands next to
    ``leaf``. Where there are more than `most_pairs` of them, the difference of the two ends stands
    for them all: it is no larger.
    """
    for group in range(len(first)):
        start, between, stop = first[group], middle[group], last[group]
        best = np.inf
        if (between - start) * (stop - between) > most_pairs:
            smallest[group] = value[between] - value[start]
            continue
        for a in range(start, between):
            if value[between] - value[a] >= best:
                break
            for b in range(between, stop):
                if value[b] - value[a] >= best:
                    break
                if _meet(
                    leaf[a],
                    leaf[b],
                    moved,
                    entry_ptr,
                    entry_feature,
                    run_ptr,
                    run_start,
                    run_stop,
                ):
                    best = value[b] - value[a]
                    break
        smallest[group] = best
