"""The figure of the variance by order: how much is main effect, pair, or more."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.plots.axis_ticks import name_rows
from treepurify.plots.bands import band_words, check_level
from treepurify.plots.fitting import letters_along
from treepurify.plots.style import (
    DATA,
    HIGHER,
    INK,
    MAIN,
    PAIR,
    SMALL_SIZE,
    axes_or_new,
    legend_above,
    name_below,
    number_ticks,
    style_axes,
)
from treepurify.plots.terms import check_named_results
from treepurify.spread import LEVEL, one_more_training
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["variance_by_order"]

_KINDS = (
    ("main effects", MAIN),
    ("pairs", PAIR),
    ("three or more features", HIGHER),
    ("remainder", DATA),
)
# About what a number in a bar takes of its length, in letters.
_LETTERS_OF_SHARE = 3.0
# The height of a bar, and where below its middle the lines of its joints are, one under another.
_HEIGHT, _BELOW, _APART = 0.62, 0.38, 0.07


def variance_by_order(
    d: Decomposition | Mapping[str, Decomposition],
    *,
    level: float | None = LEVEL,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the shares of variance of main effects, pairs and higher interactions.

    Parameters
    ----------
    d : Decomposition or mapping of str to Decomposition
        One decomposition, or several by name, such as of different distributions, engines or
        models; one bar for each.
    level : float, optional
        If several trainings were purified: the level of the lines below a bar. Each line is a
        prediction interval for one boundary between the parts of the bar in one more training. A
        single training contains more noise than the mean over trainings, mostly in interactions, so
        the boundaries of the mean may lie to the right of their lines. The remainder is unknown for
        single trainings, so it is the same as in the bar. None for no lines.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If the mapping is empty, or `level` does not lie between 0 and 1.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.importance : Shares of the most important effects.
    Decomposition.importance : The table of all effects.

    Notes
    -----
    Shares refer to the sum of the variances of the effects, which differs from the variance of the
    model if features depend on each other. A remainder of unknown variance is left out.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.variance_by_order(d)
    >>> [text.get_text() for text in ax.texts]
    ['67%', '33%']
    """
    named = {d.measure: d} if isinstance(d, Decomposition) else d
    check_named_results("d", named)
    check_level(level)
    sums = np.array([_sums(each) for each in named.values()])
    shares = sums / np.where(sums.sum(axis=1) > 0, sums.sum(axis=1), 1.0)[:, None]
    ax = axes_or_new(ax, 5.6, 0.42 * len(named) + 1.2)
    least = _LETTERS_OF_SHARE / letters_along(ax, "x")
    places, left = np.arange(len(named)), np.zeros(len(named))
    for column, (kind, color) in enumerate(_KINDS):
        widths = shares[:, column]
        if not np.any(widths > 0):
            continue
        ax.barh(places, widths, left=left, height=_HEIGHT, color=color, label=kind)
        for place in places[widths >= least]:
            ax.annotate(
                f"{widths[place]:.0%}",
                (left[place] + widths[place] / 2, place),
                ha="center",
                va="center",
                color="white",
                fontsize=SMALL_SIZE,
            )
        left = left + widths
    if level is not None:
        _draw_lines(ax, list(named.values()), sums, level)
    style_axes(ax)
    name_rows(ax, named)
    ax.set_xlim(0.0, 1.0)
    number_ticks(ax.xaxis, 5, of="shares")
    name_below(ax, "share of the effects' variance")
    legend_above(ax, len(_KINDS), side="right")
    return ax


def _draw_lines(
    ax: "Axes", decompositions: Sequence[Decomposition], sums: Array, level: float
) -> None:
    """Draw below each bar where its joints would lie in one more training."""
    words = band_words(level)
    for place, (d, own) in enumerate(zip(decompositions, sums, strict=True)):
        # Of components that are no tables the single trainings are not known.
        if d.spread is None or d.spread.stacked.keys() != d.components.keys():
            continue
        each = np.zeros((d.spread.n_models, len(_KINDS)))
        for subset in d.components:
            each[:, _kind_of(subset)] += d.spread.variances(subset).sum(axis=1)
        each[:, -1] = own[-1]
        totals = each.sum(axis=1, keepdims=True)
        joints = np.cumsum(each, axis=1) / np.where(totals > 0, totals, 1.0)
        lower, upper = np.clip(one_more_training(joints, level), 0.0, 1.0)
        # The last kind ends where the bar ends, in every training.
        for line, k in enumerate(np.flatnonzero(each.any(axis=0))[:-1]):
            height = place + _BELOW + _APART * line
            ax.hlines(height, lower[k], upper[k], color=INK, linewidth=1.3, label=words)
            words = "_nolegend_"


def _kind_of(subset: Subset) -> int:
    return min(len(subset), 3) - 1


def _sums(d: Decomposition) -> list[float]:
    """Return the sum of the variances of each kind."""
    sums = [0.0] * len(_KINDS)
    for subset, component in d.components.items():
        sums[_kind_of(subset)] += float(np.sum(component.variance))
    if d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        sums[-1] = float(np.sum(d.remainder.variance))
    return sums
