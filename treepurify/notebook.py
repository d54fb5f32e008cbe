"""A decomposition in a notebook: shares with bars, small pictures, one line of certificate."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from treepurify.collinear import CollinearEffects
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.frames import counted_effects, ranked_table, spread_words
from treepurify.ranking import share_sums
from treepurify.typing import Array
from treepurify.verdict import columns_words, measure_words, verdict

__all__ = ["notebook_summary"]

_MOST_ROWS = 15
# Pixels of a small picture and of the bar of a share.
_WIDTH, _HEIGHT, _BAR = 120, 34, 70
# So many steps are more than such a picture can show.
_MOST_STEPS = 120
_CELL = 'style="text-align: left; vertical-align: middle"'


def notebook_summary(d: Decomposition) -> str:
    """Return what a notebook shows of a decomposition.

    Pictures are those of main effects that are tables, along the rows: each cell is as wide as
    its share of them, and categories stand in their own order.
    """
    ranking = d.rank(read_rows=False)
    table = ranked_table(d, ranking)
    table = table[table["term"].ne("remainder") | table["share"].isna()]
    several = d.n_outputs > 1
    head = ["effect", *["output"] * several, f"share of {ranking.of_what}", "std. dev."]
    head += ["effect by value"]
    tables = {d.term_name(subset): table for subset, table in d.tensor_components().items()}
    by_name = {d.term_name(subset): subset for subset in d.components}
    subsets = [by_name.get(str(name), ()) for name in table["term"]]
    records = table.head(ranking.n_shown(subsets, _MOST_ROWS)).to_dict("records")
    shown = subsets[: len(records)]
    above = ranking.groups_above(shown)
    rows = []
    for record, group in zip(records, above, strict=True):
        rows += [] if group is None else [_joint_row(group, ranking.share(group), several)]
        rows.append(_row(record, tables.get(str(record["term"])), d.output_names))
    more = len(table) - len(records)
    sums = share_sums(ranking, d.inputs.combined)
    below = [sums] if sums else []
    below += ranking.sentences(shown, d.term_name)
    names = "".join(f"<th {_CELL}>{name}</th>" for name in head)
    return (
        f"<p>{counted_effects(d)} &middot; "
        f"engine {escape(d.engine)} &middot; distribution {escape(d.measure)}</p>"
        f"<table><thead><tr>{names}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        + (f"<p>... and {more} more</p>" if more > 0 else "")
        + "".join(f"<p>{escape(line)}</p>" for line in below)
        + _certificate(d)
        + ("" if d.spread is None else f"<p>{escape(spread_words(d.spread))}</p>")
    )


def _row(record: dict[Any, Any], table: TensorComponent | None, outputs: tuple[str, ...]) -> str:
    share, variance = float(record["share"]), float(record["variance"])
    output = str(record.get("output", outputs[0]))
    picture = ""
    if table is not None and len(table.features) == 1:
        picture = _small_picture(table, outputs.index(output))
    deviation = "unknown" if np.isnan(variance) else f"{np.sqrt(variance):.4g}"
    name = "&emsp;" * bool(record["group"]) + escape(str(record["term"]))
    cells = [name, *([escape(output)] if "output" in record else [])]
    return _row_of_cells([*cells, _share(share), deviation, picture])


def _joint_row(group: CollinearEffects, share: float, several: bool) -> str:
    """Return the row of effects that cancel, above theirs; outputs are added up."""
    cells = [escape(group.joint_name), *["all"] * several]
    return _row_of_cells([*cells, _share(share), f"{np.sqrt(group.variance):.4g}", ""])


def _row_of_cells(cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<td {_CELL}>{cell}</td>" for cell in cells) + "</tr>"


def _share(share: float) -> str:
    if np.isnan(share):
        return "unknown"
    width = round(_BAR * min(abs(share), 1.0))
    return (
        f'<span style="display: inline-block; width: 4.2em; text-align: right">{share:.2%}</span> '
        f'<span style="display: inline-block; width: {width}px; height: 0.7em; '
        'background: currentColor; opacity: 0.55"></span>'
    )


def _small_picture(table: TensorComponent, output: int) -> str:
    """Return a main effect as a line of steps, or as bars of categories."""
    values, mass = table.values[:, output], table.mass
    with_data = np.flatnonzero(mass > 0)
    if len(with_data) == 0:
        return ""
    ends = np.concatenate([[0.0], np.cumsum(mass[with_data])])
    heights = values[with_data]
    # Categories cannot be merged as intervals can; a table with too many is not drawn.
    if len(with_data) > _MOST_STEPS and table.axes[0].is_categorical:
        return ""
    if len(with_data) > _MOST_STEPS:
        ends, heights = _fewer_steps(ends, heights)
    x = _WIDTH * ends / ends[-1]
    low, high = min(0.0, float(heights.min())), max(0.0, float(heights.max()))
    y = 2 + (_HEIGHT - 4) * (high - heights) / (high - low or 1.0)
    zero = 2 + (_HEIGHT - 4) * high / (high - low or 1.0)
    words = f"from {values[with_data].min():.3g} to {values[with_data].max():.3g}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{words}"><title>{words}</title>'
        f'<path d="M0 {zero:.1f}H{_WIDTH}" stroke="currentColor" opacity="0.3"/>'
        f"{_bars(x, y, zero) if table.axes[0].is_categorical else _steps(x, y)}</svg>"
    )


def _fewer_steps(ends: Array, heights: Array) -> tuple[Array, Array]:
    """Return the means of as many steps of equal width as can be seen."""
    grid = np.linspace(0.0, ends[-1], _MOST_STEPS + 1)
    total = np.interp(grid, ends, np.concatenate([[0.0], np.cumsum(np.diff(ends) * heights)]))
    return grid, np.diff(total) / np.diff(grid)


def _steps(x: Array, y: Array) -> str:
    points = "".join(f"V{height:.1f}H{end:.1f}" for end, height in zip(x[1:], y, strict=True))
    return f'<path d="M0 {y[0]:.1f}{points}" fill="none" stroke="currentColor"/>'


def _bars(x: Array, y: Array, zero: float) -> str:
    return "".join(
        f'<rect x="{left + 0.5:.1f}" width="{max(right - left - 1, 0.5):.1f}" '
        f'y="{min(height, zero):.1f}" height="{abs(height - zero):.1f}" fill="currentColor" '
        'opacity="0.55"/>'
        for left, right, height in zip(x[:-1], x[1:], y, strict=True)
    )


def _certificate(d: Decomposition) -> str:
    """Return the lines of the verdict, which unfold to all figures of the certificate."""
    if d.certificate is None:
        return ""
    said = " ".join(escape(line) for line in verdict(d).lines)
    listed = "".join(f"<li>{escape(line)}</li>" for line in d.certificate.details())
    words = [f"<p>{escape(words)}</p>" for words in (columns_words(d), measure_words(d)) if words]
    return f"{''.join(words)}<details><summary>{said}</summary><ul>{listed}</ul></details>"
