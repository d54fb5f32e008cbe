"""The figure of a model along one feature, with the observed values."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_flag, check_result, read_output
from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout, Scale, lay_out_axis
from treepurify.plots.category_order import order_categories
from treepurify.plots.feature_axes import add_data_strip
from treepurify.plots.labels import ends_in_order, scale_words
from treepurify.plots.limits import cells_that_count
from treepurify.plots.ratio_axis import add_ratio_axis, has_ratio_axis
from treepurify.plots.style import (
    AFTER,
    FRAME,
    INK,
    MANY,
    SIZE,
    axes_or_new,
    legend_above,
    number_ticks,
    set_title,
    style_axes,
)
from treepurify.plots.terms import check_scale
from treepurify.profiles.feature_profile import FeatureProfile
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SURE = 1.96
_MOST_CATEGORIES = 24
_SPECIAL = ("other", "missing")


def profile(
    profile: FeatureProfile,
    *,
    output: int | str = 0,
    curves: bool = False,
    effects: Decomposition | None = None,
    scale: Scale = "auto",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw observed and predicted means, partial dependence and accumulated effects.

    Observed means have 95% error bars, from the spread of the observations in each cell. Partial
    dependence has error bars if it was computed from a sample of the rows. Observed means are
    omitted if predictions are on another scale, such as log-odds. Bars below show the distribution
    of the rows. At most the 24 most frequent categories are drawn, in their natural order or,
    without one, by the main effect in `effects`, else by partial dependence.

    Parameters
    ----------
    profile : FeatureProfile
        The result of `treepurify.feature_profile`.
    output : int or str
        The output, by position or name.
    curves : bool
        Whether to also draw the curves of single rows.
    effects : Decomposition, optional
        A decomposition of the same model; the mean prediction plus its main effect is drawn as one
        more curve.
    scale : {"auto", "value", "rank", "log"}
        The axis of a numeric feature, as in `main_effect`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `output` or `scale` is unknown, ``scale="log"`` is used with values that are not
        positive, or the main effect is not on the scale of the profile.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    feature_profile : Compute the profile.
    treepurify.plots.main_effect : Figure of one main effect.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> found = tp.feature_profile(lambda X: X[:, 0] * X[:, 1], X, "x0", [0, 0, 0, 1])
    >>> ax = tp.plots.profile(found)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['predicted', 'partial dependence', 'accumulated effects', 'observed']
    """
    check_result("profile", profile, FeatureProfile, "treepurify.feature_profile")
    check_flag("curves", curves)
    check_scale(scale)
    k = read_output(output, profile.output_names)
    is_line = profile.is_numeric and bool(np.isfinite(profile.points).any())
    shown = profile
    if not is_line:
        by = profile.partial_dependence if effects is None else _main_effect(effects, profile)
        shown = _in_order(profile, by[:, k])
    if is_line:
        axis, layout = _along(shown, scale)
        special = [centre for centre, _ in layout.special]
        places = np.concatenate([layout.at(shown.points[np.isfinite(shown.points)]), special])
        # A missing value has no neighbour.
        is_apart = np.isnan(shown.points)
    else:
        axis = FeatureAxis(shown.feature, None, shown.labels)
        layout = lay_out_axis(axis)
        # Categories have no order.
        places = np.arange(len(shown.points)) * 1.0
        is_apart = np.ones(len(places), dtype=np.bool_)
    ax = axes_or_new(ax, SIZE[0], SIZE[1] if is_line else SIZE[1] + 0.8)
    if curves:
        for line in shown.curves[:, :, k]:
            style = {"color": FRAME, "linewidth": 0.7, "zorder": 1}
            _draw(ax, places, line, is_apart, **style, marker=".", markersize=2)
    _draw_observed(ax, shown, places)
    drawn: tuple[tuple[str, Array, str, str, str], ...] = (
        ("predicted", shown.predicted, AFTER, "o", "-"),
        ("partial dependence", shown.partial_dependence, MANY[1], "s", "-"),
        ("accumulated effects", shown.accumulated, MANY[2], "D", "--"),
    )
    if effects is not None:
        drawn += (("main effect", _main_effect(effects, shown), MANY[3], "v", "-"),)
    for name, values, color, marker, style_of_line in drawn:
        drawn_as = style_of_line if is_line else "none"
        options = {"color": color, "marker": marker, "linestyle": drawn_as, "label": name}
        _draw(ax, places, values[:, k], is_apart, markersize=3.5, zorder=3, **options)
    half = _SURE * shown.dependence_error[:, k]
    if np.any(half > 0):
        ends = shown.partial_dependence[:, k] - half, shown.partial_dependence[:, k] + half
        ax.vlines(places, *ends, color=MANY[1], linewidth=1.0, zorder=2)
    style_axes(ax)
    ax.set_ylabel(_words(profile, k))
    number_ticks(ax.yaxis)
    n_known, n_shown = len(profile.labels), len(shown.labels)
    some = f" ({n_shown} of {n_known} categories)" if n_shown < n_known else ""
    add_data_strip(ax, layout, profile.feature + some, shown.share)
    if profile.scale == "margin" and has_ratio_axis(ax, profile.link):
        add_ratio_axis(ax, profile.link, of_sums=True)
    legend_above(ax, 3)
    means = shown.predicted[:, k]
    reach = ends_in_order(means, cells_that_count(means, shown.share, [axis]))
    is_margin = profile.scale == "margin"
    set_title(ax, profile.feature, reach, signed=is_margin)
    return ax


