"""The figure of who interacts with whom: features as nodes, pairs as edges."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.plots.bands import BAND_WORDS
from treepurify.plots.fitting import letters_along, lines_along
from treepurify.plots.labels import effect_label, fold, number_words, shorten_all
from treepurify.plots.library import points_of
from treepurify.plots.row_parts import in_each_training, is_something, one_row, row_effects
from treepurify.plots.style import (
    DOWN,
    FRAME,
    INK,
    MAIN,
    MUTED,
    PAIR,
    SMALL_SIZE,
    UP,
    axes_or_new,
    legend_above,
)
from treepurify.rows.columns import Columns
from treepurify.spread import LEVEL, one_more_training
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["network"]

# In points, the diameters of the largest node where there is space for it, and of the smallest.
_LARGEST_NODE, _SMALLEST_NODE = 24.0, 3.0
# The diameter of the largest node in heights of a row, and in points for each letter of the
# width of the axes: the smaller of the two.
_NODE_IN_ROWS, _NODE_IN_LETTERS = 1.4, 0.36
# The diameter of a node in the legend in points, and the widths of edges: a part of the largest
# node, and points.
_LEGEND_NODE, _WIDEST_EDGE, _THINNEST_EDGE = 10.0, 0.35, 0.4
_THINNEST_DASHES = 0.8  # thinner ones look like a line
_FAINT = 0.22
_DASHED = (0, (3.0, 2.0))
# No figure of more features can be read.
_MOST_NODES = 60
# In inches the width, the height without names, and that of a row with a name on each side.
_WIDTH, _HEIGHT_OF_REST, _ROW, _LEAST_HEIGHT = 6.8, 1.0, 0.24, 3.4
# The same in lines of text, and the letters across a figure of its own.
_LINES_OF_REST, _LINES_OF_ROW, _LETTERS = 4.5, 1.2, 88.0
# Lower axes, in lines, have no legend of sizes.
_LINES_OF_LOW = 14.0
# The least and the largest part of the width for names on one side, and their letters.
_LEAST_OF_NAMES, _PART_OF_NAMES, _LONGEST_NAME, _SHORTEST_NAME = 0.18, 0.3, 28, 8
# Where names begin, in half widths of the ellipse.
_COLUMN = 1.2
# How far an edge between opposite nodes bends towards the centre, and the points of its curve.
_BEND, _POINTS = 0.5, 33
# The line of words above the figure may be longer than letters are counted.
_LETTERS_OF_TITLE, _SHORTEST_TITLE = 1.4, 16


def network(
    d: Decomposition,
    *,
    row: Any = None,
    index: int | None = None,
    top: int = 20,
    pairs: int = 25,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw features as nodes and the leading interactions as edges.

    The area of a node is proportional to the size of the main effect, and the width of an edge to
    that of the interaction: their standard deviations, as in `Decomposition.importance`; the legend
    shows some sizes. With a `row`, area and width are proportional to the absolute effects for this
    row, red if they raise the prediction and blue if they lower it. Features that interact strongly
    are close to each other. The title states how many of the interactions are drawn, and their
    share of the variance of all interactions.

    If several trainings were purified, a faint outline around each node and edge shows the upper
    end of its 90% interval for one more training, and edges are dashed if the interval includes
    zero or, with a `row`, both signs. See `Spread.size_interval` and `Spread.band`.

    Parameters
    ----------
    d : Decomposition
        The decomposition. Sizes are root mean squares over several outputs.
    row : table of shape (n_rows, n_features), Series or ndarray of shape (n_features,), optional
        The row whose effects are drawn, or a table that contains it at position `index`. Requires a
        decomposition with one output.
    index : int, optional
        Position of the row in the table; negative positions count from the end.
    top : int
        Largest number of features: first those of the leading pairs, then those with the largest
        effects. At most 60, and fewer if the axes are low, so that names are legible.
    pairs : int
        Largest number of edges: the largest interactions between features that are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `top` or `pairs` is less than one, or `row` is not one row of a decomposition with one
        output.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.pair : An interaction as a heatmap.
    h_statistics : Interaction strength from partial dependence.

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
    if index is not None and row is None:
        raise InvalidInputError("index is the position of a row in a table: pass that table as row")
    columns = None if row is None else _one_output(d, row, index)
    effects = _sizes(d) if columns is None else _effects_of_row(d, columns)
    ends = _ends(d, columns)
    n_features = len({j for subset in effects for j in subset})
    ax, space = _axes_and_space(ax, min(top, n_features, _MOST_NODES))
    nodes, edges = _leading(effects, min(top, space.most_names), pairs)
    mains: dict[Subset, float] = {(j,): effects.get((j,), 0.0) for j in nodes}
    diameter = space.node_diameter(len(nodes))
    node_scale = _Scale.of(mains, ends, diameter)
    edge_scale = _Scale.of(edges, ends, _WIDEST_EDGE * diameter)

    def color(subset: Subset) -> str:
        if row is None:
            return MAIN if len(subset) == 1 else PAIR
        return UP if effects.get(subset, 0.0) > 0 else DOWN

    points = _around_ellipse(nodes, edges)
    _draw_edges(ax, points, edges, ends, edge_scale, color)
    reaches = _draw_nodes(ax, points, mains, ends, node_scale, color)
    limit = _name_nodes(ax, d, points, space.letters, reaches)
    ax.set_xlim(-limit, limit)
    ax.set_ylim(-1.05, 1.05)
    ax.set_axis_off()
    words = _count_words(effects, edges, (len(nodes), n_features), is_row=row is not None)
    if ends:
        unsure = "may be zero" if row is None else "may have the other sign"
        words += f"; faint: {BAND_WORDS}; dashed: {unsure}"
    if space.has_legend:
        words += f"; sizes: {'shares of the variance' if row is None else effect_label(d, 0)}"
        _label_sizes(ax, node_scale, edge_scale, is_row=row is not None)
    words = fold(words, max(int(_LETTERS_OF_TITLE * letters_along(ax, "x")), _SHORTEST_TITLE), 6)
    legend_above(ax, 3, words)
    return ax


class _End(NamedTuple):
    """How large an effect may be in one more training, and whether it may be nothing."""

    size: float
    may_vanish: bool


_NO_END = _End(0.0, may_vanish=False)


class _Space(NamedTuple):
    """What fits into axes: names, letters across, points up, and whether sizes have a legend."""

    most_names: int
    letters: float
    points: float
    has_legend: bool = True

    def node_diameter(self, n_nodes: int) -> float:
        """Return the diameter of the largest node in points."""
        per_row = self.points / max(-(-n_nodes // 2), 1)
        fitting = min(_NODE_IN_ROWS * per_row, _NODE_IN_LETTERS * self.letters)
        return float(np.clip(fitting, 2 * _SMALLEST_NODE, _LARGEST_NODE))


class _Scale(NamedTuple):
    """The largest effect of a kind, and how large it is drawn: points across, or wide."""

    largest: float
    drawn: float

    @classmethod
    def of(
        cls, effects: Mapping[Subset, float], ends: Mapping[Subset, _End], drawn: float
    ) -> "_Scale":
        """Return the scale on which the largest effect, or end of one, is drawn so large."""
        sizes = [max(abs(v), ends.get(s, _NO_END).size) for s, v in effects.items()]
        return cls(max(sizes, default=0.0), drawn)

    def part(self, size: float) -> float:
        """Return a size as a part of the largest."""
        return size / self.largest if self.largest > 0 else 0.0

    def area(self, size: float) -> float:
        """Return the area of a node, the square of its diameter in points."""
        return self.drawn**2 * self.part(size)

    def width(self, size: float) -> float:
        """Return the width of an edge in points."""
        return self.drawn * self.part(size)


def _axes_and_space(ax: "Axes | None", n_names: int) -> tuple["Axes", _Space]:
    """Return the axes, large enough where they are new, and what fits into them."""
    if ax is None:
        height = max(_HEIGHT_OF_REST + _ROW * -(-n_names // 2), _LEAST_HEIGHT)
        points = 72.0 * (height - _HEIGHT_OF_REST)
        return axes_or_new(None, _WIDTH, height), _Space(n_names, _LETTERS, points)
    ax = axes_or_new(ax, 0.0, 0.0)
    lines = lines_along(ax)
    has_legend = lines > _LINES_OF_LOW
    lines = max(lines - _LINES_OF_REST, _LINES_OF_ROW)
    most = min(2 * int(lines / _LINES_OF_ROW), _MOST_NODES)
    return ax, _Space(most, letters_along(ax, "x"), lines * points_of(SMALL_SIZE), has_legend)


def _leading(
    effects: Mapping[Subset, float], top: int, n_pairs: int
) -> tuple[list[int], dict[Subset, float]]:
    """Return the features of the largest pairs, then those with the largest effects, and pairs."""
    by_size = sorted(effects, key=lambda subset: -abs(effects[subset]))
    nodes: dict[int, None] = {}
    edges: dict[Subset, float] = {}
    for subset in by_size:
        is_edge = len(subset) == 2 and len(edges) < n_pairs
        if is_edge and len(nodes.keys() | set(subset)) <= top:
            nodes |= dict.fromkeys(subset)
            edges[subset] = effects[subset]
    totals: dict[int, float] = {}
    for subset in by_size:
        for j in subset:
            totals[j] = totals.get(j, 0.0) + abs(effects[subset])
    rest = sorted(totals.keys() - nodes.keys(), key=lambda j: (-totals[j], j))
    return [*nodes, *rest][:top], edges


def _around_ellipse(
    nodes: list[int], edges: Mapping[Subset, float]
) -> dict[int, tuple[float, float]]:
    """Return places at equal heights on both sides, those of strong partners close together."""
    if not nodes:
        return {}
    n_right = -(-len(nodes) // 2)
    right = _side(n_right)
    left = _side(len(nodes) - n_right)[::-1] * (-1.0, 1.0)
    places = np.concatenate([right, left])
    position = {j: k for k, j in enumerate(nodes)}
    weights = np.zeros((len(nodes), len(nodes)))
    for (i, j), size in edges.items():
        weights[position[i], position[j]] = weights[position[j], position[i]] = abs(size)
    chosen = _close_partners(weights, places)
    return {j: (float(x), float(y)) for j, (x, y) in zip(nodes, places[chosen], strict=True)}


def _side(n: int) -> Array:
    heights = 1.0 - (2.0 * np.arange(n) + 1.0) / max(n, 1)
    return np.column_stack([np.sqrt(1.0 - heights**2), heights])


def _close_partners(weights: Array, places: Array) -> Indices:
    """Return the place of each node, so that few strong edges are long.

    Each follows the one that it interacts with most; exchanges of two then shorten the sum of the
    lengths by weight.
    """
    if len(places) < 3:
        return np.arange(len(places))
    order = [0]
    while len(order) < len(places):
        left = np.setdiff1d(np.arange(len(places)), order)
        order.append(int(left[np.argmax(weights[order[-1], left])]))
    from scipy.optimize import quadratic_assignment

    distances = np.hypot(*(places[:, None] - places).T)
    start = np.column_stack([order, np.arange(len(places))])
    # The same whatever the program drew before.
    rng = np.random.default_rng(0)
    found = quadratic_assignment(weights, distances, "2opt", {"partial_guess": start, "rng": rng})
    return np.asarray(found.col_ind)


def _draw_edges(
    ax: "Axes",
    points: Mapping[int, tuple[float, float]],
    edges: Mapping[Subset, float],
    ends: Mapping[Subset, _End],
    scale: _Scale,
    color: Callable[[Subset], str],
) -> None:
    """Draw the pairs, the largest on top, with faint outlines where their ends are known."""
    for subset, effect in reversed(list(edges.items())):
        curve = _bent(*(np.array(points[j]) for j in subset))
        end = ends.get(subset, _NO_END)
        if end.size > 0:
            ax.plot(
                *curve,
                color=color(subset),
                alpha=_FAINT,
                linewidth=scale.width(end.size),
                solid_capstyle="round",
                zorder=0.9,
            )
        thinnest, least = (_THINNEST_DASHES, 0.7) if end.may_vanish else (_THINNEST_EDGE, 0.35)
        ax.plot(
            *curve,
            color=color(subset),
            alpha=least + (0.9 - least) * scale.part(abs(effect)),
            linewidth=max(scale.width(abs(effect)), thinnest),
            linestyle=_DASHED if end.may_vanish else "-",
            solid_capstyle="round",
            zorder=1,
        )


def _bent(start: Array, end: Array) -> Array:
    """Return a curve that bends towards the centre, the more the further apart its ends are."""
    control = (start + end) / 2 * (1.0 - _BEND * np.hypot(*(end - start)) / 2)
    t = np.linspace(0.0, 1.0, _POINTS)[:, None]
    return np.asarray(((1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end).T)


def _draw_nodes(
    ax: "Axes",
    points: Mapping[int, tuple[float, float]],
    mains: Mapping[Subset, float],
    ends: Mapping[Subset, _End],
    scale: _Scale,
    color: Callable[[Subset], str],
) -> dict[int, float]:
    """Draw the features, and return their radii in points."""
    reaches: dict[int, float] = {}
    for subset, effect in mains.items():
        x, y = points[subset[0]]
        area = max(scale.area(abs(effect)), _SMALLEST_NODE**2)
        outer = scale.area(ends.get(subset, _NO_END).size)
        if outer > area:
            ax.scatter([x], [y], s=outer, color=color(subset), alpha=_FAINT, linewidth=0, zorder=2)
        ax.scatter(
            [x], [y], s=area, color=color(subset), edgecolor="white", linewidth=0.8, zorder=2
        )
        reaches[subset[0]] = float(np.sqrt(max(area, outer))) / 2
    return reaches


def _name_nodes(
    ax: "Axes",
    d: Decomposition,
    points: Mapping[int, tuple[float, float]],
    letters: float,
    reaches: Mapping[int, float],
) -> float:
    """Write the names of nodes in a column on each side, and return where the figure ends."""
    most = int(np.clip(_PART_OF_NAMES * letters, _SHORTEST_NAME, _LONGEST_NAME))
    names = shorten_all([d.feature_names[j] for j in points], most)
    needed = (max(map(len, names), default=0) + 2) / letters
    part = float(np.clip(needed, _LEAST_OF_NAMES, _PART_OF_NAMES))
    for name, (j, (x, y)) in zip(names, points.items(), strict=True):
        side = 1 if x > 0 else -1
        ax.annotate(
            name,
            (x, y),
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
                "shrinkB": reaches[j],
                "zorder": 0,
            },
        )
    return _COLUMN / (1.0 - 2.0 * part)


def _label_sizes(ax: "Axes", nodes: _Scale, edges: _Scale, *, is_row: bool) -> None:
    """Draw sizes of effects that are round numbers for the legend alone."""
    if nodes.largest > 0:
        size = _round_below(nodes.largest * min(_LEGEND_NODE / nodes.drawn, 1.0) ** 2)
        color = MUTED if is_row else MAIN
        ax.scatter(
            [], [], s=nodes.area(size), color=color, label=f"main effect: {number_words(size)}"
        )
    for part in (1.0, 0.25) if edges.largest > 0 else ():
        size = _round_below(part * edges.largest)
        width = max(edges.width(size), _THINNEST_EDGE)
        color = MUTED if is_row else PAIR
        ax.vlines([], [], [], color=color, linewidth=width, label=f"pair: {number_words(size)}")


def _round_below(number: float) -> float:
    """Return the largest number of one digit, which is 1, 2 or 5, that is not larger."""
    power = 10.0 ** np.floor(np.log10(number))
    # The logarithm of a power of ten may be rounded up.
    first = next((digit for digit in (5, 2, 1) if digit * power <= number), 1)
    return float(f"{first * power:.1g}")


def _count_words(
    effects: Mapping[Subset, float],
    edges: Mapping[Subset, float],
    features: tuple[int, int],
    *,
    is_row: bool,
) -> str:
    """Return how many pairs and features are drawn, of how many."""
    power = 1 if is_row else 2
    sizes = [abs(effect) ** power for subset, effect in effects.items() if len(subset) == 2]
    if len(edges) == len(sizes):
        words = "no pairs" if not sizes else "the only pair" if len(sizes) == 1 else "all pairs"
    else:
        part = sum(abs(effect) ** power for effect in edges.values()) / sum(sizes)
        of = "sum" if is_row else "variance"
        words = f"{len(edges)} of {len(sizes)} pairs, with {part:.0%} of their {of}"
    shown, known = features
    return words if shown == known else f"{words}; {shown} of {known} features"


def _sizes(d: Decomposition) -> dict[Subset, float]:
    """Return the sizes of effects of one and two features."""
    by_effect = d.rank(read_rows=False).by_effect
    return _without_rounding({s: by_effect[s].size for s in d.components if len(s) <= 2})


def _without_rounding(effects: dict[Subset, float]) -> dict[Subset, float]:
    drawn = is_something(np.array([*effects.values()]))
    return {s: effect for (s, effect), known in zip(effects.items(), drawn, strict=True) if known}


def _ends(d: Decomposition, columns: Columns | None) -> dict[Subset, _End]:
    """Return the ends of what is known of each training; none where there is one training."""
    if d.spread is None:
        return {}
    if columns is None:
        intervals = {s: d.spread.size_interval(s, LEVEL, together=True) for s in d.spread.stacked}
        return {s: _End(float(high[0]), not low[0] > 0) for s, (low, high) in intervals.items()}
    each = in_each_training(d, columns, len(d.components), "terms", 0)
    if each is None:
        return {}
    ends = zip(d.components, *one_more_training(each, LEVEL), strict=True)
    return {
        s: _End(float(max(abs(low), abs(high))), bool(low <= 0 <= high))
        for s, low, high in ends
        if not np.isnan(low)
    }


def _one_output(d: Decomposition, row: Any, index: int | None) -> Columns:
    """Return the row, for one output."""
    if d.n_outputs > 1:
        raise InvalidInputError(
            f"the effects of a row can be drawn for one output only, and there are {d.n_outputs}"
            ": leave row out"
        )
    return one_row(d, row, index)


def _effects_of_row(d: Decomposition, columns: Columns) -> dict[Subset, float]:
    """Return the effects of one and two features at a row."""
    _, subsets, values = row_effects(d, columns)
    effects = zip(subsets, values[0, :, 0], strict=True)
    return _without_rounding(
        {s: float(value) for s, value in effects if s in d.components and len(s) <= 2}
    )
