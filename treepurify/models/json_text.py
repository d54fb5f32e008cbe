"""Read the JSON of a model file, which may be damaged or forged."""

import json
from collections import Counter
from typing import Any

from treepurify.errors import InvalidInputError

# What looking things up in a document raises where they are missing or of another type.
DAMAGE = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)


def read_json(text: str) -> Any:
    """Decode JSON whose objects hold each key once.

    Parameters
    ----------
    text : str
        The document.

    Returns
    -------
    object
        As from ``json.loads``.

    Raises
    ------
    InvalidInputError
        If the document is cut short, nested too deeply, holds a number of too many digits, or
        repeats a key: readers differ in which of the values they take.

    Examples
    --------
    >>> read_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except InvalidInputError:
        raise
    except RecursionError:
        raise InvalidInputError("the JSON is damaged: its lists are nested too deeply") from None
    except ValueError as error:
        # Numbers of thousands of digits are ValueErrors too.
        raise InvalidInputError(f"the JSON is cut short or damaged: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = counts.most_common(1)[0][0]
        raise InvalidInputError(
            f"the JSON is damaged: one of its objects contains the key {repeated!r} more than once"
        )
    return result
