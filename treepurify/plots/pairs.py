"""The figure of a pair: a heatmap over the true cells of two features."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.arguments import check_flag
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import GAP, AxisLayout, Scale, lay_out_axis
from treepurify.plots.category_order import left_out, order_categories
from treepurify.plots.curves import BAND_WORDS
from treepurify.plots.feature_axes import (
    MARGINAL_WIDTH,
    add_marginal_strips,
    has_long_labels,
    set_axis,
)
from treepurify.plots.labels import effect_label, ends_in_order, fold
from treepurify.plots.limits import cells_that_count, shown_range
from treepurify.plots.merged_cells import MergedAxis, merge_axis, merged_means, merged_sums
from treepurify.plots.style import (
    HATCH,
    INK,
    MUTED,
    SIGNS,
    SIZE,
    SMALL_SIZE,
    axes_or_new,
    import_matplotlib,
    number_ticks,
    set_title,
    style_axes,
)
from treepurify.plots.terms import (
    PairKey,
    check_scale,
    find_tensor,
    is_continuous,
    main_effect_along,
    main_effect_of,
    one_key,
    output_position,
    raw_effect,
)
from treepurify.rows.row_weights import row_quantiles
from treepurify.spread import LEVEL, one_more_training
from treepurify.terms import named_features
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Along each feature: of more cells a person sees none.
MOST_CELLS_OF_PAIR = 30
_MOST_VECTOR_CELLS = 400
# For labels of categories that stand upright below the map.
_TURNED_LABEL_HEIGHT = 0.8
# Cells of less than this part of the usual mass are small, the lightest of this part of the side.
_SPARSE, _LEAST_SIDE = 0.5, 0.5


def pair(
    d: Decomposition,
    key: PairKey,
    second: str | int | None = None,
    *,
    output: int | str = 0,
    before: bool = False,
    show_empty: bool = False,
    scale: Scale | tuple[Scale, Scale] = "auto",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the effect of two features as a heatmap.

    At most 30 intervals of each numeric feature are drawn; neighbouring ones are merged. Of
    categories, the 30 most frequent are drawn, in their natural order or, without one, by the main
    effect of the feature. The colour of a field shows the weighted mean of the effect, on the
    margin scale; fields with fewer data are smaller. Fields without data have no colour and are
    hatched. The title and the colour scale leave out fields with hardly any data (see the notes of
    `main_effect`). If several trainings were purified, fields are dotted whose band (`Spread.band`)
    includes zero. Bars above and to the right show the distribution of the data. Missing values and
    unseen categories have separate rows and columns if they occur. `pair_lines` draws the same
    effect as lines.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key, second : str, int or tuple of them
        The features, by name or position, ``"a", "b"`` or ``("a", "b")``; the first one is drawn
        from left to right.
    output : int or str
        The output, by position or name.
    before : bool
        Whether to draw the effect as the model stores it, shifted to mean zero, instead of
        the purified effect. A model with trees deeper than two stores no effects of pairs: then
        the pair is drawn with both main effects, and the figure says so.
    show_empty : bool
        Whether to also colour fields without data, below their hatching. The title and the colour
        scale then count every field.
    scale : {"auto", "value", "rank", "log"} or tuple of two of them
        Scale of numeric features, as in `main_effect`; a tuple for different scales. ``"auto"``
        decides for each feature separately.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default. The scale of colours is centred at zero; change it
        with ``ax.collections[0].set_clim``.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    UnknownComponentError
        If there is no such effect.
    InvalidInputError
        If `scale` is unknown, or ``scale="rank"`` is used with a curve or ``scale="log"`` with
        values that are not positive.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.pair_lines : An interaction as curves.
    treepurify.plots.network : The leading interactions as a graph.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.pair(d, "x0", "x1")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'x1')
    """
    check_flag("before", before)
    check_flag("show_empty", show_empty)
    position = output_position(d, output)
    laid_out = lay_out_pair(d, one_key(key, second), position, before=before, scale=scale)
    return draw_pair(laid_out, ax, show_empty=show_empty)


class LaidOutPair(NamedTuple):
    """A pair as its figure has it: the feature that is drawn from left to right comes first.

    Parameters
    ----------
    d, component, output
        The decomposition, the effect and the position of the output.
    axes : tuple of MergedAxis
        How the cells along each feature are merged.
    layouts : tuple of AxisLayout
        Where the merged cells are drawn.
    values, mass : ndarray of float64, shape (n_across, n_up)
        The effect in the merged cells, and their mass.
    label : str
        What the numbers are.
    unsure : ndarray of bool, shape (n_across, n_up), optional
        Where zero lies in the band over several trainings.
    """

    d: Decomposition
    component: TensorComponent
    output: int
    axes: tuple[MergedAxis, MergedAxis]
    layouts: tuple[AxisLayout, AxisLayout]
    values: Array
    mass: Array
    label: str
    unsure: Mask | None

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [merged.axis.name for merged in self.axes]

    @property
    def limit(self) -> float:
        """The largest absolute effect in the cells that count; 1 where all are zero."""
        counts = cells_that_count(self.values, self.mass, [each.axis for each in self.axes])
        return float(np.abs(self.values[counts]).max(initial=0.0)) or 1.0


