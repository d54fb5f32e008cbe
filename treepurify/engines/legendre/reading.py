"""Read the function, its values and the rows of a continuous decomposition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from treepurify.components import ModelInputs
from treepurify.engines.common.called_function import read_values, value_names
from treepurify.engines.common.functions import RowFunction, is_function, read_function
from treepurify.engines.common.table_form import read_table
from treepurify.errors import InvalidInputError
from treepurify.links import Link
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import effective_rows, read_row_weights, row_shares
from treepurify.typing import Array

__all__ = ["Question", "check_is_function", "read_question"]


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
        One name per output.
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
        return effective_rows(len(self.weights), self.weights)


def read_question(
    model: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    sample_weight: npt.ArrayLike | None,
) -> Question:
    """Return the values of a function on rows, and what later rows are read with.

    Raises
    ------
    InvalidInputError
        If the rows, the weights or the function's values cannot be used.
    """
    if is_function(model):
        function, columns = read_function(model, X, feature_names)
        weights = _shares(columns.n_rows, sample_weight)
        values, names = function(columns), function.output_names
        return Question(columns, values, weights, function, function.inputs, names, function.link)
    _, columns, form = read_table(X, feature_names)
    values = read_values(model, columns.n_rows)
    names = value_names(values.shape[1])
    weights = _shares(columns.n_rows, sample_weight)
    inputs = ModelInputs(columns.features, form.is_frame)
    return Question(columns, values, weights, None, inputs, names, Link())


def check_is_function(model: Any) -> None:
    """Raise `InvalidInputError` for values in place of a function, where rows come in batches."""
    if not is_function(model):
        raise InvalidInputError(
            "values on the rows cannot be told apart where rows come in batches: pass the function "
            "or the model, or a table with the values on its rows"
        )


def _shares(n_rows: int, sample_weight: npt.ArrayLike | None) -> Array:
    return row_shares(n_rows, read_row_weights(sample_weight, n_rows))
