"""One way to read a function: a parsed model, or anything that is called with rows, checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.arguments import brief, read_numbers
from treepurify.components import ModelInputs
from treepurify.decomposition import Decomposition
from treepurify.engines.common.table_form import TableForm, read_table
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.models.parse import Model, read_model
from treepurify.models.predicted_labels import check_predicts_no_labels
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.given_rows import GivenRows, given_rows
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.table_reader import check_distribution
from treepurify.rows.tables import check_any_rows, check_table, row_count, take_rows
from treepurify.saving import MissingFunction, savable
from treepurify.typing import Array

# What numbers of double precision are rounded by, relative to their size.
_UNIT_ROUNDOFF = 2.0**-53
_ROWS_PER_CALL = 1 << 16
_ROWS_CHECKED = 64
_SAME = 1e-6
_RETURNED = (
    "return one number, or one row of outputs, per row; for a classifier pass the score to "
    "explain, such as lambda X: model.predict_proba(X)[:, 1]"
)


@savable(
    "called function",
    supplied="function",
    left_out=("unit_roundoff",),
    check=methodcaller("check"),
)
@dataclass(frozen=True, eq=False)
class CalledFunction:
    """A function of rows, and how its rows are put together from columns.

    Parameters
    ----------
    function : callable
        X -> (n_rows,) or (n_rows, n_outputs).
    features : tuple of FeatureSpec
        How the columns of the table that it was read with are read.
    form : TableForm
        The form of that table, in which the function gets all its rows.
    n_outputs : int
        Number of outputs.
    sample : Columns
        Some rows, on which a loaded function is compared with the one that was saved.
    sample_values : ndarray of float64, shape (n_sample_rows, n_outputs)
        Its values on them.
    unit_roundoff : float
        What its values are rounded by, relative to their size.
    """

    function: Callable[[Any], Any]
    features: tuple[FeatureSpec, ...]
    form: TableForm
    n_outputs: int
    sample: Columns
    sample_values: Array
    unit_roundoff: float = _UNIT_ROUNDOFF

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""
        return ModelInputs(self.features, match_names=self.form.is_frame)

    def columns(self, X: Any) -> Columns:
        """Read a table."""
        return self.inputs.columns(X)

    @property
    def used_features(self) -> Subset:
        """Positions of all features."""
        return tuple(range(len(self.features)))

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name per output."""
        return value_names(self.n_outputs, "prediction")

    @property
    def link(self) -> Link:
        """The identity: the values are what is decomposed."""
        return Link()

    @property
    def rows_called(self) -> int:
        """Number of rows that the function was called with when it was read."""
        return 2 * self.sample.n_rows

    def __call__(self, columns: Columns) -> Array:
        """Return the values on all rows, shape (n_rows, n_outputs), called in batches.

        Raises
        ------
        InvalidInputError
            If the function returns something else than one finite number per row and output.
        """
        if columns.n_rows == 0:
            return np.empty((0, self.n_outputs))
        batches = []
        for start in range(0, columns.n_rows, _ROWS_PER_CALL):
            stop = min(start + _ROWS_PER_CALL, columns.n_rows)
            values = self._call(columns.take(np.arange(start, stop)))
            if values.shape[1] != self.n_outputs:
                raise InvalidInputError(
                    f"the function returned {values.shape[1]} outputs now, but {self.n_outputs} "
                    "before"
                )
            batches.append(values)
        return np.concatenate(batches) if len(batches) > 1 else batches[0]

    def check(self) -> None:
        """Raise unless the function returns the values that it returned when it was read.

        Raises
        ------
        InvalidInputError
            If it is another function.
        """
        if isinstance(self.function, MissingFunction):
            return
        if not _alike(self._call(self.sample), self.sample_values):
            raise InvalidInputError(
                "the function returns other values than the function that was decomposed: pass "
                "that function, or decompose this one"
            )

    def _call(self, columns: Columns) -> Array:
        returned = _called_on(self.function, self.form.rebuild(columns))
        return read_values(returned, columns.n_rows)


