"""The figure of many rows: one dot per row and effect, coloured by the value of the feature."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.plots.labels import effect_label
from treepurify.plots.row_parts import Parts, as_table, row_effects
from treepurify.plots.style import (
    DATA,
    DOWN,
    FRAME,
    RANKS,
    SIZE,
    UP,
    add_rank_scale,
    axes_or_new,
    name_below,
    name_rows,
    number_ticks,
    ranks,
    row_height,
    style_axes,
)
from treepurify.plots.terms import output_position
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.given_rows import given_rows
from treepurify.rows.samples import sample_rows
from treepurify.rows.tables import check_any_rows
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 2000
_BINS = 120
_SIDE_ALPHA = 0.06


def beeswarm(
    d: Decomposition,
    X: Any,
    *,
    parts: Parts = "terms",
    output: int | str = 0,
    top: int = 12,
    seed: int = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the effects of many rows, with one dot per row and effect.

    The position of a dot shows the effect on the margin scale; dots that would overlap are spread
    out vertically. The colour shows the rank of the row's value of the feature, from low to high;
    it is grey for pairs, categories and missing values. The background is reddish for effects that
    raise the prediction and bluish for those that lower it.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : table of shape (n_rows, n_features), rows in batches, or one row
        The rows, or one row as a Series or array of shape (n_features,). If there are more than
        2000, a random sample of 2000 rows is drawn; for rows in batches, the label of the axis says
        so.
    parts : {"terms", "shapley"}
        ``"terms"`` for effects, ``"shapley"`` for the Shapley values of features.
    output : int or str
        The output, by position or name.
    top : int
        Number of effects, the largest first (see `Decomposition.ranking`); or of features, by
        the mean absolute Shapley value.
    seed : int
        Seed of the random choice of rows.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `X` has no rows, or `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.waterfall : The prediction of one row, effect by effect.
    Decomposition.contributions : Effects on each row.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.beeswarm(d, X)
    >>> sorted(text.get_text() for text in ax.get_yticklabels())
    ['x0', 'x0 & x1', 'x1']
    """
    check_result("d", d, Decomposition)
    check_whole("top", top, 1)
    check_whole("seed", seed, 0)
    columns, words = _rows_to_draw(d, X, seed)
    position = output_position(d, output)
    names, subsets, table = row_effects(d, columns, parts)
    values = table[:, :, position]
    sizes = -np.abs(values).mean(axis=0)
    if parts == "terms":
        places = {subset: place for place, subset in enumerate(d.ranking.order)}
        sizes = np.array([places.get(subset, places.get((), 0)) for subset in subsets])
    order = np.argsort(sizes, kind="stable")[:top]
    ax = axes_or_new(ax, SIZE[0], row_height(len(order)))
    ax.axvline(0.0, color=FRAME, linewidth=0.8, zorder=0)
    for place, term in enumerate(order):
        subset = subsets[term]
        is_ranked = len(subset) == 1 and not d.inputs.features[subset[0]].is_categorical
        rank = ranks(columns.values[subset[0]]) if is_ranked else np.full(len(values), np.nan)
        _draw_dots(ax, values[:, term], rank, place)
    style_axes(ax)
    name_rows(ax, [names[i] for i in order])
    number_ticks(ax.xaxis)
    limits = ax.get_xlim()
    for end, color in zip(limits, (DOWN, UP), strict=True):
        ax.axvspan(0.0, end, color=color, alpha=_SIDE_ALPHA, linewidth=0, zorder=-1)
    ax.set_xlim(limits)
    label = effect_label(d, position)
    if parts == "shapley":
        label = f"Shapley value: {label}"
    name_below(ax, f"{label}{words}")
    add_rank_scale(ax, "value")
    return ax


def _rows_to_draw(d: Decomposition, X: Any, seed: int) -> tuple[Columns, str]:
    """Return the rows, a sample of many; and for rows in batches how many these are of how many."""
    report = progress_report(True)
    rows = given_rows(
        as_table(X), d.inputs.features, None, (), DEFAULT_BUDGET, report, most=_MOST_ROWS, seed=seed
    )
    columns = d.inputs.columns(rows.table)
    check_any_rows(columns.n_rows, "the rows to draw")
    if columns.n_rows > _MOST_ROWS:
        columns = columns.take(sample_rows(columns.n_rows, None, _MOST_ROWS, seed).picked)
    return columns, f"; {rows.words}" if rows.words else ""


def _draw_dots(ax: "Axes", values: Array, rank: Array, place: int) -> None:
    height = place + _spread(values)
    plain = np.isnan(rank)
    settings: dict[str, Any] = {"s": 6.0, "linewidths": 0, "rasterized": len(values) > 300}
    ax.scatter(values[plain], height[plain], color=DATA, zorder=2, **settings)
    ax.scatter(
        values[~plain],
        height[~plain],
        c=rank[~plain],
        cmap=RANKS,
        vmin=0.0,
        vmax=1.0,
        zorder=3,
        **settings,
    )


def _spread(values: Array) -> Array:
    """Return how far each dot moves from its line: those in one bin stand next to each other."""
    reach = float(np.ptp(values))
    bins = ((values - values.min()) / reach * _BINS).astype(int) if reach > 0 else values * 0
    order = np.argsort(bins, kind="stable")
    starts = np.searchsorted(bins[order], bins[order], side="left")
    level = np.arange(len(values)) - starts
    offset = np.empty(len(values))
    offset[order] = (level + 1) // 2 * np.where(level % 2, 1, -1)
    largest = np.abs(offset).max(initial=0.0)
    return offset * min(0.04, 0.4 / largest) if largest > 0 else offset
