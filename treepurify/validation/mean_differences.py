"""The difference of two mean margins as the sum over effects of the differences of their means."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_number, check_whole
from treepurify.decomposition import Decomposition
from treepurify.evidence.resampling import Intervals
from treepurify.grids.grid import Subset
from treepurify.spread import one_more_training
from treepurify.typing import Array
from treepurify.validation.group_sums import Draws, PartSums

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MeanDifferences", "mean_differences", "read_draws"]


@dataclass(frozen=True, eq=False)
class MeanDifferences:
    """Difference between the mean margins of two groups of rows, effect by effect.

    Parameters
    ----------
    decomposition : Decomposition
        The effects.
    names : tuple of str
        Names of the two groups of rows.
    n_rows : tuple of int
        Their numbers of rows of positive weight.
    subsets : tuple of tuple of int
        The features of each effect; a remainder is ().
    means : ndarray of float64, shape (2, n_effects, n_outputs)
        Mean of each effect in both groups, on the margin scale.
    effects : Intervals of shape (n_effects, n_outputs)
        Mean of each effect in the second group minus that in the first, with bootstrap intervals.
        The sum over effects is `total`.
    totals : ndarray of float64, shape (2, n_outputs)
        Mean margins of both groups.
    total : Intervals of shape (n_outputs,)
        Difference of the mean margins.
    standardized : Intervals of shape (n_outputs,)
        Difference of the mean margins divided by the pooled standard deviation of the margin (the
        root of the mean of both variances).
    coverage : float
        Nominal coverage of the intervals.
    n_bootstrap, seed : int
        Number of bootstrap samples, and their seed.
    training_low, training_high : ndarray of float64, shape (n_effects, n_outputs), optional
        Limits for the difference of each effect in one more training, from the spread of the
        decomposition; NaN if an effect is unknown for single trainings.
    total_training_low, total_training_high : ndarray of float64, shape (n_outputs,), optional
        Limits for the total difference in one more training; NaN if there is a remainder.
    """

    decomposition: Decomposition
    names: tuple[str, str]
    n_rows: tuple[int, int]
    subsets: tuple[Subset, ...]
    means: Array
    effects: Intervals
    totals: Array
    total: Intervals
    standardized: Intervals
    coverage: float
    n_bootstrap: int
    seed: int
    training_low: Array | None = None
    training_high: Array | None = None
    total_training_low: Array | None = None
    total_training_high: Array | None = None

    def term_name(self, place: int) -> str:
        """Return the name of the effect at a position."""
        return self.decomposition.term_name(self.subsets[place]) or "remainder"

    def largest(self, output: int = 0) -> list[int]:
        """Return the positions of the effects, the largest difference first."""
        order: list[int] = np.argsort(
            -np.abs(self.effects.value[:, output]), kind="stable"
        ).tolist()
        return order

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per effect and output, the largest difference first.

        Returns
        -------
        DataFrame
            ``term``, ``output`` if there are several, ``mean_first`` and ``mean_second`` (means of
            the effect in both groups), ``difference`` with the limits ``low`` and ``high`` of its
            interval and its bootstrap ``standard_error``, ``share`` of the difference of mean
            margins, and for several trainings ``training_low`` and ``training_high``.
        """
        import pandas as pd

        output_names = self.decomposition.output_names
        places = [(place, k) for k in range(len(output_names)) for place in self.largest(k)]
        effect, output = np.array(places, dtype=np.intp).reshape(-1, 2).T
        difference = self.effects.value[effect, output]
        total = self.total.value[output]
        columns: dict[str, Any] = {
            "term": [self.term_name(place) for place in effect],
            "output": [output_names[k] for k in output],
            "mean_first": self.means[0, effect, output],
            "mean_second": self.means[1, effect, output],
            "difference": difference,
            "low": self.effects.low[effect, output],
            "high": self.effects.high[effect, output],
            "standard_error": self.effects.standard_error[effect, output],
            "share": np.divide(
                difference, total, out=np.full(len(total), np.nan), where=total != 0
            ),
        }
        if self.training_low is not None and self.training_high is not None:
            columns["training_low"] = self.training_low[effect, output]
            columns["training_high"] = self.training_high[effect, output]
        if len(output_names) == 1:
            del columns["output"]
        return pd.DataFrame(columns)

    def sentences(self, top: int = 5) -> list[str]:
        """Return the difference of each output, and its largest parts, in sentences."""
        return [self._sentence(output, top) for output in range(self.decomposition.n_outputs)]

    def _sentence(self, output: int, top: int) -> str:
        d = self.decomposition
        which = f" of {d.output_names[output]}" if d.n_outputs > 1 else ""
        first, second = self.names
        value, low, high = (
            float(one[output]) for one in (self.total.value, self.total.low, self.total.high)
        )
        words = (
            f"The mean margin{which} is {self.totals[0, output]:.4g} ({first}) and "
            f"{self.totals[1, output]:.4g} ({second}), a difference of {value:+.4g}"
        )
        if self.n_bootstrap:
            words += f" ({self.coverage:.0%} interval {low:+.4g} to {high:+.4g} over rows)"
        spread = float(self.standardized.value[output])
        words += f", or {spread:+.2f} standard deviations." if np.isfinite(spread) else "."
        named = [
            f"{self.term_name(place)} {self.effects.value[place, output]:+.4g}"
            for place in self.largest(output)[:top]
        ]
        rest = len(self.subsets) - len(named)
        more = f", and {rest} more" if rest > 0 else ""
        return f"{words} By effect: {', '.join(named)}{more}."


