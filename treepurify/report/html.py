"""Write a decomposition as one HTML page: its sections, from top to bottom."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.arguments import brief, check_result, check_whole, read_path
from treepurify.auditing.ranked_findings import Audit
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.simplification import Simplification
from treepurify.plots.labels import with_class_names
from treepurify.progress import progress_report
from treepurify.report.effects import EffectPages
from treepurify.report.origin import (
    certificate_section,
    hash_files,
    lead,
    making_facts,
    model_section,
    page_facts,
    page_title,
)
from treepurify.report.page import Section, write_page
from treepurify.report.prediction import prediction_data, prediction_section
from treepurify.report.results import (
    checks_section,
    findings_section,
    path_section,
    result_section,
    trainings_section,
    worth_section,
)
from treepurify.rows.tables import is_sparse, read_matrix, row_count, table_names, take_rows

_MOST_EXAMPLES = 100
# The most values that the examples may have.
_MOST_EXAMPLE_VALUES = 20_000


def write_html(
    d: Decomposition,
    path: str | Path,
    *,
    top: int = 6,
    audit: Audit | None = None,
    worth: EffectWorth | None = None,
    simple: Simplification | None = None,
    results: Sequence[Any] = (),
    X: Any = None,
    command: str | None = None,
    files: Sequence[str | Path] = (),
    progress: bool = True,
) -> Path:
    """Write a report of a decomposition as one HTML page.

    It begins with what the model does, in a sentence and a figure for each of the leading effects,
    and with what may mislead. Findings, effects and single rows follow; the certificate and the
    origin are at the end. Effects are on the margin scale.

    The page needs no network and no other file, and is written only when it is complete. A reader
    can sort and search its tables, read the cells of figures, switch pairs between before and after
    purification, and choose feature values to see how their prediction is made up. With scripts
    disabled everything but the last is still there.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    path : str or Path
        The file to write; an existing one is replaced.
    top : int
        Largest number of main effects and of pairs to draw. Only effects with at least 0.5% of the
        variance are drawn, each only once.
    audit : Audit, optional
        An audit whose findings are listed.
    worth : EffectWorth, optional
        The worth of effects on held-out rows; by default that of `audit`.
    simple : Simplification, optional
        A simplification, whose path is shown.
    results : sequence of object
        Results of `check_monotonicity`, `group_gap`, `drift`, `weak_spots` and `reason_codes`; each
        has a section.
    X : array_like or table, optional
        Example rows that readers can choose from: at most 100 rows and 20 000 values. Their values
        are stored in the file, so no rows are included by default.
    command : str, optional
        The command or code that made the decomposition, printed at the end. By default the call
        recorded in the decomposition.
    files : sequence of str or Path
        Files from which the decomposition was made, such as those of the model and of the data.
        Their SHA-256 hashes are printed, with those of the parsed model and of the rows as they
        were read.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    InvalidInputError
        If `top` is negative, the folder does not exist, or an argument has the wrong type.
    MissingDependencyError
        If matplotlib or Jinja2 is not installed.

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
    check_result("d", d, Decomposition)
    check_whole("top", top, 0)
    if command is not None and not isinstance(command, str):
        raise InvalidInputError(f"command must be text, got {brief(command)}")
    for name, given, kind in (
        ("audit", audit, Audit),
        ("worth", worth, EffectWorth),
        ("simple", simple, Simplification),
    ):
        if given is not None:
            check_result(name, given, kind, "treepurify.audit, effect_worth or simplify")
    if not isinstance(results, list | tuple):
        raise InvalidInputError(f"results must be a list, got {brief(results)}")
    hashed, report = hash_files(files), progress_report(progress)
    worth = audit.worth if worth is None and audit is not None else worth
    d = with_class_names(d)
    effects = EffectPages(d, top)
    data = prediction_data(d, None if X is None else _examples(X, len(d.feature_names)))
    makers: dict[str, Callable[[], Section | None]] = {
        "what the model does": effects.summary,
        "what may mislead": effects.misleading,
        "findings": partial(findings_section, audit, 2 * top),
        "effects": effects.table,
        "main effects": partial(effects.further, 1, "More main effects"),
        "pairs": partial(effects.further, 2, "More pairs"),
        "trainings": partial(trainings_section, d, effects.leading_features),
        "worth": partial(worth_section, worth),
        "fewer effects": partial(path_section, simple),
        **{
            f"result {number}": partial(result_section, result, d)
            for number, result in enumerate(results, start=1)
        },
        "one prediction": partial(prediction_section, d, data),
        "certificate": partial(certificate_section, d),
        "checks": partial(checks_section, audit),
        "model": partial(model_section, d),
        "origin": partial(making_section, d, command, hashed),
    }
    write_page(target, page_title(d, "Purified effects"), lead(d), makers, report, data)
    return target


def making_section(
    d: Decomposition, command: str | None, hashed: Sequence[tuple[str, str]]
) -> Section:
    """Return how a decomposition and its page were made."""
    facts = [*making_facts(d, with_call=command is None), *page_facts([d], hashed)]
    return Section("How it was made", facts=facts, code=command or "", is_folded=True)


def _examples(X: Any, n_features: int) -> Any:
    """Return some rows, evenly from first to last."""
    if table_names(X) is None and not is_sparse(X):
        X = read_matrix(X)
    last = row_count(X) - 1
    most = min(last + 1, _MOST_EXAMPLES, max(_MOST_EXAMPLE_VALUES // n_features, 1))
    return take_rows(X, np.unique(np.linspace(0, last, most).astype(np.intp)))
