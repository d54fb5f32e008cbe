"""Normal equations of one tree's projection, over the cells that its own splits tell apart.

An unknown belongs to a set of up to three features and one cell of each: it multiplies the
indicator of these cells. One cell of each feature, its reference, has no unknowns, so that no
two sums of indicators are the same function on all cells.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _list_unknowns(places, base, features, strides, unknowns):
    """Write the unknowns that are one on a row, in increasing order; return their number.

    ``places[f]`` is the position of the row's cell of feature f, -1 for the reference.
    """
    unknowns[0] = 0
    n_unknowns = 1
    for subset in range(1, len(features)):
        unknown = base[subset]
        for position in range(features.shape[1]):
            feature = features[subset, position]
            if feature < 0:
                break
            if places[feature] < 0:
                unknown = -1
                break
            unknown += places[feature] * strides[subset, position]
        if unknown >= 0:
            unknowns[n_unknowns] = unknown
            n_unknowns += 1
    return n_unknowns


@njit(cache=True, nogil=True)
def add_gram(
    cells, place, start, weights, target, base, features, strides, places, unknowns, gram, right
):
    """Add the rows to the upper triangle of the normal equations and to their right sides.

    ``place[start[f] + c]`` is the position of cell c of feature f among those with unknowns.
    `places` and `unknowns` are room for what is known of one row.
    """
    for row in range(cells.shape[0]):
        weight = weights[row]
        if weight == 0.0:
            continue
        for feature in range(cells.shape[1]):
            places[feature] = place[start[feature] + cells[row, feature]]
        n_unknowns = _list_unknowns(places, base, features, strides, unknowns)
        for i in range(n_unknowns):
            upper = gram[unknowns[i]]
            for k in range(i, n_unknowns):
                upper[unknowns[k]] += weight
            for output in range(target.shape[1]):
                right[unknowns[i], output] += weight * target[row, output]


@njit(cache=True, nogil=True)
def scale_equations(gram, kept, scaling, ridge, scaled, ridged):
    """Write the upper triangle of the kept equations, scaled, and again with a ridge added."""
    for i in range(len(kept)):
        row = gram[kept[i]]
        for k in range(i, len(kept)):
            entry = row[kept[k]] * scaling[i] * scaling[k]
            scaled[i, k] = entry
            ridged[i, k] = entry
        ridged[i, i] += ridge


@njit(cache=True, nogil=True)
def unknown_cells(base, features, strides, numbered, first, cells):
    """Write the cell that each unknown asks for of each feature of its set.

    ``numbered[first[f] + p]`` is the cell of feature f at position p of those with unknowns.
    """
    for subset in range(len(features)):
        for unknown in range(base[subset], base[subset + 1]):
            rest = unknown - base[subset]
            for slot in range(features.shape[1]):
                feature = features[subset, slot]
                if feature < 0:
                    break
                position = rest // strides[subset, slot]
                rest -= position * strides[subset, slot]
                cells[unknown, slot] = numbered[first[feature] + position]


@njit(cache=True, nogil=True)
def add_product_gram(
    is_upper,
    rows,
    row_bounds,
    row_mass,
    columns,
    column_bounds,
    column_mass,
    features,
    cells,
    margin,
    start,
    gram,
):
    """Add the inner products of unknowns where features are independent.

    The product of two indicators has the probability of all cells that either asks for, and
    is zero where they ask for different cells of a feature. ``row_bounds`` and
    ``column_bounds`` say where the unknowns of each set of features begin; ``cells[u, s]`` is
    the cell that unknown u asks for of its set's feature s; ``row_mass`` and ``column_mass``
    are the probabilities of the cells of each.
    """
    n_slots = features.shape[1]
    slot_of_second = np.empty(n_slots, dtype=np.int64)
    for first in range(len(features)):
        for second in range(first if is_upper else 0, len(features)):
            n_shared = 0
            for r in range(n_slots):
                slot_of_second[r] = -1
                for s in range(n_slots):
                    if 0 <= features[first, r] == features[second, s]:
                        slot_of_second[r] = s
                        n_shared += 1
            for i in range(row_bounds[first], row_bounds[first + 1]):
                lowest = column_bounds[second]
                if is_upper and first == second:
                    lowest = i
                highest = column_bounds[second + 1]
                if n_shared == 0:
                    for k in range(lowest, highest):
                        gram[i, k] += row_mass[i] * column_mass[k]
                    continue
                shared_mass = 1.0
                for r in range(n_slots):
                    if slot_of_second[r] >= 0:
                        shared_mass *= margin[start[features[first, r]] + cells[rows[i], r]]
                if shared_mass == 0.0:
                    continue
                for k in range(lowest, highest):
                    agrees = True
                    for r in range(n_slots):
                        s = slot_of_second[r]
                        if s >= 0 and cells[rows[i], r] != cells[columns[k], s]:
                            agrees = False
                    if agrees:
                        gram[i, k] += row_mass[i] * column_mass[k] / shared_mass
