"""Registered dataclasses as JSON values and numbered arrays, and back.

Every object and every array is stored once, however many others refer to it: the components
of a deep model share their leaves. References are ``{"object": 3}`` and ``{"array": 5}``;
JSON lists stand for tuples. A value from a file must be of the type that its field declares.
"""

import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from inspect import get_annotations
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, SavedFileError
from treepurify.saving import MissingFunction, SavedKind, kind_named, kind_of

__all__ = ["Decoder", "Encoder", "check_types"]

# Any hashable may be a label; what JSON has no form for is saved as its text.
_LABELS = "categories"
_UNIONS = (Union, types.UnionType)


class Encoder:
    """Gathers the objects and arrays of one file, each stored once."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: list[npt.NDArray[Any]] = []
        self._known: dict[int, dict[str, int]] = {}
        # An object's identity is only unique as long as it lives.
        self._alive: list[Any] = []

    def encode(self, value: Any) -> Any:
        """Return the JSON form of a value.

        Raises
        ------
        InvalidInputError
            If it holds something of a class that is not registered.
        """
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, str | int | float | bool):
            return value
        if isinstance(value, tuple):
            return [self.encode(item) for item in value]
        if isinstance(value, Mapping):
            return {"mapping": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return self._once(value, self._add_array)
        if (kind := kind_of(value)) is not None:
            return self._once(value, lambda instance: self._add_object(instance, kind))
        if isinstance(value, np.dtype) or hasattr(value, "construct_array_type"):
            return {"dtype": _dtype_words(value)}
        raise InvalidInputError(
            f"{type(value).__name__} cannot be saved: its class is not registered with "
            "treepurify.saving.savable. Save its values on rows with d.contributions(X) or "
            "d.to_frame()"
        )

    def _once(self, value: Any, add: Callable[[Any], dict[str, int]]) -> dict[str, int]:
        if id(value) not in self._known:
            self._alive.append(value)
            self._known[id(value)] = add(value)
        return self._known[id(value)]

    def _add_array(self, array: npt.NDArray[Any]) -> dict[str, int]:
        self.arrays.append(np.ascontiguousarray(array))
        return {"array": len(self.arrays) - 1}

    def _add_object(self, value: Any, kind: SavedKind) -> dict[str, int]:
        saved: dict[str, Any] = {}
        for name in kind.names:
            field_value = getattr(value, name)
            if name in kind.left_out:
                continue
            if name == kind.supplied and callable(field_value) and kind_of(field_value) is None:
                continue
            if name == _LABELS and field_value is not None:
                field_value = tuple(_label(label) for label in field_value)
            saved[name] = self.encode(field_value)
        self.objects.append({"kind": kind.name, "fields": saved})
        return {"object": len(self.objects) - 1}


class Decoder:
    """Rebuilds the objects of one file.

    Parameters
    ----------
    entries : sequence of mapping
        The objects, those first that others refer to.
    array : callable
        Returns the array of a number.
    function : callable, optional
        The function that the file cannot hold.
    """

    def __init__(
        self,
        entries: Sequence[Mapping[str, Any]],
        array: Callable[[int], npt.NDArray[Any]],
        function: Callable[[Any], Any] | None,
    ) -> None:
        self._array = array
        self._arrays: dict[int, npt.NDArray[Any]] = {}
        self._function = MissingFunction() if function is None else function
        self._objects: list[Any] = []
        self.needs_function = False
        self.checks: list[Callable[[], None]] = []
        for entry in entries:
            self._objects.append(self._build(entry))

    def decode(self, value: Any) -> Any:
        """Return the value of a JSON form."""
        if isinstance(value, list):
            return tuple(self.decode(item) for item in value)
        if not isinstance(value, dict):
            return value
        ((what, content),) = value.items()
        if what == "array":
            if content not in self._arrays:
                self._arrays[content] = self._array(content)
            return self._arrays[content]
        if what == "object":
            return self._objects[content]
        if what == "mapping":
            return {self.decode(key): self.decode(item) for key, item in content}
        if what == "dtype":
            return _dtype(content)
        raise SavedFileError(
            f"the file contains a {what!r}, which is unknown to this version: update treepurify"
        )

    def _build(self, entry: Mapping[str, Any]) -> Any:
        kind = kind_named(entry["kind"])
        if kind is None:
            raise SavedFileError(
                f"the file contains {entry['kind']!r}, which is unknown to this version: update "
                "treepurify, or import the package that made it"
            )
        known = {name: self.decode(encoded) for name, encoded in entry["fields"].items()}
        if kind.supplied is not None and kind.supplied not in known:
            known[kind.supplied] = self._function
            self.needs_function = True
        if not kind.needed <= set(known) <= set(kind.names):
            raise SavedFileError(f"{kind.name!r} has unexpected fields: {sorted(known)}")
        _check_field_types(kind, known)
        built = kind.type(**known)
        # What an earlier version saved is checked as what it is today.
        if (check := (kind_of(built) or kind).check) is not None:
            self.checks.append(lambda: check(built))
        return built


def _label(label: Any) -> Any:
    """Return a category label as a JSON value; what JSON has no form for becomes text."""
    if isinstance(label, np.generic):
        label = label.item()
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def _dtype_words(dtype: Any) -> Any:
    """Return the name of a column's type, with the labels of a categorical one."""
    if not hasattr(dtype, "categories"):
        return str(dtype)
    return {
        "categories": [_label(label) for label in dtype.categories],
        "ordered": bool(dtype.ordered),
    }


def _dtype(words: Any) -> Any:
    import pandas as pd

    if isinstance(words, str):
        return pd.api.types.pandas_dtype(words)
    return pd.CategoricalDtype(words["categories"], ordered=words["ordered"])


def _check_field_types(kind: SavedKind, known: Mapping[str, Any]) -> None:
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
            raise SavedFileError(
                f"{name!r} has a wrong value for its field {field!r}: {described[:60]}"
            )


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
