"""Read the function and the rows of a categorical decomposition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.components import ModelInputs
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.engines.categorical.levels import columns_of_levels, read_levels
from treepurify.engines.common.called_function import (
    called_function,
    check_function,
    read_values,
    value_names,
)
from treepurify.engines.common.functions import (
    ParsedFunction,
    RowFunction,
    is_function,
    model_or_none,
    parsed_or_none,
)
from treepurify.engines.common.model_check import check_against_library
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, make_grid
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.distinct_rows import distinct_rows
from treepurify.rows.sources import open_rows
from treepurify.rows.table_reader import check_distribution, matched_names
from treepurify.rows.table_source import TableSource
from treepurify.typing import Array

__all__ = ["Question", "read_question", "table_or_distinct"]


@dataclass(frozen=True, eq=False)
class Question:
    """The function to be decomposed and the rows that it is decomposed over.

    Parameters
    ----------
    grid : Grid
        The levels of each feature.
    codes : ndarray of int, shape (n_features, n_rows)
        Level of each row.
    values : ndarray of float64, shape (n_rows, n_outputs)
        Values of the function.
    function : RowFunction, optional
        The function; None where only its values were given.
    output_names : tuple of str
        One name per output.
    link : Link
        From the values to the response, for a parsed model.
    source : str
        Where the values came from, in words.
    columns : Columns
        The rows.
    """

    grid: Grid
    codes: npt.NDArray[Any]
    values: Array
    function: RowFunction | None
    output_names: tuple[str, ...]
    link: Link
    source: str
    columns: Columns

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""
        return ModelInputs(self.grid.features, self.grid.match_names)


def table_or_distinct(
    model: Any,
    X: Any,
    sample_weight: Any,
    feature_names: Sequence[str] | None,
    memory_budget: int,
    report: ProgressReport,
) -> tuple[Any, Any, dict[str, Any]]:
    """Return rows and weights, and what diagnostics say of them.

    Rows in batches become their distinct rows, with the number of rows that are equal to each: the
    closed form depends on these alone.

    Raises
    ------
    InvalidInputError
        If there are values of a function in place of a function, or rows cannot be read.
    MemoryBudgetError
        If there are too many distinct rows.
    """
    source = open_rows(X)
    if isinstance(source, TableSource):
        return source.table, sample_weight, {}
    if not is_function(model):
        raise InvalidInputError(
            "values on the rows cannot be told apart where rows come in batches: pass the function "
            "itself, or a table of all rows"
        )
    parsed = model_or_none(model, feature_names)
    columns = None
    if parsed is not None and parsed.has_feature_names and source.names is not None:
        known = dict(zip(matched_names(source.names, parsed.features), source.names, strict=True))
        columns = tuple(known.get(spec.name, spec.name) for spec in parsed.features)
    rows = distinct_rows(source, columns, sample_weight, memory_budget, report)
    facts = {
        "rows": rows.n_rows,
        "effective_rows": rows.effective,
        "stream": {
            "source": source.describe(),
            "passes": 1,
            "sampled_rows": 0,
            "distinct_rows": len(rows.weights),
        },
    }
    return rows.table, rows.weights, facts


def read_question(
    model: Any,
    X: Any,
    bins: int,
    feature_names: Sequence[str] | None,
    sample_weight: npt.ArrayLike | None = None,
) -> Question:
    """Return the function's values over levels.

    A tree ensemble is decomposed on its margin scale and on its own grid. Other models and
    functions are asked for their values on the rows as they are.
    """
    check_whole("bins", bins, 2)
    parsed = parsed_or_none(model, feature_names, X) if is_function(model) else None
    if isinstance(parsed, TreeEnsemble):
        return _of_ensemble(model, parsed, X)
    table, grid, codes, form = read_levels(X, bins, feature_names, sample_weight)
    columns = columns_of_levels(table, grid, codes)
    if not is_function(model):
        values = read_values(model, codes.shape[1])
        names = value_names(values.shape[1])
        return Question(grid, codes, values, None, names, Link(), "given values", columns)
    if parsed is None:
        asked, link = called_function(model), Link()
        source = "predict" if hasattr(model, "predict") else "function"
    else:
        check_against_library(model, parsed, X)
        asked, link = ParsedFunction(parsed), parsed.link
        source = f"margin of the {parsed.source.library} model"
    function = check_function(asked, table, columns, form)
    values = function(columns)
    names = value_names(values.shape[1]) if parsed is None else parsed.output_names
    return Question(grid, codes, values, function, names, link, source, columns)


def _of_ensemble(model: Any, ensemble: TreeEnsemble, X: Any) -> Question:
    columns = ensemble.columns(X)
    check_distribution(columns, "the rows to decompose over")
    check_against_library(model, ensemble, X)
    grid, rows = make_grid(
        columns,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
    )
    codes = rows.codes if rows is not None else np.zeros((0, 0), np.uint8)
    margin = ParsedFunction(ensemble)
    return Question(
        grid,
        codes,
        margin(columns),
        margin,
        ensemble.output_names,
        ensemble.link,
        f"margin of the {ensemble.source.library} model",
        columns,
    )
