"""The figure of one main effect in several decompositions: measures, engines or models."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.drawing import middle_values
from treepurify.plots.axis_layout import AxisLayout, lay_out_axis
from treepurify.plots.axis_ticks import set_ticks, shorten
from treepurify.plots.main_effects import CategoryOrder, cells_from_top, main_effect_size
from treepurify.plots.style import (
    FRAME,
    INK,
    MANY,
    SMALL_SIZE,
    axes_or_new,
    import_matplotlib,
    style_axes,
)
from treepurify.plots.terms import effect_label, find_tensor, is_continuous, output_position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["overlay"]

Array = npt.NDArray[np.float64]
_Curve = tuple[str, TensorComponent, Array, bool]

_MARKERS = "osD^vPX"
_DASHES = ("-", (0, (5, 1.5)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


def overlay(
    decompositions: Mapping[str, Decomposition],
    key: str | int,
    *,
    output: int | str = 0,
    centred: bool = True,
    sort: CategoryOrder = "effect",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one main effect as several decompositions have it.

    Parameters
    ----------
    decompositions : mapping of str to Decomposition
        At most seven; the names stand in the legend. Their cells may differ.
    key : str or int
        The feature, by name, or by position in the first.
    output : int or str
        The output, by position or name.
    centred : bool
        Whether to shift every effect to mean zero, so that only shapes differ: under the
        first one's mass, or under its own where the cells are others.
    sort : {"effect", "mass", "name"}
        Order of categories, from top to bottom.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If there is nothing to draw, or more than seven, or numeric and categorical mix.
    KeyError
        If one has no such effect.
    MissingDependencyError
        If matplotlib is not installed.
    """
    if not 1 <= len(decompositions) <= len(MANY):
        raise InvalidInputError(f"expected 1 to {len(MANY)} curves, got {len(decompositions)}")
    first = next(iter(decompositions.values()))
    name = first.feature_names[key] if isinstance(key, int) else key
    curves: list[_Curve] = []
    for called, d in decompositions.items():
        component = find_tensor(d, name, 1)
        values = component.values[:, output_position(d, output)]
        mass = curves[0][1].mass if curves else component.mass
        if centred:
            values = values - (mass if mass.shape == values.shape else component.mass) @ values
        curves.append((called, component, values, is_continuous(d, name)))
    kinds = {_has_categories(component) for _, component, _, _ in curves}
    if len(kinds) > 1 and not all(
        _has_levels(own) for _, own, _, _ in curves if _has_categories(own)
    ):
        raise InvalidInputError(f"{name!r} is numeric in one decomposition, categorical in another")
    label = effect_label(first, output_position(first, output))
    size = main_effect_size(curves[0][1])
    ax = axes_or_new(ax, size[0] + 0.8, size[1])
    draw = _draw_categories if kinds == {True} else _draw_curves
    draw(ax, curves, label, sort)
    style_axes(ax)
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=2,
        frameon=False,
        fontsize=SMALL_SIZE,
        labelcolor=INK,
        borderpad=0.2,
    )
    return ax


def _has_categories(component: TensorComponent) -> bool:
    return component.axes[0].is_categorical


def _has_levels(component: TensorComponent) -> bool:
    """Return whether the categories are numbers, which have a place on a numeric axis."""
    return all(isinstance(label, int | float) for label in component.axes[0].categories)


def _draw_curves(ax: "Axes", curves: list[_Curve], label: str, sort: CategoryOrder) -> None:
    layouts = [lay_out_axis(component.axes[0]) for _, component, _, _ in curves]
    numeric = [i for i, curve in enumerate(curves) if not _has_categories(curve[1])]
    widest = max(numeric, key=lambda i: float(np.ptp(layouts[i].regular_edges)))
    ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    for i, ((called, own, values, is_smooth), layout) in enumerate(
        zip(curves, layouts, strict=True)
    ):
        dashes, words = _DASHES[i % len(_DASHES)], shorten(called, 34)
        if _has_categories(own):
            _draw_levels(ax, own, layouts[widest], values, i, words)
            continue
        if is_smooth:
            middles = middle_values(own.axes[0])
            ax.plot(middles, values, color=MANY[i], lw=1.8, ls=dashes, label=words, zorder=3)
        else:
            ax.stairs(
                values[: layout.n_regular][layout.has_width],
                np.unique(layout.regular_edges),
                baseline=None,
                color=MANY[i],
                linewidth=1.8,
                linestyle=dashes,
                label=words,
                zorder=3,
            )
        _draw_special(ax, layout, values, i)
    ax.set_ylabel(label)
    ax.margins(y=0.08)
    set_ticks(ax, "x", curves[widest][1].axes[0], layouts[widest])
    ax.set_xlabel(curves[0][1].axes[0].name)


def _draw_levels(
    ax: "Axes", own: TensorComponent, layout: AxisLayout, values: Array, i: int, words: str
) -> None:
    """Draw the effects of numbers that have levels of their own where they lie."""
    axis = own.axes[0]
    places = [float(str(label)) for label in axis.categories]
    special = [centre for centre, label in layout.special if label in axis.labels()]
    shown = [*values[: axis.n_regular], *values[axis.n_regular :][: len(special)]]
    ax.plot(
        [*places, *special],
        shown,
        linestyle="none",
        marker=_MARKERS[i],
        markersize=5,
        color=MANY[i],
        label=words,
        zorder=3,
    )


def _draw_special(ax: "Axes", layout: AxisLayout, values: Array, i: int) -> None:
    if layout.special:
        ax.plot(
            [centre for centre, _ in layout.special],
            values[layout.n_regular :],
            linestyle="none",
            marker=_MARKERS[i],
            markersize=5,
            color=MANY[i],
            zorder=3,
        )


def _draw_categories(ax: "Axes", curves: list[_Curve], label: str, sort: CategoryOrder) -> None:
    axis = curves[0][1].axes[0]
    cells = cells_from_top(curves[0][1], curves[0][2], sort)
    names = [axis.labels()[cell] for cell in cells]
    places = np.arange(len(names), dtype=np.float64)
    ax.axvline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    step = 0.5 / max(len(curves) - 1, 1)
    for i, (called, own, effects, _) in enumerate(curves):
        known = dict(zip(own.axes[0].labels(), effects, strict=True))
        shift = (i - (len(curves) - 1) / 2) * step
        ax.plot(
            [known.get(name, np.nan) for name in names],
            places + shift,
            linestyle="none",
            marker=_MARKERS[i],
            markersize=5,
            color=MANY[i],
            label=shorten(called, 34),
            zorder=3,
        )
    for place in places:
        ax.axhline(place, color=FRAME, linewidth=0.4, zorder=0)
    ax.set_yticks(places, [shorten(name) for name in names])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(places[-1] + 0.6, -0.6)
    ax.set_xlabel(label)
    ax.set_ylabel(axis.name)
    ax.xaxis.set_major_locator(import_matplotlib("ticker").MaxNLocator(5))