def read_called(
    f: Any, X: Any, feature_names: Sequence[str] | None = None
) -> tuple[CalledFunction, Columns]:
    """Return a function that is called with rows in the form of a table, and the table's rows.

    Raises
    ------
    InvalidInputError
        If `f` cannot be called, returns something else than one finite number per row and
        output, or gives different values for the same rows.
    """
    function = called_function(f)
    table, columns, form = read_table(X, feature_names)
    return check_function(function, table, columns, form), columns


def check_function(
    function: Callable[[Any], Any], table: Any, columns: Columns, form: TableForm
) -> CalledFunction:
    """Return a function as one of columns, called with the first rows twice.

    Parameters
    ----------
    function : callable
        X -> (n_rows,) or (n_rows, n_outputs).
    table : DataFrame or ndarray
        The rows.
    columns : Columns
        The same rows, as they are read.
    form : TableForm
        The form of the table.

    Raises
    ------
    InvalidInputError
        If the values are no finite numbers, or differ between the two calls.
    """
    first = np.arange(min(columns.n_rows, _ROWS_CHECKED))
    sample = columns.take(first)
    has_labels = any(spec.is_categorical for spec in columns.features)
    # Labels are put together again from codes: that nothing is lost is checked with it.
    rows = take_rows(table, first) if has_labels else form.rebuild(sample)
    returned = _called_on(function, rows)
    values = read_values(returned, sample.n_rows)
    dtype = getattr(returned, "dtype", None)
    called = CalledFunction(
        function,
        columns.features,
        form,
        values.shape[1],
        sample,
        values,
        float(np.finfo(dtype).eps) / 2 if dtype in (np.float32, np.float16) else _UNIT_ROUNDOFF,
    )
    # Backwards: a function that looks at the other rows of a batch is caught too.
    if not _alike(called(sample.take(first[::-1]))[::-1], values):
        raise InvalidInputError(
            "the function gives different values for the same rows when it is called again with "
            "the rows in another order: fix its seed, and switch off dropout and any averaging "
            "over the rows of a batch"
        )
    return called


def _called_on(function: Callable[[Any], Any], rows: Any) -> Any:
    """Return what a function returns for rows; what it raises says which rows it got."""
    try:
        return function(rows)
    except Exception as error:
        error.add_note(f"The function raised this when called with {brief(rows)}.")
        raise


def called_function(f: Any) -> Callable[[Any], Any]:
    """Return the function of rows that stands for `f`: its ``predict``, or `f` itself.

    Raises
    ------
    InvalidInputError
        If `f` is neither, or gives labels; see `check_predicts_no_labels`.
    """
    function: Any = getattr(f, "predict", f)
    if not callable(function) or isinstance(f, type):
        raise InvalidInputError(
            "expected a trained model, a callable that takes rows, or an object with predict; "
            f"got {brief(f)}"
        )
    check_predicts_no_labels(f)
    called: Callable[[Any], Any] = function
    return called


def read_values(returned: Any, n_rows: int) -> Array:
    """Return what a function returned, or values in its place, as (n_rows, n_outputs) numbers.

    Raises
    ------
    InvalidInputError
        If they are not one finite number per row and output.
    """
    values = read_numbers("the function", returned, _RETURNED)
    if values.ndim not in (1, 2) or len(values) != n_rows or 0 in values.shape[1:]:
        raise InvalidInputError(
            f"expected one value per row, or one row of outputs: shape ({n_rows},) or ({n_rows}, "
            f"n_outputs); got shape {values.shape}"
        )
    values = values.reshape(n_rows, -1)
    wrong = int(np.sum(~np.isfinite(values).all(axis=1)))
    if wrong:
        raise InvalidInputError(
            f"{wrong} of {n_rows} rows have values that are not finite (NaN or infinite); the "
            "function must be finite on every row, including rows with missing values and rows "
            "that combine features of different rows"
        )
    return values


