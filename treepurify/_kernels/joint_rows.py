"""Join rows in the same cells of some features."""

import numpy as np

from treepurify._kernels.compiling import kernel, part

# Keys are found feature by feature for so many rows at a time, which stay near the processor.
_BLOCK = 512
_LEAST_BITS = 11
# 2^64 over the golden ratio: multiples of it fall evenly (Knuth 1973, section 6.4).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE, _KEY_BITS = np.uint64(1), np.uint64(64)


@kernel
def join_rows(codes, features, parts, start, weights, cell):
    """Number the occupied joint cells of some features, and return a row and the weight of each.

    ``codes[j]`` are the cells of the rows along feature j. ``parts[start[i] + k]`` is what the k-th
    of these adds to the number of the joint cell, for the i-th of `features`. `cell` becomes the
    position of each row's joint cell among the occupied ones, which stand in the order of their
    first rows.
    """
    n_rows, n_joint, room = len(cell), 0, 0
    bits = np.uint64(_LEAST_BITS - 1)
    # Which joint cell stands at each place of the hash table, of which half remains free.
    places = np.empty(0, dtype=np.int64)
    joint = np.empty(0, dtype=np.uint64)
    rows = np.empty(0, dtype=np.int64)
    mass = np.empty(0)
    keys = np.empty(_BLOCK, dtype=np.uint64)
    for first in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - first)
        keys[:] = 0
        for i, j in enumerate(features):
            part, code = parts[start[i] :], codes[j, first : first + size]
            for k in range(size):
                keys[k] += part[code[k]]
        if n_joint + size > room:
            bits += _ONE
            room = max(2 * room, 1 << (_LEAST_BITS - 1))
            places = np.full(2 * room, -1, dtype=np.int64)
            joint = _with_room(joint, room)
            rows, mass = _with_room(rows, room), _with_room(mass, room)
            for known in range(n_joint):
                places[_place(joint[known], joint, places, bits)] = known
        for k in range(size):
            place = _place(keys[k], joint, places, bits)
            if places[place] < 0:
                places[place] = n_joint
                joint[n_joint], rows[n_joint], mass[n_joint] = keys[k], first + k, 0.0
                n_joint += 1
            known = places[place]
            mass[known] += weights[first + k]
            cell[first + k] = known
    return rows[:n_joint], mass[:n_joint]


@part(inline="always")
def _place(key, joint, places, bits):
    """Return the place of a key in the hash table, or the free one where it belongs."""
    place = (key * _GOLDEN) >> (_KEY_BITS - bits)
    while places[place] >= 0 and joint[places[place]] != key:
        place = (place + _ONE) & np.uint64(len(places) - 1)
    return place


@part(inline="always")
def _with_room(values, room):
    wider = np.empty(room, dtype=values.dtype)
    # One by one: an assignment of arrays compiles the text of an error on their shapes for seconds.
    for i in range(len(values)):
        wider[i] = values[i]
    return wider
