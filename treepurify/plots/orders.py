"""The figure of the variance by order: how much is main effect, pair, or more."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.plots.axis_ticks import name_rows
from treepurify.plots.style import (
    DATA,
    HIGHER,
    MAIN,
    PAIR,
    SMALL_SIZE,
    axes_or_new,
    legend_above,
    number_ticks,
    style_axes,
)
from treepurify.plots.terms import check_named_results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["variance_by_order"]

_KINDS = (
    ("main effects", MAIN),
    ("pairs", PAIR),
    ("three or more features", HIGHER),
    ("remainder", DATA),
)


def variance_by_order(
    d: Decomposition | Mapping[str, Decomposition], *, ax: "Axes | None" = None
) -> "Axes":
    """Draw how much of the components' variance is in main effects, pairs and more.

    Parameters
    ----------
    d : Decomposition or mapping of str to Decomposition
        One decomposition, or several measures, engines or models by name, one bar per name.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If the mapping is empty.
    MissingDependencyError
        If matplotlib is not installed.

    Notes
    -----
    Shares refer to the sum of the variances of the components, which under dependence is not
    the variance of the model. A remainder whose variance is not known is left out.

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
    shares = np.array([_shares(each) for each in named.values()])
    ax = axes_or_new(ax, 5.6, 0.42 * len(named) + 1.2)
    places, left = np.arange(len(named)), np.zeros(len(named))
    for column, (kind, color) in enumerate(_KINDS):
        widths = shares[:, column]
        if not np.any(widths > 0):
            continue
        ax.barh(places, widths, left=left, height=0.62, color=color, label=kind)
        for place in places[widths >= 0.06]:
            ax.annotate(
                f"{widths[place]:.0%}",
                (left[place] + widths[place] / 2, place),
                ha="center",
                va="center",
                color="white",
                fontsize=SMALL_SIZE,
            )
        left = left + widths
    style_axes(ax)
    name_rows(ax, named)
    ax.set_xlim(0.0, 1.0)
    number_ticks(ax.xaxis, 5, of="shares")
    ax.set_xlabel("share of the components' variance", loc="right")
    legend_above(ax, 2, side="right")
    return ax


def _shares(d: Decomposition) -> list[float]:
    sums = [0.0] * len(_KINDS)
    for subset, component in d.components.items():
        sums[min(len(subset), 3) - 1] += float(np.sum(component.variance))
    if d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        sums[-1] = float(np.sum(d.remainder.variance))
    total = sum(sums) or 1.0
    return [part / total for part in sums]
