"""What a report says of several trainings of a model: how far they agree, effect by effect."""

from html import escape

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.plots.labels import number_words
from treepurify.report.effects_table import TermRow, in_table_order
from treepurify.report.parts import plain_table
from treepurify.report.pictures import band_picture
from treepurify.report.scales import Scales
from treepurify.spread import LEVEL, Spread

__all__ = ["trainings_parts"]

_MOST_ROWS = 20
_MOST_NAMES = 20


def trainings_parts(
    d: Decomposition, rows: list[TermRow], mains: list[TermRow], scales: Scales
) -> list[str]:
    """Return the parts of the section: sentences, a table, figures of main effects.

    Empty for a decomposition of a single training.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    rows : list of TermRow
        Its effects.
    mains : list of TermRow
        Those that are drawn.
    scales : Scales
        The scale of each feature.
    """
    if d.spread is None:
        return []
    known = [row for row in in_table_order(rows) if row.subset in d.spread.stacked]
    figures = "\n".join(
        band_picture(d, row, scales) for row in mains if row.subset in d.spread.stacked
    )
    return [
        f"<p>{escape(_what_they_are(d, d.spread))}</p>",
        f"<p>{escape(_no_clear_sign(d, d.spread))}</p>",
        _table(d, d.spread, known[:_MOST_ROWS]),
        f'<div class="figures">\n{figures}\n</div>' if figures else "",
    ]


def _what_they_are(d: Decomposition, spread: Spread) -> str:
    facts = d.diagnostics.get("refits", {})
    how = f" ({spread.how})" if spread.how else ""
    of = "their mean" if facts.get("decomposed") == "mean" else "the model itself"
    grid = {
        "all cuts": "all their cuts",
        "fewer cuts": "fewer cuts than they have, with the difference in the remainder",
        "coarse cells": "coarse cells, with the difference in the remainder",
    }.get(facts.get("common_grid", ""), "one grid")
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
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    whole = len(spread.stacked) * spread.n_outputs
    return (
        f"The bands of {len(found)} of {whole} effects hold zero in every cell: "
        f"{', '.join(names[:_MOST_NAMES])}{more}."
    )


def _table(d: Decomposition, spread: Spread, rows: list[TermRow]) -> str:
    names = ["Effect", *(["Output"] * (d.n_outputs > 1)), "Standard deviation"]
    names += ["In one more training", "Trainings differ by", "Trainings that have it"]
    present = spread.present()
    body = []
    for row in rows:
        subset, k = row.subset or (), row.output
        lower, upper = (np.sqrt(bound[k]) for bound in spread.variance_interval(subset))
        between = float(np.sqrt(spread.training_variance(subset)[k]))
        part = f"{between / row.deviation:.0%} of its size" if row.deviation > 0 else ""
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
    return plain_table("Table of trainings", names, body)
