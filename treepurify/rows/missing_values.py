"""Which values are missing, and of which kind: None, NaN, or those of pandas."""

from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.typing import Mask


def is_missing(column: npt.NDArray[np.object_]) -> Mask:
    """Return where an object column holds None, NaN or pandas' NA."""
    # The missing markers are the only values that differ from themselves or refuse to say.
    return np.array([is_missing_value(value) for value in column], dtype=bool)


def is_missing_value(value: Any) -> bool:
    """Return whether a value is None, NaN or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, str):
        return False
    try:
        return bool(value != value)  # noqa: PLR0124 - this is how NaN is told from the rest
    except (TypeError, ValueError):
        return type(value).__name__ in ("NAType", "NaTType")


def missing_kind(value: Any) -> str:
    """Return ``"None"``, ``"NA"``, ``"NaT"`` or ``"NaN"`` for a value that is missing."""
    if value is None:
        return "None"
    return {"NAType": "NA", "NaTType": "NaT"}.get(type(value).__name__, "NaN")
