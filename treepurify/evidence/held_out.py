"""Rows that a model was not trained on, with what was observed there and what effects add."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_result
from treepurify.budget import check_budget, check_memory_budget
from treepurify.components import ModelInputs
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.losses import Loss, read_loss
from treepurify.grids.grid import Subset
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport, no_report
from treepurify.rows.batches import Batch, Source
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.labelled_rows import sample_table
from treepurify.rows.reduction import RowStream
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.source_reader import RowBatch, RowReader, model_table
from treepurify.rows.sources import TableSource, check_repeats, open_rows
from treepurify.rows.table_reader import matched_names
from treepurify.rows.tables import check_any_rows, table_column, table_names
from treepurify.typing import Array
from treepurify.value_stream import value_stream

__all__ = [
    "HELD_OUT_ROWS",
    "HeldOutRows",
    "HeldOutSample",
    "ObservedRows",
    "PredictedRows",
    "check_held_out",
    "observed_stream",
    "read_held_out",
    "read_predicted",
    "sample_held_out",
]

HELD_OUT_ROWS = 100_000
"""Most rows that are drawn: their losses are compared row by row."""
_SEED = 0


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """Rows with observations, and the predictions there.

    Parameters
    ----------
    margin : ndarray of float64, shape (n_rows, n_outputs)
        The predictions, on the margin scale.
    loss, shares, columns, words
        As in `HeldOutRows`.
    """

    margin: Array
    loss: Loss
    shares: Array
    columns: Columns
    words: str


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows with observations, and what each part of a decomposition adds to them.

    Parameters
    ----------
    subsets : tuple of tuple of int
        The effects, and the remainder as () where there is one.
    contributions : ndarray of float64, shape (n_effects, n_rows, n_outputs)
        What each adds to the margin of each row.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Their sum with the intercept.
    loss : Loss
        The loss, which knows the observations.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    columns : Columns
        The rows as the decomposition reads them.
    source : Source, optional
        The rows in batches that they were read from; None for a table.
    words : str
        What sample of them they are, in a sentence; empty where they are all.
    """

    subsets: tuple[Subset, ...]
    contributions: Array
    margin: Array
    loss: Loss
    shares: Array
    columns: Columns
    source: Source | None = None
    words: str = ""


def check_held_out(model: Model, X: Any, y: Any, loss: Any, sample_weight: Any) -> None:
    """Raise where held-out rows do not suit a model, before it is decomposed.

    Of rows in batches only the names of columns are checked.

    Raises
    ------
    InvalidInputError
        If the rows, the observations, the loss or the weights cannot be used.
    """
    source = open_rows(X)
    if not isinstance(source, TableSource):
        _check_target_column(source, y)
        return
    columns = ModelInputs(model.features, model.has_feature_names).columns(X)
    n_rows = columns.n_rows
    check_any_rows(n_rows, "rows that the model was not trained on")
    read_loss(loss, y, model.link, model.output_names, n_rows)
    read_row_weights(sample_weight, n_rows)


def read_held_out(
    d: Decomposition,
    X: Any,
    y: Any,
    loss: Any,
    sample_weight: npt.ArrayLike | str | None,
    memory_budget: int,
    report: ProgressReport,
) -> HeldOutRows:
    """Return rows with their observations, and what each effect adds to them.

    For rows in batches, whose observations and weights are columns, it is a sample.

    Raises
    ------
    InvalidInputError
        If the rows, the observations or the loss cannot be used.
    MemoryBudgetError
        If the contributions would not fit.
    """
    read = _read_observed(d, X, y, loss, sample_weight, memory_budget, report)
    n_rows = read.columns.n_rows
    subsets = (*d.components, *([()] if d.remainder is not None else []))
    check_budget(
        8 * (len(subsets) + 4) * n_rows * d.n_outputs,
        memory_budget,
        f"the contributions of {len(subsets)} effects on {n_rows} rows",
        "Pass fewer rows.",
    )
    contributions = np.empty((len(subsets), n_rows, d.n_outputs))
    margin = np.tile(d.intercept, (n_rows, 1))
    for part, values in enumerate(d.evaluate_parts(read.columns)):
        contributions[part] = values
        margin += values
    return HeldOutRows(
        subsets,
        contributions,
        margin,
        read.loss,
        read.shares,
        read.columns,
        read.source,
        read.words,
    )


