"""The figure of who interacts with whom: features as nodes, pairs as edges."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.plots.labels import fold
from treepurify.plots.style import INK, MAIN, MUTED, PAIR, SMALL_SIZE, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["network"]

_LARGEST_NODE = 900.0
_SMALLEST_NODE = 12.0
_WIDEST_EDGE = 9.0


def network(
    d: Decomposition, *, top: int = 15, pairs: int = 40, ax: "Axes | None" = None
) -> "Axes":
    """Draw features as nodes and interactions as edges.

    The area of a node is the variance of the main effect, the width of an edge the
    standard deviation of the pair, each relative to the largest of its kind. Features that
    interact stand next to each other where the circle allows it.

    Parameters
    ----------
    d : Decomposition
        The decomposition. For several outputs variances are added up.
    top : int
        Number of features; those with the largest variance over all their effects.
    pairs : int
        Number of edges; the largest.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `top` or `pairs` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.network(d)
    >>> sorted(text.get_text() for text in ax.texts)
    ['x0', 'x1']
    """
    check_result("d", d, Decomposition)
    check_whole("top", top, 1)
    check_whole("pairs", pairs, 1)
    variances = {s: float(np.sum(c.variance)) for s, c in d.components.items() if len(s) <= 2}
    totals = np.zeros(len(d.feature_names))
    for subset, variance in variances.items():
        totals[list(subset)] += variance
    shown = [int(j) for j in np.argsort(-totals, kind="stable")[:top] if totals[j] > 0]
    edges: dict[Subset, float] = {
        s: v for s, v in variances.items() if len(s) == 2 and set(s) <= set(shown) and v > 0
    }
    edges = dict(sorted(edges.items(), key=lambda edge: -edge[1])[:pairs])
    nodes = _around_circle(shown, edges)
    angles = {j: np.pi / 2 - 2 * np.pi * i / max(len(nodes), 1) for i, j in enumerate(nodes)}
    ax = axes_or_new(ax, 5.6, 5.2)
    widest = float(np.sqrt(max(edges.values(), default=1.0)))
    for (i, j), variance in reversed(list(edges.items())):
        share = float(np.sqrt(variance)) / widest
        ax.plot(
            [np.cos(angles[i]), np.cos(angles[j])],
            [np.sin(angles[i]), np.sin(angles[j])],
            color=PAIR,
            alpha=0.25 + 0.6 * share,
            linewidth=max(_WIDEST_EDGE * share, 0.3),
            solid_capstyle="round",
            zorder=1,
        )
    largest = max((variances.get((j,), 0.0) for j in nodes), default=0.0) or 1.0
    for j in nodes:
        x, y = float(np.cos(angles[j])), float(np.sin(angles[j]))
        area = max(_LARGEST_NODE * variances.get((j,), 0.0) / largest, _SMALLEST_NODE)
        ax.scatter([x], [y], s=area, color=MAIN, edgecolor="white", linewidth=1, zorder=2)
        far = 1.06 + float(np.sqrt(area)) / 250
        ax.annotate(
            fold(d.feature_names[j], 16, 3),
            (far * x, far * y),
            ha="center" if abs(x) < 0.05 else ("left" if x > 0 else "right"),
            va="center" if abs(y) < 0.85 else ("bottom" if y > 0 else "top"),
            color=INK,
            fontsize=SMALL_SIZE,
        )
    ax.set_aspect("equal")
    ax.set_xlim(-1.75, 1.75)
    ax.set_ylim(-1.45, 1.45)
    ax.set_axis_off()
    ax.set_title(
        "area of a node: variance of the main effect; width of a line: deviation of the pair",
        fontsize=SMALL_SIZE,
        color=MUTED,
    )
    return ax


def _around_circle(shown: list[int], edges: Mapping[Subset, float]) -> list[int]:
    """Return the nodes so that each follows the one it interacts with most."""
    left = list(shown)
    order: list[int] = []
    while left:
        if not order:
            order.append(left.pop(0))
            continue
        last = order[-1]
        strengths = [edges.get((min(last, j), max(last, j)), 0.0) for j in left]
        order.append(left.pop(int(np.argmax(strengths))))
    return order
