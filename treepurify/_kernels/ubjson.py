"""Find and gather the typed arrays of many alike UBJSON objects."""

import numpy as np

from treepurify._kernels.compiling import kernel, part

OBJECT, OBJECT_END, ARRAY, STRING, TYPE, COUNT, LENGTH_64 = b"{}[S$#L"
INT_8, UINT_8, INT_16, INT_32, DIGIT_0, DIGIT_9 = b"iUIl09"
# More keys than an object of XGBoost has, those of objects in it counted too.
MOST_KEYS = 64
# Not a constant to the compiler, for which functions would be compiled again.
_FIRST = np.int64(0)


@part
def big_endian_length(data, at):
    """Read eight bytes as a length; -1 where they are not there or make no sense."""
    if at + 8 > len(data):
        return -1
    length = np.int64(0)
    for i in range(at, at + 8):
        length = (length << 8) | np.int64(data[i])
    return length if 0 <= length <= len(data) else -1


@part
def matching_key(data, at, length, guess, key_bytes, key_ptr):
    """Position of the key at `at`, looked for from `guess` on; -1 where it is not wanted."""
    n_keys = len(key_ptr) - 1
    for step in range(n_keys):
        key = (guess + step) % n_keys
        if key_ptr[key + 1] - key_ptr[key] != length:
            continue
        same = True
        for i in range(length):
            if data[at + i] != key_bytes[key_ptr[key] + i]:
                same = False
                break
        if same:
            return key
    return -1


@part
def whole_number(data, at, end):
    """The count that stands from `at` to `end`, as an integer or as text; -1 for anything else."""
    kind = data[at]
    number = np.int64(0)
    if kind == STRING:
        if end - at - 10 < 1 or end - at - 10 > 18:
            return -1
        for i in range(at + 10, end):
            if data[i] < DIGIT_0 or data[i] > DIGIT_9:
                return -1
            number = 10 * number + np.int64(data[i] - DIGIT_0)
        return number
    if kind in (INT_8, UINT_8, INT_16, INT_32, LENGTH_64):
        if kind != UINT_8 and data[at + 1] > 127:
            return -1
        for i in range(at + 1, end):
            number = (number << 8) | np.int64(data[i])
        return number
    return -1


@part
def is_repeated(data, at, length, depth, key_at, key_length, key_depth, n_known):
    """Whether a key stands among the known ones of the same depth."""
    for known in range(n_known):
        if key_length[known] != length or key_depth[known] != depth:
            continue
        same = True
        for i in range(length):
            if data[at + i] != data[key_at[known] + i]:
                same = False
                break
        if same:
            return True
    return False


@kernel
def typed_array_spans(
    data, at, item_size, key_bytes, key_ptr, marker, start, count, name_bytes, name_ptr, numbers
):
    """Walk ``len(marker)`` objects from byte `at`; note the typed arrays of the wanted keys.

    ``item_size[marker]`` is the size of a number, 0 elsewhere. Fills `marker`, `start` and
    `count` of shape (objects, keys) and returns the first byte after the last object, or -1
    where the objects hold anything but numbers, texts, objects and typed arrays of numbers,
    have many keys, or repeat one. Fills `numbers` of shape (objects, names) with the counts
    under the wanted names, in an object or in those within it.
    """
    seen_at = np.empty(MOST_KEYS, dtype=np.int64)
    seen_length = np.empty(MOST_KEYS, dtype=np.int64)
    seen_depth = np.empty(MOST_KEYS, dtype=np.int64)
    for row in range(len(marker)):
        depth = _FIRST
        guess = _FIRST
        n_seen = _FIRST
        if at >= len(data) or data[at] != OBJECT:
            return -1
        depth += 1
        at += 1
        while depth > 0:
            if at + 1 >= len(data):
                return -1
            if data[at] == OBJECT_END:
                depth -= 1
                at += 1
                continue
            length = big_endian_length(data, at + 1)
            if data[at] != LENGTH_64 or length < 0 or at + 9 + length + 1 >= len(data):
                return -1
            key_at = at + 9
            at = key_at + length
            if n_seen == MOST_KEYS or is_repeated(
                data, key_at, length, depth, seen_at, seen_length, seen_depth, n_seen
            ):
                return -1
            seen_at[n_seen], seen_length[n_seen], seen_depth[n_seen] = key_at, length, depth
            n_seen += 1
            kind = data[at]
            value_at = at
            if kind == OBJECT:
                depth += 1
                at += 1
            elif kind == STRING:
                length = big_endian_length(data, at + 2)
                if data[at + 1] != LENGTH_64 or length < 0:
                    return -1
                at += 10 + length
            elif kind == ARRAY:
                if at + 5 > len(data) or data[at + 1] != TYPE:
                    return -1
                size = item_size[data[at + 2]]
                items = big_endian_length(data, at + 5)
                if size == 0 or data[at + 3] != COUNT or data[at + 4] != LENGTH_64 or items < 0:
                    return -1
                if depth == 1:
                    key = matching_key(data, key_at, at - key_at, guess, key_bytes, key_ptr)
                    if key >= 0:
                        marker[row, key] = data[at + 2]
                        start[row, key] = at + 13
                        count[row, key] = items
                        guess = key + 1
                at += 13 + items * size
            elif item_size[kind] > 0:
                at += 1 + item_size[kind]
            else:
                return -1
            if at > len(data):
                return -1
            name = matching_key(data, key_at, value_at - key_at, _FIRST, name_bytes, name_ptr)
            if name >= 0:
                numbers[row, name] = whole_number(data, value_at, at)
    return at


@kernel
def gather_bytes(data, start, n_bytes, out):
    """Copy the given spans of `data` one after the other into `out`."""
    at = 0
    for i in range(len(start)):
        for j in range(n_bytes[i]):
            out[at + j] = data[start[i] + j]
        at += n_bytes[i]
