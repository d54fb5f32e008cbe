"""Normal equations of one tree's projection, over the cells of its own splits.

An unknown belongs to a set of up to three features and one cell of each: it multiplies the
indicator of these cells. Unknowns of different cells of the pivot feature are never one on
the same row. So the equations come in three parts: `blocks` among the unknowns of one
cell of the pivot, `border` between these and the unknowns that leave the pivot out, and `rest`
among the latter.
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@kernel
def add_margins(cells, weights, start, margins):
    """Add the weight of each row to its cell of each feature, which begin at `start`."""
    for row in range(len(cells)):
        for feature in range(cells.shape[1]):
            margins[start[feature] + cells[row, feature]] += weights[row]


@kernel
def add_rows(cells, weights, mass, target, sets, bounds, blocks, border, rest, right):
    """Add rows to the upper triangles of the normal equations, and to their right side.

    ``weights`` have the type of the equations: integers where they are counts. ``mass`` is what
    each row weighs on the right side. Rows without weight are left out.
    """
    n_features, n_outputs = cells.shape[1], target.shape[1]
    n_pivot = len(border)
    most = 1 + n_features * n_features + len(sets.of_three)
    places = np.empty(n_features, dtype=np.int64)
    active = np.empty(n_features, dtype=np.int64)
    # Indices without a sign are not tested for counting from the end.
    inside = np.empty(most, dtype=np.uint32)
    outside = np.empty(most, dtype=np.uint32)
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
        n_outside = _list_unknowns(sets, 1, places, active, n_active, outside)
        n_outside = _list_threes(sets, places, outside, n_outside)
        _add_within(weight, outside, n_outside, 0, rest)
        n_inside, first = 0, 0
        if sets.pivot >= 0 and places[sets.pivot] >= 0:
            n_inside = _list_unknowns(sets, 0, places, active, n_active, inside)
            first = bounds[places[sets.pivot]]
            _add_within(weight, inside, n_inside, first, blocks)
            _add_across(weight, inside, n_inside, outside, n_outside, first, border)
        for output in range(n_outputs):
            value = mass[row] * target[row, output]
            for i in range(n_inside):
                right[first + inside[i], output] += value
            for i in range(n_outside):
                right[n_pivot + outside[i], output] += value


# What is listed is written in any case and kept if it is one: a branch is often guessed wrong.
@part(inline="always")
def _list_unknowns(sets, part, places, active, n_active, listed):
    """List the unknowns of up to two features that are one on a row, in increasing order."""
    listed[0] = 0
    n = 1
    for i in range(n_active):
        f = active[i]
        base = sets.of_one[part, f]
        listed[n] = base + places[f]
        n += base >= 0
    for i in range(n_active):
        f = active[i]
        for k in range(i + 1, n_active):
            g = active[k]
            base = sets.of_two[part, f, g]
            listed[n] = base + places[f] * sets.n_places[g] + places[g]
            n += base >= 0
    return n


@part(inline="always")
def _list_threes(sets, places, listed, n):
    for index in range(len(sets.of_three)):
        f, g, h = sets.threes[index, 0], sets.threes[index, 1], sets.threes[index, 2]
        place = (places[f] * sets.n_places[g] + places[g]) * sets.n_places[h] + places[h]
        listed[n] = sets.of_three[index] + place
        n += places[f] >= 0 and places[g] >= 0 and places[h] >= 0
    return n


# Two rows of the matrix at a time: what is listed is read half as often.
@part(inline="always")
def _add_within(weight, listed, n, first, matrix):
    for i in range(0, n - 1, 2):
        upper, lower = matrix[first + listed[i]], matrix[first + listed[i + 1]]
        upper[listed[i]] += weight
        for k in range(i + 1, n):
            column = listed[k]
            upper[column] += weight
            lower[column] += weight
    if n % 2:
        matrix[first + listed[n - 1], listed[n - 1]] += weight


@part(inline="always")
def _add_across(weight, rows, n_rows, columns, n_columns, first, matrix):
    for i in range(0, n_rows - 1, 2):
        upper, lower = matrix[first + rows[i]], matrix[first + rows[i + 1]]
        for k in range(n_columns):
            upper[columns[k]] += weight
            lower[columns[k]] += weight
    if n_rows % 2:
        upper = matrix[first + rows[n_rows - 1]]
        for k in range(n_columns):
            upper[columns[k]] += weight


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
