"""The figure of one main effect in several decompositions: measures, engines or models."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from treepurify.arguments import check_flag
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.drawing import middle_values
from treepurify.plots.axis_layout import AxisLayout, Range, Scale, lay_out_axis
from treepurify.plots.axis_ticks import name_axis, set_ticks
from treepurify.plots.bands import (
    Band,
    band_of,
    draw_band,
    merged_for_band,
)
from treepurify.plots.category_order import left_out, order_of_labels
from treepurify.plots.fitting import label_letters, lines_along
from treepurify.plots.labels import (
    effect_label,
    fold,
    margin_label,
    number_words,
    shorten,
    shorten_all,
)
from treepurify.plots.limits import cells_that_count, shown_range
from treepurify.plots.main_effects import cells_from_top, main_effect_size, part_beside_names
from treepurify.plots.ratio_axis import RATIO_HEIGHT, add_ratio_axis, has_ratio_axis
from treepurify.plots.style import (
    DASHES,
    DATA,
    FRAME,
    MANY,
    MARKERS,
    axes_or_new,
    legend_above,
    name_below,
    name_effect,
    number_ticks,
    style_axes,
)
from treepurify.plots.terms import (
    check_named_results,
    check_scale,
    find_tensor,
    is_continuous,
    output_position,
)
from treepurify.plots.titles import set_fitting_title
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["overlay"]


class _Curve(NamedTuple):
    called: str
    component: TensorComponent
    values: Array
    is_smooth: bool
    band: Band | None
    mean: float


# Names of curves up to this length stand in two columns.
_MOST_BESIDE = 24
# The part of a row of categories over which bands are spread, and the size of the first mark.
_ROW_OF_BANDS, _LARGEST_MARK = 0.4, 7


def overlay(
    decompositions: Mapping[str, Decomposition],
    key: str | int,
    *,
    output: int | str = 0,
    centred: bool = True,
    scale: Scale = "auto",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one main effect of several decompositions in one figure.

    The effects of a numeric feature are curves. Each category of a categorical feature is one row,
    with a marker for each decomposition and a line between the markers; if there are many
    categories, the most frequent ones in the first decomposition are drawn. Effects are on the
    margin scale. If all decompositions have the same logit or log link, a second axis shows the
    odds ratio or the factor, if there is space.

    Parameters
    ----------
    decompositions : mapping of str to Decomposition
        At most seven decompositions; the names appear in the legend. Their intervals may differ.
    key : str or int
        The feature, by name, or by position in the first decomposition.
    output : int or str
        The output, by position or name.
    centred : bool
        Whether to shift every effect to mean zero, so that only shapes are compared. The mean is
        over the distribution of the first decomposition, or over each effect's distribution if
        their intervals differ.
    scale : {"auto", "value", "rank", "log"}
        The axis of a numeric feature, as in `main_effect`, for the effect with the widest range.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If there are no decompositions or more than seven, the feature is numeric in some and
        categorical in others, or ``scale="log"`` is used with values that are not positive.
    UnknownComponentError
        If one of the decompositions does not have the effect.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.main_effect : Figure of one main effect.
    treepurify.plots.comparison : Figure of a comparison.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0, 0, 0, 1, 1])
    >>> both = {w: tp.purify(model, X, weights=w) for w in ("empirical", "uniform")}
    >>> ax = tp.plots.overlay(both, "x0")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['empirical', 'uniform']
    """
    check_scale(scale)
    check_flag("centred", centred)
    check_named_results("decompositions", decompositions)
    if len(decompositions) > len(MANY):
        raise InvalidInputError(f"expected 1 to {len(MANY)} curves, got {len(decompositions)}")
    first = next(iter(decompositions.values()))
    name = first.term_name(find_tensor(first, key, 1).features)
    curves: list[_Curve] = []
    for called, d in decompositions.items():
        component = find_tensor(d, name, 1)
        position = output_position(d, output)
        values = component.values[:, position]
        band = band_of(d, component, position)
        mean = 0.0
        if centred:
            mass = curves[0].component.mass if curves else component.mass
            mean = float((mass if mass.shape == values.shape else component.mass) @ values)
            values, band = values - mean, band and band.shifted(-mean)
        curves.append(_Curve(called, component, values, is_continuous(d, name), band, mean))
    kinds = {_has_categories(component) for _, component, *_ in curves}
    if len(kinds) > 1 and not all(
        _has_levels(component) for _, component, *_ in curves if _has_categories(component)
    ):
        raise InvalidInputError(
            f"{name!r} is numeric in one decomposition and categorical in another, so the curves "
            "cannot be overlaid"
        )
    is_of_categories = kinds == {True}
    links = {(d.link.name, d.link.scale) for d in decompositions.values()}
    label = effect_label(first, output_position(first, output))
    size = main_effect_size(curves[0][1])
    ax = axes_or_new(ax, size[0] + 0.8, size[1])
    if is_of_categories:
        labels = order_of_labels(first, curves[0].component.features[0])
        distance = _draw_categories(ax, curves, label, labels)
    else:
        ranges = [
            shown_range(d, c.component.features[0], c.component.axes[0], c.component.mass)
            for d, c in zip(decompositions.values(), curves, strict=True)
        ]
        layouts = _layouts(curves, scale, _widest(curves, ranges))
        curves = [
            _on_few_cells(curve, d, output_position(d, output), layout)
            for curve, d, layout in zip(curves, decompositions.values(), layouts, strict=True)
        ]
        _draw_curves(ax, curves, layouts, label)
        distance = _largest_distance(curves, layouts)
    style_axes(ax)
    has_ratios = has_ratio_axis(ax, first.link) and len(links) == 1
    if has_ratios:
        add_ratio_axis(ax, first.link, which="x" if is_of_categories else "y")
    n_columns = 2 if max(map(len, decompositions)) <= _MOST_BESIDE else 1
    bands = dict.fromkeys(curve.band.words for curve in curves if curve.band is not None)
    heading = f"bands: {'; '.join(bands)}" if bands else None
    side: Literal["left", "right"] = "right" if is_of_categories else "left"
    above = RATIO_HEIGHT * (has_ratios and is_of_categories)
    legend_above(ax, n_columns, heading, side=side, distance=above)
    of_what = f"the {margin_label(first, output_position(first, output))}"
    whole = f"Effect of {name} on {of_what} in {len(curves)} decompositions"
    reach = f"up to {number_words(distance, 2)} apart" if distance > 0 else ""
    part = part_beside_names(ax, curves[0].component) if is_of_categories else 1.0
    set_fitting_title(ax, whole, name, reach, part=part)
    return ax


