"""The figure of a pair as lines: the effect of one feature at several values of another."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_flag, check_whole
from treepurify.components import TensorComponent, values_on_cells
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import middle_values
from treepurify.plots.axis_layout import (
    AxisLayout,
    Scale,
    lay_out_axis,
)
from treepurify.plots.axis_ticks import (
    has_long_labels,
    name_axis,
    numbers_apart,
    set_ticks,
    turned_labels_along,
)
from treepurify.plots.bands import BAND_WORDS, Band, draw_band
from treepurify.plots.category_order import (
    left_out,
    main_effect_of,
    order_categories,
    order_of_labels,
)
from treepurify.plots.fitting import letters_along
from treepurify.plots.labels import effect_label, margin_label, shorten, shorten_all, with_minus
from treepurify.plots.limits import cells_that_count, shown_range
from treepurify.plots.ratio_axis import add_ratio_axis, has_ratio_axis
from treepurify.plots.style import (
    FRAME,
    MANY,
    MARKERS,
    axes_or_new,
    legend_above,
    name_effect,
    style_axes,
)
from treepurify.plots.terms import check_scale, find_tensor, is_continuous, output_position
from treepurify.plots.titles import ends_in_order, set_effect_title, title_lines
from treepurify.rows.row_weights import first_reached
from treepurify.spread import LEVEL, one_more_training
from treepurify.terms import named_features
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["line_cells", "line_names", "main_effect_along", "means_along", "pair_lines"]

_MOST_LINES = 5
_SHARES = (0.1, 0.5, 0.9)
_MOST_CATEGORIES = 24
# What labels may take of the letters along an axis.
_PART_OF_LABELS = 1.1
_LETTERS_OF_Y_LABELS = 5
# The weight of a cell without data relative to those with data: none, unless it is alone.
_LEAST_WEIGHT = 1e-150
# Part of the place of a category that its points take.
_POINTS_WIDTH = 0.7


def pair_lines(
    d: Decomposition,
    key: str | tuple[str | int, str | int],
    *,
    output: int | str = 0,
    with_mains: bool = True,
    lines: int = _MOST_LINES,
    scale: Scale = "auto",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the joint effect of two features along the first, at several values of the second.

    Parallel lines mean no interaction. If the first feature is categorical, the effect is drawn as
    points instead of lines; at most the 24 most frequent categories are shown. Lines are thin, and
    points hollow, in regions with hardly any data, which the range in the title leaves out (see the
    notes of `main_effect`). Effects are on the margin scale. If several trainings were purified,
    bands are prediction intervals of 90% for one more training (`Spread.band`).

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : tuple of str or int
        The features, by name or position: the first is along the axis, the second has one line per
        value.
    output : int or str
        The output, by position or name.
    with_mains : bool
        Whether to add both main effects, so that the distance between two lines is the difference
        that the second feature makes; False draws the interaction alone.
    lines : int
        Largest number of lines for a categorical second feature and for missing values; the most
        frequent values are drawn. A numeric second feature has three lines, at its 10%, 50% and
        90% quantiles; if these coincide, the intervals with the largest part of the variance of
        the pair are used instead.
    scale : {"auto", "value", "rank", "log"}
        The axis of a numeric first feature, as in `main_effect`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    UnknownComponentError
        If there is no such effect.
    InvalidInputError
        If `lines` is not from 1 to 7, `scale` is unknown, ``scale="rank"`` is used with a curve, or
        ``scale="log"`` is used with values that are not positive.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.pair : An interaction as a heatmap.
    treepurify.plots.main_effect : Figure of one main effect.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.pair_lines(d, ("x0", "x1"))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['0', '1']
    """
    check_scale(scale)
    check_whole("lines", lines, 1, len(MANY))
    check_flag("with_mains", with_mains)
    component = find_tensor(d, key, 2)
    position = output_position(d, output)
    values, mass, axes = component.values[..., position], component.mass, component.axes
    first, second = component.features
    if named_features(key, d.feature_names)[0] != first:
        values, mass, axes = values.T, mass.T, axes[::-1]
        first, second = second, first
    mains = {first: axes[0], second: axes[1]} if with_mains else {}
    band = _band(d, component, first, mains, position)
    smooth = is_continuous(d, key)
    held = mass.sum(axis=1)
    order = None
    if axes[0].is_categorical:
        effects = main_effect_of(d, first, axes[0], position)
        order = order_categories(
            axes[0],
            effects,
            held,
            _MOST_CATEGORIES,
            ordered_labels=order_of_labels(d, first),
        )
    shown = shown_range(d, first, axes[0], held)
    layout = lay_out_axis(axes[0], held, scale=scale, order=order, is_smooth=smooth, shown=shown)
    varying = (mass * values**2).sum(axis=0)
    for place, (feature, axis) in enumerate(mains.items()):
        main = main_effect_along(d, feature, axis, is_smooth=smooth)[:, position]
        values = values + np.expand_dims(main, 1 - place)
    counts = cells_that_count(values, mass, axes)
    cells = line_cells(axes[1], mass.sum(axis=0), lines, varying)
    height = 3.4 + 0.8 * axes[0].is_categorical + 0.8 * has_long_labels(axes[0])
    ax = axes_or_new(ax, 5.4, height)
    ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    names = line_names(axes[1], mass.sum(axis=0), cells, is_smooth=smooth)
    if title_lines(ax) == 1 and not axes[1].is_categorical:
        names = _middles(axes[1], mass.sum(axis=0), cells, names, is_smooth=smooth)
    labels = shorten_all(names, 22)
    words = shorten(axes[1].name, 20)
    if title_lines(ax) > 1 or not with_mains:
        words += f" ({'main effects and pair' if with_mains else 'pair alone'})"
    draw = _draw_points if axes[0].is_categorical else _draw_curves if smooth else _draw_steps
    draw(ax, axes[0], layout, values[:, cells], counts[:, cells], labels)
    if band is not None:
        words += f"; {band.words}"
        for i, cell in enumerate(cells):
            own = Band(band.lower[:, cell], band.upper[:, cell], band.words)
            if axes[0].is_categorical:
                _draw_ends(ax, layout, own, i, len(cells))
            else:
                draw_band(ax, layout, own, color=MANY[i], is_one_of_many=True)
    name_effect(ax, effect_label(d, position))
    if has_ratio_axis(ax, d.link):
        add_ratio_axis(ax, d.link)
    legend_above(ax, 3, words)
    drawn = np.ix_(layout.cells_with_place, np.array(cells))
    low, high = sorted(ends_in_order(values[drawn], counts[drawn]) or (0.0, 0.0))
    name, of_what = f"{axes[0].name} by {axes[1].name}", f"the {margin_label(d, position)}"
    set_effect_title(ax, name, of_what, (low, high))
    return ax


