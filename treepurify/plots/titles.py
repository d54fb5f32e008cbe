"""The title of a figure: what is seen, in as many words as fit above the axes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from treepurify.plots.fitting import inches_along, is_laid_out, lines_along
from treepurify.plots.labels import fold, number_words, signed_words
from treepurify.plots.library import LABEL_SIZE, import_matplotlib, points_of, text_size
from treepurify.plots.style import INK
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ends_in_order",
    "range_words",
    "set_effect_title",
    "set_fitting_title",
    "text_width",
    "title_lines",
]

# Lines of text that stand next to axes which have a title of two lines.
_LOW = 11.0
_SHORTEST = 10
# What a layout engine makes of the width that axes have before; what names of axes leave of it
# without one.
_PART_LAID_OUT, _PART_LEFT = 1.15, 0.85
# Of narrow axes, in inches, `tight_layout` takes from the width what names and labels need.
_NARROW, _PART_NARROW = 1.5, 0.8
# The width of a usual letter, in sizes of the font.
_LETTER = 0.5
# Parts of a line's letters that are tried, since some letters are wide.
_PARTS = (1.0, 0.85, 0.7, 0.5)


def set_effect_title(
    ax: "Axes",
    name: str,
    of_what: str,
    ends: tuple[float, float] | None = None,
    *,
    part: float = 1.0,
    note: str = "",
) -> None:
    """Write above the axes whose effect on what is seen, and its range; shorter where it must be.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes.
    name : str
        The feature or the features.
    of_what : str
        What the effect is on, such as ``"the log-odds"``.
    ends : (float, float), optional
        The range that is drawn.
    part : float
        The part of the width of the axes that is left for them.
    note : str
        What else a reader must know, in a line of its own.
    """
    reach = "" if ends is None else range_words(*ends)
    whole = f"Effect of {name} on {of_what}"
    set_fitting_title(ax, whole, name, reach, part=part, note=note)


def set_fitting_title(
    ax: "Axes", whole: str, name: str, reach: str, *, part: float = 1.0, note: str = ""
) -> None:
    """Write as much as fits above the axes: the whole, else the name, and the range.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes.
    whole, name : str
        What is seen, in many words and in few.
    reach : str
        The range, which has a line of its own where there are two; empty without one.
    part : float
        The part of the width of the axes that is left for the title.
    note : str
        What else a reader must know, in a line of its own.
    """
    size = text_size("axes.titlesize", LABEL_SIZE)
    points = part * 72.0 * inches_along(ax) * _part_of_width(ax)
    letters = max(int(points / (_LETTER * points_of(size))), _SHORTEST)
    most = title_lines(ax)
    texts = [f"{whole}: {reach}", f"{name}: {reach}", name] if reach else [whole, name]
    tried = (words for text in texts for words in _in_lines(text, reach, letters, most))
    wanted = {"".join(text.split()) for text in texts}
    complete = (words for words in tried if "".join(words.split()) in wanted)
    fitting = (words for words in complete if text_width(words, size) <= points)
    title = next(fitting, None) or _shortened(name, letters, points, size)
    if note:
        title += f"\n{fold(note, letters, 3)}"
    ax.set_title(title, color=INK, size=size)


def _part_of_width(ax: "Axes") -> float:
    if not is_laid_out(ax):
        return _PART_LEFT
    return _PART_NARROW if inches_along(ax) < _NARROW else _PART_LAID_OUT


def title_lines(ax: "Axes") -> int:
    """Return how many lines the title of axes has at most."""
    return 2 if lines_along(ax) * (_PART_LAID_OUT if is_laid_out(ax) else 1.0) >= _LOW else 1


def _in_lines(text: str, reach: str, letters: int, most: int) -> Iterator[str]:
    """Yield ways to set a text: in a line, the range in a line of its own, in lines of any length.

    The last with fewer and fewer letters, since some are wide.
    """
    yield text
    if most > 1 and reach and text.endswith(f": {reach}"):
        yield f"{text.removesuffix(f' {reach}')}\n{reach}"
    for part in _PARTS:
        yield fold(text, int(part * letters), most)


def _shortened(name: str, letters: int, points: float, size: str | float) -> str:
    """Return the name in two lines, with as many letters of it as fit in `points`."""
    tried = [fold(name, max(int(part * letters), 3)) for part in (*_PARTS, 0.35)]
    return next((words for words in tried if text_width(words, size) <= points), tried[-1])


def text_width(words: str, size: str | float) -> float:
    """Return the width of lines of text in points."""
    # From the measures of the font: outlines of all letters take a fifth of the time of a figure.
    measure = import_matplotlib("textpath").text_to_path.get_text_width_height_descent
    font = import_matplotlib("font_manager").FontProperties(size=points_of(size))
    lines = (line for line in words.split("\n") if line)
    return max((float(measure(line, font, ismath=False)[0]) for line in lines), default=0.0)


def range_words(first: float, last: float, *, signed: bool = True) -> str:
    """Return from where to where effects go, with two digits of the larger; empty if nowhere.

    Examples
    --------
    >>> range_words(1.9234, 0.2), range_words(12.0, 4321.0), range_words(0.0, 0.0)
    ('from +1.9 to +0.2', 'from 0 to +4300', '')
    """
    largest = max(abs(first), abs(last))
    if not np.isfinite(largest) or largest == 0:
        return ""
    decimals = 1 - int(np.floor(np.log10(largest)))
    say = signed_words if signed else number_words
    words = [say(round(end, decimals), 10) for end in (first, last)]
    return "" if words[0] == words[1] else f"from {words[0]} to {words[1]}"


def ends_in_order(values: Array, counts: Mask) -> tuple[float, float] | None:
    """Return the smallest and the largest value that counts, in the order in which they come.

    Of all values where none counts; None where none is known.
    """
    known = values[np.isfinite(values) & (counts if counts.any() else True)]
    if not known.size:
        return None
    low, high = int(np.argmin(known)), int(np.argmax(known))
    first, last = sorted((low, high))
    return float(known[first]), float(known[last])
