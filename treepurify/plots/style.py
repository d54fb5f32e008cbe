"""One look for every figure."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.plots.fitting import check_axes, is_narrow, keep_inside, letters_along
from treepurify.plots.labels import fold, percent_words, tick_words
from treepurify.plots.library import LABEL_SIZE, SMALL_SIZE, import_matplotlib, text_size

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.transforms import Bbox

__all__ = [
    "AFTER",
    "BEFORE",
    "DASHES",
    "DATA",
    "DOWN",
    "EMPTY",
    "FRAME",
    "HATCH",
    "HIGHER",
    "INK",
    "LABEL_SIZE",
    "MAIN",
    "MANY",
    "MARKERS",
    "MUTED",
    "PAIR",
    "ROUND_STEPS",
    "SIGNS",
    "SMALL_SIZE",
    "UP",
    "PlaceOf",
    "axes_or_new",
    "hide_axis",
    "import_matplotlib",
    "legend_above",
    "name_below",
    "name_effect",
    "number_ticks",
    "sign_colors",
    "style_axes",
    "write_next_to",
]

# Red and blue stand for the sign alone, in bars as in heatmaps, and are close to the ends of their
# scale.
UP = "#b2182b"
DOWN = "#2166ac"
SIGNS = "RdBu_r"
# Purified and before purification; the order of an effect. Distinguishable with every common colour
# blindness.
AFTER = "#12355b"
BEFORE = "#848c96"
MAIN = AFTER
PAIR = "#8c6bb1"
HIGHER = "#009e73"
# For several curves at once: the colours of Okabe and Ito without yellow, which is hard to see on
# white.
MANY = ("#0072b2", "#d55e00", HIGHER, "#cc79a7", "#56b4e9", "#e69f00", "#4d4d4d")
MARKERS = "osD^vPX"
# Lengths of dashes and gaps, as multiples of the width of the line; none for a line without gaps.
DASHES = ((), (5, 1.5), (2, 1.2), (6, 1.5, 1.5, 1.5))
INK = "#24292f"
MUTED = "#6e7781"
FRAME = "#c4cad1"
DATA = "#a3acb7"
EMPTY = "#eff1f4"
HATCH = "#cdd3da"

# A narrow axis has few ticks, which are read more easily at these steps than at 0.8 or 1.5.
ROUND_STEPS = (1, 2, 2.5, 5)

# What the mark of a name in a legend takes, in letters, and the shortest line of such a name.
_LETTERS_OF_HANDLE, _SHORTEST_LINE = 4, 12
_LONGEST_LINE = 34
# Names and numbers on the left leave less of narrow axes.
_PART_OF_NARROW = 0.8
# Intervals between ticks along narrow axes.
_MOST_OF_NARROW = 3
# Names are seldom as wide as letters are counted, and may end beyond the axes; one alone less so.
_LETTERS_OF_NAMES, _LETTERS_OF_NAME = 1.3, 1.15


def sign_colors(count: int) -> str:
    """Return colours from the lowest to the highest effect, as six hexadecimal digits each."""
    colors = import_matplotlib("cm").ScalarMappable(cmap=SIGNS).cmap
    return bytes(colors(np.linspace(0, 1, count), bytes=True)[:, :3]).hex()


def axes_or_new(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return `ax`, or the axes of a new pyplot figure of `width` x `height` inches."""
    if ax is not None:
        check_axes(ax)
        keep_inside(ax)
        return ax
    figure = import_matplotlib("pyplot").figure(figsize=(width, height), layout="constrained")
    made: Axes = figure.add_subplot()
    keep_inside(made)
    return made


