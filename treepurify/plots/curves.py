"""Curves of effects along a number, bars of effects of categories, and the bands of both."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.components import TensorComponent, is_estimated
from treepurify.decomposition import Decomposition
from treepurify.grids.drawing import cell_values
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.merged_cells import MergedAxis, in_each_cell, merge_axis
from treepurify.plots.style import FRAME, MANY, name_rows, style_axes
from treepurify.spread import LEVEL, one_more_training
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of more steps neither the band nor the curve in it can be followed.
MOST_CELLS = 40
# What the band of one more training is called in a legend.
BAND_WORDS = f"{LEVEL:.0%} band for one more training"

_ALPHA = 0.16
# A curve of very many steps is stored as pixels: as lines it could take a megabyte.
_MOST_VECTOR_CELLS = 2000
# The part of a row that its bars take, and of bars that hardly any rows are in.
_ROW, _PALE = 0.76, 0.35


class Band(NamedTuple):
    """Between which bounds an effect would lie, in each cell by itself; NaN where not known."""

    lower: Array
    upper: Array
    words: str

    def shifted(self, distance: float) -> "Band":
        """Return the band of the effect plus a constant."""
        return Band(self.lower + distance, self.upper + distance, self.words)


class Series(NamedTuple):
    """Effects of categories under one name, their bounds, and which count; NaN if not known."""

    name: str
    values: Array
    bounds: tuple[Array, Array] | None
    counts: Mask


def merge_under_band(component: TensorComponent, layout: AxisLayout) -> MergedAxis:
    """Return how cells of a main effect are merged where it is drawn with a band."""
    return merge_axis(component.axes[0], component.mass, layout, MOST_CELLS)


def band_of(
    d: Decomposition, component: TensorComponent, output: int, merged: MergedAxis | None = None
) -> Band | None:
    """Return the band of one effect; None where there is none.

    Of one more training, or of accumulated local effects over samples of the rows; that of the mean
    in `merged` cells of a main effect.
    """
    subset = component.features
    if d.spread is not None and subset in d.spread.stacked:
        each = d.spread.values(subset)[..., output]
        if merged is not None:
            each = in_each_cell(each.T, component.mass, merged).T
        return Band(*one_more_training(each, LEVEL), BAND_WORDS)
    errors = _errors_in_cells(d, component) if len(subset) == 1 else None
    if errors is None:
        return None
    from scipy.special import ndtri

    half = float(ndtri(0.5 + LEVEL / 2)) * errors[:, output]
    values = component.values[:, output]
    ends = np.column_stack([values - half, values + half])
    if merged is not None:
        ends = in_each_cell(ends, component.mass, merged)
    return Band(ends[:, 0], ends[:, 1], f"{LEVEL:.0%} range with other rows")


def _errors_in_cells(d: Decomposition, table: TensorComponent) -> Array | None:
    """Return the standard errors of a main effect in its cells, shape (n_cells, n_outputs).

    NaN where a cell has no effect; None where no errors are known.
    """
    component = d.components[table.features]
    found_at = component.errors_at_nodes() if is_estimated(component) else None
    if found_at is None:
        return None
    nodes, errors = found_at
    axis = table.axes[0]
    found = np.full((axis.n_cells, errors.shape[1]), np.nan)
    if axis.cuts is None:
        codes = cell_values(axis, d.inputs.features[table.features[0]])
        for node, error in zip(nodes, errors, strict=True):
            found[codes == node] = error
        return found
    edges = np.clip(np.concatenate([nodes[:1], axis.cuts, nodes[-1:]]), nodes[0], nodes[-1])
    middles = (edges[1:] + edges[:-1]) / 2
    for k, column in enumerate(errors.T):
        found[: axis.n_regular, k] = np.interp(middles, nodes, column)
    return found


def draw_curve(
    ax: "Axes",
    layout: AxisLayout,
    values: Array,
    *,
    middles: Array | None = None,
    counts: Mask | None = None,
    band: Band | None = None,
    look: dict[str, Any],
) -> None:
    """Draw values along a numeric axis: steps, or a curve through `middles`, and special cells.

    Thin in the cells that do not count, with a band below.
    """
    n, seen, edges = layout.n_regular, layout.has_width, np.unique(layout.regular_edges)
    look = {"linewidth": 2.0, "zorder": 3, "rasterized": n > _MOST_VECTOR_CELLS, **look}
    is_drawn = np.ones(len(values), dtype=np.bool_) if counts is None else counts
    thin = {**look, "linewidth": 0.7, "label": "_thin", "linestyle": "-"}
    shown = np.where(is_drawn, values, np.nan)
    for part, own in ((values, thin), (shown, look)):
        if own is thin and is_drawn.all():
            continue
        if middles is None:
            ax.stairs(part[:n][seen], edges, baseline=None, **own)
        else:
            ax.plot(middles, part[:n], **own)
    color, zorder = look["color"], look["zorder"]
    centres = [centre for centre, _ in layout.special]
    marks = {"marker": "D", "markersize": 5, "linestyle": "none", "color": color, "zorder": zorder}
    if centres:
        ax.plot(centres, values[layout.special_cells], **marks, label="_special")
    if band is None:
        return
    area = {"color": color, "alpha": _ALPHA, "linewidth": 0, "zorder": 1, "label": band.words}
    if middles is None:
        upper, lower = band.upper[:n][seen], band.lower[:n][seen]
        ax.stairs(upper, edges, baseline=lower, fill=True, **area)
    else:
        ax.fill_between(middles, band.lower[:n], band.upper[:n], **area)
    if centres:
        ends = band.lower[layout.special_cells], band.upper[layout.special_cells]
        ax.vlines(centres, *ends, color=color, alpha=0.5, linewidth=1.3)


def draw_grouped_bars(
    ax: "Axes", names: Sequence[str], series: Sequence[Series], color: str | None = None
) -> None:
    """Draw rows of categories from top to bottom with a bar for each series; pale if rare."""
    height = _ROW / len(series)
    ax.axvline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    for i, own in enumerate(series):
        places = np.arange(len(names)) + (i - (len(series) - 1) / 2) * height
        bars = ax.barh(
            places, own.values, height=height, color=color or MANY[i], label=own.name, zorder=2
        )
        for bar, is_whole in zip(bars, own.counts, strict=True):
            bar.set_alpha(None if is_whole else _PALE)
        if own.bounds is not None:
            ax.hlines(places, *own.bounds, color="black", linewidth=1.1, zorder=4)
    style_axes(ax)
    name_rows(ax, names, 22)
