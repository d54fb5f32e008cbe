"""Approval rates of two groups at a threshold, and which effects make them differ.

A rate is no mean of effects, so its difference is divided among them by Shapley values of this
game: the effects of a set are as they are on each row, all others equal their mean over all rows
of both groups, and the value of the set is the difference of the rates. Without any effect all
rows have one margin, so the value is zero; with all effects it is the difference that was observed.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from treepurify.budget import check_budget
from treepurify.decomposition import Decomposition, Scale
from treepurify.evidence.held_out import ObservedRows
from treepurify.evidence.resampling import Intervals
from treepurify.evidence.worth import shapley_of_losses
from treepurify.links import Link
from treepurify.progress import ProgressReport
from treepurify.rows.labelled_rows import as_statistic
from treepurify.rows.reduction import RowStream
from treepurify.typing import Array, Indices, Mask
from treepurify.validation.group_sums import Draws, GroupCodes, PartSums

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MOST_ENUMERATED",
    "ApprovalRates",
    "Decision",
    "approval_rates",
    "rate_by_effect",
    "rate_numbers",
]

MOST_ENUMERATED = 15
"""Most effects whose sets are all tried; of more, random orders are."""
_ROWS_AT_ONCE = 1 << 12


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

    def on_margin(self) -> "Decision":
        """Return the same decision of one output by its margin: the link need not be computed."""
        if self.scale == "margin":
            return self
        return replace(self, scale="margin", threshold=_smallest_margin(self.link, self.threshold))


@dataclass(frozen=True, eq=False)
class ApprovalRates:
    """Approval rates of two groups, and their difference by effect.

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
    by_effect : ndarray of float64, shape (n_effects,), optional
        Contributions (Shapley values) of the effects to `difference`; they sum to it.
    by_effect_error : ndarray of float64, shape (n_effects,)
        Standard errors of `by_effect` over random orders; zero if all sets of effects were
        evaluated.
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
    by_effect: Array | None = None
    by_effect_error: Array | None = None
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


def _smallest_margin(link: Link, threshold: float) -> float:
    """Return the smallest margin whose response reaches a threshold; infinite where none does."""
    # Positive doubles have the order of their bits: this halves the number of doubles between.
    high = int(np.array(np.inf).view(np.int64))
    low = -high

    def double(bits: int) -> float:
        return float(np.copysign(np.array(abs(bits)).view(np.float64), bits))

    while high - low > 1:
        middle = (low + high) // 2
        with np.errstate(over="ignore"):
            reached = link.inverse(np.array([double(middle)]))[0] >= threshold
        low, high = (low, middle) if reached else (middle, high)
    return double(high)


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


def rate_by_effect(
    d: Decomposition,
    stream: RowStream,
    codes: GroupCodes,
    decision: Decision,
    sums: PartSums,
    n_permutations: int,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
) -> tuple[Array, Array]:
    """Return the Shapley values of effects for the difference of approval rates.

    Parameters
    ----------
    d : Decomposition
        The effects.
    stream : RowStream
        The rows, with what tells their groups.
    codes : callable
        Returns their groups: 0, 1, or -1 for neither.
    decision : Decision
        Which rows are approved.
    sums : PartSums
        Sums over both groups.
    n_permutations : int
        Number of random orders, where there are more than 15 effects. Every second one is the
        reverse of the one before, so that errors partly cancel.
    seed : int
        Seed of these orders.
    memory_budget : int
        Bytes that the values of effects may take, some rows at a time, and the rates.
    report : callable
        Progress.

    Returns
    -------
    values, standard_errors : ndarray of float64, shape (n_effects,)
        They sum to the difference of the rates of all rows; errors are zero where every set of
        effects was tried.
    """
    n_effects = sums.parts.shape[2]
    means = sums.parts[0].sum(axis=0) / sums.weight[0].sum()
    is_small = n_effects <= MOST_ENUMERATED
    orders = None if is_small else _orders(n_effects, n_permutations, seed)
    chosen = decision.on_margin() if d.n_outputs == 1 else decision
    game = _RateGame(replace(d, rows=None), codes, chosen, means, sums.weight[0], orders)
    check_budget(
        8 * (n_effects + 4) * _ROWS_AT_ONCE * d.n_outputs + 16 * game.zero().size,
        memory_budget,
        f"the rates of sets of {n_effects} effects",
        "Use fewer permutations.",
    )
    values = stream.reduce(as_statistic(game), "trying sets of effects", report)
    if orders is None:
        return -shapley_of_losses(values, n_effects), np.zeros(n_effects)
    added = np.empty((len(orders), n_effects))
    np.put_along_axis(added, orders, np.diff(values, axis=1), axis=1)
    pairs = added.reshape(-1, 2, n_effects).mean(axis=1)
    error = pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else pairs[0] * np.nan
    return added.mean(axis=0), np.asarray(error)


