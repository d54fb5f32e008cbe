"""The figure of worth: the worth of each effect on held-out rows, and its variance."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.plots.style import (
    AFTER,
    BEFORE,
    FRAME,
    INK,
    SIZE,
    axes_or_new,
    legend_above,
    name_below,
    name_rows,
    number_ticks,
    row_height,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def worth(worth: EffectWorth, *, top: int = 15, ax: "Axes | None" = None) -> "Axes":
    """Draw the worth of effects on held-out rows, with intervals, and their variance.

    Parameters
    ----------
    worth : EffectWorth
        The result of `treepurify.effect_worth`.
    top : int
        Number of effects; those of largest variance are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    effect_worth : Rise of the held-out loss without each effect.
    treepurify.plots.simplification : Loss against the number of effects.

    Notes
    -----
    Dark bars are the rise of the loss without the effect, as a share of the reduction of the loss
    by all effects together; these shares need not sum to one. Light bars are shares of the
    variance, by covariance. Effects rank by size.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.worth(tp.effect_worth(d, X, [0, 0, 0, 1]))
    >>> len(ax.get_yticklabels())
    3
    """
    check_result("worth", worth, EffectWorth, "treepurify.effect_worth")
    check_whole("top", top, 1)
    table = worth.to_frame().sort_values("size", ascending=False, kind="stable")
    table = table.head(top)
    gain = worth.intercept_loss - worth.model_loss
    scale = 1.0 / gain if gain > 0 else 1.0
    ax = axes_or_new(ax, SIZE[0], row_height(len(table)))
    places = np.arange(len(table))
    values, low, high = (scale * table[name].to_numpy() for name in ("worth", "low", "high"))
    ax.barh(places - 0.19, values, height=0.36, color=AFTER, label="worth on held-out rows")
    ax.barh(places + 0.19, table["share"], height=0.36, color=BEFORE, alpha=0.6, label="variance")
    if worth.n_bootstrap:
        ax.hlines(places - 0.19, low, high, color=INK, linewidth=1.2, zorder=3)
    ax.axvline(0.0, color=FRAME, linewidth=0.8)
    style_axes(ax)
    name_rows(ax, [*table["term"]])
    number_ticks(ax.xaxis, "shares" if gain > 0 else "numbers")
    if gain > 0:
        name_below(ax, "share of the loss reduction; share of the variance, by covariance")
    else:
        name_below(ax, "increase in loss; share of the variance, by covariance")
    legend_above(ax, 2)
    return ax
