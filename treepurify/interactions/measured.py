"""How strongly pairs of features interact in data, before a model of interactions is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.quadrants import best_crossing
from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.engines.common.inputs import Interactions, check_interactions, named_subsets
from treepurify.engines.common.table_form import read_table
from treepurify.grids.grid import Subset
from treepurify.interactions.binned_pairs import (
    BinnedColumn,
    bin_columns,
    fit_additive,
    pair_table,
)
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import counted_rows, read_row_weights
from treepurify.rows.table_reader import check_distribution
from treepurify.rows.targets import read_target
from treepurify.threads import map_threads
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MeasuredInteractions", "measure_interactions"]

_PAIR = 2


@dataclass(frozen=True, eq=False, repr=False)
class MeasuredInteractions:
    """How strongly pairs of features interact in a target, the strongest first.

    Parameters
    ----------
    pairs : tuple of tuple of int
        The pairs.
    strength : ndarray of float64, shape (n_pairs,)
        Root mean square of what the best crossing of two cuts explains beyond sums, in the units
        of the target.
    share : ndarray of float64, shape (n_pairs,)
        Its square over the variance of the target.
    chi_square : ndarray of float64, shape (n_pairs,)
        Its square over what chance gives to one crossing: the variance of the residuals, divided
        by the number of rows. It is the largest of many crossings, so that values of 10 to 20
        are met where there is no interaction.
    crossings : tuple of tuple of str
        The side before each of the two cuts, in words; empty where no crossing has enough rows.
    least_rows : ndarray of float64, shape (n_pairs,)
        Rows in the smallest of the four quadrants, by weight.
    additive_share : float
        Share of the variance of the target that the sum of functions of one feature explains,
        whose residuals are measured.
    solve_error : float
        What the solve of that sum leaves of its gradient, relative to the first; NaN where
        predictions were given.
    feature_names : tuple of str
        Names.
    """

    pairs: tuple[Subset, ...]
    strength: Array
    share: Array
    chi_square: Array
    crossings: tuple[tuple[str, ...], ...]
    least_rows: Array
    additive_share: float
    solve_error: float
    feature_names: tuple[str, ...]

    def __repr__(self) -> str:
        """Return the strongest pairs."""
        first = [
            f"{self.feature_names[i]} & {self.feature_names[j]} {share:.2%}"
            for (i, j), share in zip(self.pairs[:3], self.share, strict=False)
        ]
        return (
            f"MeasuredInteractions({len(self.pairs)} pairs; strongest: "
            f"{', '.join(first) or 'none'} of the variance)"
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per pair, the strongest first."""
        import pandas as pd

        names = self.feature_names
        return pd.DataFrame(
            {
                "first": [names[i] for i, _ in self.pairs],
                "second": [names[j] for _, j in self.pairs],
                "strength": self.strength,
                "share": self.share,
                "chi_square": self.chi_square,
                "first_side": [c[0] if c else "" for c in self.crossings],
                "second_side": [c[1] if c else "" for c in self.crossings],
                "least_rows": self.least_rows,
            }
        )


