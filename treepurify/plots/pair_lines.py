"""The figure of a pair as lines: the effect of one feature at several values of another."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.axis_ticks import set_ticks, shorten
from treepurify.plots.style import (
    FRAME,
    INK,
    MANY,
    MUTED,
    SMALL_SIZE,
    axes_or_new,
    style_axes,
)
from treepurify.plots.terms import effect_label, find_tensor, output_position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pair_lines"]

Array = npt.NDArray[np.float64]

_SHARES = (0.1, 0.5, 0.9)


def pair_lines(
    d: Decomposition,
    key: tuple[str | int, str | int],
    *,
    output: int | str = 0,
    with_main: bool = True,
    lines: int = 5,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the effect of the first feature at several values of the second.

    Parallel lines mean no interaction. Parts of a line without data are thin.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : tuple of str or int
        The features, by name or position: along the axis, and one line a value.
    output : int or str
        The output, by position or name.
    with_main : bool
        Whether to add the main effect of the first feature, or to draw the pair alone.
    lines : int
        For categories and special cells, at most so many lines, of largest mass. A numeric
        second feature has three, at the 10 %, 50 % and 90 % quantile of its mass.
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
        If `lines` is not from 1 to 7.
    MissingDependencyError
        If matplotlib is not installed.
    """
    if not 1 <= lines <= len(MANY):
        raise InvalidInputError(f"lines must be from 1 to {len(MANY)}, got {lines}")
    component = find_tensor(d, key, 2)
    position = output_position(d, output)
    values, mass, axes = component.values[..., position], component.mass, component.axes
    first = component.features[0]
    if d.feature_names[component.features[0]] != _name(d, key[0]):
        values, mass, axes = values.T, mass.T, axes[::-1]
        first = component.features[1]
    if with_main:
        values = values + _main_effect(d, first, axes[0], position)[:, None]
    cells = _chosen_cells(axes[1], mass.sum(axis=0), lines)
    ax = axes_or_new(ax, 5.4, 3.4)
    ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    layout = lay_out_axis(axes[0])
    edges = np.unique(layout.regular_edges)
    for i, cell in enumerate(cells):
        own = values[: layout.n_regular, cell][layout.has_width]
        seen = (mass[: layout.n_regular, cell] > 0)[layout.has_width]
        label = shorten(f"{axes[1].name} {axes[1].labels()[cell]}", 34)
        ax.stairs(own, edges, baseline=None, color=MANY[i], linewidth=0.5, label="_thin")
        held = np.where(seen, own, np.nan)
        ax.stairs(held, edges, baseline=None, color=MANY[i], linewidth=2.0, label=label)
        if layout.special:
            places = [centre for centre, _ in layout.special]
            ax.plot(places, values[layout.n_regular :, cell], "D", markersize=4.5, color=MANY[i])
    style_axes(ax)
    set_ticks(ax, "x", axes[0], layout)
    ax.set_xlabel(axes[0].name)
    ax.set_ylabel(effect_label(d, position))
    ax.margins(y=0.08)
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=2,
        frameon=False,
        fontsize=SMALL_SIZE,
        labelcolor=INK,
        borderpad=0.2,
    )
    what = "main effect and pair" if with_main else "pair alone"
    ax.set_title(what, fontsize=SMALL_SIZE, color=MUTED, loc="right")
    return ax


def _name(d: Decomposition, part: str | int) -> str:
    return part if isinstance(part, str) else d.feature_names[part]


def _main_effect(d: Decomposition, feature: int, axis: FeatureAxis, output: int) -> Array:
    """Return the main effect on the cells of an axis of the pair."""
    main = d.components.get((feature,))
    if not isinstance(main, TensorComponent):
        return np.zeros(axis.n_cells)
    own = main.axes[0]
    if own.n_cells == axis.n_cells:
        return np.asarray(main.values[:, output])
    # Bins of mains are finer: mass-weighted means over the cells of the pair.
    inside = own.cells_in(axis)
    mass = np.bincount(inside, main.mass, minlength=axis.n_cells)
    total = np.bincount(inside, main.mass * main.values[:, output], minlength=axis.n_cells)
    return np.asarray(total / np.where(mass > 0, mass, 1.0))


def _chosen_cells(axis: FeatureAxis, mass: Array, lines: int) -> list[int]:
    if axis.is_categorical:
        return sorted(int(cell) for cell in np.argsort(-mass, kind="stable")[:lines])
    upto = np.cumsum(mass[: axis.n_regular])
    if upto[-1] <= 0:
        return [0]
    found = np.searchsorted(upto, np.array(_SHARES) * upto[-1])
    return sorted({int(min(cell, axis.n_regular - 1)) for cell in found})
