"""A fingerprint of what a fitted transformer is and has learned: equal ones make equal columns."""

import hashlib
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from treepurify.fingerprints import array_fingerprint

__all__ = ["state_fingerprint"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic)
# They are the same where they are one object: what a function does is not seen.
_CODE = (type, FunctionType, BuiltinFunctionType, ModuleType, np.ufunc)


def state_fingerprint(value: Any) -> str:
    """Return a SHA-256 of all that an object holds, which is that of its copies, too.

    It is good for comparing objects within one process: functions count as the same object only.

    Parameters
    ----------
    value : object
        Such as a fitted transformer.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> first, second, third = (StandardScaler().fit([[0.0], [x]]) for x in (1.0, 1.0, 2.0))
    >>> state_fingerprint(first) == state_fingerprint(second)
    True
    >>> state_fingerprint(first) == state_fingerprint(third)
    False
    """
    digest = hashlib.sha256()
    for part in _parts(value, ()):
        digest.update(part.encode() + b";")
    return digest.hexdigest()


def _parts(value: Any, outer: tuple[int, ...]) -> Iterator[str]:
    """Yield texts that say what a value is; `outer` are the objects that hold it."""
    kind = type(value).__qualname__
    if isinstance(value, _PLAIN):
        yield f"{kind} {value!r}"
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield array_fingerprint([value]) if value.dtype.kind in "biufc" else repr(value.tolist())
    elif isinstance(value, _CODE):
        yield f"{kind} {id(value)}"
    elif id(value) in outer:
        yield f"{kind} {outer.index(id(value))}"
    else:
        yield kind
        for item in _items(value):
            yield from _parts(item, (*outer, id(value)))
        yield "end"


def _items(value: Any) -> list[Any]:
    """Return what an object holds: for most, what their copies are made of."""
    if isinstance(value, np.ndarray):
        return [value.shape, *value.ravel().tolist()]
    if isinstance(value, dict):
        return [item for pair in value.items() for item in pair]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, list | tuple):
        return list(value)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - anybody's objects, some of which cannot be copied
        return [id(value)]
    if isinstance(reduced, str):
        return [id(value)]
    made_by, arguments, *state = reduced
    return [made_by, arguments, *(list(s) if isinstance(s, Iterator) else s for s in state)]