def _along(profile: FeatureProfile, scale: Scale) -> tuple[FeatureAxis, AxisLayout]:
    """Return an axis with an edge half way between the points of neighbouring cells."""
    points = profile.points[np.isfinite(profile.points)]
    has_missing = len(points) < len(profile.points)
    cuts = (points[1:] + points[:-1]) / 2
    first, last = float(points[0]), float(points[-1])
    if len(cuts) and not np.all(points == np.round(points)):
        # The outer cells reach as far beyond their points as they do towards the others, but
        # positive numbers stay positive.
        near = 2 * first - cuts[0]
        first = float(near if near > 0 or first <= 0 else first**2 / cuts[0])
        last = float(2 * last - cuts[-1])
    axis = FeatureAxis(profile.feature, cuts, has_missing=has_missing, bounds=(first, last))
    layout = lay_out_axis(axis, profile.share, scale=scale)
    # Numbers that stand for ordered categories.
    return axis, replace(layout, labels=profile.labels) if profile.ordered_labels else layout


def _main_effect(d: Decomposition, profile: FeatureProfile) -> Array:
    """Return the mean plus the main effect in each cell, shape (n_cells, n_outputs).

    Raises
    ------
    InvalidInputError
        If it is not on the scale of the profile, or of another model.
    """
    check_result("effects", d, Decomposition)
    if profile.scale == "response" and d.link.name != "identity":
        raise InvalidInputError(
            f"the profile is on the response scale, main effects are not (link {d.link.name!r}): "
            'pass a profile from tp.feature_profile(..., scale="margin")'
        )
    component = d[profile.feature]
    if len(d.intercept) != profile.predicted.shape[1]:
        raise InvalidInputError(
            f"effects must have the outputs of the profile ({profile.predicted.shape[1]}), got "
            f"{len(d.intercept)}"
        )
    (j,) = component.features
    spec, points = d.inputs.features[j], profile.points
    if spec.is_categorical:
        codes = {str(label): float(code) for code, label in enumerate(spec.labels)}
        codes |= {"other": float(spec.n_codes), "missing": np.nan}
        points = np.array([codes.get(label, float(spec.n_codes)) for label in profile.labels])
    blank = np.zeros(len(points))
    values = tuple(points if i == j else blank for i in range(len(d.inputs.features)))
    (effect,) = evaluate_each([component], Columns(d.inputs.features, values, len(points)))
    return np.asarray(d.intercept + effect)


def _in_order(profile: FeatureProfile, by: Array) -> FeatureProfile:
    """Return the profile of as many categories as fit, those with most rows, special ones last."""
    special = [i for i, label in enumerate(profile.labels) if label in _SPECIAL]
    regular = np.setdiff1d(np.arange(len(profile.labels)), special)
    axis = FeatureAxis(profile.feature, None, tuple(profile.labels[i] for i in regular))
    most = max(_MOST_CATEGORIES - len(special), 1)
    order = order_categories(
        axis,
        by[regular],
        profile.share[regular],
        most,
        profile.ordered_labels,
    )
    kept = np.concatenate([regular[order], special]).astype(np.intp)
    observed, error = (
        None if each is None else each[kept] for each in (profile.observed, profile.observed_error)
    )
    return replace(
        profile,
        labels=tuple(profile.labels[i] for i in kept),
        points=profile.points[kept],
        share=profile.share[kept],
        predicted=profile.predicted[kept],
        observed=observed,
        observed_error=error,
        partial_dependence=profile.partial_dependence[kept],
        dependence_error=profile.dependence_error[kept],
        accumulated=profile.accumulated[kept],
        curves=profile.curves[:, kept],
    )


def _draw(ax: "Axes", places: Array, values: Array, is_apart: Mask, **options: Any) -> None:
    """Draw values as a line, and those that stand apart as points."""
    ax.plot(places[~is_apart], values[~is_apart], **options)
    if is_apart.any():
        apart = {**options, "linestyle": "none", "label": None}
        ax.plot(places[is_apart], values[is_apart], **apart)


def _draw_observed(ax: "Axes", profile: FeatureProfile, places: Array) -> None:
    if profile.observed is None or profile.observed_error is None:
        return
    # On another scale, such as that of log-odds, their places would mean nothing.
    if not profile.has_scale_of_observed:
        return
    width = _SURE * np.nan_to_num(profile.observed_error)
    ax.errorbar(
        places,
        profile.observed,
        yerr=width,
        color=INK,
        linestyle="none",
        marker="x",
        markersize=5,
        linewidth=1,
        zorder=4,
        label="observed",
    )


def _words(profile: FeatureProfile, output: int) -> str:
    scale = "prediction" if profile.scale == "response" else scale_words(profile.link)
    return scale if len(profile.output_names) == 1 else f"{scale}: {profile.output_names[output]}"
