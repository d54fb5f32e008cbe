"""The figure of a main effect: before and after purification, over the density of the data."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import check_flag
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.drawing import middle_values
from treepurify.plots.axis_layout import AxisLayout, Scale, lay_out_axis
from treepurify.plots.bands import (
    Band,
    band_of,
    draw_band,
    draw_whiskers,
    merged_for_band,
)
from treepurify.plots.category_order import (
    left_out,
    order_categories,
    order_of_labels,
)
from treepurify.plots.data_strip import add_data_strip
from treepurify.plots.fitting import is_narrow, label_letters, letters_along, lines_along
from treepurify.plots.labels import effect_label, fold, margin_label, shorten_all
from treepurify.plots.limits import cells_that_count, shown_range
from treepurify.plots.ratio_axis import RATIO_HEIGHT, add_ratio_axis, has_ratio_axis
from treepurify.plots.style import (
    AFTER,
    BEFORE,
    DATA,
    FRAME,
    HATCH,
    MUTED,
    SMALL_SIZE,
    axes_or_new,
    legend_above,
    name_below,
    name_effect,
    number_ticks,
    style_axes,
)
from treepurify.plots.terms import (
    check_scale,
    find_tensor,
    is_continuous,
    output_position,
    raw_effect,
)
from treepurify.plots.titles import ends_in_order, set_effect_title, title_lines
from treepurify.typing import Array, Indices, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cells_from_top", "main_effect", "main_effect_size", "part_beside_names"]

_MOST_CATEGORIES = 40
_MOST_VECTOR_CELLS = 2000
# Of bars that do not count for the title.
_PALE = 0.35
# Lines of the legend above narrow axes, where it names a band.
_LINES_OF_LEGEND = 4
# What the strip of the data takes of the width, and what a title gets at least.
_PART_OF_STRIP, _LEAST_PART = 0.14, 0.4


def main_effect(
    d: Decomposition,
    key: str | int,
    *,
    output: int | str = 0,
    before: bool = True,
    scale: Scale = "auto",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one main effect, after and optionally before purification.

    The effect of a numeric feature is a step curve, with a separate marker for missing values. It
    is thin in intervals with hardly any data, which the range in the title leaves out (see Notes).
    Bars below it show the distribution of the data: the area of a bar is its share of the rows. An
    effect that is not piecewise constant (ALE, Legendre, sampled partial dependence) is a curve
    through points. The effect of a categorical feature is one bar per category, next to a grey bar
    for its share of the rows; bars of categories with less than 0.5% of the rows are pale, and the
    title leaves them out. Only the 40 most frequent categories are drawn, fewer if the axes are
    low, and missing and unseen values only if they occur. They are in their natural order (ordered
    categories of pandas, numbers, English names of months and weekdays) or, without one, the
    largest effect comes first. Effects are on the margin scale; with a logit or log link, a second
    axis shows the odds ratio or the factor, if there is space.

    If an end of a numeric feature reaches far beyond the rest, the outer 0.5% of the rows there are
    left out; an arrow marks that end, and a line below the name of the axis states their share and
    the farthest value. All figures of `d`, and of other models on the same rows, draw the same
    part. With ``scale="rank"`` everything is drawn.

    If several trainings were purified, the band is a prediction interval of 90% for one more
    training (`Spread.band`); of accumulated local effects, it is over samples of the rows. With a
    band, neighbouring intervals are merged into at most 40, and the curves and the band show their
    weighted mean.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : str or int
        The feature, by name or position.
    output : int or str
        The output, by position or name.
    before : bool
        Whether to also draw the effect as the model stores it, shifted to mean zero.
    scale : {"auto", "value", "rank", "log"}
        The axis of a numeric feature: ``"value"`` is linear, ``"rank"`` gives each interval the
        same width, with split points at the ticks, ``"log"`` is logarithmic, for values above zero.
        ``"auto"`` is ``"rank"`` if nine tenths of the rows would otherwise lie in less than a
        twentieth of the width (never for a curve), and a note below the axis says so; otherwise it
        is ``"value"``.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default. Everything is drawn within the area of the axes,
        with or without a layout engine.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    UnknownComponentError
        If there is no such effect.
    InvalidInputError
        If `output` or `scale` is unknown, or ``scale="rank"`` is used with a curve or
        ``scale="log"`` with values that are not positive.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.overlay : One main effect of several decompositions.
    treepurify.plots.pair : An interaction as a heatmap.
    treepurify.plots.profile : Figure of the profile.

    Notes
    -----
    If all split points are whole or half numbers and the limits of the data are whole numbers, the
    feature is assumed to have only whole numbers: each number k is drawn from k - 1/2 to k + 1/2.

    The range in the title and the scale of colours leave out categories and missing values with
    less than 0.5% of the rows. Intervals with less are counted together with neighbours that also
    have less. Intervals, and combinations of two values, are also left out if their effects are the
    lowest or the highest and they have less than 0.5% of the rows together. This alone applies if
    most of the rows are in categories with less than 0.5% each.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from treepurify.plots import main_effect
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> main_effect(d, "x0").get_ylabel()
    'effect on the prediction'
    """
    check_scale(scale)
    check_flag("before", before)
    component = find_tensor(d, key, 1)
    position = output_position(d, output)
    after = component.values[:, position]
    raw = raw_effect(d, component) if before else None
    earlier = None if raw is None else raw[:, position]
    label = effect_label(d, position)
    band = band_of(d, component, position)
    axis = component.axes[0]
    ax = axes_or_new(ax, *main_effect_size(component))
    counts = cells_that_count(after, component.mass, (axis,))
    if axis.is_categorical:
        labels = order_of_labels(d, component.features[0])
        most = int(lines_along(ax)) - title_lines(ax)
        if band is not None and is_narrow(ax):
            most -= _LINES_OF_LEGEND
        shown_cells = cells_from_top(component, after, most, ordered_labels=labels)
        _draw_bars(ax, component, shown_cells, after, earlier, label, band, counts)
    else:
        is_smooth = is_continuous(d, key)
        shown = shown_range(d, component.features[0], axis, component.mass)
        layout = lay_out_axis(axis, component.mass, scale=scale, is_smooth=is_smooth, shown=shown)
        if band is not None:
            if not is_smooth:
                merging = merged_for_band(component, layout)
                band = band_of(d, component, position, merging) or band
                after = merging.in_each_cell(after[:, None])[:, 0]
                earlier = None if earlier is None else merging.in_each_cell(earlier[:, None])[:, 0]
                (few,) = merging.axes
                counts = cells_that_count(after[few.first], merging.merged_mass(), (few.axis,))
                counts = counts.repeat(np.diff(few.first, append=axis.n_cells))
            is_fine = layout.n_regular > _MOST_VECTOR_CELLS
            middles = middle_values(axis) if is_smooth else None
            draw_band(ax, layout, band, middles=middles, rasterized=is_fine)
        _draw_steps(ax, component, layout, after, earlier, counts, is_smooth=is_smooth)
        style_axes(ax)
        add_data_strip(ax, axis, layout, component.mass)
        name_effect(ax, label)
        shown_cells = layout.cells_with_place
    has_ratios = has_ratio_axis(ax, d.link)
    if has_ratios:
        add_ratio_axis(ax, d.link, which="x" if axis.is_categorical else "y")
    if earlier is not None or band is not None:
        side: Literal["left", "right"] = "right" if axis.is_categorical else "left"
        above = RATIO_HEIGHT * (has_ratios and axis.is_categorical)
        legend_above(ax, 2, side=side, reverse=True, distance=above)
    part = part_beside_names(ax, component) if axis.is_categorical else 1.0
    of_what = f"the {margin_label(d, position)}"
    ends = ends_in_order(after[shown_cells], counts[shown_cells])
    set_effect_title(ax, axis.name, of_what, ends, part=part)
    return ax


