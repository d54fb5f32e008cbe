"""Join rows in the same cells of some features.

``codes[j]`` are the cells of the rows along feature j. ``parts[start[i] + k]`` is what the k-th of
these adds to the number of the joint cell, for the i-th of `features`. `cell` becomes the position
of each row's joint cell among the occupied ones, which stand in the order of their first rows.
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part

# Numbers are found feature by feature for so many rows at a time, which stay near the processor.
_BLOCK = 512
_LEAST_BITS = 9
# 2^64 over the golden ratio: multiples of it fall evenly (Knuth 1973, section 6.4).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE, _HASH_BITS = np.uint64(1), np.uint64(64)
# A slot of the hash table has one more than the position of its joint cell, 0 for none, in so many
# bits, and above them the last ones of the hash: most other joint cells are told by these.
_POSITION_BITS, _POSITION = np.uint64(40), np.uint64((1 << 40) - 1)


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
    n_rows, n_joint, room, bits = len(cell), 0, 1 << _LEAST_BITS, np.uint64(_LEAST_BITS + 1)
    joint = np.empty(0, dtype=parts.dtype)
    rows, mass = np.empty(0, dtype=np.int64), np.empty(0)
    # Half of the slots remain free.
    slots = np.zeros(0, dtype=np.uint64)
    numbers = np.empty(_BLOCK, dtype=parts.dtype)
    hashes, seen = np.empty(_BLOCK, dtype=np.uint64), np.empty(_BLOCK, dtype=np.uint64)
    for first in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - first)
        _number_cells(codes, features, parts, start, first, size, numbers)
        if n_joint + size > len(rows):
            # Room for what will be found where the other rows are like these, and some more.
            expected = n_joint * (n_rows / first) if first else n_rows / 16
            while room < n_joint + size or room < 1.2 * expected:
                room, bits = 2 * room, bits + _ONE
            joint = _with_room(joint, room)
            rows, mass = _with_room(rows, room), _with_room(mass, room)
            slots = np.zeros(2 * room, dtype=np.uint64)
            for known in range(n_joint):
                hashed = np.uint64(joint[known]) * _GOLDEN
                _find(joint[known], hashed, slots, bits, joint, known)
        # Slots are read ahead, all at a time: afterwards they are near the processor.
        for k in range(size):
            hashes[k] = np.uint64(numbers[k]) * _GOLDEN
            seen[k] = slots[hashes[k] >> (_HASH_BITS - bits)]
        for k in range(size):
            # Written in any case, and kept if it is one that was not known.
            joint[n_joint], rows[n_joint], mass[n_joint] = numbers[k], first + k, 0.0
            known = _find(numbers[k], hashes[k], slots, bits, joint, n_joint)
            n_joint += known == n_joint
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
def _find(number, hashed, slots, bits, joint, n_joint):
    """Return the position of a joint cell; if it is not known it gets the position `n_joint`."""
    slot, last = hashed >> (_HASH_BITS - bits), np.uint64(len(slots) - 1)
    tag = hashed << _POSITION_BITS
    known = np.int64(-1)
    while known < 0:
        held = slots[slot]
        if held == 0:
            known = n_joint
            slots[slot] = tag | np.uint64(n_joint + 1)
        elif held & ~_POSITION == tag:
            at = np.int64(held & _POSITION) - 1
            known = at if joint[at] == number else known
        slot = (slot + _ONE) & last
    return known


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
