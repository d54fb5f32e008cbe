"""Figures of one row: how its prediction is built up, part by part."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.plots.labels import fold, with_minus
from treepurify.plots.response_axis import add_response_axis, response_words
from treepurify.plots.row_parts import Parts, largest_parts
from treepurify.plots.scale_words import margin_label
from treepurify.plots.style import (
    DOWN,
    FRAME,
    INK,
    LABEL_SIZE,
    MUTED,
    SMALL_SIZE,
    UP,
    axes_or_new,
    import_matplotlib,
    style_axes,
    write_beside,
)
from treepurify.plots.terms import output_position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["force", "waterfall"]


def waterfall(
    d: Decomposition,
    row: Any,
    *,
    parts: Parts = "terms",
    output: int | str = 0,
    top: int = 10,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how the prediction of one row is built up, part by part.

    From the mean prediction at the bottom, each bar adds one part, the largest at the top,
    where the prediction of the row is reached. What pushes up is red, what pushes down blue.
    Where the response follows from the margin by a curve, a second axis above has the response.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    row : table of shape (1, n_features), Series or ndarray of shape (n_features,)
        The row.
    parts : {"terms", "shapley"}
        Components, or features with their Shapley values; what belongs to no feature that is
        known is one more bar.
    output : int or str
        The output, by position or name.
    top : int
        Number of bars; what is left is one more bar.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `row` is not one row, or `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

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
    names, values = largest_parts(d, row, parts, position, top)
    start = float(d.intercept[position])
    ends = start + np.cumsum(values[::-1])[::-1]
    starts = ends - values
    labels = [fold(name, 40) for name in names]
    # Two lines of a label need more room than one.
    row_height = 0.38 if any("\n" in label for label in labels) else 0.3
    ax = axes_or_new(ax, 5.6, max(row_height * len(names) + 1.1, 1.8))
    places = np.arange(len(names))
    colors = [UP if value >= 0 else DOWN for value in values]
    ax.barh(places, values, left=starts, height=0.66, color=colors, zorder=2)
    joints = np.append(ends, start)
    for place in range(len(names)):
        low = place + 1 if place + 1 < len(names) else len(names)
        ax.plot([joints[place + 1]] * 2, [place, low], color=FRAME, linewidth=1, zorder=1)
    ax.plot([start], [len(names)], marker="o", markersize=5, color=MUTED, zorder=3)
    style_axes(ax)
    reach = float(np.ptp(np.concatenate([starts, ends, [start]]))) or 1.0
    lower, upper = min(starts.min(initial=start), ends.min(initial=start), start), 0.0
    upper = max(starts.max(initial=start), ends.max(initial=start), start)
    for place, value in enumerate(values):
        write_beside(ax, _signed(value), (max(starts[place], ends[place]), place))
    write_beside(ax, with_minus(f"{start:.4g}"), (start, len(names)), 6)
    ax.set_xlim(lower - 0.04 * reach, upper + 0.16 * reach)
    ax.set_yticks(np.arange(len(names) + 1), [*labels, "mean prediction"])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) + 0.6, -1.15)
    ax.xaxis.set_major_locator(import_matplotlib("ticker").MaxNLocator(5))
    reached = float(ends[0]) if len(ends) else start
    ax.plot([start] * 2, [len(names), len(names) + 0.6], color=MUTED, linewidth=1.2, zorder=1)
    ax.plot([reached] * 2, [-1.15, 0], color=INK, linewidth=1.2, zorder=1)
    said = with_minus(f"this row {reached:.4g}") + response_words(d, position, reached)
    write_beside(ax, said, (reached, -0.75), -6 if reached > (lower + upper) / 2 else 6)
    ax.set_xlabel(fold(margin_label(d, position), 60), loc="right")
    add_response_axis(ax, d, position)
    return ax


def force(
    d: Decomposition,
    row: Any,
    *,
    parts: Parts = "terms",
    output: int | str = 0,
    top: int = 8,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what pushes the prediction of one row up, and what pushes it down, on one line.

    Parts that push up end at the prediction from the left, those that push down begin there.
    The former are red, the latter blue. The names stand below, in the order of the size of
    their push.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    row : table of shape (1, n_features), Series or ndarray of shape (n_features,)
        The row.
    parts : {"terms", "shapley"}
        Components, or features with their Shapley values; what belongs to no feature that is
        known is one more bar.
    output : int or str
        The output, by position or name.
    top : int
        Number of parts; what is left is one more.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `row` is not one row, or `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.force(d, X[3:])
    >>> print(ax.texts[0].get_text())
    pushes up
    x0 = 1 +0.25
    x1 = 1 +0.25
    x0 & x1 = 1, 1 +0.25
    """
    position = output_position(d, output)
    names, values = largest_parts(d, row, parts, position, top)
    start = float(d.intercept[position])
    prediction = start + float(values.sum())
    labels = [f"{fold(n, 40, 3)}  {_signed(v)}" for n, v in zip(names, values, strict=True)]
    n_lines = sum(label.count("\n") + 1 for label in labels)
    ax = axes_or_new(ax, 7.2, 1.7 + 0.17 * n_lines)
    for sign, color, side in ((1, UP, "right"), (-1, DOWN, "left")):
        pushing = [i for i in range(len(values)) if sign * values[i] > 0]
        edge = prediction
        for i in pushing:
            size = abs(float(values[i]))
            left = edge - size if sign > 0 else edge
            ax.barh(0, size, left=left, height=0.5, color=color, edgecolor="white", linewidth=1.2)
            edge -= sign * size
        words = [labels[i] for i in pushing]
        heading = "pushes up" if sign > 0 else "pushes down"
        ax.annotate(
            "\n".join([heading, *words]) if words else "",
            (0.49 if sign > 0 else 0.51, 0.0),
            xycoords="axes fraction",
            xytext=(0, -42),
            textcoords="offset points",
            ha=side,
            va="top",
            color=color,
            fontsize=SMALL_SIZE,
            linespacing=1.35,
        )
    ax.axvline(prediction, color=INK, linewidth=1.4)
    ax.axvline(start, color=MUTED, linewidth=1, linestyle=(0, (3, 2)))
    _name_line(ax, prediction, f"this row {prediction:.4g}", INK, 16)
    _name_line(ax, start, f"mean {start:.4g}", MUTED, 3)
    style_axes(ax)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    ax.set_ylim(-0.45, 0.45)
    ax.xaxis.set_major_locator(import_matplotlib("ticker").MaxNLocator(6))
    ax.set_xlabel(fold(margin_label(d, position), 60))
    return ax


def _signed(value: float) -> str:
    return with_minus(f"{value:+.3g}")


def _name_line(ax: "Axes", place: float, text: str, color: str, height: int) -> None:
    ax.annotate(
        text,
        (place, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(0, height),
        textcoords="offset points",
        ha="center",
        va="bottom",
        color=color,
        fontsize=LABEL_SIZE,
    )
