"""The figure of gaps and drift: a mean margin built up from another, effect by effect."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole, read_output
from treepurify.plots.labels import margin_label, numbers_alike
from treepurify.plots.rows import draw_steps
from treepurify.plots.style import (
    FRAME,
    MUTED,
    SIZE,
    axes_or_new,
    name_below,
    name_rows,
    number_ticks,
    row_height,
    style_axes,
    write_next_to,
)
from treepurify.typing import Array
from treepurify.validation.drift import Drift
from treepurify.validation.group_gap import GroupGap
from treepurify.validation.mean_differences import COVERAGE, MeanDifferences

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def mean_difference(
    found: GroupGap | Drift, *, output: int | str = 0, top: int = 10, ax: "Axes | None" = None
) -> "Axes":
    """Draw the difference between the mean margins of two groups of rows, effect by effect.

    From the mean of the first group at the top to the mean of the second group at the bottom, each
    bar adds the difference between the means of one effect, the largest first. Effects that raise
    the mean are red, those that lower it blue. Lines are the bootstrap intervals of each effect.

    Parameters
    ----------
    found : GroupGap or Drift
        The result of `treepurify.group_gap` or `treepurify.drift`.
    output : int or str
        The output, by position or name.
    top : int
        Number of effects; all others are one more bar, without an interval.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If there is no such output, or `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    group_gap : Difference of predictions between two groups.
    drift : Change between two data sets.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> gap = tp.group_gap(d, X, ["a", "a", "b", "b"], progress=False)
    >>> [text.get_text() for text in tp.plots.mean_difference(gap).get_yticklabels()]
    ['mean of a', 'x0', 'x1', 'x0 & x1', 'mean of b']
    """
    if not isinstance(found, Drift):
        check_result("found", found, GroupGap, "treepurify.group_gap or treepurify.drift")
    check_whole("top", top, 1)
    differences = found.differences
    d = differences.decomposition
    position = read_output(output, d.output_names)
    names, values, ends = _largest(differences, position, top)
    start, end = (float(mean) for mean in differences.totals[:, position])
    reached = start + np.cumsum(values)
    starts = reached - values
    places = np.arange(1, len(values) + 1, dtype=np.float64)
    ax = axes_or_new(ax, SIZE[0], row_height(len(values) + 2))
    low, high = draw_steps(ax, places, starts, values, ends)
    joints = np.append(start, reached)
    ax.vlines(joints, np.arange(len(joints)), np.arange(len(joints)) + 1, color=FRAME, linewidth=1)
    ax.plot([start, end], [0, len(values) + 1], "o", markersize=5, color=MUTED, zorder=3)
    style_axes(ax)
    means = zip((0, len(values) + 1), (start, end), numbers_alike((start, end), 4), strict=True)
    for place, mean, words in means:
        write_next_to(ax, words, (mean, place), 6)
    first, second = (f"mean of {name}" for name in differences.names)
    name_rows(ax, [first, *names, second])
    ax.set_ylim(len(values) + 1.6, -0.6)
    low, high = min(low, start, end), max(high, start, end)
    ax.set_xlim(low - 0.04 * (high - low), high + 0.16 * (high - low))
    number_ticks(ax.xaxis)
    name_below(ax, f"{margin_label(d, position)} (lines: {COVERAGE:.0%} intervals)")
    return ax


def _largest(differences: MeanDifferences, output: int, top: int) -> tuple[list[str], Array, Array]:
    """Return names and differences of the largest effects and of the rest, with interval ends."""
    found = differences.effects
    order = differences.largest(output)
    shown, rest = order[:top], order[top:]
    names = [differences.term_name(place) for place in shown]
    values = found.value[shown, output]
    ends = np.stack([found.low[shown, output], found.high[shown, output]])
    if rest:
        names.append(f"{len(rest)} more")
        values = np.append(values, found.value[rest, output].sum())
        ends = np.column_stack([ends, [np.nan, np.nan]])
    return names, values, ends
