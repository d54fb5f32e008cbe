"""Where one more training would have an effect, in figures: bands, whiskers and words."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_number
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.style import AFTER
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["band_of", "band_words", "check_level", "draw_band", "draw_whiskers"]

_ALPHA = 0.2


def check_level(level: float | None) -> None:
    """Raise `InvalidInputError` unless a rate lies between 0 and 1, or is None."""
    if level is not None:
        check_number("level", level, least=0, most=1, open_ends=True, advice=", or None")


def band_of(
    d: Decomposition, subset: Subset, output: int, level: float | None
) -> tuple[Array, Array] | None:
    """Return the bounds of the band of one effect, shape (cells...); None where there is none."""
    if level is None or d.spread is None or subset not in d.spread.stacked:
        return None
    lower, upper = d.spread.band(subset, level)
    return lower[..., output], upper[..., output]


def band_words(level: float) -> str:
    """Return what a band is called in a legend."""
    return f"one more training, {level:.0%}"


def draw_band(
    ax: "Axes", layout: AxisLayout, band: tuple[Array, Array], level: float, *, rasterized: bool
) -> None:
    """Draw a band along a numeric axis, and its ends in cells of special values."""
    lower, upper = band
    drawn = [bound[: layout.n_regular][layout.has_width] for bound in (upper, lower)]
    ax.stairs(
        drawn[0],
        np.unique(layout.regular_edges),
        baseline=drawn[1],
        fill=True,
        color=AFTER,
        alpha=_ALPHA,
        linewidth=0,
        label=band_words(level),
        rasterized=rasterized,
        zorder=1,
    )
    if layout.special:
        cells = layout.special_cells
        centres = [centre for centre, _ in layout.special]
        ax.vlines(centres, lower[cells], upper[cells], color=AFTER, alpha=0.5, linewidth=1.3)


def draw_whiskers(
    ax: "Axes", band: tuple[Array, Array], cells: Indices, positions: Array, level: float
) -> None:
    """Draw a band beside horizontal bars: from end to end of each cell."""
    lower, upper = band
    ax.hlines(
        positions,
        lower[cells],
        upper[cells],
        color="black",
        linewidth=1.1,
        label=band_words(level),
        zorder=4,
    )
