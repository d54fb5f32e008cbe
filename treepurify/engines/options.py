"""Check the numbers and rows that an engine is asked with, before anything is computed."""

from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError

__all__ = ["check_interactions", "check_not_sparse", "check_whole", "read_weights"]


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise `InvalidInputError` unless an option is a whole number of at least `least`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise InvalidInputError(f"{name} must be at least {least}, a whole number, got {value!r}")


def check_not_sparse(X: Any) -> None:
    """Raise `InvalidInputError` for a sparse matrix, whose length and rows cannot be asked for."""
    if hasattr(X, "toarray"):
        raise InvalidInputError("sparse matrices are not read; pass X.toarray() or a table")


def check_interactions(interactions: Any) -> None:
    """Raise `InvalidInputError` for a number of interactions, which only `purify` can choose."""
    if isinstance(interactions, int | np.integer):
        raise InvalidInputError(
            f"interactions={interactions!r}: a number of the strongest pairs is for purify; name "
            'the interactions here, such as [("age", "hours")]'
        )


def read_weights(weights: npt.ArrayLike | None) -> npt.NDArray[np.float64] | None:
    """Return weights as numbers; whether they fit the rows is for `row_weights` to say.

    Raises
    ------
    InvalidInputError
        If they are no numbers.
    """
    if weights is None:
        return None
    try:
        return np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"sample_weight must have one number a row, finite and not negative ({error})"
        ) from error
