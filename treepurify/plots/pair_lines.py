"""The figure of a pair as lines: the effect of one feature at several values of another."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import check_flag, check_whole
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import middle_values
from treepurify.plots.axis_layout import Scale, lay_out_axis
from treepurify.plots.category_order import left_out, order_categories
from treepurify.plots.curves import BAND_WORDS, Band, Series, draw_curve, draw_grouped_bars
from treepurify.plots.feature_axes import set_axis
from treepurify.plots.labels import (
    effect_label,
    ends_in_order,
    number_words,
    numbers_alike,
    numbers_apart,
    shorten,
    shorten_all,
    with_minus,
)
from treepurify.plots.limits import cells_that_count, shown_range
from treepurify.plots.ratio_axis import RATIO_HEIGHT, add_ratio_axis, has_ratio_axis
from treepurify.plots.style import (
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
    PairKey,
    check_scale,
    find_tensor,
    is_continuous,
    main_effect_along,
    main_effect_of,
    means_along,
    one_key,
    output_position,
)
from treepurify.rows.row_weights import first_reached
from treepurify.spread import LEVEL, one_more_training
from treepurify.terms import named_features
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LINES = 5
_SHARES = (0.1, 0.5, 0.9)
# Rows of categories, and bars of all of them.
_MOST_CATEGORIES, _MOST_BARS = 20, 60


def pair_lines(
    d: Decomposition,
    key: PairKey,
    second: str | int | None = None,
    *,
    output: int | str = 0,
    with_mains: bool = True,
    lines: int = _MOST_LINES,
    scale: Scale = "auto",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the joint effect of two features along the first, at several values of the second.

    Parallel lines mean no interaction. If the first feature is categorical, the effect is drawn as
    bars instead of lines; at most the 20 most frequent categories are shown. Lines are thin, and
    bars pale, in regions with hardly any data, which the range in the title leaves out (see the
    notes of `main_effect`). Effects are on the margin scale. If several trainings were purified,
    bands are prediction intervals of 90% for one more training (`Spread.band`).

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    key, second : str, int or tuple of them
        The features, by name or position, ``"a", "b"`` or ``("a", "b")``: the first is along the
        axis, the second has one line per value.
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
    >>> ax = tp.plots.pair_lines(d, "x0", "x1")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['0', '1']
    """
    check_scale(scale)
    check_whole("lines", lines, 1, len(MANY))
    check_flag("with_mains", with_mains)
    key = one_key(key, second)
    component = find_tensor(d, key, 2)
    position = output_position(d, output)
    values, mass, axes = component.values[..., position], component.mass, component.axes
    features = component.features
    if named_features(key, d.feature_names)[0] != features[0]:
        values, mass, axes, features = values.T, mass.T, axes[::-1], features[::-1]
    mains = dict(zip(features, axes, strict=True)) if with_mains else {}
    band = _band(d, component, features[0], mains, position)
    is_smooth = is_continuous(d, key)
    varying = (mass * values**2).sum(axis=0)
    for place, (feature, axis) in enumerate(mains.items()):
        main = main_effect_along(d, feature, axis, is_smooth=is_smooth)[:, position]
        values = values + np.expand_dims(main, 1 - place)
    counts = cells_that_count(values, mass, axes)
    cells = line_cells(axes[1], mass.sum(axis=0), lines, varying)
    labels = shorten_all(line_names(axes[1], mass.sum(axis=0), cells, is_smooth=is_smooth), 22)
    series = [
        Series(label, values[:, cell], band and (band[0][:, cell], band[1][:, cell]),
               counts[:, cell])
        for label, cell in zip(labels, cells, strict=True)
    ]  # fmt: skip
    which: Literal["x", "y"] = "x" if axes[0].is_categorical else "y"
    if axes[0].is_categorical:
        order = main_effect_of(d, features[0], axes[0], position)
        ordered = d.inputs.features[features[0]].ordered_labels
        most = min(_MOST_CATEGORIES, _MOST_BARS // len(cells))
        regular = order_categories(axes[0], order, mass.sum(axis=1), most, ordered)
        ax, shown = _draw_bars(ax, axes[0], mass.sum(axis=1), regular, series)
        name_below(ax, effect_label(d, position))
        number_ticks(ax.xaxis)
    else:
        ax = axes_or_new(ax)
        held = mass.sum(axis=1)
        part = shown_range(d, features[0], axes[0], held)
        layout = lay_out_axis(axes[0], held, scale=scale, is_smooth=is_smooth, shown=part)
        middles = middle_values(axes[0])[: axes[0].n_regular] if is_smooth else None
        ax.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
        for own, color in zip(series, MANY, strict=False):
            area = own.bounds and Band(*own.bounds, "_band")
            options: dict[str, Any] = {"middles": middles, "counts": own.counts, "band": area}
            look = {"color": color, "label": own.name}
            draw_curve(ax, layout, own.values, look=look, **options)
        style_axes(ax)
        set_axis(ax, "x", layout, axes[0].name)
        name_effect(ax, effect_label(d, position))
        shown = layout.cells_with_place
    has_ratios = has_ratio_axis(ax, d.link)
    if has_ratios:
        add_ratio_axis(ax, d.link, which=which)
    of_what = "main effects and pair" if with_mains else "pair alone"
    words = f"{shorten(axes[1].name, 22)} ({of_what})"
    words += f"; {BAND_WORDS}" if band is not None else ""
    legend_above(ax, 3, words, distance=RATIO_HEIGHT * (has_ratios and which == "x"))
    drawn = np.ix_(shown, np.array(cells))
    low, high = sorted(ends_in_order(values[drawn], counts[drawn]) or (0.0, 0.0))
    names = shorten(f"{axes[0].name} & {axes[1].name}", 26)
    set_title(ax, names.replace(" & ", " by "), (low, high))
    return ax


def _draw_bars(
    ax: "Axes | None", axis: FeatureAxis, mass: Array, regular: Indices, series: list[Series]
) -> tuple["Axes", Indices]:
    """Draw a row of bars for each category, and return their cells."""
    special = np.arange(axis.n_regular, axis.n_cells)
    shown = np.append(regular, special[mass[special] > 0]).astype(np.intp)
    ax = axes_or_new(ax, SIZE[0], row_height(int(len(shown) * (0.5 + 0.3 * len(series)))))
    bars = [
        own._replace(
            values=own.values[shown],
            bounds=own.bounds and (own.bounds[0][shown], own.bounds[1][shown]),
            counts=own.counts[shown],
        )
        for own in series
    ]
    draw_grouped_bars(ax, [axis.labels()[cell] for cell in shown], bars)
    ax.set_ylabel(left_out(axis, len(regular)).strip())
    return ax, shown


def _band(
    d: Decomposition,
    component: TensorComponent,
    first: int,
    mains: Mapping[int, FeatureAxis],
    output: int,
) -> tuple[Array, Array] | None:
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
    return one_more_training(each, LEVEL)


def line_names(axis: FeatureAxis, mass: Array, cells: list[int], *, is_smooth: bool) -> list[str]:
    """Return what the second feature is along each line: a label, or about which number."""
    words = axis.labels()
    if axis.has_labels:
        return [words[cell] for cell in cells]
    layout = lay_out_axis(axis, mass, is_smooth=is_smooth)
    edges = layout.numeric.edges
    regular = [cell for cell in cells if cell < axis.n_regular]
    middles = [float(edges[cell] + edges[cell + 1]) / 2 for cell in regular]
    alike = numbers_alike(middles)
    alike = alike if len(set(alike)) == len(alike) else numbers_apart(middles)
    for cell, words_of in zip(regular, alike, strict=True):
        words[cell] = f"≈ {words_of}"
        if layout.numeric.values is not None:
            words[cell] = number_words((edges[cell] + edges[cell + 1]) / 2, 4)
        if layout.is_whole:
            first, last = edges[cell] + 0.5, edges[cell + 1] - 0.5
            words[cell] = f"{first:.0f}" if first == last else f"{first:.0f} to {last:.0f}"
    return [with_minus(words[cell]) for cell in cells]


def line_cells(
    axis: FeatureAxis, mass: Array, most: int = _MOST_LINES, varying: Array | None = None
) -> list[int]:
    """Return the cells of the second feature that have a line.

    Of categories and special cells, at most this number, of largest mass; of numbers those at the
    10%, 50% and 90% quantile of the mass. Where these share a cell, cells with the largest part
    of the variance of the pair (`varying`) fill their place.
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
