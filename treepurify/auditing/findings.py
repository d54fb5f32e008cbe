"""Findings of an audit: what a reader should know, with its numbers, and from when on.

Thresholds are conventions, chosen so that an additive model of simulated rows gives no finding:

* `threshold` (1% of the variance of the prediction): below it no reader's conclusion changes.
* `PART`, a tenth in variance, is a third in size: a main effect of less than a third of its
  interaction is one that a table of main effects does not show.
* `JUMPING_PART`, a twentieth of an effect's variance: where trees of depth six follow a trend in
  noise as large as the signal, the jumps of strong effects are a fortieth, and those of weak ones,
  of which they can be half, stay below 0.7% of the variance of the prediction.
* `FEW_ROWS`, 1% of the mass: the outermost 1% of a normal distribution has 8% of its variance,
  of an exponential one 22%, and of a product of two normal features 21%. `MOST_OF_IT`, half
  of the variance on 1% of the mass, is beyond all of these.
* `NEIGHBOURS`, 5% of the mass on each side: trees of depth six split no finer than that where
  they follow a trend of some hundred rows. A value with more than `NARROW`, 2% of the mass, needs
  no neighbours: its own rows support it, as those of an hour of the day do.
* `NOTABLE_PART`, 30% in size, and `NOTABLE_RATIO`, twice, are differences that show in a figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from treepurify.collinear import MOST_OF_IT as MOST_DETERMINED
from treepurify.comparing.compare import SIGN_THRESHOLD
from treepurify.decomposition import Decomposition
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset

__all__ = [
    "FEW_ROWS",
    "FOLDED",
    "JUMPING_PART",
    "LEAST_MASS",
    "MOST_OF_IT",
    "NARROW",
    "NEIGHBOURS",
    "NOTABLE_PART",
    "NOTABLE_RATIO",
    "PART",
    "TOGETHER",
    "Finding",
    "FindingKind",
    "as_one",
    "fold_findings",
    "output_words",
    "rule_of",
    "small_share",
]

FindingKind = Literal[
    "hidden effect",
    "contradiction",
    "spurious interaction",
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

FOLDED: frozenset[FindingKind] = frozenset(
    {
        "dominant interaction",
        "only in interactions",
        "few rows",
        "jumps",
        "distribution",
        "extrapolation",
        "instability",
        "no worth",
    }
)
"""Kinds whose findings are merged into one that names all effects."""

TOGETHER: frozenset[FindingKind] = frozenset({"collinear effects"})
"""Kinds whose picture has all effects of the finding, and their sum."""

_FOLLOWS: Mapping[FindingKind, str] = FrozenMapping(
    {
        "hidden effect": "The model's own curve does not show how the feature acts.",
        "contradiction": "The model's own curve shows the opposite of what the feature does.",
        "spurious interaction": "The two features hardly interact, whatever their table shows.",
        "collinear effects": (
            "Small details of the data and the training decide which of them has an effect: no "
            "curve alone shows the prediction, and a small one is not unimportant."
        ),
        "dominant interaction": (
            "Each main effect averages effects that depend on the other feature."
        ),
        "only in interactions": (
            "A ranking of main effects, or a partial dependence curve, misses this feature."
        ),
        "few rows": "The effect describes these rows, and almost nothing about all others.",
        "jumps": (
            "The model treats single values differently from their neighbours. Typical causes: the "
            "feature identifies rows, days or places, its numbers are codes of categories, or the "
            "model fits noise."
        ),
        "distribution": (
            "Under another distribution of the features the model has different effects."
        ),
        "extrapolation": "Predictions there are extrapolations that no row supports.",
        "identifiability": "The data alone cannot decide between these effects.",
        "instability": "Another sample of rows would give a different effect.",
        "no worth": "Either the model learned noise, or these rows are too few to show the "
        "benefit.",
        "training": "Training the same model again would give a different effect.",
    }
)
_TO_DO: Mapping[FindingKind, str] = FrozenMapping(
    {
        "hidden effect": "Read the purified effect.",
        "contradiction": "Read the purified effect, and do not publish the model's own curve.",
        "spurious interaction": "Leave the pair out of what you report.",
        "collinear effects": (
            "Read them together (tp.plots.together), or drop one feature and retrain."
        ),
        "dominant interaction": "Show the interaction, not the main effects alone.",
        "only in interactions": "Report the feature with its interaction.",
        "few rows": "Check whether these rows are right, and whether new rows will be like them.",
        "jumps": (
            "Check whether these values mean anything for new rows. Drop or group them, and "
            "compare on rows held out by time or by group."
        ),
        "distribution": "State the distribution along with the effects.",
        "extrapolation": "Do not interpret or use the model there.",
        "identifiability": "Interpret these effects together, or drop one feature.",
        "instability": "Use more rows, or report the effect with its band.",
        "no worth": "Check whether the model is as good without it (tp.simplify).",
        "training": "Report the mean of several trainings with its band.",
    }
)

# The least share of the mass on which a sign is opposite.
LEAST_MASS = 0.01
# Of the threshold: what a contradiction must move, and what a spurious pair may keep.
PART = 0.1
# An effect depends on the measure, the rows or the training from this part of its deviation.
NOTABLE_PART = 0.3
# How much larger an effect must be without data than with them.
NOTABLE_RATIO = 2.0
# An effect rests on few rows if this part of its variance lies on so much of the mass.
FEW_ROWS, MOST_OF_IT = 0.01, 0.5
# Of the mass: the neighbours of a value on each side, and what a value has that needs them.
NEIGHBOURS, NARROW = 0.05, 0.02
# Of the variance of an effect: what its jumps have.
JUMPING_PART = 0.05
# What a finding is about, where that is no effect.
_CONCERNED: Mapping[FindingKind, str] = FrozenMapping(
    {"only in interactions": "feature", "identifiability": "combination"}
)
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

    Attributes
    ----------
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "effects", self.effects or (self.subset,))
        object.__setattr__(self, "numbers", FrozenMapping(self.numbers))

    def __repr__(self) -> str:
        """Return the kind and the sentence."""
        return f"[{self.kind}] {self.sentence}"

    @property
    def follows(self) -> str:
        """The consequence of a finding of this kind."""
        return _FOLLOWS[self.kind]

    @property
    def to_do(self) -> str:
        """What to do about a finding of this kind."""
        return _TO_DO[self.kind]


def fold_findings(
    d: Decomposition, findings: Sequence[Finding], *, by_measure: bool = True
) -> list[Finding]:
    """Return findings with those of one kind of `FOLDED` as one.

    That is the most serious of them, which names the effects of the others.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    findings : sequence of Finding
        The findings, each about one effect where its kind is folded.
    by_measure : bool
        Whether findings about different measures stay apart.
    """
    groups: dict[tuple[FindingKind, str] | int, list[Finding]] = {}
    for place, finding in enumerate(findings):
        measure = finding.measure if by_measure else ""
        key = (finding.kind, measure) if finding.kind in FOLDED else place
        groups.setdefault(key, []).append(finding)
    return [as_one(d, group) for group in groups.values()]


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
    what = _CONCERNED.get(first.kind, "effect")
    counted = f"1 other {what}" if len(others) == 1 else f"{len(others)} other {what}s"
    sentence = f"{first.sentence} The same holds for {counted}: {named}."
    numbers = {**first.numbers, f"{what}s": float(len(of_effect))}
    effects = tuple(dict.fromkeys(e for each in of_effect.values() for e in each.effects))
    return replace(first, sentence=sentence, numbers=numbers, effects=effects)


def _named_other(d: Decomposition, finding: Finding, first: Finding) -> str:
    """Return the name of a folded finding, with what it does not share with the first one."""
    name = d.term_name(finding.subset)
    if finding.kind == "only in interactions":
        name += f" (in {d.term_name(finding.effects[0])})"
    return name if finding.measure == first.measure else f"{name} (under {finding.measure!r})"


def output_words(d: Decomposition, output: int) -> str:
    """Return which output a sentence is about; nothing where there is one."""
    return f" on {d.output_names[output]}" if d.n_outputs > 1 else ""


def small_share(share: float) -> str:
    """Return a share that can be nearly zero, in words."""
    return "less than 0.01%" if share < 5e-5 else f"{share:.2%}"


def rule_of(kind: FindingKind, threshold: float) -> str:
    """Return from when on something is reported; shares are of the variance of the prediction.

    Parameters
    ----------
    kind : str
        The kind of finding.
    threshold : float
        Share of the variance of the prediction from which something is a finding.
    """
    whole, part, least = (f"{100 * t:.3g}%" for t in (threshold, PART * threshold, LEAST_MASS))
    notable, square = f"{NOTABLE_PART:.0%}", f"{100 * threshold * NOTABLE_PART**2:.3g}%"
    rules: dict[FindingKind, str] = {
        "hidden effect": (
            f"the difference from the stored main effect is at least {whole} of the variance"
        ),
        "contradiction": (
            f"opposite signs on at least {least} of the distribution, both effects larger than "
            f"{SIGN_THRESHOLD:.0%} of the prediction's standard deviation, and a difference "
            f"of at least {part} of the variance there"
        ),
        "spurious interaction": (
            f"the stored interaction is at least {whole} of the variance, and at most {part} "
            "remains once main effects are removed"
        ),
        "collinear effects": (
            f"at least {whole} of the variance could belong to another effect: the variance of the "
            "sum of effects is less than a third of the sum of their variances, or another "
            f"feature determines at least {MOST_DETERMINED:.0%} of a main effect, or the rows "
            "leave open how main effects share it"
        ),
        "dominant interaction": (
            f"the interaction is at least {whole} of the variance, and more than each of its main "
            "effects"
        ),
        "only in interactions": (
            f"the largest interaction of the feature is at least {whole} of the variance, and the "
            f"main effect at most {PART:.0%} of this interaction"
        ),
        "few rows": (
            f"the effect is at least {whole} of the variance, and at least "
            f"{MOST_OF_IT:.0%} of it lies on at most {FEW_ROWS:.0%} of the "
            "distribution"
        ),
        "jumps": (
            f"at single values (at most {NARROW:.0%} of the distribution each), the effect "
            "is higher, or lower, than the medians of the neighbouring "
            f"{NEIGHBOURS:.0%} on both sides; these jumps are at least {whole} of the "
            f"variance and {JUMPING_PART:.0%} of the effect's variance"
        ),
        "distribution": (
            f"the effects differ by at least {whole} of the variance and (root mean square) "
            f"{notable} of the larger standard deviation; ranked last unless you chose the "
            "distributions"
        ),
        "extrapolation": (
            "the largest value of the effect at combinations without data, squared, is at least "
            f"{whole} of the variance, and at least {NOTABLE_RATIO:g} times as large, not squared, "
            "as the largest value at combinations with data; ranked last"
        ),
        "identifiability": (
            "the rows form groups that share no value, and the main effects between which a "
            f"constant can be moved have at least {whole} of the variance, weighted by how evenly "
            "the groups divide the rows"
        ),
        "instability": (
            f"the change (root mean square) is at least {notable} of the effect's standard "
            f"deviation, and its square at least {square} of the variance"
        ),
        "no worth": (
            f"the effect is at least {whole} of the variance, and the interval of its worth "
            "includes zero or lies below it"
        ),
        "training": (
            f"the effect, or its variance between trainings, is at least {whole} of the variance; "
            f"and trainings differ by at least {notable} of the effect's standard deviation, the "
            "effect has no clear sign, or some trainings do not have the effect"
        ),
    }
    return rules[kind]
