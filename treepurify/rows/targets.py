"""Observed or predicted numbers that come with rows."""

from typing import Any

import numpy as np

from treepurify.arguments import read_numbers
from treepurify.errors import InvalidInputError
from treepurify.typing import Array

__all__ = ["read_target"]


def read_target(name: str, values: Any, n_rows: int) -> Array:
    """Return one finite number per row.

    Raises
    ------
    InvalidInputError
        If they are something else.
    """
    numbers = read_numbers(name, values, "have one number per row; labels of classes as 0 and 1")
    if numbers.shape != (n_rows,):
        raise InvalidInputError(
            f"{name} must have one finite number per row ({n_rows}), got shape {numbers.shape}"
        )
    if not np.all(np.isfinite(numbers)):
        raise InvalidInputError(
            f"{name} must have one finite number per row ({n_rows}); some are missing or infinite"
        )
    return numbers
