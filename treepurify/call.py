"""The call that made a decomposition, as a line of Python."""

import inspect
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from treepurify.frozen import FrozenMapping

__all__ = ["Call", "called"]

_UNWRITTEN = "..."
# Beyond these an argument is data, which the line leaves out.
_MOST_ENTRIES = 64
_MOST_CHARACTERS = 400
_NAMESPACES = {"weights": "tp.weights.", "engines": "tp.options."}


@dataclass(frozen=True)
class Call:
    """The public function that was called, and the arguments that differ from its defaults.

    Parameters
    ----------
    function : str
        The function, such as ``"tp.purify"``.
    positional : tuple of str
        The arguments that are passed by position: literals as they were given, and the name of
        the parameter for what is no literal, such as a model and its rows.
    named : mapping of str to str
        The arguments that are passed by name, as Python code. Arrays and other data are ``...``.

    Examples
    --------
    >>> Call("tp.purify", ("model", "X"), {"order": "3", "weights": '"auto"'}).line()
    'd = tp.purify(model, X, order=3, weights="auto")'
    """

    function: str
    positional: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", FrozenMapping(self.named))

    def line(self) -> str:
        """Return the call as a line of Python, which gives its result the name ``d``."""
        named = [f"{name}={code}" for name, code in self.named.items()]
        return f"d = {self.function}({', '.join([*self.positional, *named])})"


def called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Call:
    """Return the call of a function that is running.

    Parameters
    ----------
    function : callable
        The function.
    arguments : mapping of str to object
        The value of each parameter: ``locals()`` in the first line of the function.

    Examples
    --------
    >>> def shares(values, *, most=3, names=None):
    ...     return called(shares, locals())
    >>> call = shares(np.ones(3), most=2)
    >>> call.positional, dict(call.named)
    (('values',), {'most': '2'})
    """
    positional: list[str] = []
    named: dict[str, str] = {}
    is_gap = False
    for name, parameter in inspect.signature(function).parameters.items():
        code, usual = _code(arguments[name]), _code(parameter.default)
        if parameter.default is not parameter.empty and code == usual != _UNWRITTEN:
            is_gap = True
        elif is_gap or parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = code
        else:
            positional.append(name if _UNWRITTEN in code else code)
    is_ours = function.__module__.startswith("treepurify.")
    return Call(f"{'tp.' * is_ours}{function.__name__}", tuple(positional), named)


def _code(value: Any) -> str:
    """Return a value as Python code, where that is short; ``...`` for data."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | os.PathLike):
        code = json.dumps(str(value), ensure_ascii=False)
    elif isinstance(value, float) and not math.isfinite(value):
        code = f'float("{value}")'
    elif value is None or isinstance(value, bool | int | float):
        code = repr(value)
    elif isinstance(value, list | tuple | Mapping) and len(value) > _MOST_ENTRIES:
        code = _UNWRITTEN
    elif isinstance(value, Mapping):
        code = f"{{{', '.join(f'{_code(key)}: {_code(entry)}' for key, entry in value.items())}}}"
    elif isinstance(value, list):
        code = f"[{', '.join(map(_code, value))}]"
    elif isinstance(value, tuple):
        code = f"({', '.join(map(_code, value))}{',' * (len(value) == 1)})"
    else:
        code = _code_of_object(value)
    return code if len(code) <= _MOST_CHARACTERS else _UNWRITTEN


def _code_of_object(value: Any) -> str:
    """Return weightings and options as they are constructed; of other objects the class."""
    kind = type(value)
    if not is_dataclass(value):
        is_data = callable(value) or any(hasattr(value, name) for name in ("__len__", "__array__"))
        return _UNWRITTEN if is_data else f"{kind.__qualname__}({_UNWRITTEN})"
    given = []
    for own in fields(value):
        usual = own.default if own.default_factory is MISSING else own.default_factory()
        if own.init and (code := _code(getattr(value, own.name))) != _code(usual):
            given.append(f"{own.name}={code}")
    package, _, rest = kind.__module__.partition(".")
    namespace = _NAMESPACES.get(rest.partition(".")[0], "tp.") * (package == "treepurify")
    return f"{namespace}{kind.__qualname__}({', '.join(given)})"
