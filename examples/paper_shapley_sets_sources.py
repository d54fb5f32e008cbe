"""Where interactions come from: from the model, from the data, or from both.

Part of ``paper_shapley_sets.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from treepurify.arguments import check_number
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.frozen import FrozenMapping
from treepurify.grouping.partition import shapley_sets
from treepurify.grouping.sets import Sampling
from treepurify.grouping.strengths import InteractionStrengths
from treepurify.grouping.value_functions import GaussianValue, dependent_pairs
from treepurify.progress import ProgressReport, progress_report
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InteractionSources", "interaction_sources"]

# As for the groups of `shapley_sets` by index.
_SHARE = 0.0125


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "diagnostics", FrozenMapping(self.diagnostics))

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
    memory_budget: int = DEFAULT_BUDGET,
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
        Numbers of rows (`probes`), of draws of absent features and, for functions that are not tree
        ensembles, pairs of rows.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    seed : int
        Seed of all draws.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    InteractionSources

    Raises
    ------
    InvalidInputError
        If rows or options cannot be used: categories and missing values have no mean.
    MemoryBudgetError
        If what `sampling` asks for would not fit.

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
    check_number("threshold", threshold, least=0, most=1)
    sampling = Sampling() if sampling is None else sampling
    report = progress_report(progress)
    options: dict[str, Any] = {
        "sampling": sampling,
        "feature_names": feature_names,
        "seed": seed,
        "memory_budget": memory_budget,
        "progress": progress,
    }
    # No groups are looked for; what is wanted is the value function.
    on = shapley_sets(model, X, value="conditional", groups=[], **options)
    off = shapley_sets(model, X, method="index", **options)
    worth = cast("GaussianValue", on.value_function)
    strengths = cast("InteractionStrengths", off.strengths)
    rows = worth.function.read(X)
    n_features = rows.shape[1]
    check_budget(
        8 * sampling.probes * len(on.base) * (n_features + 3),
        memory_budget,
        f"the worth of {n_features} features on {sampling.probes} rows",
        "Pass a Sampling with fewer probes.",
    )
    rng = np.random.default_rng(seed)
    picked = rows[rng.choice(len(rows), min(sampling.probes, len(rows)), replace=False)]
    variance = worth.function(rows).var(axis=0)
    return InteractionSources(
        strengths.shares,
        _conditional_shares(worth, picked, variance, report),
        dependent_pairs(worth.covariance, len(rows)),
        float(threshold),
        on.feature_names,
        {
            "rows": len(picked),
            "draws": len(worth.draws),
            "model_share": strengths.measure,
            "seed": seed,
        },
    )


def _conditional_shares(
    worth: GaussianValue, rows: Array, variance: Array, report: ProgressReport
) -> Array:
    n_features = rows.shape[1]
    alone = [worth(rows, [j]) for j in range(n_features)]
    scale = np.where(variance > 0, variance, 1.0)
    shares = np.zeros((n_features, n_features))
    for i, j in combinations(range(n_features), 2):
        report("the worth of pairs of features", i, n_features)
        missing = worth(rows, [i, j]) - alone[i] - alone[j]
        square = np.where(variance > 0, np.mean(missing**2, axis=0) / scale, 0.0)
        shares[i, j] = shares[j, i] = square.max()
    return shares
