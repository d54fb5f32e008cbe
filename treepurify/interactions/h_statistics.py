"""H-statistics: exact from the terms of partial dependence, for trees on all rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_flag, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_memory_budget
from treepurify.engines.common.compiling import announce_compilation
from treepurify.engines.common.functions import parsed_or_none
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.interactions.h_statistics_called import called_effects
from treepurify.interactions.h_statistics_effects import HEffects
from treepurify.interactions.h_statistics_independent import independent_shares
from treepurify.interactions.h_statistics_parsed import parsed_effects
from treepurify.interactions.h_statistics_table import HStatistics, Interaction
from treepurify.progress import ProgressReport, progress_report

__all__ = ["h_statistics"]

Array = npt.NDArray[np.float64]

_INTERVAL = (2.5, 97.5)
_ROWS_OF_A_FUNCTION = 500


def h_statistics(
    model: Any,
    X: Any,
    *,
    order: int = 2,
    sample_weight: npt.ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    sample_size: int = _ROWS_OF_A_FUNCTION,
    bootstrap: int = 0,
    seed: int = 0,
    purified: bool = True,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> HStatistics:
    r"""Say how much of a model is interaction, by feature, pair and triple.

    With partial dependence functions ``PD`` centred over the rows (Friedman and Popescu 2008,
    equations 44 to 46), squared and summed over the rows,

    * a pair: ``(PD_jk - PD_j - PD_k)`` beside ``PD_jk``;
    * a feature with all others: ``(f - PD_j - PD_(without j))`` beside ``f``;
    * a triple: what ``PD_jkl`` has beyond its pairs and mains, beside ``PD_jkl``;
    * all together: ``f`` minus all main effects, beside ``f``.

    The numerators are the terms of `partial_dependence_anova`. Tree ensembles and EBMs get
    exact numbers from all rows and all pairs. A function is called on every pair of rows of a
    sample, as the definition says.

    Under dependent features the ratios can exceed one. ``purified_share`` is their
    counterpart in the functional ANOVA under independent features: a share of variance, so it
    lies between 0 and 1. ``diagnostics["purified"]`` says whether the variances behind it are
    exact, and gives their standard errors where a very large model had them sampled. Both ask
    the model about combinations that the rows may not contain;
    ``diagnostics["extrapolation"]`` says how many.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like or table of shape (n_rows, n_features)
        The rows, which are the background too.
    order : {2, 3}
        Whether triples are computed too.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, finite and not negative. Rows of weight zero change
        nothing.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    sample_size : int
        Most rows that a function is evaluated on, drawn at random in proportion to their
        weights.
    bootstrap : int
        Number of resamples of the rows behind the intervals; none by default. A resample
        draws as many rows as have weight, each with the same chance and with replacement,
        and a row counts with its weight as often as it was drawn. So a weight is what one
        row stands for, not a number of rows that were seen.
    seed : int
        Seed of the sample and of the bootstrap.
    purified : bool
        Whether to compute the shares under independent features; for tree ensembles and EBMs.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    HStatistics

    Raises
    ------
    InvalidInputError
        If the rows or an option cannot be used.
    MemoryBudgetError
        If the values would not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> h = h_statistics(DecisionTreeRegressor().fit(X, X.all(axis=1)), X)
    >>> h.pairs()[["first", "second", "h_squared", "purified_share"]]
      first second  h_squared  purified_share
    0    x0     x1   0.333333        0.333333
    """
    _check(order, sample_size, bootstrap, seed)
    check_flag("purified", purified)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    parsed = parsed_or_none(model, feature_names, X)
    shares: Mapping[Subset, Array] = {}
    facts: dict[str, Any] = {}
    if parsed is None:
        effects = called_effects(
            model,
            X,
            order,
            feature_names,
            sample_weight,
            sample_size,
            seed,
            bool(bootstrap),
            memory_budget,
            report,
        )
    else:
        announce_compilation(show=progress)
        effects = parsed_effects(model, parsed, X, order, sample_weight, memory_budget, report)
        if purified:
            shares, facts = independent_shares(
                parsed, X, order, sample_weight, memory_budget, report
            )
    moments = effects.moments(None)
    intervals = _intervals(effects, bootstrap, seed, report)
    unknown = np.full(len(effects.output_names), np.nan)
    interactions = {}
    for subset in sorted(moments, key=lambda s: (len(s), s)):
        numerator, denominator = moments[subset]
        low, high = intervals.get(subset, (unknown, unknown))
        interactions[subset] = Interaction(
            subset, numerator, denominator, shares.get(subset, unknown), low, high
        )
    return HStatistics(
        interactions,
        moments[()][1],
        effects.feature_names,
        effects.output_names,
        effects.measure,
        {**effects.diagnostics, "purified": facts, "bootstrap": bootstrap, "seed": seed},
    )


def _check(order: int, sample_size: int, bootstrap: int, seed: int) -> None:
    check_whole("order", order, 2, 3)
    check_whole("sample_size", sample_size, 2)
    check_whole("seed", seed, 0)
    check_whole("bootstrap", bootstrap, 0)
    if bootstrap == 1:
        raise InvalidInputError("bootstrap must be 0 or at least 2, got 1")


def _intervals(
    effects: HEffects, resamples: int, seed: int, report: ProgressReport
) -> dict[Subset, tuple[Array, Array]]:
    """Return percentile intervals over resamples of the rows, points and background alike."""
    if resamples == 0:
        return {}
    rng = np.random.default_rng(seed)
    ratios: dict[Subset, list[Array]] = {}
    for done in range(resamples):
        report("resampling rows", done, resamples)
        drawn = np.sort(rng.integers(0, effects.n_rows, size=effects.n_rows))
        for subset, (numerator, denominator) in effects.moments(drawn).items():
            positive = denominator > 0
            ratio = numerator / np.where(positive, denominator, 1.0)
            ratios.setdefault(subset, []).append(np.where(positive, ratio, 0.0))
    intervals = {}
    for subset, values in ratios.items():
        low, high = np.percentile(np.array(values), _INTERVAL, axis=0)
        intervals[subset] = (low, high)
    return intervals
