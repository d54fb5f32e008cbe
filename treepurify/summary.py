"""What `print` and a notebook show of a decomposition.

In both: the model, its leading effects with size and share, what the orders explain, and at most
two notes. A notebook has bars and small pictures, too.
"""

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.ranking import OFFSETS, Line
from treepurify.terms import in_groups, same_digits
from treepurify.typing import Array
from treepurify.verdict import notes, shares_words

# Lines that are shown, of which some are pairs: people ask which interactions there are.
_LEAST_PAIRS = 3
# These measures are those of rows, which are counted.
_OF_ROWS = {"empirical", "smoothed rows"}
_LIBRARIES = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}
_LIBRARIES |= {"interpret": "EBM", "treelite": "Treelite"}
_MOST_ROWS = 15
# Pixels of a small picture and of the bar of a size.
_WIDTH, _HEIGHT, _BAR = 120, 34, 70
# So many steps are more than such a picture can show.
_MOST_STEPS = 120
_CELL = 'style="text-align: left; vertical-align: middle"'


def text_summary(d: Decomposition, most: int = 8) -> str:
    """Return three facts, and at most two notes."""
    ranking = d.rank(read_rows=False)
    lines = ranking.leading(most, least_pairs=_LEAST_PAIRS)
    rows = [["", "size", "share", ""]]
    for name, size, share, note in shown_lines(d, lines):
        rows.append([name, size, share, note])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        f"{name:<{widths[0]}}  {size:>{widths[1]}}  {share:>{widths[2]}}  {note}".rstrip()
        for name, size, share, note in rows
    ]
    more = len(d) - sum(not line.is_sum for line in lines)
    text = [opening_words(d), *(table if lines else [])]
    text += [f"... and {more} more"] if more else []
    return "\n".join([*text, *filter(None, [shares_words(d, ranking)]), *notes(d, ranking)])


def shown_lines(d: Decomposition, lines: Sequence[Line]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name, size, share and a word on each line of a table for people."""
    write = same_digits([line.size for line in lines])
    is_said = False
    for line in lines:
        share = "" if np.isnan(line.share) else f"{line.share:z.0%}"
        note = OFFSETS if line.offsets and not is_said else ""
        is_said = is_said or bool(note)
        yield "  " * line.is_member + line.name(d.term_name), write(line.size), share, note


def opening_words(d: Decomposition) -> str:
    """Return what was decomposed, into how many effects, and what they are averages over."""
    counted = _counted_effects(d)
    n_rows = d.origin.measure_rows
    over = f"distribution: {d.measure}"
    if n_rows and d.measure in _OF_ROWS:
        over = f"averaged over {in_groups(n_rows)} rows"
    outputs = f", {d.n_outputs} outputs together" if d.n_outputs > 1 else ""
    return f"{_model_words(d)}{counted}, {over}{outputs}"


def _model_words(d: Decomposition) -> str:
    """Return the model and its size, such as ``"XGBoost, 100 trees: "``; empty if unknown."""
    model = d.origin.model
    if model is None or not model.kind:
        return ""
    sizes = {"trees": model.trees, "terms": model.terms}
    counted = "".join(f", {count} {what}" for what, count in sizes.items() if count)
    return f"{_LIBRARIES.get(model.library, model.kind)}{counted}: "


def _counted_effects(d: Decomposition) -> str:
    """Return how many effects there are, of how many features."""
    n_combined = len(d.inputs.combined)
    n_others = len(d.feature_names) - n_combined
    of = [f"{n_others} feature{'s' * (n_others != 1)}"] if n_others or not n_combined else []
    if n_combined:
        of.append(f"{n_combined} combination{'s' * (n_combined != 1)} of columns")
    return f"{len(d)} effects of {' and '.join(of)}"


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
