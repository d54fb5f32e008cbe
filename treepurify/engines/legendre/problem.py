"""The function that is decomposed, and its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.components import ModelInputs
from treepurify.engines.common.functions import (
    RowFunction,
    check_values_have_table,
    is_function,
    read_function,
    read_values,
    rows_for_model,
    value_names,
)
from treepurify.engines.common.known_values import KnownValues
from treepurify.engines.common.table_form import read_table
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.progress import ProgressReport
from treepurify.remainder import Function
from treepurify.rows.columns import Columns
from treepurify.rows.given_rows import GivenRows
from treepurify.rows.row_weights import (
    counted_rows,
    effective_rows,
    read_row_weights,
    row_shares,
)
from treepurify.typing import Array


@dataclass(frozen=True, eq=False)
class LegendreProblem:
    """The function to be decomposed, and its rows.

    Parameters
    ----------
    columns : Columns
        The rows of positive weight.
    values : ndarray of float64, shape (n_rows, n_outputs)
        Values of the function.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row, positive; sums to one.
    function : RowFunction or None
        The function; None where only its values were given.
    inputs : ModelInputs
        How the columns of a table are read.
    output_names : tuple of str
        One name per output.
    link : Link
        From the values to the response, for a parsed model.
    sample : GivenRows, optional
        The rows as they were read, of which the result says what a reader must know.
    given : tuple of (Columns, ndarray), optional
        The table and the values in place of a function, rows of no weight included.
    """

    columns: Columns
    values: Array
    weights: Array
    function: RowFunction | None
    inputs: ModelInputs
    output_names: tuple[str, ...]
    link: Link
    sample: GivenRows | None = None
    given: tuple[Columns, Array] | None = None

    @property
    def effective_rows(self) -> float:
        """Number of rows of equal weight that would carry as much: the number of rows if even."""
        return effective_rows(len(self.weights), self.weights)

    @property
    def used_features(self) -> Subset:
        """Positions of the features that the function may depend on."""
        every = tuple(range(len(self.inputs.features)))
        return every if self.function is None else self.function.used_features

    @property
    def subject(self) -> Function:
        """The function, or what is known of it by its values."""
        if self.function is not None:
            return self.function
        columns, values = self.given or (self.columns, self.values)
        return KnownValues(self.inputs, columns.matrix(), values)


def read_problem(
    model: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    sample_weight: Any,
    *,
    memory_budget: int,
    report: ProgressReport,
) -> LegendreProblem:
    """Return a function, or its values, and the rows.

    Parameters
    ----------
    model, X, feature_names, sample_weight, memory_budget
        See `legendre_anova`.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If the rows, the weights or the function's values cannot be used.
    UnsupportedModelError
        If a model cannot be parsed, and cannot be called either.
    ModelMismatchError
        If the parsed model does not reproduce the prediction of its library.
    MemoryBudgetError
        If a sample would not fit.
    """
    check_values_have_table(model, X)
    if not is_function(model):
        return _of_values(model, X, feature_names, sample_weight)
    sample = rows_for_model(model, X, feature_names, sample_weight, memory_budget, report)
    f, columns = read_function(model, sample.table, feature_names)
    columns, weights = counted_rows(columns, sample.weights)
    report("evaluating the function", 0, 0)
    shares = row_shares(columns.n_rows, weights)
    values = f(columns)
    return LegendreProblem(columns, values, shares, f, f.inputs, f.output_names, f.link, sample)


def _of_values(
    given: Any, X: Any, feature_names: Sequence[str] | None, sample_weight: Any
) -> LegendreProblem:
    """Return the problem of values on the rows of a table."""
    _, every, form = read_table(X, feature_names)
    values = read_values(given, every.n_rows)
    weights = read_row_weights(sample_weight, every.n_rows)
    columns, counted = every, values
    if weights is not None and not np.all(weights > 0):
        kept = np.flatnonzero(weights)
        columns, counted, weights = every.take(kept), values[kept], weights[kept]
    return LegendreProblem(
        columns,
        counted,
        row_shares(columns.n_rows, weights),
        None,
        ModelInputs(every.features, form.is_frame),
        value_names(values.shape[1]),
        Link(),
        given=(every, values),
    )
