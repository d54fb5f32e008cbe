"""Registered dataclasses as JSON values and numbered arrays, and back.

Every object and every array is stored once, however many others refer to it: the components
of a deep model share their leaves. References are ``{"object": 3}`` and ``{"array": 5}``;
JSON lists stand for tuples.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, SavedFileError
from treepurify.saving import MissingFunction, kind_named, kind_of

# Any hashable may be a label; what JSON has no form for is saved as its text.
_LABELS = "categories"


class Encoder:
    """Gathers the objects and arrays of one file, each stored once."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: list[npt.NDArray[Any]] = []
        # With the objects: an identity is only unique as long as they live.
        self._known: dict[int, tuple[Any, dict[str, int]]] = {}

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
        if isinstance(value, list):
            return {"list": [self.encode(item) for item in value]}
        if isinstance(value, Mapping):
            return {"mapping": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        if isinstance(value, np.dtype) or hasattr(value, "construct_array_type"):
            return {"dtype": _dtype_words(value)}
        if id(value) not in self._known:
            self._known[id(value)] = value, self._add(value)
        return self._known[id(value)][1]

    def _add(self, value: Any) -> dict[str, int]:
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            self.arrays.append(np.ascontiguousarray(value))
            return {"array": len(self.arrays) - 1}
        kind = kind_of(value)
        if kind is None:
            raise InvalidInputError(
                f"{type(value).__name__} cannot be saved: its class is not registered with "
                "treepurify.saving.savable. Save its values on rows with d.contributions(X) or "
                "d.to_frame()"
            )
        saved = {name: getattr(value, name) for name in kind.names if name not in kind.left_out}
        function = saved.get(kind.supplied or "")
        if callable(function) and kind_of(function) is None:
            del saved[str(kind.supplied)]
        if (labels := saved.get(_LABELS)) is not None:
            saved[_LABELS] = tuple(map(_label, labels))
        fields = {name: self.encode(field) for name, field in saved.items()}
        self.objects.append({"kind": kind.name, "fields": fields})
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
        self.callers: list[Callable[[], None]] = []
        """For each object that calls the function, the check that it is the right one."""
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
        if what == "list":
            return [self.decode(item) for item in content]
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
        calls = kind.supplied is not None and kind.supplied not in known
        if kind.supplied is not None and calls:
            known[kind.supplied] = self._function
        if not kind.needed <= set(known) <= set(kind.names):
            raise SavedFileError(f"{kind.name!r} has unexpected fields: {sorted(known)}")
        built = kind.type(**known)
        check = kind.check
        if check is not None and calls:
            self.callers.append(lambda: check(built))
        elif check is not None:
            check(built)
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
