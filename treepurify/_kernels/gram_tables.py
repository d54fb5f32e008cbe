"""Normal equations of a projection on coarse cells, from tables of joint cells.

An entry of the matrix is the weight of the rows in the cells of two sets of at most two features,
which is an entry of the table of joint cells of their union. Up to three parts of the matrix are in
one table of four features, and those of fewer are sums along its axes. So a row adds to a few
tables that stay near the processor, one after the other, where it would add to some hundred places
of the matrix.

Features are ranked (see `engines.tree.ranked_sets.RankedSets`). Most rows are in the cell of
reference of a rare feature, which has no unknowns: tables that hold rare features are summed over
the other rows only. Tables hold the cell of reference of frequent features as their last, so that
tables of fewer frequent features are their sums.
"""

import numpy as np

from treepurify._kernels.combinations import next_combination
from treepurify._kernels.compiling import kernel, part

# Largest number of features of a set.
_MOST = 4
# Rows whose positions in tables are found at a time; they stay in the cache.
CHUNK = 2048
# Not constants to the compiler, for which functions would be compiled again.
_NONE, _ONE = np.int64(0), np.int64(1)
# For each number of features the ways to write them as the union of two sets: places of the
# features of both among them, and 4 for none.
_UNIONS = np.array(
    [
        [0, 4, 4, 4, 4],
        [1, 4, 4, 0, 4],
        [1, 0, 4, 0, 4],
        [2, 4, 4, 0, 1],
        [2, 0, 4, 1, 4],
        [2, 0, 4, 0, 1],
        [2, 1, 4, 0, 1],
        [2, 0, 1, 0, 1],
        [3, 0, 4, 1, 2],
        [3, 1, 4, 0, 2],
        [3, 2, 4, 0, 1],
        [3, 0, 1, 0, 2],
        [3, 0, 1, 1, 2],
        [3, 0, 2, 1, 2],
        [4, 0, 1, 2, 3],
        [4, 0, 2, 1, 3],
        [4, 0, 3, 1, 2],
    ]
)


@kernel
def rank_cells(cells, ranked, place, start, sizes, codes):
    """Write the place of each row's cell among those with unknowns, one row of `codes` a feature.

    What has none is in the cell behind the last.
    """
    for rank in range(len(ranked)):
        feature = ranked[rank]
        places = place[start[feature] :]
        for row in range(len(cells)):
            at = places[cells[row, feature]]
            codes[rank, row] = at if at >= 0 else sizes[rank]


@kernel
def add_tables(codes, weights, sets, largest, blocks, border, rest):
    """Write the upper triangles of the normal equations of rows; what is zero stays unwritten.

    ``codes`` are those of `rank_cells`, and `largest` is the number of entries of the largest
    table. Weights have the type of the equations.
    """
    n_rows, n_rare = codes.shape[1], sets.n_rare
    n_frequent = len(codes) - n_rare
    # All tables that stand one above the other have at most half as many entries as the one above.
    tables = np.empty(2 * largest, dtype=weights.dtype)
    # Of each set of rare features on the way to the present one: its rows, and their position.
    rows = np.empty((_MOST + 1, n_rows), dtype=np.uint32)
    place = np.empty((_MOST + 1, n_rows), dtype=np.uint32)
    n_listed = np.empty(_MOST + 1, dtype=np.int64)
    chosen = np.empty(_MOST + 1, dtype=np.int64)
    for row in range(n_rows):
        rows[0, row], place[0, row] = row, 0
    n, n_listed[0] = _NONE, n_rows
    columns, listed_weights = codes[n_rare:], weights
    other_columns = np.empty((n_frequent, n_rows if n_rare else 0), dtype=codes.dtype)
    other_weights = np.empty(n_rows if n_rare else 0, dtype=weights.dtype)
    while True:
        matrix = blocks, border, rest
        _add_with_frequent(
            n, chosen, place[n], columns, listed_weights, n_listed[n], sets, tables, matrix
        )
        n = _choose_next(sets, chosen, n)
        if n == 0:
            return
        feature, columns, listed_weights = chosen[n - 1], other_columns, other_weights
        found = _list_rows(
            codes[feature],
            sets.sizes[feature],
            rows[n - 1, : n_listed[n - 1]],
            place[n - 1],
            rows[n],
            place[n],
        )
        n_listed[n] = found
        _take(weights, rows[n, :found], listed_weights)
        for k in range(n_frequent if n < _MOST else 0):
            _take(codes[n_rare + k], rows[n, :found], columns[k])


@part
def _list_rows(code, size, rows, place, kept, kept_place):
    """Keep the rows in cells with unknowns, and return how many they are.

    All are written, for a branch is often guessed wrong; the next one takes the place of what is
    not kept.
    """
    found = 0
    for i in range(len(rows)):
        cell = code[rows[i]]
        kept[found] = rows[i]
        kept_place[found] = place[i] * np.uint32(size) + cell
        found += cell < size
    return found


