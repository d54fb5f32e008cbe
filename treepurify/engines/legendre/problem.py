"""The function that is decomposed, its rows, and the sample on which terms are chosen."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treepurify.components import ModelInputs
from treepurify.engines.common.called_function import read_values, value_names
from treepurify.engines.common.function_rows import check_values_have_table, read_function_rows
from treepurify.engines.common.functions import RowFunction, is_function
from treepurify.engines.common.known_values import KnownValues
from treepurify.engines.common.table_form import read_table
from treepurify.engines.legendre.design import ScaledRows, scaled_rows
from treepurify.engines.legendre.scaling import Axis
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.progress import ProgressReport
from treepurify.remainder import Function
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import RowsNote, RowStream, rows_in_memory
from treepurify.rows.row_weights import (
    RowWeights,
    effective_rows,
    read_row_weights,
    row_shares,
)
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.stream_sample import sample_stream
from treepurify.typing import Array

__all__ = ["EvaluatedRows", "LegendreProblem", "RowParts", "read_problem"]

_PASSES = (
    "several passes over the rows, to draw a sample, to sum products, to refine coefficients and "
    "to measure the effects"
)
_READ = {
    "sample": (
        "the scaling of features, the selection of functions, conditional means, and the shares "
        "of single effects in the remainder"
    ),
    "all_rows": "coefficients, orthogonality, variances, covariances, the explained share",
}
# Rows of a batch whose coordinates and values are held at a time.
_ROWS_AT_A_TIME = 1 << 16

RowParts = Iterable[tuple[ScaledRows, Array]]
"""Scaled rows, and the function on them, of shape (n_rows, n_outputs)."""


@dataclass(frozen=True, eq=False)
class LegendreProblem:
    """The function to be decomposed, its rows, and the sample on which terms are chosen.

    Parameters
    ----------
    rows : RowStream
        All rows of positive weight. Those of a table, and few rows of a stream, are one batch,
        and the sample has all of them.
    columns : Columns
        The rows of the sample.
    values : ndarray of float64, shape (n_sampled, n_outputs)
        Values of the function on the sample.
    weights : ndarray of float64, shape (n_sampled,)
        Weight of each row of the sample, positive; sums to one.
    function : RowFunction or None
        The function; None where only its values were given.
    inputs : ModelInputs
        How the columns of a table are read.
    output_names : tuple of str
        One name per output.
    link : Link
        From the values to the response, for a parsed model.
    given : tuple of (Columns, ndarray), optional
        The table and the values in place of a function, rows of no weight included.
    """

    rows: RowStream
    columns: Columns
    values: Array
    weights: Array
    function: RowFunction | None
    inputs: ModelInputs
    output_names: tuple[str, ...]
    link: Link
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
    most: int,
    in_memory: bool,
    memory_budget: int,
    report: ProgressReport,
    progress: bool,
) -> LegendreProblem:
    """Return a function, or its values, and the rows.

    Parameters
    ----------
    model, X, feature_names, sample_weight, memory_budget, progress
        See `legendre_anova`.
    most : int
        Most rows of the sample.
    in_memory : bool
        Whether all that is done needs the rows in memory: then those in batches are a sample.
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
    f, rows = read_function_rows(
        model,
        X,
        feature_names,
        sample_weight,
        passes=_PASSES,
        seed=0,
        memory_budget=memory_budget,
        report=report,
        progress=progress,
        in_memory=in_memory,
    )
    if rows.is_table:
        ((columns, weights),) = (batch.of_weight() for batch in rows.batches())
        return _of_sample(f, rows, columns, weights, report)
    drawn = sample_stream(rows, most, 0, memory_budget, report)
    n_sampled = drawn.columns.n_rows
    stream = {"source": rows.source.describe(), "rows": drawn.n_rows, "sampled_rows": n_sampled}
    if n_sampled == drawn.n_rows:
        # A sample of all rows is no sample: it is the table.
        facts = {**stream, "passes": 1, "seed": 0, "sample": "everything"}
        rows = rows_in_memory(drawn.columns, drawn.weights, RowsNote({"stream": facts}))
    else:
        rows = replace(rows, note=RowsNote({"stream": {**stream, **_READ}}))
    return _of_sample(f, rows, drawn.columns, drawn.weights, report)


def _of_sample(
    f: RowFunction, rows: RowStream, columns: Columns, weights: RowWeights, report: ProgressReport
) -> LegendreProblem:
    """Return the problem of a function with its values on a sample."""
    report("evaluating the function", 0, 0)
    shares = row_shares(columns.n_rows, weights)
    return LegendreProblem(rows, columns, f(columns), shares, f, f.inputs, f.output_names, f.link)


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
        rows_in_memory(columns, weights),
        columns,
        counted,
        row_shares(columns.n_rows, weights),
        None,
        ModelInputs(every.features, form.is_frame),
        value_names(values.shape[1]),
        Link(),
        (every, values),
    )


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """How the rows of a batch are scaled and the function evaluated: of a table both are done.

    Parameters
    ----------
    axes : mapping of int to Axis
        How features are scaled.
    function : RowFunction or None
        The function; it is not called where `table` is given.
    table : tuple of (ScaledRows, ndarray), optional
        The rows of a table, and the function on them.
    """

    axes: Mapping[int, Axis]
    function: RowFunction | None
    table: tuple[ScaledRows, Array] | None = None

    def parts(self, batch: RowBatch) -> Iterator[tuple[ScaledRows, Array]]:
        """Yield scaled rows with the function on them: all of a table, some of a stream."""
        if self.table is not None or self.function is None:
            if self.table is not None:
                yield self.table
            return
        columns, weights = batch.of_weight()
        for start in range(0, columns.n_rows, _ROWS_AT_A_TIME):
            part = columns.part(start, start + _ROWS_AT_A_TIME)
            shares = weights[start : start + part.n_rows]
            yield scaled_rows(self.axes, part, shares), self.function(part)
