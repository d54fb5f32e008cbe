"""The sections of a validation, one function for each question of a validator."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.worth import effect_worth
from treepurify.models.parse import parse_model
from treepurify.plots.labels import number_words
from treepurify.report.about import About, GroupColumn
from treepurify.report.closing import certificate
from treepurify.report.effect_sections import (
    ShownEffects,
    effects_section,
    main_effects_section,
    pairs_section,
    told_section,
)
from treepurify.report.held_out import worth_section
from treepurify.report.numbered import NumberedSection, NumberTable
from treepurify.report.parts import facts_list, section
from treepurify.report.result_sections import (
    drift_section,
    gap_section,
    monotonicity_section,
    reasons_section,
    weak_spots_section,
)
from treepurify.report.trainings import trainings_section
from treepurify.rows.source_reader import model_table
from treepurify.rows.tables import table_column, table_names, take_rows
from treepurify.validation.approval_rates import Decision
from treepurify.validation.directions import carried_directions
from treepurify.validation.drift import drift
from treepurify.validation.group_gap import GroupGap, group_gap
from treepurify.validation.monotonicity import check_monotonicity
from treepurify.validation.reason_codes import reason_codes
from treepurify.validation.weak_spots import weak_spots
from treepurify.verdict import verdict

__all__ = ["SECTIONS", "ValidatedRows", "ValidationInputs"]

# Without a threshold, the rows with the most adverse predictions stand for the refused.
_ADVERSE_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class ValidatedRows:
    """The rows of one data set, as a table.

    Parameters
    ----------
    X, y, weight : object, optional
        Rows, what was observed, and weights; `X` is None where there is no such data set.
    labels : mapping of str to ndarray
        Columns that tell groups, by name.
    words : str
        How many rows of how many they are; empty where they are all.
    """

    X: Any
    y: Any
    weight: Any
    labels: Mapping[str, npt.NDArray[Any]]
    words: str = ""

    def features(self, features: Any) -> Any:
        """Return the rows with the columns of the model alone."""
        table = model_table(self.X, features)
        return self.X if table is None else table

    def group(self, name: str) -> Any:
        """Return what tells the groups of a column."""
        if name in self.labels:
            return self.labels[name]
        names = table_names(self.X) or []
        if name not in names:
            raise InvalidInputError(
                f"groups names the column {name!r}, which X does not have: add it to X, or pass "
                f"groups={{{name!r}: labels}}"
            )
        return np.asarray(table_column(self.X, names.index(name)))


@dataclass(frozen=True, eq=False)
class ValidationInputs:
    """What the sections are made of."""

    d: Decomposition
    model: Any
    about: About
    rows: ValidatedRows
    later: ValidatedRows
    shown: ShownEffects
    output: int
    n_examples: int
    seed: int
    progress: bool

    @property
    def X(self) -> Any:
        """The rows with the columns of the model alone."""
        return self.rows.features(self.d.inputs.features)


def _not_filled(identifier: str, heading: str, advice: str) -> list[NumberedSection]:
    return [NumberedSection(identifier, heading, (f"Not filled. {advice}",), is_filled=False)]


def _purpose(inputs: ValidationInputs) -> list[NumberedSection]:
    import pandas as pd

    about = inputs.about
    facts = [
        ("Purpose", about.purpose),
        ("Target", about.target),
        ("Data", about.data),
        ("Owner", about.owner),
    ]
    said = [f"{name}: {text}" for name, text in facts if text]
    if not said:
        return _not_filled(
            "purpose",
            "Purpose and data",
            "Pass about= (--about): what the model is for, its data and its target.",
        )
    size = {"rows": inputs.d.origin.n_rows, "features": len(inputs.d.feature_names)}
    form = section("purpose", "Purpose and data", facts_list(facts))
    table = NumberTable("data", pd.DataFrame([size]))
    return [NumberedSection("purpose", "Purpose and data", tuple(said), (table,), form=form)]


def _implementation(inputs: ValidationInputs) -> list[NumberedSection]:
    import pandas as pd

    d, heading = inputs.d, "Implementation check"
    if inputs.model is None:
        checked = _not_filled(
            "implementation", heading, "Pass the model itself, whose predictions are compared."
        )
    else:
        found = d.verify(inputs.model, inputs.X)
        sentence = (
            f"On {found.n_rows} rows the sum of the effects differs from the {found.source} by at "
            f"most {number_words(found.largest_difference, 3)}, which is "
            f"{number_words(found.relative_difference, 3)} of the largest margin."
        )
        table = NumberTable("verification", pd.DataFrame([asdict(found)]))
        checked = [NumberedSection("implementation", heading, (sentence,), (table,))]
    form = certificate(d)
    if not form:
        return checked
    lines, tables = verdict(d).lines, []
    if d.certificate is not None:
        lines = (*lines, *d.certificate.details())
        tables.append(NumberTable("certificate", pd.DataFrame([asdict(d.certificate)])))
    own = NumberedSection("certificate", "Certificate", lines, tuple(tables), form=form)
    return [*checked, own]


def _effects(inputs: ValidationInputs) -> list[NumberedSection]:
    shown = inputs.shown
    sentences = tuple(statement.text for statement in shown.statements)
    told = told_section(shown, warns=False)  # the certificate stands above
    forms = [
        NumberedSection("summary", "What the model does", sentences, form=told),
        NumberedSection("effects", "Effects", form=effects_section(shown)),
        NumberedSection("mains", "Main effects", form=main_effects_section(shown)),
        NumberedSection("pairs", "Pairs", form=pairs_section(shown)),
    ]
    return [one for one in forms if one.form]


def _monotonicity(inputs: ValidationInputs) -> list[NumberedSection]:
    if inputs.model is None:
        advice = "Pass the model itself: directions are proved for its trees, not for effects."
        return _not_filled("monotonicity", "Monotonicity", advice)
    directions: dict[str | int, Any] = dict(carried_directions(parse_model(inputs.model)))
    directions.update(inputs.about.directions.items())
    if not directions:
        return _not_filled(
            "monotonicity",
            "Monotonicity",
            "List the expected directions under directions in the file of about= (--about), such "
            "as income: increasing. The model has no constraints (files of XGBoost do not "
            "contain them).",
        )
    found = check_monotonicity(
        inputs.model,
        inputs.X,
        directions,
        sample_weight=inputs.rows.weight,
        progress=inputs.progress,
    )
    return [monotonicity_section(found, inputs.d, "monotonicity")]


def _stability(inputs: ValidationInputs) -> list[NumberedSection]:
    d, shown = inputs.d, inputs.shown
    if d.spread is None:
        advice = "Pass at least two other trainings of the model as refits= (--refit)."
        return _not_filled("trainings", "Several trainings", advice)
    form = trainings_section(shown.d, shown.rows, shown.top, shown.scales)
    table = NumberTable("trainings", d.spread.importance())
    return [NumberedSection("trainings", "Several trainings", (), (table,), form=form)]


def _worth(inputs: ValidationInputs) -> list[NumberedSection]:
    if inputs.rows.y is None:
        advice = "Pass y (--target-column), the observed targets."
        return _not_filled("worth", "Worth on held-out rows", advice)
    worth = effect_worth(
        inputs.d,
        inputs.X,
        inputs.rows.y,
        sample_weight=inputs.rows.weight,
        seed=inputs.seed,
        progress=inputs.progress,
    )
    table = NumberTable("worth", worth.to_frame())
    sentences = (worth.summary(0)[0], *worth.notes)
    form = worth_section(worth)
    return [NumberedSection("worth", "Worth on held-out rows", sentences, (table,), form=form)]


def _weak_spots(inputs: ValidationInputs) -> list[NumberedSection]:
    if inputs.rows.y is None:
        advice = "Pass y (--target-column), the observed targets."
        return _not_filled("weak-spots", "Weak spots", advice)
    try:
        found = weak_spots(
            inputs.d,
            inputs.X,
            inputs.rows.y,
            sample_weight=inputs.rows.weight,
            seed=inputs.seed,
            progress=inputs.progress,
        )
    except InvalidInputError as error:  # too few rows, or no main effects that are tables
        return _not_filled("weak-spots", "Weak spots", f"Not searched for: {error}.")
    return [weak_spots_section(found, "weak-spots")]


def _gaps(inputs: ValidationInputs) -> list[NumberedSection]:
    columns = {one.name: one for one in inputs.about.groups}
    columns |= {name: GroupColumn(name) for name in inputs.rows.labels if name not in columns}
    if not columns:
        return _not_filled(
            "gap",
            "Gaps between groups",
            "Name columns under groups in about= (--about), or pass groups= (--group-column).",
        )
    return [_gap(inputs, column, f"gap-{number}") for number, column in enumerate(columns.values())]


def _gap(inputs: ValidationInputs, column: GroupColumn, identifier: str) -> NumberedSection:
    try:
        found = _measured_gap(inputs, column)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error} (the column {column.name!r} under groups, with from, to and cut)"
        ) from error
    return gap_section(found, identifier, column.name)


def _measured_gap(inputs: ValidationInputs, column: GroupColumn) -> GroupGap:
    threshold = inputs.about.threshold
    return group_gap(
        inputs.d,
        inputs.X,
        inputs.rows.group(column.name),
        None if threshold is None else inputs.rows.y,
        from_group=column.from_group,
        to_group=column.to_group,
        cut=column.cut,
        threshold=threshold,
        adverse=inputs.about.adverse,  # type: ignore[arg-type] # which was checked when it was read
        output=inputs.output,
        sample_weight=inputs.rows.weight,
        seed=inputs.seed,
        progress=inputs.progress,
    )


def _drift(inputs: ValidationInputs) -> list[NumberedSection]:
    rows, later = inputs.rows, inputs.later
    if later.X is None:
        return _not_filled("drift", "Drift", "Pass X_after (--later), the rows of a later period.")
    observed = (None, None) if rows.y is None or later.y is None else (rows.y, later.y)
    found = drift(
        inputs.d,
        inputs.X,
        later.features(inputs.d.inputs.features),
        *observed,
        weight_before=rows.weight,
        weight_after=later.weight,
        seed=inputs.seed,
        progress=inputs.progress,
    )
    return [drift_section(found, "drift")]


def _examples(inputs: ValidationInputs) -> list[NumberedSection]:
    heading = "Examples with reasons"
    if not inputs.n_examples:
        advice = "Pass n_examples of one or more."
        return _not_filled("reasons", heading, advice)
    margin = inputs.d.predict(inputs.X).reshape(-1, inputs.d.n_outputs)
    refused, words = _refused(inputs, margin)
    if refused.all() or not refused.any():
        advice = "All predictions are on one side of the threshold: change the threshold."
        return _not_filled("reasons", heading, advice)
    adverse = margin[:, inputs.output] * (1.0 if inputs.about.adverse == "high" else -1.0)
    order = np.flatnonzero(refused)[np.argsort(-adverse[refused], kind="stable")]
    chosen = order[np.unique(np.linspace(0, len(order) - 1, inputs.n_examples).astype(np.intp))]
    is_decided = inputs.about.threshold is not None
    reference = np.flatnonzero(~refused) if is_decided else np.arange(len(refused))
    weight = inputs.rows.weight
    found = reason_codes(
        inputs.d if inputs.model is None else inputs.model,
        take_rows(inputs.X, chosen),
        reference=take_rows(inputs.X, reference),
        adverse=inputs.about.adverse,  # type: ignore[arg-type] # which was checked when it was read
        texts=dict(inputs.about.texts) or None,
        output=inputs.output,
        sample_weight=None if weight is None else np.asarray(weight)[reference],
        progress=inputs.progress,
    )
    made = reasons_section(found, "reasons")
    sentences = (f"{len(chosen)} of {len(order)} rows, {words}.", *made.sentences)
    return [NumberedSection("reasons", heading, sentences, made.tables)]


def _refused(
    inputs: ValidationInputs, margin: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[Any], str]:
    """Return which rows are refused, and by which rule in words."""
    about = inputs.about
    if about.threshold is not None:
        rule = Decision(inputs.d.link, inputs.output, about.threshold, "response", about.adverse)
        side = "at or above" if about.adverse == "high" else "below"
        words = f"refused because their predictions are {side} {number_words(about.threshold)}"
        return ~rule.is_approved(margin), f"{words}, compared with the accepted rows"
    own = margin[:, inputs.output]
    is_high = about.adverse == "high"
    limit = np.quantile(own, 1 - _ADVERSE_SHARE if is_high else _ADVERSE_SHARE)
    words = f"of the tenth with the {'highest' if is_high else 'lowest'} predictions"
    return own >= limit if is_high else own <= limit, f"{words}, compared with all rows"


# In the order of the page. A section of another result is one more function.
SECTIONS: dict[str, Callable[[ValidationInputs], list[NumberedSection]]] = {
    "purpose": _purpose,
    "implementation": _implementation,
    "effects": _effects,
    "monotonicity": _monotonicity,
    "trainings": _stability,
    "worth": _worth,
    "weak spots": _weak_spots,
    "gaps": _gaps,
    "drift": _drift,
    "examples": _examples,
}