@part
def _take(values, rows, taken):
    for i in range(len(rows)):
        taken[i] = values[rows[i]]


@part
def _choose_next(sets, chosen, n):
    """Choose the next set of rare features, depth first; return its size, 0 behind the last."""
    if n < _MOST:
        chosen[n] = chosen[n - 1] if n else -1
        n += 1
    while n > 0:
        chosen[n - 1] += 1
        if chosen[n - 1] >= sets.n_rare:
            n -= 1
        elif _is_wanted(sets.first, chosen, n):
            break
    return n


@part(inline="always")
def _add_with_frequent(n_rare, rare, place, columns, weights, n_rows, sets, tables, matrix):
    """Write what belongs to some rare features and any frequent ones, the largest sets first.

    `place` is the position of each row in the table of the rare features.
    """
    n_features, n_frequent = len(sets.sizes), len(columns)
    # One line for each table of those that stand one above the other.
    features = np.empty((_MOST + 2, _MOST + 1), dtype=np.int64)
    widths = np.empty((_MOST + 2, _MOST + 1), dtype=np.int64)
    start = np.empty(_MOST + 2, dtype=np.int64)
    picked = np.empty(_MOST, dtype=np.int64)
    index = np.empty(CHUNK, dtype=np.uint32)
    most = min(_MOST, n_rare + n_frequent)
    for size in range(most, n_rare - 1, -1):
        n_picked = size - n_rare
        for i in range(n_rare):
            features[0, i], widths[0, i] = rare[i], sets.sizes[rare[i]]
        for i in range(n_picked):
            picked[i] = i
        is_left = True
        while is_left:
            n_cells = 1
            for i in range(n_picked):
                features[0, n_rare + i] = n_features - n_frequent + picked[i]
                widths[0, n_rare + i] = sets.sizes[features[0, n_rare + i]] + 1
            for i in range(size):
                n_cells *= widths[0, i]
            is_wanted = _is_wanted(sets.first, features[0], size)
            if is_wanted and _feature_above(sets, features[0], size) < 0:
                for i in range(n_cells):
                    tables[i] = 0
                along = widths[0, n_rare:]
                _count(place, columns, picked, n_picked, along, weights, n_rows, index, tables)
                start[0], start[1] = 0, n_cells
                _write_table_and_sums(n_rare, size, features, widths, start, sets, tables, matrix)
            is_left = next_combination(picked, n_picked, n_frequent)


@part
def _is_wanted(first, features, size):
    """Return whether some features in increasing order are the union of two sets."""
    a, b, c, d = features[0], features[1], features[2], features[3]
    if size <= 2:
        return True
    if size == 3:
        return first[a, b] >= 0 or first[a, c] >= 0 or first[b, c] >= 0
    return (
        (first[a, b] >= 0 and first[c, d] >= 0)
        or (first[a, c] >= 0 and first[b, d] >= 0)
        or (first[a, d] >= 0 and first[b, c] >= 0)
    )


@part
def _feature_above(sets, features, size):
    """Return the first frequent feature with which some others are wanted, -1 for none.

    Their table is a sum of that wider one.
    """
    if size == _MOST:
        return -1
    wider = np.empty(_MOST, dtype=np.int64)
    for feature in range(sets.n_rare, len(sets.sizes)):
        below, is_held = 0, False
        for i in range(size):
            below += features[i] < feature
            is_held = is_held or features[i] == feature
        if is_held:
            continue
        for i in range(size):
            wider[i + (i >= below)] = features[i]
        wider[below] = feature
        if _is_wanted(sets.first, wider, size + 1):
            return feature
    return -1


@part
def _count(place, columns, picked, n_picked, widths, weights, n_rows, index, table):
    """Add the weights of rows to a table; `place` is their position along its first axes."""
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        for i in range(n):
            index[i] = place[start + i]
        for k in range(n_picked):
            column, width = columns[picked[k], start : start + n], np.uint32(widths[k])
            for i in range(n):
                index[i] = index[i] * width + column[i]
        add_at(index, weights[start : start + n], table)


@part
def add_at(index, values, sums):
    """Add each value to the sum at its index.

    Neighbours are often in the same joint cell, and one waits until the other's sum is written: two
    values from different halves go side by side.
    """
    half = len(values) // 2
    for i in range(half):
        sums[index[i]] += values[i]
        sums[index[i + half]] += values[i + half]
    if len(values) % 2:
        last = len(values) - 1
        sums[index[last]] += values[last]


