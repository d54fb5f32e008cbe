"""What no number says of a model: its purpose, its data, its limits, and what is to be checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from treepurify.arguments import brief, check_choice, check_number, read_path
from treepurify.errors import InvalidInputError, MissingDependencyError
from treepurify.frozen import FrozenMapping

_KINDS = (".yaml", ".yml")


@dataclass(frozen=True)
class GroupColumn:
    """A column that divides the rows into two groups.

    Parameters
    ----------
    name : str
        The column.
    cut : float, optional
        Rows below it are the first group, all others the second; labels divide without it.
    from_group, to_group : str, optional
        The first and the second label.
    """

    name: str
    cut: float | None = None
    from_group: str | None = None
    to_group: str | None = None


@dataclass(frozen=True)
class About:
    """What is said of a model.

    Parameters
    ----------
    title : str
        The heading of the report.
    purpose, owner, data, target : str
        What the model decides, who answers for it, the rows that it was made from, and what it
        predicts.
    limits : tuple of str
        What it must not be used for, and what is known to be weak.
    directions : mapping of str to (str or tuple of str)
        For each feature whose direction is known ``"increasing"`` or ``"decreasing"``, or its
        categories from the smallest margin to the largest.
    groups : tuple of GroupColumn
        The columns whose groups are compared.
    output : int or str
        The output on which decisions are based.
    threshold : float, optional
        Threshold of the decision, on the response scale.
    adverse : {"high", "low"}
        Which predictions are refused.
    texts : mapping of str to (str or mapping of str to str)
        What is said of a feature as a reason; see `reason_codes`.
    """

    title: str = ""
    purpose: str = ""
    owner: str = ""
    data: str = ""
    target: str = ""
    limits: tuple[str, ...] = ()
    directions: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    groups: tuple[GroupColumn, ...] = ()
    output: int | str = 0
    threshold: float | None = None
    adverse: str = "high"
    texts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "directions", FrozenMapping(self.directions))
        object.__setattr__(self, "texts", FrozenMapping(self.texts))


def read_about(given: Any) -> About:
    """Return what is said of a model.

    Parameters
    ----------
    given : str, Path or mapping, optional
        A file in YAML, or what such a file has, by the names of the fields of `About`. Of
        ``groups`` a list of columns, or a mapping of columns to ``cut``, ``from`` and ``to``.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, a key is unknown, or a value is none for it.
    MissingDependencyError
        If a YAML file is given and PyYAML is not installed.

    Examples
    --------
    >>> about = read_about({"purpose": "Loans", "groups": {"age": {"cut": 40}}})
    >>> about.purpose, about.groups[0].cut
    ('Loans', 40.0)
    """
    if given is None:
        return About()
    where = "about"
    if not isinstance(given, Mapping):
        path = read_path("about", given)
        where, given = str(path), _read_file(path)
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"{where} must map keys to values, such as {{'purpose': '...'}}, got {brief(given)}"
        )
    _check_keys(where, given, _READERS)
    # An empty value in YAML is None: as if the key were not there.
    said = {key: value for key, value in given.items() if value is not None}
    return About(**{key: _READERS[key](f"{key} in {where}", said[key]) for key in said})


def _check_keys(where: str, given: Mapping[Any, Any], known: Mapping[str, Any]) -> None:
    for key in given:
        if key in known:
            continue
        near = get_close_matches(str(key), known, n=1)
        meant = f"did you mean {near[0]!r}? Keys" if near else "keys"
        raise InvalidInputError(f"{where} has no key {brief(key)}; {meant} are {', '.join(known)}")


def _read_file(path: Path) -> Any:
    if path.suffix.lower() not in _KINDS:
        raise InvalidInputError(f"{str(path)!r} must be a file in {' or '.join(_KINDS)}")
    try:
        return _read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no file {str(path)!r}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read: {error}") from error


def _read_yaml(text: str) -> Any:
    """Return plain values: no objects are made, and nothing is repeated by reference."""
    try:
        import yaml
    except ImportError as error:
        raise MissingDependencyError(
            'reading YAML needs PyYAML: pip install "treepurify[yaml]"; or pass the same keys as a '
            "dict"
        ) from error
    try:
        # A reference to itself would be no end, and one to many a very long text.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ValueError("references (*name) are not read: write the value out")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{where} must be text, in quotes if need be; got {brief(value)}")
    return value.strip()


def _texts(where: str, value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list | tuple) else [value]
    return tuple(_text(f"each of {where}", one) for one in listed)


def _label(where: str, value: Any) -> str:
    """Return a label of a column, which YAML may have read as a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return _text(where, value)


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError(f"{where} must map names to values, got {brief(value)}")
    return value


def _number(where: str, value: Any) -> float:
    check_number(where, value)
    return float(value)


def _output(where: str, value: Any) -> int | str:
    return value if isinstance(value, int) else _text(where, value)


def _directions(where: str, value: Any) -> dict[str, str | tuple[str, ...]]:
    found: dict[str, str | tuple[str, ...]] = {}
    for name, direction in _mapping(where, value).items():
        if isinstance(direction, list | tuple):
            found[name] = tuple(_label(f"{where}, {name}", one) for one in direction)
            continue
        check_choice(
            f"{where}, {name}",
            direction,
            ("increasing", "decreasing"),
            advice=" or a list of categories, from the smallest margin to the largest",
        )
        found[name] = direction
    return found


def _groups(where: str, value: Any) -> tuple[GroupColumn, ...]:
    if isinstance(value, str | list | tuple):
        return tuple(GroupColumn(name) for name in _texts(where, value))
    return tuple(_group(where, name, own) for name, own in _mapping(where, value).items())


def _group(where: str, name: str, given: Any) -> GroupColumn:
    where = f"{name} of {where}"
    own = {} if given is None else _mapping(where, given)
    _check_keys(where, own, {"cut": None, "from": None, "to": None})
    if sorted(own) not in ([], ["cut"], ["from", "to"]) or own.get("from", 0) == own.get("to", 1):
        raise InvalidInputError(
            f"{where} must have cut, or two different labels as from and to; got {brief(own)}"
        )
    return GroupColumn(
        name,
        _number(f"cut of {where}", own["cut"]) if "cut" in own else None,
        *(_label(f"{end} of {where}", own[end]) if end in own else None for end in ("from", "to")),
    )


def _adverse(where: str, value: Any) -> str:
    check_choice(where, value, ("high", "low"))
    return str(value)


def _said(where: str, value: Any) -> dict[str, Any]:
    return dict(_mapping(where, value))


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "title": _text,
    "purpose": _text,
    "owner": _text,
    "data": _text,
    "target": _text,
    "limits": _texts,
    "directions": _directions,
    "groups": _groups,
    "output": _output,
    "threshold": _number,
    "adverse": _adverse,
    "texts": _said,
}
