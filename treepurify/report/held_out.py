"""The sections on held-out rows: what effects are worth there, and which of them can go."""

from html import escape

import numpy as np

from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.simplification import Simplification
from treepurify.plots.labels import with_minus
from treepurify.plots.simplification import simplification
from treepurify.plots.worth import worth as draw_worth
from treepurify.report.parts import plain_table, section
from treepurify.report.pictures import Picture, new_axes
from treepurify.terms import in_digits

__all__ = ["path_section", "worth_section"]

_ROWS_AT_ONCE = 20
_MOST_WORTH_ROWS = 1000
_MOST_WORTH_BARS = 12
_WORTH_COLUMNS = {
    "worth": "Worth",
    "low": "from",
    "high": "to",
    "worth_absorbed": "Others adjusted",
    "shapley": "Shapley",
}


def worth_section(worth: EffectWorth | None) -> str:
    """Return the figure and the table of what effects are worth, with what they mean."""
    if worth is None:
        return ""
    frame = worth.to_frame()
    drawn = min(len(frame), _MOST_WORTH_BARS)
    ax = new_axes((5.2, max(0.34 * drawn + 1.1, 1.9)))
    draw_worth(worth, top=_MOST_WORTH_BARS, ax=ax)
    words = "Bars show the worth of each effect and its share of the variance; numbers below."
    caption = f"Worth on held-out rows of the {drawn} effects with the largest variance."
    picture = Picture(ax, "worth", caption, words)
    notes = "".join(f"<p>{escape(note)}</p>" for note in worth.notes)
    meaning = (
        "Worth is the rise of the loss, on rows that the model was not trained on, when the effect "
        "is left out and all others stay."
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
        summary += f"; {n_harmful} effects have negative worth" if n_harmful else ""
        table = plain_table("Table of lower worth", head, rest)
        parts.append(f"<details><summary>{summary}</summary>\n{table}\n</details>")
    return parts


def path_section(simple: Simplification | None) -> str:
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
        f"<p>The same {simple.n_rows} rows chose the effects and measured the losses, so the "
        "loss of the chosen effects is optimistic. Measure it on rows that took no part.</p>"
    )
    details = f"<details><summary>{len(rows)} steps</summary>\n{table}\n</details>"
    return section("path", "Effects that can be left out", lines, same, picture.html(), details)


def _number(value: float) -> str:
    return "" if np.isnan(value) else with_minus(in_digits(value))