def _largest_distance(curves: list[_Curve], layouts: list[AxisLayout]) -> float:
    """Return how far apart the curves of a numeric feature are at most, where several are drawn."""
    drawn = [
        (curve, layout)
        for curve, layout in zip(curves, layouts, strict=True)
        if not _has_categories(curve.component)
    ]
    edges = np.unique(np.concatenate([layout.regular_edges for _, layout in drawn]))
    middles = (edges[1:] + edges[:-1]) / 2
    on_middles = np.full((len(drawn), len(middles)), np.nan)
    for values, (curve, layout) in zip(on_middles, drawn, strict=True):
        known = _that_count(curve)[: layout.n_regular]
        if curve.is_smooth:
            values[:] = np.interp(middles, middle_values(curve.component.axes[0]), known)
            continue
        own = layout.regular_edges
        inside = (middles > own[0]) & (middles < own[-1])
        values[inside] = known[np.searchsorted(own, middles[inside], side="right") - 1]
    return _distance(on_middles)


def _that_count(curve: _Curve) -> Array:
    """Return the effects of a curve, NaN in the cells that do not count."""
    counts = cells_that_count(curve.values, curve.component.mass, curve.component.axes)
    return np.where(counts, curve.values, np.nan)


def _distance(effects: Array) -> float:
    """Return the largest difference in a column of effects, of those that are known."""
    apart = np.fmax.reduce(effects) - np.fmin.reduce(effects)
    return float(np.max(apart, initial=0.0, where=np.isfinite(apart)))


