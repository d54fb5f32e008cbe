"""The order of effects by size, with those together that must be read together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from treepurify.collinear import CollinearEffects
from treepurify.grids.grid import Subset
from treepurify.typing import Array

OFFSETS = "offsets other effects"
"""What a negative share means: where the effect raises the prediction, others lower it by more."""

# A smaller negative share is rounded to zero per cent.
_LEAST_AGAINST = 0.005


class Line(NamedTuple):
    """A line of a table of effects.

    Parameters
    ----------
    subset : tuple of int, optional
        The effect, ``()`` for the remainder; None for the sum of effects that cancel.
    size : float
        Standard deviation, the root mean square over the outputs; NaN if it is not known.
    share : float
        Share of the variance of the model by covariance; NaN if it is not known.
    rank : int
        From 1; effects that cancel have the rank of their sum.
    group : CollinearEffects, optional
        The effects that cancel, if this is their sum or one of them.
    """

    subset: Subset | None
    size: float
    share: float
    rank: int
    group: CollinearEffects | None = None

    @property
    def is_sum(self) -> bool:
        """Whether this is the sum of effects that cancel."""
        return self.subset is None

    @property
    def is_member(self) -> bool:
        """Whether this is one of the effects that cancel."""
        return self.group is not None and not self.is_sum

    @property
    def offsets(self) -> bool:
        """Whether a negative share needs a word."""
        return self.group is None and self.share <= -_LEAST_AGAINST

    def name(self, term_name: Callable[[Subset], str]) -> str:
        """Return what the line is called, given the names of effects."""
        if self.subset is None:
            return self.group.joint_name if self.group else ""
        return term_name(self.subset) or "remainder"


@dataclass(frozen=True)
class Ranking:
    """Effects in the order of their size.

    Parameters
    ----------
    lines : tuple of Line
        The largest first. Effects that largely cancel rank by the size of their sum, which has a
        line above theirs.
    collinear : tuple of CollinearEffects
        The effects to be read together.
    """

    lines: tuple[Line, ...]
    collinear: tuple[CollinearEffects, ...] = ()

    @property
    def by_effect(self) -> dict[Subset, Line]:
        """The line of each effect, in order; that of the remainder under ``()``."""
        return {line.subset: line for line in self.lines if line.subset is not None}

    @property
    def order(self) -> tuple[Subset, ...]:
        """The effects, the largest first."""
        return tuple(self.by_effect)

    @property
    def shares(self) -> dict[Subset, float]:
        """The share of each effect; they sum to one, or are NaN."""
        return {subset: line.share for subset, line in self.by_effect.items()}

    @property
    def groups(self) -> list[CollinearEffects]:
        """The effects that cancel and rank as one, the largest sum first."""
        return [line.group for line in self.lines if line.is_sum and line.group is not None]

    def leading(
        self,
        most: int,
        wanted: Callable[[Subset], bool] = bool,
        least_pairs: int = 0,
    ) -> list[Line]:
        """Return the lines of the largest effects; never only some of those that cancel.

        Parameters
        ----------
        most : int
            Number of effects.
        wanted : callable
            Whether an effect may be among them; by default all but the remainder.
        least_pairs : int
            Number of pairs that take the place of larger main effects: at most half of all.
        """
        effects = [subset for subset in self.order if wanted(subset)]
        pairs = [subset for subset in effects if len(subset) == 2][: min(least_pairs, most // 2)]
        others = [subset for subset in effects if subset not in pairs]
        chosen = {*pairs, *others[: most - len(pairs)]}
        for group in self.groups:
            if not chosen.isdisjoint(group.members):
                chosen.update(group.members)
        return [
            line
            for line in self.lines
            if (line.group.members[0] if line.is_sum and line.group else line.subset) in chosen
        ]


def rank(
    variances: Mapping[Subset, Array],
    covariances: Mapping[Subset, Array] | None,
    collinear: Callable[[], tuple[CollinearEffects, ...]],
) -> Ranking:
    """Return effects in the order of their size.

    Parameters
    ----------
    variances : mapping of tuple of int to ndarray of float64, shape (n_outputs,)
        Those of the effects, and of the remainder under the empty subset.
    covariances : mapping of tuple of int to ndarray of float64, optional
        Their covariances with the model, if the distribution gives them.
    collinear : callable
        Returns the effects to be read together, if covariances are known.
    """
    parts = {s: float(np.sum((covariances or {}).get(s, np.nan))) for s in variances}
    whole = sum(parts.values())
    is_known = not np.isnan(whole)
    shares = {s: part / whole if whole > 0 else 0.0 * part for s, part in parts.items()}
    sizes = {s: float(np.sqrt(np.mean(variance))) for s, variance in variances.items()}
    together = collinear() if is_known else ()
    entries = []
    grouped: set[Subset] = set()
    for group in together:
        if group.reason == "cancel":
            size = float(np.sqrt(group.variance / len(variances[group.members[0]])))
            share = sum(shares[subset] for subset in group.members)
            entries.append((size, Line(None, size, share, 0, group), group.members))
            grouped.update(group.members)
    for subset, size in sizes.items():
        if subset not in grouped:
            entries.append((size, Line(subset, size, shares[subset], 0), ()))
    # The order of equal sizes must not depend on their last digits.
    unit = 1e-12 * max(np.nan_to_num([*sizes.values()]), default=0.0) or 1.0
    entries.sort(key=lambda entry: -round(np.nan_to_num(entry[0], nan=-unit) / unit))
    lines = []
    for place, (_, line, members) in enumerate(entries, start=1):
        lines.append(line._replace(rank=place))
        lines += [Line(s, sizes[s], shares[s], place, line.group) for s in members]
    return Ranking(tuple(lines), together)
