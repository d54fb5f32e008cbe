"""How sure effects are, in figures: bands, whiskers and words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treepurify.components import TensorComponent, is_estimated
from treepurify.decomposition import Decomposition
from treepurify.grids.drawing import cell_values
from treepurify.plots.axis_layout import AxisLayout
from treepurify.plots.merged_cells import CellMerging, merge_axis
from treepurify.plots.style import AFTER
from treepurify.spread import LEVEL, one_more_training
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BAND_WORDS",
    "MOST_CELLS",
    "Band",
    "band_of",
    "draw_band",
    "draw_whiskers",
    "merged_for_band",
]

# Of more steps neither the band nor the curve in it can be followed.
MOST_CELLS = 40
# What the band of one more training is called in a legend.
BAND_WORDS = f"{LEVEL:.0%} band for one more training"

_ALPHA = 0.2
# Bands of several curves, which lie on top of each other.
_ALPHA_OF_MANY = 0.13


@dataclass(frozen=True, eq=False)
class Band:
    """Between which bounds an effect would lie, in each cell by itself.

    Parameters
    ----------
    lower, upper : ndarray of float64, shape (cells...)
        The bounds; NaN where nothing is known.
    words : str
        What the band is called in a legend.
    """

    lower: Array
    upper: Array
    words: str

    def shifted(self, distance: float) -> "Band":
        """Return the band of the effect plus a constant."""
        return Band(self.lower + distance, self.upper + distance, self.words)


def merged_for_band(component: TensorComponent, layout: AxisLayout) -> CellMerging:
    """Return how cells of a main effect are merged where it is drawn with a band.

    Parameters
    ----------
    component : TensorComponent
        The main effect, of a numeric feature.
    layout : AxisLayout
        Where its cells are drawn.
    """
    axis = merge_axis(component.axes[0], component.mass, layout, MOST_CELLS)
    return CellMerging((axis,), component.mass)


def band_of(
    d: Decomposition,
    component: TensorComponent,
    output: int,
    merging: CellMerging | None = None,
) -> Band | None:
    """Return the band of one effect; None where there is none.

    Of one more training, or of accumulated local effects over samples of the rows.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    component : TensorComponent
        The effect as a table, as it is drawn.
    output : int
        Position of the output.
    merging : CellMerging, optional
        The cells in which a main effect has its mean: the band is that of the mean of one more
        training in them.
    """
    subset = component.features
    if d.spread is not None and subset in d.spread.stacked:
        each = d.spread.values(subset)[..., output]
        if merging is not None:
            each = merging.in_each_cell(each.T).T
        return Band(*one_more_training(each, LEVEL), BAND_WORDS)
    errors = _errors_in_cells(d, component) if len(subset) == 1 else None
    if errors is None:
        return None
    from scipy.special import ndtri

    half = float(ndtri(0.5 + LEVEL / 2)) * errors[:, output]
    values = component.values[:, output]
    ends = np.column_stack([values - half, values + half])
    if merging is not None:
        ends = merging.in_each_cell(ends)
    return Band(ends[:, 0], ends[:, 1], f"{LEVEL:.0%} range with other rows")


def draw_band(
    ax: "Axes",
    layout: AxisLayout,
    band: Band,
    *,
    middles: Array | None = None,
    color: str = AFTER,
    is_one_of_many: bool = False,
    rasterized: bool = False,
) -> None:
    """Draw a band along a numeric axis, and its ends in cells of special values.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    layout : AxisLayout
        The layout of the axis.
    band : Band
        The band.
    middles : ndarray of float64, shape (n_cells,), optional
        Where a curve has its points; steps by default.
    color : str
        The colour.
    is_one_of_many : bool
        Whether there are other curves, which have bands of their own and share one legend.
    rasterized : bool
        Whether it is stored as pixels.
    """
    options = {
        "color": color,
        "alpha": _ALPHA_OF_MANY if is_one_of_many else _ALPHA,
        "linewidth": 0,
        "label": None if is_one_of_many else band.words,
        "rasterized": rasterized,
        "zorder": 1,
    }
    lower, upper = (bound[: layout.n_regular] for bound in (band.lower, band.upper))
    if middles is not None:
        ax.fill_between(middles[: layout.n_regular], lower, upper, **options)  # type: ignore[arg-type]
    else:
        lower, upper = lower[layout.has_width], upper[layout.has_width]
        edges = np.unique(layout.regular_edges)
        ax.stairs(upper, edges, baseline=lower, fill=True, **options)  # type: ignore[arg-type]
    if layout.special:
        cells = layout.special_cells
        centres = [centre for centre, _ in layout.special]
        ends = band.lower[cells], band.upper[cells]
        ax.vlines(centres, *ends, color=color, alpha=0.5, linewidth=1.3)


def draw_whiskers(ax: "Axes", band: Band, cells: Indices, positions: Array) -> None:
    """Draw a band next to horizontal bars: from end to end of each cell."""
    ax.hlines(
        positions,
        band.lower[cells],
        band.upper[cells],
        color="black",
        linewidth=1.1,
        label=band.words,
        zorder=4,
    )


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
        (spec,) = (d.inputs.features[j] for j in table.features)
        codes = cell_values(axis, spec)
        for node, error in zip(nodes, errors, strict=True):
            found[codes == node] = error
        return found
    edges = np.clip(np.concatenate([nodes[:1], axis.cuts, nodes[-1:]]), nodes[0], nodes[-1])
    middles = (edges[1:] + edges[:-1]) / 2
    for k, column in enumerate(errors.T):
        found[: axis.n_regular, k] = np.interp(middles, nodes, column)
    return found
