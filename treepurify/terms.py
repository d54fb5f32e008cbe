"""Names of effects, joined from those of features, and numbers, as sentences have them."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from treepurify.arguments import brief
from treepurify.errors import UnknownComponentError

_JOINT = " & "
# Quoted names, or what stands between joints.
_PARTS = re.compile(r'"((?:[^"\\]|\\.)*)"(?: & |$)|(.*?)(?: & |$)')
_MOST_NAMED = 20
_LARGEST_WITHOUT_EXPONENT = 1e7


def term_name(features: Iterable[str]) -> str:
    r"""Return the name of an effect of some features, such as ``"age & hours"``.

    A feature whose own name would be read as two is quoted.

    Examples
    --------
    >>> term_name(["age", "hours"])
    'age & hours'
    >>> print(term_name(["bed & breakfast", "hours"]))
    "bed & breakfast" & hours
    """
    names = list(features)
    return names[0] if len(names) == 1 else _JOINT.join(map(_quoted, names))


def listed_names(names: Sequence[str]) -> str:
    """Return names in a row, such as ``"a, b and c"``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def in_digits(value: float, digits: int = 4, *, sign: bool = False) -> str:
    """Return a number rounded to some digits, with an exponent only if it is huge or tiny.

    Examples
    --------
    >>> in_digits(15746.2), in_digits(0.123456, 2), in_digits(12.0, sign=True), in_digits(3e9)
    ('15750', '0.12', '+12', '3e+09')
    """
    plus = "+" if sign else ""
    text = f"{value:{plus}.{digits}g}"
    is_large = "e+" in text and abs(value) < _LARGEST_WITHOUT_EXPONENT
    return f"{float(text):{plus}.0f}" if is_large else text


def in_groups(count: int) -> str:
    """Return a count in groups of three digits, such as ``"53 940"``; four digits stay one."""
    return f"{count:_}".replace("_", " ") if count >= 10_000 else str(count)


def same_digits(values: Sequence[float]) -> Callable[[float], str]:
    """Return a function that writes sizes with as many decimals as the largest of them needs.

    Examples
    --------
    >>> write = same_digits([2195.3, 0.41, 683.1])
    >>> write(2195.3), write(0.41)
    ('2195', '<1')
    """
    largest = max(np.nan_to_num(values), default=0.0)
    if not 1e-3 <= largest < _LARGEST_WITHOUT_EXPONENT:
        return lambda value: "unknown" if np.isnan(value) else in_digits(value, 3)
    decimals = max(2 - int(np.floor(np.log10(largest))), 0)

    def write(value: float) -> str:
        if np.isnan(value):
            return "unknown"
        is_less = 0 < value < 0.5 * 10.0**-decimals
        return f"<{10.0**-decimals:.{decimals}f}" if is_less else f"{value:.{decimals}f}"

    return write


def first_names(names: Sequence[str], most: int = 6) -> str:
    """Return the first names, such as ``"a, b and 3 more"``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def effect_title(features: Iterable[str]) -> str:
    """Return what the effect of some features is, with its name.

    Examples
    --------
    >>> effect_title(["age"])
    'Main effect of age'
    >>> effect_title(["age", "hours"])
    'Interaction age & hours'
    """
    names = list(features)
    return ("Main effect of " if len(names) == 1 else "Interaction ") + term_name(names)


def read_features(key: Any, feature_names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions, in ascending order, of features given by name or position.

    Parameters
    ----------
    key : str, int or tuple of these
        One feature or several different ones. A string that is not the name of a feature is read
        as the name of an effect, in any order: ``"hours & age"``.
    feature_names : sequence of str
        The features that there are.

    Raises
    ------
    UnknownComponentError
        If one is not there, or is named twice.

    Examples
    --------
    >>> read_features("hours & age", ["age", "sex", "hours"])
    (0, 2)
    """
    return tuple(sorted(named_features(key, feature_names)))


def named_features(key: Any, feature_names: Sequence[str]) -> tuple[int, ...]:
    """Return the same in the order in which they are named."""
    names = list(feature_names)
    if isinstance(key, str) and key not in names and _JOINT in key:
        key = _split(key)
    positions = [_position(part, names) for part in (key if isinstance(key, tuple) else (key,))]
    if not positions or len(set(positions)) < len(positions):
        raise UnknownComponentError(
            f"an effect must be named by one or more different features, got {brief(key)}"
        )
    return tuple(positions)


def _position(part: Any, names: list[str]) -> int:
    is_whole = isinstance(part, int | np.integer) and not isinstance(part, bool)
    if isinstance(part, str) and part in names:
        return names.index(part)
    if is_whole and 0 <= part < len(names):
        return int(part)
    if is_whole:
        raise UnknownComponentError(
            f"no feature at position {part}; there are {len(names)} features"
        )
    if not isinstance(part, str):
        raise UnknownComponentError(f"a feature must be a name or a position, got {brief(part)}")
    near = get_close_matches(part, names, n=1)
    meant = f"did you mean {near[0]!r}? Features" if near else "features"
    more = ", ..." if len(names) > _MOST_NAMED else ""
    raise UnknownComponentError(
        f"no feature {brief(part)}; {meant} are {', '.join(names[:_MOST_NAMED])}{more}"
    )


def _quoted(name: str) -> str:
    if _JOINT not in name and not name.startswith('"'):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _split(name: str) -> tuple[str, ...]:
    parts = []
    start = 0
    while start < len(name):
        found = _PARTS.match(name, start)
        if found is None or found.end() == start:
            break
        quoted, plain = found.groups()
        parts.append(plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        start = found.end()
    return tuple(parts)
