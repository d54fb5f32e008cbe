"""The figure of a pair: a heatmap over the true cells of two features."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.arguments import check_flag, check_number
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import (
    GAP,
    AxisLayout,
    Scale,
)
from treepurify.plots.axis_ticks import has_long_labels, name_axis, set_ticks
from treepurify.plots.bands import BAND_WORDS
from treepurify.plots.category_order import (
    left_out,
    main_effect_of,
    order_categories,
    order_of_labels,
)
from treepurify.plots.data_strip import MARGINAL_WIDTH, add_marginal_strips
from treepurify.plots.fitting import LINES_PER_LETTER, is_narrow, letters_along, lines_along
from treepurify.plots.labels import effect_label, fold, margin_label, tick_words
from treepurify.plots.limits import cells_that_count
from treepurify.plots.merged_cells import (
    MOST_CELLS_OF_PAIR,
    CellMerging,
    MergedAxis,
    lay_out_merged,
)
from treepurify.plots.pair_lines import main_effect_along
from treepurify.plots.style import (
    HATCH,
    INK,
    MUTED,
    ROUND_STEPS,
    SIGNS,
    SMALL_SIZE,
    axes_or_new,
    import_matplotlib,
    style_axes,
)
from treepurify.plots.terms import (
    check_scale,
    find_tensor,
    is_continuous,
    output_position,
    raw_effect,
)
from treepurify.plots.titles import ends_in_order, set_effect_title
from treepurify.rows.row_weights import row_quantiles
from treepurify.spread import LEVEL, one_more_training
from treepurify.terms import named_features
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "LEAST_OPACITY",
    "PAIR_SIZE",
    "LaidOutPair",
    "color_limit",
    "draw_pair",
    "lay_out_pair",
    "pair",
]

# Width and height in inches that suit the figure.
PAIR_SIZE = (4.6, 4.0)
_MOST_VECTOR_CELLS = 400
# For labels of categories that stand upright below the map.
_TURNED_LABEL_HEIGHT = 0.8
# Of the cell of smallest mass.
LEAST_OPACITY = 0.15
_SHORTEST_NOTE = 14
# In letters, about what the scale of the colours takes of the width; what the map gets at least.
_LEGEND_LETTERS, _LEAST_MAP = 10, 0.3
# Lines that title and names take of the height, beyond what is above and below all axes.
_LINES_OF_NAMES = 3.0
_LONGEST_NAME = 38
# Of the width of the axes: the scale of the colours moves the middle of the map to the left.
_PART_OF_TITLE = 0.85


def pair(
    d: Decomposition,
    key: str | tuple[str | int, str | int],
    *,
    output: int | str = 0,
    before: bool = False,
    limit: float | None = None,
    show_empty: bool = False,
    scale: Scale | tuple[Scale, Scale] = "auto",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the effect of two features as a heatmap.

    At most 30 intervals of each numeric feature are drawn; neighbouring ones are merged. Of
    categories, the 30 most frequent are drawn, in their natural order or, without one, by the main
    effect of the feature. The colour of a field shows the weighted mean of the effect, on the
    margin scale; fields with fewer data are paler. Fields without data have no colour and are
    hatched. The title and the colour scale leave out fields with hardly any data (see the notes of
    `main_effect`). If several trainings were purified, fields are dotted whose band (`Spread.band`)
    includes zero. Bars above and to the right show the distribution of the data. Missing values and
    unseen categories have separate rows and columns if they occur. `pair_lines` draws the same
    effect as lines.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : tuple of str or int
        The features, by name or position; the first one is drawn from left to right.
    output : int or str
        The output, by position or name.
    before : bool
        Whether to draw the effect as the model stores it, shifted to mean zero, instead of
        the purified effect. A model with trees deeper than two stores no effects of pairs: then
        the pair is drawn with both main effects, and the figure says so.
    limit : float, optional
        Absolute effect at the ends of the colour scale, which is centred at zero. By default the
        larger absolute end of the range in the title. Larger effects have the colour of the end.
    show_empty : bool
        Whether to also colour fields without data, below their hatching, and to draw missing and
        unseen values that do not occur. The title and the colour scale then count every field.
    scale : {"auto", "value", "rank", "log"} or tuple of two of them
        Scale of numeric features, as in `main_effect`; a tuple for different scales. ``"auto"``
        decides for each feature separately.
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
    >>> ax = tp.plots.pair(d, ("x0", "x1"))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'x1')
    """
    return draw_pair(
        d,
        key,
        output=output,
        before=before,
        limit=limit,
        show_empty=show_empty,
        scale=scale,
        ax=ax,
    )


