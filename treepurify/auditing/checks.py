"""What an audit looked for, among how many effects, by which rule, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from treepurify.auditing.evidence import Evidence
from treepurify.auditing.findings import Finding, FindingKind
from treepurify.auditing.rules import rule_of
from treepurify.comparing.apparent import apparent_values

__all__ = ["Check", "checks_made"]


@dataclass(frozen=True)
class Check:
    """One kind of finding that an audit looked for, or why it did not.

    Parameters
    ----------
    kind : str
        The kind of finding.
    among : str
        What was looked at, in words; empty where it was not looked for.
    rule : str
        From when on something is reported, with the numbers of this audit.
    n_found : int
        Number of findings.
    why_not : str
        Why it was not looked for; empty where it was.
    """

    kind: FindingKind
    among: str
    rule: str
    n_found: int
    why_not: str = ""

    @property
    def result(self) -> str:
        """What came of it, in words."""
        if self.why_not:
            return f"not looked for: {self.why_not}"
        return f"{self.n_found}" if self.n_found else "nothing found"


def checks_made(
    evidence: Evidence, threshold: float, findings: Sequence[Finding], *, has_apparent: bool
) -> tuple[Check, ...]:
    """Return one check per kind of finding.

    Parameters
    ----------
    evidence : Evidence
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
    own_terms = "" if has_apparent else "the model's own terms are not known"
    mains = _count(known.count(1), "main effect")
    every_main = _count(sum(len(subset) == 1 for subset in d.components), "main effect")
    n_solves = len(d.diagnostics.get("solves", ()))
    rows: list[tuple[FindingKind, str, str]] = [
        ("hidden effect", mains, own_terms),
        ("contradiction", mains, own_terms),
        ("spurious interaction", _count(known.count(2), "pair"), own_terms),
        (
            "measure",
            f"{_count(len(d), 'effect')} under {', '.join(evidence.others)}",
            "" if evidence.others else "no other measure",
        ),
        ("extrapolation", _count(pairs, "interaction"), ""),
        ("identifiability", f"{_count(n_solves, 'solve')} and {every_main}", ""),
        (
            "instability",
            f"{_count(len(evidence.spread), 'effect')} in "
            f"{_count(evidence.n_samples, 'draw')} of the rows",
            "" if evidence.n_samples else "no draws of the rows",
        ),
        (
            "no worth",
            "" if worth is None else f"{_count(len(d), 'effect')} on {worth.n_rows} held-out rows",
            "no held-out rows were passed" if worth is None else "",
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
