"""Findings of an audit: what a reader should know, with its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from treepurify.decomposition import Decomposition
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset

__all__ = ["KINDS", "Finding", "FindingKind", "output_words"]

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
