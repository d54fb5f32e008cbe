"""Damage to files: bytes, numbers and lines, the structure of JSON, members of an archive."""

import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Mutation = Callable[[bytes, np.random.Generator], bytes]

NUMBERS = ["-1", "0", "1", "2", "0.5", "-0.0", "127", "128", "255", "256", "65536", "16777216"]
NUMBERS += ["2147483647", "2147483648", "4294967295", "4294967296", "9223372036854775808"]
NUMBERS += ["1e-320", "1e38", "1e39", "1e308", "1e400", "-1e400", "NaN", "Infinity", "nan", "inf"]
NUMBERS += ["9" * 400, "1" * 5000, "0x10", "1_0", "true", "null", '""', "[]", "{}"]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3.5,
    28,
    255,
    2**24,
    10**7,
    2**31,
    2**32,
    2**63,
]
VALUES += [10**30, 10**400, 1e39, 1e300, float("nan"), float("inf"), "", "1", "-1", "nan", "text"]
VALUES += ["\x00", "9" * 30, [], [0], [1.5], ["a"], [[1]], [None] * 1000, {}, {"a": 1}, {"a": {}}]
LENGTHS = [0, 1, 2, 2**7, 2**8, 2**16, 2**24, 2**31 - 1, 2**32, 2**40, 2**63 - 1, 2**64 - 1]
NUMBER = re.compile(rb"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def choose(items: Any, rng: np.random.Generator) -> Any:
    return items[int(rng.integers(len(items)))]


def span(data: bytes, rng: np.random.Generator) -> tuple[int, int]:
    """A short stretch, now and then a long one."""
    start = int(rng.integers(len(data) + 1))
    length = int(rng.integers(1, 17)) if rng.random() < 0.8 else int(rng.integers(len(data) + 1))
    return start, min(start + length, len(data))


def flip_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        changed[int(rng.integers(len(changed)))] ^= int(rng.integers(1, 256))
    return bytes(changed)


def cut_short(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: int(rng.integers(len(data)))]


def delete_span(data: bytes, rng: np.random.Generator) -> bytes:
    start, stop = span(data, rng)
    return data[:start] + data[stop:]


def repeat_span(data: bytes, rng: np.random.Generator) -> bytes:
    start, stop = span(data, rng)
    times = choose([1, 1, 1, 2, 50], rng)
    return data[:stop] + data[start:stop] * times + data[stop:]


def fill_span(data: bytes, rng: np.random.Generator) -> bytes:
    start, stop = span(data, rng)
    return data[:start] + bytes([choose([0, 0x7F, 0x80, 0xFF], rng)]) * (stop - start) + data[stop:]


def move_span(data: bytes, rng: np.random.Generator) -> bytes:
    start, stop = span(data, rng)
    rest = data[:start] + data[stop:]
    at = int(rng.integers(len(rest) + 1))
    return rest[:at] + data[start:stop] + rest[at:]


def append_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    return data + choose([b"\0", b" ", b"}", b"{}", b"garbage", data], rng)


def change_number(data: bytes, rng: np.random.Generator) -> bytes:
    """Put an extreme number, or another one of the file, in the place of one or a few."""
    found = list(NUMBER.finditer(data))
    for _ in range(choose([1, 1, 1, 3], rng)):
        if not found:
            break
        place = choose(found, rng)
        other = choose(found, rng).group() if rng.random() < 0.3 else choose(NUMBERS, rng).encode()
        data = data[: place.start()] + other + data[place.end() :]
        found = list(NUMBER.finditer(data))
    return data


def change_lines(data: bytes, rng: np.random.Generator) -> bytes:
    """Delete, repeat, swap or move a line."""
    lines = data.splitlines(keepends=True)
    first, second = (int(rng.integers(len(lines))) for _ in range(2))
    kind = choose(["delete", "repeat", "swap", "overwrite"], rng)
    if kind == "delete":
        del lines[first]
    elif kind == "repeat":
        lines.insert(second, lines[first])
    elif kind == "swap":
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first] = lines[second]
    return b"".join(lines)


def change_length(data: bytes, rng: np.random.Generator) -> bytes:
    """Overwrite one of the 8-byte lengths of UBJSON."""
    places = [match.end() for match in re.finditer(rb"L(?=\x00{5})", data)]
    at = choose(places, rng) if places else 0
    length = choose(LENGTHS, rng) if rng.random() < 0.7 else int(rng.integers(len(data)))
    return data[:at] + length.to_bytes(8, "big") + data[at + 8 :]


