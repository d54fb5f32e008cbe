"""The first section of a report: what the model does, in sentences with a picture each."""

from collections.abc import Sequence
from html import escape

from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.report.effects_table import TermRow
from treepurify.report.parts import section, verdict_lines
from treepurify.report.pictures import (
    importance_picture,
    main_effect_picture,
    pair_picture,
    together_picture,
)
from treepurify.report.scales import Scales
from treepurify.report.sentences import Statement
from treepurify.verdict import verdict

__all__ = ["drawn_effects", "summary_section"]

_MOST_BARS = 10


def summary_section(
    d: Decomposition,
    statements: Sequence[Statement],
    rows: Sequence[TermRow],
    pictures: int,
    scales: Scales,
    *,
    warns: bool,
) -> str:
    """Return the section.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    statements : sequence of Statement
        The sentences.
    rows : sequence of TermRow
        The table of effects, for what stands below a picture.
    pictures : int
        Number of effects that may have a picture.
    scales : Scales
        The scale of each feature.
    warns : bool
        Whether a verdict that is not good stands here, on a page that has it at its end only.
    """
    # What changes a conclusion must not wait for the end of the page.
    found = verdict(d)
    warning = verdict_lines(found) if warns and found.state != "good" else ""
    if not statements:
        words = "<p>The model is constant: it has no effects.</p>" if not rows else ""
        return section("summary", "What the model does", warning, words)
    with_picture = drawn_effects(d, statements, pictures)
    items = []
    for statement in statements:
        is_drawn = not statement.effects or statement.effects in with_picture
        picture = _picture(d, statement, rows, scales) if is_drawn else ""
        items.append(f"<li>\n<p>{escape(statement.text)}</p>\n{picture}\n</li>")
    listed = '<ul class="told">\n' + "\n".join(items) + "\n</ul>"
    return section("summary", "What the model does", listed, warning)


def drawn_effects(
    d: Decomposition, statements: Sequence[Statement], pictures: int
) -> list[tuple[Subset, ...]]:
    """Return the effects that have a picture in the summary, and need no other one."""
    # Effects that cancel are drawn on rows, which a saved decomposition does not hold.
    most = 1 if d.grid_rows is None else len(d)
    told = [statement.effects for statement in statements if statement.effects]
    return [effects for effects in told if len(effects) <= most][:pictures]


def _picture(
    d: Decomposition, statement: Statement, rows: Sequence[TermRow], scales: Scales
) -> str:
    if not statement.effects:
        return importance_picture(d, _MOST_BARS)
    if len(statement.effects) > 1:
        return together_picture(
            d, next(g for g in d.ranking.groups if g.members == statement.effects)
        )
    (subset,) = statement.effects
    row = next(r for r in rows if r.subset == subset and r.output == statement.output)
    draw = main_effect_picture if len(subset) == 1 else pair_picture
    return draw(d, row, scales)