def _has_categories(component: TensorComponent) -> bool:
    return component.axes[0].is_categorical


def _has_levels(component: TensorComponent) -> bool:
    """Return whether the categories are numbers, which have a place on a numeric axis."""
    return all(isinstance(label, int | float) for label in component.axes[0].categories)


def _widest(curves: list[_Curve], ranges: list[Range | None]) -> Range | None:
    """Return the range that holds those of all curves; None for all of the data."""
    if all(shown is None for shown in ranges):
        return None
    ends = [
        shown or curve.component.axes[0].bounds for curve, shown in zip(curves, ranges, strict=True)
    ]
    known = np.array([each for each in ends if each is not None])
    return float(known[:, 0].min()), float(known[:, 1].max())


def _layouts(curves: list[_Curve], scale: Scale, shown: Range | None) -> list[AxisLayout]:
    return [
        lay_out_axis(
            curve.component.axes[0],
            curve.component.mass,
            scale="auto" if curve.is_smooth and scale == "rank" else scale,
            is_smooth=curve.is_smooth,
            shown=shown,
        )
        for curve in curves
    ]


def _on_few_cells(
    curve: _Curve,
    d: Decomposition,
    output: int,
    layout: AxisLayout,
) -> _Curve:
    """Return a curve with a band on merged cells; any other as it is."""
    if curve.band is None or curve.is_smooth or _has_categories(curve.component):
        return curve
    merging = merged_for_band(curve.component, layout)
    band = band_of(d, curve.component, output, merging)
    return curve._replace(
        values=merging.in_each_cell(curve.values[:, None])[:, 0],
        band=band and band.shifted(-curve.mean),
    )


def _draw_curves(ax: "Axes", curves: list[_Curve], layouts: list[AxisLayout], label: str) -> None:
    numeric = [i for i, curve in enumerate(curves) if not _has_categories(curve[1])]
    widest = max(numeric, key=lambda i: (np.ptp(layouts[i].regular_edges), len(layouts[i].special)))
    ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    for i, ((called, component, values, is_smooth, band, _), layout) in enumerate(
        zip(curves, layouts, strict=True)
    ):
        pattern, words = DASHES[i % len(DASHES)], shorten(called, 34)
        dashes = (0, pattern) if pattern else "-"
        if _has_categories(component):
            _draw_levels(ax, component, layouts[widest], values, i, words)
            continue
        if is_smooth:
            middles = middle_values(component.axes[0])
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
        _draw_special(ax, component, layouts[widest], values, i, band)
        if band is not None:
            # The cells of missing values stand where the widest axis has them.
            alone = replace(layout, special=())
            points = middle_values(component.axes[0]) if is_smooth else None
            draw_band(ax, alone, band, middles=points, color=MANY[i], is_one_of_many=True)
    name_effect(ax, label)
    axis = curves[widest][1].axes[0]
    set_ticks(ax, "x", axis, layouts[widest])
    name_axis(ax, "x", axis.name, layouts[widest], 44)


def _draw_levels(
    ax: "Axes", component: TensorComponent, layout: AxisLayout, values: Array, i: int, words: str
) -> None:
    """Draw the effects of numbers that have levels of their own where they lie."""
    axis = component.axes[0]
    places = [float(str(label)) for label in axis.categories]
    special = [centre for centre, label in layout.special if label in axis.labels()]
    shown = [*values[: axis.n_regular], *values[axis.n_regular :][: len(special)]]
    ax.plot(
        [*places, *special],
        shown,
        linestyle="none",
        marker=MARKERS[i],
        markersize=5,
        color=MANY[i],
        label=words,
        zorder=3,
    )


