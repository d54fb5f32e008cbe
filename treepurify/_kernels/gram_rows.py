"""Normal equations of a projection on coarse cells, one row at a time.

An unknown belongs to a set of up to two features and one cell of each: it multiplies the
indicator of these cells. Unknowns of different cells of the pivot feature are never one on
the same row. So the equations come in three parts: `blocks` among the unknowns of one
cell of the pivot, `border` between these and the unknowns that leave the pivot out, and `rest`
among the latter.
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@kernel
def add_rows(cells, weights, mass, target, sets, bounds, blocks, border, rest, right):
    """Add rows to the upper triangles of the normal equations, and to their right side.

    ``weights`` have the type of the equations: integers where they are counts. ``mass`` is what
    each row weighs on the right side. Rows without weight are left out.
    """
    n_features, n_outputs = cells.shape[1], target.shape[1]
    n_pivot = len(border)
    most = 1 + n_features * n_features
    places = np.empty(n_features, dtype=np.int64)
    active = np.empty(n_features, dtype=np.int64)
    # Indices without a sign are not tested for counting from the end.
    inside = np.empty(most, dtype=np.uint32)
    outside = np.empty(most, dtype=np.uint32)
    of_block, of_border, of_rest = blocks.reshape(-1), border.reshape(-1), rest.reshape(-1)
    for row in range(len(cells)):
        weight = weights[row]
        if weight == 0:
            continue
        n_active = 0
        for feature in range(n_features):
            place = sets.place[sets.start[feature] + cells[row, feature]]
            places[feature] = place
            active[n_active] = feature
            n_active += place >= 0 and feature != sets.pivot
        n_outside = _list_singles(sets.of_one, places, active, n_active, outside)
        n_outside = _list_pairs(sets, places, active, n_active, outside, n_outside)
        _add_within(weight, outside, n_outside, 0, rest.shape[1], of_rest)
        n_inside, first = 0, 0
        if sets.pivot >= 0 and places[sets.pivot] >= 0:
            n_inside = _list_singles(sets.with_pivot, places, active, n_active, inside)
            first = bounds[places[sets.pivot]]
            _add_within(weight, inside, n_inside, first, blocks.shape[1], of_block)
            width = border.shape[1]
            _add_across(weight, inside, n_inside, outside, n_outside, first, width, of_border)
        for output in range(n_outputs):
            value = mass[row] * target[row, output]
            for i in range(n_inside):
                right[first + inside[i], output] += value
            for i in range(n_outside):
                right[n_pivot + outside[i], output] += value


# What is listed is written in any case and kept if it is one: a branch is often guessed wrong.
@part(inline="always")
def _list_singles(first, places, active, n_active, listed):
    """List the first unknown and those of one feature that are one on a row."""
    listed[0] = 0
    n = 1
    for i in range(n_active):
        f = active[i]
        listed[n] = first[f] + places[f]
        n += first[f] >= 0
    return n


@part(inline="always")
def _list_pairs(sets, places, active, n_active, listed, n):
    """List those of two features behind the first n."""
    for i in range(n_active):
        f = active[i]
        for k in range(i + 1, n_active):
            g = active[k]
            base = sets.of_two[f, g]
            listed[n] = base + places[f] * sets.n_places[g] + places[g]
            n += base >= 0
    return n


# Four rows of a matrix at a time: what is listed is read a fourth as often.
@part(inline="always")
def _add_within(weight, listed, n, first, width, matrix):
    """Add to the entries of every two of the first n that are listed, on and above the diagonal."""
    i = 0
    while i + 3 < n:
        a, b = _row_start(first, listed[i], width), _row_start(first, listed[i + 1], width)
        c, d = _row_start(first, listed[i + 2], width), _row_start(first, listed[i + 3], width)
        matrix[a + listed[i]] += weight
        for k in range(i + 1, i + 4):
            matrix[a + listed[k]] += weight
        for k in range(i + 1, i + 4):
            matrix[b + listed[k]] += weight
        for k in range(i + 2, i + 4):
            matrix[c + listed[k]] += weight
        matrix[d + listed[i + 3]] += weight
        for k in range(i + 4, n):
            matrix[a + listed[k]] += weight
            matrix[b + listed[k]] += weight
            matrix[c + listed[k]] += weight
            matrix[d + listed[k]] += weight
        i += 4
    while i < n:
        a = _row_start(first, listed[i], width)
        for k in range(i, n):
            matrix[a + listed[k]] += weight
        i += 1


@part(inline="always")
def _add_across(weight, rows, n_rows, columns, n_columns, first, width, matrix):
    """Add to the entries of each of `rows` with each of `columns`."""
    i = 0
    while i + 3 < n_rows:
        a, b = _row_start(first, rows[i], width), _row_start(first, rows[i + 1], width)
        c, d = _row_start(first, rows[i + 2], width), _row_start(first, rows[i + 3], width)
        for k in range(n_columns):
            matrix[a + columns[k]] += weight
            matrix[b + columns[k]] += weight
            matrix[c + columns[k]] += weight
            matrix[d + columns[k]] += weight
        i += 4
    while i < n_rows:
        a = _row_start(first, rows[i], width)
        for k in range(n_columns):
            matrix[a + columns[k]] += weight
        i += 1


@part(inline="always")
def _row_start(first, row, width):
    """Return where a row of a matrix begins in the array of its entries."""
    return np.uint64(first + row) * np.uint64(width)


@kernel
def scale_equations(
    kept, bounds, kept_bounds, scaling, blocks, border, rest, to_blocks, to_border, to_rest
):
    """Write the equations of the unknowns that are kept, scaled on both sides.

    ``kept_bounds[b]`` is the first of those in block b, which begins at ``bounds[b]``.
    """
    n_inside, n_kept_inside = len(border), len(to_border)
    outside = kept[n_kept_inside:] - n_inside
    for block in range(len(bounds) - 1):
        first, last = kept_bounds[block], kept_bounds[block + 1]
        for i in range(first, last):
            from_block, from_border = blocks[kept[i]], border[kept[i]]
            for k in range(i, last):
                value = from_block[kept[k] - bounds[block]]
                to_blocks[i, k - first] = value * scaling[i] * scaling[k]
            for k in range(len(outside)):
                value = from_border[outside[k]]
                to_border[i, k] = value * scaling[i] * scaling[n_kept_inside + k]
    for i in range(len(outside)):
        from_rest, factor = rest[outside[i]], scaling[n_kept_inside + i]
        for k in range(i, len(outside)):
            to_rest[i, k] = from_rest[outside[k]] * factor * scaling[n_kept_inside + k]
