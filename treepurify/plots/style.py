"""One look for every figure, and the one place where matplotlib is imported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import check_result
from treepurify.errors import MissingDependencyError
from treepurify.plots.labels import fold, percent_words, range_words, shorten, shorten_all
from treepurify.typing import Array

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.transforms import Bbox

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
# Lengths of dashes and gaps, as multiples of the width of the line; none for a line without gaps.
DASHES = ((), (5, 1.5), (2, 1.2), (6, 1.5, 1.5, 1.5))
# From dark to light, distinguishable in grey and with every common colour blindness.
RANKS = "viridis"
INK = "#24292f"
MUTED = "#6e7781"
FRAME = "#c4cad1"
DATA = "#a3acb7"
HATCH = "#cdd3da"

# Relative to the setting font.size.
LABEL_SIZE, SMALL_SIZE = "medium", "small"
# Of a figure, in inches.
SIZE = (6.0, 4.0)
# Steps that are read more easily than 0.8 or 1.5, and the most intervals between ticks.
ROUND_STEPS = (1, 2, 2.5, 5, 10)
_INTERVALS, _INTERVALS_OF_PANELS = 4, 3
# About how many letters an inch has, also wide ones, and how many axes have that are a panel.
_LETTERS, _PANEL = 10.0, 32
# Of the letters, since names and numbers stand next to the axes.
_PART_OF_TITLE, _PART_OF_NAMES = 0.9, 0.65


def import_matplotlib(module: str) -> Any:
    """Return a module of matplotlib, such as ``"pyplot"``; without it the error names the extra."""
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            'figures need matplotlib: pip install "treepurify[plots]"'
        ) from error


def axes_or_new(ax: "Axes | None", width: float = SIZE[0], height: float = SIZE[1]) -> "Axes":
    """Return `ax`, or the axes of a new pyplot figure of `width` x `height` inches."""
    if ax is not None:
        check_result("ax", ax, import_matplotlib("axes").Axes, "matplotlib's plt.subplots()[1]")
        return ax
    figure = import_matplotlib("pyplot").figure(figsize=(width, height), layout="constrained")
    made: Axes = figure.add_subplot()
    return made


def row_height(n_rows: int, least: float = 2.4) -> float:
    """Return the height in inches of a figure of rows with names."""
    return max(0.3 * n_rows + 1.2, least)


def letters_across(ax: "Axes") -> int:
    """Return about how many letters stand side by side along the width of axes."""
    figure = ax.get_figure(root=True)
    if figure is None:
        return int(_LETTERS * SIZE[0])
    width = ax.get_position().width * figure.get_size_inches()[0]
    return int(_LETTERS * width * 10.0 / import_module("matplotlib").rcParams["font.size"])


def is_panel(ax: "Axes") -> bool:
    """Return whether axes are as narrow as one panel of several."""
    return letters_across(ax) < _PANEL


def style_axes(ax: "Axes") -> None:
    """Give axes the common look: no box, quiet ticks."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=FRAME, linewidth=0.8)
    ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=3, width=0.8)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(color=INK, size=LABEL_SIZE)
    ax.patch.set_alpha(0.0)


def number_ticks(axis: "Axis", of: Literal["numbers", "counts", "shares"] = "numbers") -> None:
    """Set a few round ticks, whose numbers have one format."""
    ticker = import_matplotlib("ticker")
    is_narrow = axis is axis.axes.xaxis and is_panel(axis.axes)
    most = _INTERVALS_OF_PANELS if is_narrow else _INTERVALS
    axis.set_major_locator(ticker.MaxNLocator(most, steps=ROUND_STEPS, integer=of == "counts"))
    if of == "shares":
        axis.set_major_formatter(percent_words)
        return
    plain = ticker.ScalarFormatter(useOffset=False)
    plain.set_powerlimits((-4, 7))
    axis.set_major_formatter(plain)


def name_effect(ax: "Axes", words: str) -> None:
    """Name the y axis of effects, and leave some space above and below them."""
    ax.set_ylabel(fold(words, 24))
    ax.margins(y=0.08)
    number_ticks(ax.yaxis)


