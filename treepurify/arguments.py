"""Read what a caller passes: one check for each kind of argument, used by every public call.

Each check says what was expected, what was passed and, where it is not obvious, what to do.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.typing import Array

_MOST_WHOLE = np.iinfo(np.int64).max
_LONGEST_WORDS = 80
# What arrays contain that are no real numbers, by the letter that NumPy has for it.
_KINDS = {"U": "text", "S": "bytes", "c": "complex numbers", "M": "dates", "m": "durations"}


def brief(value: Any) -> str:
    """Return a value in at most 80 characters, for a message."""
    try:
        words = repr(value)
    except Exception:  # noqa: BLE001 - a foreign value must not hide what is wrong with it
        words = ""
    if not words or "\n" in words or len(words) > _LONGEST_WORDS:
        shape = getattr(value, "shape", None)
        has_shape = isinstance(shape, tuple)
        return f"{type(value).__name__} of shape {shape}" if has_shape else _begin(value, words)
    return words


def _begin(value: Any, words: str) -> str:
    """Return the type of a value, and the beginning of its text where that is one line."""
    first = words.partition("\n")[0][: _LONGEST_WORDS // 2]
    return f"{type(value).__name__} {first}...".replace(" ...", "")


def check_whole(name: str, value: Any, least: int, most: int = _MOST_WHOLE) -> None:
    """Raise `InvalidInputError` unless an option is a whole number from `least` to `most`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_whole and least <= value <= most:
        return
    limit = f"of at least {least}" if most == _MOST_WHOLE else f"from {least} to {most}"
    raise InvalidInputError(f"{name} must be a whole number {limit}, got {brief(value)}")


def check_number(
    name: str,
    value: Any,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    open_ends: bool = False,
    advice: str = "",
) -> None:
    """Raise `InvalidInputError` unless an option is a finite number between two ends.

    Parameters
    ----------
    name : str
        Name of the option.
    value : object
        Its value.
    least, most : float
        The ends, which belong to the range unless `open_ends`.
    open_ends : bool
        Whether the ends are left out.
    advice : str
        What else the option takes, such as ``' or "auto"'``.
    """
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if is_number and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number beyond double precision
            number = float(value)
            inside = least < number < most if open_ends else least <= number <= most
            if np.isfinite(number) and inside:
                return
    raise InvalidInputError(
        f"{name} must be a finite number{_range(least, most, open_ends)}{advice}, "
        f"got {brief(value)}"
    )


def _range(least: float, most: float, open_ends: bool) -> str:
    if np.isfinite(least) and np.isfinite(most):
        return f" between {least:g} and {most:g}" if open_ends else f" from {least:g} to {most:g}"
    if np.isfinite(least):
        return f" {'above' if open_ends else 'of at least'} {least:g}"
    return ""