def style_axes(ax: "Axes") -> None:
    """Give axes the common look: no box, quiet ticks."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FRAME)
        spine.set_linewidth(0.8)
    for which in ("x", "y"):
        size = text_size(f"{which}tick.labelsize", SMALL_SIZE)
        ax.tick_params(
            which, colors=MUTED, labelcolor=INK, labelsize=size, length=3, width=0.8, which="major"
        )
    ax.tick_params(length=0, which="minor")
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(color=INK, size=text_size("axes.labelsize", LABEL_SIZE))
    ax.patch.set_alpha(0.0)


def hide_axis(ax: "Axes") -> None:
    """Leave nothing of axes but what is drawn inside, and measure no ticks that nobody sees."""
    ax.set_axis_off()
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_visible(False)


def name_effect(ax: "Axes", words: str) -> None:
    """Name the y axis of effects, and leave some space above and below them."""
    letters = int(letters_along(ax, "y"))
    ax.set_ylabel(fold(words, min(max(letters, _SHORTEST_LINE), _LONGEST_LINE)))
    ax.margins(y=0.08)
    number_ticks(ax.yaxis, 6)


def name_below(ax: "Axes", words: str, most: int = 60, *, note: str = "") -> None:
    """Name the x axis of effects or of shares in lines that fit, of at most `most` letters.

    A `note` below is what else a reader must know, after an empty line.
    """
    letters = max(min(int(_LETTERS_OF_NAME * letters_along(ax, "x")), most), _SHORTEST_LINE)
    lines = [fold(text, letters, 3) for text in (words, note) if text]
    ax.set_xlabel("\n\n".join(lines), loc="right")


def number_ticks(
    axis: "Axis", most: int = 5, *, of: Literal["numbers", "counts", "shares"] = "numbers"
) -> None:
    """Set round ticks, and write their numbers as all figures do; few along narrow axes.

    The number of ticks is fixed: where it follows the size of the axes, the layout may be made
    for labels of another width.
    """
    if axis is axis.axes.xaxis and is_narrow(axis.axes):
        most = min(most, _MOST_OF_NARROW)
    locator = import_matplotlib("ticker").MaxNLocator
    axis.set_major_locator(locator(most, steps=[*ROUND_STEPS, 10], integer=of == "counts"))
    axis.set_major_formatter(percent_words if of == "shares" else tick_words)


def legend_above(
    ax: "Axes",
    columns: int,
    title: str | None = None,
    *,
    side: Literal["left", "right"] = "left",
    reverse: bool = False,
    distance: float = 0.0,
) -> None:
    """Name what is drawn above the axes, where it hides nothing.

    It begins where the axes do, or, next to long names on the left, it ends there. Where the axes
    are narrow, it has fewer columns, and names of several lines. It starts `distance` points above
    the axes, and titles stand above it.
    """
    handles, names = ax.get_legend_handles_labels()
    letters = int(letters_along(ax, "x"))
    longest = max(map(len, names), default=0) + _LETTERS_OF_HANDLE
    part = _PART_OF_NARROW if is_narrow(ax) else _LETTERS_OF_NAMES
    columns = min(columns, max(int(part * letters) // longest, 1))
    width = max(int(_LETTERS_OF_NAME * letters) - _LETTERS_OF_HANDLE, _SHORTEST_LINE)
    names = [fold(name, width, 3) for name in names]
    size = text_size("legend.fontsize", SMALL_SIZE)
    legend = ax.legend(
        handles,
        names,
        loc="lower left" if side == "left" else "lower right",
        bbox_to_anchor=(0.0 if side == "left" else 1.0, 1.0),
        bbox_transform=_above(ax, distance),
        ncols=columns,
        frameon=False,
        fontsize=size,
        labelcolor=INK,
        borderpad=0.2,
        handlelength=1.2,
        columnspacing=1.2,
        title=title,
        title_fontsize=size,
        alignment="left",
        reverse=reverse,
    )
    legend.get_title().set_color(MUTED)
    # Titles stand above what is inside the axes, as this is, though nobody sees it.
    below_title = ax.inset_axes((0.0, 1.0, 1.0, 0.0))
    hide_axis(below_title)
    below_title.set_axes_locator(PlaceOf(legend))  # type: ignore[arg-type]


class PlaceOf:
    """The place of an artist as that of axes: a locator of matplotlib."""

    def __init__(self, artist: "Artist") -> None:
        self._artist = artist

    def __call__(self, ax: "Axes", renderer: Any) -> "Bbox":
        """Return the place as parts of the figure."""
        figure = ax.get_figure(root=False)
        box = self._artist.get_window_extent(renderer)
        return box if figure is None else box.transformed(figure.transSubfigure.inverted())


def _above(ax: "Axes", distance: float) -> Any:
    """Return the coordinates of axes, moved upwards by some points."""
    figure = ax.get_figure(root=True)
    if figure is None or distance == 0:
        return ax.transAxes
    moved = import_matplotlib("transforms").ScaledTranslation
    return ax.transAxes + moved(0.0, distance / 72.0, figure.dpi_scale_trans)


def write_next_to(
    ax: "Axes", words: str, place: tuple[float, float], distance: float = 4.0
) -> None:
    """Write words `distance` points to the right of a place, or to its left where negative."""
    ax.annotate(
        words,
        place,
        xytext=(distance, 0),
        textcoords="offset points",
        va="center",
        ha="left" if distance > 0 else "right",
        color=MUTED,
        fontsize=SMALL_SIZE,
    )
