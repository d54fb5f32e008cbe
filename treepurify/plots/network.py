"""The figure of who interacts with whom: features as nodes, pairs as edges."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.plots.bands import band_words, check_level
from treepurify.plots.labels import fold, shorten_all
from treepurify.plots.row_parts import in_each_training, is_something, one_row, row_effects
from treepurify.plots.style import DOWN, FRAME, INK, MAIN, MUTED, PAIR, SMALL_SIZE, UP, axes_or_new
from treepurify.rows.columns import Columns
from treepurify.spread import LEVEL, one_more_training

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["network"]

_LARGEST_NODE = 900.0
_SMALLEST_NODE = 12.0
_WIDEST_EDGE = 9.0
_FAINT = 0.22
_DASHED = (0, (1.6, 1.0))
# The width in inches; in units of the radius of the circle half the width, the least half height,
# where names begin, and the height of a line of text.
_WIDTH, _HALF_WIDTH, _LEAST_HALF_HEIGHT, _COLUMN, _LINE = 6.8, 2.4, 1.25, 1.3, 0.115
_LETTERS_A_LINE = 26


def network(
    d: Decomposition,
    *,
    row: Any = None,
    index: int | None = None,
    top: int = 15,
    pairs: int = 40,
    level: float | None = LEVEL,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw features as nodes and interactions as edges.

    The area of a node is the variance of the main effect, the width of an edge the
    standard deviation of the pair, each relative to the largest of its kind. With a `row`
    they are the square and the size of the effects there, red where they push the prediction
    up and blue where they push it down. Features that interact stand next to each other where
    the circle allows it.

    Parameters
    ----------
    d : Decomposition
        The decomposition. For several outputs variances are added up.
    row : table of shape (n_rows, n_features), Series or ndarray of shape (n_features,), optional
        The row whose effects are drawn, or with `index` the table that it is in; for one output.
    index : int, optional
        Position of the row in the table; from the end where it is negative.
    top : int
        Number of features; those with the largest variance over all their effects.
    pairs : int
        Number of edges; the largest.
    level : float, optional
        Where several trainings were purified: the rate at which the size of a node or an edge in
        one more of them would stay within the faint outline around it. Edges are dashed where it
        may be nothing, or, with a `row`, push the other way. See `Spread.variance_interval` and
        `Spread.band`. None for neither.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `top` or `pairs` is less than one, `level` does not lie between 0 and 1, or `row` is
        not one row of a decomposition with one output.
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
    check_level(level)
    if index is not None and row is None:
        raise InvalidInputError(
            "index is the position of a row: pass the table that it is in as row"
        )
    columns = None if row is None else _one_output(d, row, index)
    effects = {} if columns is None else _effects_of_row(d, columns)
    sizes = {s: effect**2 for s, effect in effects.items()}
    if columns is None:
        sizes = {s: float(np.sum(c.variance)) for s, c in d.components.items() if len(s) <= 2}
    is_drawn = is_something(np.sqrt([*sizes.values()]))
    sizes = {s: size for (s, size), drawn in zip(sizes.items(), is_drawn, strict=True) if drawn}
    totals = np.zeros(len(d.feature_names))
    for subset, size in sizes.items():
        totals[list(subset)] += size
    shown = [int(j) for j in np.argsort(-totals, kind="stable")[:top] if totals[j] > 0]
    edges: dict[Subset, float] = {
        s: v for s, v in sizes.items() if len(s) == 2 and set(s) <= set(shown)
    }
    edges = dict(sorted(edges.items(), key=lambda edge: -edge[1])[:pairs])
    nodes = _around_circle(shown, edges)
    angles = {j: np.pi / 2 - 2 * np.pi * i / max(len(nodes), 1) for i, j in enumerate(nodes)}
    ends = _ends(d, columns, level)

    def color(subset: Subset) -> str:
        if row is None:
            return MAIN if len(subset) == 1 else PAIR
        return UP if effects.get(subset, 0.0) > 0 else DOWN

    names, halves = _names_of(d, nodes), _sides(angles)
    tallest = max(sum(_height(names[j]) for j in half) for half in halves)
    limit = max(_LEAST_HALF_HEIGHT, tallest / 2)
    ax = axes_or_new(ax, _WIDTH, _WIDTH * limit / _HALF_WIDTH + 0.5)
    points = {j: (float(np.cos(angles[j])), float(np.sin(angles[j]))) for j in nodes}
    _draw_edges(ax, points, edges, ends, color)
    mains: dict[Subset, float] = {(j,): sizes.get((j,), 0.0) for j in nodes}
    places = _draw_nodes(ax, points, mains, ends, color)
    _name_nodes(ax, names, places, halves, limit)
    ax.set_aspect("equal")
    ax.set_xlim(-_HALF_WIDTH, _HALF_WIDTH)
    ax.set_ylim(-limit, limit)
    ax.set_axis_off()
    title = "area of a node: variance of the main effect; width of a line: deviation of the pair"
    if row is not None:
        title = "one row: a node is its main effect (squared), a line the effect of the pair"
    if ends:
        unsure = "may be nothing" if row is None else "may push the other way"
        title += f"\nfaint: up to here in {band_words(level or LEVEL)}; dashed: {unsure}"
    ax.set_title(title, fontsize=SMALL_SIZE, color=MUTED)
    return ax


class _End(NamedTuple):
    """How large an effect may be in one more training, and whether it may be nothing."""

    size: float
    may_vanish: bool


_NO_END = _End(0.0, may_vanish=False)


def _draw_edges(
    ax: "Axes",
    points: Mapping[int, tuple[float, float]],
    edges: Mapping[Subset, float],
    ends: Mapping[Subset, _End],
    color: Callable[[Subset], str],
) -> None:
    """Draw the pairs, the largest on top, with faint outlines where their ends are known."""
    widest = max((_drawn_size(s, size, ends) for s, size in edges.items()), default=1.0)
    for subset, size in reversed(list(edges.items())):
        places = np.array([points[j] for j in subset]).T
        share = float(np.sqrt(size / widest))
        end = ends.get(subset, _NO_END)
        if end.size > 0:
            ax.plot(
                *places,
                color=color(subset),
                alpha=_FAINT,
                linewidth=_WIDEST_EDGE * float(np.sqrt(end.size / widest)),
                solid_capstyle="round",
                zorder=0.9,
            )
        ax.plot(
            *places,
            color=color(subset),
            alpha=0.25 + 0.6 * share,
            linewidth=max(_WIDEST_EDGE * share, 0.3),
            linestyle=_DASHED if end.may_vanish else "-",
            solid_capstyle="round",
            zorder=1,
        )


def _draw_nodes(
    ax: "Axes",
    points: Mapping[int, tuple[float, float]],
    mains: Mapping[Subset, float],
    ends: Mapping[Subset, _End],
    color: Callable[[Subset], str],
) -> dict[int, tuple[float, float]]:
    """Draw the features, and return where the lines to their names end."""
    largest = max((_drawn_size(s, size, ends) for s, size in mains.items()), default=0.0) or 1.0
    places: dict[int, tuple[float, float]] = {}
    for subset, size in mains.items():
        x, y = points[subset[0]]
        area = max(_LARGEST_NODE * size / largest, _SMALLEST_NODE)
        outer = _LARGEST_NODE * ends.get(subset, _NO_END).size / largest
        paint = {"color": color(subset), "edgecolor": "white", "linewidth": 1}
        if outer > area:
            ax.scatter([x], [y], s=outer, color=color(subset), alpha=_FAINT, linewidth=0, zorder=2)
        ax.scatter([x], [y], s=area, zorder=2, **paint)  # type: ignore[arg-type]
        reach = 1.0 + float(np.sqrt(max(area, outer))) / 190
        places[subset[0]] = (reach * x, reach * y)
    return places


def _drawn_size(subset: Subset, size: float, ends: Mapping[Subset, _End]) -> float:
    return max(size, ends.get(subset, _NO_END).size)


def _ends(d: Decomposition, columns: Columns | None, level: float | None) -> dict[Subset, _End]:
    """Return the ends of what is known of each training; none where there is one training."""
    if level is None or d.spread is None:
        return {}
    if columns is None:
        intervals = {
            s: d.spread.variance_interval(s, level, together=True) for s in d.spread.stacked
        }
        return {s: _End(float(high[0]), not low[0] > 0) for s, (low, high) in intervals.items()}
    each = in_each_training(d, columns, len(d.components), "terms", 0)
    if each is None:
        return {}
    ends = zip(d.components, *one_more_training(each, level), strict=True)
    return {
        s: _End(max(low**2, high**2), bool(low <= 0 <= high))
        for s, low, high in ends
        if not np.isnan(low)
    }


def _sides(angles: Mapping[int, float]) -> list[list[int]]:
    """Return the nodes of the left and of the right half, from top to bottom."""
    halves: list[list[int]] = [[], []]
    for j in sorted(angles, key=lambda j: -np.sin(angles[j])):
        halves[int(np.cos(angles[j]) > -1e-9)].append(j)
    return halves


def _names_of(d: Decomposition, nodes: list[int]) -> dict[int, str]:
    """Return the names of nodes, in at most two lines each, that differ."""
    whole = shorten_all([d.feature_names[j] for j in nodes], 2 * _LETTERS_A_LINE - 4)
    return {j: fold(name, _LETTERS_A_LINE) for j, name in zip(nodes, whole, strict=True)}


def _height(name: str) -> float:
    return _LINE * (1.4 + name.count("\n"))


def _name_nodes(
    ax: "Axes",
    names: Mapping[int, str],
    places: Mapping[int, tuple[float, float]],
    halves: list[list[int]],
    limit: float,
) -> None:
    """Write the names of nodes in a column on each side, with lines to the nodes."""
    for side, order in zip((-1, 1), halves, strict=True):
        heights = [_height(names[j]) for j in order]
        for j, y in zip(order, _apart([places[j][1] for j in order], heights, limit), strict=True):
            ax.annotate(
                names[j],
                places[j],
                xytext=(side * _COLUMN, y),
                ha="left" if side > 0 else "right",
                va="center",
                color=INK,
                fontsize=SMALL_SIZE,
                arrowprops={
                    "arrowstyle": "-",
                    "color": FRAME,
                    "linewidth": 0.7,
                    "relpos": (0.0 if side > 0 else 1.0, 0.5),
                    "shrinkA": 1,
                    "shrinkB": 0,
                    "zorder": 0,
                },
            )


def _apart(wanted: list[float], heights: list[float], limit: float) -> list[float]:
    """Return falling places near the wanted ones at which texts of these heights do not overlap."""
    places: list[float] = []
    for place, height in zip(wanted, heights, strict=True):
        distance = (height + heights[len(places) - 1]) / 2 if places else 0.0
        places.append(
            min(place, places[-1] - distance) if places else min(place, limit - height / 2)
        )
    # What was pushed below the figure pushes back.
    for k in reversed(range(len(places))):
        distance = (heights[k] + heights[k + 1]) / 2 if k + 1 < len(places) else 0.0
        least = places[k + 1] + distance if k + 1 < len(places) else heights[k] / 2 - limit
        places[k] = max(places[k], least)
    return places


def _one_output(d: Decomposition, row: Any, index: int | None) -> Columns:
    """Return the row, for one output."""
    if d.n_outputs > 1:
        raise InvalidInputError(
            f"row draws the effects of one output, and there are {d.n_outputs}; leave it out"
        )
    return one_row(d, row, index)


def _effects_of_row(d: Decomposition, columns: Columns) -> dict[Subset, float]:
    """Return the effects of one and two features at a row."""
    _, subsets, values = row_effects(d, columns)
    effects = zip(subsets, values[0, :, 0], strict=True)
    return {s: float(value) for s, value in effects if s in d.components and len(s) <= 2}


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
