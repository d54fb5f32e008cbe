"""Ticks of an axis with categories or with a cell for missing values."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.style import import_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["name_rows", "set_ticks", "shorten"]

_MOST_LABELS = 24
_SHORTEST_NAME = 8
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


def name_rows(ax: "Axes", names: Iterable[str], most: int = 34) -> None:
    """Name the rows 0, 1, ... of a figure from top to bottom."""
    labels = [shorten(name, most) for name in names]
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def shorten(label: str, most: int = 26) -> str:
    """Return a label of at most `most` characters, cut in the middle of each name.

    Names that differ tend to do so at an end.

    Examples
    --------
    >>> shorten("a_rather_long_feature_name_17", 16), shorten("age", 16)
    ('a_rathe…_name_17', 'age')
    """
    if len(label) <= most:
        return label
    parts = label.split(" & ")
    room = (most - 3 * (len(parts) - 1)) // len(parts)
    if len(parts) > 1 and room >= _SHORTEST_NAME:
        # What short names leave is for the long ones.
        n_long = sum(len(part) > room for part in parts)
        spare = sum(max(room - len(part), 0) for part in parts) // max(n_long, 1)
        return " & ".join(shorten(part, room + spare) for part in parts)
    tail = most // 2
    return label[: most - tail - 1].rstrip() + "…" + label[-tail:].lstrip()


def _number(value: float) -> str:
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return np.format_float_positional(value, precision=10, trim="-").replace(
            "-", "\N{MINUS SIGN}"
        )
    return f"{value:g}"
