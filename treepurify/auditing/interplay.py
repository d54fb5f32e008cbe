"""Findings about effects that act together: they cancel, or matter only as an interaction."""

from collections.abc import Iterator

import numpy as np

from treepurify.auditing.findings import PART, Finding, effect_words, output_words
from treepurify.auditing.ranked_findings import Audit
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.terms import listed_names
from treepurify.typing import Array

_AMOUNTS = {"cancel": "correlation", "copies": "share_of_effect"}


def collinear_effects(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the groups of effects whose features say much the same; see `find_collinear`."""
    d, variance = audit.decomposition, float(total.sum())
    for group in d.ranking.collinear:
        severity = min(group.movable / variance, 1.0)
        if severity < audit.threshold:
            continue
        alone = np.sum([d.components[subset].variance for subset in group.members], axis=0)
        sizes = [f"{d.ranking.by_effect[subset].size:.3g}" for subset in group.members]
        joint = np.sqrt(group.variance / d.n_outputs)
        sentence = (
            f"{group.claim} ({group.reason_words}). Their sizes are {listed_names(sizes)}, that of "
            f"their sum is {joint:.3g}."
        )
        numbers = {
            "share_apart": float(alone.sum()) / variance,
            "share_together": group.variance / variance,
            _AMOUNTS[group.reason]: group.amount,
        }
        first, k = group.members[0], int(np.argmax(alone))
        yield Finding(
            "collinear effects", first, k, severity, sentence, numbers, effects=group.members
        )


def dominant_interactions(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the pairs that have more variance than each of their main effects."""
    d = audit.decomposition
    for subset in _pairs(d):
        for k in range(d.n_outputs):
            share = _share(d, subset, k, total)
            mains = [_share(d, (j,), k, total) for j in subset]
            if share < audit.threshold or share <= max(mains):
                continue
            first, second = (d.term_name((j,)) for j in subset)
            size, *of_mains = (np.sqrt(each * total[k]) for each in (share, *mains))
            sentence = (
                f"{first} and {second} act mostly together{output_words(d, k)}: their interaction "
                f"has a size of {size:.3g}, their main effects {of_mains[0]:.3g} ({first}) and "
                f"{of_mains[1]:.3g} ({second})."
            )
            numbers = {"share": share, "share_first": mains[0], "share_second": mains[1]}
            yield Finding("dominant interaction", subset, k, share, sentence, numbers)


def effects_only_in_interactions(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the features that hardly act alone, but in an interaction that is not dominant."""
    d = audit.decomposition
    dominant = {(found.subset, found.output) for found in dominant_interactions(audit, total)}
    for j in range(len(d.feature_names)):
        pairs = [subset for subset in _pairs(d) if j in subset]
        for k in range(d.n_outputs if pairs else 0):
            shares = [_share(d, subset, k, total) for subset in pairs]
            largest = int(np.argmax(shares))
            pair, share, alone = pairs[largest], shares[largest], _share(d, (j,), k, total)
            if share < audit.threshold or alone > PART * share or (pair, k) in dominant:
                continue
            (other,) = set(pair) - {j}
            sizes = np.sqrt([alone * total[k], share * total[k]])
            sentence = (
                f"The {effect_words(d, (j,), k)} has a size of {sizes[0]:.3g}, but its interaction "
                f"with {d.term_name((other,))} has {sizes[1]:.3g}."
            )
            numbers = {"share": share, "share_alone": alone, "share_all_pairs": float(sum(shares))}
            effects = (pair, (j,)) if (j,) in d.components else (pair,)
            yield Finding(
                "only in interactions", (j,), k, share, sentence, numbers, effects=effects
            )


def _pairs(d: Decomposition) -> list[Subset]:
    return [subset for subset in d.components if len(subset) == 2]


def _share(d: Decomposition, subset: Subset, output: int, total: Array) -> float:
    """Return the share of an effect in the variance of the prediction; zero if it is not there."""
    if subset not in d.components or total[output] <= 0:
        return 0.0
    return float(np.nan_to_num(d.components[subset].variance[output]) / total[output])
