"""Ticks, limits and the scale of an axis of a figure."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.labels import fold, number_words, shorten_all
from treepurify.plots.style import import_matplotlib
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NOT_TO_SCALE", "name_axis", "name_rows", "numeric_ticks", "set_ticks", "tick_steps"]

# What stands below an axis whose cells all have the same width.
NOT_TO_SCALE = "not to scale: equal cells"

_MOST_LABELS = 24
_MOST_VALUES = 12
_FEW_TICKS = 6
_LONGEST_CENTRED = 26
_ROOM_FOR_LABEL = 0.08
_DECADES_OF_STEPS = 9
# A narrow axis has few ticks, which are read more easily at these steps than at 0.8 or 1.5.
_ROUND_STEPS = (1, 2, 2.5, 5)


def set_ticks(ax: "Axes", which: Literal["x", "y"], axis: FeatureAxis, layout: AxisLayout) -> None:
    """Set scale, limits and ticks of one axis of a figure.

    A numeric axis without special cells keeps matplotlib's own ticks, which follow zooming.
    """
    drawn = ax.xaxis if which == "x" else ax.yaxis
    if layout.is_ranked:
        _stretch(ax, which, layout)
    if which == "x":
        ax.set_xlim(*layout.limits)
    else:
        # Categories read from top to bottom, numbers grow upwards.
        ax.set_ylim(*(layout.limits[::-1] if axis.is_categorical else layout.limits))
    if not (axis.is_categorical or layout.is_ranked or layout.special or _has_two(layout)):
        drawn.set_major_locator(_locator(layout))
        return
    positions, labels = _regular_ticks(axis, layout)
    positions += [centre for centre, _ in layout.special]
    labels += [label for _, label in layout.special]
    drawn.set_ticks(positions, labels)
    if which == "x" and sum(len(label) for label in labels) > 40:
        drawn.set_tick_params(rotation=90 if axis.is_categorical else 0)


def name_axis(
    ax: "Axes", which: Literal["x", "y"], name: str, layout: AxisLayout, width: int = 38
) -> None:
    """Set the name of an axis, and below it that it is not to scale where it is not."""
    words = fold(name, width)
    # A long name, centred, could reach beyond the figure: from the end there is more room.
    is_long = max(map(len, words.split("\n"))) > _LONGEST_CENTRED
    words += f"\n{NOT_TO_SCALE}" if layout.is_ranked else ""
    if which == "x":
        ax.set_xlabel(words, loc="right" if is_long else "center")
    else:
        ax.set_ylabel(words, loc="top" if is_long else "center")


def name_rows(ax: "Axes", names: Iterable[str], most: int = 34) -> None:
    """Name the rows 0, 1, ... of a figure from top to bottom."""
    labels = shorten_all(names, most)
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def _stretch(ax: "Axes", which: Literal["x", "y"], layout: AxisLayout) -> None:
    """Give each cell its place, while all coordinates remain in the units of the feature."""
    edges, kept = np.unique(layout.edges, return_index=True)
    places = layout.places[kept]
    functions = (partial(_between, edges, places), partial(_between, places, edges))
    set_scale: Any = ax.set_xscale if which == "x" else ax.set_yscale
    set_scale("function", functions=functions)


def _between(known: Array, there: Array, values: npt.ArrayLike) -> Array:
    """Interpolate between known points, and beyond them in the direction of the outer two."""
    at = np.asarray(values, dtype=np.float64)
    left = np.clip(np.searchsorted(known, at, side="right") - 1, 0, len(known) - 2)
    slope = (there[left + 1] - there[left]) / (known[left + 1] - known[left])
    return np.asarray(there[left] + (at - known[left]) * slope)


def _has_two(layout: AxisLayout) -> bool:
    """Return whether there are just two values, wherever they lie."""
    return layout.values is not None and not layout.is_whole


def _locator(layout: AxisLayout, most: int | None = None) -> Any:
    locator = import_matplotlib("ticker").MaxNLocator
    if most is not None:
        return locator(most, integer=layout.is_whole, steps=[*_ROUND_STEPS, 10])
    return locator(_MOST_VALUES if _has_few(layout) else _FEW_TICKS, integer=layout.is_whole)


def _has_few(layout: AxisLayout) -> bool:
    """Return whether each of the values that there can be has room for a tick."""
    return layout.values is not None and len(layout.values) <= _MOST_VALUES


def _regular_ticks(axis: FeatureAxis, layout: AxisLayout) -> tuple[list[float], list[str]]:
    if axis.is_categorical:
        step = -(-layout.n_regular // _MOST_LABELS)
        shown = range(0, layout.n_regular, step)
        names = axis.labels()
        labels = shorten_all(names[layout.cells[i]] for i in shown)
        return [float(i) for i in shown], labels
    return numeric_ticks(layout)


def numeric_ticks(layout: AxisLayout, most: int | None = None) -> tuple[list[float], list[str]]:
    """Return the ticks along the intervals of a numeric axis, with their labels.

    Round numbers; where the cells are not to scale, some of the edges.

    Parameters
    ----------
    layout : AxisLayout
        The layout of the axis.
    most : int, optional
        About how many; by default six, or each of up to twelve whole numbers.
    """
    if layout.is_ranked:
        positions, labels = _edge_ticks(layout, min(most or _FEW_TICKS, _FEW_TICKS))
    else:
        positions = _round_ticks(layout, most)
        labels = [number_words(value) for value in positions]
    if layout.special and (layout.is_ranked or not _has_few(layout)):
        # The label of the special cell needs the place of the last tick.
        n_kept = int(np.sum(layout.parts(np.array(positions)) <= 1 - _ROOM_FOR_LABEL))
        positions, labels = positions[:n_kept], labels[:n_kept]
    return positions, labels


def tick_steps(largest: float) -> list[float]:
    """Return the steps between ticks that axes of effects may have, from small to large.

    The largest is more than an axis with a few effects on top of each other needs.

    Parameters
    ----------
    largest : float
        The largest effect in absolute value.
    """
    top = int(np.ceil(np.log10(largest))) if largest > 0 else 0
    powers = range(top - _DECADES_OF_STEPS, top + 1)
    return [float(f"{step}e{power}") for power in powers for step in _ROUND_STEPS]


def _round_ticks(layout: AxisLayout, most: int | None) -> list[float]:
    if _has_two(layout) and layout.values is not None:
        return [float(value) for value in layout.values]
    lower, upper = (float(edge) for edge in layout.regular_edges[[0, -1]])
    ticks = _locator(layout, most).tick_values(lower, upper)
    return [float(value) for value in ticks if lower <= value <= upper]


def _edge_ticks(layout: AxisLayout, most: int) -> tuple[list[float], list[str]]:
    """Return ticks at some of the edges; the outer ones are the ends of the data."""
    edges = np.unique(layout.regular_edges)
    chosen = np.unique(np.round(np.linspace(0, len(edges) - 1, min(len(edges), most + 1)))).astype(
        int
    )
    positions = edges[chosen]
    if layout.is_whole:
        # An edge between whole numbers is named for the one above it, the last one below.
        shown = np.append(np.ceil(positions[:-1]), np.floor(positions[-1]))
        return positions.tolist(), [number_words(value) for value in shown]
    return positions.tolist(), _told_apart(positions)


def _told_apart(values: Array) -> list[str]:
    """Format numbers with as few digits as keep neighbours apart."""
    for digits in (3, 4, 6, 9):
        labels = [number_words(value, digits) for value in values]
        if len(set(labels)) == len(labels):
            break
    return labels
