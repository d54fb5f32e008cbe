"""The hash by which CatBoost knows the labels of a category.

A CatBoost model keeps no labels: a one-hot split holds the low 32 bits of CityHash64 (version
1, by Geoff Pike and Jyrki Alakuijala, 2011) of the label's text. Hashing the user's labels in
the same way is therefore the exact way to read them, and needs no training data.
"""

_MASK = (1 << 64) - 1
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F
_K3 = 0xC949D7C7509E6557
_MULTIPLIER = 0x9DDFEA08EB382D69


def category_hash(text: str) -> int:
    """Return CatBoost's hash of a category label, a signed 32-bit integer.

    Parameters
    ----------
    text : str
        The label; integers are hashed as their decimal text.

    Returns
    -------
    int

    Examples
    --------
    >>> category_hash("y"), category_hash("0")
    (253272131, -1438285038)
    """
    low = _city_hash(text.encode()) & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def unnamed_label(hashed: int) -> str:
    """Return what stands for a label of which only the hash is known."""
    return f"#{hashed}"


def _city_hash(data: bytes) -> int:
    size = len(data)
    if size > 64:
        return _hash_above_64(data)
    if size > 32:
        return _hash_33_to_64(data)
    if size > 16:
        return _hash_17_to_32(data)
    if size > 8:
        first, last = _word(data, 0), _word(data, size - 8)
        return _mix(first, _rotate(last + size, size)) ^ last
    if size >= 4:
        first, last = (int.from_bytes(part, "little") for part in (data[:4], data[-4:]))
        return _mix(size + (first << 3), last)
    if size > 0:
        head = data[0] + (data[size >> 1] << 8)
        tail = size + (data[-1] << 2)
        return _fold(head * _K2 ^ tail * _K3) * _K2 & _MASK
    return _K2


def _word(data: bytes, start: int) -> int:
    return int.from_bytes(data[start : start + 8], "little")


def _rotate(value: int, shift: int) -> int:
    value &= _MASK
    return (value >> shift | value << (64 - shift)) & _MASK


def _fold(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _mix(low: int, high: int) -> int:
    first = _fold(((low ^ high) & _MASK) * _MULTIPLIER)
    second = _fold(((high ^ first) & _MASK) * _MULTIPLIER)
    return second * _MULTIPLIER & _MASK


def _hash_17_to_32(data: bytes) -> int:
    size = len(data)
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, size - 8) * _K2, _word(data, size - 16) * _K0
    return _mix(_rotate(a - b, 43) + _rotate(c, 30) + d, a + _rotate(b ^ _K3, 20) - c + size)


def _half_33_to_64(start: int, add: tuple[int, int], last: int) -> tuple[int, int]:
    b, c = _rotate(start + last, 52), _rotate(start, 37)
    a = start + add[0]
    c += _rotate(a, 7)
    a += add[1]
    return a + last, b + _rotate(a, 31) + c


def _hash_33_to_64(data: bytes) -> int:
    size = len(data)
    start = _word(data, 0) + (size + _word(data, size - 16)) * _K0
    v = _half_33_to_64(start, (_word(data, 8), _word(data, 16)), _word(data, 24))
    start = _word(data, 16) + _word(data, size - 32)
    add = (_word(data, size - 24), _word(data, size - 16))
    w = _half_33_to_64(start, add, _word(data, size - 8))
    mixed = _fold((v[0] + w[1]) * _K2 + (w[0] + v[1]) * _K0)
    return _fold(mixed * _K0 + v[1]) * _K2 & _MASK


def _weak_hash(data: bytes, start: int, a: int, b: int) -> tuple[int, int]:
    words = [_word(data, start + offset) for offset in (0, 8, 16, 24)]
    a += words[0]
    b = _rotate(b + a + words[3], 21)
    c = a
    a += words[1] + words[2]
    b += _rotate(a, 44)
    return a + words[3] & _MASK, b + c & _MASK


def _hash_above_64(data: bytes) -> int:
    size = len(data)
    x = _word(data, 0)
    y = _word(data, size - 16) ^ _K1
    z = _word(data, size - 56) ^ _K0
    v = _weak_hash(data, size - 64, size, y)
    w = _weak_hash(data, size - 32, size * _K1, _K0)
    z += _fold(v[1]) * _K1
    x = _rotate(z + x, 39) * _K1
    y = _rotate(y, 33) * _K1
    # The last chunk, whole or not, was hashed above already.
    for start in range(0, (size - 1) & ~63, 64):
        x = _rotate(x + y + v[0] + _word(data, start + 16), 37) * _K1 & _MASK
        y = _rotate(y + v[1] + _word(data, start + 48), 42) * _K1 & _MASK
        x, y = x ^ w[1], y ^ v[0]
        z = _rotate(z ^ w[0], 33)
        v = _weak_hash(data, start, v[1] * _K1, x + w[0])
        w = _weak_hash(data, start + 32, z + w[1], y)
        x, z = z, x
    return _mix((_mix(v[0], w[0]) + _fold(y) * _K1 + z) & _MASK, (_mix(v[1], w[1]) + x) & _MASK)
