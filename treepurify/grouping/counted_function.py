"""The function that Shapley Sets decompose: a model or a callable, with its evaluations counted."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_table, read_matrix, read_numbers
from treepurify.columns import Columns, read_columns, table_names
from treepurify.engines.common.called import called_function
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.features import FeatureSpec
from treepurify.models.catboost import label_categories
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, parse_model

__all__ = ["CountedFunction", "as_function"]

Array = npt.NDArray[np.float64]

# Terms that a function without known structure is taken to add up.
_TERMS = 1000
_REPEATED_ROWS = 64
_ENCODED = "be numbers; encode categories before, and decode them inside f"


class CountedFunction:
    """A function of rows that counts how many it was asked for.

    Parameters
    ----------
    evaluate : callable
        From a matrix of shape (n_rows, n_features) to values of shape (n_rows, n_outputs).
    read : callable
        From the caller's table to such a matrix.
    feature_names : tuple of str
        Names of the features.
    model : TreeEnsemble or AdditiveTables, optional
        The parsed model, where there is one.
    """

    def __init__(
        self,
        evaluate: Callable[[Array], npt.NDArray[Any]],
        read: Callable[[Any], Array],
        feature_names: tuple[str, ...],
        model: Model | None = None,
    ) -> None:
        self._evaluate = evaluate
        self.read = read
        self.feature_names = feature_names
        self.model = model
        self.rows_evaluated = 0
        self.unit_roundoff = 2.0**-53

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    def __call__(self, rows: Array) -> Array:
        """Return the values of the rows, shape (n_rows, n_outputs)."""
        if len(rows) == 0:
            raise InvalidInputError("a function cannot be evaluated on no rows")
        self.rows_evaluated += len(rows)
        found = self._evaluate(rows)
        if found.shape[:1] != (len(rows),) or found.ndim > 2:
            raise InvalidInputError(
                f"f must return one value, or one row of values, a row: expected shape "
                f"({len(rows)},) or ({len(rows)}, n_outputs), got {found.shape}"
            )
        if found.dtype in (np.float32, np.float16):
            self.unit_roundoff = float(np.finfo(found.dtype).eps) / 2
        values = read_numbers("f", found, "return numbers").reshape(len(rows), -1)
        if not np.all(np.isfinite(values)):
            raise InvalidInputError(
                "f returned a value that is not finite; combinations of features from different "
                "rows are evaluated too, so f must be defined there"
            )
        return values

    def rounding(self, rows: Array) -> tuple[float, float]:
        """Return bounds on the rounding of one evaluation: relative, and absolute.

        A sum of T terms in floating point is off by at most ``gamma_T = T u / (1 - T u)``
        times the sum of their absolute values (Higham 2002, section 3.1). For an ensemble
        T is the number of trees, and the absolute bound covers terms that cancel; for a
        callable T is taken as 1000, and the absolute bound is what repeating an evaluation
        in another order of rows changed.
        """
        if isinstance(self.model, TreeEnsemble):
            gamma = _gamma(self.model.n_trees + 1, self.unit_roundoff)
            return gamma, gamma * float(_largest_sum(self.model))
        sample = rows[: min(len(rows), _REPEATED_ROWS)]
        first = self(sample)
        changes = [np.abs(self(sample) - first), np.abs(self(sample[::-1])[::-1] - first)]
        changes.append(np.abs(self(sample[: len(sample) // 2 + 1]) - first[: len(sample) // 2 + 1]))
        noise = max(float(change.max()) for change in changes)
        return _gamma(_TERMS, self.unit_roundoff), 4.0 * noise


def _gamma(terms: int, unit: float) -> float:
    return terms * unit / (1 - terms * unit)


def _largest_sum(model: TreeEnsemble) -> float:
    """Return the largest sum of absolute leaf values that any row could add up."""
    leaves = np.abs(model.value).max(axis=1) * (model.feature < 0)
    trees = [
        leaves[a:b].max() for a, b in zip(model.tree_ptr[:-1], model.tree_ptr[1:], strict=True)
    ]
    return float(np.sum(trees) + np.abs(model.base).max(initial=0.0))


def as_function(model_or_f: Any, X: Any) -> CountedFunction:
    """Return a counted function of a model, a callable or an object with `predict`.

    A model that can be parsed is evaluated on its margin scale in double precision.

    Raises
    ------
    InvalidInputError
        If it is none of these.
    """
    check_table(X)
    parsed = _parsed(model_or_f)
    if parsed is not None:
        return _of_model(label_categories(parsed, X), X)
    f = called_function(model_or_f)
    names = table_names(X)
    count = len(names) if names is not None else read_matrix(X).shape[1]
    return _of_callable(f, names, count)


def _parsed(model: Any) -> Model | None:
    if callable(model) and not hasattr(model, "predict"):
        return None
    try:
        return parse_model(model)
    except UnsupportedModelError:
        # A path that cannot be read has nothing else to be asked.
        if isinstance(model, str | Path):
            raise
        return None


def _of_model(model: Model, X: Any) -> CountedFunction:
    names = None if model.has_feature_names else table_names(X)
    own = model.feature_names if names is None else tuple(names)
    return CountedFunction(partial(_margin, model), partial(_read_by_model, model), own, model)


def _margin(model: Model, rows: Array) -> Array:
    columns = Columns(model.features, tuple(rows.T), len(rows))
    if isinstance(model, TreeEnsemble):
        return model.margin(columns, precision="float64")
    return model.margin(columns)


def _read_by_model(model: Model, table: Any) -> Array:
    return model.columns(table).matrix()


def _of_callable(
    f: Callable[[Any], Any], names: list[str] | None, n_features: int
) -> CountedFunction:
    own = names if names is not None else [f"x{j}" for j in range(n_features)]
    features = tuple(FeatureSpec(name) for name in own)
    read = partial(_read, features, names is not None)
    return CountedFunction(partial(_call, f, names), read, tuple(own))


def _call(f: Callable[[Any], Any], names: list[str] | None, rows: Array) -> npt.NDArray[Any]:
    table: Any = rows
    if names is not None:
        import pandas as pd

        table = pd.DataFrame(rows, columns=names)
    returned = f(table)
    # Values of single precision stay so: their rounding tells what counts as equal.
    if getattr(returned, "dtype", None) in (np.float32, np.float16):
        return np.asarray(returned)
    return read_numbers("f", returned, "return numbers")


def _read(features: tuple[FeatureSpec, ...], match_names: bool, table: Any) -> Array:
    if not features:
        raise InvalidInputError("X has no columns; pass rows with one feature at least")
    if table_names(table) is None:
        table = read_numbers("the features of a callable", read_matrix(table), _ENCODED)
    matrix = read_columns(table, features, match_names=match_names).matrix()
    if not np.all(np.isfinite(matrix)):
        raise InvalidInputError(
            "the rows of a callable must be finite; fill in missing values before, and pass these"
        )
    return matrix
