"""Join rows in the same cells of some features.

``codes[j]`` are the cells of the rows along feature j. ``parts[start[i] + k]`` is what the k-th of
these adds to the number of the joint cell, for the i-th of `features`. `cell` becomes the position
of each row's joint cell among the occupied ones, which stand in the order of their first rows.
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part

# Numbers are found feature by feature for so many rows at a time, which stay near the processor.
_BLOCK = 512
_LEAST_BITS = 11
# 2^64 over the golden ratio: multiples of it fall evenly (Knuth 1973, section 6.4).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE, _KEY_BITS = np.uint64(1), np.uint64(64)


@kernel
def join_by_table(codes, features, parts, start, weights, position, rows, mass, cell):
    """Number the occupied joint cells with a table of all, and return how many they are.

    ``position`` has -1 for each joint cell. `rows` and `mass` become a row and the weight of each
    that is occupied.
    """
    n_rows, n_joint = len(cell), 0
    numbers = np.empty(_BLOCK, dtype=parts.dtype)
    for first in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - first)
        _number_cells(codes, features, parts, start, first, size, numbers)
        for k in range(size):
            known = position[numbers[k]]
            if known < 0:
                known = n_joint
                position[numbers[k]] = known
                rows[known], mass[known] = first + k, 0.0
                n_joint += 1
            mass[known] += weights[first + k]
            cell[first + k] = known
    return n_joint


@kernel
def join_by_hash(codes, features, parts, start, weights, cell):
    """Number the occupied joint cells, of all of which a table would be too large.

    Returns a row and the weight of each.
    """
    n_rows, n_joint = len(cell), 0
    # To begin with an eighth of the rows find room, which is then not made several times over.
    room, bits = 1 << (_LEAST_BITS - 2), np.uint64(_LEAST_BITS - 1)
    while room < n_rows // 16:
        room, bits = 2 * room, bits + _ONE
    # Each place has a number and, behind it, one more than the position; half remain free.
    places = np.empty((0, 2), dtype=parts.dtype)
    joint = np.empty(0, dtype=parts.dtype)
    rows = np.empty(0, dtype=np.int64)
    mass = np.empty(0)
    numbers = np.empty(_BLOCK, dtype=parts.dtype)
    for first in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - first)
        _number_cells(codes, features, parts, start, first, size, numbers)
        if n_joint + size > len(rows):
            room, bits = 2 * room, bits + _ONE
            places = np.zeros((2 * room, 2), dtype=parts.dtype)
            joint = _with_room(joint, room)
            rows, mass = _with_room(rows, room), _with_room(mass, room)
            for earlier in range(n_joint):
                place = _place(joint[earlier], places, bits)
                places[place, 0], places[place, 1] = joint[earlier], earlier + 1
        for k in range(size):
            place = _place(numbers[k], places, bits)
            if places[place, 1] == 0:
                places[place, 0], places[place, 1] = numbers[k], n_joint + 1
                joint[n_joint], rows[n_joint], mass[n_joint] = numbers[k], first + k, 0.0
                n_joint += 1
            known = np.int64(places[place, 1]) - 1
            mass[known] += weights[first + k]
            cell[first + k] = known
    return rows[:n_joint], mass[:n_joint]


@part
def _number_cells(codes, features, parts, start, first, size, numbers):
    """Write the numbers of the joint cells of so many rows from the first on."""
    for k in range(size):
        numbers[k] = 0
    for i in range(len(features)):
        part, code = parts[start[i] :], codes[features[i], first : first + size]
        for k in range(size):
            numbers[k] += part[code[k]]


@part(inline="always")
def _place(number, places, bits):
    """Return the place of a number in the hash table, or the free one where it belongs."""
    place = (np.uint64(number) * _GOLDEN) >> (_KEY_BITS - bits)
    while places[place, 1] > 0 and places[place, 0] != number:
        place = (place + _ONE) & np.uint64(len(places) - 1)
    return place


@part(inline="always")
def _with_room(values, room):
    wider = np.empty(room, dtype=values.dtype)
    # One by one: an assignment of arrays compiles the text of an error on their shapes for seconds.
    for i in range(len(values)):
        wider[i] = values[i]
    return wider


@kernel
def local_cells(codes, features, local, start, rows, cells):
    """Write the coarser cell of some rows along each feature, one row of `cells` a row.

    ``local[start[i] + k]`` is the one that the k-th cell of the i-th of `features` is in.
    """
    for i in range(len(features)):
        coarser, code = local[start[i] :], codes[features[i]]
        for k in range(len(rows)):
            cells[k, i] = coarser[code[rows[k]]]


@kernel
def add_values_of_cells(cell, values, columns, total):
    """Add to some columns of `total` the values of each row's joint cell."""
    for k in range(len(columns)):
        column = columns[k]
        for row in range(len(cell)):
            total[row, column] += values[cell[row], k]
