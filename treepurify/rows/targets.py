"""Observed or predicted numbers that come with rows."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_numbers
from treepurify.errors import InvalidInputError
from treepurify.rows.missing_values import is_missing
from treepurify.typing import Array


def read_target(
    name: str, values: Any, n_rows: int, output_names: Sequence[str] | None = None
) -> Array:
    """Return one finite number per row.

    Parameters
    ----------
    name : str
        The name of the argument.
    values : array_like of shape (n_rows,)
        The numbers.
    n_rows : int
        How many there must be.
    output_names : sequence of str, optional
        Names of the outputs of the model: labels of two classes, one of them the name of its only
        output, are numbers then, 1 for that one.

    Raises
    ------
    InvalidInputError
        If they are something else.
    """
    what = "have one number per row; for classes, pass 0 and 1"
    if output_names is not None:
        what += ", or two labels, one of them the name of the output"
        with suppress(TypeError, ValueError):  # rows of different lengths
            values = one_of_two(np.asarray(values), output_names)
    numbers = read_numbers(name, values, what)
    if numbers.shape != (n_rows,):
        raise InvalidInputError(
            f"{name} must have one finite number per row ({n_rows}), got shape {numbers.shape}"
        )
    if not np.all(np.isfinite(numbers)):
        raise InvalidInputError(
            f"{name} must have one finite number per row ({n_rows}); some are missing or infinite"
        )
    return numbers


def one_of_two(observed: npt.NDArray[Any], output_names: Sequence[str]) -> npt.NDArray[Any]:
    """Return labels of two classes as zeros and ones, one for the class that is predicted.

    Parameters
    ----------
    observed : ndarray
        What was observed; returned as it is unless it holds at most two labels, of which one is the
        name of the only output, and none is missing.
    output_names : sequence of str
        One name per output.
    """
    if len(output_names) != 1 or observed.ndim != 1 or observed.dtype.kind in "biuf":
        return observed
    # As text, what is missing would be a label.
    if observed.dtype == np.object_ and is_missing(observed).any():
        return observed
    texts = observed.astype(str)
    labels, (predicted,) = set(texts.tolist()), output_names
    if predicted not in labels or len(labels - {predicted}) > 1:
        return observed
    return np.asarray(texts == predicted)
