"""Pipelines that mix raw columns: their features are the columns that the last step takes.

A raw table is read by asking the fitted steps for these, and so nothing is guessed about them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from treepurify.models.parsed import ParsedModel
from treepurify.models.pipelines.columns import Column
from treepurify.models.pipelines.transformed_rows import FittedSteps
from treepurify.rows.columns import Derivation, FeatureSpec

__all__ = ["in_last_columns"]

_MOST_NAMED = 8
Parsed = TypeVar("Parsed", bound=ParsedModel)


def in_last_columns(
    model: Parsed,
    pipeline: Any,
    raws: Sequence[Column],
    made: Sequence[Column],
    names: Sequence[str] | None,
) -> Parsed:
    """Return the last step as a function of those of its columns that it uses.

    Parameters
    ----------
    model : ParsedModel
        The last step.
    pipeline : Pipeline
        A fitted pipeline.
    raws, made : sequence of Column
        The columns that it takes, and those that its last step takes or makes itself (CatBoost).
    names : sequence of str, optional
        Names of the latter, where the steps name them.

    Returns
    -------
    ParsedModel
        Columns that the steps pass on stay raw ones.
    """
    counted = tuple(spec.derivation for spec in model.features if spec.derivation is not None)
    takes = tuple(column.name for column in raws)
    last_made = tuple(made[: len(made) - len(counted)])
    steps = FittedSteps(tuple(pipeline.steps), takes, last_made, counted)
    used = model.used_features
    unchanged = [t for t in used if made[t].raw and not (made[t].stage or made[t].refusal)]
    passed_on = set({made[t].position: t for t in unchanged}.values())
    if len(passed_on) == len(used):
        passed_on = set()  # reordered only, which a table without names does not tell
    features, taken = list(model.features), set(takes)
    for t in used:
        name = made[t].name if names is None else names[t]
        if t in passed_on:
            features[t] = replace(features[t], name=takes[made[t].position])
            continue
        name = _free_name(name, taken, t)
        taken.add(name)
        made_from = tuple(takes[raw] for raw in made[t].raw)
        how = Derivation(steps, t)
        features[t] = replace(features[t], name=name, made_from=made_from, derivation=how)
    kept = {features[t].name for t in passed_on}
    ignored = tuple(name for name in takes if name not in kept)
    features = [replace(spec, ignored=(*spec.ignored, *ignored)) for spec in features]
    reason = next((made[t].refusal for t in used if made[t].refusal), "its last step has bins")
    source, signs = model.source, model.source.constraints
    source = replace(
        source,
        notes=(*source.notes, _note(reason, [features[t] for t in used])),
        constraints=tuple(signs[t] for t in used) if signs else (),
    )
    whole = replace(model, features=tuple(features), source=source)  # type: ignore[type-var]
    return whole.of_features(used)


def _note(reason: str, features: Sequence[FeatureSpec]) -> str:
    """Say that the features are not raw columns, those of one raw column together."""
    together: dict[tuple[str, ...], list[str]] = {}
    for spec in features:
        if spec.made_from:
            together.setdefault(spec.made_from, []).append(repr(spec.name))
    listed = [
        f"{', '.join(own)} from {', '.join(map(repr, sources[:_MOST_NAMED]))}"
        for sources, own in together.items()
    ]
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return (
        f"the features are the columns that the last step of the pipeline takes, since {reason}: "
        f"{'; '.join(listed[:_MOST_NAMED])}{more}. The pipeline makes them from raw tables; after "
        "loading from a file, tables must contain them"
    )


def _free_name(name: str, taken: set[str], position: int) -> str:
    """Return a name that no other column has: imputers pass the names of raw columns on."""
    for free in (name, f"{name} (transformed)"):
        if free not in taken:
            return free
    return f"{name} (transformed column {position})"
