"""Normal equations of one tree's projection, over the cells that its own splits tell apart.

An unknown belongs to a set of up to three features and one cell of each: it multiplies the
indicator of these cells. One cell of each feature, its reference, has no unknowns, so that no
two sums of indicators are the same function on all cells.
"""

from numba import njit


@njit(cache=True, nogil=True)
def _active_unknowns(places, base, features, strides, active):
    """Write the unknowns that are one on a row, in increasing order; return their number.

    ``places[f]`` is the position of the row's cell of feature f, -1 for the reference.
    """
    active[0] = 0
    n_active = 1
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
            active[n_active] = unknown
            n_active += 1
    return n_active


@njit(cache=True, nogil=True)
def weigh_unknowns(cells, place, start, weights, base, features, strides, places, active, mass):
    """Add the weight of each row to every unknown that is one on it.

    ``place[start[f] + c]`` is the position of cell c of feature f among those with unknowns.
    """
    for row in range(cells.shape[0]):
        for feature in range(cells.shape[1]):
            places[feature] = place[start[feature] + cells[row, feature]]
        for i in range(_active_unknowns(places, base, features, strides, active)):
            mass[active[i]] += weights[row]


@njit(cache=True, nogil=True)
def add_gram(
    cells,
    place,
    start,
    weights,
    target,
    base,
    features,
    strides,
    equation,
    places,
    active,
    gram,
    right_side,
):
    """Add the rows to the upper triangle of the normal equations and to their right sides.

    ``equation[u]`` is the equation of unknown u.
    """
    for row in range(cells.shape[0]):
        weight = weights[row]
        if weight == 0.0:
            continue
        for feature in range(cells.shape[1]):
            places[feature] = place[start[feature] + cells[row, feature]]
        n_active = _active_unknowns(places, base, features, strides, active)
        for i in range(n_active):
            active[i] = equation[active[i]]
        for i in range(n_active):
            upper = gram[active[i]]
            for k in range(i, n_active):
                upper[active[k]] += weight
            for output in range(target.shape[1]):
                right_side[active[i], output] += weight * target[row, output]


@njit(cache=True, nogil=True)
def add_product_gram(
    share, rows, row_bounds, columns, column_bounds, features, places, margin, start, gram
):
    """Add `share` times the inner products of unknowns where features are independent.

    The product of two indicators has the probability of all cells that either asks for, and
    is zero where they ask for different cells of a feature. ``row_bounds`` and
    ``column_bounds`` say where the unknowns of each set of features begin; ``places[u, s]`` is
    the cell that unknown u asks for of its set's feature s.
    """
    n_slots = features.shape[1]
    for first in range(len(features)):
        for second in range(len(features)):
            for i in range(row_bounds[first], row_bounds[first + 1]):
                a = rows[i]
                own = share
                for s in range(n_slots):
                    if features[first, s] < 0:
                        break
                    own *= margin[start[features[first, s]] + places[a, s]]
                for k in range(column_bounds[second], column_bounds[second + 1]):
                    b = columns[k]
                    probability = own
                    for s in range(n_slots):
                        feature = features[second, s]
                        if feature < 0:
                            break
                        shared = -1
                        for r in range(n_slots):
                            if features[first, r] == feature:
                                shared = r
                        if shared < 0:
                            probability *= margin[start[feature] + places[b, s]]
                        elif places[a, shared] != places[b, s]:
                            probability = 0.0
                            break
                    gram[i, k] += probability
