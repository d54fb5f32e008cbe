"""The figure of a pair: a heatmap over the true cells of two features."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_flag, check_number
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.plots.axis_layout import (
    GAP,
    AxisLayout,
    CategoryOrder,
    Scale,
    lay_out_axis,
    main_effect_of,
    order_categories,
)
from treepurify.plots.axis_ticks import has_long_labels, name_axis, set_ticks
from treepurify.plots.bands import band_of, check_level
from treepurify.plots.labels import effect_label, fold, tick_words
from treepurify.plots.style import (
    EMPTY,
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
    check_axis_options,
    find_tensor,
    is_continuous,
    output_position,
    raw_effect,
)
from treepurify.rows.row_weights import row_quantiles
from treepurify.spread import LEVEL
from treepurify.terms import named_features
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PAIR_SIZE", "color_limit", "pair"]

# Width and height in inches that suit the figure.
PAIR_SIZE = (4.6, 3.7)
_MOST_VECTOR_CELLS = 400
# For labels of categories that stand upright below the map.
_TURNED_LABEL_HEIGHT = 0.8
# A few cells far out would leave the rest of the map white.
_SHOWN_MASS = 0.995


def pair(
    d: Decomposition,
    key: str | tuple[str | int, str | int],
    *,
    output: int | str = 0,
    before: bool = False,
    limit: float | None = None,
    show_empty: bool = False,
    sort: CategoryOrder = "effect",
    scale: Scale | tuple[Scale, Scale] = "auto",
    level: float | None = LEVEL,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the effect of two features as a heatmap.

    Cells have their true edges in the units of the features, or the slots of the whole numbers
    that they hold; missing values and unseen categories have strips of their own where they
    have mass. Cells without mass are hatched: what the model says there rests on no data.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key : tuple of str or int
        The features, by name or position; the first one is drawn from left to right.
    output : int or str
        The output, by position or name.
    before : bool
        Whether to draw the effect as the model carries it, shifted to mean zero, in place of
        the purified one.
    limit : float, optional
        Effect at the ends of the colour scale, which is centred at zero. By default the
        largest among 99.5 % of the mass, or of all cells with `show_empty`; larger ones have
        the colour of the end.
    show_empty : bool
        Whether to colour cells without mass, too, below their hatching, with those for missing
        and unseen values that no row has.
    sort : {"effect", "mass", "name"}
        Order of categories, from left to right and from top to bottom: by their main effect, as
        `main_effect` has them, by mass, or by name. Categories that are numbers keep their
        order under ``"effect"``, and so do those of a feature without a main effect.
    scale : {"auto", "value", "rank", "log"} or tuple of two of them
        Along numeric features, as in `main_effect`; of two, one for each of them. ``"auto"``
        decides for each by itself.
    level : float, optional
        Where several trainings were purified: cells are dotted whose band of this rate
        (`Spread.band`) holds zero. None for no dots.
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
        If the effect before purification is requested, but not known; or `sort` or `scale` is
        unknown, ``scale="rank"`` is asked of a curve or ``scale="log"`` of values that are not
        positive, or `level` does not lie between 0 and 1.
    MissingDependencyError
        If matplotlib is not installed.

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
    scales = scale if isinstance(scale, tuple) and len(scale) == 2 else (scale, scale)
    for each in scales:
        check_axis_options(sort, each)
    check_flag("before", before)
    check_flag("show_empty", show_empty)
    check_level(level)
    if limit is not None:
        check_number("limit", limit, least=0, open_ends=True)
    component = find_tensor(d, key, 2)
    position = output_position(d, output)
    table = raw_effect(d, component) if before else component.values
    if table is None:
        raise InvalidInputError("this decomposition does not hold the effects before purification")
    values, mass, axes = table[..., position], component.mass, component.axes
    features = component.features
    band = None if before else band_of(d, component, position, level)
    unsure = np.zeros(mass.shape, dtype=bool)
    if band is not None:
        unsure = (band.lower <= 0) & (band.upper >= 0) & (mass > 0)
    if named_features(key, d.feature_names)[0] != features[0]:
        values, mass, axes, features = values.T, mass.T, axes[::-1], features[::-1]
        unsure = unsure.T
    is_smooth = is_continuous(d, key)

    def lay_out(which: int) -> AxisLayout:
        axis, held = axes[which], mass.sum(axis=1 - which)
        order = None
        if axis.is_categorical:
            effects = main_effect_of(d, features[which], axis, position)
            order = order_categories(axis, effects, held, sort)
        return lay_out_axis(
            axis, held, scale=scales[which], order=order, is_smooth=is_smooth, with_empty=show_empty
        )

    layouts = (lay_out(0), lay_out(1))
    if limit is None:
        limit = color_limit(values, np.ones_like(mass) if show_empty else mass)
    width, height = PAIR_SIZE
    ax = axes_or_new(ax, width, height + _TURNED_LABEL_HEIGHT * has_long_labels(axes[0]))
    mesh = _draw_cells(ax, layouts, values, mass, limit, show_empty=show_empty)
    style_axes(ax)
    if band is not None and d.spread is not None:
        _dot_cells(ax, layouts, unsure)
        words = f"dotted: the {level:.0%} band of {d.spread.n_models} trainings holds zero"
        ax.set_title(words, loc="left", color=MUTED, size=SMALL_SIZE)
    for which, axis, layout in zip(("x", "y"), axes, layouts, strict=True):
        set_ticks(ax, which, axis, layout)  # type: ignore[arg-type]
    name_axis(ax, "x", axes[0].name, layouts[0])
    name_axis(ax, "y", axes[1].name, layouts[1], 34)
    label = effect_label(d, position) + (" before purification" if before else "")
    _add_colorbar(ax, mesh, label, _extend(values[(mass > 0) | show_empty], limit))
    return ax


def color_limit(values: Array, mass: Array) -> float:
    """Return the largest absolute value among 99.5 % of the mass; 1 where all are zero."""
    held = mass > 0
    if not held.any():
        return float(np.abs(values).max(initial=0.0)) or 1.0
    size, weight = np.abs(values[held]), mass[held]
    return float(row_quantiles(size, weight, np.array([_SHOWN_MASS]))[0]) or 1.0


def _draw_cells(
    ax: "Axes",
    layouts: tuple[AxisLayout, AxisLayout],
    values: Array,
    mass: Array,
    limit: float,
    *,
    show_empty: bool,
) -> Any:
    across, up = layouts
    rectangle = import_matplotlib("patches").Rectangle
    for left, right in across.blocks:
        for bottom, top in up.blocks:
            ax.add_patch(
                rectangle(
                    (left, bottom),
                    right - left,
                    top - bottom,
                    facecolor=EMPTY,
                    edgecolor=HATCH,
                    hatch="////",
                    linewidth=0,
                    zorder=0,
                )
            )
    is_gap = (across.cells == GAP)[:, None] | (up.cells == GAP)
    drawn = np.ix_(across.cells, up.cells)
    is_empty = mass[drawn] <= 0
    shown = np.ma.masked_where(is_gap | (is_empty & (not show_empty)), values[drawn])
    if show_empty and np.any(is_empty & ~is_gap):
        _hatch_cells(ax, layouts, is_empty & ~is_gap, "////")
    return ax.pcolormesh(
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


def _dot_cells(ax: "Axes", layouts: tuple[AxisLayout, AxisLayout], unsure: Mask) -> None:
    """Draw a dot in each chosen cell."""
    across, up = layouts
    is_gap = (across.cells == GAP)[:, None] | (up.cells == GAP)
    drawn = unsure[np.ix_(across.cells, up.cells)] & ~is_gap
    if drawn.any():
        _hatch_cells(ax, layouts, drawn, "....")


def _hatch_cells(
    ax: "Axes", layouts: tuple[AxisLayout, AxisLayout], chosen: Mask, hatch: str
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
        edgecolor=MUTED,
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
    place = ax.inset_axes((1.03, 0.0, 0.035, 1.0))
    bar = ax.get_figure().colorbar(mesh, cax=place, extend=extend)  # type: ignore[union-attr]
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    bar.locator = import_matplotlib("ticker").MaxNLocator(
        5, symmetric=True, steps=[*ROUND_STEPS, 10]
    )
    bar.formatter = import_matplotlib("ticker").FuncFormatter(tick_words)
    bar.set_label(fold(label, 34), color=INK, size=SMALL_SIZE)
    bar.ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=0)