def value_names(n_outputs: int, alone: str = "f") -> tuple[str, ...]:
    """Return names for values that have none: `alone` for one output, else their numbers."""
    return (alone,) if n_outputs == 1 else tuple(f"output {k}" for k in range(n_outputs))


def _alike(values: Array, others: Array) -> bool:
    if values.shape != others.shape:
        return False
    scale = max(float(np.max(np.abs(others), initial=0.0)), 1e-300)
    return float(np.max(np.abs(values - others), initial=0.0)) <= _SAME * scale


@dataclass(frozen=True, eq=False, repr=False)
class _OfModel:
    """What the functions of a parsed model have in common."""

    model: Model

    def __repr__(self) -> str:
        """Return what it is a function of, not the arrays of the model."""
        return (
            f"{type(self).__name__}({self.model.source.kind} model, {len(self.features)} features "
            f"-> {self.n_outputs} outputs)"
        )

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The columns."""
        return self.model.features

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""
        return ModelInputs(self.model.features, self.model.has_feature_names)

    def columns(self, X: Any) -> Columns:
        """Read a table, and compare the model with its library on it."""
        return self.model.columns(X)

    @property
    def used_features(self) -> Subset:
        """Positions of the features that the model uses."""
        return self.model.used_features

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.model.n_outputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name per output."""
        return self.model.output_names

    @property
    def unit_roundoff(self) -> float:
        """That of double precision."""
        return _UNIT_ROUNDOFF


@savable("margin of a model")
@dataclass(frozen=True, eq=False, repr=False)
class ParsedFunction(_OfModel):
    """The margin of a parsed model, in double precision.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    """

    @property
    def link(self) -> Link:
        """From the margin to the response."""
        return self.model.link

    def __call__(self, X: Any) -> Array:
        """Return the margin on all rows of a table or of columns, shape (n_rows, n_outputs)."""
        return self.model.margin(X, precision="float64")


@savable("response of a model", left_out=("trained",))
@dataclass(frozen=True, eq=False, repr=False)
class ResponseFunction(_OfModel):
    """The response of a parsed model, in double precision: what `response_function` makes.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    trained : object, optional
        What it was parsed from, with which it is compared when it is used.
    """

    trained: Any = None

    @property
    def model_behind_response(self) -> Any:
        """The model that its library can be asked about, where there is one."""
        return self.model if self.trained is None else self.trained

    @property
    def link(self) -> Link:
        """The identity: the response is what is decomposed."""
        return Link()

    def __call__(self, X: Any) -> Array:
        """Return the response on all rows of a table or of columns, shape (n_rows, n_outputs)."""
        return self.model.link.inverse(self.model.margin(X, precision="float64"))


RowFunction = ParsedFunction | ResponseFunction | CalledFunction
"""What is called with rows that were read already, and gives one value per output."""


def part_along(function: RowFunction, features: Subset) -> RowFunction:
    """Return a function with the same mixed differences along some features.

    Of a margin, the trees that test all of them, or the tables that hold them; else the function.
    """
    if isinstance(function, ParsedFunction):
        return ParsedFunction(function.model.part_along(features))
    return function


def response_function(model: Any) -> ResponseFunction:
    """Return the predictions of a model on the response scale, as a function for all engines."""
    parsed = read_model(model)
    # A link that is not known is refused here, not when the first engine asks.
    parsed.link.inverse(np.zeros(parsed.n_outputs))
    return ResponseFunction(parsed, model)


def is_function(f: Any) -> bool:
    """Whether an argument is a model, its file or a function, rather than values on rows."""
    return callable(f) or isinstance(f, str | Path) or hasattr(f, "predict") or hasattr(f, "margin")


