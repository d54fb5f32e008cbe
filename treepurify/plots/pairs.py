"""The figure of a pair: a heatmap over the true cells of two features."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.plots.axis_layout import GAP, AxisLayout, lay_out_axis
from treepurify.plots.axis_ticks import set_ticks
from treepurify.plots.style import (
    EMPTY,
    HATCH,
    INK,
    MUTED,
    SMALL_SIZE,
    axes_or_new,
    import_matplotlib,
    style_axes,
)
from treepurify.plots.terms import effect_label, find_tensor, output_position, raw_effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PAIR_SIZE", "color_limit", "pair"]

Array = npt.NDArray[np.float64]

# Width and height in inches that suit the figure.
PAIR_SIZE = (4.6, 3.7)
# Red and blue around white; told apart under every common colour blindness.
_COLORS = "RdBu_r"
_MOST_VECTOR_CELLS = 400
# A few cells far out would leave the rest of the map white.
_SHOWN_MASS = 0.995


def pair(
    d: Decomposition,
    key: tuple[str | int, str | int],
    *,
    output: int | str = 0,
    before: bool = False,
    limit: float | None = None,
    show_empty: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the effect of two features as a heatmap.

    Cells have their true edges in the units of the features, missing values and unknown
    categories strips of their own. Cells without mass are hatched: what the model says there
    rests on no data.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : tuple of str or int
        The features, by name or position; the first one is drawn from left to right.
    output : int or str
        The output, by position or name.
    before : bool
        Whether to draw the effect as the model carries it, shifted to mean zero, in place of
        the purified one.
    limit : float, optional
        Effect at the ends of the colour scale, which is centred at zero. By default the
        largest among 99.5 % of the mass, or of all cells with `show_empty`; larger ones have
        the colour of the end.
    show_empty : bool
        Whether to colour cells without mass, too, below their hatching.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    KeyError
        If there is no such effect.
    InvalidInputError
        If the effect before purification is asked for, but not known.
    MissingDependencyError
        If matplotlib is not installed.
    """
    component = find_tensor(d, key, 2)
    position = output_position(d, output)
    table = raw_effect(d, component) if before else component.values
    if table is None:
        raise InvalidInputError("this decomposition does not hold the effects before purification")
    values, mass, axes = table[..., position], component.mass, component.axes
    if _position(d, key[0]) != component.features[0]:
        values, mass, axes = values.T, mass.T, axes[::-1]
    layouts = (lay_out_axis(axes[0]), lay_out_axis(axes[1]))
    if limit is None:
        limit = color_limit(values, np.ones_like(mass) if show_empty else mass)
    ax = axes_or_new(ax, *PAIR_SIZE)
    mesh = _draw_cells(ax, layouts, values, mass, limit, show_empty=show_empty)
    style_axes(ax)
    for which, axis, layout in zip(("x", "y"), axes, layouts, strict=True):
        set_ticks(ax, which, axis, layout)  # type: ignore[arg-type]
    ax.set_xlabel(axes[0].name)
    ax.set_ylabel(axes[1].name)
    label = effect_label(d, position) + (" before purification" if before else "")
    _add_colorbar(ax, mesh, label, _extend(values[(mass > 0) | show_empty], limit))
    return ax


def color_limit(values: Array, mass: Array) -> float:
    """Return the largest absolute value among 99.5 % of the mass; 1 where all are zero."""
    size, weight = np.abs(values).ravel(), mass.ravel()
    order = np.argsort(size, kind="stable")
    below = np.cumsum(weight[order])
    if len(below) == 0 or below[-1] <= 0:
        return float(size.max(initial=0.0)) or 1.0
    last = int(np.searchsorted(below, _SHOWN_MASS * below[-1]))
    return float(size[order[min(last, len(order) - 1)]]) or 1.0


def _position(d: Decomposition, part: str | int) -> int:
    return d.feature_names.index(part) if isinstance(part, str) else int(part)


def _draw_cells(
    ax: "Axes",
    layouts: tuple[AxisLayout, AxisLayout],
    values: Array,
    mass: Array,
    limit: float,
    *,
    show_empty: bool,
) -> Any:
    across, up = layouts
    rectangle = import_matplotlib("patches").Rectangle
    for left, right in across.blocks:
        for bottom, top in up.blocks:
            ax.add_patch(
                rectangle(
                    (left, bottom),
                    right - left,
                    top - bottom,
                    facecolor=EMPTY,
                    edgecolor=HATCH,
                    hatch="////",
                    linewidth=0,
                    zorder=0,
                )
            )
    is_gap = (across.cells == GAP)[:, None] | (up.cells == GAP)
    drawn = np.ix_(across.cells, up.cells)
    is_empty = mass[drawn] <= 0
    shown = np.ma.masked_where(is_gap | (is_empty & (not show_empty)), values[drawn])
    if show_empty and np.any(is_empty & ~is_gap):
        hatched = np.ma.masked_where(is_gap | ~is_empty, values[drawn])
        # The array stays, for its mask says which cells are drawn: so its colours are clear.
        clear = import_matplotlib("colors").ListedColormap([(0.0, 0.0, 0.0, 0.0)])
        cells = ax.pcolor(across.edges, up.edges, hatched.T, cmap=clear, zorder=2)
        cells.set(edgecolor=MUTED, hatch="////", linewidth=0)
    return ax.pcolormesh(
        across.edges,
        up.edges,
        shown.T,
        cmap=_COLORS,
        vmin=-limit,
        vmax=limit,
        shading="flat",
        rasterized=shown.size > _MOST_VECTOR_CELLS,
        zorder=1,
    )


def _extend(values: Array, limit: float) -> str:
    above, below = bool(np.any(values > limit)), bool(np.any(values < -limit))
    return {(True, True): "both", (True, False): "max", (False, True): "min"}.get(
        (above, below), "neither"
    )


def _add_colorbar(ax: "Axes", mesh: Any, label: str, extend: str) -> None:
    place = ax.inset_axes((1.03, 0.0, 0.035, 1.0))
    bar = ax.get_figure().colorbar(mesh, cax=place, extend=extend)  # type: ignore[union-attr]
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    bar.locator = import_matplotlib("ticker").MaxNLocator(5, symmetric=True)
    bar.set_label(label, color=INK, size=SMALL_SIZE)
    bar.ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=0)
