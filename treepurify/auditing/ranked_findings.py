"""The audit of a model whose effects are main effects and pairs: ranked findings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any

from treepurify.arguments import check_number, check_whole
from treepurify.auditing.finders import (
    contradictions,
    extrapolations,
    hidden_effects,
    instabilities,
    measure_findings,
    spurious_interactions,
    training_findings,
    worthless_effects,
)
from treepurify.auditing.findings import Finding, FindingKind, fold_findings, rule_of
from treepurify.auditing.identifiability import open_effects, unidentified_effects
from treepurify.auditing.interplay import (
    collinear_effects,
    dominant_interactions,
    effects_only_in_interactions,
)
from treepurify.auditing.support import (
    effects_of_few_rows,
    numeric_main_effects,
    unsupported_jumps,
)
from treepurify.comparing.apparent import apparent_values
from treepurify.comparing.compare import compare
from treepurify.comparing.comparison import Comparison
from treepurify.comparing.shared_cells import need_rows
from treepurify.decomposition import Decomposition
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.losses import loss_words
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.spread import Spread
from treepurify.typing import Array
from treepurify.verdict import explained_in_words

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Audit", "AuditEvidence", "Check", "audit_decompositions"]


@dataclass(frozen=True, eq=False)
class AuditEvidence:
    """What an audit looks at: one model, decomposed several times.

    Parameters
    ----------
    decomposition : Decomposition
        Under the measure of the rows.
    others : mapping of str to Decomposition
        Under other measures, by name.
    spread : mapping of tuple of int to ndarray of float64
        Root mean square change of each cell of each component over resampled rows.
    n_samples : int
        Number of resamplings.
    seed : int
        Their seed.
    worth : EffectWorth, optional
        What the effects are worth on held-out rows.
    trainings : Spread, optional
        The components in several trainings, on cells of their own where those of `decomposition`
        were too many.
    X : table of shape (n_rows, n_features), optional
        The rows, on which decompositions are compared whose cells differ, as those of forests do.
    sample_weight : array_like of shape (n_rows,), optional
        Their weights.
    measures_left_out : mapping of str to str
        Measures that the model cannot be purified under, and why.
    measures_chosen : bool
        Whether somebody chose the other measures, so that a finding about one ranks by the variance
        that it concerns.
    """

    decomposition: Decomposition
    others: Mapping[str, Decomposition]
    spread: Mapping[Subset, Array]
    n_samples: int
    seed: int = 0
    worth: EffectWorth | None = None
    trainings: Spread | None = None
    X: Any = None
    sample_weight: Any = None
    measures_left_out: Mapping[str, str] = field(default_factory=dict)
    measures_chosen: bool = False


@dataclass(frozen=True)
class Check:
    """One kind of finding, with the result of its check.

    Parameters
    ----------
    kind : str
        The kind of finding.
    among : str
        The effects that were examined, in words; empty if this kind was not checked.
    rule : str
        The condition for reporting a finding, with the numbers of this audit.
    n_found : int
        Number of findings.
    why_not : str
        The reason if this kind was not checked; empty if it was.
    """

    kind: FindingKind
    among: str
    rule: str
    n_found: int
    why_not: str = ""

    @property
    def result(self) -> str:
        """The result of the check, in words."""
        if self.why_not:
            return f"not checked: {self.why_not}"
        return f"{self.n_found}" if self.n_found else "nothing found"


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The findings of an audit, the most serious first.

    Parameters
    ----------
    findings : tuple of Finding
        The findings, ranked by the share of the variance of the prediction that they concern.
    decomposition : Decomposition
        The purified effects.
    before_after : Comparison or None
        The effects as the model stores them, compared with the purified ones; None if the stored
        ones are unknown.
    comparisons : mapping of str to Comparison
        Comparison with the effects under each of the other distributions.
    spread : mapping of tuple of int to ndarray of float64
        Root mean square change of each effect, cell by cell, when the rows are resampled. For
        changes between trainings see `trainings`.
    threshold : float
        Smallest share of the variance of the prediction that counts as a finding. The exact rule
        depends on the kind of finding; see `checks`.
    checks : tuple of Check
        The kinds that were checked, the effects examined, the rules and the results.
    n_bootstrap, seed : int
        Number of draws of the rows, and their seed.
    worth : EffectWorth, optional
        The worth of the effects on held-out rows, if these were passed.
    trainings : Spread, optional
        The effects in each of several trainings, if these were passed.
    measures_left_out : mapping of str to str
        The default distributions that were left out, each with the reason.

    See Also
    --------
    treepurify.audit : Run the audit.
    treepurify.plots.finding : Figure of one finding of an audit.
    """

    findings: tuple[Finding, ...]
    decomposition: Decomposition
    before_after: Comparison | None
    comparisons: Mapping[str, Comparison]
    spread: Mapping[Subset, Array]
    threshold: float
    checks: tuple[Check, ...]
    n_bootstrap: int
    seed: int
    worth: EffectWorth | None = None
    trainings: Spread | None = None
    measures_left_out: Mapping[str, str] = field(default_factory=dict)

    def summary(self, most: int = 12) -> list[str]:
        """Return the audit in sentences, including the `most` most serious findings."""
        check_whole("most", most, 0)
        d = self.decomposition
        lines = [
            f"Audited {len(d)} effects (distribution: {d.measure}). Findings concern at least "
            f"{self.threshold:.1%} of the variance of the prediction; .checks has the exact rules."
        ]
        if share := explained_in_words(d):
            lines.append(f"These effects explain {share}; the rest was not audited.")
        if d.covariances is not None:
            lines.append(
                "Shares below are variances of effects; the table of effects has shares by "
                "covariance, which differ."
            )
        if self.worth is not None:
            lines.append(_loss_words(self.worth))
        for measure, reason in self.measures_left_out.items():
            lines.append(f"Not compared with the distribution {measure}: {reason.rstrip('.')}.")
        if self.before_after is not None:
            orders = self.before_after.orders
            mains = orders.loc[orders["order"] == 1, ["share_first", "share_second"]].to_numpy()
            if len(mains) and not isnan(mains.sum()):
                lines.append(
                    f"Main effects account for {mains[0, 1]:z.0%} of the variance of the "
                    f"predictions; of the effects as the model stores them, {mains[0, 0]:z.0%}."
                )
        if not self.findings:
            among = " in these effects" if share else ""
            return [*lines, f"Nothing was found{among}.", *self._looked_for()]
        found = Counter(finding.kind for finding in self.findings)
        counts = [f"{kind} ({count})" for kind, count in found.items()]
        findings = "finding" if len(self.findings) == 1 else "findings"
        lines.append(f"{len(self.findings)} {findings}: {', '.join(counts)}.")
        explained: set[FindingKind] = set()
        for rank, finding in enumerate(self.findings[:most], start=1):
            lines.append(f"{rank}. [{finding.kind}] {finding.sentence}")
            if finding.kind not in explained:
                lines[-1] += f" {finding.follows} {finding.to_do}"
            explained.add(finding.kind)
        if len(self.findings) > most:
            lines.append(f"... and {len(self.findings) - most} more.")
        return [*lines, *self._looked_for()]

    def _looked_for(self) -> list[str]:
        """Return what was looked for and not found, and what was not looked for, with why."""
        lines = []
        for opening, skipped in (("Checked, nothing found", False), ("Not checked", True)):
            kinds: dict[str, list[str]] = {}
            for check in self.checks:
                if check.n_found == 0 and bool(check.why_not) == skipped:
                    kinds.setdefault(check.why_not or check.among, []).append(check.kind)
            if kinds:
                listed = [f"{', '.join(found)} ({why})" for why, found in kinds.items()]
                lines.append(f"{opening}: {'; '.join(listed)}.")
        return lines

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per finding.

        Columns are ``kind``, ``term``, ``output``, ``severity``, ``where``, ``measure``,
        ``sentence``, ``follows`` and ``to_do``. If a finding concerns several effects, ``term``
        lists them all, separated by commas.
        """
        import pandas as pd

        d = self.decomposition
        rows = [
            {
                "kind": finding.kind,
                "term": ", ".join(map(d.term_name, sorted(finding.effects))),
                "output": d.output_names[finding.output],
                "severity": finding.severity,
                "where": finding.where,
                "measure": finding.measure,
                "sentence": finding.sentence,
                "follows": finding.follows,
                "to_do": finding.to_do,
            }
            for finding in self.findings
        ]
        columns = ["kind", "term", "output", "severity", "where", "measure"]
        return pd.DataFrame(rows, columns=[*columns, "sentence", "follows", "to_do"])

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        findings = self.to_frame()[["kind", "term", "sentence"]]
        return html_summary([], findings) if len(findings) else html_summary(self.summary())


def _loss_words(worth: EffectWorth) -> str:
    """Return whether the model predicts held-out rows better than a constant."""
    constant, own = worth.intercept_loss, worth.model_loss
    line = (
        f"On {worth.n_rows} held-out rows the {loss_words(worth.loss)} is {own:.4g} for the model "
        f"and {constant:.4g} for its intercept alone"
    )
    if own < constant:
        return f"{line}."
    return f"{line}: the model predicts these rows no better than a constant, despite its effects."


def audit_decompositions(evidence: AuditEvidence, threshold: float = 0.01) -> Audit:
    """Return what decompositions of one model under several measures show.

    Parameters
    ----------
    evidence : AuditEvidence
        The decompositions.
    threshold : float
        Share of the variance of the prediction from which something is a finding.

    Returns
    -------
    Audit

    Raises
    ------
    InvalidInputError
        If `threshold` is not between 0 and 1.
    """
    check_number("threshold", threshold, least=0, most=1, open_ends=True)
    d = evidence.decomposition
    comparisons = {name: _compared(evidence, other) for name, other in evidence.others.items()}
    # Terms of single trees, of which deep models have many orders, are not what a reader sees.
    known = d.remainder is None and all(apparent_values(d, s) is not None for s in d.components)
    findings: list[Finding] = []
    if known:
        findings += hidden_effects(d, threshold)
        findings += contradictions(d, threshold)
        findings += spurious_interactions(d, threshold)
    dominant = dominant_interactions(d, threshold)
    findings += [
        *collinear_effects(d, threshold),
        *dominant,
        *effects_only_in_interactions(d, threshold, dominant),
        *effects_of_few_rows(d, threshold),
        *unsupported_jumps(d, threshold),
        *measure_findings(d, comparisons, threshold, chosen=evidence.measures_chosen),
        *extrapolations(d, threshold),
        *unidentified_effects(d, threshold),
        *instabilities(d, evidence.spread, evidence.n_samples, threshold),
    ]
    if evidence.worth is not None:
        findings += worthless_effects(evidence.worth, threshold)
    if evidence.trainings is not None:
        findings += training_findings(d, evidence.trainings, threshold)
    folded = fold_findings(d, findings, by_measure=evidence.measures_chosen)
    findings = sorted(folded, key=lambda finding: -finding.severity)
    before_after = None
    if known and len(d) > 0:
        before_after = compare(d.as_trained(), d, names=("as the model stores it", "purified"))
    return Audit(
        tuple(findings),
        d,
        before_after,
        comparisons,
        evidence.spread,
        threshold,
        _checks_made(evidence, threshold, findings, has_apparent=known),
        evidence.n_samples,
        evidence.seed,
        evidence.worth,
        evidence.trainings,
        evidence.measures_left_out,
    )


def _compared(evidence: AuditEvidence, other: Decomposition) -> Comparison:
    d = evidence.decomposition
    names = (d.measure, other.measure)
    if not need_rows(d, other):
        return compare(d, other, names=names)
    weight = evidence.sample_weight
    return compare(d, other, evidence.X, sample_weight=weight, names=names, progress=False)


def _checks_made(
    evidence: AuditEvidence, threshold: float, findings: Sequence[Finding], *, has_apparent: bool
) -> tuple[Check, ...]:
    """Return one check per kind of finding.

    Parameters
    ----------
    evidence : AuditEvidence
        What the audit had to look at.
    threshold : float
        Share of the variance of the prediction from which something is a finding.
    findings : sequence of Finding
        What was found.
    has_apparent : bool
        Whether the model's own terms are known.
    """
    d, worth, trainings = evidence.decomposition, evidence.worth, evidence.trainings
    tensors = d.tensor_components()
    pairs = sum(len(subset) > 1 for subset in tensors)
    known = [len(s) for s in d.components if apparent_values(d, s) is not None]
    own_terms = "only EBMs and trees of depth two or less store terms to compare"
    own_terms *= not has_apparent
    mains = _count(known.count(1), "main effect")
    solves = _count(len(d.origin.open_directions), "table") + " of interactions"
    named = {
        effect
        for finding in findings
        if finding.kind == "identifiability"
        for effect in finding.effects
    }
    if n_small := len(set(open_effects(d)) - named):
        solves += f", {n_small} with an ambiguity below the threshold,"
    no_covariances = (
        "" if d.covariances is not None else "covariances are not available under this distribution"
    )
    rows: list[tuple[FindingKind, str, str]] = [
        ("hidden effect", mains, own_terms),
        ("contradiction", mains, own_terms),
        ("spurious interaction", _count(known.count(2), "pair"), own_terms),
        ("collinear effects", _count(len(d), "effect"), no_covariances),
        ("dominant interaction", _count(pairs, "interaction"), ""),
        ("only in interactions", _count(len(d.feature_names), "feature"), ""),
        ("few rows", _count(len(tensors), "effect"), ""),
        ("jumps", _count(len(numeric_main_effects(d)), "numeric main effect"), ""),
        (
            "distribution",
            f"{_count(len(d), 'effect')} under {', '.join(evidence.others)}",
            "" if evidence.others else "no other distribution was compared",
        ),
        ("extrapolation", _count(pairs, "interaction"), ""),
        ("identifiability", solves, ""),
        (
            "instability",
            f"{_count(len(evidence.spread), 'effect')} in "
            f"{_count(evidence.n_samples, 'draw')} of the rows",
            "" if evidence.n_samples else "the rows were not resampled",
        ),
        (
            "no worth",
            "" if worth is None else f"{_count(len(d), 'effect')} on {worth.n_rows} held-out rows",
            "pass held_out=(rows, targets) to see whether the effects help to predict new rows"
            if worth is None
            else "",
        ),
        (
            "training",
            ""
            if trainings is None
            else f"{_count(len(trainings.stacked), 'effect')} in {trainings.n_models} trainings",
            "one training was passed" if trainings is None else "",
        ),
    ]
    outputs = f" on each of {d.n_outputs} outputs" if d.n_outputs > 1 else ""
    return tuple(
        Check(
            kind,
            "" if why_not else among + outputs,
            rule_of(kind, threshold),
            sum(finding.kind == kind for finding in findings),
            why_not,
        )
        for kind, among, why_not in rows
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
