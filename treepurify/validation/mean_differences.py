"""The difference of two mean margins as the sum over effects of the differences of their means.

The two groups of rows may be parts of one data set, or two data sets. Intervals come from rows that
are drawn again, each a Poisson number of times.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.evidence.resampling import Intervals, intervals_of_draws
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.resampling import times_drawn
from treepurify.spread import one_more_training
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

COVERAGE = 0.95
"""Nominal coverage of intervals."""

_N_DRAWS, _SEED = 200, 0
# Values of rows and parts that stay in the cache while they are drawn again.
_VALUES_AT_ONCE = 1 << 18
_LEAST_ROWS, _MOST_ROWS = 1 << 8, 1 << 12


class GroupMeans(NamedTuple):
    """Weighted means over the rows of each group, first of all rows, then of each draw of them.

    Parameters
    ----------
    parts : ndarray of float64, shape (1 + n_draws, n_groups, n_parts, n_outputs)
        Means of the effects, and of the remainder where there is one; NaN without rows.
    numbers : ndarray of float64, shape (1 + n_draws, n_groups, n)
        Means of further numbers of each row.
    trainings : ndarray of float64, shape (n_models, n_groups, n_parts, n_outputs)
        Means over all rows in each training, NaN where they are not known.
    """

    parts: Array
    numbers: Array
    trainings: Array

    def with_groups_of(self, other: "GroupMeans") -> "GroupMeans":
        """Return the groups of two data sets."""
        return GroupMeans(*(np.concatenate(p, axis=1) for p in zip(self, other, strict=True)))


def group_means(
    d: Decomposition,
    columns: Columns,
    weights: Array,
    numbers: Array,
    report: ProgressReport,
    data_set: int = 0,
) -> GroupMeans:
    """Return means over groups of rows.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_groups, n_rows)
        Their weights in each group.
    numbers : ndarray of float64, shape (n_rows, n)
        Further numbers of each row.
    report : callable
        Progress.
    data_set : int
        Which of several data sets this is: they are drawn independently.
    """
    n_groups, n_rows = weights.shape
    n_outputs, subsets = d.n_outputs, _subsets(d)
    width = 1 + len(subsets) * n_outputs + numbers.shape[1]
    check_budget(
        8 * width * (n_groups * (1 + _N_DRAWS) + 3 * _MOST_ROWS),
        DEFAULT_BUDGET,
        f"the sums of {len(subsets)} effects over {_N_DRAWS} draws of the rows",
        "Decompose the model into fewer effects.",
    )
    n_models, of_models = 0, {}
    if d.spread is not None:
        n_models = d.spread.n_models
        of_models = {subset: part for subset, part in d.spread.stacked.items() if subset in subsets}
    sums = np.zeros((1 + _N_DRAWS, n_groups, width))
    trainings = np.full((n_models, n_groups, len(subsets), n_outputs), np.nan)
    places = [subsets.index(subset) for subset in of_models]
    trainings[:, :, places] = 0.0
    size = int(np.clip(_VALUES_AT_ONCE // width, _LEAST_ROWS, _MOST_ROWS))
    for start in range(0, n_rows, size):
        report("measuring differences", start, n_rows)
        some = slice(start, start + size)
        block = columns.part(start, start + size)
        one = np.ones((block.n_rows, 1))
        values = np.concatenate([one, *d.evaluate_parts(block), numbers[some]], axis=1)
        drawn = [
            times_drawn(_SEED, data_set * _N_DRAWS + number, start, block.n_rows)
            for number in range(_N_DRAWS)
        ]
        times = np.stack([one[:, 0], *drawn])
        for group, counts in enumerate(weights[:, some]):
            own = np.flatnonzero(counts)
            sums[:, group] += (times[:, own] * counts[own]) @ values[own]
        for place, effect in zip(places, evaluate_each(of_models.values(), block), strict=True):
            own_sums = (weights[:, some] @ effect).reshape(n_groups, n_models, n_outputs)
            trainings[:, :, place] += own_sums.swapaxes(0, 1)
    # A draw in which a group has no rows has no means.
    weight = np.where(sums[..., :1] > 0, sums[..., :1], np.nan)
    parts, further = np.split(sums[..., 1:] / weight, [width - 1 - numbers.shape[1]], axis=2)
    return GroupMeans(
        parts.reshape(*parts.shape[:2], len(subsets), n_outputs),
        further,
        trainings / weight[0, :, :, None],
    )


def _subsets(d: Decomposition) -> tuple[Subset, ...]:
    return (*d.components, *([()] if d.remainder is not None else []))


def intervals(values: Array) -> Intervals:
    """Return the intervals of numbers, shape (1 + n_draws, ...), first of all rows."""
    found = intervals_of_draws(values[0].ravel(), values[1:].reshape(_N_DRAWS, -1), COVERAGE)
    low, high, error = (
        end.reshape(values.shape[1:]) for end in (found.low, found.high, found.standard_error)
    )
    return Intervals(values[0], low, high, error, found.undefined)


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
    group_means : GroupMeans
        The means of both groups.

    See Also
    --------
    treepurify.group_gap : Difference of predictions between two groups.
    treepurify.drift : Change between two data sets.
    """

    decomposition: Decomposition
    names: tuple[str, str]
    n_rows: tuple[int, int]
    group_means: GroupMeans

    @property
    def subsets(self) -> tuple[Subset, ...]:
        """The features of each effect; a remainder is ()."""
        return _subsets(self.decomposition)

    @property
    def means(self) -> Array:
        """Mean of each effect in both groups, shape (2, n_effects, n_outputs)."""
        return np.asarray(self.group_means.parts[0])

    @property
    def totals(self) -> Array:
        """Mean margins of both groups, shape (2, n_outputs)."""
        return np.asarray(self.decomposition.intercept + self.means.sum(axis=1))

    @cached_property
    def effects(self) -> Intervals:
        """Mean of each effect in the second group minus that in the first; they add to `total`."""
        parts = self.group_means.parts
        return intervals(parts[:, 1] - parts[:, 0])

    @cached_property
    def total(self) -> Intervals:
        """Difference of the mean margins, shape (n_outputs,)."""
        margins = self.group_means.parts.sum(axis=2)
        return intervals(margins[:, 1] - margins[:, 0])

    @property
    def trainings(self) -> Array:
        """Differences in each training, (n_models, n_effects, n_outputs); NaN if not known."""
        means = self.group_means.trainings
        return np.asarray(means[:, 1] - means[:, 0])

    def term_name(self, place: int) -> str:
        """Return the name of the effect at a position."""
        return self.decomposition.term_name(self.subsets[place]) or "remainder"

    def largest(self, output: int = 0) -> list[int]:
        """Return the positions of the effects, the largest difference first."""
        size = np.abs(self.means[1, :, output] - self.means[0, :, output])
        return [int(place) for place in np.argsort(-size, kind="stable")]

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
        found, total = self.effects, self.total.value[output]
        difference = found.value[effect, output]
        columns: dict[str, Any] = {
            "term": [self.term_name(place) for place in effect],
            "output": [output_names[k] for k in output],
            "mean_first": self.means[0, effect, output],
            "mean_second": self.means[1, effect, output],
            "difference": difference,
            "low": found.low[effect, output],
            "high": found.high[effect, output],
            "standard_error": found.standard_error[effect, output],
            "share": np.divide(
                difference, total, out=np.full(len(total), np.nan), where=total != 0
            ),
        }
        if len(self.trainings):
            low, high = one_more_training(self.trainings, COVERAGE)
            columns["training_low"] = low[effect, output]
            columns["training_high"] = high[effect, output]
        if len(output_names) == 1:
            del columns["output"]
        return pd.DataFrame(columns)

    def sentences(self, top: int = 5) -> list[str]:
        """Return the rows, the difference of each output, and its largest parts, in sentences."""
        (first, second), (n_first, n_second) = self.names, self.n_rows
        rows = f"{first}: {n_first} rows; {second}: {n_second} rows."
        return [rows, *(self._sentence(k, top) for k in range(self.decomposition.n_outputs))]

    def _sentence(self, output: int, top: int) -> str:
        d, total, effects = self.decomposition, self.total, self.effects.value[:, output]
        which = f" of {d.output_names[output]}" if d.n_outputs > 1 else ""
        first, second = self.names
        words = (
            f"The mean margin{which} is {self.totals[0, output]:.4g} ({first}) and "
            f"{self.totals[1, output]:.4g} ({second}), a difference of {total.value[output]:+.4g}"
        )
        if np.isfinite(total.low[output]):
            words += (
                f" ({COVERAGE:.0%} interval {total.low[output]:+.4g} to "
                f"{total.high[output]:+.4g} over rows)"
            )
        named = [
            f"{self.term_name(place)} {effects[place]:+.4g}" for place in self.largest(output)[:top]
        ]
        rest = len(effects) - len(named)
        more = f", and {rest} more" if rest > 0 else ""
        return f"{words}. By effect: {', '.join(named)}{more}."
