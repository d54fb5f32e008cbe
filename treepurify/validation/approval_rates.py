"""Approval rates of two groups at a threshold."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from treepurify.decomposition import Scale
from treepurify.evidence.resampling import Intervals
from treepurify.links import Link
from treepurify.typing import Array, Mask
from treepurify.validation.group_sums import Draws, PartSums

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ApprovalRates",
    "Decision",
    "approval_rates",
    "rate_numbers",
]


@dataclass(frozen=True)
class Decision:
    """Which rows are approved, and which are predicted to be positive.

    Parameters
    ----------
    link : Link
        From the margin to the response.
    output : int
        The output that decides.
    threshold : float
        On the scale; rows at or above it are predicted to be positive.
    scale : {"response", "margin"}
        The scale of the threshold.
    adverse : {"low", "high"}
        Which side is refused: rows below the threshold, or those at or above it.
    rounding : float
        What a sum of effects may be off by: margins so close to the threshold reach it.
    """

    link: Link
    output: int
    threshold: float
    scale: Scale
    adverse: str
    rounding: float = 0.0

    def is_positive(self, margin: Array) -> Mask:
        """Return whether margins (n_rows, n_outputs) reach the threshold, shape (n_rows,)."""
        if self.scale == "margin":
            return np.asarray(margin[:, self.output] >= self.threshold - self.rounding)
        is_own = np.arange(margin.shape[1]) == self.output
        # Calibrations may fall with the margin.
        ends = [self.link.inverse(margin + way * self.rounding * is_own) for way in (-1, 1)]
        return np.asarray(np.maximum(*ends)[:, self.output] >= self.threshold)

    def is_approved(self, margin: Array) -> Mask:
        """Return whether rows are approved, shape (n_rows,)."""
        return np.asarray(self.is_positive(margin) == (self.adverse == "low"))


@dataclass(frozen=True, eq=False)
class ApprovalRates:
    """Approval rates of two groups.

    Parameters
    ----------
    decision : Decision
        Which rows are approved.
    output_name : str
        Name of the output that decides.
    approval : ndarray of float64, shape (2,)
        Share of each group that is approved.
    difference : Intervals of shape ()
        Rate of the second group minus that of the first, with its bootstrap interval.
    ratio : Intervals of shape ()
        Rate of the second group divided by that of the first; NaN if that is zero.
    true_positive, false_positive : ndarray of float64, shape (2,), optional
        Share of rows predicted to be positive among those observed to be positive, and among all
        others.
    true_positive_difference, false_positive_difference : Intervals of shape (), optional
        Differences of these rates, with bootstrap intervals.
    """

    decision: Decision
    output_name: str
    approval: Array
    difference: Intervals
    ratio: Intervals
    true_positive: Array | None = None
    false_positive: Array | None = None
    true_positive_difference: Intervals | None = None
    false_positive_difference: Intervals | None = None

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per rate: ``rate``, ``first``, ``second``, ``difference`` and its limits.

        The last row is the ratio of the approval rates, in the column ``difference``.
        """
        import pandas as pd

        rates = [("approval", self.approval, self.difference)]
        if self.true_positive is not None and self.true_positive_difference is not None:
            rates.append(("true positive", self.true_positive, self.true_positive_difference))
        if self.false_positive is not None and self.false_positive_difference is not None:
            rates.append(("false positive", self.false_positive, self.false_positive_difference))
        rates.append(("approval ratio", np.full(2, np.nan), self.ratio))
        rows = [
            (name, *both.tolist(), *map(float, (found.value, found.low, found.high)))
            for name, both, found in rates
        ]
        return pd.DataFrame(rows, columns=["rate", "first", "second", "difference", "low", "high"])

    def sentences(self, names: tuple[str, str], coverage: float) -> list[str]:
        """Return the rates in sentences."""
        first, second = names
        low, high = float(self.difference.low), float(self.difference.high)
        interval = f" ({coverage:.0%} interval {100 * low:+.1f} to {100 * high:+.1f})"
        is_low = self.decision.adverse == "low"
        what = "margin" if self.decision.scale == "margin" else "prediction"
        lines = [
            f"{self.approval[0]:.1%} of {first} and {self.approval[1]:.1%} of {second} have a "
            f"{what} {'of at least' if is_low else 'below'} {self.decision.threshold:g} "
            "(approved): a difference of "
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


def rate_numbers(decision: Decision, margin: Array, positive: Array | None) -> Array:
    """Return what rates are means of, shape (n_rows, 1) or (n_rows, 5).

    Whether a row is approved; and where it is known which were observed to be positive, that, the
    rest, and which of both are predicted to be so.
    """
    approved = decision.is_approved(margin).astype(np.float64)
    if positive is None:
        return approved[:, None]
    predicted = decision.is_positive(margin)
    negative = 1.0 - positive
    return np.stack(
        [approved, positive, negative, positive * predicted, negative * predicted], axis=1
    )


def approval_rates(
    decision: Decision, output_name: str, sums: PartSums, draws: Draws
) -> ApprovalRates:
    """Return the rates of two groups, from the sums of `rate_numbers`."""
    means = sums.number_means
    approval = means[:, :, 0]
    base = np.where(approval[:, 0] > 0, approval[:, 0], np.nan)
    rates = ApprovalRates(
        decision,
        output_name,
        approval[0],
        draws.intervals(approval[:, 1] - approval[:, 0]),
        draws.intervals(approval[:, 1] / base),
    )
    if means.shape[2] == 1:
        return rates
    observed = np.where(means[:, :, 1:3] > 0, means[:, :, 1:3], np.nan)
    hits = means[:, :, 3:5] / observed
    differences = [draws.intervals(hits[:, 1, k] - hits[:, 0, k]) for k in range(2)]
    return replace(
        rates,
        true_positive=hits[0, :, 0],
        false_positive=hits[0, :, 1],
        true_positive_difference=differences[0],
        false_positive_difference=differences[1],
    )
