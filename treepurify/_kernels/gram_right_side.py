"""Right side of the normal equations of a projection on coarse cells, from tables of joint cells.

Each table has the sums of the target for up to three pairs of features and for the features alone,
which are its sums along the other axes.
"""

import numpy as np

from treepurify._kernels.compiling import inlined, kernel
from treepurify._kernels.gram_tables import CHUNK, add_at

_MOST = 3


@kernel
def add_right_side(codes, target, sets, most_cells, right):
    """Add the sums of the target over the rows in each unknown's cells.

    `codes` are those of `gram_tables.rank_cells`. Unknowns without the pivot follow the others.
    Tables of three features have at most `most_cells`; larger pairs have tables of their own.
    """
    n_features, n_outputs = len(codes), target.shape[1]
    is_open = sets.first >= 0
    largest = most_cells
    for a in range(n_features):
        for b in range(a + 1, n_features):
            if is_open[a, b]:
                largest = max(largest, (sets.sizes[a] + 1) * (sets.sizes[b] + 1))
    table = np.empty((n_outputs, largest))
    features = np.empty(_MOST, dtype=np.int64)
    widths = np.empty(_MOST, dtype=np.int64)
    # Pairs come first, since tables of pairs also have the sums of single features.
    for size in range(2, -1, -1):
        for a in range(n_features + (size == 0)):
            for b in range(a + 1 if size == 2 else n_features, n_features + (size < 2)):
                if not is_open[a, b]:
                    continue
                features[0], features[1], features[2] = a, b, n_features
                if size == 2:
                    features[2] = _best_third(is_open, sets.sizes, a, b, most_cells)
                n_cells = 1
                for i in range(_MOST):
                    is_one = features[i] < n_features
                    widths[i] = sets.sizes[features[i]] + 1 if is_one else 1
                    n_cells *= widths[i]
                for output in range(n_outputs):
                    for i in range(n_cells):
                        table[output, i] = 0.0
                _sum_targets(codes, features, widths, target, table)
                _add_parts(features, widths, sets, is_open, table, right)


@inlined
def _best_third(is_open, sizes, a, b, most_cells):
    """Return the feature with which two have the most open pairs; ``len(sizes)`` for none."""
    best, most = len(sizes), 0
    for c in range(len(sizes)):
        if c in (a, b) or (sizes[a] + 1) * (sizes[b] + 1) * (sizes[c] + 1) > most_cells:
            continue
        gain = int(is_open[min(a, c), max(a, c)]) + int(is_open[min(b, c), max(b, c)])
        if gain > most:
            best, most = c, gain
    return best


@inlined
def _sum_targets(codes, features, widths, target, table):
    """Add the target of the rows to a table."""
    n_rows = codes.shape[1]
    index = np.empty(CHUNK, dtype=np.uint32)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        for i in range(n):
            index[i] = 0
        for k in range(_MOST):
            if features[k] < len(codes):
                code, width = codes[features[k], start : start + n], np.uint32(widths[k])
                for i in range(n):
                    index[i] = index[i] * width + code[i]
        for output in range(target.shape[1]):
            add_at(index, target[start : start + n, output], table[output])


@inlined
def _add_parts(features, widths, sets, is_open, table, right):
    """Add what a table has for sets of unknowns that are still open, and close them."""
    n_features = len(sets.sizes)
    n_inside = len(right) - sets.n_outside
    steps = np.zeros(_MOST, dtype=np.int64)
    ends = np.empty(_MOST, dtype=np.int64)
    for left_out in range(_MOST):
        for kept in range(4):
            # Every set of up to two of the three comes up; what is closed is passed over.
            a, b = features[(left_out + 1) % _MOST], features[(left_out + 2) % _MOST]
            a, b = a if kept & 1 else n_features, b if kept & 2 else n_features
            a, b = min(a, b), max(a, b)
            if not is_open[a, b]:
                continue
            is_open[a, b] = False
            for i in range(_MOST):
                feature = features[i]
                steps[i], ends[i] = 0, widths[i]
                if feature < n_features and feature in (a, b):
                    ends[i] = sets.sizes[feature]
                    steps[i] = sets.step[a, b, int(feature == b)]
                    if feature == sets.pivot:
                        steps[i] = sets.block_size
            first = sets.first[a, b] + (0 if sets.is_inside[a, b] else n_inside)
            _add_part(table, widths, ends, steps, first, right)


@inlined
def _add_part(table, widths, ends, steps, first, right):
    for output in range(right.shape[1]):
        sums = table[output]
        for i in range(ends[0]):
            for k in range(ends[1]):
                at = (i * widths[1] + k) * widths[2]
                to = first + i * steps[0] + k * steps[1]
                for last in range(ends[2]):
                    right[to + last * steps[2], output] += sums[at + last]
