"""The section on several trainings: how far they agree on each effect."""

from html import escape

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.plots.labels import number_words
from treepurify.report.effects_table import TermRow
from treepurify.report.parts import plain_table, section
from treepurify.report.pictures import band_picture, most_important
from treepurify.report.scales import Scales
from treepurify.spread import LEVEL, Spread

__all__ = ["trainings_section"]

_MOST_TRAINING_ROWS = 20
_MOST_UNCLEAR = 20


def trainings_section(d: Decomposition, rows: list[TermRow], top: int, scales: Scales) -> str:
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
    return (
        f"{spread.n_models} trainings{how} were purified, each by itself. This page shows the "
        f"effects of {of}. A band shows where one more training of the same kind would "
        f"lie, in {LEVEL:.0%} of cases, at each value separately. The band covers the noise of "
        "training, not the choice of rows."
    )


def _no_clear_sign(d: Decomposition, spread: Spread) -> str:
    found = spread.no_clear_sign()
    if not found:
        return "Every effect has a clear sign for a part of the rows: its band excludes zero there."
    names = [
        d.term_name(subset) + (f" ({d.output_names[k]})" if d.n_outputs > 1 else "")
        for subset, k in found
    ]
    more = f" and {len(names) - _MOST_UNCLEAR} more" if len(names) > _MOST_UNCLEAR else ""
    whole = len(spread.stacked) * spread.n_outputs
    return (
        f"The bands of {len(found)} of {whole} effects include zero nearly everywhere: "
        f"{', '.join(names[:_MOST_UNCLEAR])}{more}."
    )


def _table_of_trainings(d: Decomposition, spread: Spread, rows: list[TermRow]) -> str:
    names = ["Effect", *(["Output"] * (d.n_outputs > 1)), "Standard deviation"]
    names += ["In one more training", "Trainings differ by", "Trainings that have the effect"]
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
        f"The standard deviation of {', '.join(dict.fromkeys(outside))} lies outside the "
        "interval in its row. That is not an error: the noise of training makes the effects of "
        "one more training larger, above all small ones, or this training differs from the "
        "others."
    )
    return f"{table}\n<p>{escape(words)}</p>"
