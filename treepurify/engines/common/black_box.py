"""Call any model or function in batches, and check what it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_labels, check_table, read_matrix, read_names, read_numbers
from treepurify.columns import (
    Columns,
    check_known_categories,
    is_missing,
    read_columns,
    table_names,
)
from treepurify.components import Component, ModelInputs, evaluate_each
from treepurify.engines.common.called import called_function
from treepurify.engines.common.inputs import named_model
from treepurify.engines.common.model_check import check_against_library
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.features import FeatureSpec
from treepurify.grids.grid import Subset
from treepurify.models.catboost import label_categories
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, parse_model
from treepurify.saving import MissingFunction, savable

__all__ = [
    "BlackBox",
    "FunctionRemainder",
    "ParsedFunction",
    "RowFunction",
    "black_box",
    "parsed_or_none",
    "row_function",
    "splice",
]

Array = npt.NDArray[np.float64]

_ROWS_A_CALL = 1 << 16
_ROWS_CHECKED = 64
_SAME = 1e-6
_RETURNED = (
    "return numbers, one or one row of outputs for each row; for a classifier pass the score to "
    "explain, such as lambda X: model.predict_proba(X)[:, 1]"
)


class RowFunction(Protocol):
    """Whatever gives one value an output for rows that were read already."""

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The columns."""

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name an output."""

    def __call__(self, columns: Columns, /) -> Array:
        """Return the values on all rows, shape (n_rows, n_outputs)."""


@savable("margin of a model")
@dataclass(frozen=True, eq=False)
class ParsedFunction:
    """The margin of a parsed model, in double precision.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    """

    model: Model

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The columns."""
        return self.model.features

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""
        return ModelInputs(self.model.features, self.model.has_feature_names)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.model.n_outputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name an output."""
        return self.model.output_names

    def __call__(self, X: Any) -> Array:
        """Return the margin on all rows of a table or of columns, shape (n_rows, n_outputs)."""
        if isinstance(self.model, TreeEnsemble):
            return self.model.margin(X, precision="float64")
        return self.model.margin(X)


@savable("function", supplied="function", check=methodcaller("check"))
@dataclass(frozen=True, eq=False)
class BlackBox:
    """A function of rows, and how its rows are put together from columns.

    Parameters
    ----------
    function : callable
        X -> (n_rows,) or (n_rows, n_outputs).
    features : tuple of FeatureSpec
        The columns of the table that it was introduced with.
    dtypes : tuple, optional
        The pandas dtype of each column; None for a NumPy array.
    n_outputs : int
        Number of outputs.
    sample : Columns, optional
        Some rows, by which the function is known again after it was away.
    sample_values : ndarray of float64, shape (n_sample_rows, n_outputs), optional
        Its values on them.
    """

    function: Callable[[Any], Any]
    features: tuple[FeatureSpec, ...]
    dtypes: tuple[Any, ...] | None
    n_outputs: int = 1
    sample: Columns | None = None
    sample_values: Array | None = None

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""
        return ModelInputs(self.features, match_names=self.dtypes is not None)

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name an output."""
        if self.n_outputs == 1:
            return ("prediction",)
        return tuple(f"output {k}" for k in range(self.n_outputs))

    def __call__(self, columns: Columns) -> Array:
        """Return the values on all rows, shape (n_rows, n_outputs), called in batches.

        Raises
        ------
        InvalidInputError
            If the function returns something else than one finite number a row and output.
        """
        total = np.empty((columns.n_rows, self.n_outputs))
        for start in range(0, columns.n_rows, _ROWS_A_CALL):
            stop = min(start + _ROWS_A_CALL, columns.n_rows)
            values = _call(self, columns.take(np.arange(start, stop)))
            if values.shape[1] != self.n_outputs:
                raise InvalidInputError(
                    f"the function returned {values.shape[1]} outputs, and {self.n_outputs} before"
                )
            total[start:stop] = values
        return total

    def check(self) -> None:
        """Raise unless the function gives the values that it gave when it was introduced.

        Raises
        ------
        InvalidInputError
            If it is another function.
        """
        if self.sample is None or isinstance(self.function, MissingFunction):
            return
        values = _call(self, self.sample)
        if not _alike(values, self.sample_values):
            raise InvalidInputError(
                "the function gives other values than the one that was decomposed: pass the same "
                "function, or decompose this one"
            )

    def table(self, columns: Columns) -> Any:
        """Return the rows in the form that the function was introduced with."""
        if self.dtypes is None:
            return columns.matrix()
        import pandas as pd

        return pd.DataFrame(
            {
                spec.name: _pandas_column(values, spec, dtype)
                for spec, values, dtype in zip(
                    self.features, columns.values, self.dtypes, strict=True
                )
            }
        )