def read_predicted(
    d: Decomposition,
    X: Any,
    y: Any,
    loss: Any,
    sample_weight: npt.ArrayLike | str | None,
    memory_budget: int,
    report: ProgressReport,
) -> PredictedRows:
    """Return rows with their observations and the predictions there; see `read_held_out`.

    Raises
    ------
    InvalidInputError
        If the rows, the observations or the loss cannot be used.
    MemoryBudgetError
        If a sample of rows in batches would not fit.
    """
    check_memory_budget(memory_budget)
    read = _read_observed(d, X, y, loss, sample_weight, memory_budget, report)
    return PredictedRows(d.on_rows(read.columns), read.loss, read.shares, read.columns, read.words)


@dataclass(frozen=True, eq=False)
class _Observed:
    """Rows with observations; see `HeldOutRows`."""

    columns: Columns
    loss: Loss
    shares: Array
    source: Source | None
    words: str


def _read_observed(
    d: Decomposition,
    X: Any,
    y: Any,
    loss: Any,
    sample_weight: npt.ArrayLike | str | None,
    memory_budget: int,
    report: ProgressReport,
) -> _Observed:
    check_result("d", d, Decomposition)
    source, words = open_rows(X), ""
    in_batches = not isinstance(source, TableSource)
    if in_batches:
        inputs = d.inputs
        sample = sample_held_out(
            inputs.features, source, y, sample_weight, memory_budget, report,
            match_names=inputs.match_names,
        )  # fmt: skip
        X, y, sample_weight, words = sample.X, sample.y, sample.weights, sample.words
    columns = d.inputs.columns(X)
    n_rows = columns.n_rows
    check_any_rows(n_rows, "rows that the model was not trained on")
    read = read_loss(loss, y, d.link, d.output_names, n_rows)
    shares = row_shares(n_rows, read_row_weights(sample_weight, n_rows))
    return _Observed(columns, read, shares, source if in_batches else None, words)


@dataclass(frozen=True, eq=False)
class HeldOutSample:
    """Rows that were drawn from a source, all of them where there are not too many.

    Parameters
    ----------
    X : DataFrame
        The columns of the features.
    y : Series
        What was observed.
    weights : ndarray of float64, shape (n_sampled,), optional
        What each of them counts; None where all count the same.
    words : str
        How many rows of how many it has, in a sentence; empty where it has all.
    """

    X: Any
    y: Any
    weights: Any
    words: str


def _check_target_column(source: Source, target: Any) -> tuple[str, ...]:
    """Return the columns of held-out rows, of which one is what was observed.

    Raises
    ------
    InvalidInputError
        If there is no such column, or the rows can be read only once.
    """
    check_repeats(source, "two passes over the rows, one to draw a sample and one to read it")
    names = source.names or ()
    if not isinstance(target, str) or target not in names:
        raise InvalidInputError(
            "with rows in batches the target must be one of their columns: pass its name as y, "
            f"got {brief(target)}; the columns of {source.describe()} are {', '.join(names[:30])}"
        )
    return tuple(names)


def sample_held_out(
    features: Sequence[FeatureSpec],
    source: Source,
    target: Any,
    weight: Any,
    memory_budget: int,
    report: ProgressReport,
    *,
    match_names: bool,
) -> HeldOutSample:
    """Return a weighted sample of held-out rows.

    Parameters
    ----------
    features : sequence of FeatureSpec
        The features.
    source : Source
        The rows; they can be read again.
    target : str
        Name of the column of what was observed.
    weight : str, optional
        Name of the column of weights.
    memory_budget : int
        Bytes that the sample may take.
    report : callable
        Progress.
    match_names : bool
        Whether columns are found by name; otherwise all others are features.

    Raises
    ------
    InvalidInputError
        If columns are missing, or the rows can be read only once.
    MemoryBudgetError
        If the sample would not fit.
    """
    names = _check_target_column(source, target)
    others = tuple(name for name in names if name not in (target, weight))
    if match_names:
        wanted = {spec.name for spec in features}
        matched = zip(matched_names(others, features), others, strict=True)
        others = tuple(name for known, name in matched if known in wanted)
    drawn = sample_table(
        source, (*others, target), weight, HELD_OUT_ROWS, _SEED, memory_budget, report
    )
    words = ""
    if len(drawn.table) < drawn.n_rows:
        words = (
            f"The rows are a sample of {len(drawn.table)} of the {drawn.n_rows} rows of "
            f"{source.describe()}, drawn with seed {_SEED}."
        )
    return HeldOutSample(drawn.table[list(others)], drawn.table[target], drawn.weights, words)