def _band(
    d: Decomposition,
    component: TensorComponent,
    first: int,
    mains: Mapping[int, FeatureAxis],
    output: int,
) -> Band | None:
    """Return the band of each line, cells of the first feature first; None where there is none.

    `mains` has the features whose main effects are added, with their axes in the pair.
    """
    if d.spread is None or component.features not in d.spread.stacked:
        return None
    each = d.spread.values(component.features)[..., output]
    for feature, axis in mains.items():
        if (feature,) not in d.components:
            continue
        if (feature,) not in d.spread.stacked:
            return None
        # The outputs of all trainings stand next to each other.
        main = d.spread.stacked[(feature,)]
        along = means_along(main, main.values, axis)[:, output :: d.n_outputs].T
        is_of_rows = feature == component.features[0]
        each = each + (along[:, :, None] if is_of_rows else along[:, None, :])
    if first != component.features[0]:
        each = each.swapaxes(1, 2)
    return Band(*one_more_training(each, LEVEL), BAND_WORDS)


def _draw_ends(ax: "Axes", layout: AxisLayout, band: Band, line: int, n_lines: int) -> None:
    """Draw the band of one line next to its points, in each category."""
    shown = [*layout.cells[: layout.n_regular], *layout.special_cells]
    places = np.arange(len(shown)) + _shifts(n_lines)[line]
    ax.vlines(places, band.lower[shown], band.upper[shown], color=MANY[line], linewidth=1.0)


