"""Ticks, limits and name of the axis of a feature, and strips that show where its rows lie."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.labels import fold, number_words, numbers_apart, shorten_all, with_minus
from treepurify.plots.style import (
    DATA,
    INK,
    LABEL_SIZE,
    MUTED,
    ROUND_STEPS,
    SMALL_SIZE,
    import_matplotlib,
    letters_across,
    number_ticks,
    style_axes,
)
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOTES = {"rank": "not to scale: equally wide intervals", "log": "logarithmic scale"}
_MOST_TICKS, _MOST_LABELS = 4, 24
# The label of a special cell needs this part of the axis.
_PART_OF_SPECIAL = 0.1
# Steps within a decade, and every how many decades.
_LOG_STEPS = (((1, 2, 5), 1), ((1, 3), 1), *(((1,), every) for every in (1, 2, 3, 5, 10, 50)))
_LONGEST_LABEL, _LONGEST_TURNED = 22, 18
_DENSITY_BINS = 60
# As parts of the height of the axes.
_GAP, _HEIGHT = 0.04, 0.14
_MARGINAL_GAP, _MARGINAL_HEIGHT = 0.015, 0.09
MARGINAL_WIDTH = _MARGINAL_GAP + _MARGINAL_HEIGHT


def set_axis(
    ax: "Axes", which: Literal["x", "y"], layout: AxisLayout, name: str, note: str = ""
) -> None:
    """Set scale, limits, a few ticks and the name of the axis of a feature.

    An arrow marks each end beyond which there are data; a `note` is one more line of the name.
    """
    drawn = ax.xaxis if which == "x" else ax.yaxis
    set_limits, set_name = (
        (ax.set_xlim, ax.set_xlabel) if which == "x" else (ax.set_ylim, ax.set_ylabel)
    )
    if layout.spacing == "log":
        (ax.set_xscale if which == "x" else ax.set_yscale)("log")
        drawn.set_minor_locator(import_matplotlib("ticker").NullLocator())
    ends = layout.edges[[0, -1]]
    # Categories read from top to bottom, numbers grow upwards.
    set_limits(*(ends[::-1] if which == "y" and layout.has_categories else ends))
    is_plain = layout.spacing == "value" and not layout.special and not layout.labels
    if is_plain and not _values(layout).size:
        number_ticks(drawn, "counts" if layout.is_whole else "numbers")
    else:
        places, labels, is_turned = _ticks(layout, letters_across(ax), is_below=which == "x")
        drawn.set_ticks(places, labels)
        drawn.set_tick_params(rotation=90 if is_turned else 0)
    width = max(letters_across(ax), 14) if which == "x" else 24
    lines = [fold(text, width) for text in (name, _NOTES.get(layout.spacing, ""), note) if text]
    set_name("\n".join(lines))
    whole, edges = layout.whole_edges, layout.numeric.edges
    for is_cut, place, sign in (
        (whole[0] < edges[0], 0.0, "<v"),
        (whole[-1] > edges[-1], 1.0, ">^"),
    ):
        if is_cut:
            at = (place, 0.0) if which == "x" else (0.0, place)
            look: dict[str, Any] = {"marker": sign[which == "y"], "markersize": 6, "color": MUTED}
            ax.plot(*at, **look, transform=ax.transAxes, clip_on=False, label="_beyond")


def has_long_labels(axis: FeatureAxis) -> bool:
    """Return whether labels of categories do not fit side by side below an axis."""
    return axis.has_labels and len("  ".join(axis.labels()[:_MOST_LABELS])) > _MOST_LABELS * 2


def _values(layout: AxisLayout) -> Array:
    """Return the values that each have a tick of their own, if these are few."""
    values = layout.numeric.values
    few = values is not None and (len(values) <= _MOST_TICKS or not layout.is_whole)
    return values if few and values is not None else np.empty(0)


def _ticks(
    layout: AxisLayout, letters: int, *, is_below: bool
) -> tuple[list[float], list[str], bool]:
    """Return places of ticks, labels, and whether they are turned: else longer than `letters`."""
    special = [label for _, label in layout.special]
    centres = [centre for centre, _ in layout.special]
    if layout.labels:
        drawn = np.flatnonzero(layout.has_width)
        drawn = drawn[:: -(-len(drawn) // (_MOST_LABELS - len(special)))]
        middles = (layout.regular_edges[1:] + layout.regular_edges[:-1]) / 2
        names = [layout.labels[i] for i in drawn]
        labels = shorten_all(names, min(_LONGEST_LABEL, max(letters // 2, 8)))
        is_turned = is_below and len("  ".join([*labels, *special])) > letters
        labels = shorten_all(names, _LONGEST_TURNED) if is_turned else labels
        return [*middles[drawn], *centres], labels + special, is_turned
    places, labels = _numeric_ticks(layout)
    if special and not _values(layout).size:
        low, high = layout.edges[[0, -1]]
        scale = np.log if layout.spacing == "log" else np.asarray
        parts = (scale(centres[0]) - scale(np.array(places))) / (scale(high) - scale(low))
        n_kept = int(np.sum(parts >= _PART_OF_SPECIAL))
        places, labels = places[:n_kept], labels[:n_kept]
    return [*places, *centres], labels + special, False


def _numeric_ticks(layout: AxisLayout) -> tuple[list[float], list[str]]:
    """Return round numbers or, where cells are not to scale, some of the edges."""
    values = _values(layout)
    if layout.spacing == "rank":
        places = np.unique(layout.regular_edges)
        chosen = np.linspace(0, len(places) - 1, min(len(places), _MOST_TICKS)).round().astype(int)
        edges = np.unique(layout.numeric.edges)[chosen]
        if layout.is_whole:
            # An edge between whole numbers is named for the one above it, the last one below.
            edges = np.append(np.ceil(edges[:-1]), np.floor(edges[-1]))
            return places[chosen].tolist(), [number_words(edge) for edge in edges]
        return places[chosen].tolist(), numbers_apart(edges)
    low, high = (float(edge) for edge in layout.regular_edges[[0, -1]])
    if layout.spacing == "log":
        ticks = log_ticks(low, high, _MOST_TICKS)
        if len(ticks) > 1:
            return ticks, [number_words(tick) for tick in ticks]
    if not values.size:
        locator = import_matplotlib("ticker").MaxNLocator
        ticks = locator(_MOST_TICKS, steps=ROUND_STEPS, integer=layout.is_whole)
        values = np.array([tick for tick in ticks.tick_values(low, high) if low <= tick <= high])
    labels = [number_words(value) for value in values]
    if not any("e" in label for label in labels):
        decimals = max((len(label.partition(".")[2]) for label in labels), default=0)
        labels = [with_minus(f"{value:.{decimals}f}") for value in values]
    return values.tolist(), labels


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers, about as far from each other on a logarithmic axis."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks: list[float] = []
    for steps, every in _LOG_STEPS:
        ticks = [float(f"{step}e{power}") for power in decades[::every] for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks


def add_data_strip(ax: "Axes", layout: AxisLayout, name: str, mass: Array) -> None:
    """Set ticks and name of the x axis, with the mass of the cells between it and the figure."""
    below = ax.inset_axes((0.0, -_GAP - _HEIGHT, 1.0, _HEIGHT), sharex=ax)
    _draw_density(below, layout, mass)
    below.set_ylabel("data", rotation=0, ha="right", va="center", color=MUTED, size=SMALL_SIZE)
    ax.tick_params(axis="x", length=0, labelbottom=False)
    ax.spines["bottom"].set_visible(False)
    set_axis(below, "x", layout, name)
    below.xaxis.label.set(color=INK, size=LABEL_SIZE)


def add_marginal_strips(
    ax: "Axes", layouts: tuple[AxisLayout, AxisLayout], masses: tuple[Array, Array]
) -> None:
    """Draw the mass along both axes of a map, above it and to its right."""
    above = ax.inset_axes((0.0, 1.0 + _MARGINAL_GAP, 1.0, _MARGINAL_HEIGHT), sharex=ax)
    right = ax.inset_axes((1.0 + _MARGINAL_GAP, 0.0, _MARGINAL_HEIGHT, 1.0), sharey=ax)
    for place, layout, mass in zip((above, right), layouts, masses, strict=True):
        _draw_density(place, layout, mass, is_upright=place is right)
        place.set_axis_off()
        for axis in (place.xaxis, place.yaxis):
            axis.set_visible(False)


def _draw_density(
    strip: "Axes", layout: AxisLayout, mass: Array, *, is_upright: bool = False
) -> None:
    """Draw the mass as areas along an axis; `is_upright` where that is the vertical one."""
    heights, bins = data_density(layout, mass)
    direction: Literal["vertical", "horizontal"] = "horizontal" if is_upright else "vertical"
    look: dict[str, Any] = {"color": DATA, "linewidth": 0}
    strip.stairs(heights, bins, fill=True, orientation=direction, **look)
    scale = np.log if layout.spacing == "log" else np.asarray
    bin_width = np.diff(scale(bins[[0, -1]]))[0] / len(heights)
    for cell in layout.special_cells:
        (i,) = np.flatnonzero(layout.cells == cell)
        left, right = layout.edges[i : i + 2]
        height = mass[cell] * bin_width / (scale(right) - scale(left))
        if is_upright:
            strip.barh(left, height, height=right - left, align="edge", **look)
        else:
            strip.bar(left, height, width=right - left, align="edge", **look)
        heights = np.append(heights, height)
    style_axes(strip)
    ends = 0.0, heights.max(initial=0.0) or 1.0
    strip.set(**({"xlim": ends, "xticks": []} if is_upright else {"ylim": ends, "yticks": []}))
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
    bins = np.unique(layout.regular_edges)
    values = layout.numeric.values
    if layout.spacing == "log":
        bins = np.geomspace(bins[0], bins[-1], _DENSITY_BINS + 1)
    elif layout.spacing == "value":
        count = _DENSITY_BINS if values is None else len(values)
        bins = np.linspace(bins[0], bins[-1], count + 1)
    scale = np.log if layout.spacing == "log" else layout.at
    whole, places = np.unique(layout.whole_edges, return_index=True)
    upto = np.concatenate([[0.0], np.cumsum(mass[: layout.n_regular])])
    # Cells without width have no mass that is known to lie elsewhere.
    upto = np.append(upto[places[:-1]], upto[-1])
    ends = np.log(bins) if layout.spacing == "log" else bins
    return np.diff(np.interp(ends, scale(whole), upto)), bins
