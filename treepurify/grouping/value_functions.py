"""Value functions: what a coalition of features is worth for a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from treepurify._kernels.mixed_means import add_mixed_means
from treepurify.grids.grid import Subset
from treepurify.grouping.counted_function import CountedFunction
from treepurify.grouping.strengths import connected_groups
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array, Mask

_ROWS_AT_ONCE = 1 << 16


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
    for start in range(0, len(references), _ROWS_AT_ONCE):
        total = total + function(references[start : start + _ROWS_AT_ONCE]).sum(axis=0)
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
    at_once = max(_ROWS_AT_ONCE // len(references), 1)
    for start in range(0, len(rows), at_once):
        block = rows[start : start + at_once]
        mixed = np.tile(references, (len(block), 1))
        mixed[:, chosen] = np.repeat(block[:, chosen], len(references), axis=0)
        values = function(mixed)
        means.append(values.reshape(len(block), len(references), -1).mean(axis=1))
    return np.concatenate(means)


@dataclass(frozen=True, eq=False)
class GaussianValue:
    """Absent features are drawn given the present ones: equation 4 of Sivill and Flach.

    Features whose correlation could be chance are taken as independent: the covariance is
    kept inside blocks only, so that a sum of functions of separate blocks stays separable.
    Every conditional mean uses the same draws, each together with its mirror image, so
    linear functions come out without sampling error.

    Parameters
    ----------
    function : CountedFunction
        The function.
    mean : ndarray of float64, shape (n_features,)
        Means.
    covariance : ndarray of float64, shape (n_features, n_features)
        Covariances; zero between blocks.
    blocks : tuple of tuple of int
        Features that depend on each other.
    draws : ndarray of float64, shape (n_draws, n_features)
        Standard normal draws.
    base : ndarray of float64, shape (n_outputs,)
        Mean of the function over unconditional draws.
    """

    function: CountedFunction
    mean: Array
    covariance: Array
    blocks: tuple[Subset, ...]
    draws: Array
    base: Array

    def __call__(self, rows: Array, coalition: Sequence[int]) -> Array:
        """Return the worth of a coalition for each row, shape (n_rows, n_outputs)."""
        if len(coalition) == rows.shape[1]:
            return self.function(rows) - self.base
        if not coalition:
            return np.zeros((len(rows), len(self.base)))
        at_once = max(_ROWS_AT_ONCE // len(self.draws), 1)
        means = []
        for start in range(0, len(rows), at_once):
            block = rows[start : start + at_once]
            drawn = self.conditional_rows(block, coalition)
            values = self.function(drawn.reshape(-1, rows.shape[1]))
            means.append(values.reshape(len(block), len(self.draws), -1).mean(axis=1))
        return np.concatenate(means) - self.base

    def conditional_rows(self, rows: Array, coalition: Sequence[int]) -> Array:
        """Return draws of all features given a coalition's, shape (n_rows, n_draws, n_features)."""
        present = set(coalition)
        drawn = np.empty((len(rows), len(self.draws), rows.shape[1]))
        for block in self.blocks:
            known = [j for j in block if j in present]
            absent = [j for j in block if j not in present]
            drawn[:, :, known] = rows[:, None, known]
            if not absent:
                continue
            mean, spread = self._conditional(rows, known, absent)
            drawn[:, :, absent] = mean[:, None, :] + self.draws[:, absent] @ spread
        return drawn

    def _conditional(self, rows: Array, known: list[int], absent: list[int]) -> tuple[Array, Array]:
        """Return the conditional means and the symmetric root of the conditional covariance.

        The paper prints the covariance with a plus sign and its code leaves the inverse
        out; it is ``C_aa - C_ak C_kk^-1 C_ka``.
        """
        mean = np.tile(self.mean[absent], (len(rows), 1))
        covariance = self.covariance[np.ix_(absent, absent)]
        if known:
            across = self.covariance[np.ix_(absent, known)]
            # A pseudo-inverse: copies of a feature make the block singular.
            inverse = np.linalg.pinv(
                self.covariance[np.ix_(known, known)], rcond=1e-10, hermitian=True
            )
            mean = mean + (rows[:, known] - self.mean[known]) @ (across @ inverse).T
            covariance = covariance - across @ inverse @ across.T
        values, vectors = np.linalg.eigh(covariance)
        # What is determined up to rounding is determined.
        noise = 1e-10 * float(np.max(np.diag(self.covariance)[absent], initial=0.0))
        values = np.where(values > noise, values, 0.0)
        return mean, (vectors * np.sqrt(values)) @ vectors.T


def gaussian_value(
    function: CountedFunction, X: Array, n_draws: int, rng: np.random.Generator
) -> GaussianValue:
    """Fit means and covariances to rows.

    Parameters
    ----------
    function : CountedFunction
        The function.
    X : ndarray of float64, shape (n_rows, n_features)
        The rows.
    n_draws : int
        Number of draws; rounded up to an even number.
    rng : Generator
        Makes the draws.
    """
    mean = X.mean(axis=0)
    covariance = np.cov(X, rowvar=False).reshape(X.shape[1], X.shape[1])
    blocks = _dependent_blocks(covariance, len(X))
    inside = np.zeros(covariance.shape, dtype=bool)
    for block in blocks:
        inside[np.ix_(block, block)] = True
    covariance = np.where(inside, covariance, 0.0)
    half = rng.standard_normal(((n_draws + 1) // 2, X.shape[1]))
    draws = np.concatenate([half, -half])
    value = GaussianValue(function, mean, covariance, blocks, draws, np.zeros(1))
    free = value.conditional_rows(X[:1], ())[0]
    base = function(free).mean(axis=0)
    return GaussianValue(function, mean, covariance, blocks, draws, base)


def dependent_pairs(covariance: Array, n_rows: int) -> Mask:
    """Return which pairs of features have a correlation that chance does not explain.

    The bound holds for all pairs together with probability 0.99 if features are independent
    and normal (Bonferroni).

    Parameters
    ----------
    covariance : ndarray of float64, shape (n_features, n_features)
        Covariances of the rows.
    n_rows : int
        Their number.
    """
    from scipy.special import ndtri

    n = len(covariance)
    deviation = np.sqrt(np.diag(covariance))
    product = np.multiply.outer(deviation, deviation)
    correlation = np.divide(covariance, product, out=np.zeros((n, n)), where=product > 0)
    n_pairs = max(n * (n - 1) // 2, 1)
    bound = float(ndtri(1 - 0.005 / n_pairs)) / np.sqrt(max(n_rows - 1, 1))
    found: Mask = np.asarray(np.abs(correlation) > bound)
    np.fill_diagonal(found, val=False)
    return found


def _dependent_blocks(covariance: Array, n_rows: int) -> tuple[Subset, ...]:
    """Return the connected components of features that depend on each other."""
    edges = np.argwhere(np.triu(dependent_pairs(covariance, n_rows)))
    return connected_groups(len(covariance), edges)