def _shifts(n_lines: int) -> Array:
    """Return how far the points of each line stand from the middle of a category."""
    return _POINTS_WIDTH * (np.arange(n_lines) - (n_lines - 1) / 2) / n_lines


def _draw_steps(
    ax: "Axes",
    axis: FeatureAxis,
    layout: AxisLayout,
    values: Array,
    counts: Mask,
    labels: list[str],
) -> None:
    """Draw columns of values along the intervals of a numeric axis; thin where none counts."""
    edges = np.unique(layout.regular_edges)
    for column, counted, color, label in zip(values.T, counts.T, MANY, labels, strict=False):
        steps = column[: layout.n_regular][layout.has_width]
        seen = counted[: layout.n_regular][layout.has_width]
        ax.stairs(steps, edges, baseline=None, color=color, linewidth=0.5, label="_thin")
        steps = np.where(seen, steps, np.nan)
        ax.stairs(steps, edges, baseline=None, color=color, linewidth=2.0, label=label)
        if layout.special:
            places = [centre for centre, _ in layout.special]
            ax.plot(places, column[layout.special_cells], "D", markersize=4.5, color=color)
    style_axes(ax)
    set_ticks(ax, "x", axis, layout)
    name_axis(ax, "x", axis.name, layout)


def _draw_curves(
    ax: "Axes",
    axis: FeatureAxis,
    layout: AxisLayout,
    values: Array,
    counts: Mask,
    labels: list[str],
) -> None:
    """Draw columns of values as curves through the middles of the cells of a numeric axis."""
    middles = middle_values(axis)
    for column, counted, color, label in zip(values.T, counts.T, MANY, labels, strict=False):
        ax.plot(middles, column, color=color, linewidth=0.5, label="_thin")
        ax.plot(middles, np.where(counted, column, np.nan), color=color, linewidth=2.0, label=label)
    style_axes(ax)
    set_ticks(ax, "x", axis, layout)
    name_axis(ax, "x", axis.name, layout)


