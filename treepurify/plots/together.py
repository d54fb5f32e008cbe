"""The figure of effects that cancel: each on its own, and what they add together, on rows."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result, check_whole
from treepurify.components import TensorComponent, locate_cells
from treepurify.decomposition import Decomposition, Key
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.plots.axis_layout import AxisLayout, lay_out_axis
from treepurify.plots.feature_axes import set_axis
from treepurify.plots.labels import effect_label, shorten
from treepurify.plots.style import (
    FRAME,
    INK,
    LABEL_SIZE,
    MANY,
    RANKS,
    add_rank_scale,
    axes_or_new,
    legend_above,
    name_effect,
    ranks,
    style_axes,
)
from treepurify.plots.terms import output_position
from treepurify.rows.tables import check_any_rows
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Width and height in inches that suit the figure.
TOGETHER_SIZE = (8.0, 3.4)
# Of its width.
_PANEL = 0.46
_MOST_ROWS = 2000
_DOTS: dict[str, Any] = {"s": 7.0, "alpha": 0.5, "linewidths": 0, "rasterized": True}
# The part of a cell over which its rows are spread.
_WITHIN = (0.1, 0.9)


def together(
    d: Decomposition,
    *terms: Key,
    X: Any = None,
    output: int | str = 0,
    seed: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw effects of correlated features on the left, and their sum on the right.

    Each dot is a row. Both panels have the values of the first feature on the horizontal axis and
    the same vertical scale (the margin), so a flat sum next to steep effects shows that the effects
    mostly cancel. In the panel of the sum, the colour is the rank of the second feature, from low
    to high.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    *terms : str, int or tuple
        Two or more effects, as in ``d[key]``.
    X : array_like or table of shape (n_rows, n_features), optional
        The rows; by default those of the distribution of `d`.
    output : int or str
        The output, by position or name.
    seed : int
        Seed of the random choice of 2000 rows, in proportion to their weights, if there are more.
    ax : matplotlib Axes, optional
        Where to draw both panels; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The panel of the single effects.

    Raises
    ------
    UnknownComponentError
        If there is no such effect.
    InvalidInputError
        If fewer than two effects are named, one is not a table of cells, or there are no rows.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.importance : Shares of the most important effects.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> tp.plots.together(d, "x0", "x1").get_ylabel()
    'effect on the prediction'
    """
    check_result("d", d, Decomposition)
    check_whole("seed", seed, 0)
    components = _tables(d, terms)
    position = output_position(d, output)
    cells = _cells(d, components, X, seed)
    values = np.stack(
        [part.on_cells(own)[:, position] for part, own in zip(components, cells, strict=True)]
    )
    first, second = _two_axes(components, cells)
    layout = lay_out_axis(first.axis, first.mass, scale="auto")
    across = _places(layout, first.cells, seed)
    ax = axes_or_new(ax, *TOGETHER_SIZE)
    ax.set_axis_off()
    each = ax.inset_axes((0.0, 0.0, _PANEL, 1.0))
    total = ax.inset_axes((1.0 - _PANEL, 0.0, _PANEL, 1.0), sharey=each)
    for panel in (each, total):
        panel.axhline(0.0, color=FRAME, linewidth=0.8, zorder=0)
        style_axes(panel)
        set_axis(panel, "x", layout, first.axis.name)
    total.tick_params(axis="y", labelleft=False)
    for line, (part, effect) in enumerate(zip(components, values, strict=True)):
        name = shorten(d.term_name(part.features))
        each.scatter(across, effect, color=MANY[line % len(MANY)], label=name, **_DOTS)
    colors = ranks(second.cells.astype(np.float64))
    total.scatter(across, values.sum(axis=0), c=colors, cmap=RANKS, vmin=0, vmax=1, **_DOTS)
    name_effect(each, effect_label(d, position))
    legend_above(each, 2)
    for handle in each.get_legend().legend_handles:  # type: ignore[union-attr]
        handle.set_sizes([24.0])  # type: ignore[union-attr]
    total.set_title("their sum", loc="left", color=INK, size=LABEL_SIZE)
    add_rank_scale(total, second.axis.name)
    return each


def _tables(d: Decomposition, terms: tuple[Key, ...]) -> list[TensorComponent]:
    """Return the different effects as tables of cells."""
    components: dict[Subset, TensorComponent] = {}
    for key in terms:
        component = d[key]
        if not isinstance(component, TensorComponent):
            name = d.term_name(component.features)
            raise InvalidInputError(f"{name!r} of engine {d.engine!r} is not a table of cells")
        components[component.features] = component.stored()
    if len(components) < 2:
        raise InvalidInputError("together needs two or more effects, each named separately")
    return [*components.values()]


def _cells(
    d: Decomposition, components: list[TensorComponent], X: Any, seed: int
) -> list[npt.NDArray[Any]]:
    """Return the cells of the rows to draw along the features of each effect."""
    if X is not None:
        columns = d.inputs.columns(X)
        check_any_rows(columns.n_rows, "the rows to draw as dots")
        found = [
            np.stack([locate_cells(columns, j, a) for j, a in zip(c.features, c.axes, strict=True)])
            for c in components
        ]
        shares = np.full(columns.n_rows, 1.0 / columns.n_rows)
    elif d.grid_rows is None:
        raise InvalidInputError("this decomposition contains no rows: pass rows as X")
    else:
        found = [d.grid_rows.cells(component.features) for component in components]
        shares = d.grid_rows.shares
    if len(shares) <= _MOST_ROWS:
        return found
    chosen = np.random.default_rng(seed).choice(len(shares), _MOST_ROWS, p=shares)
    return [cells[:, chosen] for cells in found]


class _Along(NamedTuple):
    """A feature, the mass along it and the cells of the rows."""

    axis: FeatureAxis
    mass: Array
    cells: npt.NDArray[Any]


def _two_axes(
    components: list[TensorComponent], cells: list[npt.NDArray[Any]]
) -> tuple[_Along, _Along]:
    """Return the first feature of the first effect, and the first other feature."""
    found: dict[int, _Along] = {}
    # The features of the other effects come before further ones of the first.
    for place in range(max(len(part.features) for part in components)):
        for part, own in zip(components, cells, strict=True):
            if place < len(part.features):
                others = tuple(k for k in range(part.mass.ndim) if k != place)
                along = _Along(part.axes[place], part.mass.sum(axis=others), own[place])
                found.setdefault(part.features[place], along)
    first, second, *_ = found.values()
    return first, second


def _places(layout: AxisLayout, cells: npt.NDArray[Any], seed: int) -> Array:
    """Return where each row is drawn: anywhere within its cell; NaN where that is not drawn."""
    lefts, rights = np.full((2, int(cells.max(initial=0)) + 1), np.nan)
    for interval, cell in enumerate(layout.cells):
        if 0 <= cell < len(lefts):
            lefts[cell], rights[cell] = layout.edges[interval : interval + 2]
    part = np.random.default_rng(seed).uniform(*_WITHIN, len(cells))
    return np.asarray(lefts[cells] + part * (rights - lefts)[cells])
