"""Whether a value from a file is of the type that its field declares."""

import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from functools import cache
from inspect import get_annotations
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from treepurify.errors import SavedFileError
from treepurify.saving import SavedKind, kind_of

__all__ = ["check_field_types", "check_types"]

_UNIONS = (Union, types.UnionType)


def check_field_types(kind: SavedKind, known: Mapping[str, Any]) -> None:
    """Refuse the fields of a registered object that are not of the types of its dataclass."""
    of = kind.type if kind.arguments is None else vars(kind.type).get("__init__", kind.type)
    check_types(kind.name, of, known)


def check_types(name: str, of: Any, known: Mapping[str, Any]) -> None:
    """Refuse values that are not of the types that a class or a function declares.

    Raises
    ------
    SavedFileError
        If one is not; names it.
    """
    hints = _hints(of)
    for field, value in known.items():
        if not _fits(value, hints.get(field, Any)):
            described = (
                f"an array of {value.dtype}" if isinstance(value, np.ndarray) else repr(value)
            )
            raise SavedFileError(f"{name!r} has {described[:60]} for its field {field!r}")


@cache
def _hints(of: Any) -> dict[str, Any]:
    return get_type_hints(of)


def _fits(value: Any, hint: Any) -> bool:
    hint = _without_alias(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in _UNIONS:
        return any(_fits(value, one) for one in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and _fits_each(value, arguments)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _is_of_dtype(value, arguments[1])
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(
            _fits(key, arguments[0]) and _fits(content, arguments[1])
            for key, content in value.items()
        )
    return _is_instance(value, origin or hint)


def _without_alias(hint: Any) -> Any:
    """Return the type that an alias stands for: `NDArray` is one to Python since NumPy 2.5."""
    alias, arguments = get_origin(hint) or hint, get_args(hint)
    if not hasattr(alias, "__value__"):
        return hint
    return _without_alias(alias.__value__[arguments] if arguments else alias.__value__)


def _fits_each(values: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return all(_fits(value, arguments[0]) for value in values)
    return len(values) == len(arguments) and all(map(_fits, values, arguments))


def _is_of_dtype(array: np.ndarray[Any, Any], dtype: Any) -> bool:
    (scalar,) = get_args(dtype)
    scalar = get_origin(scalar) or scalar
    return scalar is Any or issubclass(array.dtype.type, scalar)


def _is_instance(value: Any, cls: Any) -> bool:
    if cls is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if cls is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if cls is Callable:
        return callable(value)
    if cls is Hashable:
        return value is None or isinstance(value, str | int | float)
    if getattr(cls, "_is_protocol", False):
        return kind_of(value) is not None and _offers(type(value), cls)
    return isinstance(value, cls)


def _offers(cls: type, interface: type) -> bool:
    """Whether a class has what a protocol requires; reading it from an object could compute it."""
    asked = [
        name
        for base in interface.__mro__
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *get_annotations(base))
        if not name.startswith("_")
    ]
    names = {field.name for field in fields(cls)}
    return all(name in names or hasattr(cls, name) for name in asked)