def pair_size(component: TensorComponent) -> tuple[float, float]:
    """Return the width and height in inches that suit the figure of a pair."""
    is_turned = any(has_long_labels(axis) for axis in component.axes)
    return SIZE[0], SIZE[1] + _TURNED_LABEL_HEIGHT * is_turned


def lay_out_pair(
    d: Decomposition,
    key: PairKey,
    output: int,
    *,
    before: bool = False,
    scale: Scale | tuple[Scale, Scale] = "auto",
    most: int = MOST_CELLS_OF_PAIR,
    like: Decomposition | None = None,
) -> LaidOutPair:
    """Return what `pair` draws, and where; `most` is the number of categories.

    Without an order of their own they are ordered by their main effects in the decomposition that
    this one is drawn `like`.
    """
    scales = scale if isinstance(scale, tuple) and len(scale) == 2 else (scale, scale)
    for one_scale in scales:
        check_scale(one_scale)
    component = find_tensor(d, key, 2)
    table, label = _values_to_draw(d, component, output, before=before)
    features, axes, mass = component.features, component.axes, component.mass
    is_turned = named_features(key, d.feature_names)[0] != features[0]
    if is_turned:
        features, axes, mass, table = features[::-1], axes[::-1], mass.T, table.T
    is_smooth = is_continuous(d, key)
    merged, layouts = [], []
    for which, (feature, axis) in enumerate(zip(features, axes, strict=True)):
        held, order = mass.sum(axis=1 - which), None
        if axis.is_categorical:
            effects = main_effect_of(like or d, feature, axis, output)
            ordered = d.inputs.features[feature].ordered_labels
            order = order_categories(axis, effects, held, most, ordered)
        shown = shown_range(d, feature, axis, held)
        options: dict[str, Any] = {"order": order, "is_smooth": is_smooth, "shown": shown}
        layout = lay_out_axis(axis, held, scale=scales[which], **options)
        merged.append(merge_axis(axis, held, layout, MOST_CELLS_OF_PAIR))
        if merged[-1].axis is not axis:
            held = np.add.reduceat(held, merged[-1].first)
            layout = lay_out_axis(merged[-1].axis, held, scale=layout.spacing, **options)
        layouts.append(layout)
    held = merged_sums(mass, merged)
    unsure = None
    if not before and d.spread is not None and component.features in d.spread.stacked:
        each = np.moveaxis(d.spread.values(component.features)[..., output], 0, -1)
        means = merged_means(each.swapaxes(0, 1) if is_turned else each, mass, merged)
        lower, upper = one_more_training(np.moveaxis(means, -1, 0), LEVEL)
        unsure = np.asarray((lower <= 0) & (upper >= 0) & (held > 0))
    return LaidOutPair(
        d,
        component,
        output,
        (merged[0], merged[1]),
        (layouts[0], layouts[1]),
        merged_means(table, mass, merged),
        held,
        label,
        unsure,
    )


def draw_pair(
    laid_out: LaidOutPair, ax: "Axes | None" = None, *, show_empty: bool = False
) -> "Axes":
    """Draw a pair that is laid out."""
    values, mass, layouts = laid_out.values, laid_out.mass, laid_out.layouts
    axes = [each.axis for each in laid_out.axes]
    counts = mass >= 0 if show_empty else cells_that_count(values, mass, axes)
    shown = np.ix_(*(layout.cells_with_place for layout in layouts))
    low, high = sorted(ends_in_order(values[shown], counts[shown]) or (0.0, 0.0))
    limit = max(-low, high) or 1.0
    ax = axes_or_new(ax, *pair_size(laid_out.component))
    mesh = _draw_cells(ax, laid_out, limit, show_empty=show_empty)
    style_axes(ax)
    notes = ["", ""]
    if laid_out.unsure is not None and laid_out.d.spread is not None:
        is_gap = (layouts[0].cells == GAP)[:, None] | (layouts[1].cells == GAP)
        dotted = laid_out.unsure[np.ix_(*(layout.cells for layout in layouts))] & ~is_gap
        _draw_patch(ax, layouts, dotted, hatch="....", edgecolor=MUTED)
        n_models = laid_out.d.spread.n_models
        notes[0] = f"dotted: {BAND_WORDS} ({n_models} trainings) includes zero"
    for which, layout, axis, note in zip("xy", layouts, axes, notes, strict=True):
        set_axis(ax, which, layout, axis.name + _left_out(axis, layout), note)  # type: ignore[arg-type]
    add_marginal_strips(ax, layouts, (mass.sum(axis=1), mass.sum(axis=0)))
    above, below = np.any(values[counts] > limit), np.any(values[counts] < -limit)
    extend = "both" if above and below else "max" if above else "min" if below else "neither"
    _add_colorbar(ax, mesh, laid_out.label, extend)
    set_title(ax, " & ".join(laid_out.names), (low, high))
    return ax


