"""The order of effects by importance, and which of them cancel each other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from treepurify.arguments import check_choice
from treepurify.cancelling import CancellingEffects
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.near_copies import MOST_OF_IT, NearCopy
from treepurify.rows.reduction import RowStream
from treepurify.terms import listed_names

__all__ = [
    "EffectGroup",
    "Ranking",
    "SortBy",
    "against_words",
    "check_sort_by",
    "counted_effects",
    "near_copy_claim",
    "near_copy_words",
    "quick_ranking",
    "rank_effects",
    "share_sums",
]

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
class EffectGroup:
    """Effects that largely cancel on the rows that are the measure.

    Parameters
    ----------
    members : tuple of tuple of int
        The effects, the most important first.
    names : tuple of str
        Their names.
    correlation : float
        The lowest correlation of two of them.
    share : float
        Share of their sum in the model's variance, by covariance; outputs are added up.
    variance : float
        Variance of their sum, added up over the outputs.
    """

    members: tuple[Subset, ...]
    names: tuple[str, ...]
    correlation: float
    share: float
    variance: float

    @property
    def name(self) -> str:
        """The names as a sum, such as ``"air_time + distance"``."""
        return " + ".join(self.names)

    @property
    def joint_name(self) -> str:
        """The name of the row of a table that stands for all of them."""
        return f"{self.name}, together"

    @property
    def claim(self) -> str:
        """What holds of them: that they largely cancel, with their correlation."""
        how = "correlation is" if len(self.names) == 2 else "correlations go down to"
        return f"The effects of {self.listed} largely cancel (their {how} {self.correlation:.2f})"

    @property
    def sentence(self) -> str:
        """What a reader should do."""
        return f"{self.claim}; look at them together."

    @property
    def listed(self) -> str:
        """The names in a row, such as ``"air_time and distance"``; those of pairs in quotes."""
        return listed_names([f"'{name}'" if " & " in name else name for name in self.names])


@dataclass(frozen=True)
class Ranking:
    """Effects in the order of their importance.

    Parameters
    ----------
    sort_by : {"covariance", "variance"}
        What the shares are of: ``Cov(f_S, f) / Var f``, or the sum of the effects' variances.
    order : tuple of tuple of int
        The effects, the most important first; ``()`` is the remainder. The members of a group
        follow each other.
    shares : mapping of tuple of int to float
        Share of each, outputs added up, which gives each output the weight of its variance.
        They sum to one; NaN where a variance is not known.
    groups : tuple of EffectGroup
        The effects that cancel; none under ``"variance"``.
    near_copies : tuple of NearCopy
        The main effects that another feature could carry; none under ``"variance"``.
    combined : frozenset of int
        The features that are made from several columns: an effect of one is no main effect of a
        column.
    """

    sort_by: SortBy
    order: tuple[Subset, ...]
    shares: Mapping[Subset, float]
    groups: tuple[EffectGroup, ...] = ()
    near_copies: tuple[NearCopy, ...] = ()
    combined: frozenset[int] = frozenset()

    @property
    def of_what(self) -> str:
        """What the shares are shares of, in words."""
        return _OF_WHAT[self.sort_by]

    @property
    def places(self) -> dict[Subset, int]:
        """The place of each effect in the order."""
        return {subset: place for place, subset in enumerate(self.order)}

    @property
    def first_members(self) -> dict[Subset, EffectGroup]:
        """Each group under the first of its members."""
        return {group.members[0]: group for group in self.groups}

    @property
    def group_names(self) -> dict[Subset, str]:
        """The name of the group of each effect that has one."""
        return {subset: group.name for group in self.groups for subset in group.members}

    def groups_above(self, subsets: Iterable[Subset]) -> Iterator[EffectGroup | None]:
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
        said = [group.sentence for group in self.groups if not {*shown}.isdisjoint(group.members)]
        copied = [each for each in self.near_copies if (each.feature,) in shown]
        said += [near_copy_words(copied, names)] if copied else []
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


def near_copy_claim(found: Sequence[NearCopy], names: Callable[[Subset], str]) -> str:
    """Return which effects other features could carry as well, without what follows from it.

    Parameters
    ----------
    found : sequence of NearCopy
        The effects, at least one.
    names : callable
        The name of an effect.
    """
    own = [names((each.feature,)) for each in found]
    others = [names((each.other,)) for each in found]
    if len(found) > 1:
        pairs = [f"{one} ({other})" for one, other in zip(own, others, strict=True)]
        return (
            f"At least {MOST_OF_IT:.0%} of each of these effects could be an effect of the "
            f"feature in brackets instead: {listed_names(pairs)}"
        )
    rank = found[0].correlation
    rank_words = "" if rank is None else f" (their rank correlation is {rank:.2f})"
    could = f"the effect of {own[0]} could be an effect of {others[0]} instead{rank_words}"
    return f"{found[0].share:.0%} of {could}"


def near_copy_words(found: Sequence[NearCopy], names: Callable[[Subset], str]) -> str:
    """Return which effects other features could carry as well, and what follows from it."""
    advice = "Small details decide how it is split; look at them together."
    return f"{near_copy_claim(found, names)}. {advice}"


def check_sort_by(sort_by: SortBy | None) -> None:
    """Raise `InvalidInputError` unless `sort_by` is known or None."""
    if sort_by is not None:
        check_choice("sort_by", sort_by, get_args(SortBy))


def rank_effects(d: Decomposition, sort_by: SortBy | None = None) -> Ranking:
    """Return the effects of a decomposition in the order of their importance.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    sort_by : {"covariance", "variance"}, optional
        By default the covariance where the measure gives it.

    Raises
    ------
    InvalidInputError
        If `sort_by` is unknown, or the measure gives no covariances.

    Notes
    -----
    By covariance, effects rank by the absolute share, and a group of effects that cancel
    (`Decomposition.cancelling`) by the absolute share of its sum.
    """
    check_sort_by(sort_by)
    covariances = None if sort_by == "variance" else _known_covariances(d)
    if covariances is None:
        if sort_by == "covariance":
            raise InvalidInputError(
                "covariances with the model are not known under this distribution; use "
                'sort_by="variance"'
            )
        return _by_variance(d)
    return _by_covariance(d, covariances, d.cancelling, d.near_copies)


def quick_ranking(d: Decomposition) -> Ranking:
    """Return the ranking as far as it is known without reading rows in batches again."""
    if "ranking" in vars(d) or not isinstance(d.rows, RowStream) or d.rows.is_table:
        return d.ranking
    known = None if d.covariances_at_hand is None else _known_covariances(d)
    if known is None:
        return _by_variance(d)
    return _by_covariance(d, known, d.stored_cancelling or (), d.stored_near_copies or ())


def _parts(d: Decomposition) -> list[Subset]:
    return [*d.components, *([()] if d.remainder is not None else [])]


def _known_covariances(d: Decomposition) -> dict[Subset, float] | None:
    """Return the covariance of every part, outputs added up; None where one is not known."""
    known = d.covariances or {}
    parts = _parts(d)
    if not parts or not all(subset in known for subset in parts):
        return None
    sums = {subset: float(np.sum(known[subset])) for subset in parts}
    return None if np.isnan([*sums.values()]).any() else sums


def _by_variance(d: Decomposition) -> Ranking:
    variances = {subset: float(np.sum(part.variance)) for subset, part in d.components.items()}
    if d.remainder is not None:
        variances[()] = float(np.sum(d.remainder.variance))
    order = sorted(variances, key=lambda subset: -np.nan_to_num(variances[subset], nan=-1.0))
    return Ranking(
        "variance", tuple(order), _shares(variances), combined=_combinations_of_columns(d)
    )


def _by_covariance(
    d: Decomposition,
    covariances: dict[Subset, float],
    found: tuple[CancellingEffects, ...],
    copied: tuple[NearCopy, ...],
) -> Ranking:
    shares = _shares(covariances)
    groups = [_named(d, group, shares) for group in found]
    grouped = {subset for group in groups for subset in group.members}
    ranked: list[tuple[tuple[Subset, ...], float]]
    ranked = [((subset,), share) for subset, share in shares.items() if subset not in grouped]
    ranked += [(group.members, group.share) for group in groups]
    # The order of equal shares must not depend on their last digits.
    ranked.sort(key=lambda each: -round(abs(each[1]), 12))
    order = tuple(subset for members, _ in ranked for subset in members)
    groups.sort(key=lambda group: -abs(group.share))
    # Of effects that cancel a reader is told already to look at them together.
    told = {(a, b) for group in groups for (a, *_) in group.members for (b, *_) in group.members}
    copied = tuple(each for each in copied if (each.feature, each.other) not in told)
    combined = _combinations_of_columns(d)
    return Ranking("covariance", order, shares, tuple(groups), copied, combined)


def _combinations_of_columns(d: Decomposition) -> frozenset[int]:
    """Return the features that are made from several columns, as CatBoost and pipelines do."""
    return frozenset(j for j, spec in enumerate(d.inputs.features) if len(spec.made_from) > 1)


def counted_effects(d: Decomposition) -> str:
    """Return how many effects there are, of how many features."""
    n_combined = len(_combinations_of_columns(d))
    n_others = len(d.feature_names) - n_combined
    of = [f"{n_others} feature{'s' * (n_others != 1)}"] if n_others or not n_combined else []
    if n_combined:
        of.append(f"{n_combined} combination{'s' * (n_combined != 1)} of columns")
    return f"{len(d)} effects of {' and '.join(of)}"


def _shares(sizes: Mapping[Subset, float]) -> dict[Subset, float]:
    whole = sum(sizes.values())
    if whole <= 0:
        return dict.fromkeys(sizes, 0.0)
    return {subset: size / whole for subset, size in sizes.items()}


def _named(
    d: Decomposition, group: CancellingEffects, shares: Mapping[Subset, float]
) -> EffectGroup:
    members = tuple(sorted(group.members, key=lambda subset: -abs(shares[subset])))
    return EffectGroup(
        members,
        tuple(d.term_name(subset) for subset in members),
        group.correlation,
        sum(shares[subset] for subset in members),
        group.variance,
    )


def share_sums(ranking: Ranking) -> str:
    """Return the shares of main effects, pairs and more; empty where they are not known.

    The effect of a feature that combines several columns counts as such. With that of the
    remainder, which is left out, shares are rounded so that they add up to 100%.

    Parameters
    ----------
    ranking : Ranking
        The effects with their shares.
    """
    sums: dict[str, float] = {}
    for subset in sorted(ranking.shares, key=lambda subset: len(subset) or np.inf):
        kind = _KINDS[min(len(subset), 3)] if subset else _REMAINDER
        if len(subset) == 1 and not ranking.combined.isdisjoint(subset):
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
