"""Write a decomposition as one self-contained HTML page: its sections, from top to bottom."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.arguments import brief, check_result, check_whole, read_path
from treepurify.auditing.ranked_findings import Audit
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.simplification import Simplification
from treepurify.models.families import display_name
from treepurify.plots.axis_layout import Scale
from treepurify.plots.labels import with_class_names
from treepurify.progress import progress_report
from treepurify.report.closing import certificate, checks, lead, overview
from treepurify.report.effect_sections import (
    SCRIPTS,
    effects_section,
    main_effects_section,
    pairs_section,
    prediction_section,
    shown_effects,
    told_section,
)
from treepurify.report.held_out import path_section, worth_section
from treepurify.report.interactive import findings_list
from treepurify.report.making import hash_files, making_parts
from treepurify.report.parts import folded_section, page_text, section, written_sections
from treepurify.report.payload import make_payload
from treepurify.report.result_sections import result_sections
from treepurify.report.same_model import check_same_model
from treepurify.report.scales import Scales, read_scales
from treepurify.report.trainings import trainings_section
from treepurify.rows.tables import is_sparse, read_matrix, row_count, table_names, take_rows
from treepurify.storage import write_atomically

__all__ = ["write_html"]

_MOST_FINDINGS = 40
_MOST_EXAMPLES = 200
# The most values that the examples may have.
_MOST_EXAMPLE_VALUES = 20_000


def write_html(  # noqa: PLR0913 - one argument per section
    d: Decomposition,
    path: str | Path,
    *,
    top: int = 6,
    command: str | None = None,
    files: Sequence[str | Path] = (),
    measures: Sequence[Decomposition] = (),
    audit: Audit | None = None,
    worth: EffectWorth | None = None,
    simple: Simplification | None = None,
    results: Sequence[Any] = (),
    X: Any = None,
    scale: Scale | Mapping[str, Scale] = "auto",
    progress: bool = True,
) -> Path:
    """Write a report of a decomposition as one HTML page.

    It begins with a summary of the model in a few sentences, each with a figure. Findings, effects
    and single rows follow; notes on how to read effects, the certificate and the origin are at the
    end. Effects are on the margin scale.

    The page needs no network and no other file, and is written only when it is complete. A reader
    can sort its tables, switch effects between before and after purification and between
    distributions, and choose feature values to see how their prediction is made up. With scripts
    disabled, the most important effects are still shown as figures.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    path : str or Path
        The file to write; an existing one is replaced.
    top : int
        Largest number of main effects and of pairs to draw. Only effects with at least 0.5% of the
        variance are drawn, each only once.
    command : str, optional
        The command or code that made the decomposition, printed at the end. By default the call
        recorded in the decomposition.
    files : sequence of str or Path
        Files from which the decomposition was made, such as those of the model and of the data.
        Their SHA-256 hashes are printed, with those of the parsed model and of the rows as they
        were read.
    measures : sequence of Decomposition
        Decompositions of the same model under other distributions, which readers can switch to; by
        default those of `audit`.
    audit : Audit, optional
        An audit whose findings are listed.
    worth : EffectWorth, optional
        The worth of effects on held-out rows; by default that of `audit`.
    simple : Simplification, optional
        A simplification, whose path is shown.
    results : sequence of object
        Results of `check_monotonicity`, `group_gap`, `drift` and `reason_codes`; each has a
        section.
    X : array_like or table, optional
        Example rows that readers can choose from: at most 200 rows and 20 000 values, with their
        remainder if the decomposition has one. Their values are stored in the file, so no rows are
        included by default. Without them, the section "One prediction" starts from the most common
        combination of intervals in the rows of `d`, or from the intervals of one row in the middle
        of the data, never from actual values.
    scale : str or mapping of str to str
        ``"auto"``, ``"value"``, ``"rank"`` or ``"log"``, as in the figures of `treepurify.plots`:
        one for all features, or a mapping from names of features, such as ``{"income": "log"}``.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    InvalidInputError
        If `top` is negative, the folder does not exist, one of `measures` is of another model or
        has different intervals, one of `results` has the wrong type, or `scale` cannot be used
        (``"log"`` requires values above zero).
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.report.write_comparison : A report of several decompositions.
    treepurify.report.write_validation : The report of a validation.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 1, 2, 3]), X)
    >>> tp.report.write_html(d, "report.html", X=X)  # doctest: +SKIP
    PosixPath('report.html')
    """
    target = read_path("path", path)
    _check_arguments(d, top, command, measures, audit)
    for name, given, kind in (
        ("worth", worth, EffectWorth),
        ("simple", simple, Simplification),
    ):
        if given is not None:
            check_result(name, given, kind, "treepurify.effect_worth or treepurify.simplify")
    hashed, scales = hash_files(files), read_scales(scale, d.feature_names)
    worth = audit.worth if worth is None and audit is not None else worth
    d = with_class_names(d)
    if not measures and audit is not None:
        measures = [compared.second for compared in audit.comparisons.values()]
    report = progress_report(progress)
    examples = None if X is None else _examples(X, len(d.feature_names))
    payload = make_payload(d, measures, examples, scales=scales, report=report)
    shown = shown_effects(d, top, payload, scales)
    parts: dict[str, Callable[[], str]] = {
        "what the model does": lambda: told_section(shown),
        "findings": lambda: _findings(audit, top, scales),
        "effects": lambda: effects_section(shown),
        "main effects": lambda: main_effects_section(shown),
        "pairs": lambda: pairs_section(shown),
        "trainings": lambda: trainings_section(d, shown.rows, top, scales),
        "worth": lambda: worth_section(worth),
        "fewer effects": lambda: path_section(simple),
        "results": lambda: "\n".join(one.html() for one in result_sections(results, d)),
        "one prediction": lambda: prediction_section(shown),
        "certificate": lambda: certificate(d),
        "checks": lambda: checks(audit),
        "origin": lambda: (
            overview(d)
            + "\n"
            + folded_section("making", "How it was made", *making_parts(d, command, hashed))
        ),
    }
    sections = written_sections(parts, report)
    page = page_text(_title(d), lead(d), sections, payload.text, SCRIPTS)
    write_atomically(target, page.encode("utf-8"))
    return target


def _check_arguments(d: Any, top: Any, command: Any, measures: Any, audit: Any) -> None:
    check_result("d", d, Decomposition)
    check_whole("top", top, 0)
    if command is not None and not isinstance(command, str):
        raise InvalidInputError(f"command must be text, got {brief(command)}")
    if audit is not None:
        check_result("audit", audit, Audit, "treepurify.audit")
    if not isinstance(measures, list | tuple):
        raise InvalidInputError(f"measures must be a list of decompositions, got {brief(measures)}")
    for other in measures:
        check_result("each of measures", other, Decomposition)
        check_same_model(d, other)


def _examples(X: Any, n_features: int) -> Any:
    if table_names(X) is None and not is_sparse(X):
        X = read_matrix(X)
    last = row_count(X) - 1
    most = min(last + 1, _MOST_EXAMPLES, max(_MOST_EXAMPLE_VALUES // n_features, 1))
    chosen = np.linspace(0, last, most).astype(np.intp)
    return take_rows(X, np.unique(chosen))


def _title(d: Decomposition) -> str:
    library = "" if d.origin.model is None else d.origin.model.library
    return f"Purified effects: {display_name(library)} model" if library else "Purified effects"


def _findings(audit: Audit | None, pictures: int, scales: Scales) -> str:
    if audit is None:
        return ""
    return section(
        "findings", "Findings", findings_list(audit, _MOST_FINDINGS, 2 * pictures, scales)
    )
