"""Read UBJSON, the binary form of JSON that XGBoost writes; typed arrays become NumPy arrays."""

import re
import reprlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.ubjson import gather_bytes, typed_array_spans
from treepurify.errors import InvalidInputError
from treepurify.typing import Integers

_OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END, _STRING, _TYPE, _COUNT = b"{}[]S$#"
_SCALARS = {
    ord("i"): struct.Struct(">b"),
    ord("U"): struct.Struct(">B"),
    ord("I"): struct.Struct(">h"),
    ord("l"): struct.Struct(">i"),
    ord("L"): struct.Struct(">q"),
    ord("d"): struct.Struct(">f"),
    ord("D"): struct.Struct(">d"),
}
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
_ARRAY_TYPES = {code: np.dtype(packed.format) for code, packed in _SCALARS.items()}
# A tree of XGBoost is longer than this many bytes, whatever it holds: tables of shorter objects
# could be many times as large as the file.
_LEAST_OBJECT = 200
# Fewer are read one by one in a few milliseconds, and kernels would first have to be compiled.
_MANY_OBJECTS = 128
# Numbers of a list that are looked through for another type at a time.
_NUMBERS_AT_A_TIME = 256
ABSENT = -2
_DIGITS = re.compile("[0-9]{1,18}")
_ITEM_SIZE = np.array([_ARRAY_TYPES[c].itemsize if c in _ARRAY_TYPES else 0 for c in range(256)])


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """The arrays of many alike objects, joined key by key.

    Parameters
    ----------
    n_objects : int
        Number of objects.
    values : dict of str to ndarray
        The arrays under a key, one object after the other.
    counts : dict of str to ndarray of int64, shape (n_objects,)
        Number of entries of each object; 0 where an object has no such key.
    numbers : dict of str to ndarray of int64, shape (n_objects,)
        A count of each object; -1 where it is none, `ABSENT` where the object has no such key.
    """

    n_objects: int
    values: dict[str, npt.NDArray[Any]]
    counts: dict[str, Integers]
    numbers: dict[str, Integers]


@dataclass(frozen=True)
class _Document:
    data: bytes | bytearray
    tables: Mapping[str, Sequence[str]]
    numbers: Sequence[str]


def read_ubjson(
    data: bytes | bytearray,
    *,
    tables: Mapping[str, Sequence[str]] | None = None,
    numbers: Sequence[str] = (),
) -> dict[str, Any]:
    r"""Decode a UBJSON document.

    Parameters
    ----------
    data : bytes or bytearray
        The document, whose outermost value is an object.
    tables : mapping of str to sequence of str, optional
        A list of objects that stands under one of these keys is read as an `ArrayTable` of
        the typed arrays named in the value, which takes no Python step per object. Few objects,
        and those that nest lists, are still returned as a list.
    numbers : sequence of str
        Names of counts to read of each such object.

    Returns
    -------
    dict
        The document. Typed arrays are NumPy views of `data`, big-endian.

    Raises
    ------
    InvalidInputError
        If the document is cut short, is not UBJSON, or repeats a key in an object.

    Examples
    --------
    >>> read_ubjson(b"{i\x01a[$i#i\x02\x03\x04}")
    {'a': array([3, 4], dtype=int8)}
    """
    try:
        value, end = _read_value(_Document(data, tables or {}, numbers), 0, "")
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError):
        raise InvalidInputError("the UBJSON document is cut short or damaged") from None
    if not isinstance(value, dict):
        raise InvalidInputError("not a UBJSON document: the outermost value is not an object")
    if end != len(data):
        raise InvalidInputError(
            f"the UBJSON document is damaged: it ends at byte {end}, and {len(data) - end} bytes "
            "follow"
        )
    return value


def join_arrays(
    objects: Sequence[Any], keys: Sequence[str], numbers: Sequence[str] = ()
) -> ArrayTable:
    """Join the arrays of decoded objects key by key.

    Parameters
    ----------
    objects : sequence of mapping
        Objects whose values under `keys` are flat lists or one-dimensional arrays of numbers.
    keys : sequence of str
        The keys to join.
    numbers : sequence of str
        Names of counts to read, in an object or in those within it.

    Returns
    -------
    ArrayTable

    Raises
    ------
    InvalidInputError
        If a value is not a flat list of numbers.
    """
    values, counts = {}, {}
    for key in keys:
        try:
            parts = [entry.get(key, ()) for entry in objects]
            counts[key] = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
            if parts and all(isinstance(part, np.ndarray) for part in parts):
                joined = np.concatenate(parts)
            else:
                joined = np.array(list(chain.from_iterable(parts)))
        except (AttributeError, TypeError, ValueError, OverflowError):
            joined = None
        if joined is None or joined.ndim != 1 or joined.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"{key!r} does not contain lists of numbers; the file is damaged"
            )
        values[key] = joined
    return ArrayTable(
        len(objects), values, counts, {name: _counts(objects, name) for name in numbers}
    )


def _counts(objects: Sequence[Any], name: str) -> Integers:
    return np.array([_count_in(entry, name) for entry in objects], dtype=np.int64)


def _count_in(entry: Mapping[str, Any], name: str) -> int:
    inner = (value for value in entry.values() if isinstance(value, dict))
    entries = [holder[name] for holder in (entry, *inner) if name in holder]
    if not entries:
        return ABSENT
    text = str(entries[0]) if type(entries[0]) in (int, str) else ""
    return int(text) if _DIGITS.fullmatch(text) else -1


def _read_value(document: _Document, at: int, key: str) -> tuple[Any, int]:
    marker = document.data[at]
    if marker == _OBJECT:
        return _read_object(document, at + 1)
    if marker == _ARRAY:
        return _read_array(document, at + 1, key)
    if marker == _STRING:
        return _read_text(document.data, at + 1)
    return _read_scalar(document.data, at)


