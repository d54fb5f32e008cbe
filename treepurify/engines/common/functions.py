"""One way to read a function: a parsed model, or anything that is called with rows, checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from treepurify.components import ModelInputs
from treepurify.decomposition import Decomposition
from treepurify.engines.common.called_function import (
    UNIT_ROUNDOFF,
    CalledFunction,
    call_along,
    read_called,
)
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, read_model
from treepurify.remainder import Function
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.table_reader import check_distribution
from treepurify.rows.tables import check_any_rows, check_table, row_count
from treepurify.saving import savable
from treepurify.typing import Array, Floats

__all__ = [
    "ParsedFunction",
    "ResponseFunction",
    "RowFunction",
    "check_values_have_table",
    "features_read",
    "is_function",
    "model_or_none",
    "parsed_or_none",
    "read_function",
    "response_function",
    "splice",
]


class RowFunction(Function, Protocol):
    """Whatever gives one value per output for rows that were read already."""

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The columns."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name per output."""

    @property
    def link(self) -> Link:
        """From the values to the response."""

    @property
    def unit_roundoff(self) -> float:
        """What values are rounded by, relative to their size."""

    def columns(self, X: Any) -> Columns:
        """Read a table."""

    def part_along(self, features: Subset) -> "RowFunction":
        """Return a function with the same mixed differences along some features."""

    def values_along(self, columns: Columns, feature: int, values: Floats) -> Array:
        """Return the values on rows whose feature has each of some values.

        The shape is (n_values, n_rows, n_outputs).
        """


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
        return UNIT_ROUNDOFF


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

    def part_along(self, features: Subset) -> "ParsedFunction":
        """Return the trees that test all of some features, or the tables that hold them."""
        return ParsedFunction(self.model.part_along(features))

    def values_along(self, columns: Columns, feature: int, values: Floats) -> Array:
        """Return the margin on rows whose feature has each of some values."""
        if isinstance(self.model, TreeEnsemble):
            return self.model.margin_along(columns, feature, values)
        return call_along(self, columns, feature, values)

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

    def part_along(self, features: Subset) -> "ResponseFunction":
        """Return itself: a response is no sum of trees."""
        return self

    def values_along(self, columns: Columns, feature: int, values: Floats) -> Array:
        """Return the response on rows whose feature has each of some values."""
        margins = ParsedFunction(self.model).values_along(columns, feature, values)
        responses = self.model.link.inverse(margins.reshape(-1, margins.shape[2]))
        return responses.reshape(*margins.shape[:2], -1)

    def __call__(self, X: Any) -> Array:
        """Return the response on all rows of a table or of columns, shape (n_rows, n_outputs)."""
        return self.model.link.inverse(self.model.margin(X, precision="float64"))


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
) -> tuple[ParsedFunction | ResponseFunction | CalledFunction, Columns]:
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


def features_read(
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
