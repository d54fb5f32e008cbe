"""Findings about effects that act together: they cancel, or matter only as an interaction."""

from collections.abc import Sequence

import numpy as np

from treepurify.auditing.findings import PART, Finding, output_words, small_share
from treepurify.comparing.apparent import model_variance
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.terms import listed_names

__all__ = [
    "collinear_effects",
    "dominant_interactions",
    "effects_only_in_interactions",
]

_AMOUNTS = {"cancel": "correlation", "copies": "share_of_effect"}


def collinear_effects(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the groups of effects whose features say much the same; see `find_collinear`.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    threshold : float
        Share of the variance of the prediction that could belong to another effect.
    """
    total = float(model_variance(d).sum())
    findings = []
    for group in d.ranking.collinear:
        severity = min(group.movable / total, 1.0)
        if severity < threshold:
            continue
        alone = np.sum([d.components[subset].variance for subset in group.members], axis=0)
        apart, together = float(alone.sum()) / total, group.variance / total
        sizes = [f"{d.ranking.by_effect[subset].size:.3g}" for subset in group.members]
        joint = np.sqrt(group.variance / d.n_outputs)
        sentence = (
            f"{group.claim} ({group.reason_words}). Their sizes are {listed_names(sizes)}, that of "
            f"their sum is {joint:.3g}."
        )
        numbers = {"share_apart": apart, "share_together": together}
        numbers[_AMOUNTS[group.reason]] = group.amount
        first, k = group.members[0], int(np.argmax(alone))
        what = (first, k, severity, sentence, numbers)
        findings.append(Finding("collinear effects", *what, effects=group.members))
    return findings


def dominant_interactions(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the pairs that have more variance than each of their main effects.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    threshold : float
        Share of the variance of the prediction from which a pair counts.
    """
    total = model_variance(d)
    findings = []
    for subset in _pairs(d):
        for k in range(d.n_outputs):
            share = _share(d, subset, k, total[k])
            mains = [_share(d, (j,), k, total[k]) for j in subset]
            if share < threshold or share <= max(mains):
                continue
            first, second = (d.term_name((j,)) for j in subset)
            sentence = (
                f"{first} and {second} act mostly together{output_words(d, k)}: their interaction "
                f"carries {share:.1%} of the variance of the prediction, their main effects "
                f"{small_share(mains[0])} ({first}) and {small_share(mains[1])} ({second})."
            )
            numbers = {"share": share, "share_first": mains[0], "share_second": mains[1]}
            findings.append(Finding("dominant interaction", subset, k, share, sentence, numbers))
    return findings


def effects_only_in_interactions(
    d: Decomposition, threshold: float, dominant: Sequence[Finding]
) -> list[Finding]:
    """Return the features that hardly act alone, but in an interaction.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    threshold : float
        Share of the variance of the prediction that the largest interaction of the feature has.
    dominant : sequence of Finding
        What `dominant_interactions` found: a feature whose largest interaction is among them is
        not found again.
    """
    total = model_variance(d)
    known = {(finding.subset, finding.output) for finding in dominant}
    findings = []
    for j in range(len(d.feature_names)):
        pairs = [subset for subset in _pairs(d) if j in subset]
        for k in range(d.n_outputs if pairs else 0):
            shares = [_share(d, subset, k, total[k]) for subset in pairs]
            largest = int(np.argmax(shares))
            pair, share, alone = pairs[largest], shares[largest], _share(d, (j,), k, total[k])
            if share < threshold or alone > PART * share or (pair, k) in known:
                continue
            (other,) = set(pair) - {j}
            sentence = (
                f"The main effect of {d.term_name((j,))}{output_words(d, k)} carries "
                f"{small_share(alone)} of the variance of the prediction, but its interaction with "
                f"{d.term_name((other,))} carries {share:.1%}."
            )
            numbers = {"share": share, "share_alone": alone, "share_all_pairs": float(sum(shares))}
            effects = (pair, (j,)) if (j,) in d.components else (pair,)
            findings.append(
                Finding("only in interactions", (j,), k, share, sentence, numbers, effects=effects)
            )
    return findings


def _pairs(d: Decomposition) -> list[Subset]:
    return [subset for subset in d.components if len(subset) == 2]


def _share(d: Decomposition, subset: Subset, output: int, total: float) -> float:
    """Return the share of an effect in the variance of the prediction; zero if it is not there."""
    if subset not in d.components or total <= 0:
        return 0.0
    return float(np.nan_to_num(d.components[subset].variance[output]) / total)
