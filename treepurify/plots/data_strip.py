"""The strips along the features of a figure: where the rows lie."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.axis_ticks import name_axis, set_ticks
from treepurify.plots.library import LABEL_SIZE, SMALL_SIZE, text_size
from treepurify.plots.style import DATA, INK, MUTED, hide_axis, style_axes
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MARGINAL_WIDTH", "add_data_strip", "add_marginal_strips", "data_density"]

_DENSITY_BINS = 60
# As parts of the height of the axes.
_GAP, _HEIGHT = 0.04, 0.14
_MARGINAL_GAP, _MARGINAL_HEIGHT = 0.015, 0.09
MARGINAL_WIDTH = _MARGINAL_GAP + _MARGINAL_HEIGHT


def add_data_strip(ax: "Axes", axis: FeatureAxis, layout: AxisLayout, mass: Array) -> None:
    """Set ticks and name of the x axis, with the mass of the cells between it and the figure.

    Parameters
    ----------
    ax : matplotlib Axes
        Where the figure is.
    axis : FeatureAxis
        The feature.
    layout : AxisLayout
        Where its cells are drawn.
    mass : ndarray of float64, shape (n_cells,)
        The mass of its cells.
    """
    set_ticks(ax, "x", axis, layout)
    below = ax.inset_axes((0.0, -_GAP - _HEIGHT, 1.0, _HEIGHT), sharex=ax)
    _draw_density(below, layout, mass)
    below.set_ylabel("data", rotation=0, ha="right", va="center", color=MUTED, size=SMALL_SIZE)
    ax.tick_params(axis="x", length=0, labelbottom=False)
    ax.spines["bottom"].set_visible(False)
    name_axis(below, "x", axis.name, layout)
    below.xaxis.label.set(color=INK, size=text_size("axes.labelsize", LABEL_SIZE))


def add_marginal_strips(
    ax: "Axes", layouts: tuple[AxisLayout, ...], masses: tuple[Array, Array]
) -> None:
    """Draw the mass along both axes of a map, above it and to its right."""
    above = ax.inset_axes((0.0, 1.0 + _MARGINAL_GAP, 1.0, _MARGINAL_HEIGHT), sharex=ax)
    right = ax.inset_axes((1.0 + _MARGINAL_GAP, 0.0, _MARGINAL_HEIGHT, 1.0), sharey=ax)
    for place, layout, mass in zip((above, right), layouts, masses, strict=True):
        _draw_density(place, layout, mass, is_upright=place is right)
        hide_axis(place)


def _draw_density(
    strip: "Axes", layout: AxisLayout, mass: Array, *, is_upright: bool = False
) -> None:
    """Draw the mass as areas along an axis; `is_upright` where that is the vertical one."""
    heights, bins = data_density(layout, mass)
    direction: Literal["vertical", "horizontal"] = "horizontal" if is_upright else "vertical"
    strip.stairs(heights, bins, fill=True, color=DATA, linewidth=0, orientation=direction)
    places = layout.places
    bin_width = (places[layout.n_regular] - places[0]) / len(heights)
    for cell in layout.special_cells:
        (i,) = np.flatnonzero(layout.cells == cell)
        height = mass[cell] * bin_width / (places[i + 1] - places[i])
        left, right = layout.edges[i : i + 2]
        if is_upright:
            strip.barh(left, height, height=right - left, align="edge", color=DATA)
        else:
            strip.bar(left, height, width=right - left, align="edge", color=DATA)
        heights = np.append(heights, height)
    style_axes(strip)
    set_ends, set_ticks_across = (
        (strip.set_xlim, strip.set_xticks) if is_upright else (strip.set_ylim, strip.set_yticks)
    )
    set_ends(0.0, heights.max(initial=0.0) or 1.0)
    set_ticks_across([])
    strip.spines["bottom" if is_upright else "left"].set_visible(False)


def data_density(layout: AxisLayout, mass: Array) -> tuple[Array, Array]:
    """Return the mass along an axis, in bins drawn with the same width; one for each category.

    Within a cell the mass is spread evenly along what is drawn.

    Returns
    -------
    heights : ndarray of float64, shape (n_bins,)
        Mass in each bin.
    bins : ndarray of float64, shape (n_bins + 1,)
        Edges of the bins: those of the cells where they are not to scale, one bin per value
        where there are few, else sixty.
    """
    if layout.has_categories:
        return mass[layout.cells[: layout.n_regular]], layout.regular_edges
    edges = np.unique(layout.regular_edges)
    whole = layout.regular_edges if layout.whole_edges is None else layout.whole_edges
    if layout.spacing == "log":
        bins = np.geomspace(edges[0], edges[-1], _DENSITY_BINS + 1)
    elif layout.spacing == "value":
        count = _DENSITY_BINS if layout.values is None else len(layout.values)
        bins = np.linspace(edges[0], edges[-1], count + 1)
    else:
        bins = edges
    has_width = np.diff(whole) > 0
    below = np.concatenate([[0.0], np.cumsum(mass[: layout.n_regular][has_width])])
    along, ends = np.unique(whole), bins
    if layout.spacing == "log":
        along = np.log(along)
        ends = np.linspace(np.log(edges[0]), np.log(edges[-1]), len(bins))
    return np.diff(np.interp(ends, along, below)), bins
