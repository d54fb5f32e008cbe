"""A decomposition in a notebook: what `print` shows, with bars, small pictures and all figures."""

from html import escape

import numpy as np

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.frames import opening_words, shown_lines
from treepurify.ranking import Line
from treepurify.typing import Array
from treepurify.verdict import notes, shares_words

_MOST_ROWS, _LEAST_PAIRS = 15, 3
# Pixels of a small picture and of the bar of a size.
_WIDTH, _HEIGHT, _BAR = 120, 34, 70
# So many steps are more than such a picture can show.
_MOST_STEPS = 120
_CELL = 'style="text-align: left; vertical-align: middle"'


def notebook_summary(d: Decomposition) -> str:
    """Return what a notebook shows of a decomposition.

    Pictures are those of main effects that are tables, along the rows: each cell is as wide as
    its share of them, and categories stand in their own order. Of several outputs the one on which
    the effect is largest is drawn.
    """
    ranking = d.rank(read_rows=False)
    lines = ranking.leading(_MOST_ROWS, least_pairs=_LEAST_PAIRS)
    largest = max((line.size for line in lines), default=0.0) or 1.0
    rows = [_row_of_cells(["", "size", "share", "effect by value", ""], "th")] if lines else []
    for line, (_, size, share, note) in zip(lines, shown_lines(d, lines), strict=True):
        name = "&emsp;" * line.is_member + escape(line.name(d.term_name))
        cells = [name, _bar(size, line.size / largest), share, _picture_of(d, line), note]
        rows.append(_row_of_cells(cells, "td"))
    more = len(d) - sum(not line.is_sum for line in lines)
    said = [f"... and {more} more"] if more else []
    said += [words for words in (shares_words(d, ranking), *notes(d, ranking)) if words]
    return (
        f"<p>{escape(opening_words(d))}</p><table>{''.join(rows)}</table>"
        + "".join(f"<p>{escape(words)}</p>" for words in said)
        + _certificate(d)
    )


def _row_of_cells(cells: list[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag} {_CELL}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _bar(words: str, part: float) -> str:
    width = round(_BAR * np.nan_to_num(part))
    return (
        f'<span style="display: inline-block; width: 4.2em; text-align: right">{escape(words)}'
        f'</span> <span style="display: inline-block; width: {width}px; '
        'height: 0.7em; background: currentColor; opacity: 0.55"></span>'
    )


def _picture_of(d: Decomposition, line: Line) -> str:
    """Return the small picture of a main effect that is a table; empty for any other line."""
    table = d.components.get(line.subset or ())
    if not isinstance(table, TensorComponent) or len(table.features) != 1:
        return ""
    return _small_picture(table, int(np.argmax(table.variance)))


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
    """Return the sentence of the certificate, which unfolds to all its figures."""
    if d.certificate is None:
        return ""
    first, *others = map(escape, d.certificate.details())
    listed = "".join(f"<li>{line}</li>" for line in others)
    return f"<details><summary>{first}</summary><ul>{listed}</ul></details>"
