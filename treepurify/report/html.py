"""Write a decomposition as one self-contained HTML page: its sections, from top to bottom."""

from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.arguments import brief, check_result, check_whole, read_path
from treepurify.auditing.ranked_findings import Audit
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.simplification import Simplification
from treepurify.grids.grid import Subset
from treepurify.models.families import display_name
from treepurify.plots.axis_layout import Scale
from treepurify.plots.labels import number_words, with_class_names, with_minus
from treepurify.plots.simplification import simplification
from treepurify.plots.worth import worth as draw_worth
from treepurify.progress import progress_report
from treepurify.ranking import share_sums
from treepurify.report.closing import certificate, checks, lead, overview
from treepurify.report.effects_table import (
    TermRow,
    effects_table,
    table_notes,
    term_rows,
)
from treepurify.report.interactive import (
    explorer,
    findings_list,
    main_words,
    pair_words,
    pairs_left_out,
    prediction_maker,
)
from treepurify.report.making import hash_files, making_parts
from treepurify.report.parts import (
    folded_section,
    page_text,
    plain_table,
    section,
    written_sections,
)
from treepurify.report.payload import Payload, make_payload
from treepurify.report.pictures import (
    Picture,
    band_picture,
    main_effect_picture,
    most_important,
    new_axes,
    pair_picture,
    together_picture,
)
from treepurify.report.same_model import check_same_model
from treepurify.report.scales import Scales, read_scales
from treepurify.report.sentences import model_statements
from treepurify.report.summary import drawn_effects, summary_section
from treepurify.rows.tables import is_sparse, read_matrix, row_count, table_names, take_rows
from treepurify.spread import LEVEL, Spread
from treepurify.storage import write_atomically

__all__ = ["write_html"]

_ROWS_AT_ONCE = 20
_MOST_TABLE_ROWS = 300
# Effects that the summary draws, and the share below which no other effect is drawn.
_MOST_TOLD = 4
_LEAST_DRAWN = 0.005
_MOST_FINDINGS = 40
_MOST_EXAMPLES = 200
# The most values that the examples may have.
_MOST_EXAMPLE_VALUES = 20_000
_SCRIPTS = ("report.js", "axes.js", "lines.js", "explore.js", "predict.js")

_MOST_WORTH_ROWS = 1000
_MOST_WORTH_BARS = 12
_WORTH_COLUMNS = {
    "worth": "Worth",
    "low": "from",
    "high": "to",
    "worth_absorbed": "Others absorbing",
    "shapley": "Shapley",
}

_MOST_TRAINING_ROWS = 20
_MOST_UNCLEAR = 20