def _left_out(axis: FeatureAxis, layout: AxisLayout) -> str:
    return left_out(axis, layout.n_regular) if axis.is_categorical else ""


def _values_to_draw(
    d: Decomposition, component: TensorComponent, output: int, *, before: bool
) -> tuple[Array, str]:
    """Return the effect in each cell, and what its numbers are."""
    values, label = component.values[..., output], effect_label(d, output)
    if not before:
        return values, label
    label += " before purification"
    raw = raw_effect(d, component)
    if raw is not None:
        return raw[..., output], label
    is_smooth = is_continuous(d, component.features)
    for which, (feature, axis) in enumerate(zip(component.features, component.axes, strict=True)):
        main = main_effect_along(d, feature, axis, is_smooth=is_smooth)[:, output]
        values = values + np.expand_dims(main, 1 - which)
    # The model has no separate effects of pairs.
    return values, f"{label}, main effects included"


def _draw_cells(ax: "Axes", laid_out: LaidOutPair, limit: float, *, show_empty: bool) -> Any:
    """Draw the cells, small ones where there are few data, hatched where there are none."""
    across, up = laid_out.layouts
    is_gap = (across.cells == GAP)[:, None] | (up.cells == GAP)
    drawn = np.ix_(across.cells, up.cells)
    mass = laid_out.mass[drawn]
    is_empty = (mass <= 0) & ~is_gap
    hidden = is_gap | (is_empty & (not show_empty))
    shown = np.ma.masked_where(hidden, laid_out.values[drawn])
    color = MUTED if show_empty else HATCH
    _draw_patch(ax, laid_out.layouts, is_empty, hatch="////", edgecolor=color)
    mesh = ax.pcolormesh(
        across.edges,
        up.edges,
        shown.T,
        cmap=SIGNS,
        vmin=-limit,
        vmax=limit,
        shading="flat",
        rasterized=shown.size > _MOST_VECTOR_CELLS,
        zorder=1,
    )
    held = np.where(is_gap, 0.0, mass)
    if held.any():
        # Half of all mass is in no lighter cell.
        usual = float(row_quantiles(held[held > 0], held[held > 0], np.array([0.5]))[0])
        side = np.maximum(np.sqrt(np.clip(held / (_SPARSE * usual), 0.0, 1.0)), _LEAST_SIDE)
        _draw_patch(ax, laid_out.layouts, (held > 0) & (side < 1.0), side, facecolor="white")
    return mesh


def _draw_patch(
    ax: "Axes",
    layouts: tuple[AxisLayout, AxisLayout],
    chosen: Mask,
    side: Array | None = None,
    **look: Any,
) -> None:
    """Draw one patch over the chosen cells, each with a hole as wide as the part `side` of it."""
    if not chosen.any():
        return
    across, up = layouts
    column, row = np.nonzero(chosen)
    left, right = across.edges[column], across.edges[column + 1]
    low, high = up.edges[row], up.edges[row + 1]
    rings = [_corners(left, right, low, high)]
    if side is not None:
        # The inner ring runs the other way round, and so is a hole.
        dx, dy = ((1.0 - side[chosen]) / 2 * size for size in (right - left, high - low))
        rings.append(_corners(left + dx, right - dx, low + dy, high - dy)[:, ::-1])
    path = import_matplotlib("path").Path
    codes = [path.MOVETO, path.LINETO, path.LINETO, path.LINETO, path.CLOSEPOLY]
    corners = np.concatenate(rings)
    patch = import_matplotlib("patches").PathPatch(
        path(corners.reshape(-1, 2), codes * len(corners)),
        **{"facecolor": "none", "linewidth": 0, "zorder": 2, **look},
    )
    patch.set_rasterized(chosen.size > _MOST_VECTOR_CELLS)
    # The heatmap has the limits; to find them in a path of many corners takes seconds.
    patch.set_in_layout(False)
    ax.add_artist(patch)


def _corners(left: Array, right: Array, low: Array, high: Array) -> Array:
    """Return the corners of rectangles and the first again, shape (n, 5, 2)."""
    across = np.stack([left, right, right, left, left], axis=1)
    return np.stack([across, np.stack([low, low, high, high, low], axis=1)], axis=2)


def _add_colorbar(ax: "Axes", mesh: Any, label: str, extend: str) -> None:
    place = ax.inset_axes((1.03 + MARGINAL_WIDTH, 0.0, 0.035, 1.0))
    bar = ax.get_figure().colorbar(mesh, cax=place, extend=extend)  # type: ignore[union-attr]
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    number_ticks(bar.ax.yaxis)
    bar.set_label(fold(label, 28, 3), color=INK, size=SMALL_SIZE)
    bar.ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=0)
