"""The typed facts of a decomposition, taken out of the free ones that an engine reports."""

from collections.abc import Iterator, Mapping
from typing import Any

from treepurify.origin import Concurvity, Edit, Identifiability, ModelFacts, Origin

__all__ = ["origin_of", "seeds_of", "untyped"]

# One entry for each table, of numbers only.
_WITHOUT_SEEDS = ("solves", "errors")
# People look for all others among the diagnostics, too.
_MOVED = ("model", "response_of", "rows", "shared_mains", "edits")


def origin_of(facts: Mapping[str, Any]) -> Origin:
    """Return the typed facts among those that an engine reports, or that a file has.

    Parameters
    ----------
    facts : mapping of str to object
        The facts.
    """
    n_rows = facts.get("rows")
    return Origin(
        model=_model(facts.get("model")),
        response_of=_model(facts.get("response_of")),
        n_rows=None if n_rows is None else int(n_rows),
        method=facts.get("method", ""),
        seeds=seeds_of(facts),
        explained=tuple(facts.get("projection", {}).get("r_squared", ())),
        identifiability=_identifiability(facts),
        open_directions={
            tuple(solve["features"]): solve.get("unidentified") for solve in facts.get("solves", ())
        },
        concurvity=tuple(
            Concurvity(tuple(pair["features"]), pair["directions"], tuple(pair["variance"]))
            for pair in facts.get("shared_mains", ())
        ),
        edits=tuple(
            Edit(edit, tuple(edit["difference"]), edit["difference_is_bound"])
            for edit in facts.get("edits", ())
        ),
    )


def untyped(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that stay diagnostics."""
    return {name: fact for name, fact in facts.items() if name not in _MOVED}


def seeds_of(facts: Mapping[str, Any]) -> tuple[int, ...]:
    """Return every seed in nested facts, increasing."""
    nested = {name: fact for name, fact in facts.items() if name not in _WITHOUT_SEEDS}
    return tuple(sorted(set(_seeds(nested))))


def _seeds(facts: Any) -> Iterator[int]:
    if isinstance(facts, dict) and isinstance(facts.get("seed"), int):
        yield facts["seed"]
    for value in facts.values() if isinstance(facts, dict) else facts:
        if isinstance(value, dict | list | tuple):  # there are many, and most are numbers
            yield from _seeds(value)


def _model(facts: ModelFacts | Mapping[str, Any] | None) -> ModelFacts | None:
    if not isinstance(facts, Mapping):
        return facts
    known = {name: fact for name, fact in facts.items() if fact is not None}
    return ModelFacts(**{**known, "notes": tuple(known.get("notes", ()))}) if facts else None


def _identifiability(facts: Mapping[str, Any]) -> Identifiability | None:
    report = facts.get("identifiability")
    if report is None:
        return None
    determined = report.get("determined_terms")
    return Identifiability(
        report["unique"],
        report["rank"],
        report["n_rejected"],
        None if determined is None else tuple(determined),
        facts.get("selection", {}).get("method") == "least-norm",
    )