def _orders(n_effects: int, n_permutations: int, seed: int) -> Indices:
    """Return orders of effects, each followed by its reverse, shape (n_orders, n_effects)."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(n_effects) for _ in range(max((n_permutations + 1) // 2, 1))]
    return np.array([one for order in orders for one in (order, order[::-1])])


@dataclass(frozen=True, eq=False)
class _RateGame:
    """The statistic of the difference of approval rates for sets of effects, of `ObservedRows`.

    The state is the value of each set, by its bits; or, with orders of effects, of the first
    effects of each order, shape (n_orders, 1 + n_effects).
    """

    d: Decomposition
    codes: GroupCodes
    decision: Decision
    means: Array
    group_weight: Array
    orders: Indices | None

    def zero(self) -> Array:
        """Return the values over no rows."""
        if self.orders is None:
            return np.zeros(1 << len(self.means))
        return np.zeros((len(self.orders), 1 + len(self.means)))

    def add(self, state: Array, rows: ObservedRows) -> Array:
        """Return the values with a batch added to both rates."""
        batch, codes = rows.rows, self.codes(rows.observed, len(rows))
        # Approved rows of the second group raise the difference, those of the first lower it.
        signed = batch.counts * np.choose(
            codes + 1, [0.0, *(np.array([-1, 1]) / self.group_weight)]
        )
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            rows.report("trying sets of effects", start, len(rows))
            own = np.flatnonzero(signed[start : start + _ROWS_AT_ONCE])
            columns = batch.columns.part(start, start + _ROWS_AT_ONCE).take(own)
            parts = np.array(list(self.d.evaluate_parts(columns)))
            self._add_values(state, parts, signed[start : start + _ROWS_AT_ONCE][own])
        return state

    def merge(self, state: Array, other: Array) -> Array:
        """Return the values over the rows of both."""
        return state + other

    def _add_values(self, values: Array, parts: Array, signed: Array) -> None:
        # All effects are the model itself, however the sums of others are rounded.
        whole = self._rate(np.sum(parts, axis=0) + self.d.intercept, signed)
        parts = parts - self.means[:, None]
        margin = np.tile(self.d.intercept + self.means.sum(axis=0), (len(signed), 1))
        if self.orders is None:
            values[-1] += whole
            self._add_sets(values, margin, parts, signed)
            return
        values[:, -1] += whole
        for value, order in zip(values, self.orders, strict=True):
            current = margin.copy()
            for size, effect in enumerate(order[:-1], start=1):
                current += parts[effect]
                value[size] += self._rate(current, signed)

    def _add_sets(self, values: Array, margin: Array, parts: Array, signed: Array) -> None:
        """Add to the values of all other sets, in the order of a Gray code: one effect a step."""
        chosen = 0
        for step in range(1, len(values)):
            effect = (step & -step).bit_length() - 1
            chosen ^= 1 << effect
            if chosen >> effect & 1:
                margin += parts[effect]
            else:
                margin -= parts[effect]
            if chosen != len(values) - 1:
                values[chosen] += self._rate(margin, signed)

    def _rate(self, margin: Array, signed: Array) -> float:
        return float(signed @ self.decision.is_approved(margin))
