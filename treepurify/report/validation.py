"""Write the report of a validation: one section for each question of a validator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_numbers, read_output, read_path
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.engines.common.inputs import with_note
from treepurify.engines.tree.purify import purify
from treepurify.errors import InvalidInputError
from treepurify.evidence.worth import effect_worth
from treepurify.models.parse import parse_model
from treepurify.models.refits import GivenRefits
from treepurify.plots.labels import number_words, with_class_names
from treepurify.progress import ProgressReport, progress_report
from treepurify.report.about import About, GroupColumn, read_about
from treepurify.report.effects import EffectPages
from treepurify.report.html import making_section
from treepurify.report.origin import certificate_section, lead, model_section, page_title
from treepurify.report.page import Section, write_page
from treepurify.report.results import result_section, trainings_section, worth_section
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.given_rows import GivenRows, given_rows
from treepurify.rows.row_weights import read_row_weights
from treepurify.rows.source_reader import model_table
from treepurify.rows.tables import (
    check_any_rows,
    check_table,
    row_count,
    table_column,
    table_names,
    take_rows,
)
from treepurify.validation.drift import drift
from treepurify.validation.group_gap import group_gap, is_positive
from treepurify.validation.monotonicity import carried_directions, check_monotonicity
from treepurify.validation.reason_codes import reason_codes
from treepurify.validation.weak_spots import weak_spots

# Largest number of main effects and of pairs that are drawn, and rows with reasons.
_TOP = 6
_MOST_EXAMPLES = 6
# Without a threshold, the rows with the most adverse predictions stand for the refused.
_ADVERSE_SHARE = 0.1


def write_validation(
    model: Any,
    X: Any,
    path: str | Path,
    *,
    y: Any = None,
    about: str | Path | Mapping[str, Any] | None = None,
    refits: GivenRefits | None = None,
    after: Any = None,
    sample_weight: npt.ArrayLike | str | None = None,
    progress: bool = True,
) -> Path:
    """Write the report of a model validation as one HTML page.

    Its sections are purpose and data, the check of the implementation, effects and interactions,
    monotonicity, stability over trainings, worth on held-out rows, weak spots, gaps between groups,
    drift, examples with reasons, limits, and origin with hashes. If the input for a section is
    missing, the section states what to pass. Like the page of `write_html`, it needs no network and
    no other file, and can be printed as a document. Effects are on the margin scale.

    Parameters
    ----------
    model : object, str, Path or Decomposition
        A trained model or a model file. If a decomposition is passed instead, the implementation
        and monotonicity are not checked.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows on which the model is validated, preferably rows that it was not trained on, with
        the columns of groups. Of rows in batches, the page describes a sample of at most 100 000.
    path : str or Path
        The file to write; an existing one is replaced.
    y : array_like of shape (n_rows,) or str, optional
        The observed target, for the worth of effects, weak spots and rates of groups; for rows in
        batches, the name of its column.
    about : str, Path or mapping, optional
        Facts about the model that cannot be computed, as a YAML file or as a mapping:
        ``title``, ``purpose``, ``owner``, ``data``, ``target``, ``limits``, ``directions``,
        ``groups``, ``output``, ``threshold``, ``adverse`` and ``texts``. The documentation
        describes each.
    refits : sequence of object, optional
        Other trainings of the model, two or more, such as `refit` returns.
    after : table, or tuple of table and array_like, optional
        Rows of a later period, for drift; in a tuple with their observed target.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row of `X`, finite and not negative; for rows in batches, the name of the
        column of weights.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Path
        The path of the page.

    Raises
    ------
    InvalidInputError
        If the rows, `about` or an option cannot be used.
    MissingDependencyError
        If matplotlib, Jinja2, or PyYAML for a file in YAML, is not installed.

    See Also
    --------
    treepurify.report.write_html : A report on one page.
    treepurify.report.write_comparison : A report of several decompositions.

    Examples
    --------
    >>> import numpy as np, tempfile, treepurify as tp
    >>> from pathlib import Path
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = GradientBoostingRegressor(n_estimators=9, random_state=0).fit(X, X[:, 0])
    >>> about = {"purpose": "A price", "directions": {"x0": "increasing"}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = tp.report.write_validation(model, X, Path(folder) / "v.html", about=about)
    ...     "x0: proved increasing" in page.read_text(encoding="utf-8")
    True
    """
    target, said, report = read_path("path", path), read_about(about), progress_report(progress)
    rows = _read_rows(X, y, sample_weight, report)
    d = _decomposed(model, rows, refits, progress=progress)
    trained = None if isinstance(model, Decomposition) else model
    later = None
    if after is not None:
        table, observed = after if isinstance(after, tuple) else (after, None)
        later = _read_rows(table, observed, None, report)
    output = read_output(said.output, d.output_names)
    of_model = _features(rows.table, d.inputs.features)
    asked = _Asked(d, trained, said, rows, of_model, later, output, progress)
    effects = EffectPages(with_class_names(d), _TOP)
    made: dict[str, Section] = {}
    questions: dict[str, Callable[[], Section | None]] = {
        "purpose": partial(_purpose, asked),
        "implementation": partial(_implementation, asked),
        "certificate": partial(certificate_section, d),
        "what the model does": effects.summary,
        "what may mislead": effects.misleading,
        "effects": effects.table,
        "main effects": partial(effects.further, 1, "More main effects"),
        "pairs": partial(effects.further, 2, "More pairs"),
        "monotonicity": partial(_monotonicity, asked),
        "trainings": partial(_trainings, asked, effects),
        "worth": partial(_worth, asked),
        "weak spots": partial(_weak_spots, asked),
        "gaps": partial(_gaps, asked),
        "drift": partial(_drift, asked),
        "examples": partial(_examples, asked),
    }

    def kept(name: str) -> Section | None:
        section = questions[name]()
        if section is not None:
            made[name] = section
        return section

    makers: dict[str, Callable[[], Section | None]] = {
        **{name: partial(kept, name) for name in questions},
        "limits": lambda: _limits(asked, made),
        "model": partial(model_section, d),
        "origin": lambda: replace(making_section(d, None, ()), is_folded=False),
    }
    write_page(target, said.title or page_title(d, "Validation"), lead(d), makers, report)
    return target


@dataclass(frozen=True, eq=False)
class _Asked:
    """What the sections are made of; `X` has the columns of the model alone."""

    d: Decomposition
    model: Any
    about: About
    rows: GivenRows
    X: Any
    later: GivenRows | None
    output: int
    progress: bool

    @property
    def weight(self) -> Any:
        """Weights of the rows."""
        return self.rows.weights

    @property
    def y(self) -> Any:
        """What was observed on the rows; None where that is not known."""
        return self.rows.observed[0] if self.rows.observed else None


def _read_rows(X: Any, y: Any, weight: Any, report: ProgressReport) -> GivenRows:
    """Return the rows as a table with all its columns; of rows in batches a sample."""
    given = given_rows(X, None, weight, () if y is None else (y,), DEFAULT_BUDGET, report)
    check_table(given.table)
    n_rows = row_count(given.table)
    check_any_rows(n_rows, "the rows on which the model is validated")
    return given._replace(weights=read_row_weights(given.weights, n_rows))


def _features(X: Any, features: Sequence[FeatureSpec]) -> Any:
    """Return rows with the columns of the model alone."""
    table = model_table(X, features)
    return X if table is None else table


def _decomposed(
    model: Any, rows: GivenRows, refits: GivenRefits | None, *, progress: bool
) -> Decomposition:
    if isinstance(model, Decomposition):
        if refits is not None:
            raise InvalidInputError(
                "refits would be ignored, since a decomposition was passed: make it of several "
                "trainings with treepurify.purify(model, X, refits=refits)"
            )
        return model
    d = purify(
        model,
        _features(rows.table, parse_model(model).features),
        refits=refits,
        sample_weight=rows.weights,
        # Later rows, and the rows of wrong steps, may have values that these have not.
        missing_cells="always",
        progress=progress,
    )
    return with_note(d, rows)


def _not_filled(title: str, advice: str) -> Section:
    return Section(title, [f"Not filled. {advice}"], is_filled=False)


def _purpose(asked: _Asked) -> Section:
    about = asked.about
    facts = [
        ("Purpose", about.purpose),
        ("Target", about.target),
        ("Data", about.data),
        ("Owner", about.owner),
    ]
    if not any(text for _, text in facts):
        advice = "Pass about= (--about): what the model is for, its data and its target."
        return _not_filled("Purpose and data", advice)
    return Section("Purpose and data", facts=facts)


def _implementation(asked: _Asked) -> Section:
    title = "Implementation check"
    if asked.model is None:
        return _not_filled(title, "Pass the model itself, whose predictions are compared.")
    found = asked.d.verify(asked.model, asked.X)
    sentence = (
        f"On {found.n_rows} rows the sum of the effects differs from the {found.source} by at most "
        f"{number_words(found.largest_difference, 3)}, which is "
        f"{number_words(found.relative_difference, 3)} of the largest margin."
    )
    return Section(title, [sentence])


def _monotonicity(asked: _Asked) -> Section:
    if asked.model is None:
        advice = "Pass the model itself: directions are proved for its trees, not for effects."
        return _not_filled("Monotonicity", advice)
    directions: dict[str | int, Any] = dict(carried_directions(parse_model(asked.model)))
    directions.update(asked.about.directions.items())
    if not directions:
        return _not_filled(
            "Monotonicity",
            "List the expected directions under directions in about= (--about), such as income: "
            "increasing. The model has no constraints (files of XGBoost do not contain them).",
        )
    found = check_monotonicity(
        asked.model, asked.X, directions, sample_weight=asked.weight, progress=asked.progress
    )
    return result_section(found, asked.d)


def _trainings(asked: _Asked, effects: EffectPages) -> Section:
    made = trainings_section(effects.d, effects.leading_features)
    advice = "Pass at least two other trainings of the model as refits= (--refit)."
    return _not_filled("Several trainings", advice) if made is None else made


def _worth(asked: _Asked) -> Section | None:
    if asked.y is None:
        advice = "Pass y (--target-column), the observed targets."
        return _not_filled("Worth on held-out rows", advice)
    d, y = asked.d, asked.y
    found = effect_worth(d, asked.X, y, sample_weight=asked.weight, progress=asked.progress)
    return worth_section(found)


def _weak_spots(asked: _Asked) -> Section:
    if asked.y is None:
        return _not_filled("Weak spots", "Pass y (--target-column), the observed targets.")
    d, y = asked.d, asked.y
    try:
        found = weak_spots(d, asked.X, y, sample_weight=asked.weight, progress=asked.progress)
    except InvalidInputError as error:  # too few rows, or no main effects that are tables
        return _not_filled("Weak spots", f"Not searched for: {error}.")
    return result_section(found, d)


def _groups(values: Any, column: GroupColumn) -> Any:
    """Return the two groups into which a column divides the rows."""
    import pandas as pd

    values = np.asarray(values)
    if column.cut is not None:
        numbers = read_numbers("group", values, "contain one number per row if cut is given")
        names = [f"below {column.cut:g}", f"{column.cut:g} and above"]
        codes = np.where(np.isnan(numbers), -1, numbers >= column.cut)
        return pd.Categorical.from_codes(codes.astype(np.intp), pd.Index(names))
    if column.from_group is None:
        return values
    labels = pd.Categorical(pd.Series(values).map(str))
    return labels.set_categories([column.from_group, column.to_group])


def _gaps(asked: _Asked) -> Section:
    title = "Gaps between groups"
    if not asked.about.groups:
        return _not_filled(title, "Name columns of X under groups in about= (--about).")
    made = [_gap(asked, column) for column in asked.about.groups]
    return Section(title, parts=made)


def _gap(asked: _Asked, column: GroupColumn) -> Section:
    names = table_names(asked.rows.table) or ()
    if column.name not in names:
        raise InvalidInputError(
            f"groups names the column {column.name!r}, which X does not have: add it to X"
        )
    threshold = asked.about.threshold
    try:
        found = group_gap(
            asked.d,
            asked.X,
            _groups(table_column(asked.rows.table, list(names).index(column.name)), column),
            None if threshold is None else asked.y,
            threshold=threshold,
            adverse=asked.about.adverse,  # type: ignore[arg-type] # checked when it was read
            output=asked.output,
            sample_weight=asked.weight,
            progress=asked.progress,
        )
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error} (the column {column.name!r} under groups, with from, to and cut)"
        ) from error
    return replace(result_section(found, asked.d), title=column.name)


def _drift(asked: _Asked) -> Section:
    if asked.later is None:
        return _not_filled("Drift", "Pass after= (--later), the rows of a later period.")
    observed = (None, None)
    if asked.y is not None and asked.later.observed:
        observed = (asked.y, asked.later.observed[0])
    found = drift(
        asked.d,
        asked.X,
        _features(asked.later.table, asked.d.inputs.features),
        *observed,
        weight_before=asked.weight,
        progress=asked.progress,
    )
    return result_section(found, asked.d)


def _examples(asked: _Asked) -> Section:
    """Return reasons of refused rows against accepted ones, or of the most adverse against all."""
    d, about, title = asked.d, asked.about, "Examples with reasons"
    margin = d.predict(asked.X).reshape(-1, d.n_outputs)
    refused, words = _refused(asked, margin)
    if refused.all() or not refused.any():
        advice = "All predictions are on one side of the threshold: change the threshold."
        return _not_filled(title, advice)
    adverse = margin[:, asked.output] * (1.0 if about.adverse == "high" else -1.0)
    order = np.flatnonzero(refused)[np.argsort(-adverse[refused], kind="stable")]
    chosen = order[np.unique(np.linspace(0, len(order) - 1, _MOST_EXAMPLES).astype(np.intp))]
    reference = np.arange(len(refused)) if about.threshold is None else np.flatnonzero(~refused)
    found = reason_codes(
        d if asked.model is None else asked.model,
        take_rows(asked.X, chosen),
        reference=take_rows(asked.X, reference),
        adverse=about.adverse,  # type: ignore[arg-type] # checked when it was read
        texts=dict(about.texts) or None,
        output=asked.output,
        sample_weight=None if asked.weight is None else np.asarray(asked.weight)[reference],
        progress=asked.progress,
    )
    made = result_section(found, d)
    return replace(made, text=[f"{len(chosen)} of {len(order)} rows, {words}.", *made.text])


def _refused(asked: _Asked, margin: npt.NDArray[np.float64]) -> tuple[npt.NDArray[Any], str]:
    """Return which rows are refused, and by which rule in words."""
    about, is_high = asked.about, asked.about.adverse == "high"
    if about.threshold is not None:
        positive = is_positive(asked.d, margin, asked.output, about.threshold)
        side = "at or above" if is_high else "below"
        words = f"refused because their predictions are {side} {number_words(about.threshold)}"
        return positive == is_high, f"{words}, compared with the accepted rows"
    own = margin[:, asked.output]
    limit = np.quantile(own, 1 - _ADVERSE_SHARE if is_high else _ADVERSE_SHARE)
    words = f"of the tenth with the {'highest' if is_high else 'lowest'} predictions"
    return own >= limit if is_high else own <= limit, f"{words}, compared with all rows"


def _limits(asked: _Asked, made: Mapping[str, Section]) -> Section:
    notes = () if asked.d.origin.model is None else asked.d.origin.model.notes
    sentences = [*asked.about.limits, *notes]
    if asked.rows.sentence:
        sentences.append(asked.rows.sentence)
    if asked.y is not None:
        sentences.append(
            "The worth of effects and the rates apply to new rows only if the model was not "
            "trained on these rows, which no number can show."
        )
    sentences.append(
        "Effects describe the model under the distribution of these rows. They are not causes, and "
        "another distribution gives other effects."
    )
    empty = [section.title for section in made.values() if not section.is_filled]
    if empty:
        sentences.append(f"Not examined, because its input was not passed: {', '.join(empty)}.")
    return Section("Limits", sentences)
