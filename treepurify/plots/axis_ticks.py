"""Ticks, limits and the scale of an axis of a figure."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout, Beyond
from treepurify.plots.fitting import (
    LINES_PER_LETTER,
    is_laid_out,
    is_narrow,
    label_letters,
    letters_along,
    lines_along,
)
from treepurify.plots.labels import fold, number_words, shorten_all, tick_words
from treepurify.plots.library import import_matplotlib
from treepurify.plots.style import MUTED, ROUND_STEPS
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "SCALE_NOTES",
    "beyond_words",
    "has_long_labels",
    "log_ticks",
    "name_axis",
    "name_rows",
    "numbers_apart",
    "numeric_ticks",
    "set_ticks",
    "tick_steps",
    "turned_labels_along",
]

# What is said of an axis that is not in the units of its feature.
SCALE_NOTES = {
    "value": "",
    "rank": "not to scale: equally wide intervals",
    "log": "logarithmic scale",
}

_MOST_LABELS = 24
_MOST_VALUES = 12
_FEW_TICKS = 6
# Letters of the names of rows next to narrow axes.
_NARROW_NAME = 13
# What names and numbers on the left leave of the width of narrow axes.
_PART_OF_NARROW = 0.7
_LONGEST_CENTRED = 26
# Names are larger than small text, and the shortest line of one.
_PART_OF_SMALL, _SHORTEST_LINE = 0.95, 14
_PART_BELOW_TITLE = 0.85
_LABEL_SHARE = 0.08
_DECADES_OF_STEPS = 9
# Steps within a decade, and every how many decades.
_LOG_STEPS = (((1, 2, 5), 1), ((1, 3), 1), *(((1,), every) for every in (1, 2, 3, 5, 10, 50)))
# Labels longer than this together, in letters, do not stand side by side below a usual axis.
_LETTERS = 40.0
_GAP_LETTERS = 0.6
# Turned labels stand next to each other, on axes that are narrower than the figure.
_PART_TURNED = 0.75
# What a layout engine makes of the size that axes have before.
_PART_LAID_OUT = 1.35
# Labels of categories that stand upright below the axes.
_LONGEST_TURNED = 18


def set_ticks(
    ax: "Axes",
    which: Literal["x", "y"],
    axis: FeatureAxis,
    layout: AxisLayout,
    part: float = 1.0,
) -> None:
    """Set scale, limits and ticks of one axis of a figure; ticks where they fit.

    They must fit in `part` of the length that the axes have so far.

    Ticks of a numeric axis to scale, without special cells, follow zooming.
    """
    drawn = ax.xaxis if which == "x" else ax.yaxis
    if layout.spacing != "value":
        _stretch(ax, which, layout)
    if which == "x":
        ax.set_xlim(*layout.limits)
    else:
        # Categories read from top to bottom, numbers grow upwards.
        ax.set_ylim(*(layout.limits[::-1] if axis.is_categorical else layout.limits))
    length = part * (letters_along(ax, "x") if which == "x" else lines_along(ax))
    if which == "x" and is_narrow(ax) and not is_laid_out(ax):
        length *= _PART_OF_NARROW
    if axis.is_categorical or layout.labels:
        most = turned_labels_along(ax, part) if which == "x" else int(_space(ax) * length)
        positions, labels, turned = _category_ticks(
            axis, layout, label_letters(ax), most, length if which == "x" else None
        )
        drawn.set_ticks(positions, labels)
        drawn.set_tick_params(rotation=90 if turned else 0)
        return
    positions, labels = _fitting_ticks(layout, length, one_line=which == "x")
    if layout.spacing == "value" and not layout.special and not _has_two(layout):
        few = _has_few(layout) and len(positions) == len(layout.values)  # type: ignore[arg-type]
        drawn.set_major_locator(_locator(layout, None if few else max(len(positions), 2)))
        drawn.set_major_formatter(tick_words)
        return
    special = [label for _, label in layout.special]
    if which == "x" and _overlap(layout, length, [c for c, _ in layout.special], special):
        special = [f"\n{label}" if k % 2 else label for k, label in enumerate(special)]
    drawn.set_ticks([*positions, *(centre for centre, _ in layout.special)], [*labels, *special])


def turned_labels_along(ax: "Axes", part: float = 1.0) -> int:
    """Return how many labels that are turned stand next to each other below a part of axes."""
    return int(part * _PART_TURNED * _space(ax) * letters_along(ax, "x") * LINES_PER_LETTER)


def _space(ax: "Axes") -> float:
    return _PART_LAID_OUT if is_laid_out(ax) else 1.0


def _fitting_ticks(
    layout: AxisLayout, length: float, *, one_line: bool
) -> tuple[list[float], list[str]]:
    """Return the ticks of a numeric axis, so few that no label touches another one."""
    special = layout.special
    for most in (None, *range(_FEW_TICKS, 1, -1)):
        positions, labels = numeric_ticks(layout, most, with_special=False)
        sizes = labels if one_line else [""] * len(labels)
        if not _overlap(layout, length, positions, sizes):
            break
    if special:
        first, name = special[0]
        # The label of the special cell needs the place of the last ticks.
        while len(positions) > 1 and _overlap(
            layout, length, [positions[-1], first], [labels[-1], name] if one_line else ["", ""]
        ):
            positions, labels = positions[:-1], labels[:-1]
    return positions, labels


def _overlap(layout: AxisLayout, length: float, positions: list[float], labels: list[str]) -> bool:
    """Return whether labels touch, each as long as it is, or one line high where it is empty."""
    centres = layout.parts(np.array(positions)) / layout.parts(np.array([layout.limits[1]]))
    halves = np.array([max(len(label), 1) / 2 for label in labels])
    gaps = np.diff(centres) * length - halves[1:] - halves[:-1]
    return bool(np.any(gaps < _GAP_LETTERS))


def name_axis(
    ax: "Axes", which: Literal["x", "y"], name: str, layout: AxisLayout, width: int = 38
) -> None:
    """Set the name of an axis, and below it what a reader must know.

    That is the scale where it is not that of the values, and how much lies beyond the ends.
    """
    # A title above the axes leaves less of the height.
    part = _PART_OF_SMALL * (1.0 if which == "x" else _PART_BELOW_TITLE)
    letters = int(part * letters_along(ax, which))
    width = min(width, max(letters, _SHORTEST_LINE))
    shown = _labels_shown(ax, which, layout)
    words = fold(name + shown, width, 3 if shown else 2)
    # A long name, centred, could reach beyond the figure: from the end there is more space.
    is_long = max(map(len, words.split("\n"))) > min(_LONGEST_CENTRED, width)
    note = SCALE_NOTES[layout.spacing]
    if is_narrow(ax):
        note = note.partition(":")[0]
    for more in (note, *beyond_words(layout, width)):
        words += f"\n{fold(more, width)}" if more else ""
    if which == "x":
        ax.set_xlabel(words, loc="right" if is_long else "center")
    else:
        ax.set_ylabel(words, loc="top" if is_long else "center")
    if layout.beyond is not None:
        _mark_ends(ax, which, layout.beyond)


def _labels_shown(ax: "Axes", which: Literal["x", "y"], layout: AxisLayout) -> str:
    """Return how many of the categories have a label, in brackets; empty where all have."""
    if not (layout.has_categories or layout.labels):
        return ""
    axis = ax.xaxis if which == "x" else ax.yaxis
    n_labels = len(axis.get_majorticklocs()) - len(layout.special)
    n_drawn = int(layout.has_width.sum())
    return f" ({n_labels} of {n_drawn} labels shown)" if n_labels < n_drawn else ""


def beyond_words(layout: AxisLayout, width: int = 60) -> list[str]:
    """Return lines of at most `width` letters on how much lies outside what is drawn, how far out.

    None where all is drawn.
    """
    if layout.beyond is None:
        return []
    sides = (
        (layout.beyond.below, "down to", layout.beyond.lowest),
        (layout.beyond.above, "up to", layout.beyond.highest),
    )
    lines = [
        f"{_share_words(share)} of data, {towards} {number_words(end, 3)}"
        for share, towards, end in sides
        if share > 0
    ]
    if lines:
        lines[0] = f"not shown: {lines[0]}"
    together = "; ".join(lines)
    return lines if len(together) > width else [together]


def _share_words(share: float) -> str:
    return f"{share:.1%}" if share >= 0.0005 else "< 0.1%"


def _mark_ends(ax: "Axes", which: Literal["x", "y"], beyond: Beyond) -> None:
    """Draw an arrow at each end of an axis beyond which there are data."""
    for share, place, towards in ((beyond.below, 0.0, "<v"), (beyond.above, 1.0, ">^")):
        if share > 0:
            ax.plot(
                *((place, 0.0) if which == "x" else (0.0, place)),
                marker=towards[which == "y"],
                markersize=4,
                color=MUTED,
                transform=ax.transAxes,
                clip_on=False,
                label="_beyond",
            )


def name_rows(ax: "Axes", names: Iterable[str], most: int = 34) -> None:
    """Name the rows 0, 1, ... of a figure from top to bottom."""
    labels = shorten_all(names, _NARROW_NAME if is_narrow(ax) else most)
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def _stretch(ax: "Axes", which: Literal["x", "y"], layout: AxisLayout) -> None:
    """Give each cell its place, while all coordinates remain in the units of the feature."""
    edges, places = layout.knots
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
    if most is None:
        most = _MOST_VALUES if _has_few(layout) else _FEW_TICKS
    locator = import_matplotlib("ticker").MaxNLocator
    return locator(most, integer=layout.is_whole, steps=[*ROUND_STEPS, 10])


def _has_few(layout: AxisLayout) -> bool:
    """Return whether a tick fits at each of the possible values."""
    return layout.values is not None and len(layout.values) <= _MOST_VALUES


def _category_ticks(
    axis: FeatureAxis, layout: AxisLayout, letters: int, most: int, length: float | None
) -> tuple[list[float], list[str], bool]:
    """Return ticks in the middle of at most `most` categories, their labels, and if they turn.

    Labels are turned where they are longer together than the `length`, in letters.
    """
    most = min(_MOST_LABELS, most)
    drawn = np.flatnonzero(layout.has_width)
    shown = drawn[:: -(-len(drawn) // max(most - len(layout.special), 1))]
    names = layout.labels or axis.labels()
    special = [label for _, label in layout.special]
    labels = shorten_all((names[layout.cells[i]] for i in shown), letters)
    turned = length is not None and len("  ".join([*labels, *special])) > length
    if turned:
        labels = shorten_all((names[layout.cells[i]] for i in shown), min(letters, _LONGEST_TURNED))
    middles = (layout.regular_edges[1:] + layout.regular_edges[:-1]) / 2
    positions = middles[shown].tolist() + [centre for centre, _ in layout.special]
    return positions, labels + special, turned


def numeric_ticks(
    layout: AxisLayout, most: int | None = None, *, with_special: bool = True
) -> tuple[list[float], list[str]]:
    """Return the ticks along the intervals of a numeric axis, with their labels.

    Round numbers; where the cells are not to scale, some of the edges. Labels of ordered categories
    are in the middle of their cells.

    Parameters
    ----------
    layout : AxisLayout
        The layout of the axis.
    most : int, optional
        About how many; by default six, or each of up to twelve whole numbers.
    with_special : bool
        Whether to leave out the last ticks where special cells have labels.
    """
    if layout.labels:
        drawn = np.flatnonzero(layout.has_width)
        drawn = drawn[:: -(-len(drawn) // (most or _MOST_VALUES))]
        middles = (layout.regular_edges[1:] + layout.regular_edges[:-1]) / 2
        positions, labels = middles[drawn].tolist(), [layout.labels[i] for i in drawn]
    elif layout.is_ranked:
        positions, labels = _edge_ticks(layout, min(most or _FEW_TICKS, _FEW_TICKS))
    else:
        positions = _round_ticks(layout, most)
        labels = [number_words(value) for value in positions]
    if with_special and layout.special and (layout.is_ranked or not _has_few(layout)):
        # The label of the special cell needs the place of the last tick.
        n_kept = int(np.sum(layout.parts(np.array(positions)) <= 1 - _LABEL_SHARE))
        positions, labels = positions[:n_kept], labels[:n_kept]
    return positions, labels


def has_long_labels(axis: FeatureAxis) -> bool:
    """Return whether labels of categories do not fit side by side below an axis."""
    return axis.has_labels and len("  ".join(axis.labels()[:_MOST_LABELS])) > _LETTERS


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
    return [float(f"{step}e{power}") for power in powers for step in ROUND_STEPS]


def _round_ticks(layout: AxisLayout, most: int | None) -> list[float]:
    if _has_two(layout) and layout.values is not None:
        return [float(value) for value in layout.values]
    lower, upper = (float(edge) for edge in layout.regular_edges[[0, -1]])
    if layout.spacing == "log":
        ticks = log_ticks(lower, upper, most or _FEW_TICKS)
        if len(ticks) > 1:
            return ticks
    ticks = _locator(layout, most).tick_values(lower, upper)
    return [float(value) for value in ticks if lower <= value <= upper]


def log_ticks(lower: float, upper: float, most: int) -> list[float]:
    """Return round numbers, about as far from each other on a logarithmic axis."""
    decades = range(int(np.floor(np.log10(lower))), int(np.ceil(np.log10(upper))) + 1)
    ticks: list[float] = []
    for steps, every in _LOG_STEPS:
        ticks = [float(f"{step}e{power}") for power in decades[::every] for step in steps]
        ticks = [tick for tick in ticks if lower <= tick <= upper]
        if len(ticks) <= most:
            break
    return ticks


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
    return positions.tolist(), numbers_apart(positions)


def numbers_apart(values: Array) -> list[str]:
    """Return numbers as words, with as few digits as keep neighbours apart."""
    for digits in (3, 4, 6, 9):
        labels = [number_words(value, digits) for value in values]
        if len(set(labels)) == len(labels):
            break
    return labels
