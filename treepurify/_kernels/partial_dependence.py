"""Count, for every leaf, in which of its path's features the background rows leave its box.

A row's pattern is the set of the path's features whose condition it breaks. The patterns of a
leaf with d features and at most `limit` broken conditions are numbered by size, then in
colexicographic order: positions ``v_0 < v_1 < ...`` stand at
``sum_(s < size) C(d, s) + sum_t C(v_t, t + 1)``.
"""

import numpy as np

from treepurify._kernels.combinations import next_combination
from treepurify._kernels.compiling import inlined, kernel, part

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_PAIRS = np.uint64(0x5555555555555555)
_FOURS = np.uint64(0x3333333333333333)
_EIGHTS = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)


@part
def _set_bits(word):
    """Return the number of ones of a 64-bit word; compilers know this form as one instruction."""
    word = word - ((word >> _ONE) & _PAIRS)
    word = (word & _FOURS) + ((word >> np.uint64(2)) & _FOURS)
    word = (word + (word >> np.uint64(4))) & _EIGHTS
    return (word * _BYTES) >> np.uint64(56)


@kernel
def pattern_slot(chosen, size, d, choose):
    """Return the number of the pattern of the first `size` positions of `chosen`."""
    slot = 0
    for smaller in range(size):
        slot += choose[d, smaller]
    for t in range(size):
        slot += choose[chosen[t], t + 1]
    return slot


@kernel
def rows_below(codes, first_row, n_rows, cell_ptr, n_cells, below):
    """Pack, for every feature and cell c, which rows of a block lie in a cell before c.

    Bit ``r % 64`` of ``below[cell_ptr[j] + c, r // 64]`` is row ``first_row + r``;
    ``cell_ptr`` allows ``n_cells[j] + 1`` boundaries per feature.
    """
    below[:] = 0
    for j in range(len(n_cells)):
        if n_cells[j] < 2:
            continue
        first = cell_ptr[j]
        for row in range(n_rows):
            cell = first + 1 + np.int64(codes[j, first_row + row])
            below[cell, row >> 6] |= _ONE << np.uint64(row & 63)
        for c in range(first + 2, first + 1 + n_cells[j]):
            for word in range(below.shape[1]):
                below[c, word] |= below[c - 1, word]


@inlined
def _entry_mask(entry, feature, run_ptr, run_start, run_stop, cell_ptr, below, mask):
    """Mark the rows whose cell lies in one of the runs of an entry."""
    first = cell_ptr[feature]
    for word in range(len(mask)):
        mask[word] = 0
    for run in range(run_ptr[entry], run_ptr[entry + 1]):
        start = first + run_start[run]
        stop = first + run_stop[run]
        for word in range(len(mask)):
            mask[word] |= below[stop, word] & ~below[start, word]


@part
def _keep(rows, mask, flip, kept):
    """Intersect rows with a mask, or with its complement; return whether any are left."""
    any_left = np.uint64(0)
    for word in range(len(rows)):
        kept[word] = rows[word] & (mask[word] ^ flip)
        any_left |= kept[word]
    return any_left != 0


@inlined
def _weight_of(rows, weights):
    """Return the number of marked rows, or the sum of their weights where there are some."""
    if len(weights) == 0:
        count = np.uint64(0)
        for word in range(len(rows)):
            count += _set_bits(rows[word])
        return np.float64(count)
    total = 0.0
    for word in range(len(rows)):
        left = rows[word]
        while left != 0:
            lowest = left & (~left + _ONE)
            total += weights[64 * word + np.int64(_set_bits(lowest - _ONE))]
            left ^= lowest
    return total


@kernel
def count_patterns(
    leaves,
    entry_ptr,
    entry_feature,
    run_ptr,
    run_start,
    run_stop,
    cell_ptr,
    below,
    n_rows,
    weights,
    limit,
    choose,
    slot_ptr,
    counts,
):
    """Add the rows of a block to the count of each leaf's patterns of at most `limit` features.

    Depth first over the conditions of a path: the rows that keep the next condition, then
    those that break it, as bit sets; a branch without rows is left at once.
    """
    n_words = below.shape[1]
    most = 0
    for leaf in leaves:
        size = entry_ptr[leaf + 1] - entry_ptr[leaf]
        most = size if size > most else most
    masks = np.zeros((most, n_words), dtype=np.uint64)
    rows = np.zeros((most + 1, n_words), dtype=np.uint64)
    for row in range(n_rows):
        rows[0, row >> 6] |= _ONE << np.uint64(row & 63)
    state = np.zeros(most + 1, dtype=np.int64)
    broken = np.zeros(most + 1, dtype=np.int64)
    for leaf in leaves:
        first = entry_ptr[leaf]
        d = entry_ptr[leaf + 1] - first
        for k in range(d):
            entry = first + k
            _entry_mask(
                entry, entry_feature[entry], run_ptr, run_start, run_stop, cell_ptr, below, masks[k]
            )
        n_broken = 0
        level = 0
        state[0] = 0
        while level >= 0:
            if level == d:
                slot = slot_ptr[leaf] + pattern_slot(broken, n_broken, d, choose)
                counts[slot] += _weight_of(rows[d], weights)
                level -= 1
            elif state[level] == 0:
                state[level] = 1
                if _keep(rows[level], masks[level], np.uint64(0), rows[level + 1]):
                    level += 1
                    state[level] = 0
            elif state[level] == 1 and n_broken < limit:
                state[level] = 2
                broken[n_broken] = level
                n_broken += 1
                if _keep(rows[level], masks[level], _ALL, rows[level + 1]):
                    level += 1
                    state[level] = 0
            else:
                if state[level] == 2:
                    n_broken -= 1
                level -= 1


@kernel
def add_smaller_patterns(leaves, entry_ptr, limit, choose, slot_ptr, counts):
    """Turn counts of patterns into counts of rows that break no condition outside a pattern."""
    chosen = np.zeros(limit + 1, dtype=np.int64)
    without = np.zeros(limit + 1, dtype=np.int64)
    for leaf in leaves:
        d = entry_ptr[leaf + 1] - entry_ptr[leaf]
        base = slot_ptr[leaf]
        for condition in range(d):
            for size in range(1, min(limit, d) + 1):
                for k in range(size):
                    chosen[k] = k
                while True:
                    n_without = 0
                    for k in range(size):
                        if chosen[k] != condition:
                            without[n_without] = chosen[k]
                            n_without += 1
                    if n_without < size:
                        slot = base + pattern_slot(chosen, size, d, choose)
                        counts[slot] += counts[base + pattern_slot(without, n_without, d, choose)]
                    if not next_combination(chosen, size, d):
                        break
