"""Value functions: what a coalition of features is worth for a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from treepurify._kernels.mixed_means import add_mixed_means
from treepurify.grouping.counted_function import CountedFunction
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array

__all__ = ["EmpiricalValue", "ReferenceValue", "ValueFunction", "reference_value"]

ROWS_AT_ONCE = 1 << 16
# Aas, Jullum and Loland (2021), section 3.3: the bandwidth they found to do well.
_BANDWIDTH = 0.1


class ValueFunction(Protocol):
    """The worth of a coalition of features, zero for the empty one."""

    @property
    def function(self) -> CountedFunction:
        """The function whose values coalitions are worth."""

    @property
    def base(self) -> Array:
        """What no feature at all would predict, shape (n_outputs,)."""

    def __call__(self, rows: Array, coalition: Sequence[int]) -> Array:
        """Return the worth of a coalition for each row, shape (n_rows, n_outputs)."""


@dataclass(frozen=True, eq=False)
class ReferenceValue:
    """Absent features come from reference rows: equations 2 and 3 of Sivill and Flach.

    One reference row is the baseline value v_bs, and with the means of the features the
    paper's v_marg, f(x_S, E[X]) - f(E[X]). Many rows give the mean of f over them, the
    interventional value.

    Parameters
    ----------
    function : CountedFunction
        The function.
    references : ndarray of float64, shape (n_references, n_features)
        Where absent features come from.
    base : ndarray of float64, shape (n_outputs,)
        Mean of the function over them.
    """

    function: CountedFunction
    references: Array
    base: Array

    def __call__(self, rows: Array, coalition: Sequence[int]) -> Array:
        """Return the worth of a coalition for each row, shape (n_rows, n_outputs)."""
        if len(coalition) == rows.shape[1]:
            return self.function(rows) - self.base
        if isinstance(self.function.model, TreeEnsemble):
            return _tree_mean(self.function.model, rows, coalition, self.references) - self.base
        return _mean_over(self.function, rows, coalition, self.references) - self.base


def reference_value(function: CountedFunction, references: Array) -> ReferenceValue:
    """Return the value function of some reference rows."""
    total = np.zeros(1)
    for start in range(0, len(references), ROWS_AT_ONCE):
        total = total + function(references[start : start + ROWS_AT_ONCE]).sum(axis=0)
    return ReferenceValue(function, references, total / len(references))


def _tree_mean(
    model: TreeEnsemble, rows: Array, coalition: Sequence[int], references: Array
) -> Array:
    """Return what `_mean_over` does; rows and references walk down each tree once."""
    is_present = np.zeros(model.n_features, dtype=np.bool_)
    is_present[list(coalition)] = True
    total = np.tile(model.base.astype(np.float64), (len(rows), 1))
    add_mixed_means(
        rows,
        references,
        is_present,
        model.tree_ptr,
        model.feature,
        model.cut,
        model.left,
        model.right,
        model.missing_left,
        model.category_ptr,
        model.category_left,
        model.value,
        model.tree_output,
        total,
    )
    return total


def _mean_over(
    function: CountedFunction, rows: Array, coalition: Sequence[int], references: Array
) -> Array:
    chosen = list(coalition)
    means = []
    at_once = max(ROWS_AT_ONCE // len(references), 1)
    for start in range(0, len(rows), at_once):
        block = rows[start : start + at_once]
        mixed = np.tile(references, (len(block), 1))
        mixed[:, chosen] = np.repeat(block[:, chosen], len(references), axis=0)
        values = function(mixed)
        means.append(values.reshape(len(block), len(references), -1).mean(axis=1))
    return np.concatenate(means)


@dataclass(frozen=True, eq=False)
class EmpiricalValue:
    """Absent features come from the data rows that look like the row: equation 4, by weighting.

    A data row counts with ``exp(-D^2 / (2 * 0.1^2))``, where D^2 is its Mahalanobis distance
    in the coalition divided by the coalition's size (Aas, Jullum and Loland 2021, section
    3.3). Close to the truth for few features or many rows only.

    Parameters
    ----------
    function : CountedFunction
        The function.
    references : ndarray of float64, shape (n_references, n_features)
        The data.
    base : ndarray of float64, shape (n_outputs,)
        Mean of the function over them.
    """

    function: CountedFunction
    references: Array
    base: Array

    def __call__(self, rows: Array, coalition: Sequence[int]) -> Array:
        """Return the worth of a coalition for each row, shape (n_rows, n_outputs)."""
        chosen = list(coalition)
        if len(chosen) == rows.shape[1]:
            return self.function(rows) - self.base
        if not chosen:
            return np.zeros((len(rows), len(self.base)))
        covariance = np.cov(self.references[:, chosen], rowvar=False).reshape(len(chosen), -1)
        precision = np.linalg.pinv(covariance, hermitian=True) / len(chosen)
        means = []
        for row in rows:
            apart = self.references[:, chosen] - row[chosen]
            distance = np.einsum("ij,jk,ik->i", apart, precision, apart)
            # Relative to the nearest row: far from all data, the nearest decide.
            weight = np.exp((distance.min() - distance) / (2 * _BANDWIDTH**2))
            kept = weight > 1e-8
            mixed = self.references[kept].copy()
            mixed[:, chosen] = row[chosen]
            means.append(np.average(self.function(mixed), axis=0, weights=weight[kept]))
        return np.array(means) - self.base