def black_box(
    f: Any, X: Any, feature_names: Sequence[str] | None = None
) -> tuple[BlackBox, Columns]:
    """Introduce a function to the table it is called with.

    Parameters
    ----------
    f : callable or object with ``predict``
        X -> (n_rows,) or (n_rows, n_outputs).
    X : ndarray or DataFrame of shape (n_rows, n_features)
        Rows; later rows are read the same way, and handed to `f` in the same form.
    feature_names : sequence of str, optional
        Names of the columns of an array.

    Returns
    -------
    BlackBox
    Columns
        The rows of `X`.

    Raises
    ------
    InvalidInputError
        If `f` cannot be called, returns something else than finite numbers, one row for each
        row, or gives different values for the same rows.
    """
    function = called_function(f)
    specs, dtypes = _describe(X, feature_names)
    columns = read_columns(X, specs, match_names=dtypes is not None)
    if columns.n_rows == 0:
        raise InvalidInputError("X has no rows; pass the rows that stand for the distribution")
    box = BlackBox(function, specs, dtypes)
    sample = columns.take(np.arange(min(columns.n_rows, _ROWS_CHECKED)))
    values = _call(box, sample)
    # Backwards: a function that looks at the other rows of a batch gives itself away too.
    again = _call(box, sample.take(np.arange(sample.n_rows)[::-1]))[::-1]
    if not _alike(values, again):
        raise InvalidInputError(
            "the function gives different values for the same rows when it is called again with "
            "the rows in another order: fix its seed, switch off dropout and averaging over the "
            "rows of a batch"
        )
    box = replace(box, n_outputs=values.shape[1], sample=sample, sample_values=values)
    return box, columns


def row_function(
    model: Any, X: Any, feature_names: Sequence[str] | None
) -> tuple[RowFunction, Columns]:
    """Return the margin of a model that can be parsed, else the model as a function.

    Raises
    ------
    InvalidInputError
        If there are no rows, or the function cannot be used (see `black_box`).
    """
    parsed = parsed_or_none(model, feature_names, X)
    if parsed is None:
        return black_box(model, X, feature_names)
    function = ParsedFunction(parsed)
    columns = function.inputs.columns(X)
    check_known_categories(columns)
    check_against_library(model, parsed, X)
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
    if X is None or (hasattr(X, "__len__") and len(X) == 0):
        raise InvalidInputError("X has no rows; pass the rows that stand for the distribution")
    try:
        parsed = parse_model(model)
    except UnsupportedModelError:
        if callable(model) or hasattr(model, "predict"):
            return None
        raise
    return label_categories(named_model(parsed, feature_names, X), X)


def splice(points: Columns, background: Columns, given: Subset) -> Columns:
    """Pair every point with every background row, points first.

    The columns in `given` come from the points, all others from the background.
    """
    values = tuple(
        np.repeat(point, background.n_rows) if j in given else np.tile(rest, points.n_rows)
        for j, (point, rest) in enumerate(zip(points.values, background.values, strict=True))
    )
    return Columns(points.features, values, points.n_rows * background.n_rows)


