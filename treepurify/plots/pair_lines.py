"""The figure of a pair as lines: the effect of one feature at several values of another."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treepurify.components import TensorComponent, values_on_cells
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import middle_values
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.axis_ticks import set_ticks, shorten
from treepurify.plots.style import (
    FRAME,
    MANY,
    axes_or_new,
    legend_above,
    style_axes,
)
from treepurify.plots.terms import effect_label, find_tensor, is_continuous, output_position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pair_lines"]

Array = npt.NDArray[np.float64]

_SHARES = (0.1, 0.5, 0.9)
_MOST_CATEGORIES = 24
# More letters than this do not fit below an axis side by side.
_MOST_LETTERS = 50


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

    Parallel lines mean no interaction. Parts of a line without data are thin. Along a feature of
    categories these are joined points, hollow without data; of more than 24 categories those of
    largest mass among the lines are shown.

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
    smooth = is_continuous(d, key)
    if with_main:
        values = values + _main_effect(d, first, axes[0], position, is_smooth=smooth)[:, None]
    cells = _chosen_cells(axes[1], mass.sum(axis=0), lines)
    ax = axes_or_new(ax, 5.4, 4.2 if axes[0].is_categorical else 3.4)
    ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    labels = [shorten(f"{axes[1].name} {axes[1].labels()[cell]}", 34) for cell in cells]
    draw = _draw_points if axes[0].is_categorical else _draw_curves if smooth else _draw_steps
    draw(ax, axes[0], values[:, cells], mass[:, cells], labels)
    ax.set_ylabel(effect_label(d, position))
    ax.margins(y=0.08)
    legend_above(ax, 2, "main effect and pair" if with_main else "pair alone")
    return ax


def _draw_steps(
    ax: "Axes", axis: FeatureAxis, values: Array, mass: Array, labels: list[str]
) -> None:
    """Draw columns of values along the intervals of a numeric axis; thin where no data are."""
    layout = lay_out_axis(axis)
    edges = np.unique(layout.regular_edges)
    for own, held, color, label in zip(values.T, mass.T, MANY, labels, strict=False):
        steps = own[: layout.n_regular][layout.has_width]
        seen = (held[: layout.n_regular] > 0)[layout.has_width]
        ax.stairs(steps, edges, baseline=None, color=color, linewidth=0.5, label="_thin")
        steps = np.where(seen, steps, np.nan)
        ax.stairs(steps, edges, baseline=None, color=color, linewidth=2.0, label=label)
        if layout.special:
            places = [centre for centre, _ in layout.special]
            ax.plot(places, own[layout.n_regular :], "D", markersize=4.5, color=color)
    style_axes(ax)
    set_ticks(ax, "x", axis, layout)
    ax.set_xlabel(axis.name)


def _draw_curves(
    ax: "Axes", axis: FeatureAxis, values: Array, mass: Array, labels: list[str]
) -> None:
    """Draw columns of values as curves through the middles of the cells of a numeric axis."""
    middles = middle_values(axis)
    for own, held, color, label in zip(values.T, mass.T, MANY, labels, strict=False):
        ax.plot(middles, own, color=color, linewidth=0.5, label="_thin")
        ax.plot(middles, np.where(held > 0, own, np.nan), color=color, linewidth=2.0, label=label)
    style_axes(ax)
    set_ticks(ax, "x", axis, lay_out_axis(axis))
    ax.set_xlabel(axis.name)


def _draw_points(
    ax: "Axes", axis: FeatureAxis, values: Array, mass: Array, labels: list[str]
) -> None:
    """Draw columns of values as joined points, one place a category; hollow where no data are."""
    n_categories, special = axis.n_regular, range(axis.n_regular, axis.n_cells)
    heaviest = np.argsort(-mass[:n_categories].sum(axis=1), kind="stable")[:_MOST_CATEGORIES]
    shown = [*np.sort(heaviest), *special]
    places = np.arange(len(shown))
    for own, held, color, label in zip(values.T, mass.T, MANY, labels, strict=False):
        n_joined = len(heaviest)
        ax.plot(places[:n_joined], own[shown[:n_joined]], color=color, linewidth=0.8, alpha=0.6)
        faces = [color if held[cell] > 0 else "none" for cell in shown]
        ax.scatter(places, own[shown], s=26, c=faces, edgecolors=color, zorder=2, label="_points")
        ax.plot([], [], "o", color=color, markersize=5, label=label)
    style_axes(ax)
    names = [shorten(axis.labels()[cell], 22) for cell in shown]
    is_long = sum(map(len, names)) > _MOST_LETTERS
    ax.set_xticks(places, names, rotation=90 if is_long else 0)
    ax.set_xlim(-0.5, len(shown) - 0.5)
    few = f" ({len(heaviest)} of {n_categories} categories)"
    ax.set_xlabel(axis.name + (few if n_categories > len(heaviest) else ""))


def _name(d: Decomposition, part: str | int) -> str:
    return part if isinstance(part, str) else d.feature_names[part]


def _main_effect(
    d: Decomposition, feature: int, axis: FeatureAxis, output: int, *, is_smooth: bool
) -> Array:
    """Return the main effect on the cells of an axis of the pair."""
    main = d.components.get((feature,))
    if main is None:
        return np.zeros(axis.n_cells)
    if not isinstance(main, TensorComponent) or is_smooth:
        return np.asarray(values_on_cells(main, d.inputs, (axis,))[:, output])
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
