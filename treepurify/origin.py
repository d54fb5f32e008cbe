"""Where a decomposition comes from: the model, the rows, how it was solved, and its edits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from treepurify.frozen import FrozenMapping

__all__ = [
    "ClassLabel",
    "Edit",
    "Identifiability",
    "ModelFacts",
    "Origin",
    "seeds_of",
]

ClassLabel = str | int | float | bool


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model.

    Parameters
    ----------
    library, version, kind : str
        See `ModelSource`.
    notes : tuple of str
        What a user should know about how the model was read.
    trees, terms : int, optional
        Number of trees of an ensemble, or of terms of an EBM.
    sha256 : str
        Fingerprint of its trees or tables.
    class_labels : tuple of str, int, float or bool
        See `ModelSource`.
    """

    library: str = ""
    version: str = ""
    kind: str = ""
    notes: tuple[str, ...] = ()
    trees: int | None = None
    terms: int | None = None
    sha256: str = ""
    class_labels: tuple[ClassLabel, ...] = ()


@dataclass(frozen=True)
class Identifiability:
    """Which effects the rows determine, where functions were selected on them.

    Parameters
    ----------
    is_unique : bool
        Whether the rows determine every effect.
    rank : int
        Number of independent functions that were taken, the constant included.
    n_rejected : int
        Number of functions that are combinations of these on the rows.
    determined_terms : tuple of str, optional
        The effects that the rows determine; None where that is not known.
    is_least_norm : bool
        Whether the components are those of least norm among all that explain the same.
    """

    is_unique: bool
    rank: int
    n_rejected: int
    determined_terms: tuple[str, ...] | None = None
    is_least_norm: bool = False


@dataclass(frozen=True)
class Edit:
    """One change of a decomposition.

    Parameters
    ----------
    facts : mapping of str to object
        What was changed and how, for people to read.
    difference : tuple of float
        Root mean square difference from before, per output.
    is_bound : bool
        Whether that is a bound.
    """

    facts: Mapping[str, Any]
    difference: tuple[float, ...]
    is_bound: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", FrozenMapping(_frozen(self.facts)))


@dataclass(frozen=True)
class Origin:
    """What code reads of how a decomposition was made; more for people is in its diagnostics.

    Parameters
    ----------
    model : ModelFacts, optional
        The model that was decomposed.
    response_of : ModelFacts, optional
        The model whose response was decomposed, in place of its margin.
    n_rows : int, optional
        Number of rows that the effects refer to.
    measure_rows : int
        Number of rows whose distribution is used, or that it was made from; 0 if there are none.
    copies : int
        Number of shifted copies of each of these in a smoothed distribution; 1 if they are used as
        they are.
    method : str
        How effects were computed, in the words of the engine; empty where it has one way only.
    seeds : tuple of int
        Seeds of random choices, increasing.
    identifiability : Identifiability, optional
        Which effects the rows determine, where functions were selected on them.
    open_directions : mapping of tuple of int to int or None
        For each table that was purified, the number of its directions that the data leave open;
        None where it was not counted.
    edits : tuple of Edit
        How the decomposition was changed after it was made.
    """

    model: ModelFacts | None = None
    response_of: ModelFacts | None = None
    n_rows: int | None = None
    measure_rows: int = 0
    copies: int = 1
    method: str = ""
    seeds: tuple[int, ...] = ()
    identifiability: Identifiability | None = None
    open_directions: Mapping[tuple[int, ...], int | None] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "open_directions", FrozenMapping(self.open_directions))


def _frozen(facts: Any) -> Any:
    """Return nested facts with tuples in place of lists."""
    if isinstance(facts, Mapping):
        return {name: _frozen(fact) for name, fact in facts.items()}
    return tuple(map(_frozen, facts)) if isinstance(facts, list | tuple) else facts


def seeds_of(facts: Mapping[str, Any]) -> tuple[int, ...]:
    """Return every seed in nested facts, increasing."""
    return tuple(sorted(set(_seeds(facts))))


def _seeds(facts: Any) -> Iterator[int]:
    if isinstance(facts, Mapping) and isinstance(facts.get("seed"), int):
        yield facts["seed"]
    for value in facts.values() if isinstance(facts, Mapping) else facts:
        if isinstance(value, Mapping | list | tuple):  # there are many, and most are numbers
            yield from _seeds(value)
