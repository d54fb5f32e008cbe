"""One look for every figure, and the one place where matplotlib is imported."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from treepurify.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "AFTER",
    "BEFORE",
    "DATA",
    "EMPTY",
    "FRAME",
    "HATCH",
    "HIGHER",
    "INK",
    "LABEL_SIZE",
    "MANY",
    "MUTED",
    "SMALL_SIZE",
    "axes_or_new",
    "import_matplotlib",
    "legend_above",
    "style_axes",
    "write_beside",
]

# Blue and vermilion of Okabe and Ito are told apart under every common colour blindness.
AFTER = "#0072b2"
BEFORE = "#d55e00"
HIGHER = "#009e73"
# The rest of their palette, but yellow, which vanishes on white, for several curves at once.
MANY = (AFTER, BEFORE, HIGHER, "#cc79a7", "#56b4e9", "#e69f00", "#4d4d4d")
INK = "#24292f"
MUTED = "#6e7781"
FRAME = "#c4cad1"
DATA = "#a3acb7"
EMPTY = "#eff1f4"
HATCH = "#cdd3da"

LABEL_SIZE = 9.5
SMALL_SIZE = 8.5


def import_matplotlib(module: str) -> Any:
    """Return a module of matplotlib, such as ``"pyplot"``.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed; names the extra.
    """
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            'figures need matplotlib: pip install "treepurify[plots]"'
        ) from error


def axes_or_new(ax: "Axes | None", width: float, height: float) -> "Axes":
    """Return `ax`, or the axes of a new pyplot figure of `width` x `height` inches."""
    if ax is not None:
        return ax
    figure = import_matplotlib("pyplot").figure(figsize=(width, height), layout="constrained")
    made: Axes = figure.add_subplot()
    return made


def style_axes(ax: "Axes") -> None:
    """Give axes the common look: no box, quiet ticks."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FRAME)
        spine.set_linewidth(0.8)
    ax.tick_params(
        colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=3, width=0.8, which="major"
    )
    ax.tick_params(length=0, which="minor")
    ax.xaxis.label.set(color=INK, size=LABEL_SIZE)
    ax.yaxis.label.set(color=INK, size=LABEL_SIZE)
    ax.patch.set_alpha(0.0)


def legend_above(ax: "Axes", columns: int, title: str | None = None) -> None:
    """Name what is drawn above the axes, where it hides nothing."""
    legend = ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=SMALL_SIZE,
        labelcolor=INK,
        borderpad=0.2,
        handlelength=1.2,
        columnspacing=1.2,
        title=title,
        title_fontsize=SMALL_SIZE,
        alignment="left",
    )
    legend.get_title().set_color(MUTED)


def write_beside(ax: "Axes", words: str, place: tuple[float, float], distance: float = 4.0) -> None:
    """Write words beside a place, so many points to its right or, where negative, to its left."""
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