def mean_differences(
    d: Decomposition, names: tuple[str, str], sums: PartSums, draws: Draws
) -> MeanDifferences:
    """Return the differences of the means of two groups, from their sums."""
    margins, variances = sums.margin_means, sums.margin_variances
    gap = margins[:, 1] - margins[:, 0]
    deviation = np.sqrt(variances.mean(axis=1))
    standardized = gap / np.where(deviation > 0, deviation, np.nan)
    subsets = (*d.components, *([()] if d.remainder is not None else []))
    return MeanDifferences(
        decomposition=d,
        names=names,
        n_rows=(int(sums.n_rows[0, 0]), int(sums.n_rows[0, 1])),
        subsets=subsets,
        means=sums.means[0],
        effects=draws.intervals(sums.means[:, 1] - sums.means[:, 0]),
        totals=d.intercept + margins[0],
        total=draws.intervals(gap),
        standardized=draws.intervals(standardized),
        coverage=draws.coverage,
        n_bootstrap=draws.n_bootstrap,
        seed=draws.seed,
        **_over_trainings(d, subsets, sums, draws.coverage),
    )


def _over_trainings(
    d: Decomposition, subsets: tuple[Subset, ...], sums: PartSums, coverage: float
) -> dict[str, Array]:
    """Return the intervals of one more training; nothing where there is one only."""
    if d.spread is None:
        return {}
    means = sums.training_means
    by_model = means[:, 1] - means[:, 0]
    known = {subset: place for place, subset in enumerate(d.spread.stacked)}
    lower, upper = np.full((2, len(subsets), d.n_outputs), np.nan)
    for place, subset in enumerate(subsets):
        if subset in known:
            lower[place], upper[place] = one_more_training(by_model[:, known[subset]], coverage)
    total = np.full((2, d.n_outputs), np.nan)
    if d.remainder is None:
        total = np.stack(one_more_training(by_model.sum(axis=1), coverage))
    return {
        "training_low": lower,
        "training_high": upper,
        "total_training_low": total[0],
        "total_training_high": total[1],
    }


def read_draws(n_bootstrap: int, coverage: float, seed: int) -> Draws:
    """Return how rows are drawn again, checked.

    Raises
    ------
    InvalidInputError
        If the options are out of range.
    """
    check_whole("n_bootstrap", n_bootstrap, 0)
    check_whole("seed", seed, 0)
    check_number("coverage", coverage, least=0, most=1, open_ends=True)
    return Draws(n_bootstrap, seed, coverage)
