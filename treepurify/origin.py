"""Where a decomposition comes from: the call, the model, the rows, the solve and its edits."""

import hashlib
import inspect
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.frozen import FrozenMapping

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


def array_fingerprint(arrays: Iterable[npt.NDArray[Any] | None]) -> str:
    """Return the SHA-256 of arrays with their types and shapes, as hexadecimal digits.

    Parameters
    ----------
    arrays : iterable of ndarray or None
        The arrays; their order counts, and so does where one is absent.

    Examples
    --------
    >>> import numpy as np
    >>> array_fingerprint([np.arange(3.0)])[:8]
    'a98b1ccc'
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none;")
            continue
        own = np.ascontiguousarray(array)
        # The bytes are those of a machine that stores the lowest byte first.
        own = own.astype(own.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{own.dtype.str} {own.shape};".encode())
        digest.update(own.data.cast("B") if own.size else b"")
    return digest.hexdigest()


def file_fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, as ``sha256sum`` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


ClassLabel = str | int | float | bool


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model.

    Parameters
    ----------
    library, version, kind : str
        See `ModelSource`.
    notes : tuple of str
        What a user should know about how the model was read.
    trees, terms : int, optional
        Number of trees of an ensemble, or of terms of an EBM.
    sha256 : str
        Fingerprint of its trees or tables.
    class_labels : tuple of str, int, float or bool
        See `ModelSource`.
    """

    library: str = ""
    version: str = ""
    kind: str = ""
    notes: tuple[str, ...] = ()
    trees: int | None = None
    terms: int | None = None
    sha256: str = ""
    class_labels: tuple[ClassLabel, ...] = ()


@dataclass(frozen=True)
class Identifiability:
    """Which effects the rows determine, where functions were selected on them.

    Parameters
    ----------
    is_unique : bool
        Whether the rows determine every effect.
    rank : int
        Number of independent functions that were taken, the constant included.
    n_rejected : int
        Number of functions that are combinations of these on the rows.
    determined_terms : tuple of str, optional
        The effects that the rows determine; None where that is not known.
    is_least_norm : bool
        Whether the components are those of least norm among all that explain the same.
    """

    is_unique: bool
    rank: int
    n_rejected: int
    determined_terms: tuple[str, ...] | None = None
    is_least_norm: bool = False


@dataclass(frozen=True)
class Edit:
    """One change of a decomposition.

    Parameters
    ----------
    facts : mapping of str to object
        What was changed and how, for people to read.
    difference : tuple of float
        Root mean square difference from before, per output.
    is_bound : bool
        Whether that is a bound.
    """

    facts: Mapping[str, Any]
    difference: tuple[float, ...]
    is_bound: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", FrozenMapping(_frozen(self.facts)))


@dataclass(frozen=True)
class Origin:
    """What code reads of how a decomposition was made; more for people is in its diagnostics.

    Parameters
    ----------
    model : ModelFacts, optional
        The model that was decomposed.
    response_of : ModelFacts, optional
        The model whose response was decomposed, in place of its margin.
    n_rows : int, optional
        Number of rows that the effects refer to.
    measure_rows : int
        Number of rows whose distribution is used, or that it was made from; 0 if there are none.
    copies : int
        Number of shifted copies of each of these in a smoothed distribution; 1 if they are used as
        they are.
    method : str
        How effects were computed, in the words of the engine; empty where it has one way only.
    seeds : tuple of int
        Seeds of random choices, increasing.
    identifiability : Identifiability, optional
        Which effects the rows determine, where functions were selected on them.
    open_directions : mapping of tuple of int to int or None
        For each table that was purified, the number of its directions that the data leave open;
        None where it was not counted.
    edits : tuple of Edit
        How the decomposition was changed after it was made.
    """

    model: ModelFacts | None = None
    response_of: ModelFacts | None = None
    n_rows: int | None = None
    measure_rows: int = 0
    copies: int = 1
    method: str = ""
    seeds: tuple[int, ...] = ()
    identifiability: Identifiability | None = None
    open_directions: Mapping[tuple[int, ...], int | None] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "open_directions", FrozenMapping(self.open_directions))


def _frozen(facts: Any) -> Any:
    """Return nested facts with tuples in place of lists."""
    if isinstance(facts, Mapping):
        return {name: _frozen(fact) for name, fact in facts.items()}
    return tuple(map(_frozen, facts)) if isinstance(facts, list | tuple) else facts


def seeds_of(facts: Mapping[str, Any]) -> tuple[int, ...]:
    """Return every seed in nested facts, increasing."""
    return tuple(sorted(set(_seeds(facts))))


def _seeds(facts: Any) -> Iterator[int]:
    if isinstance(facts, Mapping) and isinstance(facts.get("seed"), int):
        yield facts["seed"]
    for value in facts.values() if isinstance(facts, Mapping) else facts:
        if isinstance(value, Mapping | list | tuple):  # there are many, and most are numbers
            yield from _seeds(value)
