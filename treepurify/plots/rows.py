"""The figure of one row: how its prediction is built up, part by part, with the response above."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.plots.curves import BAND_WORDS
from treepurify.plots.labels import fold, margin_label, number_words, numbers_alike, scale_words
from treepurify.plots.ratio_axis import add_response_axis, response_words
from treepurify.plots.row_parts import Parts, largest_parts
from treepurify.plots.style import (
    DOWN,
    FRAME,
    INK,
    MUTED,
    SIZE,
    UP,
    axes_or_new,
    name_below,
    number_ticks,
    row_height,
    style_axes,
    write_next_to,
)
from treepurify.plots.terms import output_position
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def waterfall(
    d: Decomposition,
    row: Any,
    *,
    index: int | None = None,
    parts: Parts = "terms",
    output: int | str = 0,
    top: int = 10,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how the effects of one row add up to its prediction.

    From the mean prediction at the bottom to the prediction of the row at the top, each bar adds
    one part, the largest last. Parts that raise the prediction are red, parts that lower it blue.
    The axis is on the margin scale; if the response differs from the margin (a probability, for
    example), a second axis above shows it. If several trainings were purified, lines are prediction
    intervals of 90% for the end of each bar in one more training (`Spread.band`), with the bars
    below it unchanged.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    row : table of shape (n_rows, n_features), Series or ndarray of shape (n_features,)
        The row, or a table that contains it at position `index`.
    index : int, optional
        Position of the row in the table, not its label; negative positions count from the end.
    parts : {"terms", "shapley"}
        ``"terms"`` for effects, ``"shapley"`` for the Shapley values of features. A part of the
        model whose features are unknown is one more bar.
    output : int or str
        The output, by position or name.
    top : int
        Number of bars. All other parts are one more bar, or two (main
        effects and interactions) if together they are larger than the smallest bar.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `row` is not one row, there is no row `index`, or `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.beeswarm : Effects of many rows.
    Decomposition.contributions : Effects on each row.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from treepurify.plots import waterfall
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> [text.get_text() for text in waterfall(d, X[3:]).get_yticklabels()]
    ['x0 = 1', 'x1 = 1', 'x0 & x1 = 1, 1', 'mean prediction']
    """
    position = output_position(d, output)
    names, values, bounds = largest_parts(d, row, index, parts, position, top)
    n, start = len(names), float(d.intercept[position])
    joints = start + np.append(np.cumsum(values[::-1])[::-1], 0.0)
    starts = joints[1:]
    labels = [fold(name, 40) for name in names]
    # Two lines of a label need more space than one.
    n_lines = sum(1 + 0.3 * ("\n" in label) for label in labels)
    ax = axes_or_new(ax, SIZE[0], row_height(int(n_lines) + 1))
    places = np.arange(n, dtype=np.float64)
    low, high = draw_steps(ax, places, starts, values, bounds)
    ax.vlines(joints[1:], places, places + 1, color=FRAME, linewidth=1, zorder=1)
    ax.plot([start], [n], marker="o", markersize=5, color=MUTED, zorder=3)
    style_axes(ax)
    write_next_to(ax, number_words(start, 4), (start, n), 6)
    # Next to the longest names the axes are so narrow that a number takes a fifth of them.
    ax.set_xlim(low - 0.04 * (high - low), high + 0.28 * (high - low))
    # Effects start from no mean response on another scale.
    ax.set_yticks(np.arange(n + 1), [*labels, f"mean {scale_words(d.link)}"])
    ax.tick_params(axis="y", length=0)
    reached = float(joints[0])
    response = response_words(d, position, reached)
    # In one line the two would be longer than the half of the axes that has space for them.
    highest, middle = (-1.75, -1.1) if response else (-1.15, -0.75)
    ax.set_ylim(n + 0.6, highest)
    number_ticks(ax.xaxis)
    ax.plot([start] * 2, [n, n + 0.6], color=MUTED, linewidth=1.2, zorder=1)
    ax.plot([reached] * 2, [highest, 0], color=INK, linewidth=1.2, zorder=1)
    said = f"this row {number_words(reached, 4)}" + response.replace(" ", "\n", 1)
    write_next_to(ax, said, (reached, middle), -6 if reached > (low + high) / 2 else 6)
    lines = "" if bounds is None else f" (lines: {BAND_WORDS})"
    name_below(ax, margin_label(d, position) + lines)
    add_response_axis(ax, d, position)
    return ax


def draw_steps(
    ax: "Axes", places: Array, starts: Array, values: Array, bounds: Array | None
) -> tuple[float, float]:
    """Draw bars that add up, red where they raise a sum, and return from where to where they go.

    Each has its number next to it, and a line between the `bounds` of its end, shape (2, n).
    """
    ends = starts + values
    colors = [UP if value >= 0 else DOWN for value in values]
    ax.barh(places, values, left=starts, height=0.66, color=colors, zorder=2)
    low, high = np.minimum(starts, ends), np.maximum(starts, ends)
    if bounds is not None:
        ax.hlines(places, *(starts + bounds), color="black", linewidth=1.1, zorder=3)
        low, high = np.fmin(low, starts + bounds[0]), np.fmax(high, starts + bounds[1])
    for place, tip, words in zip(places, high, numbers_alike(values, signed=True), strict=True):
        write_next_to(ax, words, (float(tip), float(place)))
    if not len(values):
        return 0.0, 1.0
    lowest, highest = float(low.min()), float(high.max())
    return lowest, highest if highest > lowest else lowest + 1.0
