"""The figure of what matters: bars of the variance of each component."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.plots.axis_ticks import shorten
from treepurify.plots.style import (
    AFTER,
    BEFORE,
    DATA,
    HIGHER,
    INK,
    MUTED,
    SMALL_SIZE,
    axes_or_new,
    import_matplotlib,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["importance", "importance_size"]

_KINDS = {1: ("main effect", AFTER), 2: ("pair", BEFORE), 3: ("three or more features", HIGHER)}


def importance(d: Decomposition, *, top: int = 15, ax: "Axes | None" = None) -> "Axes":
    """Draw the share of variance of the most important components as bars.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    top : int
        Number of bars. What is left is one more bar.
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

    Notes
    -----
    The shares are ``variance_share`` of `Decomposition.importance`. For several outputs the
    variances are added up over the outputs first.
    """
    if top < 1:
        raise InvalidInputError(f"top must be at least 1, got {top}")
    names, orders, shares = _shares(d)
    rest = len(names) - top
    if rest > 1:
        names = [*names[:top], f"{rest} more"]
        orders, shares = [*orders[:top], 0], [*shares[:top], sum(shares[top:])]
    ax = axes_or_new(ax, *importance_size(d, top))
    kinds = [_KINDS[min(order, 3)] if order else ("the rest", DATA) for order in orders]
    for kind, color in dict.fromkeys(kinds):
        places = [i for i, own in enumerate(kinds) if own == (kind, color)]
        ax.barh(places, [shares[i] for i in places], height=0.72, color=color, label=kind)
    for i, share in enumerate(shares):
        ax.annotate(
            f"{share:.1%}" if share >= 0.0005 else "< 0.1%",
            (share, i),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=MUTED,
            fontsize=SMALL_SIZE,
        )
    style_axes(ax)
    ax.set_yticks(range(len(names)), [shorten(name, 34) for name in names])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.14 * max(shares, default=1.0) or 1.0)
    ax.xaxis.set_major_locator(import_matplotlib("ticker").MaxNLocator(5))
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    ax.set_xlabel("share of the components' variance")
    if len({kind for kind in kinds if kind[0] != "the rest"}) > 1:
        ax.legend(frameon=False, fontsize=SMALL_SIZE, labelcolor=INK, loc="lower right")
    return ax


def importance_size(d: Decomposition, top: int = 15) -> tuple[float, float]:
    """Return the width and height in inches that suit the figure."""
    n_bars = min(len(d) + (d.remainder is not None), top + 1)
    return 4.6, max(0.23 * n_bars + 0.8, 1.6)


def _shares(d: Decomposition) -> tuple[list[str], list[int], list[float]]:
    terms = [(d.term_name(s), len(s), float(np.sum(c.variance))) for s, c in d.components.items()]
    if d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        terms.append(("remainder", 0, float(np.sum(d.remainder.variance))))
    terms.sort(key=lambda term: -term[2])
    total = sum(variance for _, _, variance in terms) or 1.0
    return (
        [name for name, _, _ in terms],
        [order for _, order, _ in terms],
        [variance / total for _, _, variance in terms],
    )
