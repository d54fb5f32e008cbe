"""The figure of one row: how its prediction is built up, part by part, with the response above."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.links import Link
from treepurify.plots.bands import BAND_WORDS
from treepurify.plots.fitting import is_narrow, rows_along
from treepurify.plots.labels import (
    fold,
    margin_label,
    number_words,
    scale_words,
    shorten_all,
    signed_words,
)
from treepurify.plots.row_parts import Parts, largest_parts
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
    name_below,
    number_ticks,
    style_axes,
    write_next_to,
)
from treepurify.plots.terms import output_position
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["add_response_axis", "waterfall"]

# Lines of text that belong to no bar.
_LINES_OF_REST = 6
# Letters of a label next to narrow axes.
_NARROW_LABEL = 16
# Links by which the response of one output follows from its own margin, strictly increasing.
_PROBABILITIES = ("logit", "cloglog", "sigmoid")
_AMOUNTS = ("log", "log1p", "softplus", "sqrt")
_KNOWN = (*_PROBABILITIES, *_AMOUNTS)
_CHANCES = np.array([0.0001, 0.001, 0.01, 0.05, *np.arange(1, 10) / 10, 0.95, 0.99, 0.999, 0.9999])
_LEAST_DISTANCE = 0.12
_HALVINGS = 80


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
        Number of bars, fewer if the axes are low. All other parts are one more bar, or two (main
        effects and interactions) if together they are larger than the smallest bar.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `row` is not one row, there is no row `index`, `top` is less than
        one, or `level` does not lie between 0 and 1.
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
    top = rows_along(ax, top, _LINES_OF_REST)
    names, values, bounds = largest_parts(d, row, index, parts, position, top)
    start = float(d.intercept[position])
    ends = start + np.cumsum(values[::-1])[::-1]
    starts = ends - values
    is_small = ax is not None and is_narrow(ax)
    labels = shorten_all(names, _NARROW_LABEL) if is_small else [fold(name, 40) for name in names]
    # Two lines of a label need more space than one.
    row_height = 0.38 if any("\n" in label for label in labels) else 0.3
    ax = axes_or_new(ax, 5.6, max(row_height * len(names) + 1.1, 1.8))
    places = np.arange(len(names))
    colors = [UP if value >= 0 else DOWN for value in values]
    ax.barh(places, values, left=starts, height=0.66, color=colors, zorder=2)
    tips = np.maximum(starts, ends)
    if bounds is not None:
        ax.hlines(places, *(starts + bounds), color="black", linewidth=1.1, zorder=3)
        tips = np.fmax(tips, starts + bounds[1])
    joints = np.append(ends, start)
    for place in range(len(names)):
        low = place + 1 if place + 1 < len(names) else len(names)
        ax.plot([joints[place + 1]] * 2, [place, low], color=FRAME, linewidth=1, zorder=1)
    ax.plot([start], [len(names)], marker="o", markersize=5, color=MUTED, zorder=3)
    style_axes(ax)
    reach = float(np.ptp(np.concatenate([starts, ends, [start]]))) or 1.0
    lowest = np.minimum(starts, ends)
    if bounds is not None:
        lowest = np.fmin(lowest, starts + bounds[0])
    lower, upper = lowest.min(initial=start), tips.max(initial=start)
    for place, value in enumerate(values):
        write_next_to(ax, signed_words(value), (tips[place], place))
    write_next_to(ax, number_words(start, 4), (start, len(names)), 6)
    # Next to the longest names the axes are so narrow that a number takes a fifth of them.
    ax.set_xlim(lower - 0.04 * reach, upper + 0.28 * reach)
    ax.set_yticks(np.arange(len(names) + 1), [*labels, _start_words(d)])
    ax.tick_params(axis="y", length=0)
    reached = float(ends[0]) if len(ends) else start
    response = "" if is_small else _response_words(d, position, reached)
    # In one line the two would be longer than the half of the axes that has space for them.
    highest, middle = (-1.75, -1.1) if response else (-1.15, -0.75)
    ax.set_ylim(len(names) + 0.6, highest)
    number_ticks(ax.xaxis, 5)
    ax.plot([start] * 2, [len(names), len(names) + 0.6], color=MUTED, linewidth=1.2, zorder=1)
    ax.plot([reached] * 2, [highest, 0], color=INK, linewidth=1.2, zorder=1)
    said = f"this row {number_words(reached, 4)}" + response.replace(" ", "\n", 1)
    write_next_to(ax, said, (reached, middle), -6 if reached > (lower + upper) / 2 else 6)
    lines = "" if bounds is None else f" (lines: {BAND_WORDS})"
    name_below(ax, margin_label(d, position) + lines)
    if not is_small:
        add_response_axis(ax, d, position)
    return ax


def _start_words(d: Decomposition) -> str:
    """Return what effects start from: on another scale its response is no mean response."""
    return f"mean {scale_words(d.link)}"


def add_response_axis(ax: "Axes", d: Decomposition, output: int) -> None:
    """Write the response above the margins of the x axis, where it follows from them alone.

    Parameters
    ----------
    ax : matplotlib Axes
        Axes whose limits are set.
    d : Decomposition
        The decomposition.
    output : int
        Position of the output.
    """
    link = d.link
    if link.name not in _KNOWN:
        return
    low, high = ax.get_xlim()
    responses = _ticks(link, low, high)
    margins = _margins_of(link, responses, low, high)
    kept = _apart(margins, responses, high - low)
    if len(kept) < 2:
        return
    top = ax.secondary_xaxis("top")
    top.set_xticks(margins[kept], [number_words(responses[k], 4) for k in kept])
    top.spines["top"].set(color=FRAME, linewidth=0.8)
    top.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=3, width=0.8)
    top.set_xlabel(_words(d, output), loc="right", color=INK, size=LABEL_SIZE)


def _response_words(d: Decomposition, output: int, margin: float) -> str:
    """Return the response in brackets, empty where it does not follow from this margin alone."""
    if d.link.name not in _KNOWN:
        return ""
    response = float(d.link.inverse(np.array([margin]))[0])
    return f" ({_words(d, output)}: {number_words(response, 3)})"


def _words(d: Decomposition, output: int) -> str:
    if d.link.name in _PROBABILITIES:
        name = d.output_names[output]
        if name in ("margin", "prediction"):
            return "probability"
        return f"probability of {name if name.startswith('class ') else f'class {name}'}"
    return "prediction"


def _ticks(link: Link, low: float, high: float) -> Array:
    """Return round responses between those of two margins."""
    least, most = link.inverse(np.array([low, high])).tolist()
    candidates = _CHANCES
    if link.name in _AMOUNTS:
        candidates = import_matplotlib("ticker").MaxNLocator(8).tick_values(least, most)
        # On a curve the small ones lie far apart, and the large ones close together.
        scale = max(abs(least), abs(most))
        powers = scale * 10.0 ** -np.arange(4)
        digits = 10.0 ** np.floor(np.log10(np.maximum(powers, 1e-300)))
        candidates = np.union1d(candidates, np.outer(digits, (1, 2, 5)).ravel())
    return np.asarray(candidates[(candidates > least) & (candidates < most)])


def _margins_of(link: Link, responses: Array, low: float, high: float) -> Array:
    """Return the margins with these responses, by bisection: the link knows one direction."""
    below, above = np.full(len(responses), low), np.full(len(responses), high)
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        is_low = link.inverse(middle) < responses
        below, above = np.where(is_low, middle, below), np.where(is_low, above, middle)
    return np.asarray((below + above) / 2)


def _apart(margins: Array, responses: Array, width: float) -> list[int]:
    """Return which ticks to keep: none too close to another, the roundest first."""
    roundness = [len(f"{response:.6g}".rstrip("0")) for response in responses]
    kept: list[int] = []
    for k in sorted(range(len(margins)), key=lambda k: (roundness[k], abs(k - len(margins) / 2))):
        if all(abs(margins[k] - margins[other]) >= _LEAST_DISTANCE * width for other in kept):
            kept.append(k)
    return sorted(kept)
