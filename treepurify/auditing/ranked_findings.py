"""The audit of a model whose effects are main effects and pairs: ranked findings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treepurify.arguments import check_whole
from treepurify.auditing.findings import Finding, FindingKind
from treepurify.comparing.comparison import Comparison
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
    decomposition : Decomposition
        The purified effects.
    findings : tuple of Finding
        The findings, ranked by the share of the variance of the prediction that they concern.
    comparisons : mapping of str to Comparison
        Comparison with the effects under each of the other distributions.
    spread : mapping of tuple of int to ndarray of float64
        Root mean square change of each effect, cell by cell, when the rows are resampled. For
        changes between trainings see `trainings`.
    threshold : float
        Smallest share of the variance of the prediction that counts as a finding. The exact rule
        depends on the kind of finding; see `checks`.
    n_bootstrap, seed : int
        Number of draws of the rows, and their seed.
    worth : EffectWorth, optional
        The worth of the effects on held-out rows, if these were passed.
    trainings : Spread, optional
        The effects in each of several trainings, if these were passed.
    measures_chosen : bool
        Whether you chose the other distributions; a finding about one then ranks by its size.
    measures_left_out : mapping of str to str
        The default distributions that were left out, each with the reason.
    identifiers : tuple of int
        The features whose whole numbers or labels differ in all rows.
    checks : tuple of Check
        The kinds that were checked, the effects examined, the rules and the results.
    purity : str
        Whether the stored pairs contain main effects; empty if the model stores no pairs.

    See Also
    --------
    treepurify.audit : Run the audit.
    treepurify.plots.finding : Figure of one finding of an audit.
    """

    decomposition: Decomposition
    findings: tuple[Finding, ...] = ()
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    spread: Mapping[Subset, Array] = field(default_factory=dict)
    threshold: float = 0.01
    n_bootstrap: int = 0
    seed: int = 0
    worth: EffectWorth | None = None
    trainings: Spread | None = None
    measures_chosen: bool = False
    measures_left_out: Mapping[str, str] = field(default_factory=dict)
    identifiers: tuple[int, ...] = ()
    checks: tuple[Check, ...] = ()
    purity: str = ""

    def summary(self, most: int = 12) -> list[str]:
        """Return the audit in sentences, including the `most` most serious findings."""
        check_whole("most", most, 0)
        d = self.decomposition
        lines = [self.purity] if self.purity else []
        count = len(self.findings)
        among = f"in {len(d)} effects (distribution: {d.measure}; size: standard deviation)"
        if count:
            findings = "finding" if count == 1 else "findings"
            lines.append(f"{count} {findings} {among}, the most serious first:")
        else:
            lines.append(f"Nothing was found {among}.")
        advised: set[FindingKind] = set()
        for rank, finding in enumerate(self.findings[:most], start=1):
            to_do = "" if finding.kind in advised else f" {finding.to_do}"
            lines.append(f"{rank}. [{finding.kind}] {finding.sentence}{to_do}")
            advised.add(finding.kind)
        if count > most > 0:
            lines.append(f"... and {count - most} more.")
        if self.worth is not None:
            lines.append(_loss_words(self.worth))
        if share := explained_in_words(d):
            lines.append(f"These effects explain {share}; the rest was not audited.")
        if d.covariances is not None:
            lines.append(
                "Percentages of the variance are squared sizes; the table of effects has shares by "
                "covariance, which differ."
            )
        return [*lines, *self._looked_for()]

    def _looked_for(self) -> list[str]:
        """Return what was looked for and not found, and what was not looked for, with why."""
        lines = []
        if clean := [check.kind for check in self.checks if check.result == "nothing found"]:
            lines.append(
                f"Checked, nothing found from {self.threshold:.1%} of the variance on: "
                f"{', '.join(clean)}."
            )
        skipped: dict[str, list[str]] = {}
        for check in self.checks:
            if check.why_not:
                skipped.setdefault(check.why_not, []).append(check.kind)
        for measure, reason in self.measures_left_out.items():
            skipped.setdefault(reason.rstrip("."), []).append(f"distribution {measure}")
        if skipped:
            listed = [f"{', '.join(kinds)} ({why})" for why, kinds in skipped.items()]
            lines.append(f"Not checked: {'; '.join(listed)}.")
        return lines

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per finding.

        Columns are ``kind``, ``term``, ``output``, ``severity``, ``where``, ``measure``,
        ``sentence``, ``follows`` and ``to_do``. If a finding concerns several effects, ``term``
        lists them all, separated by commas.
        """
        import pandas as pd

        d = self.decomposition
        named = [", ".join(map(d.term_name, sorted(f.effects))) for f in self.findings]
        outputs = [d.output_names[finding.output] for finding in self.findings]
        own = ("severity", "where", "measure", "sentence", "follows", "to_do")
        return pd.DataFrame(
            {
                "kind": [finding.kind for finding in self.findings],
                "term": named,
                "output": outputs,
                **{name: [getattr(finding, name) for finding in self.findings] for name in own},
            }
        )

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        lines = self.summary(most=0)
        return html_summary(lines, self.to_frame()[["kind", "term", "sentence", "to_do"]])


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
