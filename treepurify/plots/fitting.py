"""Figures stay inside the place of their axes, whether or not something lays the figure out."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import check_result
from treepurify.plots.library import SMALL_SIZE, import_matplotlib, points_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

__all__ = [
    "LINES_PER_LETTER",
    "check_axes",
    "inches_along",
    "is_laid_out",
    "is_narrow",
    "keep_inside",
    "label_letters",
    "letters_along",
    "lines_along",
    "rows_along",
]

# Axes of fewer letters have space for a few ticks and for short names only.
_NARROW = 24
# Where no figure is known.
_LETTERS = 40.0
# In sizes of the font, with a margin.
_LETTER_WIDTH, _LINE_HEIGHT = 0.66, 1.27
LINES_PER_LETTER = _LETTER_WIDTH / _LINE_HEIGHT
# A part of the figure is taken by what is next to the axes.
_PART_OF_AXES = 0.85
# What a layout engine makes of the width that narrow axes have before.
_PART_LAID_OUT = 1.35
# Rows may stand closer than lines are counted.
_ROWS_PER_LINE = 1.25
# Of the width, what labels of categories may take, and their number of letters in any case.
_PART_OF_LABELS, _SHORTEST_LABEL, _LONGEST_LABEL = 0.5, 8, 26
# In points, between what is drawn and the next axes or the edge of the figure.
_MARGIN = 2.0
# Axes keep at least this part of the width and the height that they were given.
_LEAST_PART = 0.25


def keep_inside(ax: "Axes") -> None:
    """Let axes shrink, each time they are drawn, until all that belongs to them has its place.

    Their place ends half way to the next axes, or at the edge of the figure. A layout engine
    (``layout="constrained"``, ``tight_layout``) gives axes a place that is large enough by
    itself, so nothing happens then, nor to axes that something else has placed.
    """
    if ax.get_axes_locator() is None:
        ax.set_axes_locator(_FittedPlace(ax))  # type: ignore[arg-type]


class _FittedPlace:
    """The place of axes, as a locator of matplotlib, which `tight_layout` treats as these axes."""

    def __init__(self, ax: "Axes") -> None:
        self._ax = ax

    def __call__(self, ax: "Axes", renderer: Any) -> "Bbox":
        """Return the place as parts of the figure."""
        return _fitted_place(ax, renderer)

    def get_subplotspec(self) -> Any:
        """Return where the axes are in a grid of axes, if they are in one."""
        return self._ax.get_subplotspec()


def letters_along(ax: "Axes", which: Literal["x", "y"]) -> float:
    """Return about how many letters of a small text stand side by side along an axis."""
    return inches_along(ax, which) * 72.0 / (_LETTER_WIDTH * points_of(SMALL_SIZE))


def is_narrow(ax: "Axes") -> bool:
    """Return whether axes are as narrow as those of three figures in a row on a page."""
    return letters_along(ax, "x") < _NARROW


def label_letters(ax: "Axes") -> int:
    """Return how many letters labels of categories may have that stand to the left of axes."""
    is_panel = is_narrow(ax) and is_laid_out(ax)
    letters = letters_along(ax, "x") * (_PART_LAID_OUT if is_panel else 1.0)
    return int(np.clip(_PART_OF_LABELS * letters, _SHORTEST_LABEL, _LONGEST_LABEL))


def lines_along(ax: "Axes") -> float:
    """Return about how many lines of small text stand under each other next to axes."""
    return inches_along(ax, "y") * 72.0 / (_LINE_HEIGHT * points_of(SMALL_SIZE))


def check_axes(ax: object) -> None:
    """Refuse what is given as axes and is none of matplotlib."""
    check_result("ax", ax, import_matplotlib("axes").Axes, "matplotlib's plt.subplots()[1]")


def rows_along(ax: "Axes | None", most: int, rest: int = 6) -> int:
    """Return how many of `most` rows of a figure to draw: fewer where given axes are low.

    Parameters
    ----------
    ax : matplotlib Axes, optional
        The axes that were given; all rows fit into axes of their own.
    most : int
        The rows that were asked for.
    rest : int
        The lines of text that everything else takes.
    """
    if ax is None:
        return most
    check_axes(ax)
    return min(most, max(int(_ROWS_PER_LINE * lines_along(ax)) - rest, 1))


def is_laid_out(ax: "Axes") -> bool:
    """Return whether a layout engine will give the axes more of the figure than they have now."""
    figure = ax.get_figure(root=False)
    return figure is not None and _has_engine(figure)


def inches_along(ax: "Axes", which: Literal["x", "y"] = "x") -> float:
    """Return about how long axes are, in inches."""
    figure = ax.get_figure(root=False)
    if figure is None:
        return _LETTERS * _LETTER_WIDTH * points_of(SMALL_SIZE) / 72.0
    place, inches = ax.get_position(), figure.dpi_scale_trans.inverted()
    whole = figure.bbox.transformed(inches)
    part = place.width * whole.width if which == "x" else place.height * whole.height
    return float(_PART_OF_AXES * part)


def _fitted_place(ax: "Axes", renderer: Any) -> "Bbox":
    """Return a place in which all that belongs to the axes lies inside theirs."""
    place = ax.get_position(original=True)
    figure = ax.get_figure(root=False)
    if renderer is None or figure is None or _has_engine(figure):
        return place
    drawn = ax.get_tightbbox(renderer, call_axes_locator=False, for_layout_only=True)
    if drawn is None:
        return place
    drawn = drawn.transformed(figure.transSubfigure.inverted())
    margin = _MARGIN / 72.0 * figure.dpi
    across, up = margin / figure.bbox.width, margin / figure.bbox.height
    left, bottom, right, top = _ends_of_place(ax, place)
    x0, x1 = _shrunk(place.x0, place.x1, left + across - drawn.x0, drawn.x1 + across - right)
    y0, y1 = _shrunk(place.y0, place.y1, bottom + up - drawn.y0, drawn.y1 + up - top)
    return import_matplotlib("transforms").Bbox.from_extents(x0, y0, x1, y1)  # type: ignore[no-any-return]


def _has_engine(figure: Any) -> bool:
    """Return whether a layout engine is at work; one that was, left a placeholder."""
    engine = figure.get_layout_engine()
    placeholder = import_matplotlib("layout_engine").PlaceHolderLayoutEngine
    return engine is not None and not isinstance(engine, placeholder)


def _ends_of_place(ax: "Axes", place: "Bbox") -> tuple[float, float, float, float]:
    """Return left, bottom, right and top end of the place: half way to the next axes."""
    left, bottom, right, top = 0.0, 0.0, 1.0, 1.0
    for other in ax.get_figure(root=False).axes:  # type: ignore[union-attr]
        own = other.get_position(original=True)
        if own.y0 < place.y1 and place.y0 < own.y1:
            if own.x1 <= place.x0:
                left = max(left, (own.x1 + place.x0) / 2)
            elif own.x0 >= place.x1:
                right = min(right, (own.x0 + place.x1) / 2)
        if own.x0 < place.x1 and place.x0 < own.x1:
            if own.y1 <= place.y0:
                bottom = max(bottom, (own.y1 + place.y0) / 2)
            elif own.y0 >= place.y1:
                top = min(top, (own.y0 + place.y1) / 2)
    return left, bottom, right, top


def _shrunk(low: float, high: float, before: float, after: float) -> tuple[float, float]:
    """Return ends moved inwards by what stands out at each, but not too close to each other."""
    before, after = max(before, 0.0), max(after, 0.0)
    most = (1.0 - _LEAST_PART) * (high - low)
    part = min(1.0, most / (before + after)) if before + after > 0 else 0.0
    return low + part * before, high - part * after
