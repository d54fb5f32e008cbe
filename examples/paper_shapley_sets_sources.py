"""Where interactions come from: from the model, from the data, or from both.

Part of ``paper_shapley_sets.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

import treepurify as tp
from treepurify.errors import InvalidInputError
from treepurify.options import Sampling

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InteractionSources", "interaction_sources"]

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# As for the groups of `shapley_sets` by index.
_SHARE = 0.0125
# For the interactions of functions that are not models of trees.
_PAIRS_OF_ROWS = 2000


@dataclass(frozen=True, eq=False, repr=False)
class InteractionSources:
    """For each pair of features, where their interaction comes from.

    Parameters
    ----------
    model_share : ndarray of float64, shape (n_features, n_features)
        Share of the variance that needs both features, if features are independent: the
        interaction of the model. Symmetric; the largest over the outputs.
    conditional_share : ndarray of float64, shape (n_features, n_features)
        Mean square over the rows of ``v(ij) - v(i) - v(j)``, relative to the variance of the
        model, where v is the mean given some features (equation 7 of Sivill and Flach 2023):
        interactions of the model and dependence in the data.
    dependent : ndarray of bool, shape (n_features, n_features)
        Whether chance does not explain the correlation of the two.
    threshold : float
        Largest share that counts as none.
    feature_names : tuple of str
        Names.
    diagnostics : mapping of str to object
        How the shares were computed.
    """

    model_share: Array
    conditional_share: Array
    dependent: Mask
    threshold: float
    feature_names: tuple[str, ...]
    diagnostics: Mapping[str, Any]

    def __repr__(self) -> str:
        """Return how many pairs have each source."""
        counts = self.to_frame()["source"].value_counts()
        shown = ", ".join(f"{source}: {count}" for source, count in counts.items())
        return f"InteractionSources({len(self.feature_names)} features, pairs by source: {shown})"

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per pair: both shares, dependence, and the source in words.

        Sources are ``"model"``, ``"data"`` (dependent features of which the model uses one
        at least), ``"both"``, ``"through others"`` (neither an interaction of the model nor
        dependent on each other, but one stands for a third feature) and ``"none"``. The strongest
        come first.
        """
        import pandas as pd

        rows = [
            {
                "first": self.feature_names[i],
                "second": self.feature_names[j],
                "source": self._source(i, j),
                "model_share": float(self.model_share[i, j]),
                "conditional_share": float(self.conditional_share[i, j]),
                "dependent": bool(self.dependent[i, j]),
            }
            for i, j in combinations(range(len(self.feature_names)), 2)
        ]
        columns = [
            "first", "second", "source", "model_share", "conditional_share", "dependent",
        ]  # fmt: skip
        frame = pd.DataFrame(rows, columns=columns)
        strength = -np.maximum(frame["model_share"], frame["conditional_share"])
        return frame.iloc[np.argsort(strength, kind="stable")].reset_index(drop=True)

    def _source(self, i: int, j: int) -> str:
        of_model = self.model_share[i, j] > self.threshold
        of_values = self.conditional_share[i, j] > self.threshold
        if of_model:
            return "both" if self.dependent[i, j] else "model"
        if not of_values:
            return "none"
        return "data" if self.dependent[i, j] else "through others"