def check_flag(name: str, value: Any, *, advice: str = "") -> None:
    """Raise `InvalidInputError` unless an option is True or False, or what `advice` says."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must be True or False{advice}, got {brief(value)}")


def check_choice(name: str, value: Any, known: Iterable[str], *, advice: str = "") -> None:
    """Raise `InvalidInputError` unless an option is one of the known words.

    Parameters
    ----------
    name : str
        Name of the option.
    value : object
        Its value.
    known : iterable of str
        The words.
    advice : str
        What else the option takes, such as ``" or a TreeProjection"``.
    """
    words = list(known)
    if not isinstance(value, str) or value not in words:
        quoted = [f'"{word}"' for word in words]
        listed = " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
        raise InvalidInputError(
            f"{name} must be {listed}{advice}, got {brief(value)}{did_you_mean(value, words)}"
        )


def did_you_mean(value: Any, known: Iterable[str]) -> str:
    """Return the question that ends a message on a word that is nearly a known one; else empty.

    Examples
    --------
    >>> did_you_mean("Empirial", ["empirical", "uniform"]), did_you_mean(3, ["uniform"])
    ('; did you mean "empirical"?', '')
    """
    words = {word.lower(): word for word in known}
    near = get_close_matches(value.strip().lower(), words, n=1) if isinstance(value, str) else []
    return f'; did you mean "{words[near[0]]}"?' if near else ""


def read_names(name: str, value: Any, count: int | None = None) -> list[str]:
    """Return different names as a list.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : sequence of str
        Its value. A string is refused: it would be read as a list of its letters.
    count : int, optional
        How many there must be.

    Raises
    ------
    InvalidInputError
        If they are not a sequence of text, are too few or too many, or one occurs twice.
    """
    wanted = f"{'' if count is None else f'{count} '}different names"
    is_listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | set)
    if not is_listed or isinstance(value, type) or getattr(value, "ndim", 1) != 1:
        raise InvalidInputError(f"{name} must be a list of {wanted}; got {brief(value)}")
    names = list(value)
    wrong = [entry for entry in names if not isinstance(entry, str | int | np.integer)]
    if wrong:
        raise InvalidInputError(
            f"{name} must be {wanted}, all of them text; one of them is {brief(wrong[0])}"
        )
    texts = [str(entry) for entry in names]
    if (count is not None and len(texts) != count) or len(set(texts)) != len(texts):
        raise InvalidInputError(f"{name} must be {wanted}, got {len(texts)}: {brief(texts)}")
    return texts


def check_result(
    name: str, value: Any, kind: type | tuple[type, ...], maker: str = "treepurify.purify"
) -> None:
    """Raise `InvalidInputError` unless an argument is a result of treepurify.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        Its value.
    kind : type or tuple of type
        What it must be.
    maker : str
        What makes such a result, such as ``"treepurify.purify"``.
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InvalidInputError(
            f"{name} must be a {' or a '.join(one.__name__ for one in kinds)}, which {maker} "
            f"returns; got {brief(value)}"
        )


def read_numbers(what: str, values: Any, expected: str = "be numbers") -> Array:
    """Return values as an array of double precision.

    Parameters
    ----------
    what : str
        What they are, for the message.
    values : array_like
        Real numbers, of any shape.
    expected : str
        What it must be or do, for the message.

    Raises
    ------
    InvalidInputError
        If they are ragged, complex, text, dates or anything else but real numbers, or are
        beyond the range of double precision.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            # One by one: NumPy silently drops the imaginary parts in an array of objects.
            _check_real(array)
        elif array.dtype.kind not in "biuf":
            raise TypeError(f"{_KINDS.get(array.dtype.kind, str(array.dtype))}, not real numbers")
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{what} must {expected}; got {brief(values)} ({error})") from error


def _check_real(array: npt.NDArray[Any]) -> None:
    for entry in array.ravel():
        if entry is None or isinstance(entry, str | bytes | complex | np.complexfloating):
            raise TypeError(f"{brief(entry)} is not a real number")


def read_path(name: str, value: Any) -> Path:
    """Return the path of a file.

    Raises
    ------
    InvalidInputError
        If it is neither text nor a path, is empty, or has a character or a length that no
        file name can have.
    """
    if not isinstance(value, str | os.PathLike) or isinstance(value, type):
        raise InvalidInputError(f"{name} must be the path of a file, got {brief(value)}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text:
        raise InvalidInputError(f"{name} must be the path of a file, got {brief(text)}")
    path = Path(text)
    try:
        path.stat()
    except FileNotFoundError:
        return path
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInputError(
            f"{name} cannot be used as the path of a file: {reason}; got {brief(text)}"
        ) from error
    return path


def read_output(output: Any, output_names: Sequence[str]) -> int:
    """Return the position of an output that is given by position or by name.

    Raises
    ------
    InvalidInputError
        If there is no such output.
    """
    names = list(output_names)
    if isinstance(output, str):
        if output not in names:
            raise InvalidInputError(
                f"no output {brief(output)}; outputs are {', '.join(names)}"
                f"{did_you_mean(output, names)}"
            )
        return names.index(output)
    is_whole = isinstance(output, int | np.integer) and not isinstance(output, bool)
    if not is_whole or not 0 <= output < len(names):
        raise InvalidInputError(
            f"no output {brief(output)}; outputs have the positions 0 to {len(names) - 1} and the "
            f"names {', '.join(names[:20])}"
        )
    return int(output)
