"""Figures of a report: SVG as matplotlib draws it, and the cells that a reader can point at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.plots.axis_layout import GAP, AxisLayout
from treepurify.plots.style import import_matplotlib
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Pixels per inch of heatmaps with very many cells, which are stored as pixels.
_RESOLUTION = 150
_DIGITS = 4

Cells = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture with its caption.

    Parameters
    ----------
    versions : mapping of str to str
        The SVG of each version; a reader can switch where there are two.
    caption : str
        What is seen.
    cells : dict, optional
        Where its cells lie and what they say; see `readable`.
    """

    versions: Mapping[str, str]
    caption: str
    cells: Cells | None = field(default=None)


def draw(size: tuple[float, float]) -> "Axes":
    """Return the axes of a new figure of `size` inches that no list of pyplot holds."""
    figure = import_matplotlib("figure").Figure(figsize=size, layout="constrained")
    made: Axes = figure.add_subplot()
    return made


def figure_of(ax: "Axes", caption: str, words: str, cells: Cells | None = None) -> Figure:
    """Return what was drawn as a figure.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes.
    caption : str
        The caption.
    words : str
        What the picture shows, for those who do not see it; with the caption unique in the page.
    cells : dict, optional
        See `readable`.
    """
    figure = ax.get_figure(root=True)
    if figure is None:
        raise TypeError("these axes belong to no figure")
    buffer = StringIO()
    figure.set_dpi(_RESOLUTION)
    canvas = import_matplotlib("backends.backend_svg").FigureCanvasSVG(figure)
    look = {"svg.fonttype": "none", "svg.hashsalt": caption + words}
    with import_matplotlib("style").context(look):
        canvas.print_svg(buffer, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    opening = f'<svg role="img" aria-label="{escape(words)}" '
    svg = text[text.index("<svg") :].replace("<svg ", opening, 1)
    if cells is not None:
        left, bottom, width, height = ax.get_position().bounds
        cells["box"] = [left, 1.0 - bottom - height, left + width, 1.0 - bottom]
    return Figure({"": svg}, caption, cells)


def cells_along(ax: "Axes", which: str, layout: AxisLayout, labels: Sequence[str]) -> Cells:
    """Return the cells along an axis: where each lies, as a part of the axis, and its label.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes, with their final limits.
    which : {"x", "y"}
        The axis.
    layout : AxisLayout
        What is drawn along it.
    labels : sequence of str
        The labels of all cells of the feature.
    """
    kept = np.flatnonzero((layout.cells != GAP) & (np.diff(layout.edges) > 0))
    column = 0 if which == "x" else 1
    places = np.zeros((len(layout.edges), 2))
    places[:, 1 - column] = (ax.get_ylim() if which == "x" else ax.get_xlim())[0]
    places[:, column] = layout.edges
    parts = ax.transAxes.inverted().transform(ax.transData.transform(places))[:, column]
    ends = np.round([[parts[i], parts[i + 1]] for i in kept], _DIGITS).tolist()
    cells = layout.cells[kept]
    return {"cells": cells, "ends": ends, "labels": [labels[cell] for cell in cells]}


def readable(
    along: Sequence[Cells],
    versions: Mapping[str, Array | None],
    mass: Array,
    names: Sequence[str],
) -> Cells:
    """Return what a reader sees who points at a cell.

    Parameters
    ----------
    along : sequence of dict
        The cells along the one or two axes; see `cells_along`.
    versions : mapping of str to ndarray
        Effects of all cells by what they are called; None for what is not known.
    mass : ndarray of float64
        Their share of the data.
    names : sequence of str
        The features.
    """
    shown = np.ix_(*(each["cells"] for each in along))
    return {
        "names": list(names),
        "along": [{"ends": each["ends"], "labels": each["labels"]} for each in along],
        "mass": _rounded(mass[shown]),
        "versions": {
            name: _rounded(values[shown]) for name, values in versions.items() if values is not None
        },
    }


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.ravel()]