def write_html(
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
    X: Any = None,
    scale: Scale | Mapping[str, Scale] = "auto",
    progress: bool = True,
) -> Path:
    """Write a report of a decomposition.

    It begins with what the model does, in a few sentences that are made from its numbers, with a
    picture each. Findings, effects and single rows follow; how effects are to be read, the
    certificate and the origin are at the end.

    The page needs no network and no other file. It appears under its name only when it is
    complete. Its tables sort, its effects switch between before and after purification and
    between measures, and it explains predictions put together on the page; without scripts
    the most important effects are still there as figures.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    path : str or Path
        The file to write; an existing one is replaced.
    top : int
        Largest number of main effects, and of pairs, that are drawn: those with at least 0.5 % of
        the variance. No effect is drawn twice.
    command : str, optional
        The command or the code that made the decomposition, printed at the end. Without it, the
        call is printed that the decomposition itself shows.
    files : sequence of str or Path
        Files that it was made from, such as those of the model and of the data: their SHA-256 is
        printed with that of the model and of the rows as they were read.
    measures : sequence of Decomposition
        The same model under other measures, to switch to; those of `audit` by default.
    audit : Audit, optional
        Its findings are listed.
    worth : EffectWorth, optional
        What effects are worth on held-out rows; that of `audit` by default.
    simple : Simplification, optional
        The path on which effects were left out.
    X : array_like or table, optional
        Rows to choose from as examples, at most 200 and at most 20 000 values, with their
        remainder where the decomposition has one. Their values become part of the file, so
        none are included unless they are given. Without them "One prediction" starts from
        the cells, not the values, that most rows of `d` have in common, or from those of one row
        in the middle of the data.
    scale : str or mapping of str to str
        ``"auto"``, ``"value"``, ``"rank"`` or ``"log"``, as in the figures of `treepurify.plots`:
        one word for all features, or one for each that is named, such as ``{"income": "log"}``.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidInputError
        If `top` is negative, the folder does not exist, one of `measures` is of another
        model or has other cells, or `scale` does not suit: ``"log"`` needs values above zero.
    MissingDependencyError
        If matplotlib is not installed.
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
    rows = term_rows(d)
    if not measures and audit is not None:
        measures = [compared.second for compared in audit.comparisons.values()]
    report = progress_report(progress)
    examples = None if X is None else _examples(X, len(d.feature_names))
    payload = make_payload(d, measures, examples, scales=scales, report=report)
    statements = model_statements(d)
    told = drawn_effects(statements, min(top, _MOST_TOLD))
    mains, pairs = (_further(d, rows, order, top, told) for order in (1, 2))
    parts: dict[str, Callable[[], str]] = {
        "what the model does": lambda: summary_section(d, statements, rows, len(told), scales),
        "findings": lambda: _findings(audit, top, scales),
        "effects": lambda: _effects(d, rows, told),
        "main effects": lambda: _main_effects(d, mains, payload, scales) if top else "",
        "pairs": lambda: _pairs(d, pairs, payload, scales) if top else "",
        "trainings": lambda: _trainings(d, rows, top, scales),
        "worth": lambda: _worth(worth),
        "what can go": lambda: _what_can_go(simple),
        "one prediction": lambda: _prediction(d, payload),
        "certificate": lambda: certificate(d),
        "checks": lambda: checks(audit),
        "origin": lambda: (
            overview(d)
            + "\n"
            + folded_section("making", "How it was made", *making_parts(d, command, hashed))
        ),
    }
    sections = written_sections(parts, report)
    page = page_text(_title(d), lead(d), sections, payload.text, _SCRIPTS)
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


def _further(
    d: Decomposition,
    rows: list[TermRow],
    order: int,
    top: int,
    told: Collection[tuple[Subset, ...]],
) -> list[TermRow]:
    """Return the leading effects of an order that the summary does not draw."""
    leading = most_important(rows, d, order, top, _LEAST_DRAWN)
    return [row for row in leading if (row.subset,) not in told]


def _effects(d: Decomposition, rows: list[TermRow], told: Collection[tuple[Subset, ...]]) -> str:
    if not rows:
        return ""
    parts = [effects_table(d, rows[:_ROWS_AT_ONCE])]
    more = rows[_ROWS_AT_ONCE:_MOST_TABLE_ROWS]
    if more:
        summary = f"<summary>{len(more)} smaller effects</summary>"
        table = effects_table(d, more)
        parts.append(f'<details class="smaller">{summary}\n{table}\n</details>')
        parts.append(f'<p class="printed">{len(more)} smaller effects are not printed.</p>')
    left_out = len(rows) - len(more) - _ROWS_AT_ONCE
    if left_out > 0:
        parts.append(f"<p>{left_out} still smaller effects are not listed.</p>")
    ranking = d.ranking
    sums = share_sums(ranking)
    parts.append(f"<p>In all: {escape(sums)}.</p>" if sums else "")
    for group in ranking.groups:
        share = with_minus(f"{group.share:.1%}")
        parts.append(f"<p>{escape(group.sentence)} Their joint share is {share}.</p>")
        parts.append("" if group.members in told else together_picture(d, group))
    return section("effects", "Effects", *parts, f"<p>{escape(table_notes(d, rows))}</p>")


def _worth(worth: EffectWorth | None) -> str:
    """Return the figure and the table of what effects are worth, with what they mean."""
    if worth is None:
        return ""
    frame = worth.to_frame()
    drawn = min(len(frame), _MOST_WORTH_BARS)
    ax = new_axes((5.2, max(0.34 * drawn + 1.1, 1.9)))
    draw_worth(worth, top=_MOST_WORTH_BARS, ax=ax)
    words = "Bars of the worth of each effect beside its share of the variance; numbers below."
    caption = f"Worth on held-out rows of the {drawn} effects of the largest variance."
    picture = Picture(ax, "worth", caption, words)
    notes = "".join(f"<p>{escape(note)}</p>" for note in worth.notes)
    meaning = (
        "Worth is the rise of the loss on rows that the model was not trained on where the effect "
        "is left out and all else stays."
    )
    if worth.n_bootstrap:
        meaning += (
            f" The interval covers {worth.coverage:.0%} of {worth.n_bootstrap} draws of these rows "
            "with replacement; the model is the same in all."
        )
    first = f"<p>{escape(worth.summary(0)[0])} {escape(meaning)}</p>"
    parts = [first, picture.html(), *_tables_of_worth(worth), notes]
    return section("worth", "Worth on held-out rows", *parts)


def _tables_of_worth(worth: EffectWorth) -> list[str]:
    """Return the table, all but its first rows folded away."""
    largest, lowest, between = worth.ends(_MOST_WORTH_ROWS)
    names = [name for name in _WORTH_COLUMNS if name in largest and not largest[name].isna().all()]
    head = ["Effect", "Share of the sum of variances", *(_WORTH_COLUMNS[name] for name in names)]
    rows, last = (
        [
            [row["term"], f"{row['variance_share']:.2%}", *(_number(row[name]) for name in names)]
            for row in part.to_dict("records")
        ]
        for part in (largest, lowest)
    )
    rows += [[f"... {between}", *[""] * (len(head) - 1)]] * bool(between) + last
    parts = [plain_table("Table of worth", head, rows[:_ROWS_AT_ONCE])]
    rest = rows[_ROWS_AT_ONCE:]
    if rest:
        n_harmful = int((worth.worth < 0).sum())
        summary = f"{len(rest)} more rows, down to the lowest worth"
        summary += f"; {n_harmful} effects are worth less than nothing" if n_harmful else ""
        table = plain_table("Table of lower worth", head, rest)
        parts.append(f"<details><summary>{summary}</summary>\n{table}\n</details>")
    return parts


def _what_can_go(simple: Simplification | None) -> str:
    """Return the figure and the table of the path on which effects were left out."""
    if simple is None:
        return ""
    lines = "".join(f"<p>{escape(line)}</p>" for line in simple.summary())
    ax = new_axes((4.8, 3.0))
    simplification(simple, ax=ax)
    words = "The held-out loss against the number of effects; the table has the numbers."
    picture = Picture(ax, "path", "Held-out loss as effects are left out.", words)
    head = ["Effects", "Loss", "Rise", "Standard error of the rise", "Taken"]
    head.append("Left out by this step")
    rows = [
        [
            f"{row['n_effects']}",
            _number(row["loss"]),
            with_minus(f"{row['rise']:+.2%}"),
            "" if np.isnan(row["rise_error"]) else f"{row['rise_error']:.2%}",
            "yes" if row["is_chosen"] else "",
            str(row["left_out"]),
        ]
        for row in simple.to_frame().to_dict("records")
    ]
    table = plain_table("Table of the path", head, rows)
    same = (
        f"<p>The same {simple.n_rows} rows chose the effects and measured the losses: the loss of "
        "what was kept is optimistic, and other rows are needed to state it without that.</p>"
    )
    details = f"<details><summary>{len(rows)} steps</summary>\n{table}\n</details>"
    return section("path", "What can go", lines, same, picture.html(), details)


def _number(value: float) -> str:
    return "" if np.isnan(value) else with_minus(f"{value:.4g}")


def _main_effects(d: Decomposition, rows: list[TermRow], payload: Payload, scales: Scales) -> str:
    if not rows and not payload.n_mains:
        return ""
    pictures = "\n".join(main_effect_picture(d, row, scales) for row in rows)
    return section(
        "mains",
        "Main effects",
        explorer("main-explorer", main_words(payload)),
        f'<div class="figures{_static(payload.n_mains)}">\n{pictures}\n</div>' if rows else "",
    )


def _pairs(d: Decomposition, rows: list[TermRow], payload: Payload, scales: Scales) -> str:
    left_out = pairs_left_out(payload)
    if not rows and not payload.n_pairs:
        return f"<p>{escape(left_out)}</p>" if left_out else ""
    pictures = "\n".join(pair_picture(d, row, scales) for row in rows)
    note = "<p>Each heatmap has a colour scale of its own.</p>"
    return section(
        "pairs",
        "Pairs",
        explorer("pair-explorer", pair_words(payload)),
        f"<p>{escape(left_out)}</p>" if left_out else "",
        f'<div class="pictures{_static(payload.n_pairs)}">{note}\n<div class="figures">\n'
        f"{pictures}\n</div></div>"
        if rows
        else "",
    )


def _trainings(d: Decomposition, rows: list[TermRow], top: int, scales: Scales) -> str:
    """Return how far several trainings agree: sentences, a table, figures of main effects."""
    if d.spread is None:
        return ""
    drawn = most_important(rows, d, 1, top)
    known = [row for row in rows if row.subset in d.spread.stacked]
    figures = "\n".join(
        band_picture(d, row, scales) for row in drawn if row.subset in d.spread.stacked
    )
    return section(
        "trainings",
        "Several trainings",
        f"<p>{escape(_what_they_are(d.spread))}</p>",
        f"<p>{escape(_no_clear_sign(d, d.spread))}</p>",
        _table_of_trainings(d, d.spread, known[:_MOST_TRAINING_ROWS]),
        f'<div class="figures">\n{figures}\n</div>' if figures else "",
    )


def _what_they_are(spread: Spread) -> str:
    how = f" ({spread.how})" if spread.how else ""
    of = "their mean" if spread.is_of_mean else "the model itself"
    grid = {
        "all cuts": "all their cuts",
        "fewer cuts": "fewer cuts than they have, with the difference in the remainder",
        "coarse cells": "coarse cells, with the difference in the remainder",
    }.get(spread.common_grid, "one grid")
    return (
        f"{spread.n_models} trainings{how} were purified together, on {grid}. The effects of this "
        f"page are those of {of}. A band says where one more training of the same kind would lie, "
        f"in {LEVEL:.0%} of cases, in each cell by itself. It is about training, not about the "
        "rows under which effects are purified."
    )


def _no_clear_sign(d: Decomposition, spread: Spread) -> str:
    found = spread.no_clear_sign()
    if not found:
        return "Each effect has a sign somewhere: no band holds zero in every cell."
    names = [
        d.term_name(subset) + (f" ({d.output_names[k]})" if d.n_outputs > 1 else "")
        for subset, k in found
    ]
    more = f" and {len(names) - _MOST_UNCLEAR} more" if len(names) > _MOST_UNCLEAR else ""
    whole = len(spread.stacked) * spread.n_outputs
    return (
        f"The bands of {len(found)} of {whole} effects hold zero in every cell: "
        f"{', '.join(names[:_MOST_UNCLEAR])}{more}."
    )


def _table_of_trainings(d: Decomposition, spread: Spread, rows: list[TermRow]) -> str:
    names = ["Effect", *(["Output"] * (d.n_outputs > 1)), "Standard deviation"]
    names += ["In one more training", "Trainings differ by", "Trainings that have it"]
    present = spread.present()
    body, outside = [], []
    for row in rows:
        subset, k = row.subset or (), row.output
        lower, upper = (np.sqrt(bound[k]) for bound in spread.variance_interval(subset))
        if not lower <= row.deviation <= upper:
            outside.append(row.name)
        between = float(np.sqrt(spread.training_variance(subset)[k]))
        part = (
            f"{between / row.deviation:.0%} of its standard deviation" if row.deviation > 0 else ""
        )
        body.append(
            [
                row.name,
                *([d.output_names[k]] * (d.n_outputs > 1)),
                number_words(row.deviation, 3),
                f"{number_words(lower, 3)} to {number_words(upper, 3)}",
                part,
                f"{present[subset][k]:.0%}",
            ]
        )
    table = plain_table("Table of trainings", names, body)
    if not outside:
        return table
    words = (
        f"The standard deviation of {', '.join(dict.fromkeys(outside))} lies outside its own "
        "interval. That is no error: it is that of the effect of this page, and the interval is "
        "for the effect of one more training, which the noise of training makes larger, most of "
        "all where an effect is small; or this training is unlike the others."
    )
    return f"{table}\n<p>{escape(words)}</p>"


def _static(count: int) -> str:
    """Return the class of figures that leave space for an explorer, if it has anything to show."""
    return " static" if count else ""


def _prediction(d: Decomposition, payload: Payload) -> str:
    if not d.components:
        return ""
    return section("prediction", "One prediction", prediction_maker(payload))
