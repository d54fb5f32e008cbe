"""A function and the rows to decompose it on, wherever they come from."""

from collections.abc import Sequence
from typing import Any

from treepurify.engines.common.functions import (
    RowFunction,
    is_function,
    is_parsed,
    read_function,
)
from treepurify.engines.common.inputs import read_function_stream
from treepurify.engines.common.table_or_sample import SAMPLED_ROWS, table_or_sample
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream, rows_in_memory
from treepurify.rows.row_weights import counted_rows
from treepurify.rows.sources import TableSource, check_repeats, open_rows

__all__ = ["check_values_have_table", "read_function_rows"]


def read_function_rows(
    model: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    sample_weight: Any,
    *,
    passes: str,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
    progress: bool,
    in_memory: bool = False,
) -> tuple[RowFunction, RowStream]:
    """Return a model or a function, checked, and the rows of positive weight.

    A function is called with tables: of rows in batches it gets a sample, which their note names.

    Parameters
    ----------
    model, X, feature_names, sample_weight
        What the caller of an engine passed.
    passes : str
        What reads the rows how often; see `check_repeats`.
    seed : int
        Seed of a sample.
    memory_budget : int
        Bytes that a sample may take.
    report : callable
        Progress.
    progress : bool
        Whether to report progress where the rows are read again later.
    in_memory : bool
        Whether a model gets a sample of rows in batches, too.

    Raises
    ------
    InvalidInputError
        If the rows, their weights or the function cannot be used, or rows in batches not be read
        again.
    UnsupportedModelError
        If a model cannot be parsed, and cannot be called either.
    ModelMismatchError
        If the parsed model does not reproduce the library's raw prediction.
    MemoryBudgetError
        If a sample would not fit.
    """
    source = open_rows(X)
    is_table = isinstance(source, TableSource)
    if not is_table and not in_memory and is_parsed(model, feature_names):
        check_repeats(source, passes)
        return read_function_stream(model, source, feature_names, sample_weight, progress=progress)
    table = table_or_sample(
        model, source, feature_names, sample_weight, SAMPLED_ROWS, seed, memory_budget, report
    )
    function, columns = read_function(model, table.table, feature_names)
    return function, rows_in_memory(*counted_rows(columns, table.weights), table.note)


def check_values_have_table(model: Any, X: Any) -> None:
    """Raise `InvalidInputError` for values in place of a function, where rows come in batches."""
    if not is_function(model) and not isinstance(open_rows(X), TableSource):
        raise InvalidInputError(
            "values cannot be matched to rows that come in batches: pass the function itself, or "
            "a table with the values on its rows"
        )
