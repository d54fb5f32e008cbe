"""Read the function and the rows of a categorical decomposition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_table, check_whole, read_numbers
from treepurify.columns import Columns, read_columns
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.engines.categorical.levels import TableForm, read_levels
from treepurify.engines.categorical.residual import Function
from treepurify.engines.common.black_box import ParsedFunction
from treepurify.engines.common.called import called_function
from treepurify.engines.common.inputs import named_model
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.grids.grid import Grid, make_grid
from treepurify.links import Link
from treepurify.models.catboost import label_categories
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, parse_model
from treepurify.saving import savable

__all__ = ["Question", "read_question"]

Array = npt.NDArray[np.float64]

_RETURNED = (
    "return numbers, one or one row of outputs for each row; for a classifier pass its "
    "predict_proba, as categorical_anova(model.predict_proba, X)"
)


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
    function : callable, optional
        The function; None where only its values were given.
    output_names : tuple of str
        One name an output.
    link : Link
        From the values to the response, for a parsed model.
    source : str
        What was asked for the values, in words.
    """

    grid: Grid
    codes: npt.NDArray[Any]
    values: Array
    function: Function | None
    output_names: tuple[str, ...]
    link: Link
    source: str


@savable("function of levels", supplied="ask")
@dataclass(frozen=True, eq=False)
class AskedFunction:
    """A function of rows, or of columns that were read from such rows.

    Parameters
    ----------
    ask : callable
        The function, of tables in their own form.
    form : TableForm
        That form.
    """

    ask: Callable[[Any], Any]
    form: TableForm

    def __call__(self, table: Any) -> Array:
        """Return the values on all rows, shape (n_rows, n_outputs)."""
        rows = self.form.rebuild(table) if isinstance(table, Columns) else table
        return _numeric(self.ask(rows), len(rows))


def read_question(f: Any, X: Any, bins: int, feature_names: Sequence[str] | None) -> Question:
    """Return the function's values over levels.

    A tree ensemble is decomposed on its margin scale and on its own grid. Other models and
    functions are asked for their values on the rows as they are.
    """
    check_whole("bins", bins, 2)
    check_table(X)
    parsed = _parsed(f)
    if parsed is not None:
        parsed = label_categories(named_model(parsed, feature_names, X), X)
    if isinstance(parsed, TreeEnsemble):
        return _of_ensemble(parsed, X)
    grid, codes, form = read_levels(X, bins, feature_names)
    if parsed is not None:
        values = parsed.margin(X)
        return Question(
            grid,
            codes,
            values,
            AskedFunction(ParsedFunction(parsed), form),
            parsed.output_names,
            parsed.link,
            f"margin of the {parsed.source.library} model",
        )
    if hasattr(f, "predict") or callable(f):
        ask = called_function(f)
        values = _numeric(ask(X), codes.shape[1])
        return Question(
            grid,
            codes,
            values,
            AskedFunction(ask, form),
            _names(values.shape[1]),
            Link(),
            "predict" if hasattr(f, "predict") else "function",
        )
    values = _numeric(f, codes.shape[1])
    return Question(grid, codes, values, None, _names(values.shape[1]), Link(), "given values")


def _parsed(f: Any) -> Model | None:
    is_model = hasattr(f, "predict") or hasattr(f, "margin") or isinstance(f, str | Path)
    if not is_model:
        is_model = type(f).__module__.split(".")[0] in ("xgboost", "lightgbm", "catboost")
    if not is_model or isinstance(f, type):
        return None
    try:
        return parse_model(f)
    except UnsupportedModelError:
        if hasattr(f, "predict"):
            return None
        raise


def _of_ensemble(ensemble: TreeEnsemble, X: Any) -> Question:
    columns = read_columns(X, ensemble.features, match_names=ensemble.has_feature_names)
    if columns.n_rows == 0:
        raise InvalidInputError("X has no rows; pass the rows to decompose over")
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
    )


def _numeric(values: Any, n_rows: int) -> Array:
    array = read_numbers("the function", values, _RETURNED)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != n_rows:
        raise InvalidInputError(
            f"the function must give shape ({n_rows},) or ({n_rows}, n_outputs), one value a row; "
            f"got shape {np.shape(values)}"
        )
    if not np.all(np.isfinite(array)):
        raise InvalidInputError("the function gives NaN or infinite values on rows of X")
    return array


def _names(n_outputs: int) -> tuple[str, ...]:
    return ("f",) if n_outputs == 1 else tuple(f"output {k}" for k in range(n_outputs))