@savable("function minus components", left_out=("find",))
@dataclass(frozen=True, eq=False, repr=False)
class FunctionRemainder:
    """The function minus the intercept and the components, so that nothing is hidden.

    Parameters
    ----------
    box : RowFunction
        The function.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    components : tuple of Component
        Its components.
    variance : ndarray of float64, shape (n_outputs,)
        Variance over the rows of the decomposition.
    find : callable, optional
        Returns the component of a subset that is part of the remainder, or None.
    """

    box: RowFunction
    intercept: Array
    components: tuple[Component, ...]
    variance: Array
    find: Callable[[Subset], Component | None] | None = None

    def __repr__(self) -> str:
        """Return what it is the remainder of."""
        return f"FunctionRemainder(the function minus {len(self.components)} components)"

    @property
    def features(self) -> Subset:
        """Positions of the features that the function is given."""
        return tuple(range(len(self.box.features)))

    def evaluate(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs)."""
        columns = self.box.inputs.columns(X)
        explained = np.zeros((columns.n_rows, len(self.intercept)))
        for values in evaluate_each(self.components, columns):
            explained += values
        return self.beyond(columns, explained)

    def beyond(self, columns: Columns, explained: Array) -> Array:
        """Return the same where the sum of the components on the rows is known."""
        return self.box(columns) - self.intercept - explained

    def component(self, subset: Subset) -> Component | None:
        """Return the component of a subset that is part of the remainder, where it is known."""
        return None if self.find is None else self.find(subset)


def _alike(values: Array, others: Array | None) -> bool:
    if others is None or values.shape != others.shape:
        return False
    scale = max(float(np.max(np.abs(others), initial=0.0)), 1e-300)
    return float(np.max(np.abs(values - others), initial=0.0)) <= _SAME * scale


def _call(box: BlackBox, columns: Columns) -> Array:
    returned = box.function(box.table(columns))
    values = read_numbers("the function", returned, _RETURNED)
    if values.ndim not in (1, 2) or len(values) != columns.n_rows:
        raise InvalidInputError(
            f"the function must return one value, or one row of outputs, for each of the "
            f"{columns.n_rows} rows; got shape {values.shape}"
        )
    values = values.reshape(columns.n_rows, -1)
    wrong = int(np.sum(~np.isfinite(values).all(axis=1)))
    if wrong:
        raise InvalidInputError(
            f"the function returned NaN or infinite values for {wrong} of {columns.n_rows} rows; "
            "it must be finite also where features are combined from different rows"
        )
    return values


def _describe(
    X: Any, feature_names: Sequence[str] | None
) -> tuple[tuple[FeatureSpec, ...], tuple[Any, ...] | None]:
    """Return how the columns are read, and the pandas dtypes where `X` is a DataFrame."""
    check_table(X)
    if not hasattr(X, "iloc"):
        if table_names(X) is not None:
            raise InvalidInputError(
                f"functions are called with NumPy arrays or pandas DataFrames, not "
                f"{type(X).__name__}; pass X.to_pandas(), and a function that takes it"
            )
        array = read_matrix(X)
        names = [f"x{j}" for j in range(array.shape[1])]
        if feature_names is not None:
            names = read_names("feature_names", feature_names, array.shape[1])
        return tuple(FeatureSpec(name) for name in names), None
    names = [str(name) for name in X.columns]
    if list(X.columns) != names or len(set(names)) != len(names):
        raise InvalidInputError("the columns of X must have different names that are text")
    if feature_names is not None:
        raise InvalidInputError("X has column names: rename its columns instead of feature_names")
    return tuple(_spec(X[name]) for name in names), tuple(X.dtypes)


def _spec(column: Any) -> FeatureSpec:
    name = str(column.name)
    if hasattr(column.dtype, "categories"):
        labels: Sequence[Any] = list(column.dtype.categories)
    elif getattr(column.dtype, "kind", "O") in "biuf":
        return FeatureSpec(name)
    else:
        check_labels(column)
        objects = column.to_numpy(dtype=object)
        labels = sorted(set(objects[~is_missing(objects)]), key=str)
    return FeatureSpec(
        name, "categorical", categories=tuple(labels), n_codes=len(labels), numbers_are="labels"
    )


def _pandas_column(values: npt.NDArray[Any], spec: FeatureSpec, dtype: Any) -> Any:
    import pandas as pd

    if spec.categories is not None:
        known = np.isfinite(values) & (values < spec.n_codes)
        codes = np.where(known, values, -1).astype(np.intp)
        labels: Any = pd.Index(spec.categories)
        return pd.Categorical.from_codes(codes, categories=labels).astype(dtype)
    whole = np.all(np.isfinite(values))
    if dtype.kind in "biu" and (whole or not isinstance(dtype, np.dtype)):
        return pd.Series(values).astype(dtype)
    return values
