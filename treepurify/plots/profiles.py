"""The figure of a model along one feature, beside what was observed."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_flag, check_result, read_output
from treepurify.plots.labels import fold, shorten_all
from treepurify.plots.style import (
    AFTER,
    DATA,
    FRAME,
    INK,
    MANY,
    MUTED,
    axes_or_new,
    import_matplotlib,
    legend_above,
    number_ticks,
    style_axes,
)
from treepurify.profiles.feature_profile import FeatureProfile
from treepurify.typing import Array, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["profile"]

_STRIP = 0.14
_SURE = 1.96
_ROOM_A_LABEL = 0.42
_MOST_LEVEL_LABELS = 8
_LONGEST_CENTRED = 24


def profile(
    profile: FeatureProfile,
    *,
    output: int | str = 0,
    curves: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw observed and predicted means, partial dependence and accumulated effects of a feature.

    Observed means have bars of 95 %, by the spread of the observations in each cell. The bars
    below are the shares of the rows.

    Parameters
    ----------
    profile : FeatureProfile
        What `treepurify.feature_profile` returned.
    output : int or str
        The output, by position or name.
    curves : bool
        Whether the curves of single rows are drawn, too.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.

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
    k = read_output(output, profile.output_names)
    places, is_line = _places(profile)
    # Categories have no order, and missing values no neighbour.
    is_apart = np.isnan(profile.points) if is_line else np.ones(len(places), dtype=np.bool_)
    ax = axes_or_new(ax, max(5.8, 1.6 + _ROOM_A_LABEL * len(places) * (not is_line)), 3.6)
    if curves:
        for line in profile.curves[:, :, k]:
            ax.plot(places, line, color=FRAME, linewidth=0.7, zorder=1)
    _draw_observed(ax, profile, places)
    drawn = (
        ("predicted", profile.predicted, AFTER, "o", "-"),
        ("partial dependence", profile.partial_dependence, MANY[1], "s", "-"),
        ("accumulated effects", profile.accumulated, MANY[2], "D", "--"),
    )
    for name, values, color, marker, style in drawn:
        drawn_as = style if is_line else "none"
        options = {"color": color, "marker": marker, "linestyle": drawn_as, "label": name}
        _draw(ax, places, values[:, k], is_apart, markersize=3.5, zorder=3, **options)
    style_axes(ax)
    _draw_shares(ax, profile, places)
    _name_places(ax, profile, places, is_line)
    words = fold(profile.feature, 38)
    # A long name, centred, could reach beyond the figure: from the end there is more room.
    is_long = max(map(len, words.split("\n"))) > _LONGEST_CENTRED
    ax.set_xlabel(words, loc="right" if is_long else "center")
    ax.set_ylabel(_words(profile, k))
    number_ticks(ax.yaxis, 6)
    legend_above(ax, 2)
    return ax


def _places(profile: FeatureProfile) -> tuple[Array, bool]:
    """Return where cells are drawn, and whether they are numbers with distances."""
    if not profile.is_numeric or not np.isfinite(profile.points).any():
        return np.arange(len(profile.points), dtype=np.float64), False
    places = profile.points.copy()
    known = np.isfinite(places)
    reach = float(np.ptp(places[known])) or 1.0
    places[~known] = places[known].max() + 0.12 * reach * np.arange(1, (~known).sum() + 1)
    return places, True


def _draw(ax: "Axes", places: Array, values: Array, is_apart: Mask, **options: Any) -> None:
    """Draw values as a line, and those that stand apart as points."""
    ax.plot(places[~is_apart], values[~is_apart], **options)
    ax.plot(places[is_apart], values[is_apart], **{**options, "linestyle": "none", "label": None})


def _draw_observed(ax: "Axes", profile: FeatureProfile, places: Array) -> None:
    if profile.observed is None or profile.observed_error is None:
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


def _draw_shares(ax: "Axes", profile: FeatureProfile, places: Array) -> None:
    """Draw the shares of the rows as bars in a strip below the curves."""
    strip = ax.inset_axes((0.0, 0.0, 1.0, _STRIP), zorder=0)
    gaps = np.diff(np.sort(places))
    width = 0.8 * float(gaps[gaps > 0].min(initial=1.0)) if len(places) > 1 else 0.8
    width = max(width, 0.008 * (float(np.ptp(places)) or 1.0))
    strip.bar(places, profile.share, width=width, color=DATA)
    strip.set_ylim(0, 1.05 * float(profile.share.max()))
    strip.set_axis_off()
    low, high = ax.get_ylim()
    ax.set_ylim(low - _STRIP / (1 - _STRIP) * (high - low), high)
    strip.set_xlim(ax.get_xlim())
    ax.tick_params(axis="x", colors=MUTED, labelcolor=INK)


def _name_places(ax: "Axes", profile: FeatureProfile, places: Array, is_line: bool) -> None:
    if not is_line:
        labels = shorten_all(profile.labels, 18)
        turned = len(labels) > _MOST_LEVEL_LABELS or max(map(len, labels)) > _MOST_LEVEL_LABELS
        angle, side = (40, "right") if turned else (0, "center")
        ax.set_xticks(places, labels, rotation=angle, ha=side)
        return
    missing = np.flatnonzero(np.isnan(profile.points))
    if len(missing):
        known = places[~np.isnan(profile.points)]
        ticks = import_matplotlib("ticker").MaxNLocator(5).tick_values(known.min(), known.max())
        ticks = ticks[(ticks >= known.min()) & (ticks <= known.max())]
        labels = [f"{tick:g}" for tick in ticks] + [profile.labels[k] for k in missing]
        ax.set_xticks([*ticks, *places[missing]], labels)


def _words(profile: FeatureProfile, output: int) -> str:
    scale = "prediction" if profile.scale == "response" else "margin"
    return scale if len(profile.output_names) == 1 else f"{scale}: {profile.output_names[output]}"
