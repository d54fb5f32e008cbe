"""The strip below a figure along a numeric feature: where the rows lie."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.axis_ticks import name_axis, set_ticks
from treepurify.plots.style import DATA, INK, LABEL_SIZE, MUTED, SMALL_SIZE, style_axes
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["add_data_strip", "data_density"]

_DENSITY_BINS = 60
# As parts of the height of the axes.
_GAP, _HEIGHT = 0.04, 0.14


def add_data_strip(ax: "Axes", axis: FeatureAxis, layout: AxisLayout, mass: Array) -> None:
    """Draw the mass of the cells below the axes, and set ticks and name of the x axis below it."""
    strip = ax.inset_axes((0.0, -_GAP - _HEIGHT, 1.0, _HEIGHT), sharex=ax)
    _draw_density(strip, layout, mass)
    set_ticks(ax, "x", axis, layout)
    ax.tick_params(axis="x", length=0, labelbottom=False)
    ax.spines["bottom"].set_visible(False)
    name_axis(strip, "x", axis.name, layout)
    strip.xaxis.label.set(color=INK, size=LABEL_SIZE)


def _draw_density(strip: "Axes", layout: AxisLayout, mass: Array) -> None:
    """Draw the mass as areas."""
    heights, bins = data_density(layout, mass)
    strip.stairs(heights, bins, fill=True, color=DATA, linewidth=0)
    places = layout.places
    bin_width = (places[layout.n_regular] - places[0]) / len(heights)
    for cell in layout.special_cells:
        (i,) = np.flatnonzero(layout.cells == cell)
        height = mass[cell] * bin_width / (places[i + 1] - places[i])
        left, right = layout.edges[i : i + 2]
        strip.bar(left, height, width=right - left, align="edge", color=DATA)
        heights = np.append(heights, height)
    style_axes(strip)
    strip.set_ylim(0.0, heights.max(initial=0.0) or 1.0)
    strip.set_yticks([])
    strip.spines["left"].set_visible(False)
    strip.set_ylabel(
        "data\n(area)", rotation=0, ha="right", va="center", color=MUTED, size=SMALL_SIZE
    )


def data_density(layout: AxisLayout, mass: Array) -> tuple[Array, Array]:
    """Return the mass along the intervals of a numeric axis, in bins drawn with the same width.

    Within a cell the mass is spread evenly along what is drawn.

    Returns
    -------
    heights : ndarray of float64, shape (n_bins,)
        Mass in each bin.
    bins : ndarray of float64, shape (n_bins + 1,)
        Edges of the bins: those of the cells where they are not to scale, one bin per value
        where there are few, else sixty.
    """
    edges = np.unique(layout.regular_edges)
    along = edges
    if layout.spacing == "log":
        along = np.log(edges)
        bins = np.geomspace(edges[0], edges[-1], _DENSITY_BINS + 1)
    elif layout.spacing == "value":
        count = _DENSITY_BINS if layout.values is None else len(layout.values)
        bins = np.linspace(edges[0], edges[-1], count + 1)
    else:
        bins = edges
    below = np.concatenate([[0.0], np.cumsum(mass[: layout.n_regular][layout.has_width])])
    ends = np.linspace(along[0], along[-1], len(bins)) if layout.spacing == "log" else bins
    return np.diff(np.interp(ends, along, below)), bins