def read_function(
    model: Any, X: Any, feature_names: Sequence[str] | None
) -> tuple[RowFunction, Columns]:
    """Return the margin of a model that can be parsed, else the model as a function, and rows.

    Every engine, and all else that takes any function, reads it here.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows, an object with ``predict``, or a function
        X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like or table of shape (n_rows, n_features)
        The rows; a function gets later rows in the same form.
    feature_names : sequence of str, optional
        Names of the features.

    Returns
    -------
    ParsedFunction, ResponseFunction or CalledFunction
    Columns
        The rows of `X`.

    Raises
    ------
    InvalidInputError
        If the rows or the function cannot be used, see `read_called`.
    UnsupportedModelError
        If a model cannot be parsed, and cannot be called either.
    ModelMismatchError
        If the parsed model does not reproduce the library's raw prediction.
    """
    parsed = parsed_or_none(model, feature_names, X)
    function: ParsedFunction | ResponseFunction
    if parsed is not None:
        function = ParsedFunction(parsed)
    elif isinstance(model, ResponseFunction):
        function = ResponseFunction(read_model(model.model, X, feature_names))
    else:
        return read_called(model, X, feature_names)
    columns = function.columns(X)
    check_distribution(columns)
    return function, columns


def parsed_or_none(model: Any, feature_names: Sequence[str] | None, X: Any) -> Model | None:
    """Return the parsed model; None for a function or a model that no parser knows.

    Raises
    ------
    InvalidInputError
        If there are no rows.
    UnsupportedModelError
        If a model cannot be parsed, and cannot be called either.
    """
    if X is not None:
        check_table(X)
    check_any_rows(0 if X is None else row_count(X))
    return model_or_none(model, feature_names, X)


def model_or_none(model: Any, feature_names: Sequence[str] | None, X: Any = None) -> Model | None:
    """Return the parsed model; None for a function or a model that no parser knows.

    A pipeline that mixes raw columns is called, so that effects are those of raw columns.

    Raises
    ------
    UnsupportedModelError
        If a model cannot be parsed, and cannot be called either.
    """
    if isinstance(model, ResponseFunction):
        if model.model.link != Link():
            return None
        model = model.model_behind_response
    try:
        return read_model(model, X, feature_names, columns="raw")
    except UnsupportedModelError:
        if callable(model) or hasattr(model, "predict"):
            return None
        raise


def _features_read(
    model: Any, X: Any, feature_names: Sequence[str] | None
) -> tuple[FeatureSpec, ...] | None:
    """Return the features whose columns are read of rows in batches; None for all columns."""
    if isinstance(model, Decomposition):
        return model.inputs.features
    if isinstance(open_rows(X), TableSource):
        return None
    behind = model.model_behind_response if isinstance(model, ResponseFunction) else model
    parsed = model_or_none(behind, feature_names)
    return None if parsed is None else parsed.features


def rows_for_model(
    model: Any,
    X: Any,
    feature_names: Sequence[str] | None,
    sample_weight: Any,
    memory_budget: int,
    report: ProgressReport,
    *,
    observed: Sequence[Any] = (),
    most: int | None = None,
    seed: int = 0,
) -> GivenRows:
    """Return the rows of a model or function with the columns that it reads; see `given_rows`."""
    features = _features_read(model, X, feature_names)
    return given_rows(
        X, features, sample_weight, observed, memory_budget, report, most=most, seed=seed
    )


def check_values_have_table(model: Any, X: Any) -> None:
    """Raise `InvalidInputError` for values in place of a function, where rows come in batches."""
    if not is_function(model) and not isinstance(open_rows(X), TableSource):
        raise InvalidInputError(
            "values cannot be matched to rows that come in batches: pass the function itself, or "
            "a table with the values on its rows"
        )


def splice(points: Columns, background: Columns, from_points: Subset) -> Columns:
    """Pair every point with every background row, points first.

    The columns in `from_points` come from the points, all others from the background.
    """
    values = tuple(
        np.repeat(point, background.n_rows) if j in from_points else np.tile(rest, points.n_rows)
        for j, (point, rest) in enumerate(zip(points.values, background.values, strict=True))
    )
    return Columns(points.features, values, points.n_rows * background.n_rows)