@dataclass(frozen=True, eq=False)
class ObservedRows:
    """Some rows, and what was observed there.

    Parameters
    ----------
    rows : RowBatch
        The rows.
    observed : tuple of ndarray, each of shape (n_rows, ...)
        What was observed: one array per column that was named.
    report : callable
        Progress within the batch, where it is all that there is.
    """

    rows: RowBatch
    observed: tuple[npt.NDArray[Any], ...]
    report: ProgressReport = field(default=no_report, compare=False)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class _ObservedReader:
    """How rows are read with columns of what was observed."""

    reader: RowReader
    observed: tuple[str, ...]

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return tuple(dict.fromkeys([*(self.reader.wanted or ()), *self.observed]))

    def read(self, batch: Batch) -> ObservedRows:
        """Return the rows of a batch."""
        names = list(table_names(batch.table) or [])
        columns = (table_column(batch.table, names.index(name)) for name in self.observed)
        return ObservedRows(self.reader.read(batch), tuple(map(np.asarray, columns)))


@dataclass(frozen=True, eq=False)
class _ObservedTableReader:
    """How a table is read for which what was observed was given."""

    reader: RowReader
    observed: tuple[npt.NDArray[Any], ...]
    wanted = None

    def read(self, batch: Batch) -> ObservedRows:
        """Return the rows of the table."""
        return ObservedRows(self.reader.read(batch), self.observed)


def observed_stream(d: Decomposition, X: Any, observed: Sequence[Any], weight: Any) -> RowStream:
    """Return all rows as `ObservedRows`.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like, table, rows in batches or Source
        The rows.
    observed : sequence of str or array_like
        Names of columns; of a table also the columns themselves.
    weight : array_like or str, optional
        The weights of a table; the name of their column of rows in batches.

    Raises
    ------
    InvalidInputError
        If there is no such column, or it has another number of rows.
    """
    source = open_rows(X)
    # They give what was observed too, where other readers give the columns of a model.
    reader: Any
    if isinstance(source, TableSource):
        names = table_names(X) or []
        named = [one for one in observed if isinstance(one, str)]
        apart = [one for one in named if one not in {spec.name for spec in d.inputs.features}]
        table = model_table(X, d.inputs.features, *apart) if apart and names else X
        rows = value_stream(d, X if table is None else table, weight)
        n_rows = rows.expected_rows
        given = tuple(_given_column(one, X, names, n_rows) for one in observed)
        reader = _ObservedTableReader(rows.reader, given)
        return RowStream(rows.source, reader)
    columns = tuple(_named_column(one, source) for one in observed)
    reader = _ObservedReader(value_stream(d, source, weight, columns).reader, columns)
    return RowStream(source, reader)


def _given_column(column: Any, X: Any, names: Sequence[str], n_rows: int) -> npt.NDArray[Any]:
    if isinstance(column, str):
        if column not in names:
            raise InvalidInputError(
                f"X has no column {column!r}; its columns are {', '.join(names[:30]) or 'unnamed'}"
            )
        column = table_column(X, list(names).index(column))
    try:
        values = np.asarray(column)
    except ValueError:
        # Lists of several lengths.
        values = np.empty(0)
    if values.ndim not in (1, 2) or len(values) != n_rows:
        raise InvalidInputError(
            f"expected one value per row of X ({n_rows}), or the name of a column; got "
            f"{brief(column)}"
        )
    return values


def _named_column(column: Any, source: Source) -> str:
    names = source.names or ()
    if not isinstance(column, str) or column not in names:
        raise InvalidInputError(
            "with rows in batches, pass the name of one of their columns; got "
            f"{brief(column)}; the columns of {source.describe()} are {', '.join(names[:30])}"
        )
    return column