def _draw_points(
    ax: "Axes",
    axis: FeatureAxis,
    layout: AxisLayout,
    values: Array,
    counts: Mask,
    labels: list[str],
) -> None:
    """Draw columns of values as points, side by side in each category; hollow if not counted."""
    shown = [*layout.cells[: layout.n_regular], *layout.special_cells]
    places = np.arange(len(shown))
    shifts = _shifts(len(labels))
    for place in places[1:]:
        ax.axvline(place - 0.5, color=FRAME, linewidth=0.4, zorder=0)
    for i, (column, counted) in enumerate(zip(values.T, counts.T, strict=True)):
        color, marker = MANY[i], MARKERS[i]
        faces = [color if counted[cell] else "none" for cell in shown]
        ax.scatter(
            places + shifts[i],
            column[shown],
            s=24,
            c=faces,
            edgecolors=color,
            marker=marker,
            zorder=2,
            label="_points",
        )
        ax.plot([], [], marker, color=color, markersize=5, label=labels[i])
    style_axes(ax)
    n_special = len(layout.special)
    step = -(-layout.n_regular // max(turned_labels_along(ax) - n_special, 1))
    named = [*range(0, layout.n_regular, step), *range(layout.n_regular, len(shown))]
    names = shorten_all((axis.labels()[shown[place]] for place in named), 22)
    # Numbers and name of the other axis take letters of narrow axes, too.
    length = (letters_along(ax, "x") - _LETTERS_OF_Y_LABELS) * _PART_OF_LABELS
    is_long = len("  ".join(names)) > length
    ax.set_xticks(places[named], names, rotation=90 if is_long else 0)
    ax.set_xlim(-0.5, len(shown) - 0.5)
    name_axis(ax, "x", axis.name + left_out(axis, layout.cells[: layout.n_regular]), layout, 44)


def line_names(axis: FeatureAxis, mass: Array, cells: list[int], *, is_smooth: bool) -> list[str]:
    """Return what the second feature is along each line: a whole number, or an interval."""
    words = axis.labels()
    layout = None if axis.has_labels else lay_out_axis(axis, mass, is_smooth=is_smooth)
    if layout is not None and layout.is_whole:
        for cell in range(axis.n_regular):
            first, last = layout.edges[cell] + 0.5, layout.edges[cell + 1] - 0.5
            words[cell] = f"{first:.0f}" if first == last else f"{first:.0f} to {last:.0f}"
    found = [words[cell] for cell in cells]
    return found if axis.has_labels else [with_minus(label) for label in found]


def _middles(
    axis: FeatureAxis, mass: Array, cells: list[int], names: list[str], *, is_smooth: bool
) -> list[str]:
    """Return numbers in the middle of intervals, for which there is no space; else the names."""
    layout = lay_out_axis(axis, mass, is_smooth=is_smooth)
    regular = [cell for cell in cells if cell < axis.n_regular]
    if layout.is_whole or layout.values is not None or len(regular) < len(cells):
        return names
    edges = layout.regular_edges
    return numbers_apart(np.array([(edges[cell] + edges[cell + 1]) / 2 for cell in cells]))


def main_effect_along(
    d: Decomposition, feature: int, axis: FeatureAxis, *, is_smooth: bool
) -> Array:
    """Return the main effect on the cells of an axis of a pair, shape (n_cells, n_outputs).

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    feature : int
        The feature.
    axis : FeatureAxis
        Its axis in the pair.
    is_smooth : bool
        Whether the pair is evaluated in the middle of its cells.
    """
    main = d.components.get((feature,))
    if main is None:
        return np.zeros((axis.n_cells, d.n_outputs))
    if not isinstance(main, TensorComponent) or is_smooth:
        return np.asarray(values_on_cells(main, d.inputs, (axis,)))
    return means_along(main, main.values, axis)


def means_along(main: TensorComponent, values: Array, axis: FeatureAxis) -> Array:
    """Return means over the cells of an axis of a pair, whose cells may be the larger ones.

    Parameters
    ----------
    main : TensorComponent
        The main effect.
    values : ndarray of float64, shape (n_cells of the main effect, n_outputs)
        Its values, or those before purification.
    axis : FeatureAxis
        The axis of the pair.
    """
    inside = main.axes[0].cells_in(axis)
    # A cell without data still has an effect, which counts where it is alone.
    weight = np.maximum(main.mass, _LEAST_WEIGHT)
    held = np.bincount(inside, weight, minlength=axis.n_cells)
    sums = np.zeros((axis.n_cells, values.shape[1]))
    np.add.at(sums, inside, weight[:, None] * values)
    return sums / np.where(held > 0, held, 1.0)[:, None]


def line_cells(
    axis: FeatureAxis, mass: Array, most: int = _MOST_LINES, varying: Array | None = None
) -> list[int]:
    """Return the cells of the second feature that have a line.

    Of categories and special cells, at most this number, of largest mass; of numbers those at the
    10%, 50% and 90% quantile of the mass. Where these share a cell, cells with the largest part
    of the variance of the pair fill their place.

    Parameters
    ----------
    axis : FeatureAxis
        The second feature.
    mass : ndarray of float64, shape (n_cells,)
        Its mass.
    most : int
        Most lines of categories.
    varying : ndarray of float64, shape (n_cells,), optional
        What each cell has of the variance of the pair; the mass by default.
    """
    if axis.is_categorical:
        return sorted(int(cell) for cell in np.argsort(-mass, kind="stable")[:most])
    upto = np.cumsum(mass[: axis.n_regular])
    if upto[-1] <= 0:
        return [0]
    cells = set(first_reached(upto, np.array(_SHARES) * upto[-1]).tolist())
    weight = np.where(mass > 0, mass if varying is None else varying, 0.0)[: axis.n_regular]
    others = [cell for cell in np.argsort(-weight, kind="stable").tolist() if weight[cell] > 0]
    for cell in others:
        if len(cells) == len(_SHARES):
            break
        cells.add(cell)
    return sorted(cells)
