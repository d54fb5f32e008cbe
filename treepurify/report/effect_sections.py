"""The sections on effects: their table, main effects, pairs, and the parts of one prediction."""

from dataclasses import dataclass
from html import escape

from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.plots.labels import with_minus
from treepurify.ranking import share_sums
from treepurify.report.effects_table import TermRow, effects_table, table_notes, term_rows
from treepurify.report.interactive import (
    explorer,
    main_words,
    pair_words,
    pairs_left_out,
    prediction_maker,
)
from treepurify.report.parts import section
from treepurify.report.payload import Payload
from treepurify.report.pictures import (
    main_effect_picture,
    most_important,
    pair_picture,
    together_picture,
)
from treepurify.report.scales import Scales
from treepurify.report.sentences import Statement, model_statements
from treepurify.report.summary import drawn_effects, summary_section

__all__ = [
    "SCRIPTS",
    "ShownEffects",
    "effects_section",
    "main_effects_section",
    "pairs_section",
    "prediction_section",
    "shown_effects",
    "told_section",
]

SCRIPTS = ("report.js", "axes.js", "lines.js", "explore.js", "predict.js")
"""What makes these sections interactive."""

_ROWS_AT_ONCE = 20
_MOST_TABLE_ROWS = 300
# Effects that the summary draws, and the share below which no other effect is drawn.
_MOST_TOLD = 4
_LEAST_DRAWN = 0.005


@dataclass(frozen=True, eq=False)
class ShownEffects:
    """What a page shows of a decomposition.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    rows : list of TermRow
        The table of effects.
    statements : list of Statement
        What the model does.
    top : int
        Largest number of main effects, and of pairs, that are drawn.
    payload : Payload
        What the scripts of the page read.
    scales : Scales
        The scale of each feature.
    """

    d: Decomposition
    rows: list[TermRow]
    statements: list[Statement]
    top: int
    payload: Payload
    scales: Scales

    @property
    def told(self) -> list[tuple[Subset, ...]]:
        """The effects that the summary draws."""
        return drawn_effects(self.d, self.statements, min(self.top, _MOST_TOLD))

    def further(self, order: int) -> list[TermRow]:
        """Return the leading effects of an order that the summary does not draw."""
        leading = most_important(self.rows, self.d, order, self.top, _LEAST_DRAWN)
        return [row for row in leading if (row.subset,) not in self.told]


def shown_effects(d: Decomposition, top: int, payload: Payload, scales: Scales) -> ShownEffects:
    """Return what a page shows of a decomposition."""
    return ShownEffects(d, term_rows(d), model_statements(d), top, payload, scales)


def told_section(shown: ShownEffects, *, warns: bool = True) -> str:
    """Return what the model does, in sentences with a picture each; see `summary_section`."""
    pictures = len(shown.told)
    return summary_section(
        shown.d, shown.statements, shown.rows, pictures, shown.scales, warns=warns
    )


def effects_section(shown: ShownEffects) -> str:
    """Return the table of effects; empty without any."""
    d, rows = shown.d, shown.rows
    if not rows:
        return ""
    ranking, subsets = d.ranking, [row.subset or () for row in rows]
    at_once = ranking.n_shown(subsets, _ROWS_AT_ONCE)
    listed = ranking.n_shown(subsets, _MOST_TABLE_ROWS)
    parts = [effects_table(d, rows[:at_once])]
    if more := rows[at_once:listed]:
        summary = f"<summary>{len(more)} smaller effects</summary>"
        table = effects_table(d, more)
        parts.append(f'<details class="smaller">{summary}\n{table}\n</details>')
        parts.append(f'<p class="printed">{len(more)} smaller effects are not printed.</p>')
    if listed < len(rows):
        parts.append(f"<p>{len(rows) - listed} even smaller effects are not listed.</p>")
    sums = share_sums(ranking, d.inputs.combined)
    parts.append(f"<p>In all: {escape(sums)}.</p>" if sums else "")
    for group in ranking.collinear:
        share = with_minus(f"{ranking.share(group):.1%}")
        parts.append(f"<p>{escape(group.sentence)} Their joint share is {share}.</p>")
        is_told = group.members in shown.told or group.reason != "cancel"
        parts.append("" if is_told else together_picture(d, group))
    return section("effects", "Effects", *parts, f"<p>{escape(table_notes(d, rows))}</p>")


def main_effects_section(shown: ShownEffects) -> str:
    """Return the main effects to explore, and the leading ones as figures; empty without any."""
    rows, payload = shown.further(1), shown.payload
    if not shown.top or (not rows and not payload.n_mains):
        return ""
    pictures = "\n".join(main_effect_picture(shown.d, row, shown.scales) for row in rows)
    return section(
        "mains",
        "Main effects",
        explorer("main-explorer", main_words(payload)),
        f'<div class="figures{_static(payload.n_mains)}">\n{pictures}\n</div>' if rows else "",
    )


def pairs_section(shown: ShownEffects) -> str:
    """Return the pairs to explore, and the leading ones as figures; empty without any."""
    if not shown.top:
        return ""
    rows, payload = shown.further(2), shown.payload
    left_out = pairs_left_out(payload)
    if not rows and not payload.n_pairs:
        return f"<p>{escape(left_out)}</p>" if left_out else ""
    pictures = "\n".join(pair_picture(shown.d, row, shown.scales) for row in rows)
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


def prediction_section(shown: ShownEffects) -> str:
    """Return where a reader puts a prediction together; empty without effects."""
    if not shown.d.components:
        return ""
    return section("prediction", "One prediction", prediction_maker(shown.payload))


def _static(count: int) -> str:
    """Return the class of figures that leave space for an explorer, if it has anything to show."""
    return " static" if count else ""
