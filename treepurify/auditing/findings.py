"""Findings of an audit: what a reader should know, with its numbers, and from when on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from treepurify.comparing.compare import SIGN_THRESHOLD
from treepurify.decomposition import Decomposition
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset

__all__ = [
    "KINDS",
    "LEAST_MASS",
    "NOTABLE_PART",
    "NOTABLE_RATIO",
    "PART",
    "Finding",
    "FindingKind",
    "output_words",
    "rule_of",
]

FindingKind = Literal[
    "hidden effect",
    "contradiction",
    "spurious interaction",
    "measure",
    "extrapolation",
    "identifiability",
    "instability",
    "no worth",
    "training",
]

KINDS: Mapping[FindingKind, str] = FrozenMapping(
    {
        "hidden effect": "main effect of which a part is inside interactions of the model",
        "contradiction": "region where the main effect has the opposite sign of what it seems",
        "spurious interaction": "interaction that is nearly nothing but main effects",
        "measure": "effect that depends on the distribution chosen",
        "extrapolation": "interaction that is large where there are no data",
        "identifiability": "effects that the data do not determine",
        "instability": "effect that changes with the rows",
        "no worth": "effect of variance that does not lower the loss on held-out rows",
        "training": "effect that other trainings of the model do not have, or not so",
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


@dataclass(frozen=True)
class Finding:
    """One thing that an audit found.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    subset : tuple of int
        The features concerned.
    output : int
        Position of the output.
    severity : float
        Share of the variance of the prediction that is concerned: findings are ranked by it.
    sentence : str
        The finding, in words that can be quoted.
    numbers : mapping of str to float
        The figures behind the sentence.
    where : str
        The region concerned, for a contradiction.
    cells : tuple of int
        The cells of that region.
    measure : str
        The other distribution, where the finding is about one.
    effects : tuple of tuple of int
        The effects that show it, the one that is drawn first: that of `subset` by default; two
        main effects where the finding is about what these share.
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


def output_words(d: Decomposition, output: int) -> str:
    """Return which output a sentence is about; nothing where there is one."""
    return f" on {d.output_names[output]}" if d.n_outputs > 1 else ""


def rule_of(kind: FindingKind, threshold: float) -> str:
    """Return from when on something is reported; shares are of the variance of the prediction.

    Parameters
    ----------
    kind : str
        The kind of finding.
    threshold : float
        Share of the variance of the prediction from which something is a finding.
    """
    whole, part, least = (f"{100 * t:.3g} %" for t in (threshold, PART * threshold, LEAST_MASS))
    notable, square = f"{100 * NOTABLE_PART:.0f} %", f"{100 * threshold * NOTABLE_PART**2:.3g} %"
    rules: dict[FindingKind, str] = {
        "hidden effect": f"the difference from the model's own term is {whole} of the variance",
        "contradiction": (
            f"opposite signs on {least} of the mass, both effects beyond "
            f"{100 * SIGN_THRESHOLD:.0f} % of the prediction's standard deviation, and their "
            f"difference there is {part} of the variance"
        ),
        "spurious interaction": (
            f"the model's own term is {whole} of the variance, and at most {part} is left of it"
        ),
        "measure": (
            f"the difference is {whole} of the variance and, as a root mean square, {notable} of "
            "the larger of the two standard deviations"
        ),
        "extrapolation": (
            f"the square of the largest effect without data is {whole} of the variance, and the "
            f"effect is {NOTABLE_RATIO:g} times as large as with data; ranked below all others"
        ),
        "identifiability": (
            "a direction that the data do not determine, of any size; or two features that "
            f"determine each other share {whole} of the variance in a way that no row shows"
        ),
        "instability": (
            f"the change is {notable} of the effect's standard deviation and, squared, {square} "
            "of the variance"
        ),
        "no worth": (
            f"the effect is {whole} of the variance, and the interval of its worth reaches zero"
        ),
        "training": (
            f"the effect, or its variance between trainings, is {whole} of the variance, and "
            f"trainings differ by {notable} of its standard deviation, or leave it without a "
            "clear sign, or without the effect"
        ),
    }
    return rules[kind]
