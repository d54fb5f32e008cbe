"""The order of effects by importance, with those together that must be read together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from treepurify.arguments import check_choice
from treepurify.collinear import CollinearEffects
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.terms import listed_names
from treepurify.typing import Array

__all__ = ["Ranking", "SortBy", "against_words", "rank", "share_sums"]

SortBy = Literal["covariance", "variance"]

_OF_WHAT = {
    "covariance": "the model's variance, by covariance",
    "variance": "the sum of the effects' variances",
}
_KINDS = {1: "main effects", 2: "pairs", 3: "effects of three and more features"}
_OF_COMBINATIONS = "effects of combinations of columns"
_REMAINDER = "remainder"

# A smaller negative share, such as -0.1%, is hardly seen among those of the leading effects.
_LEAST_AGAINST = 0.005


@dataclass(frozen=True)
class Ranking:
    """Effects in the order of their importance.

    Parameters
    ----------
    sort_by : {"covariance", "variance"}
        What the shares are of: ``Cov(f_S, f) / Var f``, or the sum of the effects' variances.
    order : tuple of tuple of int
        The effects, the most important first; ``()`` is the remainder. Effects that cancel follow
        each other.
    shares : mapping of tuple of int to float
        Share of each, outputs added up, which gives each output the weight of its variance.
        They sum to one; NaN where a variance is not known.
    collinear : tuple of CollinearEffects
        The effects to be read together; none under ``"variance"``.
    """

    sort_by: SortBy
    order: tuple[Subset, ...]
    shares: Mapping[Subset, float]
    collinear: tuple[CollinearEffects, ...] = ()

    @property
    def of_what(self) -> str:
        """What the shares are shares of, in words."""
        return _OF_WHAT[self.sort_by]

    @property
    def places(self) -> dict[Subset, int]:
        """The place of each effect in the order."""
        return {subset: place for place, subset in enumerate(self.order)}

    @property
    def groups(self) -> list[CollinearEffects]:
        """The effects that cancel and rank as one, the most important first."""
        groups = [group for group in self.collinear if group.reason == "cancel"]
        return sorted(groups, key=lambda group: -abs(self.share(group)))

    def share(self, group: CollinearEffects) -> float:
        """Return the share of the sum of effects that are read together."""
        return sum(self.shares[subset] for subset in group.members)

    @property
    def first_members(self) -> dict[Subset, CollinearEffects]:
        """Each group under the first of its members."""
        return {group.members[0]: group for group in self.groups}

    @property
    def group_names(self) -> dict[Subset, str]:
        """The name of the group of each effect that has one."""
        return {subset: group.name for group in self.groups for subset in group.members}

    def groups_above(self, subsets: Iterable[Subset]) -> Iterator[CollinearEffects | None]:
        """Yield the group whose joint row stands above each row of a table, if there is one.

        Parameters
        ----------
        subsets : iterable of tuple of int
            The effect of each row, in the order of the ranking; a row for each output may follow.
        """
        heads = self.first_members
        return (heads.pop(subset, None) for subset in subsets)

    def n_shown(self, subsets: Sequence[Subset], most: int) -> int:
        """Return how many rows of a table to show: more than `most` where a group would be cut.

        Parameters
        ----------
        subsets : sequence of tuple of int
            As in `groups_above`.
        most : int
            Number of rows that are shown, at least one.
        """
        names = [self.group_names.get(subset, "") for subset in subsets]
        shown = min(most, len(names))
        while shown < len(names) and names[shown] and names[shown] == names[shown - 1]:
            shown += 1
        return shown

    def sentences(self, shown: Sequence[Subset], names: Callable[[Subset], str]) -> list[str]:
        """Return what a reader of the first rows of a table should know of them.

        Parameters
        ----------
        shown : sequence of tuple of int
            The effects of these rows.
        names : callable
            The name of an effect.
        """
        grouped = self.group_names
        against = [
            names(subset)
            for subset in dict.fromkeys(shown)
            if subset and subset not in grouped and self.shares[subset] <= -_LEAST_AGAINST
        ]
        said = [each.sentence for each in self.collinear if not {*shown}.isdisjoint(each.members)]
        return said + ([against_words(against)] if against else [])


def against_words(names: Sequence[str]) -> str:
    """Return in a sentence what the negative shares of effects by covariance mean.

    Parameters
    ----------
    names : sequence of str
        The effects.
    """
    if len(names) == 1:
        have, such = f"{names[0]} has a negative share", "it"
    else:
        have, such = f"{listed_names(names)} have negative shares", "such an effect"
    return f"{have}: where {such} raises the prediction, the others lower it by more, on average."


def rank(
    variances: Mapping[Subset, Array],
    covariances: Mapping[Subset, Array] | None,
    collinear: Callable[[], tuple[CollinearEffects, ...]],
    sort_by: SortBy | None = None,
) -> Ranking:
    """Return effects in the order of their importance.

    By covariance, effects rank by the absolute share, and a group of effects that cancel by the
    absolute share of its sum.

    Parameters
    ----------
    variances : mapping of tuple of int to ndarray of float64, shape (n_outputs,)
        Those of the effects, and of the remainder under the empty subset.
    covariances : mapping of tuple of int to ndarray of float64, optional
        Their covariances with the model, where the measure gives them.
    collinear : callable
        Returns the effects to be read together, where covariances are known.
    sort_by : {"covariance", "variance"}, optional
        By default the covariance where it is known.

    Raises
    ------
    InvalidInputError
        If `sort_by` is unknown, or the measure gives no covariances.
    """
    if sort_by is not None:
        check_choice("sort_by", sort_by, get_args(SortBy))
    known = {} if covariances is None or sort_by == "variance" else covariances
    sums = {subset: float(np.sum(known.get(subset, np.nan))) for subset in variances}
    if not sums or np.isnan([*sums.values()]).any():
        if sort_by == "covariance":
            raise InvalidInputError(
                "covariances with the model are not known under this distribution; use "
                'sort_by="variance"'
            )
        sums = {subset: float(np.sum(variance)) for subset, variance in variances.items()}
        order = sorted(sums, key=lambda subset: -np.nan_to_num(sums[subset], nan=-1.0))
        return Ranking("variance", tuple(order), _shares(sums))
    ranking = Ranking("covariance", (), _shares(sums), collinear())
    grouped = ranking.group_names
    entries: list[tuple[tuple[Subset, ...], float]] = [
        ((subset,), share) for subset, share in ranking.shares.items() if subset not in grouped
    ]
    entries += [(group.members, ranking.share(group)) for group in ranking.groups]
    # The order of equal shares must not depend on their last digits.
    entries.sort(key=lambda each: -round(abs(each[1]), 12))
    return replace(ranking, order=tuple(subset for members, _ in entries for subset in members))


def _shares(sizes: Mapping[Subset, float]) -> dict[Subset, float]:
    whole = sum(sizes.values())
    if whole <= 0:
        return dict.fromkeys(sizes, 0.0)
    return {subset: size / whole for subset, size in sizes.items()}


def share_sums(ranking: Ranking, combined: Iterable[int]) -> str:
    """Return the shares of main effects, pairs and more; empty where they are not known.

    With that of the remainder, which is left out, shares are rounded so that they add up to 100%.

    Parameters
    ----------
    ranking : Ranking
        The effects with their shares.
    combined : iterable of int
        The features that combine several columns: an effect of one is no main effect of a column.
    """
    sums: dict[str, float] = {}
    for subset in sorted(ranking.shares, key=lambda subset: len(subset) or np.inf):
        kind = _KINDS[min(len(subset), 3)] if subset else _REMAINDER
        if len(subset) == 1 and not set(combined).isdisjoint(subset):
            kind = _OF_COMBINATIONS
        sums[kind] = sums.get(kind, 0.0) + ranking.shares[subset]
    shares = np.array([*sums.values()])
    if np.isnan(shares).any() or not shares.any():
        return ""
    tenths = np.floor(1000 * shares)
    # What rounding down leaves goes to the largest parts that were cut off.
    short = round(1000 - float(tenths.sum()))
    tenths[np.argsort(tenths - 1000 * shares, kind="stable")[:short]] += 1
    words = [
        f"{kind} {tenth / 10 + 0.0:.1f}%"
        for kind, tenth in zip(sums, tenths, strict=True)
        if kind != _REMAINDER
    ]
    # Their covariances may be unknown, as without rows.
    cancel = " (effects that cancel each other both count in full)" * (
        ranking.sort_by == "variance"
    )
    return f"{', '.join(words)} of {ranking.of_what}{cancel}"