def name_below(ax: "Axes", words: str, note: str = "") -> None:
    """Name the x axis of effects or of shares; a `note` is what else a reader must know."""
    width = max(int(1.2 * letters_across(ax)), 14)
    ax.set_xlabel("\n".join(fold(text, width, 3) for text in (words, note) if text), loc="right")


def name_rows(ax: "Axes", names: "Iterable[str]", most: int = 34) -> None:
    """Name the rows 0, 1, ... of a figure from top to bottom."""
    labels = shorten_all(names, min(most, int(_PART_OF_NAMES * letters_across(ax))))
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def set_title(
    ax: "Axes", name: str, ends: tuple[float, float] | None = None, *, signed: bool = True
) -> None:
    """Write the name of what is seen above the axes, and the range of its effect, in one line."""
    reach = "" if ends is None else range_words(*ends, signed=signed)
    most = max(int(_PART_OF_TITLE * letters_across(ax)) - len(reach) // 2, 16)
    words = f"{shorten(name, most)}: {reach}" if reach else shorten(name, most)
    ax.set_title(words, color=INK, size=LABEL_SIZE)


def legend_above(
    ax: "Axes", columns: int, title: str | None = None, *, distance: float = 0.0
) -> None:
    """Name what is drawn above the axes, where it hides nothing; titles stand above it.

    It starts `distance` points above the axes.
    """
    width = max(letters_across(ax), 16)
    handles, names = ax.get_legend_handles_labels()
    columns = max(min(columns, width // (max(map(len, names), default=0) + 4)), 1)
    shift = import_matplotlib("transforms").ScaledTranslation
    figure: Any = ax.get_figure(root=True)
    legend = ax.legend(
        handles,
        [fold(name, width, 3) for name in names],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        bbox_transform=ax.transAxes + shift(0.0, distance / 72.0, figure.dpi_scale_trans),
        ncols=columns,
        frameon=False,
        fontsize=SMALL_SIZE,
        labelcolor=INK,
        borderpad=0.2,
        handlelength=1.2,
        columnspacing=1.2,
        title=title and fold(title, width, 6),
        title_fontsize=SMALL_SIZE,
        alignment="left",
    )
    legend.get_title().set_color(MUTED)
    # Titles stand above what is inside the axes, as this is, though nobody sees it.
    below_title = ax.inset_axes((0.0, 1.0, 1.0, 0.0))
    below_title.set_axis_off()
    for axis in (below_title.xaxis, below_title.yaxis):
        axis.set_visible(False)
    below_title.set_axes_locator(_PlaceOf(legend))  # type: ignore[arg-type]


class _PlaceOf:
    """The place of an artist as that of axes: a locator of matplotlib."""

    def __init__(self, artist: "Artist") -> None:
        self._artist = artist

    def __call__(self, ax: "Axes", renderer: Any) -> "Bbox":
        """Return the place as parts of the figure."""
        figure: Any = ax.get_figure(root=False)
        box = self._artist.get_window_extent(renderer)
        return box.transformed(figure.transSubfigure.inverted())


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


def ranks(values: Any) -> Array:
    """Return the share of rows with a smaller value, ties at their middle; NaN for missing."""
    known = np.sort(values[~np.isnan(values)])
    below, upto = (np.searchsorted(known, values, side=side) for side in ("left", "right"))
    return np.where(np.isnan(values), np.nan, (below + upto) / (2.0 * max(len(known), 1)))


def add_rank_scale(ax: "Axes", name: str) -> None:
    """Draw the scale of the colours of ranks next to axes."""
    place = ax.inset_axes((1.03, 0.12, 0.025, 0.7))
    place.imshow(np.linspace(1, 0, 64)[:, None], aspect="auto", cmap=RANKS)
    place.set_xticks([])
    place.set_yticks([0, 63], ["high", "low"])
    place.yaxis.tick_right()
    place.tick_params(length=0, labelsize=SMALL_SIZE, labelcolor=INK)
    for spine in place.spines.values():
        spine.set_visible(False)
    place.set_title(fold(name, 12, 3), fontsize=SMALL_SIZE, color=MUTED, loc="left")
