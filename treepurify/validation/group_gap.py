"""Gaps between two groups of rows: differences of mean margins and of rates, effect by effect."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import (
    brief,
    check_choice,
    check_number,
    check_result,
    check_whole,
    read_output,
)
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import largest_effect
from treepurify.errors import InvalidInputError
from treepurify.evidence.losses import read_class
from treepurify.evidence.resampling import Intervals
from treepurify.html_summary import html_summary
from treepurify.progress import progress_report
from treepurify.rows.given_rows import given_rows
from treepurify.rows.row_weights import read_row_weights, within_range
from treepurify.typing import Array, Indices, Mask
from treepurify.validation.mean_differences import (
    COVERAGE,
    GroupMeans,
    MeanDifferences,
    group_means,
    intervals,
)

if TYPE_CHECKING:
    import pandas as pd

# A sum of effects may be off by this part of the largest effect.
_ROUNDING = 1e-12
_MOST_NAMED = 12

LIMITS = (
    "This is what the model does on these rows. It does not say why groups differ, whether a "
    "difference is justified, or what another decision would lead to; a feature that is related "
    "to the group can account for part of the gap even if the group is not in the model."
)
"""What a gap does not show."""


@dataclass(frozen=True, eq=False)
class ApprovalRates:
    """Approval rates of two groups.

    Parameters
    ----------
    approval : ndarray of float64, shape (2,)
        Share of each group that is approved.
    difference : Intervals of shape ()
        Rate of the second group minus that of the first, with its bootstrap interval.
    ratio : Intervals of shape ()
        Rate of the second group divided by that of the first; NaN if that is zero.
    rule : str
        Which rows are approved, in words.
    true_positive, false_positive : ndarray of float64, shape (2,), optional
        Share of rows predicted to be positive among those observed to be positive, and among all
        others.
    hits : tuple of Intervals of shape ()
        Differences of these two rates, with bootstrap intervals; empty without observations.
    """

    approval: Array
    difference: Intervals
    ratio: Intervals
    rule: str
    true_positive: Array | None = None
    false_positive: Array | None = None
    hits: tuple[Intervals, ...] = ()

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per rate: ``rate``, ``first``, ``second``, ``difference`` and its limits.

        The last row is the ratio of the approval rates, in the column ``difference``.
        """
        import pandas as pd

        names = ("approval", "true positive", "false positive", "approval ratio")
        both = (self.approval, self.true_positive, self.false_positive, np.full(2, np.nan))
        found = (self.difference, *(self.hits or (None, None)), self.ratio)
        rows = [
            (name, *rates.tolist(), float(one.value), float(one.low), float(one.high))
            for name, rates, one in zip(names, both, found, strict=True)
            if rates is not None and one is not None
        ]
        return pd.DataFrame(rows, columns=["rate", "first", "second", "difference", "low", "high"])

    def sentences(self, names: tuple[str, str]) -> list[str]:
        """Return the rates in sentences."""
        low, high = 100 * float(self.difference.low), 100 * float(self.difference.high)
        interval = f" ({COVERAGE:.0%} interval {low:+.1f} to {high:+.1f})"
        lines = [
            f"{self.approval[0]:.1%} of {names[0]} and {self.approval[1]:.1%} of {names[1]} have a "
            f"{self.rule} (approved): a difference of "
            f"{100 * float(self.difference.value):+.1f} percentage points"
            f"{interval if np.isfinite(low) else ''}, a ratio of {float(self.ratio.value):.3g}."
        ]
        if self.true_positive is not None and self.false_positive is not None:
            lines.append(
                f"In the same order, true positive rates are {self.true_positive[0]:.1%} and "
                f"{self.true_positive[1]:.1%}, false positive rates {self.false_positive[0]:.1%} "
                f"and {self.false_positive[1]:.1%}."
            )
        return lines


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
        rates = [] if self.rates is None else self.rates.sentences(self.groups)
        sample = [self.sample] if self.sample else []
        return [*self.differences.sentences(top), *rates, *sample, LIMITS]

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary(self.summary(), self.to_frame())


