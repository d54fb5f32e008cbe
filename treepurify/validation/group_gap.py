"""Gaps between two groups of rows: differences of mean margins and of rates, effect by effect."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from treepurify.arguments import (
    check_choice,
    check_number,
    check_result,
    check_whole,
    read_output,
)
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition, Scale
from treepurify.engines.common.finish import largest_effect
from treepurify.errors import InvalidInputError
from treepurify.evidence.losses import read_class
from treepurify.html_summary import html_summary
from treepurify.progress import progress_report
from treepurify.rows.given_rows import given_rows
from treepurify.rows.row_weights import read_row_weights
from treepurify.validation.approval_rates import (
    ApprovalRates,
    Decision,
    approval_rates,
    rate_numbers,
)
from treepurify.validation.group_rows import find_groups
from treepurify.validation.group_sums import group_sums
from treepurify.validation.mean_differences import MeanDifferences, mean_differences, read_draws

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GroupGap", "group_gap"]

# A sum of effects may be off by this part of the largest effect.
_ROUNDING = 1e-12

LIMITS = (
    "This is what the model does on these rows. It does not say why groups differ, whether a "
    "difference is justified, or what another decision would lead to; a feature that is related "
    "to the group can account for part of the gap even if the group is not in the model."
)
"""What a gap does not show."""


@dataclass(frozen=True, eq=False, repr=False)
class GroupGap:
    """How the predictions of two groups differ, effect by effect.

    Parameters
    ----------
    differences : MeanDifferences
        Difference of mean margins and its parts, the differences of the mean effects, with the
        number of rows of each group.
    rates : ApprovalRates, optional
        Rates at the threshold, if one was passed.
    sample : str
        Description of the sample that was drawn from rows in batches; empty if all rows were used.

    See Also
    --------
    treepurify.group_gap : Difference of predictions between two groups.
    treepurify.plots.mean_difference : Figure of a gap or a drift.
    """

    differences: MeanDifferences
    rates: ApprovalRates | None = None
    sample: str = ""

    @property
    def groups(self) -> tuple[str, str]:
        """Names of the two groups; differences are the second group minus the first."""
        return self.differences.names

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per effect and output, the largest difference first.

        Returns
        -------
        DataFrame
            ``term``, ``output`` if there are several, ``mean_first`` and ``mean_second`` (means of
            the effect in both groups), ``difference`` with the limits ``low`` and ``high`` of its
            interval and its ``standard_error``, ``share`` of the difference of mean margins, and
            for several trainings ``training_low`` and ``training_high``; all but the share on the
            margin scale.
        """
        return self.differences.to_frame()

    def summary(self, top: int = 5) -> list[str]:
        """Return the gap in sentences, with the `top` largest effects of each output."""
        check_whole("top", top, 0)
        found = self.differences
        lines = [
            f"{found.names[0]}: {found.n_rows[0]} rows; {found.names[1]}: {found.n_rows[1]} rows.",
            *found.sentences(top),
        ]
        if self.rates is not None:
            lines += self.rates.sentences(found.names, found.coverage)
        return [*lines, *([self.sample] if self.sample else []), LIMITS]

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary(self.summary(), self.to_frame())