def interaction_sources(
    model: Any,
    X: Any,
    *,
    threshold: float = _SHARE,
    sampling: Sampling | None = None,
    feature_names: Sequence[str] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> InteractionSources:
    """Say of each pair of features whether its interaction is the model's, the data's, or both.

    Off the manifold of the data features are exchanged one by one, so only the model can make
    them interact. On it a feature also stands for those that depend on it. The comparison of
    the two says where an interaction takes place (Sivill and Flach 2023, section 4).

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like or table of shape (n_rows, n_features)
        Rows that stand for the data: numbers without gaps, which are taken as jointly normal.
        That holds for the mean given some features; non-linear dependence is not seen.
    threshold : float
        Largest share of the variance that counts as no interaction, from 0 to 1.
    sampling : Sampling, optional
        Numbers of rows (`probes`) and of draws of absent features.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    seed : int
        Seed of all draws.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    InteractionSources

    Raises
    ------
    InvalidInputError
        If rows or options cannot be used: categories and missing values have no mean.

    Examples
    --------
    In ``x0 + 2 x1 x2`` with a copy of x0 as a further feature:

    >>> import numpy as np
    >>> from examples.paper_shapley_sets_sources import interaction_sources
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> X[:, 3] = X[:, 0]
    >>> def f(X):
    ...     return X[:, 0] + 2 * X[:, 1] * X[:, 2]
    >>> interaction_sources(f, X).to_frame()[["first", "second", "source"]].head(2)
      first second source
    0    x1     x2  model
    1    x0     x3   data
    """
    if not 0 <= threshold <= 1:
        raise InvalidInputError(f"threshold must be from 0 to 1, got {threshold}")
    sampling = Sampling() if sampling is None else sampling
    options: dict[str, Any] = {
        "sampling": sampling,
        "feature_names": feature_names,
        "seed": seed,
        "progress": progress,
    }
    # No groups are looked for; what is wanted is the value function.
    on = tp.shapley_sets(model, X, value="conditional", groups=[], **options)
    worth: Any = on.value_function
    rows = worth.function.read(X)
    if worth.function.model is None:
        model_share = _sampled_shares(worth.function, rows, np.random.default_rng(seed))
        measure = f"independent features, {_PAIRS_OF_ROWS} samples"
    else:
        strengths: Any = tp.shapley_sets(model, X, method="index", **options).strengths
        model_share, measure = strengths.shares, strengths.measure
    rng = np.random.default_rng(seed)
    picked = rows[rng.choice(len(rows), min(sampling.probes, len(rows)), replace=False)]
    variance = worth.function(rows).var(axis=0)
    return InteractionSources(
        model_share,
        _conditional_shares(worth, picked, variance),
        _dependent_pairs(worth.covariance, len(rows)),
        float(threshold),
        on.feature_names,
        {
            "rows": len(picked),
            "draws": len(worth.draws),
            "model_share": measure,
            "seed": seed,
        },
    )


def _sampled_shares(function: Any, X: Array, rng: np.random.Generator) -> Array:
    """Return estimates of the total interaction indices, as shares of the variance.

    That of i and j is a quarter of the mean square of the mixed difference of f between two
    independent rows (Liu and Owen 2006, superset importance): ``f(x) - f(x'_i, x) - f(x'_j, x) +
    f(x'_i, x'_j, x)``. Unbiased, and never negative.
    """
    n, samples = X.shape[1], _PAIRS_OF_ROWS
    rows = np.stack(
        [rng.permutation(X[rng.integers(len(X), size=samples), j]) for j in range(n)], 1
    )
    other = np.stack([X[rng.integers(len(X), size=samples), j] for j in range(n)], 1)

    def exchanged(*features: int) -> Array:
        mixed = rows.copy()
        mixed[:, list(features)] = other[:, list(features)]
        values: Array = function(mixed)
        return values

    here = exchanged()
    alone = [exchanged(j) for j in range(n)]
    variance = here.var(axis=0)
    whole = np.where(variance > 0, variance, 1.0)
    shares = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        squares = (here - alone[i] - alone[j] + exchanged(i, j)) ** 2 / (4 * whole)
        squares = np.where(variance > 0, squares, 0.0)
        shares[i, j] = shares[j, i] = squares.mean(axis=0).max()
    return np.minimum(shares, 1.0)


def _dependent_pairs(covariance: Array, n_rows: int) -> Mask:
    """Return which pairs have a correlation that chance does not explain, at .99 for all."""
    deviation = np.sqrt(np.diag(covariance))
    product = np.multiply.outer(deviation, deviation)
    correlation = np.divide(covariance, product, out=np.zeros_like(product), where=product > 0)
    n_pairs = max(len(covariance) * (len(covariance) - 1) // 2, 1)
    found = np.abs(correlation) > float(ndtri(1 - 0.005 / n_pairs)) / np.sqrt(max(n_rows - 1, 1))
    np.fill_diagonal(found, val=False)
    return np.asarray(found)


def _conditional_shares(worth: Any, rows: Array, variance: Array) -> Array:
    n_features = rows.shape[1]
    alone = [worth(rows, [j]) for j in range(n_features)]
    scale = np.where(variance > 0, variance, 1.0)
    shares = np.zeros((n_features, n_features))
    for i, j in combinations(range(n_features), 2):
        missing = worth(rows, [i, j]) - alone[i] - alone[j]
        square = np.where(variance > 0, np.mean(missing**2, axis=0) / scale, 0.0)
        shares[i, j] = shares[j, i] = square.max()
    return shares
