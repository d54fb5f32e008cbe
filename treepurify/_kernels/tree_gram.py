"""Normal equations of one tree's projection, over the cells of its own splits.

An unknown belongs to a set of up to three features and one cell of each: it multiplies the
indicator of these cells. Unknowns of different cells of the pivot feature are never one on
the same row. So the equations come in three parts: `blocks` among the unknowns of one
cell of the pivot, `border` between these and the unknowns that leave the pivot out, and `rest`
among the latter.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def list_unknowns(order, cells, weights, target, sets, listed, n_listed, mass, right):
    """List the unknowns that are one on each row, in an order; sum their mass and right sides.

    ``n_listed[i]`` is how many of those in ``listed[i]`` ask for a cell of the pivot, which
    come first, and how many there are; both are zero for a row without weight.
    """
    n_features = cells.shape[1]
    places = np.zeros(n_features + 1, dtype=np.int64)
    for line, row in enumerate(order):
        weight = weights[row]
        if weight == 0:
            continue
        for feature in range(n_features):
            places[feature] = sets.place[sets.start[feature] + cells[row, feature]]
        n = 0
        for subset in range(len(sets.features)):
            if subset == sets.n_pivot_sets:
                n_listed[line, 0] = n
            # The place behind the last feature is zero.
            unknown = (
                sets.base[subset]
                + places[sets.features[subset, 0]] * sets.strides[subset, 0]
                + places[sets.features[subset, 1]] * sets.strides[subset, 1]
            )
            for slot in range(2, sets.features.shape[1]):
                unknown += places[sets.features[subset, slot]] * sets.strides[subset, slot]
            # Written in any case and kept if it is one: a branch would often be guessed wrong.
            listed[line, n] = unknown
            n += unknown >= 0
        n_listed[line, 1] = n
        for i in range(n):
            mass[listed[line, i]] += weight
            for output in range(target.shape[1]):
                right[listed[line, i], output] += weight * target[row, output]


@njit(cache=True, nogil=True)
def add_gram(listed, n_listed, weights, number, first_of_block, blocks, border, rest):
    """Add the rows to the upper triangles of the normal equations.

    ``number[u]`` is the position of unknown u among those with mass, and ``first_of_block[u]``
    that of the first unknown of its block.
    """
    n_pivot = len(border)
    columns = np.empty(listed.shape[1], dtype=np.int64)
    for row in range(len(listed)):
        weight = weights[row]
        n_inside, n = n_listed[row]
        for i in range(n_inside, n):
            columns[i] = number[listed[row, i]] - n_pivot
        for i in range(n_inside, n):
            upper = rest[columns[i]]
            for k in range(i, n):
                upper[columns[k]] += weight
        if n_inside == 0:
            continue
        first = first_of_block[listed[row, 0]]
        for i in range(n_inside):
            columns[i] = number[listed[row, i]] - first
        for i in range(n_inside):
            upper, beside = blocks[first + columns[i]], border[first + columns[i]]
            for k in range(i, n_inside):
                upper[columns[k]] += weight
            for k in range(n_inside, n):
                beside[columns[k]] += weight


@njit(cache=True, nogil=True)
def scale_equations(bounds, scaling, blocks, border, rest, to_blocks, to_border, to_rest):
    """Write the equations scaled on both sides."""
    n_pivot = len(border)
    for block in range(len(bounds) - 1):
        first = bounds[block]
        for i in range(first, bounds[block + 1]):
            for k in range(i, bounds[block + 1]):
                to_blocks[i, k - first] = blocks[i, k - first] * scaling[i] * scaling[k]
            for k in range(border.shape[1]):
                to_border[i, k] = border[i, k] * scaling[i] * scaling[n_pivot + k]
    for i in range(len(rest)):
        for k in range(i, len(rest)):
            to_rest[i, k] = rest[i, k] * scaling[n_pivot + i] * scaling[n_pivot + k]


@njit(cache=True, nogil=True)
def add_product_gram(share, sets, owner, cells, rows, columns, mass, margin, is_upper, gram):
    """Add `share` times the inner products of unknowns where features are independent.

    The product of two indicators has the probability of all cells that either asks for, and
    is zero where they ask for different cells of a feature. ``mass[u]`` is the probability of
    the cells of unknown u.
    """
    n_slots = sets.features.shape[1]
    for i in range(len(rows)):
        if mass[rows[i]] == 0.0:
            continue
        first = owner[rows[i]]
        for k in range(i if is_upper else 0, len(columns)):
            second = owner[columns[k]]
            shared_mass, agrees = 1.0, True
            for r in range(n_slots):
                feature = sets.features[first, r]
                if feature < 0:
                    break
                for s in range(n_slots):
                    if sets.features[second, s] == feature:
                        cell = cells[rows[i], r]
                        agrees = agrees and cell == cells[columns[k], s]
                        shared_mass *= margin[sets.start[feature] + cell]
            if agrees:
                gram[i, k] += share * mass[rows[i]] * mass[columns[k]] / shared_mass