def _draw_special(
    ax: "Axes",
    component: TensorComponent,
    layout: AxisLayout,
    values: Array,
    i: int,
    band: Band | None,
) -> None:
    """Draw the effects of special cells at the places that a layout has for them."""
    known = dict(zip(component.axes[0].labels(), values, strict=True))
    if band is not None:
        ends = dict(
            zip(component.axes[0].labels(), zip(band.lower, band.upper, strict=True), strict=True)
        )
        for centre, label in layout.special:
            ax.vlines([centre], *ends.get(label, (np.nan, np.nan)), color=MANY[i], linewidth=1.0)
    points = [(centre, known[label]) for centre, label in layout.special if label in known]
    if points:
        ax.plot(
            *zip(*points, strict=True),
            linestyle="none",
            marker=MARKERS[i],
            markersize=5,
            color=MANY[i],
            zorder=3,
        )


def _draw_categories(
    ax: "Axes",
    curves: list[_Curve],
    label: str,
    ordered_labels: Sequence[Hashable],
) -> float:
    """Draw one row per category, with a mark for each decomposition and a line between them.

    Returns the length of the longest line.
    """
    axis = curves[0].component.axes[0]
    cells = cells_from_top(
        curves[0].component,
        curves[0].values,
        int(lines_along(ax)),
        ordered_labels=ordered_labels,
    )
    names = [axis.labels()[cell] for cell in cells]
    places = np.arange(len(names), dtype=np.float64)
    effects = np.array([_of_names(curve, curve.values, names) for curve in curves])
    ax.axvline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    ends = np.fmin.reduce(effects), np.fmax.reduce(effects)
    ax.hlines(places, *ends, color=DATA, linewidth=2.0, zorder=1)
    has_bands = any(curve.band is not None for curve in curves)
    step = _ROW_OF_BANDS / max(len(curves) - 1, 1) if has_bands else 0.0
    for i, curve in enumerate(curves):
        shifted = places + (i - (len(curves) - 1) / 2) * step
        ax.plot(
            effects[i],
            shifted,
            linestyle="none",
            marker=MARKERS[i],
            # Where they agree, the first show around the others.
            markersize=_LARGEST_MARK - min(i, 3),
            color=MANY[i],
            label=shorten(curve.called, 34),
            zorder=3,
        )
        if curve.band is not None:
            lower, upper = (
                _of_names(curve, bound, names) for bound in (curve.band.lower, curve.band.upper)
            )
            ax.hlines(shifted, lower, upper, color=MANY[i], linewidth=1.0, zorder=2)
    for place in places:
        ax.axhline(place, color=FRAME, linewidth=0.4, zorder=0)
    ax.set_yticks(places, shorten_all(names, label_letters(ax)))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(places[-1] + 0.6, -0.6)
    name_below(ax, label, 44)
    words = axis.name + left_out(axis, cells) + _only_elsewhere(curves)
    ax.set_ylabel(fold(words, max(3 * len(names), 12), 3))
    number_ticks(ax.xaxis, 5)
    counted = [_of_names(curve, _that_count(curve), names) for curve in curves]
    return _distance(np.array(counted))


def _of_names(curve: _Curve, values: Array, names: list[str]) -> Array:
    """Return the values of categories by name, NaN for those that a decomposition does not have."""
    known = dict(zip(curve.component.axes[0].labels(), values, strict=True))
    return np.array([known.get(name, np.nan) for name in names])


def _only_elsewhere(curves: list[_Curve]) -> str:
    """Return how many categories the first decomposition does not have, in words."""
    axes = [curve.component.axes[0] for curve in curves]
    known, *others = ({*axis.labels()[: axis.n_regular]} for axis in axes)
    missing = set().union(*others) - known
    return f", {len(missing)} only in others" if missing else ""