def group_gap(
    d: Decomposition,
    X: Any,
    group: Any,
    y: Any = None,
    *,
    threshold: float | None = None,
    adverse: Literal["low", "high"] = "low",
    output: int | str = 0,
    sample_weight: npt.ArrayLike | str | None = None,
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
        The group of each row, or the name of a column: two labels, in their order. Of more labels
        or in another order, ``pd.Categorical(labels).set_categories(["new", "old"])`` keeps two.
        Rows without a value are left out.
    y : array_like of shape (n_rows,) or str, optional
        The observed target: 0 and 1, or classes; for rows in batches, the name of a column.
        Needed for true and false positive rates.
    threshold : float, optional
        Rows whose prediction is at or above it, up to rounding, are predicted to be positive;
        without it there are no rates.
    adverse : {"low", "high"}
        The side of the threshold that is rejected, such as ``"high"`` for a probability of default.
    output : int or str
        The output that the threshold and `y` refer to, by position or name.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative; for rows in batches, the name of the column of
        weights.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    GroupGap
        Differences of means are on the margin scale; the second group minus the first.

    Raises
    ------
    InvalidInputError
        If there are no two groups, one of them has no rows, or an option cannot be used.

    See Also
    --------
    drift : Change between two data sets.
    without_features : Remove all effects of some features.
    treepurify.plots.mean_difference : Figure of a gap or a drift.

    Notes
    -----
    Intervals are percentiles of 200 bootstrap samples with a fixed seed, in which each row is drawn
    a Poisson number of times; their nominal coverage is 95%. The model and its effects stay the
    same. Intervals over trainings are added if `d` has a ``spread``.

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
    check_choice("adverse", adverse, ("low", "high"))
    chosen = read_output(output, d.output_names)
    if threshold is not None:
        check_number("threshold", threshold)
    elif y is not None:
        raise InvalidInputError(
            "y is only used for rates at a threshold: pass threshold=, or leave y out"
        )
    report = progress_report(progress)
    observed = (group,) if y is None else (group, y)
    given = given_rows(X, d.inputs.features, sample_weight, observed, DEFAULT_BUDGET, report)
    columns = d.inputs.columns(given.table)
    weights = read_row_weights(given.weights, columns.n_rows)
    names, codes = _find_groups(given.observed[0], columns.n_rows)
    counts = (codes == np.arange(2)[:, None]) * (1.0 if weights is None else within_range(weights))
    n_first, n_second = np.count_nonzero(counts, axis=1).tolist()
    for name, n_rows in zip(names, (n_first, n_second), strict=True):
        if not n_rows:
            raise InvalidInputError(f"the group {name!r} has no rows of positive weight")
    numbers = np.empty((columns.n_rows, 0))
    if threshold is not None:
        positive = is_positive(d, d.on_rows(columns), chosen, threshold)
        numbers = (positive == (adverse == "low"))[:, None] * 1.0
        if y is not None:
            true = read_class(given.observed[1], d.output_names, chosen, columns.n_rows)
            seen = np.stack([true, 1.0 - true], axis=1)
            numbers = np.concatenate([numbers, seen, seen * positive[:, None]], axis=1)
    means = group_means(d, columns, counts, numbers, report)
    rates = None
    if threshold is not None:
        rule = f"prediction {'of at least' if adverse == 'low' else 'below'} {threshold:g}"
        rates = _rates(means, rule)
    differences = MeanDifferences(d, names, (n_first, n_second), means)
    return GroupGap(differences, rates, given.sentence)


def is_positive(d: Decomposition, margin: Array, output: int, threshold: float) -> Mask:
    """Return whether predictions of one output reach a threshold up to rounding, (n_rows,)."""
    known = d.certificate
    if known is None:
        rounding = _ROUNDING * largest_effect(d.intercept, d.tensor_components().values())
    else:
        # Sums of effects differ by so much from margins of the library that are equal.
        rounding = max(_ROUNDING, known.library_rounding or 0.0) * known.scale
    moved = rounding * (np.arange(margin.shape[1]) == output)
    # Calibrations may fall with the margin.
    ends = [d.link.inverse(margin + way * moved) for way in (-1, 1)]
    return np.asarray(np.maximum(*ends)[:, output] >= threshold)


def _rates(means: GroupMeans, rule: str) -> ApprovalRates:
    approval, seen, hits = np.split(means.numbers, [1, 3], axis=2)
    approval = approval[..., 0]
    base = np.where(approval[:, 0] > 0, approval[:, 0], np.nan)
    difference = intervals(approval[:, 1] - approval[:, 0])
    ratio = intervals(approval[:, 1] / base)
    if not hits.size:
        return ApprovalRates(approval[0], difference, ratio, rule)
    true, false = np.moveaxis(hits / np.where(seen > 0, seen, np.nan), 2, 0)
    of_hits = tuple(intervals(rate[:, 1] - rate[:, 0]) for rate in (true, false))
    return ApprovalRates(approval[0], difference, ratio, rule, true[0], false[0], of_hits)


def _find_groups(group: Any, n_rows: int) -> tuple[tuple[str, str], Indices]:
    """Return the names of the two groups, and 0 or 1 for the rows of each, -1 for others."""
    import pandas as pd

    try:
        is_ordered = isinstance(getattr(group, "dtype", None), pd.CategoricalDtype)
        values = group if is_ordered else np.asarray(group)
    except ValueError:  # lists of several lengths
        values = np.empty(0)
    if values.shape != (n_rows,):
        raise InvalidInputError(
            f"group must contain one value per row of X ({n_rows}), or be the name of a column; "
            f"got {brief(group)}"
        )
    codes, found = pd.factorize(values, sort=True)
    labels = [str(label) for label in found]
    if len(labels) != 2:
        counts = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
        listed = [f"{label} ({n} rows)" for label, n in zip(labels, counts, strict=True)]
        named = ", ".join(listed[:_MOST_NAMED]) + " ..." * (len(labels) > _MOST_NAMED)
        raise InvalidInputError(
            f"group must have two labels; it has {named or 'none'}: "
            'keep two, such as pd.Categorical(labels).set_categories(["new", "old"]); rows of '
            "other labels are then left out"
        )
    return (labels[0], labels[1]), codes
