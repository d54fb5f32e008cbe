"""The figure of weak spots: by how much slices of the rows lose more than all rows."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.errors import InvalidInputError
from treepurify.evidence.losses import loss_words
from treepurify.plots.labels import number_words, shorten
from treepurify.plots.style import (
    FRAME,
    INK,
    MUTED,
    SIZE,
    SMALL_SIZE,
    UP,
    axes_or_new,
    name_below,
    number_ticks,
    row_height,
    style_axes,
)
from treepurify.validation.weak_spots import WeakSpot, WeakSpots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_LINE = 36
# How far intervals are drawn, in units of the largest excess.
_MOST_REACH = 2.0


def weak_spots(found: WeakSpots, *, top: int = 10, ax: "Axes | None" = None) -> "Axes":
    """Draw the excess loss of each slice over all rows, with its interval.

    Slices whose whole interval is above zero are red, others grey; an arrow marks an interval that
    extends beyond the figure. The share of the rows is on the right. The axis is in the units of
    the loss.

    Parameters
    ----------
    found : WeakSpots
        The result of `treepurify.weak_spots`.
    top : int
        Number of slices; those with the largest excess are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If there is no slice with test rows, or `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    weak_spots : Slices in which the loss of a model is above average.

    Notes
    -----
    Losses are computed on rows that were not used in the search, and the intervals are simultaneous
    for all slices.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> y = np.where(X[:, 0] > 1, 3.0, 0.5) * np.random.default_rng(1).normal(size=2000)
    >>> d = tp.purify(DecisionTreeRegressor(max_depth=2).fit(X[:500], X[:500, 0]), X[:500])
    >>> ax = tp.plots.weak_spots(tp.weak_spots(d, X, y, n_spots=1))
    >>> len(ax.get_yticklabels())
    1
    """
    check_result("found", found, WeakSpots, "treepurify.weak_spots")
    check_whole("top", top, 1)
    spots = [spot for spot in found.spots if np.isfinite(spot.excess)][:top]
    if not spots:
        raise InvalidInputError(
            "no slice has a higher loss than the rows as a whole, so there is nothing to draw: "
            + " ".join(found.summary())
        )
    ax = axes_or_new(ax, SIZE[0], row_height(int(1.5 * len(spots))))
    # Few rows can leave an upper end open; it must not make all others small.
    most = _MOST_REACH * spots[0].excess if spots[0].excess > 0 else np.inf
    for place, spot in enumerate(spots):
        color = UP if spot.is_confirmed else MUTED
        ax.hlines(place, spot.low, min(spot.high, most), color=color, linewidth=1.6, zorder=2)
        if spot.high > most:
            ax.plot(most, place, ">", color=color, markersize=5, zorder=3)
        ax.plot(spot.excess, place, "o", color=color, markersize=5, zorder=3)
        _write_at_right(ax, f"{spot.share:.1%}", place, INK)
    _write_at_right(ax, "of rows", -1, MUTED)
    ax.axvline(0.0, color=FRAME, linewidth=0.9, zorder=1)
    style_axes(ax)
    ax.set_yticks(range(len(spots)), [_lines(spot) for spot in spots])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(spots) - 0.4, -0.6)
    number_ticks(ax.xaxis)
    words = (
        f"mean {loss_words(found.loss)} minus the mean of all rows, "
        f"{number_words(found.mean_loss, 3)}"
        f" (lines: simultaneous {found.coverage:.0%} intervals)"
    )
    name_below(ax, words)
    return ax


def _write_at_right(ax: "Axes", words: str, place: float, color: str) -> None:
    ax.annotate(
        words,
        (1.0, place),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        color=color,
        fontsize=SMALL_SIZE,
    )


def _lines(spot: WeakSpot) -> str:
    """Return which rows belong to a slice, one line per feature."""
    return " &\n".join(shorten(side.words(), _LONGEST_LINE) for side in spot.sides)
