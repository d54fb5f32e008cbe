"""The classes that a saved decomposition may hold: loading builds no others.

A frozen dataclass is saved field by field: arrays, numbers, text, tuples, mappings, and other
registered classes. `treepurify.storage` lists those of the packages that know nothing of saving;
engines register theirs with `savable`, and so can code outside treepurify.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, TypeVar

from treepurify.errors import InvalidInputError, TreepurifyError

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class SavedKind:
    """How instances of one class are saved.

    Parameters
    ----------
    name : str
        What they are called in the file; it must stay the same from version to version.
    type : type
        The frozen dataclass.
    left_out : frozenset of str
        Fields that are not saved; they must have a default.
    supplied : str, optional
        A field that holds a function. One that is not in this register itself cannot be
        saved: whoever loads the file supplies it.
    check : callable, optional
        Is called with every instance after loading, and raises where something is wrong.
    arguments : tuple of str, optional
        The attributes that are saved, and passed to the class again; by default the fields.
    """

    name: str
    type: Any
    left_out: frozenset[str] = frozenset()
    supplied: str | None = None
    check: Callable[[Any], None] | None = None
    arguments: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What may be saved."""
        return self.arguments or tuple(field.name for field in fields(self.type))

    @property
    def needed(self) -> frozenset[str]:
        """What the class cannot be built without."""
        if self.arguments is not None:
            return frozenset(self.arguments)
        return frozenset(
            field.name
            for field in fields(self.type)
            if field.default is MISSING and field.default_factory is MISSING
        )


@dataclass(frozen=True)
class MissingFunction:
    """Stands for a function that is not in the file from which a decomposition was loaded."""

    def __call__(self, X: Any) -> Any:
        """Raise, and say how to supply the function.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError(
            "this needs the function that was decomposed, which a file cannot store: load the file "
            "with tp.load(path, function=f). Everything that does not call the function works "
            "without it"
        )


_BY_NAME: dict[str, SavedKind] = {}
_BY_TYPE: dict[type, SavedKind] = {}


def savable(
    name: str,
    *,
    left_out: tuple[str, ...] = (),
    supplied: str | None = None,
    check: Callable[[Any], None] | None = None,
    arguments: tuple[str, ...] | None = None,
) -> Callable[[Class], Class]:
    """Let `Decomposition.save` save instances of a frozen dataclass.

    Parameters
    ----------
    name : str
        What they are called in the file.
    left_out : tuple of str
        Fields with a default that are not saved.
    supplied : str, optional
        The field that holds a function, which ``tp.load(path, function=f)`` supplies.
    check : callable, optional
        Is called with every instance after loading.
    arguments : tuple of str, optional
        The attributes to save, which the class takes by these names, for one that extends a
        dataclass but is built from something else. By default all fields.

    Returns
    -------
    callable
        A decorator that returns the class as it is.

    Raises
    ------
    TreepurifyError
        If the class is not a dataclass, or the name is taken.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @savable("example of a straight line")
    ... @dataclass(frozen=True)
    ... class Line:
    ...     slope: float
    >>> kind_of(Line(2.0)).name
    'example of a straight line'
    """

    def announce(cls: Class) -> Class:
        known = _BY_NAME.get(name)
        if not is_dataclass(cls):
            raise TreepurifyError(f"only dataclasses can be saved, got {cls.__qualname__}")
        # A module that is run again defines its classes again.
        if known is not None and known.type.__qualname__ != cls.__qualname__:
            raise TreepurifyError(f"{name!r} is already registered for {known.type.__qualname__}")
        kind = SavedKind(name, cls, frozenset(left_out), supplied, check, arguments)
        _BY_NAME[name] = _BY_TYPE[cls] = kind
        return cls

    return announce


def kind_of(value: Any) -> SavedKind | None:
    """Return how an object is saved; None where its class is not registered."""
    return _BY_TYPE.get(type(value))


def kind_named(name: str) -> SavedKind | None:
    """Return the kind of a name in a file; None where it is not registered."""
    return _BY_NAME.get(name)