def measure_interactions(
    X: Any,
    y: npt.ArrayLike,
    *,
    prediction: npt.ArrayLike | None = None,
    interactions: Interactions | None = None,
    bins: int = 32,
    least_rows: int = 5,
    sample_weight: npt.ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> MeasuredInteractions:
    """Rank pairs of features by how much they interact in data.

    This is FAST (Lou et al. 2013), purified. What a sum of functions of one feature explains is
    taken off first, by least squares over the cells of all features together. Of the residuals,
    every crossing of a cut of one feature with a cut of the other is tried. What it explains is
    counted beyond the best sum of one number per side, so that no main effect that is left
    counts as interaction; for four quadrants that is the square of one contrast of their means.

    Parameters
    ----------
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    y : array_like of shape (n_rows,)
        The target: numbers, or truth values, whose interactions are those of the probability.
    prediction : array_like of shape (n_rows,), optional
        Predictions of an additive model on the scale of `y`, such as boosted stumps or what
        `purify` keeps of a model at ``order=1``; their residuals are measured as they are. By
        default a sum of functions of one feature is fitted.
    interactions : sequence of tuple of (str or int), optional
        The pairs that are measured; all by default.
    bins : int
        Cells of each feature: quantiles, or categories by the mean of the target. Missing
        values have one more.
    least_rows : int
        Rows that each quadrant of a crossing has at least, by weight.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, finite and not negative.
    feature_names : sequence of str, optional
        Names of the features, in the order of the columns.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    MeasuredInteractions

    Raises
    ------
    InvalidInputError
        If the rows, the target or an option cannot be used.
    MemoryBudgetError
        If the additive fit would not fit.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> found = measure_interactions(X, X[:, 0] + 2 * X[:, 1] * X[:, 3])
    >>> found.pairs[0]
    (1, 3)
    """
    check_whole("bins", bins, 2)
    check_whole("least_rows", least_rows, 1)
    check_interactions(interactions)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    _, columns, _ = read_table(X, feature_names)
    check_distribution(columns)
    target = read_target("y", y, columns.n_rows)
    given = None if prediction is None else read_target("prediction", prediction, columns.n_rows)
    counted, weights, target, given = _counted(columns, sample_weight, target, given)
    binned = bin_columns(counted, bins, weights, target)
    report("fitting functions of one feature", 0, 0)
    error = np.nan
    if given is None:
        fit = fit_additive(binned, weights, target, memory_budget)
        given, error = fit.fitted, fit.residual_norm
    rest = target - given
    rest -= np.average(rest, weights=weights)
    wanted = named_subsets(counted.features, interactions, _PAIR)
    pairs = sorted(wanted) if wanted is not None else [*combinations(range(len(binned)), 2)]
    report("measuring pairs", 0, len(pairs))
    found = map_threads(
        lambda pair: _crossing(binned[pair[0]], binned[pair[1]], weights, rest, least_rows), pairs
    )
    centred = target - np.average(target, weights=weights)
    variance = float(np.average(centred**2, weights=weights))
    left = float(np.average(rest**2, weights=weights))
    gain = np.array([crossing.gain for crossing in found]) / weights.sum()
    order = np.argsort(-gain, kind="stable").tolist()
    gain = gain[order]
    return MeasuredInteractions(
        tuple(pairs[k] for k in order),
        np.sqrt(gain),
        gain / variance if variance > 0 else gain,
        gain * len(weights) / left if left > 0 else gain,
        tuple(found[k].sides for k in order),
        np.array([found[k].least for k in order]),
        1.0 - left / variance if variance > 0 else 1.0,
        error,
        tuple(spec.name for spec in columns.features),
    )


@dataclass(frozen=True)
class _Crossing:
    gain: float
    sides: tuple[str, ...]
    least: float


def _crossing(
    first: BinnedColumn, second: BinnedColumn, weights: Array, rest: Array, least_rows: int
) -> _Crossing:
    weight = pair_table(first, second, weights)
    total = pair_table(first, second, weights * rest)
    gain, a, b, least = best_crossing(weight, total, float(least_rows))
    sides = (first.below(a), second.below(b)) if a >= 0 else ()
    return _Crossing(gain, sides, least)


def _counted(
    columns: Columns, sample_weight: npt.ArrayLike | None, target: Array, given: Array | None
) -> tuple[Columns, Array, Array, Array | None]:
    """Leave rows of weight zero out; weights have mean one."""
    weights = read_row_weights(sample_weight, columns.n_rows)
    if weights is not None:
        kept = weights > 0
        target, given = target[kept], None if given is None else given[kept]
    counted, positive = counted_rows(columns, sample_weight)
    shares = np.ones(counted.n_rows) if positive is None else positive / positive.mean()
    return counted, shares, target, given
