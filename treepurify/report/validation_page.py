"""Write the report of a validation: the sections that a validator signs, from top to bottom."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import (
    brief,
    check_flag,
    check_result,
    check_whole,
    read_output,
    read_path,
)
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.engines.common.table_or_sample import with_note
from treepurify.engines.tree.purify import purify
from treepurify.errors import InvalidInputError
from treepurify.models.families import display_name
from treepurify.models.parse import parse_model
from treepurify.models.refits import GivenRefits
from treepurify.plots.axis_layout import Scale
from treepurify.plots.labels import with_class_names
from treepurify.progress import ProgressReport, progress_report
from treepurify.report.about import read_about
from treepurify.report.closing import lead, overview
from treepurify.report.effect_sections import (
    SCRIPTS,
    shown_effects,
)
from treepurify.report.making import hash_files, making_parts
from treepurify.report.numbered import NumberedSection
from treepurify.report.numbers import write_number_files
from treepurify.report.parts import page_text, section, written_sections
from treepurify.report.payload import make_payload
from treepurify.report.scales import read_scales
from treepurify.report.validation_sections import SECTIONS, ValidatedRows, ValidationInputs
from treepurify.rows.given_rows import given_rows
from treepurify.rows.reduction import RowsNote
from treepurify.rows.row_weights import read_row_weights
from treepurify.rows.tables import check_any_rows, check_table, row_count
from treepurify.storage import write_atomically

__all__ = ["write_validation"]


def write_validation(  # noqa: PLR0913 - one argument per question of a validator
    model: Any,
    X: Any,
    path: str | Path,
    *,
    y: Any = None,
    about: str | Path | Mapping[str, Any] | None = None,
    decomposition: Decomposition | None = None,
    refits: GivenRefits | None = None,
    groups: Mapping[str, npt.ArrayLike] | None = None,
    X_after: Any = None,
    y_after: Any = None,
    output: int | str = 0,
    n_examples: int = 6,
    sample_weight: npt.ArrayLike | str | None = None,
    weight_after: npt.ArrayLike | str | None = None,
    top: int = 6,
    numbers: bool = False,
    command: str | None = None,
    files: Sequence[str | Path] = (),
    scale: Scale | Mapping[str, Scale] = "auto",
    seed: int = 0,
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
        The rows on which the model is validated, preferably rows that it was not trained on. They
        may also have the columns of groups. Of rows in batches (see `purify`), at most 100 000 are
        drawn; the page says so.
    path : str or Path
        The file to write; an existing one is replaced.
    y : array_like of shape (n_rows,) or str, optional
        The observed target, for the worth of effects, weak spots and rates of groups; for rows in
        batches, the name of its column.
    about : str, Path or mapping, optional
        Facts about the model that cannot be computed, as a YAML file or as a mapping:
        ``title``, ``purpose``, ``owner``, ``data``, ``target``, ``limits``, ``directions``,
        ``groups``, ``threshold``, ``adverse`` and ``texts``. The documentation describes each.
    decomposition : Decomposition, optional
        An existing decomposition of the model, such as one of several trainings. By default the
        model is purified under `X`.
    refits : sequence of object, optional
        Other trainings of the model, two or more, such as `refit` returns.
    groups : mapping of str to array_like of shape (n_rows,), optional
        Columns that define groups, by name; they need not be columns of `X`. If `about` does not
        describe a column, its values are the groups.
    X_after, y_after : optional
        Later rows and their observed target, for drift.
    output : int or str
        The output on which decisions are based, by position or name.
    n_examples : int
        Number of rows whose reasons are listed. With a threshold in `about`, they are rejected
        rows, explained against the accepted ones; without a threshold, they are among the tenth
        with the most adverse predictions, explained against all rows.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row of `X`, finite and not negative; for rows in batches, the name of the
        column of weights.
    weight_after : array_like or str, optional
        Weight of each of the later rows, as `sample_weight`.
    top : int
        Largest number of main effects and of pairs to draw.
    numbers : bool
        Whether to also write all numbers of the page to files next to it; see `write_numbers`.
    command, files, scale : optional
        As in `write_html`.
    seed : int
        Seed of the bootstrap intervals, and of a sample of rows in batches.
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
        If matplotlib, or PyYAML for a file in YAML, is not installed.

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
    target = read_path("path", path)
    check_whole("top", top, 0)
    check_whole("n_examples", n_examples, 0)
    check_whole("seed", seed, 0)
    check_flag("numbers", numbers)
    if command is not None and not isinstance(command, str):
        raise InvalidInputError(f"command must be text, got {brief(command)}")
    said, hashed = read_about(about), hash_files(files)
    report = progress_report(progress)
    trained = None if isinstance(model, Decomposition) else model
    if X_after is None and not (y_after is None and weight_after is None):
        raise InvalidInputError("y_after and weight_after belong to X_after: pass X_after, too")
    rows = _read_rows(X, y, sample_weight, _labels_by_column(groups), seed, report)
    check_table(rows.X)
    check_any_rows(row_count(rows.X), "the rows on which the model is validated")
    rows = replace(rows, weight=read_row_weights(rows.weight, row_count(rows.X)))
    later = ValidatedRows(None, None, None, {})
    if X_after is not None:
        later = _read_rows(X_after, y_after, weight_after, {}, seed, report)
    d = _decomposed(model, rows, decomposition, refits, progress=progress)
    scales = read_scales(scale, d.feature_names)
    shown = shown_effects(with_class_names(d), top, make_payload(d, scales=scales), scales)
    inputs = ValidationInputs(
        d, trained, said, rows, later, shown, read_output(output, d.output_names), n_examples,
        seed, progress,
    )  # fmt: skip
    makers = {name: partial(make, inputs) for name, make in SECTIONS.items()}
    sections = list(chain.from_iterable(written_sections(makers, report)))
    sections.append(_limits(inputs, sections))
    origin = section("making", "Origin and hashes", *making_parts(d, command, hashed))
    page = page_text(
        said.title or _title(d),
        lead(d),
        [*(one.html() for one in sections), overview(d), origin],
        shown.payload.text,
        SCRIPTS,
    )
    write_atomically(target, page.encode("utf-8"))
    if numbers:
        write_number_files(d, target, sections)
    return target


def _read_rows(
    X: Any,
    y: Any,
    weight: Any,
    labels: Mapping[str, npt.NDArray[Any]],
    seed: int,
    report: ProgressReport,
) -> ValidatedRows:
    """Return the rows of one data set as a table."""
    observed = () if y is None else (y,)
    given = given_rows(X, None, weight, observed, DEFAULT_BUDGET, report, seed=seed)
    y = given.observed[0] if given.observed else None
    return ValidatedRows(given.table, y, given.weights, labels, given.words)


def _title(d: Decomposition) -> str:
    library = "" if d.origin.model is None else d.origin.model.library
    return f"Validation: {display_name(library)} model" if library else "Validation"


def _labels_by_column(groups: Any) -> dict[str, npt.NDArray[Any]]:
    if groups is None:
        return {}
    if not isinstance(groups, Mapping) or not all(isinstance(name, str) for name in groups):
        raise InvalidInputError(
            'groups must be a dict of labels by the name of their column, such as {"sex": sex}, '
            f"got {brief(groups)}"
        )
    return {name: np.asarray(labels) for name, labels in groups.items()}


def _decomposed(
    model: Any,
    rows: ValidatedRows,
    decomposition: Decomposition | None,
    refits: GivenRefits | None,
    *,
    progress: bool,
) -> Decomposition:
    """Return the decomposition of the report, made here unless it was passed."""
    if decomposition is not None and isinstance(model, Decomposition):
        raise InvalidInputError(
            "decomposition would be ignored, since model is a decomposition: pass the trained "
            "model as model, or leave decomposition out"
        )
    given = model if isinstance(model, Decomposition) else decomposition
    if given is not None:
        check_result("decomposition", given, Decomposition)
        if refits is not None:
            raise InvalidInputError(
                "refits would be ignored, since a decomposition was passed: make this one of "
                "several trainings with treepurify.purify(model, X, refits=refits)"
            )
        return given
    X = rows.features(parse_model(model).features)
    d = purify(
        model,
        X,
        refits=refits,
        sample_weight=rows.weight,
        # Later rows, and the rows of wrong steps, may have values that these have not.
        missing_cells="always",
        progress=progress,
    )
    return with_note(d, RowsNote(words=rows.words))


def _limits(inputs: ValidationInputs, sections: Sequence[NumberedSection]) -> NumberedSection:
    notes = () if inputs.d.origin.model is None else inputs.d.origin.model.notes
    sentences = [*inputs.about.limits, *notes]
    for name, words in (("rows", inputs.rows.words), ("later rows", inputs.later.words)):
        if words:
            sentences.append(f"The {name} are {words}.")
    if inputs.rows.y is not None:
        sentences.append(
            "The worth of effects and the rates apply to new rows only if the model was not "
            "trained on these rows, which no number can show."
        )
    sentences.append(
        "Effects describe the model under the distribution of these rows. They are not causes, and "
        "another distribution gives other effects."
    )
    empty = [one.heading for one in sections if not one.is_filled]
    if empty:
        sentences.append(f"Not examined, because its input was not passed: {', '.join(empty)}.")
    listed = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    form = section("limits", "Limits", f"<ul>{listed}</ul>")
    return NumberedSection("limits", "Limits", tuple(sentences), form=form)
