"""Read single fields of an XGBoost document, and say what is wrong where they are damaged."""

import re
import reprlib
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError

__all__ = ["FeatureCategories", "array", "entry", "integer", "read_categories", "singles", "texts"]


@dataclass(frozen=True)
class FeatureCategories:
    """The categories that a model keeps of one feature.

    Parameters
    ----------
    n_codes : int
        Number of categories; 0 where none are kept.
    labels : tuple of hashable or None
        Label of each code.
    note : str
        What a user should know, or "".
    stored : tuple of str
        See ``stored_labels`` of `FeatureSpec`.
    """

    n_codes: int
    labels: tuple[Hashable, ...] | None
    note: str = ""
    stored: tuple[str, ...] = ()


def entry(holder: Any, key: str, kind: type) -> Any:
    """Return ``holder[key]``, which must be of the given type."""
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        held = "nothing" if value is None else type(value).__name__
        raise InvalidInputError(
            f"not a complete XGBoost model: {key!r} should contain a {kind.__name__}, found {held}"
        )
    return value


_LARGEST_COUNT = 2**32 - 1
_COUNT = re.compile("[0-9]{1,10}")


def integer(holder: dict[str, Any], key: str, default: int | None = None) -> int:
    """Return ``holder[key]`` as a count that XGBoost can hold, which it stores as text."""
    value = holder.get(key, default)
    text = str(value) if isinstance(value, int) else value
    if not isinstance(text, str) or not _COUNT.fullmatch(text) or int(text) > _LARGEST_COUNT:
        raise InvalidInputError(
            f"not a complete XGBoost model: {key!r} must be a whole number, got "
            f"{reprlib.repr(value)}"
        )
    return int(text)


def texts(learner: dict[str, Any], key: str) -> list[str]:
    """Return ``learner[key]`` as a list of texts; empty where there is none."""
    values = learner.get(key)
    if values is None or (isinstance(values, np.ndarray) and values.size == 0):
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidInputError(f"not a complete XGBoost model: {key!r} is not a list of texts")
    return values


def array(holder: Any, key: str, kinds: str) -> npt.NDArray[Any]:
    """Return ``holder[key]`` as a flat array of one of the NumPy kinds; empty where none."""
    try:
        values = np.asarray(holder.get(key, ()))
    except (AttributeError, ValueError):
        values = np.empty((0, 0))
    if values.ndim != 1 or (values.size and values.dtype.kind not in kinds):
        raise InvalidInputError(f"not a complete XGBoost model: {key!r} is not a list of numbers")
    return values


def singles(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return numbers in single precision; a damaged one may become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def read_categories(model: dict[str, Any], n_features: int) -> list[FeatureCategories]:
    """Read the category labels that XGBoost keeps from 3.1 on."""
    encodings = entry(model["cats"], "enc", list) if "cats" in model else []
    if not encodings:
        return [FeatureCategories(0, None)] * n_features
    if len(encodings) != n_features:
        raise InvalidInputError("'cats' does not list every feature; the model is damaged")
    return [_category(encoding, j) for j, encoding in enumerate(encodings)]


def _category(encoding: dict[str, Any], position: int) -> FeatureCategories:
    values = array(encoding, "values", "iu")
    if "offsets" not in encoding:
        return FeatureCategories(len(values), tuple(values.tolist()))
    offsets = array(encoding, "offsets", "iu").tolist()
    content = bytes(values.astype(np.int64).astype(np.uint8))
    if not offsets:
        return FeatureCategories(0, None)
    if sorted(offsets) != offsets or offsets[0] != 0 or offsets[-1] != len(content):
        raise InvalidInputError(
            "'cats' contains labels of impossible lengths; the model is damaged"
        )
    n_codes = len(offsets) - 1
    if not content.isascii():
        # XGBoost counts characters of a pandas label where it stores bytes, and cuts labels up.
        note = (
            f"some categories of feature {position} are not plain ASCII, and XGBoost does not "
            "store such labels reliably: their labels are those of the first table, which must "
            "have the categories of the training data in their order"
        )
        stored = tuple(content[a:b].decode("latin-1") for a, b in pairwise(offsets))
        return FeatureCategories(n_codes, None, note, stored)
    text = content.decode("ascii")
    labels = tuple(text[a:b] for a, b in pairwise(offsets))
    return FeatureCategories(n_codes, labels)
