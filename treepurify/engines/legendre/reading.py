"""Read the function, its values and the rows of a continuous decomposition."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_numbers
from treepurify.columns import Columns
from treepurify.components import ModelInputs
from treepurify.engines.common.black_box import ParsedFunction, RowFunction, black_box, row_function
from treepurify.engines.common.inputs import row_weights
from treepurify.errors import InvalidInputError
from treepurify.links import Link
from treepurify.weights import Empirical

__all__ = ["Question", "read_question"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Question:
    """The function to be decomposed and the rows that it is decomposed over.

    Parameters
    ----------
    columns : Columns
        The rows.
    values : ndarray of float64, shape (n_rows, n_outputs)
        Values of the function.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row; sums to one.
    function : RowFunction or None
        The function; None where only its values were given.
    inputs : ModelInputs
        How the columns of a table are read.
    output_names : tuple of str
        One name an output.
    link : Link
        From the values to the response, for a parsed model.
    """

    columns: Columns
    values: Array
    weights: Array
    function: RowFunction | None
    inputs: ModelInputs
    output_names: tuple[str, ...]
    link: Link

    @property
    def effective_rows(self) -> float:
        """Number of rows of equal weight that would carry as much: the number of rows if even."""
        return 1.0 / float(self.weights @ self.weights)


def read_question(f: Any, X: Any, sample_weight: npt.ArrayLike | None) -> Question:
    """Return the values of a function on rows, and what later rows are read with.

    Raises
    ------
    InvalidInputError
        If the rows, the weights or the function's values cannot be used.
    """
    if hasattr(f, "predict") or callable(f) or isinstance(f, str | Path) or hasattr(f, "margin"):
        function, columns = row_function(f, X, None)
        weights = _shares(columns, sample_weight)
        values = function(columns)
        names, inputs = function.output_names, function.inputs
        link = function.model.link if isinstance(function, ParsedFunction) else Link()
        return Question(columns, values, weights, function, inputs, names, link)
    reader, columns = black_box(lambda table: np.zeros(len(table)), X)
    values = _given_values(f, columns.n_rows)
    names = ("f",) if values.shape[1] == 1 else tuple(f"output {k}" for k in range(values.shape[1]))
    weights = _shares(columns, sample_weight)
    return Question(columns, values, weights, None, reader.inputs, names, Link())


def _shares(columns: Columns, sample_weight: npt.ArrayLike | None) -> Array:
    weights = row_weights(columns, Empirical(), sample_weight)
    if weights is None:
        return np.full(columns.n_rows, 1.0 / columns.n_rows)
    return np.asarray(weights / weights.sum())


def _given_values(values: Any, n_rows: int) -> Array:
    array = read_numbers("f", values, "be a function, a model or numbers, one a row")
    numbers = array.reshape(len(array), -1) if array.ndim and array.size else np.zeros((0, 1))
    if array.ndim not in (1, 2) or len(numbers) != n_rows or numbers.shape[1] == 0:
        raise InvalidInputError(
            f"values must have shape ({n_rows},) or ({n_rows}, n_outputs), one value a row; got "
            f"shape {array.shape}"
        )
    if not np.all(np.isfinite(numbers)):
        raise InvalidInputError("the given values have NaN or infinite ones among them")
    return numbers