def draw_pair(
    d: Decomposition,
    key: str | tuple[str | int, str | int],
    *,
    output: int | str = 0,
    before: bool = False,
    limit: float | None = None,
    show_empty: bool = False,
    scale: Scale | tuple[Scale, Scale] = "auto",
    by_name: bool = False,
    has_title: bool = True,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a pair; see `pair`, and `order_categories` for `by_name`."""
    check_flag("before", before)
    check_flag("show_empty", show_empty)
    if limit is not None:
        check_number("limit", limit, least=0, open_ends=True)
    position = output_position(d, output)
    laid_out = lay_out_pair(
        d, key, position, before=before, show_empty=show_empty, scale=scale, by_name=by_name
    )
    merged, layouts, words = laid_out.axes, laid_out.layouts, laid_out.words
    values, mass = laid_out.values, laid_out.mass
    counts = mass >= 0 if show_empty else cells_that_count(values, mass, [m.axis for m in merged])
    shown = np.ix_(*(layout.cells_with_place for layout in layouts))
    low, high = sorted(ends_in_order(values[shown], counts[shown]) or (0.0, 0.0))
    limit = (max(-low, high) or 1.0) if limit is None else limit
    width, height = PAIR_SIZE
    height += _TURNED_LABEL_HEIGHT * has_long_labels(merged[0].axis)
    ax = axes_or_new(ax, width, height)
    mesh = _draw_cells(ax, layouts, values, mass, counts, limit)
    style_axes(ax)
    if not before and d.spread is not None:
        unsure = _unsure_cells(d, laid_out, position)
        if unsure is not None:
            _dot_cells(ax, layouts, unsure)
            words = f"dotted: the {BAND_WORDS} ({d.spread.n_models} trainings) includes zero"
            words = "dotted: may be zero" if is_narrow(ax) else words
    _name_axes(ax, merged, layouts, _part_of_map(ax))
    add_marginal_strips(ax, layouts, (mass.sum(axis=1), mass.sum(axis=0)))
    label = effect_label(d, position) + (" before purification" if before else "")
    _add_colorbar(ax, mesh, label, _extend(values[(mass > 0) | show_empty], limit))
    if has_title:
        names = " & ".join(each.axis.name for each in merged)
        of_what = f"the {margin_label(d, position)}" + " before purification" * before
        set_effect_title(ax, names, of_what, (low, high), part=_PART_OF_TITLE, note=words)
    elif words:
        letters = max(int(letters_along(ax, "x")), _SHORTEST_NOTE)
        ax.set_title(fold(words, letters, 3), loc="left", color=MUTED, size=SMALL_SIZE)
    return ax


class LaidOutPair(NamedTuple):
    """A pair as its figure has it: the feature that is drawn from left to right comes first.

    Parameters
    ----------
    component : TensorComponent
        The effect.
    axes : tuple of MergedAxis
        How the cells along each feature are merged.
    layouts : tuple of AxisLayout
        Where the merged cells are drawn.
    values, mass : ndarray of float64, shape (n_across, n_up)
        The effect in the merged cells, and their mass.
    is_turned : bool
        Whether the component has the features the other way round.
    words : str
        What must be said of the effect, if anything.
    """

    component: TensorComponent
    axes: tuple[MergedAxis, MergedAxis]
    layouts: tuple[AxisLayout, AxisLayout]
    values: Array
    mass: Array
    is_turned: bool
    words: str

    def means(self, values: Array) -> Array:
        """Return means over the merged cells of values on those of the component, by output."""
        turned = values.swapaxes(0, 1) if self.is_turned else values
        mass = self.component.mass.T if self.is_turned else self.component.mass
        return CellMerging(self.axes, mass).means(turned)


def lay_out_pair(
    d: Decomposition,
    key: str | tuple[str | int, str | int],
    output: int,
    *,
    before: bool = False,
    show_empty: bool = False,
    scale: Scale | tuple[Scale, Scale] = "auto",
    by_name: bool = False,
) -> LaidOutPair:
    """Return what `pair` draws, and where; see there and `order_categories` for the arguments."""
    scales = scale if isinstance(scale, tuple) and len(scale) == 2 else (scale, scale)
    for one_scale in scales:
        check_scale(one_scale)
    component = find_tensor(d, key, 2)
    table, words = _values_to_draw(d, component, output, before=before)
    is_turned = named_features(key, d.feature_names)[0] != component.features[0]
    step = -1 if is_turned else 1
    mass = component.mass.T if is_turned else component.mass
    laid_out = []
    for which, (feature, axis) in enumerate(
        zip(component.features[::step], component.axes[::step], strict=True)
    ):
        held, order = mass.sum(axis=1 - which), None
        if axis.is_categorical:
            effects = main_effect_of(d, feature, axis, output)
            labels = order_of_labels(d, feature)
            order = order_categories(
                axis, effects, held, MOST_CELLS_OF_PAIR, ordered_labels=labels, by_name=by_name
            )
        laid_out.append(
            lay_out_merged(
                d,
                feature,
                axis,
                held,
                most=MOST_CELLS_OF_PAIR,
                scale=scales[which],
                order=order,
                is_smooth=is_continuous(d, key),
                with_empty=show_empty,
            )
        )
    (first, across), (second, up) = laid_out
    merging = CellMerging((first, second), mass)
    values = merging.means((table.T if is_turned else table)[..., None])[..., 0]
    return LaidOutPair(
        component, (first, second), (across, up), values, merging.merged_mass(), is_turned, words
    )


def _part_of_map(ax: "Axes") -> float:
    """Return the part of the width of the axes that what stands next to the map leaves for it."""
    letters = letters_along(ax, "x")
    left = letters - _LEGEND_LETTERS - MARGINAL_WIDTH * letters
    return max(left / letters, _LEAST_MAP)


def _part_above_labels(ax: "Axes") -> float:
    """Return the part of the height of the axes that title and labels below leave for the map."""
    turned = [each for each in ax.get_xticklabels() if each.get_rotation() > 0]
    longest = max((len(label.get_text()) for label in turned), default=0)
    lines = LINES_PER_LETTER * longest + _LINES_OF_NAMES
    return max(1.0 - lines / lines_along(ax), _LEAST_MAP)


def _name_axes(
    ax: "Axes",
    merged: tuple[MergedAxis, ...],
    layouts: tuple[AxisLayout, ...],
    part: float,
) -> None:
    """Set ticks and names of both axes, of whose width a part is left for the map."""
    x, y = (each.axis for each in merged)
    names = [
        axis.name + left_out(axis, layout.cells[: layout.n_regular]) * axis.is_categorical
        for axis, layout in zip((x, y), layouts, strict=True)
    ]
    set_ticks(ax, "x", x, layouts[0], part)
    set_ticks(ax, "y", y, layouts[1], _part_above_labels(ax))
    name_axis(ax, "x", names[0], layouts[0], max(int(part * _LONGEST_NAME), _SHORTEST_NOTE))
    name_axis(ax, "y", names[1], layouts[1], 34)


def _values_to_draw(
    d: Decomposition, component: TensorComponent, output: int, *, before: bool
) -> tuple[Array, str]:
    """Return the effect in each cell, and what must be said of it, if anything."""
    if not before:
        return component.values[..., output], ""
    raw = raw_effect(d, component)
    if raw is not None:
        return raw[..., output], ""
    values = component.values[..., output]
    for which, (feature, axis) in enumerate(zip(component.features, component.axes, strict=True)):
        is_smooth = is_continuous(d, component.features)
        main = main_effect_along(d, feature, axis, is_smooth=is_smooth)[:, output]
        values = values + (main[:, None] if which == 0 else main)
    return values, "main effects included: this model has no separate effects of pairs"


def _unsure_cells(d: Decomposition, laid_out: LaidOutPair, output: int) -> Mask | None:
    """Return the drawn cells in whose band over several trainings zero lies; None without any."""
    features = laid_out.component.features
    if d.spread is None or features not in d.spread.stacked:
        return None
    by_cell = np.moveaxis(d.spread.values(features)[..., output], 0, -1)
    each = np.moveaxis(laid_out.means(by_cell), -1, 0)
    lower, upper = one_more_training(each, LEVEL)
    return np.asarray((lower <= 0) & (upper >= 0) & (laid_out.mass > 0))


def color_limit(values: Array, mass: Array, axes: Sequence[FeatureAxis]) -> float:
    """Return the largest absolute effect in the cells that count; 1 where all are zero."""
    effects = values[cells_that_count(values, mass, axes)]
    return float(np.abs(effects).max(initial=0.0)) or 1.0


def _draw_cells(
    ax: "Axes",
    layouts: tuple[AxisLayout, ...],
    values: Array,
    mass: Array,
    counts: Mask,
    limit: float,
) -> Any:
    across, up = layouts
    is_gap = (across.cells == GAP)[:, None] | (up.cells == GAP)
    drawn = np.ix_(across.cells, up.cells)
    is_empty = mass[drawn] <= 0
    shown = np.ma.masked_where(is_gap | (is_empty & ~counts[drawn]), values[drawn])
    if np.any(is_empty & ~is_gap):
        color = MUTED if counts.all() else HATCH
        _hatch_cells(ax, layouts, is_empty & ~is_gap, "////", color)
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
    opacity = np.where(is_empty, 1.0, _opacity(mass[drawn], is_empty | is_gap))
    mesh.set_alpha(opacity.T)  # type: ignore[arg-type]
    return mesh


def _opacity(mass: Array, is_left_out: Mask) -> Array:
    """Return how opaque cells are: fully where at least half of the mass is in no lighter cell."""
    part = np.sqrt(np.clip(mass / usual_mass(mass[~is_left_out]), 0.0, 1.0))
    return np.asarray(LEAST_OPACITY + (1.0 - LEAST_OPACITY) * part)


def usual_mass(mass: Array) -> float:
    """Return the mass of a cell such that half of all mass is in no lighter one; 1 without any."""
    held = mass[mass > 0]
    return float(row_quantiles(held, held, np.array([0.5]))[0]) if held.size else 1.0


def _dot_cells(ax: "Axes", layouts: tuple[AxisLayout, ...], unsure: Mask) -> None:
    """Draw a dot in each chosen cell."""
    across, up = layouts
    is_gap = (across.cells == GAP)[:, None] | (up.cells == GAP)
    drawn = unsure[np.ix_(across.cells, up.cells)] & ~is_gap
    if drawn.any():
        _hatch_cells(ax, layouts, drawn, "....", MUTED)


def _hatch_cells(
    ax: "Axes", layouts: tuple[AxisLayout, ...], chosen: Mask, hatch: str, color: str
) -> None:
    """Hatch cells as one patch, with a rectangle for each run of them along the second axis."""
    across, up = layouts
    ends = np.diff(np.pad(chosen, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    column, bottom = np.nonzero(ends == 1)
    top = np.nonzero(ends == -1)[1]
    left, right = across.edges[column], across.edges[column + 1]
    low, high = up.edges[bottom], up.edges[top]
    corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
    path = import_matplotlib("path").Path
    codes = [path.MOVETO, path.LINETO, path.LINETO, path.LINETO, path.CLOSEPOLY]
    patch = import_matplotlib("patches").PathPatch(
        path(np.array(corners).transpose(2, 0, 1).reshape(-1, 2), codes * len(column)),
        facecolor="none",
        edgecolor=color,
        hatch=hatch,
        linewidth=0,
        zorder=2,
    )
    patch.set_rasterized(len(column) > _MOST_VECTOR_CELLS)
    # The heatmap below has the limits; to find them in a path of many corners takes seconds.
    patch.set_in_layout(False)
    ax.add_artist(patch)


def _extend(values: Array, limit: float) -> str:
    above, below = bool(np.any(values > limit)), bool(np.any(values < -limit))
    return {(True, True): "both", (True, False): "max", (False, True): "min"}.get(
        (above, below), "neither"
    )


def _add_colorbar(ax: "Axes", mesh: Any, label: str, extend: str) -> None:
    place = ax.inset_axes((1.03 + MARGINAL_WIDTH, 0.0, 0.035, 1.0))
    bar = ax.get_figure().colorbar(mesh, cax=place, extend=extend)  # type: ignore[union-attr]
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    bar.locator = import_matplotlib("ticker").MaxNLocator(
        5, symmetric=True, steps=[*ROUND_STEPS, 10]
    )
    bar.formatter = import_matplotlib("ticker").FuncFormatter(tick_words)
    letters = max(int(letters_along(ax, "y")), _SHORTEST_NOTE)
    bar.set_label(fold(label, min(letters, 34)), color=INK, size=SMALL_SIZE)
    bar.ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=0)