class Repeated(dict[str, Any]):
    """An object that is written with one key twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def items(self) -> Any:
        return self.pairs


def change_structure(data: bytes, rng: np.random.Generator) -> bytes:
    """Change one place of a JSON document, and write it again."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return flip_bytes(data, rng)
    if not isinstance(document, dict | list) or not document:
        # What an earlier mutation has left.
        return append_bytes(data, rng)
    holder, key, set_holder = place(document, rng)
    kind = choose(["delete", "value", "value", "repeat", "other", "nest", "sequence"], rng)
    if kind == "delete":
        del holder[key]
    elif kind == "value":
        holder[key] = choose(VALUES, rng)
    elif kind == "other":
        there, at, _ = place(document, rng)
        holder[key] = there[at] if at in there or isinstance(there, list) else None
        return written(document)
    elif kind == "nest":
        for _ in range(choose([1, 2, 60, 900], rng)):
            holder[key] = [holder[key]]
    elif kind == "sequence":
        change_sequence(holder, key, rng)
    elif isinstance(holder, dict) and set_holder is not None:
        pairs = list(holder.items())
        value = holder[key] if rng.random() < 0.5 else choose(VALUES, rng)
        pairs.insert(int(rng.integers(len(pairs) + 1)), (key, value))
        set_holder(Repeated(pairs))
    return written(document)


def written(document: Any) -> bytes:
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):
        # An object that holds itself, numbers of too many digits, or lists nested too deeply.
        return b'{"learner": ' + b"[" * 5000


def place(document: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return a container, a key in it, and how to replace the container, at a drawn depth."""
    holder, set_holder = document, None
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = choose(list(keys), rng)
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.15:
            return holder, key, set_holder
        holder, set_holder = (
            inner,
            lambda value, holder=holder, key=key: (
                holder.update({key: value})
                if isinstance(holder, dict)
                else holder.__setitem__(key, value)
            ),
        )


def change_sequence(holder: Any, key: Any, rng: np.random.Generator) -> None:
    """Shorten, lengthen or reorder a list."""
    values = holder[key] if isinstance(holder[key], list) else holder
    if not isinstance(values, list) or not values:
        return
    kind = choose(["pop", "repeat", "reverse", "many", "swap", "empty"], rng)
    if kind == "pop":
        values.pop(int(rng.integers(len(values))))
    elif kind == "repeat":
        values.append(choose(values, rng))
    elif kind == "reverse":
        values.reverse()
    elif kind == "many":
        values.extend([choose(values, rng)] * choose([30, 1000], rng))
    elif kind == "swap":
        first, second = (int(rng.integers(len(values))) for _ in range(2))
        values[first], values[second] = values[second], values[first]
    else:
        values.clear()


def change_member(data: bytes, rng: np.random.Generator) -> bytes:
    """Change one member of an archive and pack it again."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError):
        return flip_bytes(data, rng)
    at = int(rng.integers(len(members))) if rng.random() < 0.6 else 0
    name, content = members[at]
    kind = choose(["change", "change", "change", "delete", "exchange", "repeat"], rng)
    if kind == "change":
        mutations = JSON if name.endswith(".json") else BINARY
        members[at] = (name, choose(mutations, rng)(content, rng))
    elif kind == "delete":
        del members[at]
    elif kind == "exchange":
        members[at] = (name, choose(members, rng)[1])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return packed.getvalue()


BINARY: list[Mutation] = [
    flip_bytes,
    cut_short,
    delete_span,
    repeat_span,
    fill_span,
    move_span,
    append_bytes,
]
JSON: list[Mutation] = [*BINARY[:3], *[change_number] * 3, *[change_structure] * 5]
TEXT: list[Mutation] = [*BINARY, *[change_number] * 6, *[change_lines] * 5]
UBJSON: list[Mutation] = [*BINARY, *[flip_bytes] * 8, *[change_length] * 4]
ARCHIVE: list[Mutation] = [*BINARY[:3], *[change_member] * 6]


def mutate(data: bytes, mutations: list[Mutation], rng: np.random.Generator) -> bytes:
    """Damage a file, mostly once; two or three times now and then."""
    for _ in range(choose([1, 1, 1, 2, 3], rng)):
        if data:
            data = choose(mutations, rng)(data, rng)
    return data