def _read_scalar(data: bytes | bytearray, at: int) -> tuple[Any, int]:
    marker = data[at]
    packed = _SCALARS.get(marker)
    if packed is not None:
        return packed.unpack_from(data, at + 1)[0], at + 1 + packed.size
    if marker in _CONSTANTS:
        return _CONSTANTS[marker], at + 1
    raise InvalidInputError(f"not UBJSON: unknown marker {bytes([marker])!r} at byte {at}")


def _read_length(data: bytes | bytearray, at: int) -> tuple[int, int]:
    length, at = _read_scalar(data, at)
    if not isinstance(length, int) or not 0 <= length <= len(data) - at:
        raise InvalidInputError(f"the UBJSON document is cut short or damaged at byte {at}")
    return length, at


def _read_text(data: bytes | bytearray, at: int) -> tuple[str, int]:
    length, at = _read_length(data, at)
    return data[at : at + length].decode(), at + length


def _read_object(document: _Document, at: int) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {}
    while document.data[at] != _OBJECT_END:
        key, at = _read_text(document.data, at)
        if key in result:
            raise InvalidInputError(
                f"the UBJSON document is damaged: the key {reprlib.repr(key)} occurs twice in an "
                f"object, again before byte {at}"
            )
        result[key], at = _read_value(document, at, key)
    return result, at + 1


def _read_array(document: _Document, at: int, key: str) -> tuple[Any, int]:
    data = document.data
    if data[at] == _TYPE:
        return _read_typed_array(data, at + 1)
    if data[at] == _COUNT:
        count, at = _read_length(data, at + 1)
        if key in document.tables and count >= _MANY_OBJECTS:
            table, after = _read_table(data, at, count, document.tables[key], document.numbers)
            if table is not None:
                return table, after
    else:
        count = -1
    result: list[Any] = []
    while len(result) != count and not (count < 0 and data[at] == _ARRAY_END):
        if data[at] in _CONSTANTS:
            # A byte each: a list of them takes far more memory than the file, and no model has one.
            raise InvalidInputError(f"expected a number or text in a UBJSON list at byte {at}")
        if data[at] in _ARRAY_TYPES:
            numbers, at = _read_numbers(data, at, count - len(result) if count >= 0 else len(data))
            result += numbers
        else:
            value, at = _read_value(document, at, "")
            result.append(value)
    return result, at if count >= 0 else at + 1


def _read_numbers(data: bytes | bytearray, at: int, most: int) -> tuple[list[Any], int]:
    """Read the next numbers of a list that are of one type, each with its marker before it."""
    dtype = _ARRAY_TYPES[data[at]]
    step = 1 + dtype.itemsize
    n = min(most, _NUMBERS_AT_A_TIME, (len(data) - at) // step)
    markers = data[at : at + n * step : step]
    n -= len(markers.lstrip(markers[:1]))
    if n == 0:
        raise InvalidInputError(f"the UBJSON document is cut short at byte {len(data)}")
    return np.ndarray((n,), dtype, data, at + 1, (step,)).tolist(), at + n * step


def _read_typed_array(data: bytes | bytearray, at: int) -> tuple[npt.NDArray[Any], int]:
    dtype = _ARRAY_TYPES.get(data[at])
    if dtype is None or data[at + 1] != _COUNT:
        raise InvalidInputError(f"not UBJSON: unknown typed array at byte {at}")
    length, start = _read_length(data, at + 2)
    stop = start + length * dtype.itemsize
    if stop > len(data):
        raise InvalidInputError(f"the UBJSON document is cut short at byte {len(data)}")
    return np.frombuffer(data, dtype, length, start), stop


def _read_table(
    data: bytes | bytearray, at: int, n_objects: int, keys: Sequence[str], numbers: Sequence[str]
) -> tuple[ArrayTable | None, int]:
    if n_objects > (len(data) - at) // _LEAST_OBJECT:
        return None, at
    content = np.frombuffer(data, dtype=np.uint8)
    keys_packed, numbers_packed = _packed(keys), _packed(numbers)
    read = np.full((n_objects, len(numbers)), ABSENT, dtype=np.int64)
    marker = np.zeros((n_objects, len(keys)), dtype=np.uint8)
    start = np.zeros((n_objects, len(keys)), dtype=np.int64)
    count = np.zeros((n_objects, len(keys)), dtype=np.int64)
    after = typed_array_spans(
        content,
        at,
        _ITEM_SIZE,
        *keys_packed,
        marker,
        start,
        count,
        *numbers_packed,
        read,
    )
    markers = [set(np.unique(marker[:, column])) - {0} for column in range(len(keys))]
    if after < 0 or any(len(kinds) > 1 for kinds in markers):
        return None, at
    values = {}
    for column, (key, kinds) in enumerate(zip(keys, markers, strict=True)):
        dtype = _ARRAY_TYPES[kinds.pop()] if kinds else np.dtype(np.float64)
        joined = np.empty(int(count[:, column].sum()), dtype=dtype)
        n_bytes = count[:, column] * dtype.itemsize
        gather_bytes(content, start[:, column], n_bytes, joined.view(np.uint8))
        values[key] = joined
    counts = {key: count[:, i] for i, key in enumerate(keys)}
    by_name = {name: read[:, i] for i, name in enumerate(numbers)}
    return ArrayTable(n_objects, values, counts, by_name), after


def _packed(names: Sequence[str]) -> tuple[npt.NDArray[np.uint8], Integers]:
    """Return the bytes of all names and where each begins."""
    encoded = [name.encode() for name in names]
    content = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return content, np.cumsum([0, *map(len, encoded)])
