"""Findings of an audit: what a reader should know, with its numbers.

Thresholds are conventions, chosen so that an additive model of simulated rows gives no finding;
below `threshold`, 1% of the variance of the prediction, no reader's conclusion changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from treepurify.decomposition import Decomposition
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset

FindingKind = Literal[
    "hidden effect",
    "contradiction",
    "spurious interaction",
    "identifier",
    "collinear effects",
    "dominant interaction",
    "only in interactions",
    "few rows",
    "jumps",
    "distribution",
    "extrapolation",
    "identifiability",
    "instability",
    "no worth",
    "training",
]

# A tenth in variance is a third in size: a main effect of less than a third of its interaction is
# one that a table of main effects does not show. Of the threshold, it is what a contradiction must
# move, and what a spurious pair may keep.
PART = 0.1
# Effects that are named where findings of one kind become one.
_MOST_NAMED = 5


@dataclass(frozen=True, repr=False)
class Finding:
    """One finding of an audit.

    Parameters
    ----------
    kind : str
        The kind of finding, such as ``"hidden effect"``.
    subset : tuple of int
        The features concerned.
    output : int
        Position of the output.
    severity : float
        Share of the variance of the prediction that the finding concerns; findings are ranked by
        it.
    sentence : str
        The finding, in words that can be quoted.
    numbers : mapping of str to float
        The numbers in the sentence.
    where : str
        The region concerned, for a contradiction.
    cells : tuple of int
        The cells of that region.
    measure : str
        The other distribution, if the finding concerns one.
    effects : tuple of tuple of int
        The effects that show the finding; the first is drawn. By default the effect of `subset`.
    follows : str
        The consequence of a finding of this kind.
    to_do : str
        What to do about it.

    See Also
    --------
    treepurify.audit : Findings about a model, ranked by importance.
    treepurify.plots.finding : Figure of one finding of an audit.
    """

    kind: FindingKind
    subset: Subset
    output: int
    severity: float
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    where: str = ""
    cells: tuple[int, ...] = ()
    measure: str = ""
    effects: tuple[Subset, ...] = ()
    follows: str = ""
    to_do: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "effects", self.effects or (self.subset,))
        object.__setattr__(self, "numbers", FrozenMapping(self.numbers))

    def __repr__(self) -> str:
        """Return the kind and the sentence."""
        return f"[{self.kind}] {self.sentence}"


def as_one(d: Decomposition, findings: Sequence[Finding]) -> Finding:
    """Return the most serious of findings of one kind, which names the effects of the others."""
    ordered = sorted(findings, key=lambda finding: -finding.severity)
    first = ordered[0]
    # An effect is named once, with the output on which it is most serious.
    of_effect: dict[Subset, Finding] = {}
    for finding in ordered:
        of_effect.setdefault(finding.subset, finding)
    others = [_named_other(d, finding, first) for finding in list(of_effect.values())[1:]]
    if not others:
        return first
    more = len(others) - _MOST_NAMED
    named = ", ".join(others[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    what = {"only in interactions": "feature", "identifiability": "combination"}.get(
        first.kind, "effect"
    )
    sentence = (
        f"{first.sentence} The same holds for {len(others)} other {what}"
        f"{'' if len(others) == 1 else 's'}: {named}."
    )
    numbers = {**first.numbers, f"{what}s": float(len(of_effect))}
    effects = tuple(dict.fromkeys(e for each in of_effect.values() for e in each.effects))
    return replace(first, sentence=sentence, numbers=numbers, effects=effects)


def _named_other(d: Decomposition, finding: Finding, first: Finding) -> str:
    """Return the name of a folded finding, with what it does not share with the first one."""
    name = d.term_name(finding.subset)
    if finding.kind == "only in interactions":
        name += f" (in {d.term_name(finding.effects[0])})"
    return name if finding.measure == first.measure else f"{name} (under {finding.measure!r})"


def effect_words(d: Decomposition, subset: Subset, output: int) -> str:
    """Return the name of an effect on an output, such as "main effect of age"."""
    what = "main effect of" if len(subset) == 1 else "interaction"
    return f"{what} {d.term_name(subset)}{output_words(d, output)}"


def output_words(d: Decomposition, output: int) -> str:
    """Return which output a sentence is about; nothing where there is one."""
    return f" on {d.output_names[output]}" if d.n_outputs > 1 else ""
