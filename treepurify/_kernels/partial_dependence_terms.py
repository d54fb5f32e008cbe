"""Terms of partial dependence, from the shares of rows that each leaf's patterns keep."""

import numpy as np

from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.corners import add_corners, holds_cell
from treepurify._kernels.partial_dependence import pattern_slot


@part
def find_entries(leaf, features, entry_ptr, entry_feature, entries):
    """Set the entries of a leaf along some of the features that its path tests, in order."""
    position = 0
    for entry in range(entry_ptr[leaf], entry_ptr[leaf + 1]):
        if position < len(features) and entry_feature[entry] == features[position]:
            entries[position] = entry
            position += 1


@kernel
def add_term_corners(
    leaves,
    features,
    entry_ptr,
    entry_feature,
    run_ptr,
    run_start,
    run_stop,
    choose,
    slot_ptr,
    share,
    extents,
    values,
    output,
    table,
):
    """Add each leaf's term of `features`, all of which its path tests, to a difference table.

    The term of S is ``value * sum_(T in S) (-1)^|S - T| 1_T(x) share(T)``, where share(T) is
    the share of rows that keep all conditions outside T.
    """
    size = len(features)
    own = np.zeros(size, dtype=np.int64)
    given = np.zeros(size, dtype=np.int64)
    entries = np.zeros(size, dtype=np.int64)
    corner = np.zeros(size, dtype=np.int64)
    n_corners = np.zeros(size, dtype=np.int64)
    for leaf in leaves:
        first = entry_ptr[leaf]
        n = entry_ptr[leaf + 1] - first
        find_entries(leaf, features, entry_ptr, entry_feature, own)
        for subset in range(1 << size):
            n_given = 0
            for k in range(size):
                entries[k] = -1
                if subset >> k & 1:
                    entries[k] = own[k]
                    given[n_given] = own[k] - first
                    n_given += 1
            weight = share[slot_ptr[leaf] + pattern_slot(given, n_given, n, choose)]
            if weight == 0.0:
                continue
            add_corners(
                size,
                entries,
                run_ptr,
                run_start,
                run_stop,
                extents,
                0,
                -weight if (size - n_given) & 1 else weight,
                values[leaf],
                output[leaf],
                table,
                corner,
                n_corners,
            )


@kernel
def term_factors(leaves, features, entry_ptr, entry_feature, choose, slot_ptr, share):
    """Return each leaf's entries along `features`, and its term by the conditions a point keeps.

    ``factor[l, B]`` is ``sum_(T in B) (-1)^|S - T| share(T)`` for a point that keeps exactly
    the conditions of B out of S: bit k of B is the k-th feature.
    """
    size = len(features)
    entries = np.zeros((len(leaves), size), dtype=np.int64)
    factor = np.zeros((len(leaves), 1 << size))
    given = np.zeros(size, dtype=np.int64)
    for i in range(len(leaves)):
        leaf = leaves[i]
        first = entry_ptr[leaf]
        n = entry_ptr[leaf + 1] - first
        find_entries(leaf, features, entry_ptr, entry_feature, entries[i])
        for subset in range(1 << size):
            n_given = 0
            for k in range(size):
                if subset >> k & 1:
                    given[n_given] = entries[i, k] - first
                    n_given += 1
            kept = share[slot_ptr[leaf] + pattern_slot(given, n_given, n, choose)]
            factor[i, subset] = -kept if (size - n_given) & 1 else kept
        for k in range(size):
            for subset in range(1 << size):
                if subset >> k & 1:
                    factor[i, subset] += factor[i, subset ^ (1 << k)]
    return entries, factor


@kernel
def add_terms(
    cells, leaves, entries, factor, run_ptr, run_start, run_stop, values, output, pattern, total
):
    """Add the term of every leaf to each row of `total`; `cells` has one row per feature.

    `pattern` is workspace of one number per row.
    """
    n_rows = cells.shape[1]
    for i in range(len(leaves)):
        leaf = leaves[i]
        pattern[:] = 0
        for k in range(entries.shape[1]):
            own = cells[k]
            bit = pattern.dtype.type(1 << k)
            for run in range(run_ptr[entries[i, k]], run_ptr[entries[i, k] + 1]):
                start = own.dtype.type(run_start[run])
                length = own.dtype.type(run_stop[run] - run_start[run])
                for row in range(n_rows):
                    # One comparison: cells before the run wrap around to large numbers.
                    inside = own.dtype.type(own[row] - start) < length
                    pattern[row] |= bit if inside else pattern.dtype.type(0)
        if output[leaf] >= 0:
            m = output[leaf]
            value = values[leaf, 0]
            for row in range(n_rows):
                total[row, m] += value * factor[i, pattern[row]]
        else:
            for row in range(n_rows):
                for m in range(total.shape[1]):
                    total[row, m] += values[leaf, m] * factor[i, pattern[row]]


@kernel
def leave_one_out(
    leaves,
    entry_ptr,
    entry_feature,
    run_ptr,
    run_start,
    run_stop,
    probability,
    codes,
    values,
    output,
    n_broken,
    broken,
    total,
):
    """Add to ``total[row, j]`` what averaging over feature j changes in the row's margin.

    A leaf that the row reaches counts ``p_j - 1`` for each feature j of its path; one that
    it misses by feature j alone counts ``p_j``. `n_broken` (uint8) and `broken` (int16) are
    workspace of one number per row: how many conditions it breaks, up to 2, and the last of them.
    """
    n_rows = codes.shape[1]
    for leaf in leaves:
        first = entry_ptr[leaf]
        n = entry_ptr[leaf + 1] - first
        n_broken[:] = 0
        for k in range(n):
            own = codes[entry_feature[first + k]]
            if run_ptr[first + k + 1] - run_ptr[first + k] == 1:
                _break_interval(own, run_start, run_stop, run_ptr[first + k], k, n_broken, broken)
            else:
                _break_runs(own, run_start, run_stop, run_ptr, first + k, k, n_broken, broken)
        for row in range(n_rows):
            if n_broken[row] > 1:
                continue
            for k in range(n):
                if n_broken[row] == 1 and broken[row] != k:
                    continue
                change = probability[first + k] - (1.0 if n_broken[row] == 0 else 0.0)
                j = entry_feature[first + k]
                if output[leaf] >= 0:
                    total[row, j, output[leaf]] += change * values[leaf, 0]
                else:
                    for m in range(total.shape[2]):
                        total[row, j, m] += change * values[leaf, m]


@part
def _break_interval(cells, run_start, run_stop, run, k, n_broken, broken):
    """Count the rows outside one run of cells, without a branch."""
    start = cells.dtype.type(run_start[run])
    length = cells.dtype.type(run_stop[run] - run_start[run])
    for row in range(len(cells)):
        outside = np.uint8(cells.dtype.type(cells[row] - start) >= length)
        broken[row] = np.int16(k) if outside else broken[row]
        n_broken[row] = min(np.uint8(n_broken[row] + outside), np.uint8(2))


@part
def _break_runs(cells, run_start, run_stop, run_ptr, entry, k, n_broken, broken):
    """Count the rows outside several runs of cells."""
    for row in range(len(cells)):
        if not holds_cell(entry, cells[row], run_ptr, run_start, run_stop):
            broken[row] = k
            n_broken[row] = min(n_broken[row] + 1, 2)
