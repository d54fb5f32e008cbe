"""The figure of a main effect: before and after purification, over the density of the data."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.arguments import check_flag
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.drawing import middle_values
from treepurify.plots.axis_layout import AxisLayout, Scale, lay_out_axis
from treepurify.plots.category_order import order_categories
from treepurify.plots.curves import (
    Band,
    Series,
    band_of,
    draw_curve,
    draw_grouped_bars,
    merge_under_band,
)
from treepurify.plots.feature_axes import add_data_strip
from treepurify.plots.labels import effect_label, ends_in_order
from treepurify.plots.limits import cells_that_count, shown_range
from treepurify.plots.merged_cells import in_each_cell, merged_means, merged_sums
from treepurify.plots.ratio_axis import RATIO_HEIGHT, add_ratio_axis, has_ratio_axis
from treepurify.plots.style import (
    AFTER,
    BEFORE,
    DATA,
    FRAME,
    HATCH,
    MUTED,
    SIZE,
    SMALL_SIZE,
    axes_or_new,
    legend_above,
    name_below,
    name_effect,
    number_ticks,
    row_height,
    set_title,
    style_axes,
)
from treepurify.plots.terms import (
    check_scale,
    find_tensor,
    is_continuous,
    output_position,
    raw_effect,
)
from treepurify.typing import Array, Indices, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CATEGORIES = 20


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
    title leaves them out. The 20 most frequent categories are drawn, and the weighted mean of the
    others; missing and unseen values only if they occur. They are in their natural order (ordered
    categories of pandas, numbers, English names of months and weekdays) or, without one, the
    largest effect comes first. Effects are on the margin scale; with a logit or log link, a second
    axis shows the odds ratio or the factor.

    If an end of a numeric feature reaches far beyond the rest, the outer 0.5% of the rows there are
    left out, and an arrow marks that end. All figures of `d`, and of other models on the same rows,
    draw the same part. With ``scale="rank"`` everything is drawn.

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
        same width, at 0, 1, ..., with split points at the ticks, ``"log"`` is logarithmic, for
        values above zero. ``"auto"`` is ``"rank"`` if nine tenths of the rows would otherwise lie
        in less than a twentieth of the width (never for a curve), and a note below the axis says
        so; otherwise it is ``"value"``.
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
    ax = axes_or_new(ax, *main_effect_size(component))
    draw_main_effect(ax, d, component, position, before=before, scale=scale)
    return ax


def main_effect_size(component: TensorComponent) -> tuple[float, float]:
    """Return the width and height in inches that suit the figure of a main effect."""
    axis = component.axes[0]
    if not axis.is_categorical:
        return SIZE
    return SIZE[0], row_height(min(axis.n_regular, MOST_CATEGORIES) + 2)


def lay_out_main_effect(
    d: Decomposition, component: TensorComponent, scale: Scale = "auto"
) -> AxisLayout:
    """Return where the cells of a main effect of a numeric feature are drawn."""
    (feature,), (axis,), mass = component.features, component.axes, component.mass
    is_smooth = is_continuous(d, feature)
    shown = shown_range(d, feature, axis, mass)
    return lay_out_axis(axis, mass, scale=scale, is_smooth=is_smooth, shown=shown)


def draw_main_effect(
    ax: "Axes",
    d: Decomposition,
    component: TensorComponent,
    output: int,
    *,
    before: bool = True,
    scale: Scale = "auto",
    most: int = MOST_CATEGORIES,
) -> AxisLayout | None:
    """Draw a main effect, and return where its intervals are drawn; None for categories."""
    axis = component.axes[0]
    raw = raw_effect(d, component) if before else None
    effect = _Effect(
        component, component.values[:, output], None if raw is None else raw[:, output]
    )
    layout = None
    if axis.is_categorical:
        band = band_of(d, component, output)
        ends = _draw_bars(ax, d, effect, band, most)
        name_below(ax, effect_label(d, output))
        number_ticks(ax.xaxis)
    else:
        layout = lay_out_main_effect(d, component, scale)
        band = band_of(d, component, output)
        ends = _draw_steps(ax, d, effect, layout, output)
        style_axes(ax)
        name_effect(ax, effect_label(d, output))
        add_data_strip(ax, layout, axis.name, component.mass)
    has_ratios = has_ratio_axis(ax, d.link)
    if has_ratios:
        add_ratio_axis(ax, d.link, which="x" if axis.is_categorical else "y")
    if raw is not None or band is not None:
        legend_above(ax, 3, distance=RATIO_HEIGHT * (has_ratios and axis.is_categorical))
    set_title(ax, axis.name, ends)
    return layout


class _Effect(NamedTuple):
    """An effect of one output: its table, and its values after and before purification."""

    component: TensorComponent
    after: Array
    before: Array | None

    @property
    def name(self) -> str:
        """What the effect is called in a legend."""
        return "effect" if self.before is None else "purified"


def _draw_steps(
    ax: "Axes", d: Decomposition, effect: _Effect, layout: AxisLayout, output: int
) -> tuple[float, float] | None:
    """Draw an effect along a numeric axis, and return its range."""
    component, after, before = effect
    axis, mass = component.axes[0], component.mass
    is_smooth = is_continuous(d, component.features)
    counts = cells_that_count(after, mass, (axis,))
    band = band_of(d, component, output)
    if band is not None and not is_smooth:
        merged = merge_under_band(component, layout)
        band = band_of(d, component, output, merged)
        counts = cells_that_count(
            merged_means(after, mass, [merged]), merged_sums(mass, [merged]), (merged.axis,)
        ).repeat(np.diff(merged.first, append=axis.n_cells))
        after = in_each_cell(after, mass, merged)
        before = None if before is None else in_each_cell(before, mass, merged)
    ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    middles = middle_values(axis)[: axis.n_regular] if is_smooth else None
    dashed: dict[str, Any] = {"linewidth": 1.3, "linestyle": (0, (4, 1.5)), "zorder": 2}
    dashed |= {"color": BEFORE, "label": "before purification"}
    if before is not None:
        draw_curve(ax, layout, before, look=dashed)
    thick = None if is_smooth else counts
    look = {"color": AFTER, "label": effect.name}
    draw_curve(ax, layout, after, middles=middles, counts=thick, band=band, look=look)
    shown = layout.cells_with_place
    return ends_in_order(after[shown], counts[shown])


def rows_of(
    d: Decomposition, component: TensorComponent, by: Array, most: int
) -> tuple[Indices, list[Indices], list[str]]:
    """Return the cells of a row for each category, of all rows the cells, and their names.

    The heaviest categories in their order, all others together, and special values with mass.
    """
    (axis,), mass = component.axes, component.mass
    labels, ordered = axis.labels(), d.inputs.features[component.features[0]].ordered_labels
    if axis.n_regular == most + 1:
        most += 1
    regular = order_categories(axis, by, mass, most, ordered)
    rest = np.setdiff1d(np.arange(axis.n_regular), regular)
    special = np.arange(axis.n_regular, axis.n_cells)
    special = special[mass[special] > 0]
    rows = [np.array([cell]) for cell in regular]
    names = [labels[cell] for cell in regular]
    if len(rest):
        rows.append(rest)
        names.append(f"{len(rest)} more")
    rows += [np.array([cell]) for cell in special]
    return np.append(regular, special), rows, names + [labels[cell] for cell in special]


def means_of_rows(values: Array, mass: Array, rows: list[Indices]) -> Array:
    """Return the mean by mass over the cells of each row."""
    weights = [mass[cells] if mass[cells].any() else np.ones(len(cells)) for cells in rows]
    return np.array([np.average(values[c], weights=w) for c, w in zip(rows, weights, strict=True)])


def _draw_bars(
    ax: "Axes", d: Decomposition, effect: _Effect, band: Band | None, most: int
) -> tuple[float, float] | None:
    """Draw an effect of categories as bars, with their shares, and return its range."""
    component, after, before = effect
    axis, mass = component.axes[0], component.mass
    counts = cells_that_count(after, mass, (axis,))
    shown, rows, names = rows_of(d, component, after, most)
    means = means_of_rows(after, mass, rows)
    alone: Mask = np.array([len(cells) == 1 for cells in rows])
    bounds = None
    if band is not None:
        # Of several categories together the band is not known.
        ends = (means_of_rows(bound, mass, rows) for bound in (band.lower, band.upper))
        low, high = (np.where(alone, end, np.nan) for end in ends)
        bounds = low, high
    is_whole = alone & [bool(counts[cells].all()) for cells in rows]
    series = Series(effect.name, means, bounds, is_whole)
    draw_grouped_bars(ax, names, [series], AFTER)
    held = np.array([mass[cells].sum() for cells in rows])
    for bar, own in zip(ax.patches, held, strict=True):
        if own == 0:
            bar.set(facecolor="none", edgecolor=HATCH, hatch="////", alpha=None)
    if before is not None:
        look: dict[str, Any] = {
            "linestyle": "none",
            "marker": "|",
            "markersize": 9,
            "markeredgewidth": 2.0,
        }
        values = means_of_rows(before, mass, rows)
        name = "before purification"
        ax.plot(values, np.arange(len(rows)), color=BEFORE, label=name, zorder=3, **look)
    if band is not None:
        ax.collections[0].set_label(band.words)
    _draw_shares(ax.inset_axes((1.02, 0.0, 0.14, 1.0), sharey=ax), held)
    return ends_in_order(after[shown], counts[shown])


def _draw_shares(strip: "Axes", mass: Array) -> None:
    strip.barh(np.arange(len(mass)), mass, height=0.72, color=DATA)
    style_axes(strip)
    strip.set(xlim=(0.0, mass.max(initial=0.0) or 1.0), xticks=[])
    strip.tick_params(axis="y", labelleft=False, length=0)
    strip.spines["bottom"].set_visible(False)
    # Below the strip it would meet the last number of the axis.
    strip.yaxis.set_label_position("right")
    strip.set_ylabel("data", rotation=270, y=1.0, ha="left", va="bottom", color=MUTED,
                     size=SMALL_SIZE)  # fmt: skip