def part_beside_names(ax: "Axes", component: TensorComponent) -> float:
    """Return the part of the width that is left for a title in the middle above bars.

    The labels of the categories on the left move the middle to the right, the strip to the left.
    """
    longest = max(map(len, component.axes[0].labels()), default=0)
    labels = min(longest, label_letters(ax)) / letters_along(ax, "x")
    return min(max(1.0 + _PART_OF_STRIP - labels, _LEAST_PART), 1.0)


def main_effect_size(component: TensorComponent) -> tuple[float, float]:
    """Return the width and height in inches that suit the figure of a main effect."""
    axis = component.axes[0]
    if not axis.is_categorical:
        return 4.6, 3.5
    n_bars = min(axis.n_regular, _MOST_CATEGORIES) + axis.n_cells - axis.n_regular
    return 4.6, max(0.21 * n_bars + 1.3, 2.2)


def _draw_steps(
    ax: "Axes",
    component: TensorComponent,
    layout: AxisLayout,
    after: Array,
    before: Array | None,
    counts: Mask,
    *,
    is_smooth: bool,
) -> None:
    axis = component.axes[0]
    ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    if before is not None:
        _draw_curve(ax, layout, before, BEFORE, "before purification")
    if is_smooth:
        ax.plot(middle_values(axis), after, color=AFTER, linewidth=2.0, zorder=3)
    else:
        name = "effect" if before is None else "purified"
        _draw_curve(ax, layout, after, AFTER, name, counts)