def group_gap(  # noqa: PLR0913 - one argument per question
    d: Decomposition,
    X: Any,
    group: Any,
    y: Any = None,
    *,
    from_group: Any = None,
    to_group: Any = None,
    cut: float | None = None,
    threshold: float | None = None,
    scale: Scale = "response",
    adverse: Literal["low", "high"] = "low",
    output: int | str = 0,
    sample_weight: npt.ArrayLike | str | None = None,
    n_bootstrap: int = 200,
    coverage: float = 0.95,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> GroupGap:
    """Return how the predictions of two groups differ, effect by effect.

    The difference between the mean margins of two groups is exactly the sum, over all effects and
    the remainder, of the differences between their means in the two groups. The column that defines
    the groups need not be in the model.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows. Of rows in batches (see `purify`), at most 100 000 are drawn; the result says so.
    group : array_like of shape (n_rows,) or str
        The group of each row: labels, or numbers that `cut` divides; or the name of a column.
        Rows without a value, or of other groups, are left out.
    y : array_like of shape (n_rows,) or str, optional
        The observed target: 0 and 1, or classes; for rows in batches, the name of a column.
        Needed for true and false positive rates.
    from_group, to_group : object, optional
        The first and the second group; differences are the second group minus the first. Not needed
        if there are only two labels, which are then taken in alphabetical order.
    cut : float, optional
        Rows below it are the first group, all others the second.
    threshold : float, optional
        Rows at or above it, up to rounding, are predicted to be positive; without it there are no
        rates.
    scale : {"response", "margin"}
        The scale of the threshold.
    adverse : {"low", "high"}
        The side of the threshold that is rejected, such as ``"high"`` for a probability of default.
    output : int or str
        The output whose gap is measured, by position or name.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative; for rows in batches, the name of the column of
        weights.
    n_bootstrap : int
        Number of bootstrap samples for the intervals, in which each row is drawn a Poisson number
        of times; 0 for no intervals. The model and its effects stay the same. Intervals over
        trainings are added if `d` has a ``spread``.
    coverage : float
        Nominal coverage of the intervals, which are percentiles of the bootstrap samples.
    seed : int
        Seed of the bootstrap.
    memory_budget : int
        Bytes that sums over bootstrap samples may take.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    GroupGap
        Differences of means are on the margin scale.

    Raises
    ------
    InvalidInputError
        If one of the groups has no rows, or an option cannot be used.
    MemoryBudgetError
        If the sums would not fit.

    See Also
    --------
    drift : Change between two data sets.
    without_features : Remove all effects of some features.
    treepurify.plots.mean_difference : Figure of a gap or a drift.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> group = np.where(X[:, 0] + rng.normal(size=600) > 0, "b", "a")
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, X[:, 0] + X[:, 1])
    >>> d = tp.purify(model, X)
    >>> gap = tp.group_gap(d, X, group)
    >>> gap.to_frame()["term"].iloc[0]
    'x0'
    >>> difference = d.predict(X[group == "b"]).mean() - d.predict(X[group == "a"]).mean()
    >>> bool(np.isclose(gap.to_frame()["difference"].sum(), difference, atol=1e-12))
    True
    """
    check_result("d", d, Decomposition)
    draws = read_draws(n_bootstrap, coverage, seed)
    chosen = read_output(output, d.output_names)
    if y is not None and threshold is None:
        raise InvalidInputError(
            "y is only used for rates at a threshold: pass threshold=, or leave y out"
        )
    report = progress_report(progress)
    decision = _read_decision(d, threshold, scale, adverse, chosen)
    observed = (group,) if y is None else (group, y)
    given = given_rows(X, d.inputs.features, sample_weight, observed, memory_budget, report)
    columns = d.inputs.columns(given.table)
    weights = read_row_weights(given.weights, columns.n_rows)
    names, codes = find_groups(given.observed[0], columns.n_rows, from_group, to_group, cut)
    numbers = None
    if decision is not None:
        positive = None
        if y is not None:
            positive = read_class(given.observed[1], d.output_names, chosen, columns.n_rows)
        numbers = rate_numbers(decision, d.on_rows(columns), positive)
    sums = group_sums(d, columns, weights, codes, numbers, draws, memory_budget, report, n_groups=2)
    for name, weight in zip(names, sums.weight[0], strict=True):
        if not weight > 0:
            raise InvalidInputError(f"the group {name!r} has no rows of positive weight")
    rates = None
    if decision is not None:
        rates = approval_rates(decision, d.output_names[chosen], sums, draws)
    return GroupGap(mean_differences(d, names, sums, draws), rates, given.sentence)


def _read_decision(
    d: Decomposition, threshold: Any, scale: Any, adverse: Any, output: int
) -> Decision | None:
    check_choice("scale", scale, ("response", "margin"))
    check_choice("adverse", adverse, ("low", "high"))
    if threshold is None:
        return None
    check_number("threshold", threshold)
    return Decision(d.link, output, float(threshold), scale, adverse, _rounding(d))


def _rounding(d: Decomposition) -> float:
    """Return what sums of effects differ by from margins of the library that are equal."""
    known = d.certificate
    if known is None:
        return _ROUNDING * largest_effect(d.intercept, d.tensor_components().values())
    return max(_ROUNDING, known.library_rounding or 0.0) * known.scale
