"""The figure of who interacts with whom: features as nodes, pairs as edges."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.plots.curves import BAND_WORDS
from treepurify.plots.labels import effect_label, number_words, shorten_all
from treepurify.plots.row_parts import in_each_training, is_something, one_row, row_effects
from treepurify.plots.style import (
    DOWN,
    FRAME,
    INK,
    MAIN,
    MUTED,
    PAIR,
    SIZE,
    SMALL_SIZE,
    UP,
    axes_or_new,
    legend_above,
    letters_across,
)
from treepurify.rows.columns import Columns
from treepurify.spread import LEVEL, one_more_training
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In points, the diameters of the largest and the smallest node and of that in the legend, and the
# widths of edges.
_LARGEST_NODE, _SMALLEST_NODE, _LEGEND_NODE = 24.0, 3.0, 10.0
_WIDEST_EDGE, _THINNEST_EDGE = 8.4, 0.4
_THINNEST_DASHES = 0.8  # thinner ones look like a line
_FAINT = 0.22
_DASHED = (0, (3.0, 2.0))
# No figure of more features can be read.
_MOST_NODES = 60
# In inches, a row with a name on each side, and what is above and below all of them.
_ROW, _REST = 0.26, 1.2
# The part of the width for names on one side, and where they begin, in half widths of the ellipse.
_PART_OF_NAMES, _COLUMN = 0.28, 1.2
# How far an edge between opposite nodes bends towards the centre, and the points of its curve.
_BEND, _POINTS = 0.5, 33

Places = dict[int, tuple[float, float]]


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
        effects. At most 60.
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
    effects = _effects(d, columns)
    ends = {} if d.spread is None else _ends(d, columns)
    features = {j for subset in effects for j in subset}
    nodes, edges = _leading(effects, min(top, _MOST_NODES), pairs)
    n_rows = -(-len(nodes) // 2)
    ax = axes_or_new(ax, SIZE[0], max(_REST + _ROW * n_rows, SIZE[1]))
    places = _around_ellipse(nodes, edges)
    mains: dict[Subset, float] = {(j,): effects.get((j,), 0.0) for j in nodes}
    largest = [
        max((max(abs(v), ends.get(s, _NO_END).size) for s, v in own.items()), default=0.0)
        for own in (mains, edges)
    ]
    _draw_edges(ax, places, edges, ends, largest[1], is_row=row is not None)
    reaches = _draw_nodes(ax, places, mains, ends, largest[0], is_row=row is not None)
    _name_nodes(ax, d, places, reaches)
    ax.set_axis_off()
    words = _count_words(effects, edges, (len(nodes), len(features)), is_row=row is not None)
    if ends:
        unsure = "may be zero" if row is None else "may have the other sign"
        words += f"; faint: {BAND_WORDS}; dashed: {unsure}"
    words += f"; sizes: {'standard deviation' if row is None else effect_label(d, 0)}"
    _label_sizes(ax, largest, is_row=row is not None)
    legend_above(ax, 3, words)
    return ax


class _End(NamedTuple):
    """How large an effect may be in one more training, and whether it may be nothing."""

    size: float
    may_vanish: bool


_NO_END = _End(0.0, may_vanish=False)


def _color(subset: Subset, effect: float, *, is_row: bool) -> str:
    if is_row:
        return UP if effect > 0 else DOWN
    return MAIN if len(subset) == 1 else PAIR


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


def _around_ellipse(nodes: list[int], edges: Mapping[Subset, float]) -> Places:
    """Return places at equal heights on both sides, those of strong partners close together."""
    if not nodes:
        return {}
    n_right = -(-len(nodes) // 2)
    places = np.concatenate([_side(n_right), _side(len(nodes) - n_right)[::-1] * (-1.0, 1.0)])
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
    places: Places,
    edges: Mapping[Subset, float],
    ends: Mapping[Subset, _End],
    largest: float,
    *,
    is_row: bool,
) -> None:
    """Draw the pairs, the largest on top, with faint outlines where their ends are known."""
    for subset, effect in reversed(list(edges.items())):
        curve = _bent(*(np.array(places[j]) for j in subset))
        color = _color(subset, effect, is_row=is_row)
        end, part = ends.get(subset, _NO_END), abs(effect) / (largest or 1.0)
        if end.size > 0:
            width = _WIDEST_EDGE * end.size / largest
            ax.plot(*curve, color=color, alpha=_FAINT, linewidth=width, zorder=0.9)
        thinnest, least = (_THINNEST_DASHES, 0.7) if end.may_vanish else (_THINNEST_EDGE, 0.35)
        ax.plot(
            *curve,
            color=color,
            alpha=least + (0.9 - least) * part,
            linewidth=max(_WIDEST_EDGE * part, thinnest),
            linestyle=_DASHED if end.may_vanish else "-",
            zorder=1,
        )


def _bent(start: Array, end: Array) -> Array:
    """Return a curve that bends towards the centre, the more the further apart its ends are."""
    control = (start + end) / 2 * (1.0 - _BEND * np.hypot(*(end - start)) / 2)
    t = np.linspace(0.0, 1.0, _POINTS)[:, None]
    return np.asarray(((1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end).T)


def _draw_nodes(
    ax: "Axes",
    places: Places,
    mains: Mapping[Subset, float],
    ends: Mapping[Subset, _End],
    largest: float,
    *,
    is_row: bool,
) -> dict[int, float]:
    """Draw the features, and return their radii in points."""
    reaches: dict[int, float] = {}
    for subset, effect in mains.items():
        x, y = places[subset[0]]
        scale = _LARGEST_NODE**2 / (largest or 1.0)
        area = max(scale * abs(effect), _SMALLEST_NODE**2)
        outer = scale * ends.get(subset, _NO_END).size
        color = _color(subset, effect, is_row=is_row)
        if outer > area:
            ax.scatter([x], [y], s=outer, color=color, alpha=_FAINT, linewidth=0, zorder=2)
        ax.scatter([x], [y], s=area, color=color, edgecolor="white", linewidth=0.8, zorder=2)
        reaches[subset[0]] = float(np.sqrt(max(area, outer))) / 2
    return reaches


def _name_nodes(ax: "Axes", d: Decomposition, places: Places, reaches: Mapping[int, float]) -> None:
    """Write the names of nodes in a column on each side, and set where the figure ends."""
    most = int(np.clip(0.4 * letters_across(ax), 8, 28))
    names = shorten_all([d.feature_names[j] for j in places], most)
    for name, (j, (x, y)) in zip(names, places.items(), strict=True):
        side = 1 if x > 0 else -1
        line = {"arrowstyle": "-", "color": FRAME, "linewidth": 0.7, "zorder": 0}
        line |= {"relpos": (0.5 - side / 2, 0.5), "shrinkA": 1, "shrinkB": reaches[j]}
        ax.annotate(
            name,
            (x, y),
            xytext=(side * _COLUMN, y),
            ha="left" if side > 0 else "right",
            va="center",
            color=INK,
            fontsize=SMALL_SIZE,
            arrowprops=line,
        )
    limit = _COLUMN / (1.0 - 2.0 * _PART_OF_NAMES)
    ax.set(xlim=(-limit, limit), ylim=(-1.05, 1.05))


def _label_sizes(ax: "Axes", largest: list[float], *, is_row: bool) -> None:
    """Draw sizes of effects that are round numbers for the legend alone."""
    of_nodes, of_edges = largest
    if of_nodes > 0:
        size = _round_below(of_nodes * (_LEGEND_NODE / _LARGEST_NODE) ** 2)
        area = _LARGEST_NODE**2 * size / of_nodes
        color, words = MUTED if is_row else MAIN, number_words(size)
        ax.scatter([], [], s=area, color=color, label=f"main effect: {words}")
    for part in (1.0, 0.25) if of_edges > 0 else ():
        size = _round_below(part * of_edges)
        width = max(_WIDEST_EDGE * size / of_edges, _THINNEST_EDGE)
        color, words = MUTED if is_row else PAIR, number_words(size)
        ax.vlines([], [], [], color=color, linewidth=width, label=f"pair: {words}")


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


def _effects(d: Decomposition, columns: Columns | None) -> dict[Subset, float]:
    """Return sizes of main effects and pairs, or their effects on a row."""
    if columns is None:
        by_effect = d.rank(read_rows=False).by_effect
        drawn = [(subset, by_effect[subset].size) for subset in d.components]
    else:
        _, subsets, values = row_effects(d, columns)
        pairs = zip(subsets, values[0, :, 0].tolist(), strict=True)
        drawn = [(subset, value) for subset, value in pairs if subset in d.components]
    drawn = [(subset, value) for subset, value in drawn if len(subset) <= 2]
    known = is_something(np.array([value for _, value in drawn]))
    return {s: value for (s, value), is_known in zip(drawn, known, strict=True) if is_known}


def _ends(d: Decomposition, columns: Columns | None) -> dict[Subset, _End]:
    """Return the ends of what is known of each of several trainings."""
    if columns is None and d.spread is not None:
        found = ((s, d.spread.size_interval(s, LEVEL, together=True)) for s in d.spread.stacked)
        return {s: _End(float(high[0]), not low[0] > 0) for s, (low, high) in found}
    each = in_each_training(d, columns, len(d.components), "terms", 0) if columns else None
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