def _draw_curve(
    ax: "Axes",
    layout: AxisLayout,
    values: Array,
    color: str,
    label: str,
    counts: Mask | None = None,
) -> None:
    """Draw a curve; that after purification thin in the cells that do not count."""
    is_after = counts is not None
    steps = values[: layout.n_regular][layout.has_width]
    # A curve of very many steps is stored as pixels: as lines it could take a megabyte.
    look: dict[str, Any] = {
        "baseline": None,
        "color": color,
        "zorder": 3 if is_after else 2,
        "rasterized": layout.n_regular > _MOST_VECTOR_CELLS,
    }
    edges = np.unique(layout.regular_edges)
    if counts is None:
        ax.stairs(steps, edges, linewidth=1.3, linestyle=(0, (4, 1.5)), label=label, **look)
    else:
        is_thick = counts[: layout.n_regular][layout.has_width]
        if not is_thick.all():
            ax.stairs(steps, edges, linewidth=0.7, label="_thin", **look)
        ax.stairs(np.where(is_thick, steps, np.nan), edges, linewidth=2.0, label=label, **look)
    if layout.special:
        ax.plot(
            [centre for centre, _ in layout.special],
            values[layout.special_cells],
            linestyle="none",
            marker="D",
            markersize=5.5,
            color=color,
            markerfacecolor=color if is_after else "none",
            markeredgewidth=1.3,
            zorder=3 if is_after else 2,
        )


def _draw_bars(
    ax: "Axes",
    component: TensorComponent,
    cells: Indices,
    after: Array,
    before: Array | None,
    label: str,
    band: Band | None,
    counts: Mask,
) -> None:
    axis = component.axes[0]
    gaps = np.array([0.0 if cell < axis.n_regular else 0.4 for cell in cells])
    positions = np.arange(len(cells)) + np.cumsum(gaps)
    is_empty = component.mass[cells] == 0
    ax.axvline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    name = "effect" if before is None else "purified"
    bars = ax.barh(positions, after[cells], height=0.72, color=AFTER, label=name, zorder=2)
    for bar, empty, is_whole in zip(bars, is_empty, counts[cells], strict=True):
        if empty:
            bar.set(facecolor="none", edgecolor=HATCH, hatch="////")
        elif not is_whole:
            bar.set_alpha(_PALE)
    if before is not None:
        ax.plot(
            before[cells],
            positions,
            linestyle="none",
            marker="|",
            markersize=9,
            markeredgewidth=2.0,
            color=BEFORE,
            label="before purification",
            zorder=3,
        )
    if band is not None:
        draw_whiskers(ax, band, cells, positions)
    style_axes(ax)
    names = axis.labels()
    ax.set_yticks(positions, shorten_all((names[cell] for cell in cells), label_letters(ax)))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(positions[-1] + 0.6, positions[0] - 0.6)
    name_below(ax, label, 44)
    number_ticks(ax.xaxis, 5)
    ax.set_ylabel(fold(axis.name + left_out(axis, cells), max(3 * len(cells), 12), 3))
    shares = ax.inset_axes((1.02, 0.0, 0.14, 1.0), sharey=ax)
    _draw_shares(shares, positions, component.mass[cells])


def cells_from_top(
    component: TensorComponent,
    after: Array,
    most: int = _MOST_CATEGORIES,
    *,
    ordered_labels: Sequence[Hashable] = (),
) -> Indices:
    """Return the cells of a categorical effect to draw, from top to bottom, special ones last.

    Of the special ones those with mass, of the others at most `most`, those of largest mass.
    """
    axis, mass = component.axes[0], component.mass
    special = np.arange(axis.n_regular, axis.n_cells)
    special = special[mass[special] > 0]
    most = min(max(most - len(special), 1), _MOST_CATEGORIES)
    regular = order_categories(axis, after, mass, most, ordered_labels=ordered_labels)
    return np.concatenate([regular, special]).astype(np.intp)


def _draw_shares(strip: "Axes", positions: Array, mass: Array) -> None:
    strip.barh(positions, mass, height=0.72, color=DATA)
    style_axes(strip)
    strip.set_xlim(0.0, mass.max(initial=0.0) or 1.0)
    strip.set_xticks([])
    strip.tick_params(axis="y", labelleft=False, length=0)
    strip.spines["bottom"].set_visible(False)
    # Below the strip it would meet the last number of the axis.
    strip.yaxis.set_label_position("right")
    strip.set_ylabel(
        "data", rotation=270, y=1.0, ha="left", va="bottom", labelpad=0.5, color=MUTED,
        size=SMALL_SIZE,
    )  # fmt: skip
