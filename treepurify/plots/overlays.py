"""The figure of one main effect in several decompositions: measures, engines or models."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treepurify.arguments import check_flag
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import middle_values
from treepurify.plots.axis_layout import AxisLayout, Range, Scale, lay_out_axis
from treepurify.plots.curves import (
    Band,
    Series,
    band_of,
    draw_curve,
    draw_grouped_bars,
    merge_under_band,
)
from treepurify.plots.feature_axes import set_axis
from treepurify.plots.labels import effect_label, number_words, shorten
from treepurify.plots.limits import cells_that_count, shown_range
from treepurify.plots.main_effects import MOST_CATEGORIES, means_of_rows, rows_of
from treepurify.plots.merged_cells import in_each_cell
from treepurify.plots.ratio_axis import RATIO_HEIGHT, add_ratio_axis, has_ratio_axis
from treepurify.plots.style import (
    DASHES,
    FRAME,
    MANY,
    SIZE,
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
    check_named_results,
    check_scale,
    find_tensor,
    is_continuous,
    output_position,
)
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More bars cannot be told apart.
_MOST_BARS = 60
_LONGEST_NAME, _LONGEST_TITLE = 34, 24


class _Curve(NamedTuple):
    """An effect in one decomposition: its name, table and shift, and its values and band."""

    called: str
    d: Decomposition
    component: TensorComponent
    output: int
    mean: float
    values: Array
    band: Band | None

    @property
    def that_count(self) -> Array:
        """The effects, NaN in the cells that do not count."""
        component = self.component
        counts = cells_that_count(self.values, component.mass, component.axes)
        return np.where(counts, self.values, np.nan)

    @property
    def is_smooth(self) -> bool:
        """Whether it is a curve through points, which has no steps."""
        return is_continuous(self.d, self.component.features)


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
    with a bar for each decomposition, in the order of the first; the most frequent 20 there are
    drawn, fewer of more than three decompositions, and the means of the others. Effects are on the
    margin scale. If all decompositions have the same logit or log link, a second axis shows the
    odds ratio or the factor.

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
        component, position = find_tensor(d, name, 1), output_position(d, output)
        values, mean = component.values[:, position], 0.0
        if centred:
            mass = curves[0].component.mass if curves else component.mass
            mean = float((mass if mass.shape == values.shape else component.mass) @ values)
        band = band_of(d, component, position)
        values, band = values - mean, band and band.shifted(-mean)
        curves.append(_Curve(called, d, component, position, mean, values, band))
    links = {(d.link.name, d.link.scale) for d in decompositions.values()}
    is_of_categories = all(curve.component.axes[0].is_categorical for curve in curves)
    label = effect_label(first, curves[0].output)
    ax = axes_or_new(ax, *overlay_size(curves[0].component, len(curves)))
    if is_of_categories:
        distance = _draw_categories(ax, curves)
        name_below(ax, label)
        number_ticks(ax.xaxis)
    else:
        distance = _draw_curves(ax, curves, scale)
        name_effect(ax, label)
    style_axes(ax)
    has_ratios = has_ratio_axis(ax, first.link) and len(links) == 1
    if has_ratios:
        add_ratio_axis(ax, first.link, which="x" if is_of_categories else "y")
    bands = dict.fromkeys(curve.band.words for curve in curves if curve.band is not None)
    heading = f"bands: {'; '.join(bands)}" if bands else None
    legend_above(ax, 3, heading, distance=RATIO_HEIGHT * (has_ratios and is_of_categories))
    reach = f": up to {number_words(distance, 2)} apart" if distance > 0 else ""
    set_title(ax, f"{shorten(name, _LONGEST_TITLE)}{reach}")
    return ax


def overlay_size(component: TensorComponent, n: int) -> tuple[float, float]:
    """Return the width and height in inches that suit the figure of `n` decompositions."""
    axis = component.axes[0]
    if not axis.is_categorical:
        return SIZE
    n_rows = min(axis.n_regular, MOST_CATEGORIES, _MOST_BARS // n) + 2
    return SIZE[0], row_height(int(n_rows * (0.5 + 0.3 * n)))


def _distance(effects: Array) -> float:
    """Return the largest difference in a column of effects, of those that are known."""
    apart = np.fmax.reduce(effects) - np.fmin.reduce(effects)
    return float(np.max(apart, initial=0.0, where=np.isfinite(apart)))


def _draw_curves(ax: "Axes", curves: list[_Curve], scale: Scale) -> float:
    """Draw effects along a numeric axis, that of the widest, and return how far they are apart.

    Of categories that are numbers, which have a place on that axis, the effects are marks.
    """
    numeric = [curve for curve in curves if not curve.component.axes[0].is_categorical]
    shown = _widest(numeric)
    layouts = [
        lay_out_axis(
            curve.component.axes[0],
            curve.component.mass,
            scale="auto" if curve.is_smooth and scale == "rank" else scale,
            is_smooth=curve.is_smooth,
            shown=shown,
        )
        for curve in numeric
    ]
    widest = max(layouts, key=lambda own: (np.ptp(own.numeric.edges), len(own.special)))
    ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    drawn = []
    own_layouts = iter(layouts)
    for i, curve in enumerate(curves):
        axis = curve.component.axes[0]
        pattern = DASHES[i % len(DASHES)]
        look = {"color": MANY[i], "label": shorten(curve.called, _LONGEST_NAME), "linewidth": 1.8}
        look["linestyle"] = (0, pattern) if pattern else "-"
        if axis.is_categorical:
            _draw_levels(ax, widest, curve, i)
            continue
        layout = _along(axis, next(own_layouts), widest)
        values, band, middles = curve.values, curve.band, None
        if curve.is_smooth:
            middles = middle_values(axis)[: axis.n_regular]
        elif band is not None:
            merged = merge_under_band(curve.component, layout)
            values = in_each_cell(values, curve.component.mass, merged)
            band = band_of(curve.d, curve.component, curve.output, merged)
            band = band and band.shifted(-curve.mean)
        band = band and band._replace(words="_band")
        draw_curve(ax, layout, values, middles=middles, band=band, look=look)
        drawn.append((curve._replace(values=values), layout, middles))
    set_axis(ax, "x", widest, curves[0].component.axes[0].name)
    edges = np.unique(np.concatenate([layout.regular_edges for _, layout, _ in drawn]))
    places = (edges[1:] + edges[:-1]) / 2
    return _distance(np.array([_on_places(*each, places) for each in drawn]))


def _along(axis: FeatureAxis, own: AxisLayout, widest: AxisLayout) -> AxisLayout:
    """Return the layout of an axis on that of the widest, special cells where that has them."""
    special = tuple(each for each in widest.special if each[1] in axis.special_labels())
    cells = [axis.labels().index(label) for _, label in special]
    return replace(
        own,
        edges=widest.at(own.numeric.edges),
        cells=np.append(own.cells[: own.n_regular], cells).astype(np.intp),
        special=special,
    )


def _on_places(curve: _Curve, layout: AxisLayout, middles: Array | None, places: Array) -> Array:
    """Return the effects that count at places of the axis; NaN beyond the curve."""
    known = curve.that_count[: layout.n_regular]
    if middles is not None:
        return np.asarray(np.interp(places, middles, known))
    edges = layout.regular_edges
    cells = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, len(known) - 1)
    return np.where((places >= edges[0]) & (places <= edges[-1]), known[cells], np.nan)


def _widest(curves: list[_Curve]) -> Range | None:
    """Return the range that holds those of all curves; None for all of the data."""
    ends = []
    for d, component in ((curve.d, curve.component) for curve in curves):
        (feature,), (axis,) = component.features, component.axes
        ends.append(shown_range(d, feature, axis, component.mass) or axis.bounds)
    bounds = [curve.component.axes[0].bounds for curve in curves]
    if ends == bounds or None in ends:
        return None
    known = np.array(ends)
    return float(known[:, 0].min()), float(known[:, 1].max())


def _draw_levels(ax: "Axes", layout: AxisLayout, curve: _Curve, i: int) -> None:
    """Draw the effects of numbers that have levels of their own where they lie."""
    axis = curve.component.axes[0]
    if not all(isinstance(label, int | float) for label in axis.categories):
        raise InvalidInputError(
            f"{axis.name!r} is numeric in one decomposition and categorical in another, so the "
            "curves cannot be overlaid"
        )
    places = layout.at(np.array([float(str(label)) for label in axis.categories])).tolist()
    special = [(centre, label) for centre, label in layout.special if label in axis.labels()]
    values = [*curve.values[: axis.n_regular]]
    values += [curve.values[axis.labels().index(label)] for _, label in special]
    name = shorten(curve.called, _LONGEST_NAME)
    ax.plot([*places, *(c for c, _ in special)], values, "o", color=MANY[i], label=name, zorder=3)


def _draw_categories(ax: "Axes", curves: list[_Curve]) -> float:
    """Draw a row of bars for each category, and return how far they are apart at most."""
    first, most = curves[0], min(MOST_CATEGORIES, _MOST_BARS // len(curves))
    _, rows, names = rows_of(first.d, first.component, first.values, most)
    labels = first.component.axes[0].labels()
    series, known = [], []
    for curve in curves:
        own = curve.component.axes[0].labels()
        cells = [[own.index(labels[c]) for c in row if labels[c] in own] for row in rows]
        counted = np.append(curve.that_count, np.nan)
        alone = [each[0] if len(each) == len(row) == 1 else -1
                 for each, row in zip(cells, rows, strict=True)]  # fmt: skip
        values = np.append(curve.values, np.nan)
        means = np.full(len(rows), np.nan)
        is_known = np.array([len(each) > 0 for each in cells])
        chosen = [np.array(each) for each in cells if each]
        means[is_known] = means_of_rows(values, curve.component.mass, chosen)
        bounds = None
        if curve.band is not None:
            ends = (np.append(end, np.nan)[alone] for end in (curve.band.lower, curve.band.upper))
            bounds = next(ends), next(ends)
        known.append(counted[alone])
        name = shorten(curve.called, _LONGEST_NAME)
        series.append(Series(name, means, bounds, np.isfinite(known[-1])))
    draw_grouped_bars(ax, names, series)
    return _distance(np.array(known))
