"""Ticks of an axis with categories or with a cell for missing values."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.style import import_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["set_ticks", "shorten"]

_MOST_LABELS = 45
_ROOM_FOR_LABEL = 0.08


def set_ticks(ax: "Axes", which: Literal["x", "y"], axis: FeatureAxis, layout: AxisLayout) -> None:
    """Set limits and ticks of one axis of a figure.

    A numeric axis without special cells keeps matplotlib's own ticks, which follow zooming.
    """
    drawn = ax.xaxis if which == "x" else ax.yaxis
    if which == "x":
        ax.set_xlim(*layout.limits)
    else:
        # Categories read from top to bottom, numbers grow upwards.
        ax.set_ylim(*(layout.limits[::-1] if axis.is_categorical else layout.limits))
    if axis.is_categorical:
        step = -(-axis.n_regular // _MOST_LABELS)
        shown = range(0, axis.n_regular, step)
        labels = [shorten(str(axis.categories[i])) for i in shown]
        positions = [float(i) for i in shown]
    elif layout.special:
        lower, upper = layout.regular_edges[[0, -1]]
        values = import_matplotlib("ticker").MaxNLocator(5).tick_values(lower, upper)
        # The label of the special cell needs the place of the last tick.
        last = upper - _ROOM_FOR_LABEL * (upper - lower)
        positions = [float(v) for v in values if lower <= v <= last]
        labels = [_number(v) for v in positions]
    else:
        drawn.set_major_locator(import_matplotlib("ticker").MaxNLocator(6))
        return
    positions += [centre for centre, _ in layout.special]
    labels += [label for _, label in layout.special]
    drawn.set_ticks(positions, labels)
    if which == "x" and sum(len(label) for label in labels) > 40:
        drawn.set_tick_params(rotation=90 if axis.is_categorical else 0)


def shorten(label: str, most: int = 22) -> str:
    """Return a label of at most `most` characters."""
    return label if len(label) <= most else label[: most - 1].rstrip() + "…"


def _number(value: float) -> str:
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return np.format_float_positional(value, precision=10, trim="-").replace(
            "-", "\N{MINUS SIGN}"
        )
    return f"{value:g}"
