"""The kinds of findings: what an audit looks for, by which rule, what follows and what to do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from treepurify.auditing import changes, interplay, stored_terms, support
from treepurify.auditing.findings import PART, Finding, FindingKind, as_one
from treepurify.auditing.ranked_findings import Audit, Check
from treepurify.collinear import MOST_OF_IT
from treepurify.comparing.apparent import model_variance
from treepurify.comparing.compare import SIGN_THRESHOLD
from treepurify.decomposition import Decomposition
from treepurify.frozen import FrozenMapping
from treepurify.typing import Array


class Kind(NamedTuple):
    """One kind of finding.

    Parameters
    ----------
    find : callable
        Yields the findings of an audit, given the variance of the prediction, one per output.
    among : callable
        Returns what is looked at, in words; empty where nothing can be.
    rule : str
        From when on something is reported; shares are of the variance of the prediction, and
        ``{threshold}``, ``{tenth}`` and ``{square}`` stand for the numbers of an audit.
    follows, to_do : str
        The consequence, and what to do about it.
    otherwise : str
        The reason, where nothing can be looked at.
    is_folded : bool
        Whether all findings of this kind become one, which names all effects.
    """

    find: Callable[[Audit, Array], Iterator[Finding]]
    among: Callable[[Audit], str]
    rule: str
    follows: str
    to_do: str
    otherwise: str = ""
    is_folded: bool = False


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _effects(audit: Audit) -> str:
    return _count(len(audit.decomposition), "effect")


def _features(audit: Audit) -> str:
    return _count(len(audit.decomposition.feature_names), "feature")


def _interactions(audit: Audit) -> str:
    tensors = audit.decomposition.tensor_components()
    return _count(sum(len(subset) > 1 for subset in tensors), "interaction")


def _stored(order: int, what: str) -> Callable[[Audit], str]:
    def among(audit: Audit) -> str:
        d = audit.decomposition
        known = sum(len(subset) == order for subset in d.components)
        return _count(known, what) if stored_terms.stores_its_effects(d) else ""

    return among


def _open(audit: Audit) -> str:
    d = audit.decomposition
    named = {e for f in audit.findings if f.kind == "identifiability" for e in f.effects}
    small = len({*support.open_effects(d)} - named)
    words = f"{_count(len(d.origin.open_directions), 'table')} of interactions"
    return words + (f", {small} with an ambiguity below the threshold" if small else "")


def _drawn(audit: Audit) -> str:
    effects, draws = _count(len(audit.spread), "effect"), _count(audit.n_bootstrap, "draw")
    return f"{effects} in {draws} of the rows" if audit.n_bootstrap else ""


def _on_held_out_rows(audit: Audit) -> str:
    worth = audit.worth
    return "" if worth is None else f"{_effects(audit)} on {worth.n_rows} held-out rows"


def _trained(audit: Audit) -> str:
    spread = audit.trainings
    if spread is None:
        return ""
    return f"{_count(len(spread.stacked), 'effect')} in {spread.n_models} trainings"


_OWN_TERMS = "only EBMs and trees of depth two or less store terms to compare"

KINDS: Mapping[FindingKind, Kind] = FrozenMapping(
    {
        "hidden effect": Kind(
            stored_terms.hidden_effects,
            _stored(1, "main effect"),
            "the difference from the stored main effect is at least {threshold} of the variance",
            "The model's own curve does not show how the feature acts.",
            "Read the purified effect.",
            otherwise=_OWN_TERMS,
        ),
        "contradiction": Kind(
            stored_terms.contradictions,
            _stored(1, "main effect"),
            f"opposite signs on at least {stored_terms.LEAST_MASS:.0%} of the distribution, both "
            f"effects larger than {SIGN_THRESHOLD:.0%} of the prediction's standard deviation, and "
            "a difference of at least {tenth} of the variance there",
            "The model's own curve shows the opposite of what the feature does.",
            "Read the purified effect, and do not publish the model's own curve.",
            otherwise=_OWN_TERMS,
        ),
        "spurious interaction": Kind(
            stored_terms.spurious_interactions,
            _stored(2, "pair"),
            "the stored interaction is at least {threshold} of the variance, and at most {tenth} "
            "remains once main effects are removed",
            "The two features hardly interact, whatever their table shows.",
            "Leave the pair out of what you report.",
            otherwise=_OWN_TERMS,
        ),
        "identifier": Kind(
            support.identifiers,
            _features,
            "the whole numbers or labels of a feature that the model uses differ in all rows",
            "Its effect describes single rows, and says nothing about new ones.",
            "Leave this feature out and retrain.",
            is_folded=True,
        ),
        "collinear effects": Kind(
            interplay.collinear_effects,
            lambda audit: "" if audit.decomposition.covariances is None else _effects(audit),
            "at least {threshold} of the variance could belong to another effect: the variance of "
            "the sum of effects is less than a third of the sum of their variances, or another "
            f"feature determines at least {MOST_OF_IT:.0%} of a main effect, or the rows "
            "leave open how main effects share it",
            "Small details of the data and the training decide which of them has an effect: no "
            "curve alone shows the prediction, and a small one is not unimportant.",
            "Read them together (tp.plots.together), or drop one feature and retrain.",
            otherwise="covariances are not available under this distribution",
        ),
        "dominant interaction": Kind(
            interplay.dominant_interactions,
            _interactions,
            "the interaction is at least {threshold} of the variance, and more than each of its "
            "main effects",
            "Each main effect averages effects that depend on the other feature.",
            "Show the interaction, not the main effects alone.",
            is_folded=True,
        ),
        "only in interactions": Kind(
            interplay.effects_only_in_interactions,
            _features,
            "the largest interaction of the feature is at least {threshold} of the variance, and "
            f"the main effect at most {PART:.0%} of this interaction",
            "A ranking of main effects, or a partial dependence curve, misses this feature.",
            "Report the feature with its interaction.",
            is_folded=True,
        ),
        "few rows": Kind(
            support.effects_of_few_rows,
            _effects,
            "the effect is at least {threshold} of the variance, and at least "
            f"{support.MOST_OF_IT:.0%} of it lies on at most {support.FEW_ROWS:.0%} of the "
            "distribution",
            "The effect describes these rows, and almost nothing about all others.",
            "Check whether these rows are right, and whether new rows will be like them.",
            is_folded=True,
        ),
        "jumps": Kind(
            support.unsupported_jumps,
            lambda audit: _count(
                len(support.numeric_main_effects(audit.decomposition)), "numeric main effect"
            ),
            f"at single values (at most {support.NARROW:.0%} of the distribution each), the effect "
            f"is higher, or lower, than the medians of the neighbouring {support.NEIGHBOURS:.0%} "
            "on both sides; these jumps are at least {threshold} of the variance and "
            f"{support.JUMPING_PART:.0%} of the effect's variance",
            "The model treats single values differently from their neighbours. Typical causes: the "
            "feature identifies rows, days or places, its numbers are codes of categories, or the "
            "model fits noise.",
            "Check whether these values mean anything for new rows. Drop or group them, and "
            "compare on rows held out by time or by group.",
            is_folded=True,
        ),
        "distribution": Kind(
            changes.measure_findings,
            lambda audit: (
                f"{_effects(audit)} under {', '.join(audit.comparisons)}"
                if audit.comparisons
                else ""
            ),
            "the effects differ by at least {threshold} of the variance and (root mean square) "
            f"{changes.NOTABLE_PART:.0%} of the larger standard deviation; ranked last unless you "
            "chose the distributions",
            "Under another distribution of the features the model has different effects.",
            "State the distribution along with the effects.",
            otherwise="no other distribution was compared",
            is_folded=True,
        ),
        "extrapolation": Kind(
            support.extrapolations,
            _interactions,
            "the largest value of the effect at combinations without data, squared, is at least "
            "{threshold} of the variance, and at least "
            f"{support.NOTABLE_RATIO:g} times as large, not squared, as the largest value at "
            "combinations with data; ranked last",
            "Predictions there are extrapolations that no row supports.",
            "Do not interpret or use the model there.",
            is_folded=True,
        ),
        "identifiability": Kind(
            support.unidentified_effects,
            _open,
            "the rows form groups that share no value, and the main effects between which a "
            "constant can be moved have at least {threshold} of the variance, weighted by how "
            "evenly the groups divide the rows",
            "The data alone cannot decide between these effects.",
            "Interpret these effects together, or drop one feature.",
        ),
        "instability": Kind(
            changes.instabilities,
            _drawn,
            f"the change (root mean square) is at least {changes.NOTABLE_PART:.0%} of the effect's "
            "standard deviation, and its square at least {square} of the variance",
            "Another sample of rows would give a different effect.",
            "Use more rows, or report the effect with its band.",
            otherwise="the rows were not resampled",
            is_folded=True,
        ),
        "no worth": Kind(
            changes.worthless_effects,
            _on_held_out_rows,
            "the effect is at least {threshold} of the variance, and the interval of its worth "
            "includes zero or lies below it",
            "Either the model learned noise, or these rows are too few to show the benefit.",
            "Check whether the model is as good without it (tp.simplify).",
            otherwise="pass held_out=(rows, targets)",
            is_folded=True,
        ),
        "training": Kind(
            changes.training_findings,
            _trained,
            "the effect, or its variance between trainings, is at least {threshold} of the "
            f"variance; and trainings differ by at least {changes.NOTABLE_PART:.0%} of the "
            "effect's standard deviation, the effect has no clear sign, or some trainings do not "
            "have it",
            "Training the same model again would give a different effect.",
            "Report the mean of several trainings with its band.",
            otherwise="one training was passed",
        ),
    }
)


def with_findings(audit: Audit) -> Audit:
    """Return an audit with all that can be found in its evidence, the most serious first."""
    total = model_variance(audit.decomposition)
    findings = [
        replace(finding, follows=kind.follows, to_do=kind.to_do)
        for kind in KINDS.values()
        if kind.among(audit)
        for finding in kind.find(audit, total)
    ]
    folded = fold_findings(audit.decomposition, findings, by_measure=audit.measures_chosen)
    ranked = sorted(folded, key=lambda finding: -finding.severity)
    purity = stored_terms.purity_words(audit, total)
    audit = replace(audit, findings=tuple(ranked), purity=purity)
    return replace(audit, checks=_checks(audit))


def fold_findings(
    d: Decomposition, findings: Sequence[Finding], *, by_measure: bool = True
) -> list[Finding]:
    """Return findings with those of one folded kind as one: the most serious, which names others.

    Findings about different measures stay apart if these are given by name (`by_measure`).
    """
    groups: dict[tuple[FindingKind, str] | int, list[Finding]] = {}
    for place, finding in enumerate(findings):
        measure = finding.measure if by_measure else ""
        key = (finding.kind, measure) if KINDS[finding.kind].is_folded else place
        groups.setdefault(key, []).append(finding)
    return [as_one(d, group) for group in groups.values()]


def _checks(audit: Audit) -> tuple[Check, ...]:
    """Return one check per kind of finding."""
    n_outputs = audit.decomposition.n_outputs
    outputs = f" on each of {n_outputs} outputs" if n_outputs > 1 else ""
    checks = []
    for name, kind in KINDS.items():
        among = kind.among(audit)
        n_found = sum(finding.kind == name for finding in audit.findings)
        why_not, among = ("", among + outputs) if among else (kind.otherwise, "")
        checks.append(Check(name, among, _rule(kind, audit.threshold), n_found, why_not))
    return tuple(checks)


def _rule(kind: Kind, threshold: float) -> str:
    """Return from when on something is reported, with the numbers of an audit."""
    parts = {"threshold": 1.0, "tenth": PART, "square": changes.NOTABLE_PART**2}
    numbers = {name: f"{100 * threshold * part:.3g}%" for name, part in parts.items()}
    return kind.rule.format(**numbers)
