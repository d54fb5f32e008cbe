"""The function that Shapley Sets decompose: a model or a callable, with its evaluations counted."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from treepurify.engines.common.functions import (
    CalledFunction,
    ParsedFunction,
    RowFunction,
    read_function,
)
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.columns import Columns
from treepurify.typing import Array

# Terms that a function without known structure is taken to add up.
_TERMS = 1000
_REPEATED_ROWS = 64


class CountedFunction:
    """A function of rows, as a matrix, that counts the rows it is called with.

    Parameters
    ----------
    function : RowFunction
        The function of columns.
    """

    def __init__(self, function: RowFunction) -> None:
        self.function = function
        self.rows_evaluated = function.rows_called if isinstance(function, CalledFunction) else 0

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(spec.name for spec in self.function.features)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.function.features)

    @property
    def model(self) -> Model | None:
        """The parsed model, where there is one."""
        return self.function.model if isinstance(self.function, ParsedFunction) else None

    def read(self, table: Any) -> Array:
        """Return the rows of a table as a matrix, shape (n_rows, n_features)."""
        return self.function.columns(table).matrix()

    def columns(self, rows: Array) -> Columns:
        """Return the rows of a matrix as columns."""
        return Columns(self.function.features, tuple(rows.T), len(rows))

    def __call__(self, rows: Array) -> Array:
        """Return the values of the rows, shape (n_rows, n_outputs)."""
        self.rows_evaluated += len(rows)
        return self.function(self.columns(rows))

    def rounding(self, rows: Array) -> tuple[float, float]:
        """Return bounds on the rounding of one evaluation: relative, and absolute.

        A sum of T terms in floating point is off by at most ``gamma_T = T u / (1 - T u)``
        times the sum of their absolute values (Higham 2002, section 3.1). For an ensemble
        T is the number of trees, and the absolute bound covers terms that cancel; for a
        callable T is taken as 1000, and the absolute bound is what repeating an evaluation
        in another order of rows changed.
        """
        unit = self.function.unit_roundoff
        if isinstance(self.model, TreeEnsemble):
            gamma = _gamma(self.model.n_trees + 1, unit)
            return gamma, gamma * float(_largest_sum(self.model))
        sample = rows[: min(len(rows), _REPEATED_ROWS)]
        first = self(sample)
        changes = [np.abs(self(sample) - first), np.abs(self(sample[::-1])[::-1] - first)]
        changes.append(np.abs(self(sample[: len(sample) // 2 + 1]) - first[: len(sample) // 2 + 1]))
        noise = max(float(change.max()) for change in changes)
        return _gamma(_TERMS, unit), 4.0 * noise


def _gamma(terms: int, unit: float) -> float:
    return terms * unit / (1 - terms * unit)


def _largest_sum(model: TreeEnsemble) -> float:
    """Return the largest sum of absolute leaf values that any row could add up."""
    leaves = np.abs(model.value).max(axis=1) * (model.feature < 0)
    trees = [
        leaves[a:b].max() for a, b in zip(model.tree_ptr[:-1], model.tree_ptr[1:], strict=True)
    ]
    return float(np.sum(trees) + np.abs(model.base).max(initial=0.0))


def as_function(model: Any, X: Any, feature_names: Sequence[str] | None = None) -> CountedFunction:
    """Return a counted function of a model, a callable or an object with `predict`.

    A model that can be parsed is evaluated on its margin scale in double precision; see
    `read_function`.
    """
    return CountedFunction(read_function(model, X, feature_names)[0])