@part(inline="always")
def _write_table_and_sums(n_rare, size, features, widths, start, sets, tables, matrix):
    """Write what is read from a table, and from its sums along axes of frequent features.

    Each set of features comes once, from the table that `_feature_above` names.
    """
    slots = np.empty(_MOST + 2, dtype=np.int64)
    level, is_new = 0, True
    while level >= 0:
        n, below = size - level, level + 1
        if is_new:
            slots[level] = n
            _write(features[level], n, widths[level], sets, tables[start[level] :], matrix)
        slots[level] -= 1
        slot, is_new = slots[level], False
        if slot < n_rare:
            level -= 1
            continue
        outer, inner, kept = _ONE, _ONE, _NONE
        for i in range(n):
            if i == slot:
                continue
            features[below, kept], widths[below, kept] = features[level, i], widths[level, i]
            if i < slot:
                outer *= widths[level, i]
            else:
                inner *= widths[level, i]
            kept += 1
        if _feature_above(sets, features[below], kept) == features[level, slot]:
            table, to = tables[start[level] :], tables[start[below] :]
            _sum_axis(table, outer, widths[level, slot], inner, to)
            start[below + 1] = start[below] + outer * inner
            level, is_new = below, True


@part
def _sum_axis(table, outer, n, inner, sums):
    """Sum a table of shape (outer, n, inner) along its middle axis."""
    if inner == 1:
        for o in range(outer):
            total = table[o * n]
            for k in range(1, n):
                total += table[o * n + k]
            sums[o] = total
        return
    for o in range(outer):
        to, part = sums[o * inner : (o + 1) * inner], table[o * n * inner :]
        for i in range(inner):
            to[i] = part[i]
        for k in range(1, n):
            part = table[(o * n + k) * inner :]
            for i in range(inner):
                to[i] += part[i]


@part(inline="always")
def _write(features, size, widths, sets, table, matrix):
    """Write all parts of the matrix that can be read from the table of some features."""
    blocks, border, rest = matrix
    # Lines: how far apart cells are in the table and in the matrix, and how many there are.
    axes = np.empty((3, _MOST), dtype=np.int64)
    run = 1
    for i in range(_MOST - 1, -1, -1):
        axes[0, i], axes[1, i], axes[2, i] = 0, 0, 1
        if i < size:
            axes[0, i], axes[2, i] = run, sets.sizes[features[i]]
            run *= widths[i]
    for i in range(size, _MOST + 1):
        features[i] = len(sets.sizes)
    for way in range(len(_UNIONS)):
        if _UNIONS[way, 0] != size:
            continue
        a, b = features[_UNIONS[way, 1]], features[_UNIONS[way, 2]]
        c, d = features[_UNIONS[way, 3]], features[_UNIONS[way, 4]]
        if sets.first[a, b] < 0 or sets.first[c, d] < 0:
            continue
        # Only the upper triangle is read: the set with the smaller numbers gives the rows.
        later = sets.first[a, b] > sets.first[c, d]
        if sets.is_inside[c, d] > sets.is_inside[a, b] or (
            sets.is_inside[c, d] == sets.is_inside[a, b] and later
        ):
            a, b, c, d = c, d, a, b
        part = blocks if sets.is_inside[c, d] else border if sets.is_inside[a, b] else rest
        row_length = part.shape[1]
        for i in range(size):
            feature = features[i]
            row = sets.step[a, b, 0] if feature == a else sets.step[a, b, 1] * (feature == b)
            column = sets.step[c, d, 0] if feature == c else sets.step[c, d, 1] * (feature == d)
            if feature == sets.pivot:
                # Unknowns inside count from the first of their block.
                row, column = sets.block_size, 0
            axes[1, i] = row * row_length + column
        origin = sets.first[a, b] * row_length + sets.first[c, d]
        _copy(table, axes, size, part.reshape(-1), origin)


@part
def _copy(table, axes, size, flat, origin):
    """Copy the cells with unknowns; neighbours in the matrix are written one after the other."""
    order = np.empty(_MOST, dtype=np.int64)
    for i in range(_MOST):
        order[i] = i
    for i in range(1, size):
        k = i
        while k > 0 and axes[1, order[k]] > axes[1, order[k - 1]]:
            order[k], order[k - 1] = order[k - 1], order[k]
            k -= 1
    if size:
        order[size - 1], order[_MOST - 1] = order[_MOST - 1], order[size - 1]
    a, b, c, d = order[0], order[1], order[2], order[3]
    apart, step, n = axes[0, d], axes[1, d], axes[2, d]
    for i in range(axes[2, a]):
        for j in range(axes[2, b]):
            for k in range(axes[2, c]):
                at = i * axes[0, a] + j * axes[0, b] + k * axes[0, c]
                to = origin + i * axes[1, a] + j * axes[1, b] + k * axes[1, c]
                # Without a sign they are not tested for counting from the end.
                for cell in range(n):
                    flat[np.uint64(to + cell * step)] = table[np.uint64(at + cell * apart)]
